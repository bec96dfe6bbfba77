"""Index maps: which place of a tensor's mode an index stands for, counted from 1; from them the shape
operators and wrappers are rebuilt around a tensor (Burrito'24 section 4).

    m ::= i | Wrapped(wrapper, setting, m) | HalfIndex(m, fast n, slow n) | Joined(fast m, slow m, n)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from finchlang.algebra.index_arithmetic import ZERO, at_least_one, plus, size, times
from finchlang.algebra.program_context import ONE, PERMISSIVE, PROTOCOLS, is_call
from finchlang.base.errors import Span
from finchlang.base.records import record
from finchlang.syntax.nodes import Access, Call, Extent, Index, Literal, Node, call
from finchlang.syntax.traversal import find_all, replace
from finchlang.wrappers.wrappers import WRAPPERS


@record(slots=True)
class IndexMap(Node):
    """An index before the operators around its tensor are rebuilt; `whole`: the size its mode must have."""


@record(slots=True)
class Wrapped(IndexMap):
    """The index of a mode under a wrapper with this `setting`, and the `index` on its outside. Of a
    permissive one `whole` is the mode's size, and one that `is_chosen` is read in range only."""

    wrapper: str
    setting: Node
    index: Node
    whole: Node | None = None
    is_chosen: bool = False


@record(slots=True)
class HalfIndex(IndexMap):
    """The index of one of two modes, of sizes `fast` and `slow`, that `index` goes through as one."""

    index: Node
    fast: Node
    slow: Node
    is_fast: bool

    @property
    def whole(self) -> Node:
        return self.fast if self.is_fast else self.slow

    @property
    def other(self) -> HalfIndex:
        return replace(self, is_fast=not self.is_fast)


@record(slots=True)
class Joined(IndexMap):
    """The index of a mode that is split in two: `first` is the fast index, of a mode of this `size`, and
    `rest` the size of the slow mode, if given. With size None it is the sum of the two (`toeplitz`)."""

    first: Node
    second: Node
    size: Node | None
    rest: Node | None = None
    whole: Node | None = None


def modifier(index: Node) -> tuple[str, Node, Node] | None:
    """The wrapper of an index modifier (Finch'25 Table 5), its setting, and the index that is left."""
    if not isinstance(index, Call):
        return None
    if is_call(index, PERMISSIVE):
        return "permissive", Literal(True, span=index.op.span), index.args[0]
    if is_call(index, *PROTOCOLS):
        return "protocolize", index.op, index.args[0]
    return ("window", index.op, index.args[0]) if isinstance(index.op, Extent) else None


def half(m: Node, fast: Node, slow: Node, is_fast: bool) -> Node:
    if isinstance(m, Joined) and m.size == fast != ZERO:  # of size 0, any slow index would do
        return m.first if is_fast else m.second
    return HalfIndex(m, fast, slow, is_fast)


def value(m: Node) -> Node:
    """The place that a map stands for, as an expression."""
    match m:
        case Wrapped("window", Extent(start, _, step), inner):
            past = plus(value(inner), ONE, -1)
            return plus(start, past if step is None else times(past, step))
        case Wrapped("offset", by, inner):
            return plus(value(inner), by)
        case Wrapped(_, _, inner):
            return value(inner)
        case HalfIndex(inner, fast, _, is_fast):
            past = plus(value(inner), ONE, -1)
            return plus(call("mod" if is_fast else "fld", past, at_least_one(fast)), ONE)
        case Joined(first, second, None):
            return plus(value(first), value(second))
        case Joined(first, second, Node() as n):
            return plus(times(plus(value(second), ONE, -1), n), value(first))
    return m


def moved(m: Node) -> tuple[Index, Node] | None:
    """(i, c) if a map is i + c for an index i and a number c, else None."""
    if isinstance(m, Index):
        return m, ZERO
    found = moved(m.index) if isinstance(m, Wrapped) else None
    match m:
        case Wrapped("window", Extent(start, _, None)) if found:
            return found[0], plus(found[1], plus(start, ONE, -1))
        case Wrapped("offset", by) if found:
            return found[0], plus(found[1], by)
        case Wrapped("permissive" | "protocolize"):
            return found
    return None


