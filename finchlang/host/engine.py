"""The engine: picks the first applicable rule, again and again. That is its whole job.

A rule is an object in a table, with the paper's name and the rule itself as its docstring. Its
function looks at a term and a state and gives None if it does not apply, or the term that is left
to run and the state after what it did through the host. A rule never asks which host it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

from finchlang.base.errors import Bug, FinchError
from finchlang.base.records import record
from finchlang.host.ir import Expr
from finchlang.syntax.nodes import EMPTY, Node, is_empty
from finchlang.text.print import pretty


class Stuck(Bug):
    """A premise of a rule does not hold, so that the program has no next step; after the passes this never
    happens. `rule` is the rule's name, `premise` says what had to hold."""

    def __init__(self, premise: str, term: Node, why: str = ""):
        self.rule, self.premise, self.term, self.why = "", premise, term, why

    def of(self, rule: str) -> Stuck:
        """This, with the rule at fault, unless an inner one has been named."""
        self.rule = self.rule or rule
        return self

    def __str__(self) -> str:
        why = f" ({self.why})" if self.why else ""
        term = pretty(self.term).splitlines()[0]
        return f"{self.rule} is stuck at `{term}`: {self.premise} does not hold{why}"


#: what rules pass on: which host there is (`host`), and what is static of it all
State = Any
#: what a rule returns: the rest of the term to run, and the state now
Step = tuple[Node, State]


@record(eq=False)
class Rule:
    """A row of the rule table. `apply` takes a machine, a term and a state, and returns a Step, or None if
    the rule does not apply; a rule for expressions returns their value. `steps` names the steps of the
    semantics that `apply` tells the tracer of itself, because it takes several at once or the host decides
    which; the engine tells of all others. `says` is what the rule does in plain words, as a template that
    `repl/sentences.py` fills in."""

    name: str
    apply: Callable[..., Any]
    is_derived: bool = False
    steps: tuple[str, ...] = ()
    says: str = ""

    @property
    def statement(self) -> str:
        """The rule as it is written in its docstring."""
        return self.apply.__doc__ or ""


def rule(
    name: str, is_derived: bool = False, steps: tuple[str, ...] = (), says: str = ""
) -> Callable[[Callable[..., Any]], Rule]:
    """Decorator: makes a function the rule `name`; its docstring is the rule's statement."""
    return lambda function: Rule(name, function, is_derived, steps, says)


class EventKind(Enum):
    """What a tracer may be told of."""

    STEP = "a statement's rule"
    PREMISE = "a rule of which a premise is run next; the step comes after it"
    EXPRESSION = "a rule for expressions"


@record(slots=True)
class Applied:
    """A rule was applied to `before`, and `after` is left. `depth` counts the premises around it; its own
    premises are told of before it, one deeper. `at` is where an iteration begins, if the rule has
    iterations, `law` the law that Simplify used."""

    name: str
    before: Node
    after: Node
    depth: int
    at: Expr | None = None
    kind: EventKind = EventKind.STEP
    law: str = ""


Tracer = Callable[[Applied], None]


@record
class OneByOne:
    """A tracer that wants loops to take their steps one by one. `value` evaluates a host expression, as is
    possible where the program is executed."""

    tell: Tracer
    value: Callable[[Expr], Any]

    def __call__(self, applied: Applied) -> None:
        self.tell(applied)


#: makes the terms before and after a step; called only if there is a tracer
Terms = Callable[[], tuple[Node, Node]]


class Arm(NamedTuple):
    """One arm of a branch: the step `name` from `before` to `after`, which is run in `state`."""

    name: str
    before: Node
    after: Node
    state: State
    at: Expr | None = None


class Machine:
    """Runs terms by the rules of a table, in order of priority. A rule with a step for each iteration takes
    all of them, in a loop of the host; with `one_by_one` it takes the first, and returns what is left."""

    def __init__(self, rules: Iterable[Rule], tracer: Tracer | None = None):
        self.rules = tuple(rules)
        self.names = frozenset(rule.name for rule in self.rules)
        self.tracer = tracer
        self.one_by_one = tracer if isinstance(tracer, OneByOne) else None
        self.depth = 0

    def by(self, rules: Iterable[Rule]) -> Machine:
        """A machine with other rules, as deep in premises as this one, which tells the same tracer."""
        other = Machine(rules, self.tracer)
        other.depth = self.depth
        return other

    def run(self, term: Node, state: State) -> State:
        """Run a statement to its end, as the premise of a rule; gives the state after it."""
        self.depth += 1
        state = self.go_on(term, state)
        self.depth -= 1
        return state

    def go_on(self, term: Node, state: State) -> State:
        """Run what is left of a statement to its end, at the depth it has."""
        while not is_empty(term):
            term, state = self.step(term, state)
        return state

    def step(self, term: Node, state: State) -> Step:
        """Apply the first applicable rule."""
        for candidate in self.rules:
            try:
                result = candidate.apply(self, term, state)
            except Stuck as stuck:
                raise stuck.of(candidate.name) from None
            except FinchError as error:
                raise (error.at(term.span) if error.kind == "resource" else error) from None
            if result is not None:
                if self.tracer is not None and not candidate.steps:
                    self.tracer(Applied(candidate.name, term, result[0], self.depth))
                return result
        raise Bug(f"no rule applies to {term!r}")

    # ------------------------------------------------------------------------------- steps in rules

    def tell(self, name: str, terms: Terms, at: Expr | None = None, law: str = "") -> None:
        """Tell the tracer of a step that a rule takes; without a tracer `terms` are not made."""
        if self.tracer is not None:
            self.tracer(Applied(name, *terms(), self.depth, at, law=law))

    def tell_expression(self, name: str, terms: Terms) -> None:
        """Tell the tracer of a premise of the next step: an expression has a value."""
        if self.tracer is not None:
            self.tracer(Applied(name, *terms(), self.depth + 1, kind=EventKind.EXPRESSION))

    def premise(
        self, name: str, before: Node, premise: Node, state: State, at: Expr | None = None
    ) -> State:
        """Run a premise of the rule `name`, which is being applied to `before`."""
        if self.tracer is not None:
            self.tracer(Applied(name, before, before, self.depth, at, EventKind.PREMISE))
        return self.run(premise, state)

    def branch(self, condition: Expr, then: Arm, other: Arm) -> Step:
        """Branch in the host: the arm taken takes its step, and runs to its end. Where steps are taken one
        by one, the step of the arm that holds is returned instead."""
        state = other.state
        if self.one_by_one:
            chosen = then if self.holds(condition) else other
            self.tell(chosen.name, lambda: (chosen.before, chosen.after), chosen.at)
            return chosen.after, chosen.state
        state.host.branch(condition, partial(self.take, then), partial(self.take, other))
        return EMPTY, state

    def take(self, arm: Arm) -> None:
        self.tell(arm.name, lambda: (arm.before, arm.after), arm.at)
        self.go_on(arm.after, arm.state)

    def holds(self, condition: Expr) -> bool:
        """The value of a condition now; only where steps are taken one by one."""
        assert self.one_by_one is not None
        return bool(self.one_by_one.value(condition))
