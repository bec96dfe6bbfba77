"""The rule Union over several coordinates, in all of which each choice falls on the same option."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from finchlang.algebra.simplify import simplify
from finchlang.host import construct as code, ir
from finchlang.host.engine import Step
from finchlang.host.guarding import guarded
from finchlang.host.interface import Host
from finchlang.levels.looplets import AcceptRun, Choice, Lookup, Run, Switch, may_be_missing
from finchlang.rules.base.context import accesses_in, find_looplets, is_at, put, put_in, take_turns
from finchlang.rules.derived.joint_cases import Arm, Joint, Outcome, Outcomes, outcome_of, replaced
from finchlang.rules.derived.pieces import choose
from finchlang.rules.derived.union_at_a_point import Point
from finchlang.syntax import nodes as ast, traversal as trees


class Region(Joint):
    """The rule over several coordinates, in all of which the same options are chosen."""

    term: ast.Loop

    def outcomes(self, access: ast.Access) -> Outcomes | None:
        if any(accesses_in(index) for index in access.indices):
            return None
        if is_at(access, self.term.index) and isinstance(access.tensor, (Choice, Run)):
            tensor = access.tensor
            if isinstance(tensor, Run):
                return [], outcome_of(tensor.body)
            given = [(when, _body_outcome(node)) for when, node in tensor.options]
            return given, _body_outcome(tensor.otherwise)
        return [], None

    def step(self) -> Step:
        best, most = None, 0
        for node in self._candidates(self.term):
            found = self._among(node)
            if len(found) > most and all(map(is_of_runs_and_lookups, found)):
                best, most = node, len(found)
        if best is None:
            return self.one_by_one()
        given, otherwise = self.cases(best)
        choices = self._among(best)
        is_tensor = isinstance(best, ast.Access) and len(best.indices) > 1
        arms: list[tuple[ir.Expr, Arm]] = []
        outcomes: list[Outcome] = []
        whole = [(self.certain(when), outcome) for when, outcome in given]
        for when, outcome in [*whole, (code.TRUE, otherwise)]:
            arms += self._arms(best, choices, when, outcome)
            outcomes += [outcome] * (len(arms) - len(outcomes))
        if is_tensor or not self._parts(best, outcomes):
            return self._told_apart_within(), self.state
        return self.in_arms(arms[:-1], arms[-1][1])

    def _parts(self, node: ast.Node, outcomes: list[Outcome]) -> bool:
        """Whether each choice that an expression does not decide, and each one of tensors, is left for one
        of these outcomes of it alone."""
        own = {a.tensor for a in accesses_in(node) if len(a.indices) == 1}
        rests = [simplify(replaced(self.term, node, node if x is None else x)) for x in outcomes]
        left = [
            x for rest in rests for x in find_looplets(rest) if x in self.choices and x not in own
        ]
        return len(left) == len(set(left))

    def _told_apart_within(self) -> ast.Node:
        """Where telling choices apart here would do others twice: the choices made once, if everything the
        loop goes over is accepted whole, else made at each coordinate and told apart there, or within."""
        own = [c for c in self.choices if is_of_runs_and_lookups(c)]
        here = {a.tensor for a in accesses_in(self.term) if is_at(a, self.term.index)}
        rest = here.difference(own)
        is_whole = all(map(_is_of_runs, own)) and not take_turns(self.term)
        is_whole = is_whole and all(isinstance(x, (Run, AcceptRun)) for x in rest)
        return self._moved_in(own, _as_run if is_whole else as_lookup)

    def _arms(
        self, best: ast.Node, choices: list[Choice], when: ir.Expr, outcome: Outcome
    ) -> list[tuple[ir.Expr, Arm]]:
        """What is left to do where `best` is `outcome`."""
        if outcome is not None:
            return [(when, partial(replaced, self.term, best, outcome))]
        options = [o for c in choices for o in _options(c)]
        if len(choices) == 1 and not all(map(_is_of_runs, choices)):
            (choice,) = choices
            return [
                (code.op("and", when, c), partial(put, self.term, {id(choice): node}))
                for c, node in options
            ]
        looks = code.disjunction(*(c for c, node in options if not isinstance(node, Run)))
        runs = (when, partial(self._moved_in, choices, _as_run))
        look = partial(self._read_once, best, choices)
        if all(map(_is_of_runs, choices)):
            return [runs]
        if looks is when or looks is code.TRUE or _varies(best) or not all(map(_runs, choices)):
            return [(when, look)]
        return [(code.op("and", when, looks), look), runs]

    def _read_once(self, best: ast.Node, choices: list[Choice]) -> ast.Node:
        """The loop with the numbers of `best` that are the same at all coordinates read before it, if none
        decides by its structure; else with the choices made at each coordinate."""
        there: dict[int, ast.Node] = {}
        point = Point(self.machine, self.term, self.state, [])
        are_decided = any(self.is_decided(n) for n in trees.find_all(best, ast.Call))
        for access in () if are_decided else accesses_in(best):
            choice: Any = access.tensor
            if choice in choices and _is_of_runs(choice) and not access.may_miss:
                payload = put_in(access, _as_run(choice).body, True)
                value = point.value(payload) if isinstance(payload, ast.Access) else payload
                if isinstance(value, ast.Value):
                    there[id(choice)] = Run(value)
        if not there:
            return self._moved_in(choices, as_lookup)
        return replaced(self.term, best, put(best, there))

    def _candidates(self, node: ast.Node) -> Iterator[ast.Node]:
        if isinstance(node, (ast.Call, ast.Access)) and self.is_known(node):
            yield node
            return
        for child in [node.value] if isinstance(node, ast.Assign) else trees.children(node):
            yield from self._candidates(child)

    def _among(self, node: ast.Node) -> list[Choice]:
        found = [a.tensor for a in accesses_in(node) if is_at(a, self.term.index)]
        return list(dict.fromkeys(t for t in found if isinstance(t, Choice)))

    def _moved_in(self, choices: list[Choice], move: Callable[[Choice], ast.Node]) -> ast.Node:
        term: ast.Node = put(self.term, {id(c): move(c) for c in choices})
        return term


def is_of_runs_and_lookups(choice: Choice) -> bool:
    """Whether all options have a payload at each coordinate."""
    return all(isinstance(node, (Run, Lookup)) for node in choice.nodes)


def _is_of_runs(choice: Choice) -> bool:
    return all(isinstance(node, Run) for node in choice.nodes)


def _varies(node: ast.Node) -> bool:
    """Whether an expression has lookups besides choices."""
    return any(isinstance(a.tensor, Lookup) for a in accesses_in(node))


def _body_outcome(node: ast.Node) -> Outcome:
    return outcome_of(node.body) if isinstance(node, Run) else None


def _none(choice: Choice) -> ir.Expr:
    return code.op("not", code.disjunction(*(when for when, _ in choice.options)))


def _options(choice: Choice) -> tuple[tuple[ir.Expr, ast.Node], ...]:
    """The options of a choice, what it is otherwise among them."""
    return *choice.options, (_none(choice), choice.otherwise)


def _runs(choice: Choice) -> list[tuple[ir.Expr, ast.Node]]:
    """The runs among the options of a choice, by what they are runs of."""
    return [(when, n.body) for when, n in _options(choice) if isinstance(n, Run)]


def _as_run(choice: Choice) -> Run:
    """A choice of which no lookup is taken."""
    *bodies, (_, last) = _runs(choice)
    return Run(choose(bodies, last, choice.is_stored))


def as_lookup(choice: Choice) -> Lookup:
    """A choice made at each coordinate."""

    def at(host: Host, i: ir.Expr) -> ast.Node:
        options = [(when, _at(guarded(host, when), node, i)) for when, node in choice.options]
        rest = _at(guarded(host, _none(choice)), choice.otherwise, i)
        return choose(options, rest)

    return Lookup(at, may_miss=may_be_missing(choice))


def _at(host: Host, looplet: ast.Node, i: ir.Expr) -> ast.Node:
    """The payload of a run or a lookup at a coordinate, with choices in place of switches."""
    if isinstance(looplet, Run):
        return looplet.body
    assert isinstance(looplet, Lookup), looplet
    return _as_choice(looplet.body(host, i))


def _as_choice(payload: ast.Node) -> ast.Node:
    if not isinstance(payload, Switch):
        return payload
    head, tail = _as_choice(payload.head), _as_choice(payload.tail)
    return Choice(((payload.condition, head),), tail)
