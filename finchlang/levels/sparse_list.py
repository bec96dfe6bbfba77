"""The SparseList level: the coordinates of each fiber in ascending order (Finch'25 Table 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from finchlang.host.construct import FALSE, add, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels.fiber_ops import ranges_equal
from finchlang.levels.level import READ, Dims, Fiber, Level, Storage
from finchlang.levels.looplets import Lookup, Thunk
from finchlang.levels.pointer_arrays import pack_sorted, unpack_sorted, validate_sorted
from finchlang.levels.positions import Pointed
from finchlang.levels.sorted_coordinates import Counted, count_written, unfurl_sorted
from finchlang.levels.sparse_hash import SparseHash
from finchlang.syntax.nodes import Node
from finchlang.syntax.types import Int64


@dataclass(frozen=True)
class SparseList(Counted, Pointed):
    """`SparseList(lvl)`: idx[ptr[p] + q] is the q-th stored coordinate of the fiber at position p.

    Written in order only. While it is written, ptr[p + 1] counts the coordinates of fiber p, and
    `stored` is the number of coordinates of all fibers so far; freezing adds the counts up.
    """

    arrays: ClassVar = (("ptr", None), ("idx", None))
    counters: ClassVar = (("stored", Int64),)
    is_comparable: ClassVar[bool] = True
    lists_entries: ClassVar[bool] = True
    protocols: ClassVar[tuple[str, ...]] = ("walk", "gallop", "follow")

    def random_access(self) -> Level:
        return SparseHash(self.lvl.random_access(), self.index)

    def equal(self, host: Host, store: Storage, dims: Dims, p: Expr, q: Expr) -> Expr:
        def children(a: Expr, b: Expr) -> Expr:
            return self.lvl.equal(host, store.child, dims[:-1], a, b)

        return ranges_equal(host, store.ptr, p, q, (store.idx,), children)

    def unfurl(self, host: Host, fiber: Fiber, stop: Expr, mode: str, protocol: str | None) -> Node:
        if mode == READ:
            return unfurl_sorted(fiber, stop, protocol, lambda q, i: q)
        return Thunk(lambda host: self._append(host, fiber))

    def _append(self, host: Host, fiber: Fiber) -> tuple[Node, Any]:
        store, child = fiber.store, fiber.store.child
        first = host.get(store.stored)

        def at(host: Host, i: Expr) -> Node:
            def preamble(host: Host) -> tuple[Node, Any]:
                q = host.get(store.stored)
                self.lvl.assemble(host, child, fiber.dims[:-1], q, q)
                dirty = host.cell(FALSE, "dirty")

                def keep() -> None:
                    host.grow(store.idx, add(q, 1))
                    host.store(store.idx, q, sub(i, 1))
                    host.set(store.stored, add(q, 1))

                return fiber.child(q, dirty), lambda host: host.branch(host.get(dirty), keep)

            return Thunk(preamble)

        return Lookup(at), lambda host: count_written(host, fiber, first)

    def pack(
        self, positions: np.ndarray, coordinates: np.ndarray, count: int, size: int
    ) -> tuple[dict[str, Any], np.ndarray, int]:
        storage, entries = pack_sorted(positions, coordinates, count, self.index.dtype)
        return storage | {"stored": len(storage["idx"])}, entries, len(storage["idx"])

    def unpack(
        self, storage: dict[str, Any], positions: np.ndarray, size: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return unpack_sorted(storage, positions)

    def child_count(self, storage: dict[str, Any], count: int, size: int) -> int:
        return int(storage["ptr"][count])

    def count_listed(self, storage: dict[str, Any], count: int, size: int) -> int:
        return int(storage["ptr"][count])

    def used(self, storage: dict[str, Any], count: int, size: int) -> dict[str, int]:
        return {"ptr": count + 1, "idx": int(storage["ptr"][count])}

    def validate(self, storage: dict[str, Any], count: int, size: int) -> str | None:
        return validate_sorted(storage, count, size)
