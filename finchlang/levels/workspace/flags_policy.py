"""The policy `flags`: every place has an entry, and a flag for whether something was written to it
(Gustavson's list with flags, over several modes; Workspaces'24 Table 2)."""

from __future__ import annotations

from functools import reduce

from finchlang.host.construct import FALSE, TRUE, ZERO, add, cast, const, mul
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels.workspace.policy import Batch, Order, WorkspacePolicy
from finchlang.syntax.types import Bool, Int64


class Flags(WorkspacePolicy):
    """The entry of a place is its number. So no batch is ever full and nothing is sorted: all flags are
    scanned for the set places. Time and memory are in proportion to the places."""

    name = "flags"
    arrays = (("flag", Bool),)
    combines = True
    numbers_places = True
    has_all_places = True

    def begin(self, host: Host, batch: Batch) -> None:
        store = batch.store
        places = host.let(reduce(mul, store.sizes), "places", lower=ZERO)
        fill = const(batch.beginning.value, store.acc_val.type)
        for array, content in ((store.flag, FALSE), (store.acc_val, fill)):
            host.grow(array, places)
            host.fill(array, ZERO, places, content)
        host.set(store.taken, places)

    def insert(self, host: Host, batch: Batch, place: tuple[Expr, ...]) -> tuple[Expr, Expr]:
        return host.let(batch.number(place), "e", lower=ZERO), FALSE

    def keep(self, host: Host, batch: Batch, e: Expr, place: tuple[Expr, ...]) -> None:
        host.store(batch.store.flag, e, TRUE)

    def sort(self, host: Host, batch: Batch) -> Order:
        count = host.cell(ZERO, "count")

        def look(e: Expr) -> None:
            host.set(count, add(host.get(count), self._is_set(host, batch, e)))

        host.each_of(host.get(batch.store.taken), look, "e")
        return Order(host.get(count, lower=ZERO))

    def _is_set(self, host: Host, batch: Batch, e: Expr) -> Expr:
        """Whether the entry is set, as 1 or 0."""
        return cast(host.load(batch.store.flag, e, "set"), Int64)

    def merge(self, host: Host, batch: Batch, order: Order) -> None:
        """List the set places with their values."""
        store, to, value = batch.store, host.cell(ZERO, "to"), batch.store.child.val
        count = order.count
        for array in batch.all:
            host.grow(array, add(count, 1))  # unset places write at the next position, too

        def mode(k: int, before: Expr) -> None:
            base = host.let(mul(before, store.sizes[k]), "base")

            def entry(i: Expr) -> None:
                e, at = host.let(add(base, i), "e"), host.get(to, lower=ZERO)
                host.store(batch.stored[0], at, i)
                host.store(value, at, host.load(store.acc_val, e, "val"))
                host.set(to, add(at, self._is_set(host, batch, e)))

            def fiber(i: Expr) -> None:
                first, array = host.get(to, lower=ZERO), batch.stored[k]
                mode(k - 1, host.let(add(base, i), "fiber"))
                host.fill(array, first, host.get(to), cast(i, array.type))

            host.each_of(store.sizes[k], fiber if k else entry, "i")

        mode(len(store.sizes) - 1, ZERO)
        host.set(store.stored, count)
