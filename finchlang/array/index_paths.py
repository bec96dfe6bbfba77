"""Index maps from the indices of loops to the modes of an operand, through slices, concatenations and
(row-major) reshapes."""

from __future__ import annotations

from collections.abc import Sequence

from finchlang.algebra import index_arithmetic as affine, index_map, program_context as ctx
from finchlang.syntax.nodes import Access, Call, Extent, Index, Literal, Node
from finchlang.syntax.traversal import walk


def joined(indices: Sequence[Node], sizes: Sequence[Node]) -> Node:
    """The index of the mode that joins modes of these sizes in row-major order."""
    found, *rest = indices
    for index, size in zip(rest, sizes[1:], strict=True):
        found = index_map.Joined(index, found, size)
    return found


def divided(index: Node, sizes: Sequence[Node]) -> list[Node]:
    """The indices of modes of these sizes, of the `index` of the mode that joins them."""
    found: list[Node] = []
    for k in range(len(sizes) - 1, 0, -1):
        parts = sizes[k], sizes[0] if k == 1 else ctx.call("*", *sizes[:k])
        found.append(index_map.HalfIndex(index, *parts, True))
        index = index_map.HalfIndex(index, *parts, False)
    return [index, *reversed(found)]


def beyond(index: Node, shift: Node, size: Node) -> Node:
    """index - shift, for an index from 1 to `size`; out of the operand's range the read is `missing`."""
    if isinstance(index, Index):
        inner = index_map.Wrapped("offset", affine.plus(affine.ZERO, shift, -1), index)
    else:
        inner = index_map.Wrapped(
            "window", Extent(affine.plus(ctx.ONE, shift, -1), affine.plus(size, shift, -1)), index
        )
    return index_map.Wrapped("permissive", Literal(True), inner)


def loops_of(m: Node) -> list[Node]:
    """The indices of loops in an index map, the slowest first; a number for a map of a number."""
    if isinstance(m, index_map.Joined):
        return [*loops_of(m.second), *loops_of(m.first)]
    return loops_of(m.index) if isinstance(m, (index_map.HalfIndex, index_map.Wrapped)) else [m]


def is_path(m: Node) -> bool:
    """Whether an index is more than the index of a loop or a slice of it."""
    maps = [n for n in walk(m) if isinstance(n, index_map.IndexMap)]
    return any([not isinstance(n, index_map.Wrapped) or n.wrapper != "window" for n in maps])


def goes_beyond(m: Node) -> bool:
    """Whether an index may be out of the operand's range."""
    return any(index_map.permissive(m))


def accessed(tensor: Node, maps: Sequence[Node]) -> Access:
    """The access of an operand at these index maps."""
    return index_map.around(Access(tensor, ()), list(map(_modifier, maps)))


def _modifier(m: Node) -> Node:
    """A slice or permissive offset of a loop's index as accesses have it, without a wrapper; or the map."""
    match m:
        case index_map.Wrapped("window", part, Index() as index):
            return Call(part, (index,))
        case index_map.Wrapped("permissive", _, index_map.Wrapped("offset", _, Index())):
            return ctx.call(ctx.PERMISSIVE, index_map.value(m))
    return m
