"""The SparseRunList level: runs of equal subfibers with fill between them (Finch'25 Table 4)."""

from __future__ import annotations

from dataclasses import dataclass

from finchlang.host.construct import ZERO, add, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels import layout as lay
from finchlang.levels.level import Fiber
from finchlang.levels.looplets import Entry, Run
from finchlang.levels.run_levels import Runs
from finchlang.levels.sorted_coordinates import Listed, load_range
from finchlang.levels.sparse_hash import SparseHash
from finchlang.syntax.nodes import Node
from finchlang.syntax.types import Int64


@dataclass(frozen=True)
class SparseRunList(Runs):
    """`SparseRunList(lvl)`: the q-th run of the fiber at position p begins at left[ptr[p] + q] and
    ends at right[ptr[p] + q]; its subfiber is at position ptr[p] + q of the child."""

    layout = (
        lay.Offsets("ptr", while_written=lay.POSITIONS),
        lay.Each("left"),
        lay.Coordinate("right", begins="left"),
    )
    out_of_order = SparseHash
    counters = (("stored", Int64), ("fibers", Int64))

    def looplets(self, host: Host, fiber: Fiber, stop: Expr, protocol: str | None) -> Node:
        left, right = fiber.store.left, fiber.store.right
        listed = Listed(right, *load_range(host, fiber), self.fill, name="right")

        def run(host: Host, listed: Listed, q: Expr) -> Entry:
            bound = sub(listed.last, 1)
            begin = host.load(left, q, "left", Int64, lower=ZERO, upper=bound)
            end = host.load(right, q, "right", Int64, lower=begin, upper=bound)
            return add(begin, 1), add(end, 1), lambda host: Run(fiber.child(q))

        return listed.looplets(host, stop, protocol, run)
