"""Levels that list runs of equal subfibers, from ptr[p] to ptr[p + 1] - 1, by their last coordinates in
`right`: the base of RunList, SparseRunList and PackBits (Finch'25 Table 4).

They are written in order, run by run. Meanwhile ptr has the offsets of the finished fibers; `fibers` is
their number, `stored` the number of runs so far. Equal neighbours are merged: at once if their children
are leaves, whose values can be compared, else by freezing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from finchlang.host.construct import FALSE, TRUE, ZERO, add, compare, op, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Cell, Expr
from finchlang.levels import layout as lay, looplets as lp
from finchlang.levels.level import ByName, Fiber, Given, Indexed, Storage
from finchlang.syntax import nodes as ast, types

#: cells, and the values to restore
Contents = list[tuple[Cell, Expr]]


@dataclass(frozen=True)
class Runs(Indexed):
    """The base of levels of runs. One that has gaps has the coordinate where each run begins in `left`; in
    others `covered` coordinates of the unfinished fiber are in runs."""

    is_sequential = True
    merges = True

    def freeze(self, host: Host, store: Storage, count: Expr) -> None:
        """Finish all fibers, then merge equal neighbours that are not merged yet. (Table 4 copies them
        into a buffer; here the runs that stay move down in place.)"""
        self._finish(host, store, count)
        self.check_positions(host, store.counters["stored"])
        self.lvl.freeze(host, store.child, host.get(store.stored))
        if not self.lvl.is_leaf:
            self._merge(host, store, count)

    def _finish(self, host: Host, store: Storage, count: Expr) -> None:
        """End those fibers below `count` that are not ended yet."""

        def end_fiber() -> None:
            self._fill_up(host, store, store.size)
            after = host.let(add(host.get(store.fibers), 1), "after")
            host.store(store.ptr, after, host.get(store.stored))
            host.set(store.fibers, after)
            if not self.has_gaps:
                host.set(store.covered, ZERO)

        host.loop(lambda: compare("lt", host.get(store.fibers), count), end_fiber)

    def _fill_up(self, host: Host, store: Storage, end: Expr) -> Contents:
        """Store a run of fill up to coordinate `end` if the level stores gaps; gives the state before."""
        if self.has_gaps:
            return []
        stored, covered = host.get(store.stored), host.get(store.covered)

        def gap() -> None:
            self.lvl.assemble(host, store.child, stored, stored)
            self._push(host, store, stored, covered, end)

        host.branch(compare("lt", covered, end), gap)
        return [(store.stored, stored), (store.covered, covered)]

    def _push(self, host: Host, store: Storage, q: Expr, start: Expr, stop: Expr) -> None:
        """Store the next run, q, over coordinates start..stop (from 1); or lengthen the run before it if
        they touch and are equal, which leaves position q unused."""
        if self.has_gaps:
            host.grow(store.left, add(q, 1))
            host.store(store.left, q, sub(start, 1))
        host.grow(store.right, add(q, 1))

        def append() -> None:
            host.store(store.right, q, sub(stop, 1))
            host.set(store.stored, add(q, 1))

        def lengthen() -> None:
            host.store(store.right, sub(q, 1), sub(stop, 1))
            host.set(store.stored, q)

        if self.lvl.is_leaf:
            host.branch(self._continues(host, store, q, start), lengthen, append)
        else:
            append()
        if not self.has_gaps:
            host.set(store.covered, stop)

    def _continues(self, host: Host, store: Storage, q: Expr, start: Expr) -> Expr:
        """Whether run q, whose child is a leaf, touches the run before it in its fiber and is equal."""
        if self.has_gaps:
            first = host.load(store.ptr, host.get(store.fibers), "first", types.Int64)
            has_another = compare("gt", q, first)
        else:
            has_another = compare("gt", host.get(store.covered), 0)

        def is_equal() -> Expr:
            equal = self.lvl.equal(host, store.child, host.let(sub(q, 1), "before"), q)
            if self.has_gaps:
                end = host.load(store.right, sub(q, 1), "end", types.Int64)
                equal = op("and", compare("eq", end, sub(start, 2)), equal)
            return equal

        return host.only_if(has_another, is_equal, "same")

    def append(self, host: Host, fiber: Fiber) -> tuple[ast.Node, Any]:
        store = fiber.store
        before = [(cell, host.get(cell)) for cell in store.counters.values()]
        if fiber.position is not ZERO:  # else there are no fibers before it to be ended
            self._finish(host, store, fiber.position)
        written = fiber.dirty and host.cell(FALSE, "written")

        def epilogue(host: Host) -> None:
            if written is not None:  # if nothing was written, the parent uses the position again
                is_written = host.get(written)
                host.branch(is_written, lambda: fiber.mark(host), lambda: _restore(host, before))

        def accept(host: Host, start: Expr, stop: Expr) -> ast.Node:
            return lp.Thunk(lambda host: self._append_run(host, fiber, start, stop, written))

        return lp.AcceptRun(accept), epilogue

    def _append_run(
        self, host: Host, fiber: Fiber, start: Expr, stop: Expr, written: Cell | None
    ) -> tuple[ast.Node, Any]:
        store = fiber.store
        before = self._fill_up(host, store, sub(start, 1))
        q = host.get(store.stored)
        self.lvl.assemble(host, store.child, q, q)
        dirty = host.cell(FALSE, "dirty")

        def push() -> None:
            self._push(host, store, q, start, stop)
            if written is not None:
                host.set(written, TRUE)

        def epilogue(host: Host) -> None:
            host.branch(host.get(dirty), push, lambda: _restore(host, before))

        return fiber.child(q, dirty), epilogue

    def _merge(self, host: Host, store: Storage, count: Expr) -> None:
        kept, first = host.cell(ZERO, "kept"), host.cell(ZERO, "first")

        def fiber(p: Expr) -> None:
            stop = host.load(store.ptr, add(p, 1), "stop", types.Int64)
            base = host.get(kept)

            def run(q: Expr) -> None:
                k = host.get(kept)
                same = host.cell(FALSE, "same")

                def compare_children() -> None:
                    before = host.let(sub(k, 1), "before")
                    host.set(same, self.lvl.equal(host, store.child, before, q))

                def look() -> None:
                    if not self.has_gaps:
                        compare_children()
                        return
                    end = host.load(store.right, sub(k, 1), "end", types.Int64)
                    begin = host.load(store.left, q, "begin", types.Int64)
                    host.branch(compare("eq", begin, add(end, 1)), compare_children)

                def lengthen() -> None:
                    host.store(store.right, sub(k, 1), host.load(store.right, q, "right"))

                host.branch(compare("gt", k, base), look)
                host.branch(host.get(same), lengthen, lambda: keep(k, q))

            def keep(k: Expr, q: Expr) -> None:
                def shift() -> None:
                    runs = tuple(part for part in self.layout if isinstance(part, lay.Each))
                    child = partial(self.lvl.move, host, store.child)
                    lay.move(host, store, runs, q, k, child)

                host.branch(compare("lt", k, q), shift)
                host.set(kept, add(k, 1))

            host.count(host.get(first), sub(stop, 1), run, "q")
            host.set(first, stop)
            host.store(store.ptr, add(p, 1), host.get(kept))

        host.each_of(count, fiber, "p")
        left = host.get(kept)
        host.set(store.stored, left)
        self.lvl.truncate(host, store.child, left)

    def pack(self, given: Given) -> tuple[ByName, np.ndarray, Any]:
        arrays, positions, kept = super().pack(given)
        return arrays | {"fibers": given.fibers}, positions, kept


def _restore(host: Host, contents: Contents) -> None:
    """Restore cells. A run lengthened to fill a gap stays so: the next write lengthens it again."""
    for cell, value in contents:
        host.set(cell, value)
