"""The structure an expression has at one coordinate: in which cases it is a literal, and which, and
in which it is a value that only the data knows.

Operands bring cases of their own: a spike is its tail or its body, a choice is one of its options.
What a call makes of them is asked of Simplify, once for each combination of its own arguments; so
cases are those that the base rules would tell apart, at a cost that is linear in the expression.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from finchlang.algebra import SELECT, literal_type, operator
from finchlang.host.fold import FALSE, TRUE, op
from finchlang.host.ir import Expr, Var
from finchlang.normalize.types import type_of
from finchlang.rules.simplify import simplify
from finchlang.syntax import MISSING, Access, Call, Index, Literal, Node, Value

#: what an expression is in one case: a literal, or (None) a value that only the data knows
Outcome = Literal | None
#: more combinations of the cases of its arguments are not looked at for one call
_MOST = 32


@dataclass(frozen=True)
class Cases:
    """`given[k]` says that the outcome is the second where the first holds (no two do), `otherwise`
    what it is where none does. No outcome is there twice."""

    given: tuple[tuple[Expr, Outcome], ...]
    otherwise: Outcome

    def condition(self, outcome: Outcome) -> Expr:
        """Where the expression is `outcome`."""
        for condition, found in self.given:
            if _is_same(found, outcome):
                return condition
        return self._none() if _is_same(self.otherwise, outcome) else FALSE

    def _none(self) -> Expr:
        return negated(disjunction(*(condition for condition, _ in self.given)))

    @property
    def outcomes(self) -> list[Outcome]:
        return [outcome for _, outcome in self.given] + [self.otherwise]


def disjunction(*conditions: Expr) -> Expr:
    result: Expr = FALSE
    for condition in conditions:
        result = op("or", result, condition)
    return result


def negated(condition: Expr) -> Expr:
    return op("not", condition)


def _is_same(a: Outcome, b: Outcome) -> bool:
    if a is None or b is None:
        return a is b
    return literal_type(a) == literal_type(b) and repr(a.value) == repr(b.value)


def _among(outcome: Outcome, outcomes: list[Outcome]) -> bool:
    return any(_is_same(outcome, o) for o in outcomes)


def choice(parts: list[tuple[Expr, Cases]], rest: Cases) -> Cases:
    """The cases of what is one of `parts` where its condition holds (no two do), else `rest`."""
    outcomes: list[Outcome] = []
    for found in (rest, *(cases for _, cases in parts)):
        for outcome in found.outcomes:
            if not _among(outcome, [*outcomes, rest.otherwise]):
                outcomes.append(outcome)
    given = []
    for outcome in outcomes:
        inside = [(when, cases.condition(outcome)) for when, cases in parts]
        condition = disjunction(*(op("and", when, then) for when, then in inside))
        after = rest.condition(outcome)
        if any(then is not TRUE for _, then in inside) and after is not FALSE:
            after = op("and", negated(disjunction(*(when for when, _ in parts))), after)
        condition = disjunction(condition, after)
        if condition is not FALSE:
            given.append((condition, outcome))
    return Cases(tuple(given), rest.otherwise)


class Analysis:
    """The cases of expressions; `operand(access)` gives those of an access, or None where they are
    not known yet."""

    def __init__(self, operand: Callable[[Access], Cases | None]):
        self._operand = operand
        self._known: dict[int, tuple[Node, Cases | None]] = {}
        self._settled: set[int] = set()  # calls that are literals though an argument is none

    def cases(self, node: Node) -> Cases | None:
        """The cases of an expression; None if something in it has to be looked at before."""
        if id(node) not in self._known:
            self._known[id(node)] = (node, self._find(node))
        return self._known[id(node)][1]

    def _find(self, node: Node) -> Cases | None:
        match node:
            case Literal():
                return Cases((), node)
            case Value() | Index():
                return Cases((), None)
            case Access():
                return self._operand(node)
            case Call(_, args) if operator(node.op) is not None and operator(node) is None:
                found = [self.cases(a) for a in args]
                if all(c is not None for c in found):
                    return self._combined(node, found)  # type: ignore[arg-type]
        return None

    def _combined(self, node: Call, args: list[Cases]) -> Cases | None:
        if prod(len(c.outcomes) for c in args) > _MOST or type_of(node) is None:
            return None

        unheard_of = False  # a value made of a missing one, which host expressions do not have

        def build(k: int, chosen: tuple[Outcome, ...]) -> Cases:
            nonlocal unheard_of
            if k == len(args):
                outcome = self._outcome(node, chosen)
                unheard_of |= outcome is None and any(
                    o is not None and o.value is MISSING for o in chosen
                )
                return Cases((), outcome)
            parts = [(when, build(k + 1, (*chosen, outcome))) for when, outcome in args[k].given]
            return choice(parts, build(k + 1, (*chosen, args[k].otherwise)))

        found = build(0, ())
        return None if unheard_of else found

    def _outcome(self, node: Call, chosen: tuple[Outcome, ...]) -> Outcome:
        """The literal that a call is with literals for some of its arguments, if it is one."""
        result, is_known = self._simplified(node, chosen)
        if not isinstance(result, Literal):
            return None
        if not is_known or any(o is not None and o.value is MISSING for o in chosen):
            self._settled.add(id(node))
        return result

    def _simplified(self, node: Call, chosen: tuple[Outcome, ...]) -> tuple[Node, bool]:
        """What Simplify makes of a call with literals for some of its arguments, and whether all are."""
        unknown: list[tuple[Node, Value]] = []  # (the hash of an operand would walk all of it)
        args: list[Node] = []
        for arg, outcome in zip(node.args, chosen, strict=True):
            if outcome is not None:
                args.append(outcome)
                continue
            found = next((value for other, value in unknown if other == arg), None)
            if found is None:
                type = type_of(arg)
                if type is None:  # it may be missing
                    return node, False
                found = Value(Var("any", type))
                unknown.append((arg, found))
            args.append(found)
        return simplify(Call(node.op, tuple(args), span=node.span)), not unknown

    def is_decided(self, node: Node) -> bool:
        """Whether one argument of a call decides it, where that is what it is otherwise; or, of a
        function of the script, makes it something that is cheaper."""
        if not isinstance(node, Call) or self.cases(node) is None:
            return False
        rest = [found.otherwise for found in map(self.cases, node.args) if found is not None]
        unknown: list[Outcome] = [None] * len(rest)
        alone = ((*unknown[:k], z, *unknown[k + 1 :]) for k, z in enumerate(rest) if z is not None)
        return len(rest) > 1 and any(self._is_settled(node, a) for a in alone)

    def _is_settled(self, node: Call, chosen: tuple[Outcome, ...]) -> bool:
        row = operator(node.op)
        if row is None or row.staged is None:
            return self._outcome(node, chosen) is not None
        result = self._simplified(node, chosen)[0]
        return not isinstance(result, Call) or result.op != node.op

    def evaluated(self, node: Node, values: Callable[[Access], Node]) -> Node:
        """An expression whose operands are given by `values`, as they are in each case: equal to
        `node` in all of its cases, but no literal in any."""
        if isinstance(node, Access):
            return values(node)
        if not isinstance(node, Call):
            return node
        args = tuple(self.evaluated(a, values) for a in node.args)
        result: Node = Call(node.op, args, span=node.span)
        cases = self.cases(node)
        if id(node) not in self._settled or cases is None:
            return result
        for outcome in cases.outcomes:
            if outcome is not None and outcome.value is not MISSING:
                condition = cases.condition(outcome)
                result = Call(SELECT, (Value(condition), outcome, result))
        return result
