"""Levels written in order whose `ptr` counts the entries of each fiber until they are frozen: what
SparseList, SparseBlockList and SparseCOO share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from finchlang.host.fold import TRUE, ZERO, add, compare, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.tensors.level import Dims, Fiber, Level, Storage
from finchlang.tensors.sorted_positions import accumulate
from finchlang.types import Int64, Type


@dataclass(frozen=True)
class Counted(Level):
    """While it is written, ptr[p + 1] counts the entries of fiber p, and `stored` is the number of
    positions of the level below; freezing adds the counts up."""

    lvl: Level
    index: Type = Int64

    is_sequential: ClassVar[bool] = True

    def assemble(self, host: Host, store: Storage, dims: Dims, start: Expr, stop: Expr) -> None:
        host.grow(store.ptr, add(stop, 2))
        host.fill(store.ptr, add(start, 1), add(stop, 2), ZERO)

    def freeze(self, host: Host, store: Storage, dims: Dims, count: Expr) -> None:
        self.check_positions(host, store.counters["stored"])
        accumulate(host, store.ptr, count)
        self.lvl.freeze(host, store.child, dims[:-1], host.get(store.stored))

    def thaw(self, host: Host, store: Storage, dims: Dims, count: Expr) -> None:
        raise AssertionError("normalisation updates sequential levels through a workspace")


def count_written(host: Host, fiber: Fiber, first: Expr) -> None:
    """Count the entries written to `fiber` since `stored` was `first`, and tell its parent."""
    store, after = fiber.store, add(fiber.position, 1)
    written = host.let(sub(host.get(store.stored), first), "written")
    # a fiber is left and entered again where its index is bound in the loop, as in A[i + 1]
    count = add(host.load(store.ptr, after, "count", Int64), written)
    host.store(store.ptr, after, host.let(count, "count"))
    if fiber.dirty is not None:
        parent = fiber.dirty
        host.branch(compare("gt", written, 0), lambda: host.set(parent, TRUE))
