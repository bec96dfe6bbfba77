"""The Dense level: coordinate i of the fiber at position p is at position p * size + i (Table 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from finchlang.base.errors import FinchError
from finchlang.host.construct import ZERO, add, mul, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels.fiber_ops import each_equal
from finchlang.levels.level import Dims, Fiber, Level, Storage
from finchlang.levels.looplets import Lookup
from finchlang.levels.pattern import Pattern
from finchlang.levels.positions import Positioned
from finchlang.syntax.nodes import Node


@dataclass(frozen=True)
class Dense(Positioned):
    """`Dense(lvl)`: every coordinate is stored. Freezing and thawing do nothing of their own."""

    lvl: Level

    is_dense: ClassVar[bool] = True
    has_gaps: ClassVar[bool] = False
    has_all_positions: ClassVar[bool] = True
    stores_fill: ClassVar[bool] = True
    is_comparable: ClassVar[bool] = True
    protocols: ClassVar[tuple[str, ...]] = ("follow",)

    def __post_init__(self) -> None:
        if isinstance(self.lvl, Pattern):
            raise FinchError(
                "type",
                "Dense(Pattern()) would be true everywhere: a Dense level stores every coordinate",
                hint="use Dense(Element(false)), or a sparse level over Pattern()",
            )

    def declare(self, host: Host, store: Storage, dims: Dims) -> None:
        self.lvl.declare(host, store.child, dims[:-1])

    def assemble(self, host: Host, store: Storage, dims: Dims, start: Expr, stop: Expr) -> None:
        positions = _positions(host, dims[-1], start, stop)
        self.lvl.assemble(host, store.child, dims[:-1], *positions)

    def refill(self, host: Host, store: Storage, dims: Dims, count: Expr, value: Expr) -> None:
        self.lvl.refill(host, store.child, dims[:-1], mul(count, dims[-1]), value)

    def freeze(self, host: Host, store: Storage, dims: Dims, count: Expr) -> None:
        self.lvl.freeze(host, store.child, dims[:-1], host.let(mul(count, dims[-1]), "count"))

    def thaw(self, host: Host, store: Storage, dims: Dims, count: Expr) -> None:
        self.lvl.thaw(host, store.child, dims[:-1], host.let(mul(count, dims[-1]), "count"))

    def takes(self, other: Level) -> bool:
        return isinstance(other, Dense) and self.lvl.takes(other.lvl)

    def take(self, host: Host, store: Storage, dims: Dims, source: Storage, count: Expr) -> None:
        below = host.let(mul(count, dims[-1]), "count")
        self.lvl.take(host, store.child, dims[:-1], source.child, below)

    def equal(self, host: Host, store: Storage, dims: Dims, p: Expr, q: Expr) -> Expr:
        size = dims[-1]
        a, b = host.let(mul(p, size), "a"), host.let(mul(q, size), "b")

        def one(k: Expr) -> Expr:
            return self.lvl.equal(
                host, store.child, dims[:-1], host.let(add(a, k)), host.let(add(b, k))
            )

        return each_equal(host, size, one)

    def move(self, host: Host, store: Storage, dims: Dims, source: Expr, target: Expr) -> None:
        size = dims[-1]
        a, b = host.let(mul(source, size), "a"), host.let(mul(target, size), "b")

        def one(k: Expr) -> None:
            self.lvl.move(host, store.child, dims[:-1], host.let(add(a, k)), host.let(add(b, k)))

        host.count(ZERO, sub(size, 1), one, "k")

    def truncate(self, host: Host, store: Storage, dims: Dims, count: Expr) -> None:
        self.lvl.truncate(host, store.child, dims[:-1], host.let(mul(count, dims[-1]), "count"))

    def unfurl(self, host: Host, fiber: Fiber, stop: Expr, mode: str, protocol: str | None) -> Node:
        def body(host: Host, i: Expr) -> Node:
            return fiber.child(add(mul(fiber.position, fiber.dims[-1]), sub(i, 1)), fiber.dirty)

        return Lookup(body)

    def pack(
        self, positions: np.ndarray, coordinates: np.ndarray, count: int, size: int
    ) -> tuple[dict[str, Any], np.ndarray, int]:
        return {}, positions * size + coordinates, count * size

    def unpack(
        self, storage: dict[str, Any], positions: np.ndarray, size: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        which = np.repeat(np.arange(len(positions)), size)
        coordinates = np.tile(np.arange(size), len(positions))
        return which, coordinates, positions[which] * size + coordinates

    def child_count(self, storage: dict[str, Any], count: int, size: int) -> int:
        return count * size

    def count_listed(self, storage: dict[str, Any], count: int, size: int) -> int:
        return count * size

    def used(self, storage: dict[str, Any], count: int, size: int) -> dict[str, int]:
        return {}


def _positions(host: Host, size: Expr, start: Expr, stop: Expr) -> tuple[Expr, Expr]:
    """The first and the last position in the child of the fibers from `start` to `stop`."""
    first = host.let(mul(start, size), "first")
    return first, host.let(sub(mul(add(stop, 1), size), 1), "last")
