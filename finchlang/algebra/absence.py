"""Where a statement does nothing: a formula over which of its operands are at their fill, found in one
walk. Rules read from it where a loop has something to do, and which operands decide that.

Simplify says what a call gives for literal arguments, for each call alone: cost and formula stay linear in
the expression, and the formula is never multiplied out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import reduce
from itertools import product
from typing import Any, TypeVar

from finchlang.algebra.expression_types import is_there
from finchlang.algebra.laws import MISSING_LITERAL
from finchlang.algebra.program_context import is_single, wrapped
from finchlang.algebra.simplify import if_there, simplify
from finchlang.base.records import record
from finchlang.levels.level import Uniform
from finchlang.operators.operator_table import literal_type, operator, row_of
from finchlang.syntax import nodes as ast
from finchlang.syntax.traversal import children, find_all, memo

_T = TypeVar("_T")


@record(eq=False, slots=True)
class AbsenceFormula:
    """A conjunction (`is_and`) or disjunction of `numbers`, each for "this operand is at its fill", and of
    `formulas`; `parts` are both, in order, and `operands` the numbers anywhere in it. Without parts it is
    true (a conjunction) or false.

    Equal formulas are one object (`_made`), compared by identity: they share their parts, and comparing
    or sorting them as trees took exponential time."""

    is_and: bool
    numbers: frozenset[int] = frozenset()
    formulas: tuple[AbsenceFormula, ...] = ()
    parts: tuple[AbsenceFormula | int, ...] = ()
    operands: tuple[int, ...] = ()
    number: int = 0


Where = AbsenceFormula | int
ALWAYS, NEVER = AbsenceFormula(True), AbsenceFormula(False)
_formulas: dict[tuple[bool, frozenset[int], frozenset[AbsenceFormula]], AbsenceFormula] = memo()


def _made(is_and: bool, numbers: set[int], formulas: set[AbsenceFormula]) -> AbsenceFormula:
    """The one object for the formula of these parts."""
    if not (numbers or formulas):
        return ALWAYS if is_and else NEVER
    key = is_and, frozenset(numbers), frozenset(formulas)
    if key not in _formulas:
        own = tuple(sorted(formulas, key=_place))
        operands = tuple(sorted(numbers.union(*(f.operands for f in own))))
        parts: list[Where] = [*numbers, *own]
        ordered = tuple(sorted(parts, key=_place)) if own else operands
        made = AbsenceFormula(is_and, key[1], own, ordered, operands, len(_formulas) + 1)
        _formulas[key] = made
    return _formulas[key]


def both(*parts: Where) -> Where:
    return _joined(True, parts)


def either(*parts: Where) -> Where:
    return _joined(False, parts)


def _joined(is_and: bool, parts: Iterable[Where], numbers: Iterable[int] = ()) -> Where:
    """The conjunction or disjunction of parts and numbers, flattened, with absorption (a & (a | b) = a) and
    what all parts have in common taken out of them ((a | b) & (a | c) = a | b & c)."""
    found, formulas = set(numbers), set[AbsenceFormula]()
    for part in parts:
        if isinstance(part, int):
            found.add(part)
        elif part.is_and == is_and:
            found |= part.numbers
            formulas.update(part.formulas)
        else:
            formulas.add(part)
    if formulas:
        if (decided := NEVER if is_and else ALWAYS) in formulas:
            return decided
        formulas = _needed(found, formulas)
        if not found and (common := frozenset.intersection(*(f.numbers for f in formulas))):
            rests = [_joined(not is_and, f.formulas, f.numbers - common) for f in formulas]
            return _joined(not is_and, [_joined(is_and, rests)], common)
    if len(found) + len(formulas) == 1:
        return found.pop() if found else formulas.pop()
    return _made(is_and, found, formulas)


def _needed(numbers: set[int], formulas: set[AbsenceFormula]) -> set[AbsenceFormula]:
    """`formulas` without those that absorption removes, by one of their parts or all of another's."""
    # by first part: comparing all pairs took quadratic time in long sums
    by_first: dict[Where, list[AbsenceFormula]] = {}
    for q in formulas:
        by_first.setdefault(q.parts[0], []).append(q)

    def is_needed(p: AbsenceFormula) -> bool:
        parts = set(p.parts)
        others = (q for part in by_first.keys() & parts for q in by_first[part] if q is not p)
        is_apart = numbers.isdisjoint(p.numbers) and formulas.isdisjoint(p.formulas)
        return is_apart and not any(parts.issuperset(q.parts) for q in others)

    return {p for p in formulas if is_needed(p)}


def _place(part: Where) -> tuple[int, int]:
    """The sort key of a part: its first operand, numbers before formulas."""
    return (part, 0) if isinstance(part, int) else (part.operands[0], part.number)


