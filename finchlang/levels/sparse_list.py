"""The SparseList level: the coordinates of each fiber in ascending order (Finch'25 Table 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels import layout as lay, looplets as lp
from finchlang.levels.level import Fiber, Indexed
from finchlang.levels.sorted_coordinates import Listed, append_entry, counting, load_range
from finchlang.levels.sparse_hash import SparseHash
from finchlang.syntax.nodes import Node


@dataclass(frozen=True)
class SparseList(Indexed):
    """`SparseList(lvl)`: idx[ptr[p] + q] is the q-th stored coordinate of the fiber at position p."""

    layout = (lay.Offsets("ptr"), lay.Coordinate("idx"))
    is_sequential = True
    out_of_order = SparseHash
    lists_entries = True

    def looplets(self, host: Host, fiber: Fiber, stop: Expr, protocol: str | None) -> Node:
        listed = Listed(fiber.store.idx, *load_range(host, fiber), self.fill)
        return listed.points(host, stop, protocol, lambda host, q, i: fiber.child(q))

    def append(self, host: Host, fiber: Fiber) -> tuple[Node, Any]:
        idx = (fiber.store.idx,)
        write = lp.entering(lambda host, i: append_entry(host, fiber, idx, (i,)))
        return write, counting(host, fiber)
