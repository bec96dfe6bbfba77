"""Policies of workspaces as libraries have them (Workspaces'24 Table 2), by the interface that others
would be written by: a hash table for a row, expand-sort-compress, and a heap. A list with flags is
`levels/workspace/flags_policy.py`."""

from __future__ import annotations

from typing import ClassVar

from finchlang.host.construct import FALSE, TRUE, ZERO, add, compare, const, mul, op, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels.workspace.hash_policy import Hash
from finchlang.levels.workspace.policy import Arrays, Batch, Coord, Order
from finchlang.syntax.types import Int64


class RowHash(Hash):
    """A hash table for one mode, the entries of which are sorted when they are taken out."""

    name: ClassVar[str] = "rowhash"

    def sort(self, host: Host, batch: Batch) -> Order:
        return Order(batch.sort_numbers(host))


class ExpandSortCompress(Coord):
    """What stands at one place is combined as soon as it is sorted."""

    name: ClassVar[str] = "esc"
    combines: ClassVar[bool] = True

    def sort(self, host: Host, batch: Batch) -> Order:
        count, number, values = batch.sort_numbers(host), batch.store.number, batch.store.acc_val
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


class Heap(Coord):
    """The numbers of entries are in a heap, those of one place in the order of insertion."""

    name: ClassVar[str] = "heap"

    def arrays(self, modes: int) -> Arrays:
        return (("heap", Int64),)

    def entries(self) -> tuple[str, ...]:
        return ("heap",)

    def _is_before(self, host: Host, batch: Batch, a: Expr, b: Expr) -> Expr:
        less = compare("lt", a, b)
        for k, array in enumerate(batch.coordinates):
            i, j = (host.load(array, e, "i", Int64) for e in (a, b))
            if k == 0:  # of what is not set as well
                i, j = op("max", i, op("not", i)), op("max", j, op("not", j))
            same = op("and", compare("eq", i, j), less)
            less = op("or", compare("lt", i, j), same)
        return less

    def sort(self, host: Host, batch: Batch) -> Order:
        """Push all that there are, then pop them."""
        number, heap, size = batch.store.number, batch.store.heap, host.cell(ZERO, "size")

        def entry(at: Expr) -> Expr:
            return host.load(heap, at, "e", lower=ZERO)

        def swap(a: Expr, b: Expr) -> None:
            x, y = entry(a), entry(b)
            host.store(heap, a, y)
            host.store(heap, b, x)

        def push(k: Expr) -> None:
            at = host.cell(host.get(size), "at")
            host.store(heap, host.get(size), host.load(number, k, "e"))
            host.set(size, add(host.get(size), 1))

            def parent() -> Expr:
                return host.let(op("shr", sub(host.get(at), 1), const(1)), "up", lower=ZERO)

            def rises() -> Expr:
                found = host.cell(FALSE, "rises")

                def look() -> None:
                    own, above = entry(host.get(at)), entry(parent())
                    host.set(found, self._is_before(host, batch, own, above))

                host.branch(compare("gt", host.get(at), 0), look)
                return host.get(found)

            def rise() -> None:
                up = parent()
                swap(host.get(at), up)
                host.set(at, up)

            host.loop(rises, rise)

        def pop(k: Expr) -> None:
            host.store(number, k, entry(ZERO))
            host.set(size, sub(host.get(size), 1))
            host.store(heap, ZERO, entry(host.get(size)))
            at = host.cell(ZERO, "at")
            child = host.cell(ZERO, "child")

            def sinks() -> Expr:
                found, left = host.cell(FALSE, "sinks"), add(mul(host.get(at), 2), 1)
                host.set(child, left)
                right = add(left, 1)

                def other() -> None:
                    is_right = self._is_before(host, batch, entry(right), entry(left))
                    host.branch(is_right, lambda: host.set(child, right))

                def look() -> None:
                    host.branch(compare("lt", right, host.get(size)), other)
                    own, below = entry(host.get(at)), entry(host.get(child))
                    host.set(found, self._is_before(host, batch, below, own))

                host.branch(compare("lt", left, host.get(size)), look)
                return host.get(found)

            def sink() -> None:
                swap(host.get(at), host.get(child))
                host.set(at, host.get(child))

            host.loop(sinks, sink)

        count = batch.list_set(host)
        host.count(ZERO, sub(count, 1), push)
        host.count(ZERO, sub(count, 1), pop)
        return Order(count)


TABLE2 = (RowHash(), ExpandSortCompress(), Heap())
