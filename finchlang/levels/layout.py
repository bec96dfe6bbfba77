"""The layout of a level's arrays, from which the operations on all of them follow: here those in kernels,
in `numpy_layout.py` those outside.

A layout is a chain of parts that leads from the fibers of a level to the positions of its child. Each
step has a number of *items*, at first the fibers. A part either stores a number for each item, or maps
each item to a range of new items:

    SparseList         Offsets("ptr"), Coordinate("idx")                   entries
    SparseBlockList    Offsets("ptr"), Coordinate("idx"), Offsets("ofs")   blocks, then positions
    SparseBand         Coordinate("idx", empty=-1), Offsets("ofs")         positions
    SparseRunList      Offsets("ptr"), Each("left"), Coordinate("right")   runs
    SparsePinpoint     Coordinate("idx", empty=-1)                         a position for each fiber
    Dense              Grid()                                              one for each coordinate
    SparseByteMap      Aside((Offsets("ptr"), Coordinate("idx"))), Grid(), Each("tbl", Bool)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import Any

from finchlang.base.records import record
from finchlang.host.construct import FALSE, ONE, TRUE, ZERO, add, compare, const, mul, op, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Buffer, Expr
from finchlang.syntax.types import Int64, Type

#: what an array of offsets holds while its level is written: how many items each item becomes, to be added
#: up by freezing; the offsets already; or nothing, as freezing makes it
COUNTS, POSITIONS, NOTHING = "counts", "positions", "nothing"
#: where the region of coordinates begins that an item covers: it is the stored coordinate alone; it begins
#: at the fiber's first coordinate, or after the item before; it has as many coordinates as positions in
#: the child, up to the stored one
POINT, FIRST, AFTER, BACK = "point", "first", "after", "back"


class LayoutPart:
    """The base of the parts of a layout."""


@record
class StoredArray(LayoutPart):
    """An array; its type is the level's own index or element type if it is None."""

    name: str
    type: Type | None = None


@record
class Each(StoredArray):
    """A number for each item. `empty` is that of an item without content, if such items are marked."""

    empty: int | None = None


@record
class Coordinate(Each):
    """A coordinate for each item, from 0, in mode `mode` of the level (from 0): that of the item, or the
    last one it covers. `begins` says what the first one is: POINT, AFTER, BACK or the name of an array.
    Items of one fiber are sorted by coordinates, the last mode being the first key."""

    mode: int = 0
    begins: str = POINT


@record
class ChildPositions(StoredArray):
    """The position in the child of each item."""


@record
class Offsets(StoredArray):
    """Item k becomes the items from name[k] up to, not including, name[k + 1]; `counter` counts them all.
    `is_held` if these are the child's positions for a region: one for each coordinate, or for all."""

    counter: str = "stored"
    while_written: str = COUNTS
    is_held: bool = False


@record
class Grid(LayoutPart):
    """Each item becomes one item for each coordinate."""

    def cells(self, sizes: Any) -> Any:
        """The number of items for each, from the sizes of the level's modes: of Exprs or of integers."""
        return sizes[-1]


@record
class Aside(LayoutPart):
    """A separate chain from the fibers, beside the one to the child. It lists what is not at the fill."""

    parts: tuple[LayoutPart, ...]


@record
class Counted(LayoutPart):
    """The items that follow are `counter` items of all fibers, in the order they were made in."""

    counter: str


@record
class Loose(StoredArray):
    """An array outside of the chain, behind its parts; `length` gives how many entries are in use in a
    frozen tensor."""

    length: Callable[[ByName], int] = lambda storage: 0


Layout = tuple[LayoutPart, ...]
#: arrays and counters by name
ByName = dict[str, Any]
#: a function of two items of a chain
OfBoth = Callable[[Expr, Expr], Any]


#: a Storage of `level.py`, which builds on this
Arrays = Any


def arrays(layout: Layout) -> Iterator[StoredArray]:
    """All arrays, including those of separate chains."""
    for part in layout:
        if isinstance(part, Aside):
            yield from arrays(part.parts)
        elif isinstance(part, StoredArray):
            yield part


