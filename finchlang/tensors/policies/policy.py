"""The interface of policies, and what they work on: the batch of entries that a workspace has taken and
not merged yet (the accumulation array of Workspaces'24 section 4.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from finchlang.algebra import Operator
from finchlang.host.fold import ZERO, add, cast, compare, const, op, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Buffer, Expr
from finchlang.syntax import Literal
from finchlang.tensors.level import Fiber, Storage
from finchlang.types import Int64, Type

#: arrays of a level, as in `Level.arrays`
Arrays = tuple[tuple[str, Type | None], ...]


@dataclass(frozen=True, eq=False)
class Batch:
    """Entry e, from 0 up to, not including, the counter `taken`, has the coordinate acc1[e], acc2[e]
    and so on (from 0, the first mode's first), and its value in acc_val[e]. As long as nothing was
    written to it, or for good, it is not *set*: then acc1[e] is -1 - the coordinate.

    `sizes` are those of the modes, the first mode's first, as in `coordinates` and in `stored`, the arrays
    of the coordinates of what was merged. Values are combined by `operator`, if they are, and begin
    as `beginning`.
    """

    store: Storage
    sizes: tuple[Expr, ...]
    coordinates: tuple[Buffer, ...]
    stored: tuple[Buffer, ...]
    operator: Operator | None
    beginning: Literal

    @property
    def values(self) -> Storage:
        """The values as a leaf has them."""
        return Storage(self.store.child.level, {"val": self.store.acc_val}, {})

    def value(self, e: Expr, mode: str, dirty: Any = None) -> Fiber:
        """The value of entry e."""
        return Fiber(self.values, (), e, dirty, mode)

    def place(self, host: Host, e: Expr) -> list[Expr]:
        """The coordinates of an entry that is set."""
        return [host.load(a, e, "i", Int64, lower=ZERO) for a in self.coordinates]

    def combined(self, old: Expr, new: Expr) -> Expr:
        """`old op new`."""
        row = self.operator
        if row is None or not row.keeps_old:
            return new
        return cast(row.build(old, new), new.type)

    def list_set(self, host: Host) -> Expr:
        """Put the numbers of the entries that are set in `number`, ascending; gives how many."""
        found = host.cell(ZERO, "found")

        def entry(e: Expr) -> None:
            n = host.get(found, lower=ZERO)
            host.store(self.store.number, n, e)
            is_set = compare("ge", host.load(self.coordinates[0], e, "i", Int64), 0)
            host.set(found, op("select", is_set, add(n, 1), n))

        host.count(ZERO, sub(host.get(self.store.taken), 1), entry, "e")
        return host.get(found, lower=ZERO)

    def sort(self, host: Host, count: Expr, keys: Buffer, bound: Expr) -> None:
        """Sort the first `count` numbers by the keys of their entries, which are below `bound`; those of
        equal keys stay in order."""
        host.sort_by(self.store.number, self.store.scratch, ZERO, count, keys, bound)


class Policy:
    """How a workspace takes entries: three steps (Workspaces'24 Algorithm 1), each of which has what it
    does most often as its default. A policy has no state of its own; what it keeps of a batch is in
    arrays of the level."""

    name: ClassVar[str]
    #: whether there is one entry only for a place, so that its values are combined at insertion
    combines: ClassVar[bool] = False
    #: whether places are numbered, and must be fewer than 2^62
    numbers_places: ClassVar[bool] = False

    def arrays(self, modes: int) -> Arrays:
        """Its arrays, besides those that Batch speaks of, `number` and `scratch`."""
        return ()

    def entries(self) -> tuple[str, ...]:
        """Those of its arrays that have a place for each entry."""
        return ()

    def begin(self, host: Host, batch: Batch) -> None:
        """Get ready for the first batch since the workspace was declared or thawed."""

    def insert(self, host: Host, batch: Batch, place: tuple[Expr, ...]) -> tuple[Expr, Expr]:
        """The entry for the coordinates `place` and whether it is new; that which is new is the one after
        the last, and the workspace makes it."""
        raise NotImplementedError

    def forget(self, host: Host, batch: Batch, e: Expr) -> None:
        """The last entry, e, is no more, as nothing was written to it."""

    def sort(self, host: Host, batch: Batch) -> Expr:
        """Put the numbers of the entries that are set in `number`, sorted by their last coordinates, then
        by those before and so on, those of one place in the order of insertion; gives how many."""
        count = batch.list_set(host)
        for keys, size in zip(batch.coordinates, batch.sizes, strict=True):
            batch.sort(host, count, keys, size)
        return count

    def merge(self, host: Host, batch: Batch, count: Expr) -> None:
        """Merge the `count` entries that are sorted into those stored."""
        merge(host, batch, count, self.combines)

    def clear(self, host: Host, batch: Batch) -> None:
        """The batch was merged and is empty: `taken` says still how many there were."""


def merge(host: Host, batch: Batch, count: Expr, is_combined: bool) -> None:
    """Merge entries into those that are stored, in place: first these go to the end of the room for all
    of both, from where they are read as they are written again, with the new ones, from the beginning:
    what is written is always behind what is still to be read. Entries of one place are combined in the
    order of `number`, unless that was done when they were inserted (`is_combined`)."""
    merger = _Merger(host, batch, count)
    merger.make_room()
    merger.merge(is_combined)
    merger.close()


class _Merger:
    """Cells say how far a merging is: the next entry to `read` of those stored and of the new ones, and
    where the next goes."""

    def __init__(self, host: Host, batch: Batch, count: Expr):
        self.host, self.batch, self.count = host, batch, count
        self.store, self.idx = batch.store, batch.stored
        self.lvl = batch.store.child.level
        self.stored = host.get(batch.store.stored)
        self.end = host.let(add(self.stored, count), "end")

    def make_room(self) -> None:
        host, count, stored = self.host, self.count, self.stored
        for idx in self.idx:
            host.grow(idx, self.end)
        last = sub(self.end, 1)
        self.lvl.reserve(host, self.store.child, (), last, last)

        def aside(k: Expr) -> None:
            source = host.let(sub(sub(stored, 1), k), "source", lower=ZERO)
            self.move(source, host.let(add(source, count), "target"))

        host.count(ZERO, sub(stored, 1), aside, "k")
        self.read, self.new = host.cell(count, "read"), host.cell(ZERO, "new")
        self.to = host.cell(ZERO, "to")

    def move(self, source: Expr, target: Expr) -> None:
        """An entry of those stored to another place among them."""
        for idx in self.idx:
            self.host.store(idx, target, self.host.load(idx, source, "i"))
        self.lvl.move(self.host, self.store.child, (), source, target)

    def advance(self, cell: Any) -> None:
        self.host.set(cell, add(self.host.get(cell), 1))

    def stored_place(self, q: Expr) -> list[Expr]:
        return [self.host.load(idx, q, "i", Int64) for idx in self.idx]

    def guarded(self, cell: Any, end: Expr, test: Any) -> Expr:
        """Whether there is something to read still for which `test` holds."""
        host = self.host
        at, holds = host.get(cell, lower=ZERO), host.cell(const(False), "holds")
        host.branch(compare("lt", at, end), lambda: host.set(holds, test(at)))
        return host.get(holds)

    def new_value(self, e: Expr) -> Expr:
        return self.host.load(self.store.acc_val, e, "val")

    def merge(self, is_combined: bool) -> None:
        host, store, count = self.host, self.store, self.count

        def entry() -> None:
            e = host.load(store.number, host.get(self.new, lower=ZERO), "e", lower=ZERO)
            place = self.batch.place(host, e)

            def is_before(q: Expr) -> Expr:
                return _is_before(self.stored_place(q), place)

            def is_there(q: Expr) -> Expr:
                return _is_same(self.stored_place(q), place)

            def is_again(n: Expr) -> Expr:
                other = host.load(store.number, n, "e", lower=ZERO)
                return _is_same(self.batch.place(host, other), place)

            host.loop(lambda: self.guarded(self.read, self.end, is_before), self.keep)
            value = host.cell(self.first(e), "value")

            def onto() -> None:
                q = host.get(self.read, lower=ZERO)
                old = host.load(store.child.val, q, "val")
                host.set(value, self.batch.combined(old, self.new_value(e)))
                self.advance(self.read)

            host.branch(self.guarded(self.read, self.end, is_there), onto)
            self.advance(self.new)

            def again() -> None:
                other = host.load(store.number, host.get(self.new, lower=ZERO), "e", lower=ZERO)
                both = self.batch.combined(host.get(value), self.new_value(other))
                host.set(value, both)
                self.advance(self.new)

            if not is_combined:
                host.loop(lambda: self.guarded(self.new, count, is_again), again)
            to = host.get(self.to, lower=ZERO)
            for idx, i in zip(self.idx, place, strict=True):
                host.store(idx, to, i)
            host.store(store.child.val, to, host.get(value))
            self.advance(self.to)

        host.loop(lambda: compare("lt", host.get(self.new), count), entry)

    def first(self, e: Expr) -> Expr:
        """What is stored for a place that is new."""
        value, fill = self.new_value(e), self.lvl.fill
        if self.batch.beginning == fill:
            return value
        return self.batch.combined(const(fill.value, self.lvl.element_type), value)

    def keep(self) -> None:
        """The next of those stored stays as it is."""
        at, to = (self.host.get(cell, lower=ZERO) for cell in (self.read, self.to))
        self.move(at, to)
        self.advance(self.read)
        self.advance(self.to)

    def close(self) -> None:
        """What is left of those stored follows."""
        host = self.host
        read, to = host.get(self.read, lower=ZERO), host.get(self.to, lower=ZERO)
        left = host.let(sub(self.end, read), "left")

        def follow(k: Expr) -> None:
            self.move(host.let(add(read, k), "source"), host.let(add(to, k), "target"))

        host.branch(compare("lt", to, read), lambda: host.count(ZERO, sub(left, 1), follow, "k"))
        host.set(self.store.stored, add(to, left))


def _is_before(one: list[Expr], other: list[Expr]) -> Expr:
    """Whether the last coordinates, or if they are the same those before, are less."""
    less = compare("lt", one[0], other[0])
    for a, b in zip(one[1:], other[1:], strict=True):
        same = op("and", compare("eq", a, b), less)
        less = op("or", compare("lt", a, b), same)
    return less


def _is_same(one: list[Expr], other: list[Expr]) -> Expr:
    same = compare("eq", one[0], other[0])
    for a, b in zip(one[1:], other[1:], strict=True):
        same = op("and", same, compare("eq", a, b))
    return same
