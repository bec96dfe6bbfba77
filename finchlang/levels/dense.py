"""The Dense level: coordinate i of the fiber at position p is at position p * size + i (Table 4)."""

from __future__ import annotations

from dataclasses import dataclass

from finchlang.host.construct import add, mul, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels import layout as lay, looplets as lp
from finchlang.levels.level import Fiber, Level, Storage
from finchlang.syntax.nodes import Node


@dataclass(frozen=True)
class Dense(Level):
    """`Dense(lvl)`: every coordinate is stored. Freezing and thawing do nothing."""

    lvl: Level

    layout = (lay.Grid(),)
    is_dense = True
    has_gaps = False
    stores_fill = True

    def refill(self, host: Host, store: Storage, count: Expr, value: Expr) -> None:
        self.lvl.refill(host, store.child, mul(count, store.size), value)

    def unfurl(self, host: Host, fiber: Fiber, stop: Expr, protocol: str | None) -> Node:
        before = mul(fiber.position, fiber.dims[-1])
        return lp.Lookup(lambda host, i: fiber.child(add(before, sub(i, 1)), fiber.dirty))