def _leading(layout: Layout) -> list[Each]:
    """The parts that store a number for each fiber."""
    return list(takewhile(lambda part: isinstance(part, Each), layout))  # type: ignore[arg-type]


def offsets(layout: Layout) -> list[Offsets]:
    """The offsets in the chain to the child."""
    return [part for part in layout if isinstance(part, Offsets)]


def coordinates(store: Arrays) -> list[Buffer]:
    """The buffers of coordinates, first mode first."""
    parts = [part for part in arrays(store.level.layout) if isinstance(part, Coordinate)]
    return [store.buffers[part.name] for part in parts]


# ------------------------------------------------------------------------- while it is written


def assembled(host: Host, store: Arrays, start: Expr, stop: Expr) -> tuple[Expr, Expr] | None:
    """Make the fibers at start..stop (both included), empty. Gives their first and last position in the
    child, or None if positions are made only when entries are written."""
    first: tuple[Expr, Expr] | None = start, stop
    layout = store.level.layout
    for part in layout:
        if isinstance(part, Offsets):
            array = store.buffers[part.name]
            host.grow(array, add(stop, 2))
            if part.while_written == COUNTS:
                host.fill(array, add(start, 1), add(stop, 2), ZERO)
            first = None  # an empty fiber has no items after offsets
            break
        if isinstance(part, Grid):
            cells = part.cells(store.dims)
            begin = host.let(mul(start, cells), "first")
            first = begin, host.let(sub(mul(add(stop, 1), cells), 1), "last")
    of_fibers = _leading(layout)
    end = host.let(add(stop, 1), "end") if of_fibers else stop
    for one in of_fibers:
        assert one.empty is not None
        host.grow(store.buffers[one.name], end)
        host.fill(store.buffers[one.name], start, end, const(one.empty))
    return first


def frozen(host: Host, store: Arrays, count: Expr) -> Expr:
    """Turn the counts of `count` fibers into offsets. Gives the number of positions in the child."""
    layout = store.level.layout
    for part in layout:
        if isinstance(part, Offsets):
            if part.while_written == COUNTS:
                accumulate(host, store.buffers[part.name], count)
        elif isinstance(part, Grid):
            count = host.let(mul(count, part.cells(store.dims)), "count")
    ends = offsets(layout)[-1:]
    return host.get(store.counters[ends[0].counter]) if ends else count


def accumulate(host: Host, counts: Buffer, count: Expr) -> None:
    """Replace counts[1..count] by their prefix sums."""
    total = host.cell(ZERO, "total")

    def step(p: Expr) -> None:
        position = host.let(add(host.get(total), host.load(counts, p, "n", Int64)), "position")
        host.store(counts, p, position)
        host.set(total, position)

    host.count(ONE, count, step, "p")


# ------------------------------------------------------------------------------ of frozen fibers


def positions(
    host: Host,
    store: Arrays,
    layout: Layout,
    count: Expr,
    tell: Callable[[str, Expr], None] = lambda counter, number: None,
) -> Expr:
    """The number of child positions of `count` frozen fibers; `tell` is told their counters."""
    for part in layout:
        if isinstance(part, Aside):
            positions(host, store, part.parts, count, tell)
        elif isinstance(part, Offsets):
            count = host.load(store.buffers[part.name], count, part.counter, Int64, lower=ZERO)
            tell(part.counter, count)
        elif isinstance(part, Grid):
            count = host.let(mul(count, part.cells(store.dims)), "count")
        elif isinstance(part, Counted):
            count = host.get(store.counters[part.counter])
    return count


