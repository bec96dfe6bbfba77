"""Where the value of a statement may differ from its fill."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from finchlang.algebra.absence import NEVER, Absence, Where, either
from finchlang.algebra.expression_types import annotate
from finchlang.algebra.laws import is_value
from finchlang.array.inferred_values import stored_of
from finchlang.array.loop_nest import EVERYWHERE, Read, ValueSpace
from finchlang.levels.level import Level, Swizzled
from finchlang.syntax import nodes as ast, types


def space_of(
    value: ast.Node,
    fill: ast.Literal,
    read_of: Callable[[ast.Access], Read | None],
    names: Mapping[str, Level | Swizzled | types.Type],
) -> ValueSpace | Read:
    """The space in which an expression may differ from `fill`: the complement of where the fills of sparse
    operands make it that (`algebra/absence.py`). `read_of` gives the Read of an access, `names` the
    formats and types of names."""
    reads: list[Read] = []

    def fills(access: ast.Access) -> Iterator[tuple[int, ast.Node]]:
        read = read_of(access)
        if read is not None and read.is_sparse:
            reads.extend([read] if read not in reads else [])
            yield reads.index(read), stored_of(read.format).values.fill

    def space(where: Where) -> ValueSpace | Read:
        if isinstance(where, int):
            return reads[where]
        # absent where all parts are absent: present in the union
        return ValueSpace(tuple(map(space, where.parts)), where.is_and)

    known = Absence(fills).value(annotate(value, names)).values()
    type = types.TYPES[fill.type or ""]
    found = either(*(at for case, at in known if is_value(case.literal, fill.value, type)))
    return EVERYWHERE if found == NEVER else space(found)
