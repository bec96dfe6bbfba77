"""Where the value of a statement may differ from its fill, by the laws of operators and what is read."""

from __future__ import annotations

from collections.abc import Callable

from finchlang.array.inferred_values import (
    Values,
    result_of,
    stored_of,
    unknown_values,
    values_of,
    values_of_number,
)
from finchlang.array.loop_nest import EVERYWHERE, Read, ValueSpace
from finchlang.levels.element import typed_literal
from finchlang.levels.level import Swizzled
from finchlang.operators.operator_table import literal_type, operator
from finchlang.syntax.nodes import Access, Call, Literal, Node, Variable
from finchlang.syntax.types import Bool, Int64, PairType, Type

Found = tuple[ValueSpace | Read | None, Values]


def space_of(
    value: Node, read_of: Callable[[Access], Read | None], type_of: Callable[[str], Type]
) -> ValueSpace | Read:
    """The space of an expression with these reads, in which other names are of these types."""

    def found(node: Node) -> Found:
        """The space, None of a constant, and what is known of the values."""
        if isinstance(node, Access):
            read = read_of(node)
            if read is None:  # a mask
                return None, values_of_number(Bool)
            level = read.format.level if isinstance(read.format, Swizzled) else read.format
            if isinstance(level.element_type, PairType):
                return EVERYWHERE, unknown_values(level.element_type)
            return read if read.is_sparse else EVERYWHERE, stored_of(read.format).values
        if isinstance(node, Literal) and literal_type(node) is not None:
            return None, values_of(typed_literal(node), True)
        if isinstance(node, Variable):
            return None, values_of_number(type_of(node.name))
        if isinstance(node, Call):
            parts = [found(arg) for arg in node.args]
            return _of_call(node.op, parts), result_of(node.op, *[known for _, known in parts])
        return EVERYWHERE, unknown_values(Int64)  # an index

    return found(value)[0] or EVERYWHERE


def _of_call(op: Node, parts: list[Found]) -> ValueSpace | Read | None:
    """What of the arguments alone decides the operator where they are their fills, or else where any is
    another value."""
    spaces = [space for space, _ in parts if space is not None]
    if len(spaces) < 2:
        return spaces[0] if spaces else None
    row = operator(op)
    if row is not None and row.overrides:  # there is one of them in each place
        return ValueSpace(tuple(spaces), True)
    deciding = []
    for at, (space, known) in enumerate(parts):
        if space is not None and known.is_fill:
            others = [v if s is None else unknown_values(v.type) for s, v in parts]
            others[at] = known
            if result_of(op, *others).is_fill:
                deciding.append(space)
    return ValueSpace(tuple(deciding)) if deciding else ValueSpace(tuple(spaces), True)
