"""Policies of workspaces as libraries have them (Workspaces'24 Table 2), by the interface that others
would be written by: a hash table for a row, and expand-sort-compress. A list with flags is
`levels/workspace/flags_policy.py`."""

from __future__ import annotations

from typing import ClassVar

from finchlang.host.construct import FALSE, TRUE, ZERO, add, compare, const, op, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels.workspace.hash_policy import Hash
from finchlang.levels.workspace.policy import Batch, Coord, Order


class RowHash(Hash):
    """A hash table for one mode, the entries of which are sorted when they are taken out."""

    name: ClassVar[str] = "rowhash"

    def sort(self, host: Host, batch: Batch) -> Order:
        return Order(batch.sort_numbers(host, batch.bits(host)))


class ExpandSortCompress(Coord):
    """What stands at one place is combined as soon as it is sorted."""

    name: ClassVar[str] = "esc"
    combines: ClassVar[bool] = True

    def sort(self, host: Host, batch: Batch) -> Order:
        count, number, values = (
            batch.sort_numbers(host, batch.bits(host)),
            batch.store.number,
            batch.store.acc_val,
        )
        last = host.cell(const(-1), "last")

        def compress(k: Expr) -> None:
            e, at = host.load(number, k, "e", lower=ZERO), host.get(last)
            same = host.cell(FALSE, "same")

            def compare_places() -> None:
                other = host.load(number, at, "other", lower=ZERO)
                pairs = zip(batch.place(host, e), batch.place(host, other), strict=True)
                found: Expr = TRUE
                for a, b in pairs:
                    found = op("and", found, compare("eq", a, b))
                host.set(same, found)

            def combine() -> None:
                other = host.load(number, at, "other", lower=ZERO)
                old, new = (host.load(values, x, "val") for x in (other, e))
                host.store(values, other, batch.combined(host, old, new))

            def keep() -> None:
                host.set(last, add(at, 1))
                host.store(number, host.get(last, lower=ZERO), e)

            host.branch(compare("ge", at, 0), compare_places)
            host.branch(host.get(same), combine, keep)

        host.count(ZERO, sub(count, 1), compress)
        return Order(host.let(add(host.get(last), 1), "count", lower=ZERO))


TABLE2 = (RowHash(), ExpandSortCompress())
