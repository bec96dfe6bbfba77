"""Levels whose fibers store one block of neighbouring coordinates each: SparseBand and Ragged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from finchlang.base.errors import Bug
from finchlang.host.construct import add, compare, const, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Cell, Expr
from finchlang.levels import layout as lay, looplets as lp
from finchlang.levels.level import Fiber, Indexed
from finchlang.levels.sparse_hash import SparseHash
from finchlang.syntax.nodes import Node
from finchlang.syntax.types import Int64

# the position of a coordinate that is written next, and what is done when the fiber is left
Entry = tuple[Callable[[Host, Expr], Expr], Callable[[], None]]
#: the last coordinate of an empty fiber
NONE = const(-1)


@dataclass(frozen=True)
class OneBlock(Indexed):
    """The block of the fiber at position p has the positions ofs[p] up to, not including, ofs[p + 1] of
    the child. Subclasses say which coordinates it has. What is between two written ones is stored, too."""

    layout: ClassVar[lay.Layout] = (lay.Offsets("ofs", is_held=True),)
    is_sequential = True
    out_of_order = SparseHash
    stores_fill = True

    def region(self, host: Host, fiber: Fiber, size: Expr) -> tuple[Expr, Expr, Expr]:
        """(b, e, s): the coordinates b + 1 to e are stored, coordinate i at position s + i - b - 1."""
        raise Bug(f"{type(self).__name__} leaves this out")

    def enter(self, host: Host, fiber: Fiber, before: Expr, first: Expr) -> Entry:
        """Continue writing a fiber that has `before` positions; the next position is `first`. Gives a
        function for the position of coordinate i, for i after all that are stored, and one to be called
        when the block is complete."""
        raise Bug(f"{type(self).__name__} leaves this out")

    def looplets(self, host: Host, fiber: Fiber, stop: Expr, protocol: str | None) -> Node:
        before, last, start = self.region(host, fiber, stop)
        block = lp.Lookup(lambda host, i: fiber.child(add(start, sub(sub(i, before), 1))))
        return lp.amid(self.fill, add(before, 1), last, block, protocol == "follow")

    def append(self, host: Host, fiber: Fiber) -> tuple[Node, Any]:
        store, after = fiber.store, add(fiber.position, 1)
        first = host.get(store.stored)
        # a fiber is left and entered again where its index is bound in the loop, as in A[i + 1]
        before = host.load(store.ofs, after, "before", Int64)
        position, leave = self.enter(host, fiber, before, first)
        made = host.cell(first, "made")  # positions below this are assembled

        def epilogue(host: Host) -> None:
            written = host.let(sub(host.get(store.stored), first), "written")

            def keep() -> None:
                host.store(store.ofs, after, add(before, written))
                leave()
                fiber.mark(host)

            host.branch(compare("gt", written, 0), keep)

        write = lp.entering(lambda host, i: self._write(host, fiber, position(host, i), made))
        return write, epilogue

    def _write(self, host: Host, fiber: Fiber, where: Expr, made: Cell) -> tuple[Node, Any]:
        """Write at the position `where`; the positions skipped before it become fill."""
        store = fiber.store
        q = host.let(where, "q")

        def make() -> None:
            start = host.get(made)
            self.lvl.assemble(host, store.child, start, q)
            host.set(made, add(q, 1))

        host.branch(compare("ge", q, host.get(made)), make)
        return fiber.entry(host, q, lambda: host.set(store.stored, add(q, 1)))
