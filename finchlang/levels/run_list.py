"""The RunList level: runs of equal subfibers, one after the other (Finch'25 Table 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from finchlang.host.construct import sub
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels import layout as lay, looplets as lp
from finchlang.levels.dense import Dense
from finchlang.levels.level import Fiber
from finchlang.levels.run_levels import Runs
from finchlang.levels.sorted_coordinates import Listed, load_range
from finchlang.syntax.nodes import Node
from finchlang.syntax.types import Int64


@dataclass(frozen=True)
class RunList(Runs):
    """`RunList(lvl)`: the q-th run of the fiber at position p ends at right[ptr[p] + q] and begins after
    the run before it (the first at 0); its subfiber is at position ptr[p] + q of the child.

    (Table 4 stores where runs begin, which takes one more entry for each fiber.) Every coordinate is in a
    run; coordinates that are not written are in runs of fill.
    """

    has_gaps = False
    layout: ClassVar[lay.Layout] = (
        lay.Offsets("ptr", while_written=lay.POSITIONS),
        lay.Coordinate("right", begins=lay.AFTER),
    )
    out_of_order = Dense
    counters = (("stored", Int64), ("fibers", Int64), ("covered", Int64))

    def looplets(self, host: Host, fiber: Fiber, stop: Expr, protocol: str | None) -> Node:
        start, end = load_range(host, fiber)
        if protocol == "follow":

            def find(host: Host, i: Expr) -> Node:
                q = host.search(fiber.store.right, start, end, sub(i, 1))
                return lp.at_point(host, self.region(fiber, q), i)

            return lp.Lookup(find)
        listed = Listed(fiber.store.right, start, end, self.fill, stop, "right")
        return listed.steps(host, protocol, lambda host, here: self.region(fiber, here(host)))

    def region(self, fiber: Fiber, q: Expr) -> Node:
        return lp.Run(fiber.child(q))
