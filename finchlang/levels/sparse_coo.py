"""The SparseCOO level: entries listed with their coordinates in one or several modes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from finchlang.host.construct import ZERO, add, cast, mul, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels import layout as lay
from finchlang.levels.coordinate_levels import Coordinates
from finchlang.levels.dense import Dense
from finchlang.levels.level import Dims, Fiber, Level, Storage
from finchlang.levels.sorted_coordinates import append_entry, counting
from finchlang.levels.sparse_hash import SparseHash
from finchlang.syntax.nodes import Node
from finchlang.syntax.types import Int64


@dataclass(frozen=True)
class SparseCOO(Coordinates):
    """`SparseCOO{N}(lvl)`: the entries of a fiber over N modes; entry q is at position q of the child."""

    is_sequential = True
    out_of_order = SparseHash
    lists_entries = True

    @cached_property
    def layout(self) -> lay.Layout:  # type: ignore[override]
        return (lay.Offsets("ptr", Int64), *self.coordinates)

    def takes(self, other: Level) -> bool:
        return super().takes(other) or (
            isinstance(other, Dense)
            and other.lvl.lists_entries
            and other.lvl.modes == self.modes - 1
            and self.lvl.takes(other.lvl.child)
        )

    def take(self, host: Host, store: Storage, dims: Dims, source: Storage, count: Expr) -> None:
        """Also takes a Dense level over a list of the other modes (CSC): pointers become coordinates."""
        if not isinstance(source.level, Dense):
            super().take(host, store, dims, source, count)
            return
        size, other = dims[-1], source.child

        def pointer(fiber: Expr) -> Expr:
            return host.load(other.ptr, fiber, "at", Int64, lower=ZERO)

        stored = host.let(pointer(mul(count, size)), "stored", lower=ZERO)
        *inner, outer = self.buffers(store)
        for array in (*inner, outer):
            host.grow(array, stored)
        for array, content in zip(inner, lay.coordinates(other, other.level.layout), strict=True):
            lay.copy_array(host, array, ZERO, content, stored)

        def fiber(p: Expr) -> None:
            first = host.let(mul(p, size), "first", lower=ZERO)
            host.store(store.ptr, add(p, 1), sub(pointer(add(first, size)), pointer(first)))

            def column(i: Expr) -> None:
                q = host.let(add(first, i), "q", lower=ZERO)
                host.fill(outer, pointer(q), pointer(add(q, 1)), cast(i, outer.type))

            host.count(ZERO, sub(size, 1), column, "i")

        host.grow(store.ptr, host.let(add(count, 1), "end"))
        host.count(ZERO, sub(count, 1), fiber, "p")
        host.set(store.stored, stored)
        self.lvl.take(host, store.child, self.below(dims), other.child, stored)

    def append(self, host: Host, fiber: Fiber) -> tuple[Node, Any]:
        return self.anywhere(fiber), counting(host, fiber)

    def enter(self, host: Host, fiber: Fiber, coordinates: tuple[Expr, ...]) -> tuple[Node, Any]:
        return append_entry(host, fiber, self.buffers(fiber.store), coordinates[::-1])
