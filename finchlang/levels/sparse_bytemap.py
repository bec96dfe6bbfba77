"""The SparseByteMap level: a Bool for every possible coordinate, and a list of those that are set
(Finch'25 Table 4). It is the usual workspace, cleared in time proportional to what was written."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from finchlang.base.aligned_memory import full_aligned
from finchlang.host.construct import FALSE, ONE, TRUE, ZERO, add, cast, compare, const, mul, op, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels import layout as lay, looplets as lp
from finchlang.levels.level import READ, ByName, Fiber, Given, Indexed, Sizes, Storage
from finchlang.levels.sorted_coordinates import Listed, delimit, each_listed, load_range
from finchlang.syntax.nodes import Node
from finchlang.syntax.types import Bool, Int64


def _many(size: Expr) -> Expr:
    """So many set positions of `size` are sorted no quicker than all flags are scanned."""
    return op("shr", size, 5)


UNSET = const(-1)


@dataclass(frozen=True)
class SparseByteMap(Indexed):
    """`SparseByteMap(lvl)`: coordinate i of the fiber at p is at position p * size + i of `tbl` and of
    the child.

    In read mode `idx` and `ptr` list the set coordinates of each fiber in order. In update mode `idx`
    lists the set positions of all fibers in any order, and `stored` is their number. `cleared` positions
    of `tbl` are in use, false except for those listed; at the last freeze there were `fibers` fibers of
    size `width`. `fibers` is UNSET from when a set position is overwritten with false until freezing.
    """

    layout = (
        lay.Aside((lay.Offsets("ptr", while_written=lay.NOTHING), lay.Coordinate("idx"))),
        lay.Grid(),
        lay.Each("tbl", Bool),
    )
    counters = (("stored", Int64), ("cleared", Int64), ("fibers", Int64), ("width", Int64))
    clears_entries = True

    def declare(self, host: Host, store: Storage) -> None:
        """Clear only the listed positions if the size is as before; else start anew."""
        same = host.let(compare("eq", host.get(store.width), store.size), "same")
        self.lvl.declare(host, store.child)

        def clear() -> None:
            if not self.lvl.is_leaf:
                # a child that is no leaf is assembled again in full
                host.set(store.cleared, ZERO)
                return

            def clear_position(q: Expr, position: Expr) -> None:
                host.store(store.tbl, position, FALSE)
                if not self.lvl.is_pattern:
                    fill = const(self.lvl.fill.value, self.lvl.element_type)
                    host.store(store.child.val, position, fill)

            self._each_listed(host, store, host.get(store.fibers), clear_position)

        host.branch(same, clear, lambda: host.set(store.cleared, ZERO))
        host.set(store.width, store.size)
        host.set(store.fibers, ZERO)
        host.set(store.stored, ZERO)
        self._make_room(host, store)

    def _make_room(self, host: Host, store: Storage) -> None:
        """Make room once for all that an outermost level lists: from `_many` on it counts as dense."""
        if store.is_outermost:
            host.grow(store.idx, _many(store.size))

    def _each_listed(self, host: Host, store: Storage, fibers: Expr, body: Any) -> None:
        if store.is_outermost:  # one fiber, whose coordinates are positions
            last = sub(host.get(store.stored), 1)
            host.count(ZERO, last, lambda q: body(q, host.load(store.idx, q, "i", Int64)), "q")
            return

        def entry(q: Expr, base: Expr) -> None:
            body(q, add(base, host.load(store.idx, q, "i", Int64)))

        each_listed(host, store.ptr, store.size, fibers, entry)

    def assemble(self, host: Host, store: Storage, start: Expr, stop: Expr) -> None:
        wanted = host.let(mul(add(stop, 1), store.size), "wanted")
        cleared = host.get(store.cleared)

        def extend() -> None:
            self.check_positions(host, wanted)  # while it is updated, `idx` lists positions
            host.grow(store.tbl, wanted)
            host.fill(store.tbl, cleared, wanted, FALSE)
            self.lvl.assemble(host, store.child, cleared, host.let(sub(wanted, 1)))
            host.set(store.cleared, wanted)

        host.branch(compare("gt", wanted, cleared), extend)

    def freeze(self, host: Host, store: Storage, count: Expr) -> None:
        size = store.size

        def order() -> None:
            host.sort(store.idx, ZERO, host.get(store.stored))
            if self.lvl.is_pattern:
                are_unset = compare("eq", host.get(store.fibers), UNSET)
                host.branch(are_unset, partial(self._leave_out_unset, host, store))

        def coordinate(q: Expr, base: Expr) -> None:
            host.store(store.idx, q, sub(host.load(store.idx, q, "position", Int64), base))

        host.grow(store.ptr, add(count, 1))
        if store.is_whole:
            is_dense = self._is_dense(host, store)
            host.branch(is_dense, lambda: self._scan(host, store, count), order)
        else:
            order()
        delimit(host, store.ptr, store.idx, store.stored, size, count)
        if count is not ONE:  # of a single fiber, positions are coordinates
            each_listed(host, store.ptr, size, count, coordinate)
        host.set(store.fibers, count)
        positions = host.let(mul(count, size), "count")
        if not store.is_outermost:  # a copy of the tensor has no room for fibers that were dropped
            host.set(store.cleared, positions)
        self.lvl.freeze(host, store.child, positions)

    def _is_dense(self, host: Host, store: Storage) -> Expr:
        """Whether so many positions are listed that scanning all flags is quicker than sorting the list,
        and that testing whether a position is new mispredicts often. Then no more are listed until
        freezing scans the flags (only where all fibers exist)."""
        positions = store.size if store.is_outermost else host.get(store.cleared)
        return compare("ge", host.get(store.stored), _many(positions))

    def _scan(self, host: Host, store: Storage, count: Expr) -> None:
        """List the set positions in order by scanning all flags."""
        kept, size = host.cell(ZERO, "kept"), store.size

        def scan(base: Expr) -> None:
            def look(i: Expr) -> None:
                k, position = host.get(kept), add(base, i)
                host.store(store.idx, k, position)
                is_set = host.load(store.tbl, position, "set")
                host.set(kept, add(k, cast(is_set, Int64)))

            host.each_of(size, look, "position")

        def fiber(p: Expr) -> None:
            host.grow(store.idx, add(host.get(kept), size))
            scan(host.let(mul(p, size), "base"))

        if count is ONE:
            host.grow(store.idx, size)
            scan(ZERO)
        else:
            host.each_of(count, fiber, "p")
        host.set(store.stored, host.get(kept))

    def _leave_out_unset(self, host: Host, store: Storage) -> None:
        """Leave out sorted positions that were unset again (a Pattern overwritten with false), or are
        listed twice because of that."""
        kept, previous = host.cell(ZERO, "kept"), host.cell(const(-1), "previous")

        def look(q: Expr) -> None:
            k, position = host.get(kept), host.load(store.idx, q, "position", Int64)
            is_new = compare("ne", position, host.get(previous))
            is_kept = op("and", is_new, host.load(store.tbl, position, "set"))
            host.store(store.idx, k, position)
            host.set(kept, add(k, cast(is_kept, Int64)))
            host.set(previous, position)

        host.each_of(host.get(store.stored), look, "q")
        host.set(store.stored, host.get(kept))

    def thaw(self, host: Host, store: Storage, count: Expr) -> None:
        self.lvl.thaw(host, store.child, host.let(mul(count, store.size), "count"))
        self._make_room(host, store)
        if count is not ONE:  # one fiber: coordinates are positions already
            self.check_positions(host, mul(count, store.size))
            self._each_listed(host, store, count, partial(host.store, store.idx))

    def equal(self, host: Host, store: Storage, p: Expr, q: Expr) -> Expr:
        """Compares only what is listed: the rest is fill in both."""
        size, idx = store.size, store.idx

        def children(a: Expr, b: Expr) -> Expr:
            position = host.let(add(mul(p, size), host.load(idx, a, "i", Int64)), "position")
            other = host.let(add(mul(q, size), host.load(idx, b, "i", Int64)), "other")
            return self.lvl.equal(host, store.child, position, other)

        (listing, *_) = self.layout
        return lay.equal(host, store, listing.parts, p, q, children)

    def truncate(self, host: Host, store: Storage, count: Expr) -> None:
        super().truncate(host, store, count)
        host.set(store.fibers, count)
        host.set(store.cleared, mul(count, store.size))

    def unfurl(self, host: Host, fiber: Fiber, stop: Expr, protocol: str | None) -> Node:
        def where(i: Expr) -> Expr:
            return add(mul(fiber.position, fiber.dims[-1]), sub(i, 1))

        def at(host: Host, i: Expr) -> Node:
            position = host.let(where(i), "position")
            is_set = host.load(fiber.store.tbl, position, "set")
            return lp.Switch(is_set, fiber.child(position), self.fill)

        if fiber.mode != READ:
            return lp.entering(lambda host, i: self._mark(host, fiber, where(i)))
        if protocol == "follow":
            return lp.Lookup(at)

        def looplets(host: Host) -> Node:
            listed = Listed(fiber.store.idx, *load_range(host, fiber), self.fill)
            return listed.points(host, stop, protocol, lambda host, q, i: fiber.child(where(i)))

        return lp.delayed(looplets)

    def _mark(self, host: Host, fiber: Fiber, where: Expr) -> tuple[Node, Any]:
        """Write at a position, and list it if it becomes set."""
        store = fiber.store
        position = host.let(where, "position")
        before = host.load(store.tbl, position, "set")
        dirty = host.cell(before, "dirty")

        def enlist() -> None:
            q = host.get(store.stored)
            if not store.is_outermost:
                host.grow(store.idx, add(q, 1))
            host.store(store.idx, q, position)
            host.store(store.tbl, position, TRUE)
            host.set(store.stored, add(q, 1))
            fiber.mark(host)

        def unless_listed() -> None:  # by another access of the same statement
            host.branch(op("not", host.load(store.tbl, position, "set")), enlist)

        def unset() -> None:
            host.store(store.tbl, position, FALSE)
            host.set(store.fibers, UNSET)

        def epilogue(host: Host) -> None:
            now = host.get(dirty)

            def mark() -> None:
                is_set = host.load(store.tbl, position, "set")
                host.store(store.tbl, position, op("or", now, is_set))

            is_new = op("and", now, op("not", before))
            enlist_if_new = partial(host.branch, is_new, unless_listed)
            if store.is_whole:
                is_dense = self._is_dense(host, store)
                host.branch(is_dense, mark, enlist_if_new)
            else:
                enlist_if_new()
            if self.lvl.is_pattern:  # may have been overwritten with false
                host.branch(op("and", before, op("not", now)), unset)

        # where nothing is written, `join_branches` leaves all of the epilogue out
        def epilogue_if_written(host: Host) -> None:
            host.branch(host.get(written), partial(epilogue, host))

        if self.lvl.is_pattern:
            written = host.cell(FALSE, "written")
            return fiber.child(position, dirty, written), epilogue_if_written
        return fiber.child(position, dirty), epilogue

    def pack(self, given: Given) -> tuple[ByName, np.ndarray, Any]:
        storage, entries, kept = super().pack(given)
        tbl = full_aligned(given.fibers * given.sizes[0], False, bool)
        tbl[entries] = True
        return storage | {"tbl": tbl} | _counters(given.fibers, *given.sizes), entries, kept

    def problem(self, storage: ByName, count: int, sizes: Sizes) -> str | None:
        if found := super().problem(storage, count, sizes):
            return found
        _, _, listed = self.unpack(storage, np.arange(count), sizes)
        if not np.array_equal(np.flatnonzero(storage["tbl"][: count * sizes[0]]), listed):
            return "tbl has other places than idx"
        wrong = [k for k, n in _counters(count, *sizes).items() if storage[k] != n]
        told = [f"{k} is {storage[k]}, for {count} x {sizes[0]} places" for k in wrong]
        return told[0] if told else None


def _counters(fibers: int, width: int) -> ByName:
    """The counters of a frozen level that do not follow from its offsets."""
    return {"cleared": fibers * width, "fibers": fibers, "width": width}
