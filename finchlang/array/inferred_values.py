"""Types and fills of arrays before anything is computed, and those of the results of operators."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

from finchlang.algebra.expression_types import type_of as type_of_node
from finchlang.algebra.laws import folding, identity_of
from finchlang.algebra.simplify import simplify
from finchlang.base.errors import FinchError
from finchlang.base.records import record
from finchlang.levels.level import level_of
from finchlang.operators.operator import wrong_count
from finchlang.operators.operator_table import operator
from finchlang.syntax.nodes import Call, Literal, Node, Variable
from finchlang.syntax.types import TYPES, Bool, Int64, Pair, PairType, Type
from finchlang.tensors.formats import Format


@record(eq=False, slots=True)
class Values:
    """What is known of an array's values: their type; their fill, a function of the operands' fills
    (SparseArray'21 section 5.2); with `is_fill`, that they equal it wherever no sparse operand stores
    anything, which is false for a dense operand; with `is_number`, that they are a number argument. Equal
    ones are one object, so that they are compared by identity."""

    type: Type
    fill: Literal
    is_fill: bool
    is_number: bool = False

    def __reduce__(self) -> Any:
        if self.is_number:
            return values_of_number, (self.type,)
        return values_of, (self.fill, self.is_fill)


@lru_cache(4096)
def values_of(fill: Literal, is_fill: bool) -> Values:
    """The Values with this fill, of its type."""
    return Values(TYPES[fill.type or ""], fill, is_fill)


def literal_of(value: Any, type: Type) -> Literal:
    """A number converted to a type."""
    return Literal(type.wrap(value), type.name)


def _known(value: Any, type: Type) -> Values:
    return values_of(literal_of(value, type), True)


def unknown_values(type: Type) -> Values:
    """The Values of a type without a known fill."""
    return values_of(literal_of(Pair(0, 0) if isinstance(type, PairType) else 0, type), False)


@cache
def values_of_number(type: Type) -> Values:
    return Values(type, literal_of(0, type), False, True)


@record(eq=False, slots=True)
class StoredValues:
    """The format of an operand, and the Values that follow from it. Equal ones are one object."""

    format: Format
    values: Values

    def __reduce__(self) -> Any:
        return stored_of, (self.format,)


@lru_cache(4096)
def stored_of(format: Format) -> StoredValues:
    """The StoredValues of a format. Raises TypeError for a format of pairs."""
    level = level_of(format)
    if isinstance(level.element_type, PairType):
        raise TypeError("there are no arrays of pairs")
    return StoredValues(format, values_of(level.fill, not level.is_all_dense))


def op_node(op: Any) -> Node:
    """An operator's node: of a name in the table, or the node itself."""
    return Variable(op) if isinstance(op, str) else op


@lru_cache(4096)
def reduced(op: Any, given: Values, count: int = 0) -> Values:
    """The Values of a reduction of an array with these; with a `count` of elements along the axes, a fill
    that is not the identity is reduced, too, if the operator has a law for it."""
    start, row = identity_of(op, given.type), operator(op_node(op))
    found = values_of(start, given.is_fill and given.fill == start)
    if found.is_fill or not count or row is None or not (row.commutative and row.associative):
        return found
    if row.right_idempotent:
        return result_of(op, values_of(start, True), given)
    if row.repeated is None:
        return found
    many = result_of(row.repeated, given, _known(count, Int64)).fill.value
    return result_of(op, values_of(start, True), _known(many, given.type))


@lru_cache(4096)
def result_of(op: Any, *args: Values) -> Values:
    """The Values of `op` of arguments with these: with a fill if all have one, or if the fills of some
    decide it whatever others are (`0 * x`). Raises TypeError for types that it does not take."""
    row = operator(op_node(op))
    if row is not None and not row.arity[0] <= len(args) <= row.arity[1] and not row.associative:
        raise TypeError(wrong_count(row.name, row.arity, len(args), None).message)
    fills = [v.fill if v.is_fill else Variable(f"x{k}", type=v.type) for k, v in enumerate(args)]
    call = Call(op_node(op), tuple(fills))
    try:
        result = type_of_node(call)
    except FinchError as error:
        raise TypeError(error.message) from None
    if row is None or result is None:
        raise TypeError(f"there is no operator {op} of {len(args)} arguments")
    decided = simplify(call)
    is_fill = all([v.is_fill for v in args]) or isinstance(decided, Literal)
    if not isinstance(decided, Literal):
        decided = folding(row, Call(call.op, tuple(v.fill for v in args)))
        is_fill = is_fill and decided is not None
    value = 0 if decided is None or decided.value is None else decided.value
    return values_of(literal_of(value, result), is_fill)


def is_kept(op: Any, args: tuple[Values, ...], place: int, found: Values) -> bool:
    """Whether a number need not be known: the fill that the result of `op` has, `found`, is the same for
    another number, and for both signs of fills that are 0; and knowing it makes nothing quicker."""

    type, number, row = args[place].type, args[place].fill.value, operator(op_node(op))
    if row is None or number in row.quick or type is Bool:
        return False
    near = [_known(value, type) for value in (number + 1, number - 1)]
    others = [result_of(op, *args[:place], one, *args[place + 1 :]) for one in near]
    return found in others and is_even(op, args)


def is_even(op: Any, args: tuple[Values, ...]) -> bool:
    """Whether the result of `op` is the same for both signs of fills that are 0: they are one fill."""

    def results(k: int, number: int) -> list[Any]:
        known = [_known(number, values.type) for values in args]
        given = [v if v.is_fill else other for v, other in zip(args, known, strict=True)]
        zeros = [_known(zero, args[k].type) for zero in (0.0, -0.0)]
        found = [result_of(op, *given[:k], zero, *given[k + 1 :]).fill.value for zero in zeros]
        return [value if value == value else None for value in found]

    zeros = [k for k, v in enumerate(args) if v.type.is_float and v.is_fill and not v.fill.value]
    pairs = [results(k, number) for k in zeros for number in (1, -1)]
    return all([one == other for one, other in pairs])
