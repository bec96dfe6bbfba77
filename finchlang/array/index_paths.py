"""Index maps of what goes through changes of shape on its way to an operand; shapes are row-major."""

from __future__ import annotations

from collections.abc import Sequence

from finchlang.algebra.index_arithmetic import ZERO, plus
from finchlang.algebra.index_map import (
    HalfIndex,
    IndexMap,
    Joined,
    Wrapped,
    around,
    permissive,
    value,
)
from finchlang.algebra.program_context import ONE, PERMISSIVE, call
from finchlang.syntax.nodes import Access, Call, Extent, Index, Literal, Node
from finchlang.syntax.traversal import walk


def joined(indices: Sequence[Node], sizes: Sequence[Node]) -> Node:
    """The index of modes of these sizes as one."""
    found, *rest = indices
    for index, size in zip(rest, sizes[1:], strict=True):
        found = Joined(index, found, size)
    return found


def divided(index: Node, sizes: Sequence[Node]) -> list[Node]:
    """The indices of modes of these sizes, which are one here."""
    found: list[Node] = []
    for k in range(len(sizes) - 1, 0, -1):
        parts = sizes[k], sizes[0] if k == 1 else call("*", *sizes[:k])
        found.append(HalfIndex(index, *parts, True))
        index = HalfIndex(index, *parts, False)
    return [index, *reversed(found)]


def beyond(index: Node, shift: Node, size: Node) -> Node:
    """index - shift, of an index that goes up to `size`: where the operand has no such place it is
    `missing`."""
    if isinstance(index, Index):
        inner = Wrapped("offset", plus(ZERO, shift, -1), index)
    else:
        inner = Wrapped("window", Extent(plus(ONE, shift, -1), plus(size, shift, -1)), index)
    return Wrapped("permissive", Literal(True), inner)


def loops_of(m: Node) -> list[Node]:
    """The loops' indices that an index goes through, the outer one first; a number is itself."""
    if isinstance(m, Joined):
        return [*loops_of(m.second), *loops_of(m.first)]
    return loops_of(m.index) if isinstance(m, (HalfIndex, Wrapped)) else [m]


def is_path(m: Node) -> bool:
    """Whether an index is another than a loop's, or a slice of it."""
    maps = [n for n in walk(m) if isinstance(n, IndexMap)]
    return any([not isinstance(n, Wrapped) or n.wrapper != "window" for n in maps])


def goes_beyond(m: Node) -> bool:
    """Whether an index may be out of the operand's range."""
    return any(permissive(m))


def accessed(tensor: Node, maps: Sequence[Node]) -> Access:
    """The element of an operand at these indices."""
    return around(Access(tensor, ()), list(map(_modifier, maps)))


def _modifier(m: Node) -> Node:
    """A part of a loop's index as it is written in an access, which needs no operator around."""
    match m:
        case Wrapped("window", part, Index() as index):
            return Call(part, (index,))
        case Wrapped("permissive", _, Wrapped("offset", _, Index())):
            return call(PERMISSIVE, value(m))
    return m