def halves(m: Node) -> Iterator[HalfIndex]:
    return find_all(m, HalfIndex)


def permissive(m: Node) -> Iterator[Wrapped]:
    """The parts of a map that make it missing where they are out of range."""
    return (n for n in find_all(m, Wrapped) if n.wrapper == "permissive")


def ranges(maps: Iterable[Node]) -> Iterator[Node]:
    """The conditions for halves in maps to be of places in range, where they are computed."""
    for p in (p for m in maps for part in halves(m) for p in permissive(part)):
        if p.whole is not None:
            yield call("<=", ONE, value(p.index))
            yield call("<=", value(p.index), p.whole)


#: requires two extents to be the same
Agree = Callable[[Node, Node], None]


def around(
    access: Access,
    maps: Sequence[Node],
    agree: Agree = lambda a, b: None,
    computed: Callable[[HalfIndex], Node] | None = None,
) -> Access:
    """The access of a tensor at maps, with operators rebuilt around it until all maps are indices. Halves
    come last, and of them the one of most halves first, since both halves of an index are then there.
    Where `computed` is given, it makes an index of a half in place of an operator."""
    tensor, maps = access.tensor, list(maps)
    while others := [m for m in maps if isinstance(m, IndexMap)]:
        m = next((m for m in others if not isinstance(m, HalfIndex)), None)
        m = m or max(others, key=lambda m: sum(1 for _ in halves(m)))
        k = maps.index(m)
        if not (isinstance(m, Wrapped) and m.wrapper == "permissive"):
            tensor = _sized(tensor, k, m.whole, len(maps), agree)  # type: ignore[attr-defined]
        match m:
            case Wrapped(wrapper, setting, inner):
                tensor = in_mode(wrapper, tensor, k, setting, len(maps), tensor.span)
                maps[k] = inner
            case Joined(first, second, whole, rest):
                sizes = [n for n in (whole, rest) if n is not None]
                name = "split" if sizes else "toeplitz"
                tensor = call(name, tensor, Literal(k + 1), *sizes, span=tensor.span)
                maps[k : k + 1] = [first, second]
            case HalfIndex() if computed:
                maps[k] = computed(m)
            case HalfIndex():
                tensor = _collapsed(tensor, maps, m, k, agree)
    return replace(access, tensor=tensor, indices=tuple(maps))


def _collapsed(tensor: Node, maps: list[Any], m: HalfIndex, k: int, agree: Agree) -> Node:
    """The tensor with its k-th mode, that of the half `m`, and the mode of the other half collapsed; where
    there is no other half, a broadcast mode stands for it."""
    other = m.other
    if other not in maps:
        at = k + m.is_fast
        tensor = call("broadcast", tensor, Literal(at + 1), other.whole, span=tensor.span)
        maps.insert(at, other)
    p, q = maps.index(m), maps.index(other)
    tensor = _sized(tensor, q, other.whole, len(maps), agree)
    maps[min(p, q)] = m.index
    del maps[max(p, q)]
    fast, slow = (p, q) if m.is_fast else (q, p)
    return call("collapse", tensor, Literal(fast + 1), Literal(slow + 1), span=tensor.span)


def _sized(tensor: Node, mode: int, whole: Node | None, order: int, agree: Agree) -> Node:
    """The tensor, of `order` modes, with a mode (from 0) of this size: checked, or by a window."""
    if whole is None:
        return tensor
    own, wanted = size(tensor, mode), Extent(ONE, whole, span=tensor.span)
    if own is not None:
        agree(Extent(ONE, own, span=tensor.span), wanted)
        return tensor
    return in_mode("window", tensor, mode, wanted, order, tensor.span)


def in_mode(
    wrapper: str, tensor: Node, mode: int, setting: Node, order: int, span: Span | None
) -> Call:
    """The tensor, of `order` modes, under a wrapper with a setting for one of them, from 0."""
    neutral = WRAPPERS[wrapper].neutral
    settings = (setting if k == mode else neutral for k in range(order))
    return call(wrapper, tensor, *settings, span=span)