def equal(host: Host, store: Arrays, layout: Layout, p: Expr, q: Expr, child: OfBoth) -> Expr:
    """Whether the frozen items p and q are equal; `child` compares two positions of the child. It is not
    called for empty items, whose positions there may hold anything."""
    if not layout or isinstance(layout[0], Loose):
        return child(p, q)
    part, *rest = layout
    if isinstance(part, Aside):
        return equal(host, store, part.parts, p, q, child)
    if isinstance(part, ChildPositions):
        a, b = (host.load(store.buffers[part.name], k, "position", lower=ZERO) for k in (p, q))
        return equal(host, store, tuple(rest), a, b, child)
    if isinstance(part, Each):
        each = _leading(layout)
        same: Expr = TRUE
        full: Expr = FALSE if any(part.empty is not None for part in each) else TRUE
        for one in each:
            array = store.buffers[one.name]
            i, j = (host.load(array, k, "i", Int64) for k in (p, q))
            same = op("and", same, compare("eq", i, j))
            if one.empty is not None:
                full = op("or", full, compare("ne", i, one.empty))

        def same_below() -> Expr:
            return equal(host, store, layout[len(each) :], p, q, child)

        return host.only_if(op("and", same, full), same_below, "same", same)

    def same_items(a: Expr, b: Expr) -> Expr:
        return equal(host, store, tuple(rest), a, b, child)

    if isinstance(part, Grid):
        cells = host.let(part.cells(store.dims), "cells")
        a, b = (host.let(mul(k, cells), "first") for k in (p, q))
        return _all_equal(host, a, b, cells, same_items)
    assert isinstance(part, Offsets)
    (first, end), (other, stop) = (_range(host, store, part, k) for k in (p, q))
    length = host.let(sub(end, first), "length")
    is_as_long = compare("eq", length, sub(stop, other))
    return host.only_if(
        is_as_long, lambda: _all_equal(host, first, other, length, same_items), "equal"
    )


def _range(host: Host, store: Arrays, part: Offsets, k: Expr) -> tuple[Expr, Expr]:
    """The range of items that item k becomes; the second is not included."""
    array = store.buffers[part.name]
    return host.load(array, k, "start", Int64), host.load(array, add(k, 1), "stop", Int64)


def _all_equal(host: Host, first: Expr, other: Expr, count: Expr, test: OfBoth) -> Expr:
    """Whether `test` holds for each of `count` items from `first` and its counterpart from `other`."""
    same, at = host.cell(TRUE, "same"), host.cell(ZERO, "k")

    def body() -> None:
        k = host.get(at)
        host.set(same, test(host.let(add(first, k), "a"), host.let(add(other, k), "b")))
        host.set(at, add(k, 1))

    host.loop(lambda: op("and", host.get(same), compare("lt", host.get(at), count)), body)
    return host.get(same)


def move(
    host: Host, store: Arrays, layout: Layout, source: Expr, target: Expr, child: OfBoth
) -> None:
    """Move the frozen item `source` down to `target` <= `source`. The items before `target` are in their
    final place, so its range begins where theirs ends. Items in the order they were made in stay."""
    if not layout or isinstance(layout[0], Loose):
        child(source, target)
        return
    part, *rest = layout

    def below(a: Expr, b: Expr) -> None:
        move(host, store, tuple(rest), a, b, child)

    if isinstance(part, Each | ChildPositions):
        array = store.buffers[part.name]
        host.store(array, target, host.load(array, source, "i"))
        below(source, target)
    elif isinstance(part, Aside):
        move(host, store, part.parts, source, target, lambda a, b: None)
        below(source, target)
    elif isinstance(part, Grid):
        cells = host.let(part.cells(store.dims), "cells")
        a, b = (host.let(mul(k, cells), "first") for k in (source, target))

        host.each_of(
            cells, lambda k: below(host.let(add(a, k), "a"), host.let(add(b, k), "b")), "k"
        )
    elif isinstance(part, Offsets):
        array = store.buffers[part.name]
        start, stop = _range(host, store, part, source)
        to = host.load(array, target, "to", Int64)

        def each(q: Expr) -> None:
            below(q, host.let(add(to, sub(q, start)), "k"))

        host.count(start, sub(stop, ONE), each, "q")
        host.store(array, add(target, 1), host.let(add(to, sub(stop, start)), "end"))
