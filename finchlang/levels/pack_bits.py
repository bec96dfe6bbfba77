"""The PackBits level: runs of equal subfibers mixed with literal regions (Looplets'23 Fig 3h)."""

from __future__ import annotations

from dataclasses import dataclass

from finchlang.host.construct import FALSE, ZERO, add, compare, op, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels import layout as lay, looplets as lp
from finchlang.levels.level import Fiber, Storage
from finchlang.levels.run_list import RunList
from finchlang.syntax import nodes as ast, types


@dataclass(frozen=True)
class PackBits(RunList):
    """`PackBits(lvl)`: the q-th region of the fiber at position p ends at right[ptr[p] + q] and begins
    after the region before it (the first at 0). Its subfibers are at positions ofs[ptr[p] + q] to
    ofs[ptr[p] + q + 1] - 1 of the child: a single one for all coordinates of the region (a run), or one
    for each coordinate (a literal region).

    Written as a RunList. After merging equal neighbours, freezing joins adjacent runs of one coordinate
    into literal regions.
    """

    layout = (*RunList.layout, lay.Offsets("ofs", while_written=lay.NOTHING, is_held=True))
    counts_lengths = False  # no counter has the number of regions

    def freeze(self, host: Host, store: Storage, count: Expr) -> None:
        """Join the runs of a RunList into regions."""
        RunList.freeze(self, host, store, count)
        host.grow(store.ofs, add(host.get(store.stored), 1))
        host.store(store.ofs, ZERO, ZERO)
        regions, first = host.cell(ZERO, "regions"), host.cell(ZERO, "first")

        def begin_region() -> None:
            host.set(regions, add(host.get(regions), 1))

        def fiber(p: Expr) -> None:
            stop = host.load(store.ptr, add(p, 1), "stop", types.Int64)
            begin, is_open = host.cell(ZERO, "begin"), host.cell(FALSE, "open")

            def run(q: Expr) -> None:
                end = host.load(store.right, q, "right", types.Int64)
                single = host.let(compare("eq", host.get(begin), end), "single")
                joins = op("and", single, host.get(is_open))
                host.branch(joins, lambda: None, begin_region)
                now = host.get(regions)
                host.store(store.right, sub(now, 1), end)
                host.store(store.ofs, now, add(q, 1))
                host.set(is_open, single)
                host.set(begin, add(end, 1))

            host.count(host.get(first), sub(stop, 1), run, "q")
            host.set(first, stop)
            host.store(store.ptr, add(p, 1), host.get(regions))

        host.each_of(count, fiber, "p")

    def region(self, fiber: Fiber, q: Expr) -> ast.Node:
        def either(host: Host) -> ast.Node:
            ofs = fiber.store.ofs
            first = host.load(ofs, q, "first", types.Int64, lower=ZERO)
            after = host.load(ofs, add(q, 1), "after", types.Int64)
            end = host.load(fiber.store.right, q, "right", types.Int64)
            # literals are counted back from the last, which is at coordinate `end` (from 0)
            base = host.let(sub(sub(after, end), 2), "base")
            literal = lp.Lookup(lambda host, i: fiber.child(add(base, i)))
            is_run = compare("eq", after, add(first, 1))
            return lp.Switch(is_run, lp.Run(fiber.child(first)), literal)

        return lp.delayed(either)
