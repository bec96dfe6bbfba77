"""One term in which operands are told apart together: what points and regions have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from finchlang.host.fold import TRUE
from finchlang.host.ir import Expr, Op, Var
from finchlang.looplets import Choice
from finchlang.rules.cases import Analysis, Cases, Outcome
from finchlang.rules.context import bounded, put
from finchlang.rules.engine import Machine, State, Step
from finchlang.syntax import EMPTY, Access, Assign, Literal, Node
from finchlang.walk import map_children

#: a term, made where it is known to be needed
Arm = Callable[[], Node]


class Joint(ABC):
    """The rule Union on one term."""

    def __init__(self, machine: Machine, term: Node, state: State, choices: list[Choice]):
        self.machine, self.term, self.state = machine, term, state
        self.host, self.choices = state.host, choices
        self.analysis = Analysis(self.cases)

    @abstractmethod
    def cases(self, access: Access) -> Cases | None:
        """In which cases the access is a literal, and which; None if it takes no part."""

    def in_arms(self, arms: Sequence[tuple[Expr, Arm]], last: Arm) -> Step:
        """What is left to do: the arm whose condition holds, or the last if none does."""
        if not arms:
            return last(), self.state

        def attempt(k: int) -> None:
            if k == len(arms):
                self.machine.run(last(), self.state)
                return
            condition, arm = arms[k]
            self.host.branch(condition, lambda: self._run(arm), lambda: attempt(k + 1))

        attempt(0)
        return EMPTY, self.state

    def certain(self, condition: Expr) -> Expr:
        """`condition`, or true if this coordinate is certain to be the end of what it asks for, or
        not before its start."""
        region = bounded(self.term)
        asked = [
            c for c in _alternatives(condition) if isinstance(c, Op) and c.name in ("eq", "le")
        ]
        at = None if region is None else region[0]
        ends = {a for c in asked for a in c.args if a is not at}
        return TRUE if at is not None and _is_one_of(at, ends) else condition

    def _run(self, arm: Arm) -> None:
        self.machine.run(arm(), self.state)

    def one_by_one(self) -> Step:
        """All the options of the first choice, each for itself."""
        first = self.choices[0]
        arms = [(when, partial(put, self.term, {id(first): n})) for when, n in first.options]
        return self.in_arms(arms, partial(put, self.term, {id(first): first.otherwise}))


def outcome_of(node: Node) -> Outcome:
    return node if isinstance(node, Literal) else None


def replaced(term: Node, old: Node, new: Node) -> Node:
    """`term` with an expression replaced wherever it is read."""

    def visit(node: Node) -> Node:
        if node == old:
            return new
        if isinstance(node, Assign):
            return Assign(node.target, node.op, visit(node.value), span=node.span)
        changed: Node = map_children(visit, node)
        return changed

    return visit(term)


def _alternatives(condition: Expr) -> Iterator[Expr]:
    if isinstance(condition, Op) and condition.name == "or":
        for arg in condition.args:
            yield from _alternatives(arg)
    else:
        yield condition


def _is_one_of(at: Expr, ends: set[Expr]) -> bool:
    """Whether `at` is certain to be among `ends`, as the least of some of them."""
    if at in ends:
        return True
    if isinstance(at, Var) and at.definition is not None:
        return _is_one_of(at.definition, ends)
    return isinstance(at, Op) and at.name == "min" and all(_is_one_of(a, ends) for a in at.args)
