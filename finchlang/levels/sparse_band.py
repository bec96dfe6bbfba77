"""The SparseBand level: one block of neighbouring coordinates in each fiber (Finch'25 Table 4,
Looplets'23 Fig 3f)."""

from __future__ import annotations

from dataclasses import dataclass

from finchlang.host.construct import ZERO, add, compare, op, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels import layout as lay
from finchlang.levels.block_levels import Entry, OneBlock
from finchlang.levels.level import Fiber
from finchlang.levels.sorted_coordinates import load_range
from finchlang.syntax.types import Int64


@dataclass(frozen=True)
class SparseBand(OneBlock):
    """`SparseBand(lvl)`: the block of the fiber at position p ends at coordinate idx[p] (-1 if it is
    empty); its positions in the child are ofs[p] up to, not including, ofs[p + 1]."""

    layout = (lay.Coordinate("idx", empty=-1, begins=lay.BACK), lay.Offsets("ofs", is_held=True))

    def region(self, host: Host, fiber: Fiber, size: Expr) -> tuple[Expr, Expr, Expr]:
        start, stop = load_range(host, fiber, "ofs")
        idx = host.load(fiber.store.idx, fiber.position, "i", Int64)
        last = host.let(add(idx, 1), "last", lower=ZERO, upper=size)
        before = host.let(sub(last, sub(stop, start)), "before", lower=ZERO, upper=last)
        return before, last, start

    def enter(self, host: Host, fiber: Fiber, before: Expr, first: Expr) -> Entry:
        store = fiber.store
        shift = host.cell(ZERO, "shift")  # coordinate i (from 1) is at position shift + i

        def go_on() -> None:
            last = host.load(store.idx, fiber.position, "last", Int64)
            host.set(shift, sub(sub(first, last), 2))

        host.branch(compare("gt", before, 0), go_on)

        def position(host: Host, i: Expr) -> Expr:
            is_begun = compare("gt", add(before, host.get(store.stored)), first)
            # The first coordinate that is written decides where the block begins.
            host.branch(op("not", is_begun), lambda: host.set(shift, sub(first, i)))
            return add(host.get(shift), i)

        def leave() -> None:
            last = sub(sub(host.get(store.stored), host.get(shift)), 2)
            host.store(store.idx, fiber.position, last)

        return position, leave
