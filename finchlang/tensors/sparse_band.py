"""The SparseBand level: one block of neighbouring coordinates in each fiber (Finch'25 Table 4,
Looplets'23 Fig 3f)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from finchlang.host.build import ZERO, add, compare, op, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.tensors.level import Fiber, Store
from finchlang.tensors.one_block import NONE, OneBlock, validate_last, validate_offsets
from finchlang.types import Int64


@dataclass(frozen=True)
class SparseBand(OneBlock):
    """`SparseBand(lvl)`: the block of the fiber at position p ends at coordinate idx[p] (-1 if it is
    empty); its positions in the child are ofs[p] up to, not including, ofs[p + 1]."""

    arrays: ClassVar = (("idx", None), ("ofs", None))

    def assemble(
        self, host: Host, store: Store, dims: tuple[Expr, ...], start: Expr, stop: Expr
    ) -> None:
        OneBlock.assemble(self, host, store, dims, start, stop)
        host.grow(store.idx, add(stop, 1))
        host.fill(store.idx, start, add(stop, 1), NONE)

    def region(self, host: Host, fiber: Fiber, size: Expr) -> tuple[Expr, Expr, Expr]:
        store, p = fiber.store, fiber.position
        start = host.load(store.ofs, p, "start", Int64, lower=ZERO)
        stop = host.load(store.ofs, add(p, 1), "stop", Int64, lower=start)
        idx = host.load(store.idx, p, "i", Int64)
        last = host.let(add(idx, 1), "last", lower=ZERO, upper=size)
        before = host.let(sub(last, sub(stop, start)), "before", lower=ZERO, upper=last)
        return before, last, start

    def place_first(
        self, host: Host, fiber: Fiber, before: Expr, first: Expr
    ) -> Callable[[Expr], Expr]:
        store = fiber.store
        shift = host.cell(ZERO, "shift")  # coordinate i is at position shift + i

        def go_on() -> None:
            last = host.load(store.idx, fiber.position, "last", Int64)
            host.set(shift, sub(sub(first, 2), last))

        host.branch(compare("gt", before, 0), go_on)

        def position(i: Expr) -> Expr:
            now = host.get(store.stored)
            is_empty = op("and", compare("eq", before, 0), compare("eq", now, first))
            host.branch(is_empty, lambda: host.set(shift, sub(first, i)))
            return add(host.get(shift), i)

        self_shift[fiber] = shift
        return position