def variables(where: Where) -> list[int]:
    """The numbers of the operands in a formula, each once."""
    return [where] if isinstance(where, int) else list(where.operands)


def fold(
    where: Where, leaf: Callable[[int], _T], both: Callable[..., _T], either: Callable[..., _T]
) -> _T:
    """A formula evaluated, each shared part once, with `leaf` for operands; it is not ALWAYS or NEVER."""
    known: dict[Where, _T] = {}

    def made(where: Where) -> _T:
        if isinstance(where, int):
            return leaf(where)
        if where not in known:
            known[where] = reduce(both if where.is_and else either, map(made, where.parts))
        return known[where]

    return made(where)


def given(where: Where, known: Iterable[int], value: Where = ALWAYS) -> Where:
    """What is left of a formula if the operands `known` are at their fill, or are not (`value` NEVER)."""
    left, known = dict[Where, Where](), set(known)

    def rest(where: Where) -> Where:
        if isinstance(where, int):
            return value if where in known else where
        if known.isdisjoint(where.operands):
            return where
        if where not in left:
            parts = [rest(formula) for formula in where.formulas]
            parts += [] if known.isdisjoint(where.numbers) else [value]
            left[where] = _joined(where.is_and, parts, where.numbers - known)
        return left[where]

    return rest(where)


def implies(where: Where, other: Where) -> bool:
    """Whether `other` holds wherever `where` does; False also if that cannot be told part by part."""
    if isinstance(where, int):
        return given(other, [where]) == ALWAYS
    if not where.is_and:
        return all(implies(part, other) for part in where.parts)
    rest = given(other, where.numbers)
    return rest == ALWAYS or any(implies(part, rest) for part in where.formulas)


def alternatives(where: Where) -> list[int]:
    """The operands that alone make a formula true."""
    if isinstance(where, int):
        return [where]
    return [] if where.is_and else sorted(where.numbers)


def is_product(where: Where) -> bool:
    """Whether each operand of a formula alone makes it true."""
    return len(alternatives(where)) == len(variables(where)) > 0


@record(slots=True)
class _Case:
    """An expression is this literal, or, if it `may_miss`, this literal or `missing`."""

    literal: ast.Literal
    may_miss: bool = False


def key_of(literal: ast.Literal | None) -> Any:
    """A key of type and value; by `repr`, since NaN is not equal to itself and 0.0 is to -0.0."""
    return literal and (literal_type(literal), repr(literal.value))


#: a literal that an expression is somewhere, and the formula that says where; by `key_of` the literal
_Found = tuple[_Case, Where]
_Known = dict[Any, _Found]


