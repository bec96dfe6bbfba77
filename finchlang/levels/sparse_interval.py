"""The SparseInterval level: a single run in each fiber (Finch'25 Table 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from finchlang.host.construct import FALSE, ZERO, add, compare, op, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels import layout as lay
from finchlang.levels.level import Fiber, Indexed
from finchlang.levels.looplets import AcceptRun, Run, Thunk, amid
from finchlang.levels.sparse_hash import SparseHash
from finchlang.syntax.nodes import Node
from finchlang.syntax.types import Int64

_SECOND = "a second run, {}:{}, in a fiber of a SparseInterval, which has one already: {}:{}"


@dataclass(frozen=True)
class SparseInterval(Indexed):
    """`SparseInterval(lvl)`: the run of the fiber at position p is from left[p] to right[p]; its subfiber
    is at position p of the child. An empty fiber has left 1 and right 0.

    Written in order. A second run is an access-order error at run time, unless it is fill, or continues
    the first with an equal subfiber. Subfibers are compared only if the levels below are Dense or leaves;
    others cannot be read while they are written.
    """

    layout = (lay.Each("left", empty=1), lay.Coordinate("right", empty=0, begins="left"))
    is_sequential = True
    out_of_order = SparseHash
    holds_any = False
    merges = True

    def _load(self, host: Host, fiber: Fiber) -> tuple[Expr, Expr]:
        """The first and last coordinate of the run, from 1."""
        left = host.load(fiber.store.left, fiber.position, "left", Int64, lower=ZERO)
        right = host.load(fiber.store.right, fiber.position, "right", Int64, lower=sub(left, 1))
        return add(left, 1), add(right, 1)

    def looplets(self, host: Host, fiber: Fiber, stop: Expr, protocol: str | None) -> Node:
        run = Run(fiber.child(fiber.position))
        return amid(self.fill, *self._load(host, fiber), run, protocol == "follow")

    def writer(self, fiber: Fiber) -> Node:
        return AcceptRun(lambda host, a, b: Thunk(lambda host: self._write_run(host, fiber, a, b)))

    def _write_run(self, host: Host, fiber: Fiber, start: Expr, stop: Expr) -> tuple[Node, Any]:
        """Write a run to the fiber's subfiber; if there is a run already, to the next fiber's subfiber,
        which is not written yet, to be compared with the first."""
        first, last = self._load(host, fiber)
        taken = host.let(compare("le", first, last), "taken")
        p = fiber.position
        position = host.let(op("select", taken, add(p, 1), p), "position")
        store = fiber.store

        def equal(a: Expr, b: Expr) -> Expr:
            return self.lvl.equal(host, store.child, a, b)

        def clear() -> None:
            self.lvl.assemble(host, store.child, position, position)

        host.branch(taken, clear)
        dirty = host.cell(FALSE, "dirty")

        def keep() -> None:
            host.store(store.left, p, sub(start, 1))
            host.store(store.right, p, sub(stop, 1))
            fiber.mark(host)

        def extend() -> None:
            follows = host.let(compare("eq", start, add(last, 1)), "follows")
            is_compared = follows if self.lvl.is_all_dense else FALSE
            host.branch(
                host.only_if(is_compared, lambda: equal(p, position), "same"),
                lambda: host.store(store.right, p, sub(stop, 1)),
                lambda: host.fail("access order", _SECOND, (start, stop, first, last)),
            )
            clear()

        def epilogue(host: Host) -> None:
            def written() -> None:
                host.branch(taken, extend, keep)

            # a subfiber that cannot be compared may be all fill; a Pattern that is dirty is true
            if not self.lvl.is_all_dense or not self.lvl.leaf.arrays:
                host.branch(host.get(dirty), written)
                return
            blank = host.let(add(p, 2), "blank")  # not written yet, so that it can be made all fill

            def look() -> Expr:
                self.lvl.assemble(host, store.child, blank, blank)
                return op("not", equal(position, blank))

            host.branch(host.only_if(host.get(dirty), look, "stays"), written)

        return fiber.child(position, dirty), epilogue
