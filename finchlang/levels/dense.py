"""The Dense level: coordinate i of the fiber at position p is at position p * size + i (Table 4)."""

from __future__ import annotations

from dataclasses import dataclass

from finchlang.host.construct import add, mul, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels import layout as lay, looplets as lp
from finchlang.levels.level import Dims, Fiber, Level, Storage
from finchlang.levels.pattern import reject_pattern
from finchlang.syntax.nodes import Node


@dataclass(frozen=True)
class Dense(Level):
    """`Dense(lvl)`: every coordinate is stored. Freezing and thawing do nothing."""

    lvl: Level

    layout = (lay.Grid(),)
    is_dense = True
    has_gaps = False
    stores_fill = True

    def __post_init__(self) -> None:
        why = "would be true everywhere: a Dense level stores every coordinate"
        reject_pattern(self, why, ", or a sparse level over Pattern()")

    def refill(self, host: Host, store: Storage, dims: Dims, count: Expr, value: Expr) -> None:
        self.lvl.refill(host, store.child, dims[:-1], mul(count, dims[-1]), value)

    def unfurl(self, host: Host, fiber: Fiber, stop: Expr, protocol: str | None) -> Node:
        def body(host: Host, i: Expr) -> Node:
            return fiber.child(add(mul(fiber.position, fiber.dims[-1]), sub(i, 1)), fiber.dirty)

        return lp.Lookup(body)
