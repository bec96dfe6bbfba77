"""Levels written in order whose `ptr` counts the entries of each fiber until they are frozen: what
SparseList and SparseBlockList share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from finchlang.host.build import ZERO, add
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.tensors.level import Level, Store
from finchlang.tensors.sorted_positions import accumulate
from finchlang.types import Int64, Type


@dataclass(frozen=True)
class Counted(Level):
    """While it is written, ptr[p + 1] counts the entries of fiber p, and `stored` is the number of
    positions of the level below; freezing adds the counts up."""

    lvl: Level
    index: Type = Int64

    is_sequential: ClassVar[bool] = True

    def assemble(
        self, host: Host, store: Store, dims: tuple[Expr, ...], start: Expr, stop: Expr
    ) -> None:
        host.grow(store.ptr, add(stop, 2))
        host.fill(store.ptr, add(start, 1), add(stop, 2), ZERO)

    def freeze(self, host: Host, store: Store, dims: tuple[Expr, ...], count: Expr) -> None:
        self.check_positions(host, store.counters["stored"])
        accumulate(host, store.ptr, count)
        self.lvl.freeze(host, store.child, dims[:-1], host.get(store.stored))

    def thaw(self, host: Host, store: Store, dims: tuple[Expr, ...], count: Expr) -> None:
        raise AssertionError("normalisation updates sequential levels through a workspace")
