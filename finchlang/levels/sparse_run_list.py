"""The SparseRunList level: runs of equal subfibers with fill between them (Finch'25 Table 4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from finchlang.host.construct import ZERO, add, compare, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels import layout as lay
from finchlang.levels.level import Fiber, Storage
from finchlang.levels.looplets import Entry, Lookup, Phase, Run, Sequence
from finchlang.levels.run_levels import Runs
from finchlang.levels.sorted_coordinates import Here, Listed, load_range
from finchlang.levels.sparse_hash import SparseHash
from finchlang.syntax.nodes import Node
from finchlang.syntax.types import Int64


@dataclass(frozen=True)
class SparseRunList(Runs):
    """`SparseRunList(lvl)`: the q-th run of the fiber at position p begins at left[ptr[p] + q] and
    ends at right[ptr[p] + q]; its subfiber is at position ptr[p] + q of the child."""

    layout = (
        lay.Offsets("ptr", while_written=lay.POSITIONS),
        lay.Each("left"),
        lay.Coordinate("right", begins="left"),
    )
    out_of_order = SparseHash
    counters = (("stored", Int64), ("fibers", Int64))

    def _push(self, host: Host, store: Storage, q: Expr, start: Expr, stop: Expr) -> None:
        host.grow(store.left, add(q, 1))
        host.store(store.left, q, sub(start, 1))
        Runs._push(self, host, store, q, start, stop)

    def _continues(self, host: Host, store: Storage, q: Expr, start: Expr) -> Expr:
        first = host.load(store.ptr, host.get(store.fibers), "first", Int64)

        def touches() -> Expr:
            end = host.load(store.right, sub(q, 1), "end", Int64)
            return compare("eq", end, sub(start, 2))

        return self._same(host, store, compare("gt", q, first), q, touches)

    def _if_touching(
        self, host: Host, store: Storage, base: Expr, k: Expr, q: Expr, then: Callable[[], None]
    ) -> None:
        def adjacent() -> None:
            end = host.load(store.right, sub(k, 1), "end", Int64)
            begin = host.load(store.left, q, "begin", Int64)
            host.branch(compare("eq", begin, add(end, 1)), then)

        host.branch(compare("gt", k, base), adjacent)

    def looplets(self, host: Host, fiber: Fiber, stop: Expr, protocol: str | None) -> Node:
        left, right = fiber.store.left, fiber.store.right
        listed = Listed(right, *load_range(host, fiber), self.fill, name="right")

        def find(host: Host, i: Expr) -> Node:
            def holds(q: Expr) -> Expr:
                return compare("lt", host.load(left, q, "left", Int64), i)

            return listed.find(host, i, holds, fiber.child)

        if protocol == "follow":
            return Lookup(find)
        listed = listed.until_last(host, stop)

        def run(host: Host, q: Expr) -> Entry:
            bound = sub(listed.last, 1)
            begin = host.load(left, q, "left", Int64, lower=ZERO, upper=bound)
            end = host.load(right, q, "right", Int64, lower=begin, upper=bound)
            return add(begin, 1), add(end, 1), lambda host: Run(fiber.child(q))

        def body(host: Host, here: Here) -> Node:
            q = here(host)
            begin = host.load(left, q, "left", Int64, lower=ZERO)
            return Sequence((Phase(Run(self.fill), stop=begin), Phase(Run(fiber.child(q)))))

        return listed.then_fill(listed.steps(host, protocol, body, region=run))