class Absence:
    """Where statements do nothing. `fills(access)` gives for an operand each value that it has where it is
    absent, with the number that stands for that in formulas; nothing for other accesses."""

    def __init__(self, fills: Callable[[ast.Access], Iterable[tuple[int, ast.Node]]]):
        self._fills = fills
        self._defined: dict[ast.Node, _Known] = {}
        # by identity, with the node itself, so that no other node can get its id
        self._seen: dict[int, tuple[ast.Node, _Known]] = {}

    def statement(self, node: ast.Node) -> Where:
        """The formula for where a statement does nothing; NEVER if nothing is known."""
        match node:
            case ast.Block(statements):
                return both(*map(self.statement, statements))
            case ast.Loop(index, extent, body):
                if is_single(extent):  # `for k = x:x` binds k, which is missing where x is
                    found = self.value(extent.start).items()
                    self._defined[index] = {k: c for k, c in found if ast.is_missing(c[0].literal)}
                return self.statement(body)
            case ast.Define(variable, value, body):
                self._defined[variable] = self.value(value)
                return self.statement(body)
            case ast.Sieve(condition, body):
                known = self.value(condition).values()
                not_true = (where for case, where in known if case.literal.value is not True)
                return either(self.statement(body), *not_true)
            case ast.Assign(target, op, value):
                parts = [
                    where
                    for case, where in self.value(value).values()
                    if ast.is_empty(simplify(ast.Assign(target, op, case.literal)))
                ]
                places = (case for index in target.indices for case in self.value(index).values())
                missing = [where for case, where in places if ast.is_missing(case.literal)]
                return either(*parts, *missing)
        return NEVER

    def as_filled(self, node: ast.Node) -> Where:
        """The formula for where a node, whose operands have one fill each, is as with all at their fill."""
        found = both(*map(self.as_filled, children(node)))
        if isinstance(node, ast.Access):
            found = both(found, *(number for number, _ in self._fills(node)))
        if isinstance(node, ast.Call):
            cases = self.value(node).values()
            found = either(found, *(where for case, where in cases if not case.may_miss))
        return found

    def value(self, node: ast.Node) -> _Known:
        """The literals that an expression is somewhere, each with the formula for where."""
        if id(node) not in self._seen:
            known: _Known = {}
            for case, where in self._cases(node):
                key = key_of(case.literal)
                before, there = known.get(key, (case, NEVER))
                may_miss = before.may_miss or case.may_miss
                known[key] = replace(case, may_miss=may_miss), either(there, where)
            self._seen[id(node)] = node, known
        return self._seen[id(node)][1]

    def _cases(self, node: ast.Node) -> Iterator[_Found]:
        match node:
            case ast.Access():
                for number, fill in self._fills(node):
                    found = simplify(fill)
                    if isinstance(found, ast.Literal):
                        yield _Case(found), number
                    elif isinstance(found, ast.Access):  # through wrappers it may be out of range
                        inner = wrapped(found.tensor)[1]
                        if isinstance(inner, Uniform) and isinstance(inner.value, ast.Literal):
                            yield _Case(inner.value, may_miss=True), number
            case ast.Call(op, args):
                if row_of(node).associative and len(args) > 2:
                    yield from self._cases(reduce(lambda a, b: ast.Call(op, (a, b)), args))
                else:
                    yield from self._of_call(node)
            case _ if node in self._defined:
                yield from self._defined[node].values()

    def _of_call(self, node: ast.Call) -> Iterator[_Found]:
        """The literals of a call where one argument alone is a literal, where all are, and where the fewest
        are that decide it; one alone decides nothing if all give another literal, as in Inf - Inf."""
        every = {k: self.value(arg).values() for k, arg in enumerate(node.args)}
        known = {k: found for k, found in every.items() if found}
        each = ((k, one) for k, found in known.items() for one in found)
        alone = [(k, one, case) for k, one in each for case in self._asked(node, known, {k: one})]
        for together in product(*known.values()) if len(known) > 1 else ():
            whole = dict(zip(known, together, strict=True))
            for case in self._asked(node, known, whole):
                yield case
                key = key_of(case[0].literal)
                alone = [
                    x for x in alone if whole[x[0]] is not x[1] or key_of(x[2][0].literal) == key
                ]
            for k in known if len(known) > 2 else ():  # the fewest, dropping from the k-th on
                few = whole
                for dropped in [*range(k, len(node.args)), *range(k)]:
                    fewer = {n: few[n] for n in few if n != dropped}
                    if fewer and any(self._asked(node, known, fewer)):
                        few = fewer
                yield from self._asked(node, known, few)
        yield from (case for _, _, case in alone)

    def _asked(
        self, node: ast.Call, known: Mapping[int, Iterable[_Found]], chosen: Mapping[int, _Found]
    ) -> Iterator[_Found]:
        """The literal of a call, if any, where the `chosen` arguments and those that they imply are."""
        where = both(*(where for _, where in chosen.values()))
        also = {
            k: (case, there)
            for k, found in known.items()
            if k not in chosen
            for case, there in found
            if implies(where, there)
        }
        chosen = {**also, **chosen}
        args = tuple(chosen[k][0].literal if k in chosen else a for k, a in enumerate(node.args))
        call = ast.Call(node.op, args, span=node.span)
        found, missing = simplify(call), [k for k in chosen if chosen[k][0].may_miss]
        may_miss = bool(missing)
        # what may be missing decides only a call that is missing with it, or that gives the same then
        if may_miss and not _passes_missing(node):
            args = tuple(MISSING_LITERAL if k in missing else arg for k, arg in enumerate(args))
            ends = [simplify(ast.Call(node.op, args)), found]
            if len(missing) > 1 or not all(isinstance(end, ast.Literal) for end in ends):
                return
            if key_of(ends[0]) != key_of(found):
                return
            may_miss = False
        if not (isinstance(found, ast.Literal) or is_there(call)):
            is_strict = all(_passes_missing(n) for n in find_all(call, ast.Call))
            found, may_miss = if_there(call) if is_strict else call, True
        if isinstance(found, ast.Literal):
            yield _Case(found, may_miss), where


def _passes_missing(call: ast.Call) -> bool:
    """Whether a call is missing if an argument is."""
    row = operator(call.op)
    return row is not None and not (row.lazy_missing or row.selects)


def does_nothing(statement: ast.Node, operand: ast.Access, fill: ast.Literal) -> bool:
    """Whether a statement surely does nothing where an operand is at its fill."""
    absence = Absence(lambda access: [(0, fill)] if access == operand else [])
    return given(absence.statement(statement), [0]) == ALWAYS
