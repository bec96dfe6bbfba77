"""The policy `flags`: every place has an entry, and a flag for whether something was written to it
(Gustavson's list with flags, over several modes; Workspaces'24 Table 2)."""

from __future__ import annotations

from functools import reduce
from typing import Any

from finchlang.host.construct import FALSE, TRUE, ZERO, add, cast, const, mul, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels.level import UPDATE, Fiber
from finchlang.levels.workspace.policy import Arrays, Batch, Order, WorkspacePolicy
from finchlang.syntax.types import Bool, Int64


class Flags(WorkspacePolicy):
    """The entry of a place is its number. So no batch is ever full and nothing is sorted: all flags are
    scanned for the set places. Time and memory are in proportion to the places."""

    name = "flags"
    combines = True
    numbers_places = True
    has_all_places = True

    def arrays(self, modes: int) -> Arrays:
        return (("flag", Bool),)

    def begin(self, host: Host, batch: Batch) -> None:
        places, store = host.let(reduce(mul, batch.sizes), "places", lower=ZERO), batch.store
        values, stored = store.child.val, host.get(store.stored, lower=ZERO)
        fill = const(store.child.level.fill.value, values.type)
        host.grow(values, places)
        host.grow(store.flag, places)
        host.fill(store.flag, ZERO, places, FALSE)
        host.fill(values, stored, places, fill)
        host.set(store.taken, places)
        last = sub(stored, 1)

        def take_back(k: Expr) -> None:
            # backwards: a place's number is at least its position in the list, so nothing is overwritten
            q = host.let(sub(last, k), "q", lower=ZERO)
            place = tuple(host.load(array, q, "i", Int64) for array in batch.stored)
            value = host.load(values, q, "val")
            host.store(values, q, fill)
            e, _ = self.insert(host, batch, place)
            host.store(values, e, value)
            self.keep(host, batch, e, place)

        host.count(ZERO, last, take_back, "k")
        host.set(store.stored, ZERO)

    def insert(self, host: Host, batch: Batch, place: tuple[Expr, ...]) -> tuple[Expr, Expr]:
        return host.let(batch.number(place), "e", lower=ZERO), FALSE

    def value(self, batch: Batch, e: Expr, dirty: Any) -> Fiber:
        return Fiber(batch.store.child, (), e, dirty, UPDATE)

    def keep(self, host: Host, batch: Batch, e: Expr, place: tuple[Expr, ...]) -> None:
        host.store(batch.store.flag, e, TRUE)

    def sort(self, host: Host, batch: Batch) -> Order:
        count = host.cell(ZERO, "count")

        def look(e: Expr) -> None:
            host.set(count, add(host.get(count), self._is_set(host, batch, e)))

        host.count(ZERO, sub(host.get(batch.store.taken), 1), look, "e")
        return Order(host.get(count, lower=ZERO))

    def _is_set(self, host: Host, batch: Batch, e: Expr) -> Expr:
        """Whether the entry is set, as 1 or 0."""
        return cast(host.load(batch.store.flag, e, "set"), Int64)

    def merge(self, host: Host, batch: Batch, order: Order) -> None:
        """List the set places and move their values together, never to a later position."""
        store, to, value = batch.store, host.cell(ZERO, "to"), batch.store.child.val
        count = order.count
        for array in batch.stored:
            host.grow(array, add(count, 1))  # unset places write at the next position, too

        def mode(k: int, before: Expr) -> None:
            base = host.let(mul(before, batch.sizes[k]), "base")

            def entry(i: Expr) -> None:
                e, at = host.let(add(base, i), "e"), host.get(to, lower=ZERO)
                host.store(batch.stored[0], at, i)
                host.store(value, at, host.load(value, e, "val"))
                host.set(to, add(at, self._is_set(host, batch, e)))

            def fiber(i: Expr) -> None:
                first, array = host.get(to, lower=ZERO), batch.stored[k]
                mode(k - 1, host.let(add(base, i), "fiber"))
                host.fill(array, first, host.get(to), cast(i, array.type))

            host.count(ZERO, sub(batch.sizes[k], 1), fiber if k else entry, "i")

        mode(len(batch.sizes) - 1, ZERO)
        host.set(store.stored, count)
