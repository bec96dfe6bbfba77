"""The Ragged level: fibers store their first coordinates, as many as each has (Looplets'23 Fig 3e)."""

from __future__ import annotations

from dataclasses import dataclass

from finchlang.host.construct import ZERO, add, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels.block_levels import Entry, OneBlock
from finchlang.levels.level import Fiber
from finchlang.levels.sorted_coordinates import load_range


@dataclass(frozen=True)
class Ragged(OneBlock):
    """`Ragged(lvl)`: the fiber at position p stores its first ofs[p + 1] - ofs[p] coordinates, at the
    positions from ofs[p] in the child."""

    def region(self, host: Host, fiber: Fiber, size: Expr) -> tuple[Expr, Expr, Expr]:
        start, stop = load_range(host, fiber, "ofs")
        return ZERO, host.let(sub(stop, start), "length", lower=ZERO, upper=size), start

    def enter(self, host: Host, fiber: Fiber, before: Expr, first: Expr) -> Entry:
        start = sub(first, before)
        return lambda host, i: add(start, sub(i, 1)), lambda: None
