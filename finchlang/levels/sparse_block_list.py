"""The SparseBlockList level: blocks of neighbouring coordinates in ascending order (Finch'25 Table 4;
the variable block length format, VBL, of Looplets'23)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from finchlang.host.construct import ZERO, add, compare, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels import layout as lay, looplets as lp
from finchlang.levels.block_levels import NONE
from finchlang.levels.level import Fiber, Indexed
from finchlang.levels.sorted_coordinates import Listed, load_range
from finchlang.levels.sparse_hash import SparseHash
from finchlang.syntax.nodes import Node
from finchlang.syntax.types import Int64


@dataclass(frozen=True)
class SparseBlockList(Indexed):
    """`SparseBlockList(lvl)`: the blocks of the fiber at position p are numbered from ptr[p] up to,
    not including, ptr[p + 1]; block b ends at coordinate idx[b], and its positions in the child are
    ofs[b] up to, not including, ofs[b + 1]. Two blocks of a fiber have a gap between them."""

    layout = (
        lay.Offsets("ptr", counter="blocks"),
        lay.Coordinate("idx", begins=lay.BACK),
        lay.Offsets("ofs", while_written=lay.POSITIONS, is_held=True),
    )
    is_sequential = True
    out_of_order = SparseHash

    def looplets(self, host: Host, fiber: Fiber, stop: Expr, protocol: str | None) -> Node:
        listed = Listed(fiber.store.idx, *load_range(host, fiber), self.fill)

        def block(host: Host, listed: Listed, b: Expr) -> lp.Entry:
            end, ofs = listed.coordinate(host, b), fiber.store.ofs
            first = host.load(ofs, b, "first", Int64, lower=ZERO)
            after = host.load(ofs, add(b, 1), "after", Int64, lower=add(first, 1))
            length, bound = sub(after, first), sub(end, 1)
            before = host.let(sub(end, length), "before", lower=ZERO, upper=bound)

            inside = lp.Lookup(lambda host, i: fiber.child(add(first, sub(sub(i, before), 1))))
            return add(before, 1), end, lambda host: inside

        return listed.looplets(host, stop, protocol, block)

    def append(self, host: Host, fiber: Fiber) -> tuple[Node, Any]:
        store, after = fiber.store, add(fiber.position, 1)
        first = host.get(store.blocks)
        # a fiber is left and entered again where its index is bound in the loop, as in A[i + 1]
        before = host.load(store.ptr, after, "before", Int64)
        following = host.cell(NONE, "following")  # the coordinate that continues the block

        def go_on() -> None:
            last = host.load(store.idx, sub(first, 1), "last", Int64)
            host.set(following, add(last, 1))

        host.branch(compare("gt", before, 0), go_on)

        def epilogue(host: Host) -> None:
            written = host.let(sub(host.get(store.blocks), first), "written")
            host.store(store.ptr, after, add(before, written))
            fiber.mark(host, compare("gt", written, 0))

        return lp.entering(lambda host, i: self._write(host, fiber, i, following)), epilogue

    def _write(self, host: Host, fiber: Fiber, i: Expr, following: Any) -> tuple[Node, Any]:
        """Write at coordinate i, which lengthens the last block or begins a new one."""
        store = fiber.store
        q = host.get(store.stored)
        self.lvl.assemble(host, store.child, q, q)

        def begin() -> None:
            b = host.get(store.blocks)
            host.grow(store.idx, add(b, 1))
            host.grow(store.ofs, add(b, 2))
            host.set(store.blocks, add(b, 1))

        def keep() -> None:
            host.branch(compare("ne", host.get(following), sub(i, 1)), begin)
            b = host.get(store.blocks)
            host.store(store.idx, sub(b, 1), sub(i, 1))
            host.store(store.ofs, b, add(q, 1))
            host.set(store.stored, add(q, 1))
            host.set(following, i)

        return fiber.entry(host, q, keep)
