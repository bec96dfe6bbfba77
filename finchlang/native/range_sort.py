"""The procedure that sorts a range of integers, in the host language."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, reduce

from finchlang.host.construct import ZERO, add, cast, compare, const, mul, op, sub
from finchlang.host.ir import Buffer, Cell, Expr, Residual
from finchlang.host.writing import WritingHost
from finchlang.syntax.types import Int32, Int64, Type

#: up to how many entries a range is sorted by counting; the size of the scratch memory of procedures
SHORT = 32
#: how many entries each entry is compared with at once
_TOGETHER = 4


@cache
def sort(type: Type) -> Residual:
    """`sort(data; start, stop)`: as Sort; always O(n log n), by Musser's introsort.

    A long range that is in order is left as it is: entries are often found in order. Quicksort, with the
    median of three as pivot, sorts the shorter part by calling itself, and goes on with the longer; a range
    that divides badly eight times is left to heapsort. Neither partitioning nor the counting sort of short
    ranges has branches that could be mispredicted: a range of 1000 takes 8 ns an entry, where Hoare's
    partition and counting one by one take 30. (D. Musser, Introspective Sorting and Selection Algorithms,
    1997.)
    """
    host = WritingHost()
    data, scratch = Buffer("data", type), Buffer("scratch", type)
    ranks = Buffer("ranks", Int64 if type.bits == 64 else Int32)
    start, stop = host.inputs("start", "stop")
    low, high = host.cell(start, "low"), host.cell(stop, "high")
    patience = host.cell(const(8), "patience")

    def length() -> Expr:
        return sub(host.get(high), host.get(low))

    def is_long() -> Expr:
        return op("and", compare("gt", length(), SHORT), compare("gt", host.get(patience), 0))

    with host.when(is_long()):
        _unless_sorted(host, data, low, high)
    with host.repeat(is_long):
        total = length()
        border = _partition(host, data, host.get(low), host.get(high))
        before = sub(border, host.get(low))
        behind = sub(host.get(high), border)
        bad = compare("lt", op("min", before, behind), op("shr", total, 3))
        host.update(patience, "sub", bad)
        with host.when(compare("lt", before, behind)):
            host.sort(data, host.get(low), border)
            host.set(low, border)
        with host.otherwise():
            host.sort(data, border, host.get(high))
            host.set(high, border)
    with host.when(compare("gt", length(), SHORT)):
        _heapsort(host, data, host.get(low), host.get(high))
    with host.otherwise():
        counting_sort(host, data, scratch, ranks, host.get(low), host.get(high))
    short = ((scratch, SHORT), (ranks, SHORT))
    return Residual(f"sort_{type}", (data,), (start, stop), (), host.code(), short)


def _unless_sorted(host: WritingHost, data: Buffer, low: Cell, high: Cell) -> None:
    """Make the range from `low` to `high` empty if it is in order."""
    first, stop, descents = host.get(low), host.get(high), host.cell(ZERO, "descents")
    with host.each(add(first, 1), sub(stop, 1)) as i:
        falls = compare("lt", host.load(data, i), host.load(data, sub(i, 1)))
        host.update(descents, "add", falls)
    with host.when(compare("eq", host.get(descents), 0)):
        host.set(low, stop)


def _partition(host: WritingHost, data: Buffer, low: Expr, high: Expr) -> Expr:
    """Lomuto's partition, without branches that could be mispredicted: every entry is swapped with the
    first of those that are not less than the pivot, whose border moves on if the entry is less. Returns the
    border."""
    first, last = host.load(data, low), host.load(data, sub(high, 1))
    middle = host.load(data, add(low, op("shr", sub(high, low), 1)))
    smaller, larger = op("min", first, middle), op("max", first, middle)
    pivot = host.let(op("max", smaller, op("min", larger, last)), "pivot")
    border = host.cell(low, "border")
    with host.each(low, sub(high, 1)) as i:
        entry, at = host.load(data, i), host.get(border)
        host.store(data, i, host.load(data, at))
        host.store(data, at, entry)
        host.set(border, add(at, cast(compare("lt", entry, pivot), Int64)))
    return host.get(border)


def counting_sort(
    host: WritingHost, data: Buffer, scratch: Buffer, ranks: Buffer, low: Expr, high: Expr
) -> None:
    """Sort at most SHORT entries: the rank of each is the number of entries that are less, counted for all
    at once. Equal entries would get the same rank: the sum of the ranks shows that, and they are sorted by
    insertion."""
    count = host.let(sub(high, low), "count")
    last = sub(count, 1)
    kind = ranks.type
    host.fill(scratch, ZERO, const(SHORT), const(data.type.highest, data.type))
    host.fill(ranks, ZERO, const(SHORT), const(0, kind))
    with host.each(ZERO, last) as i:
        host.store(scratch, i, host.load(data, add(low, i)))
    with host.each(ZERO, op("idiv", last, _TOGETHER)) as group:
        first = mul(group, _TOGETHER)
        some = [host.load(scratch, add(first, k)) for k in range(_TOGETHER)]
        with host.each(ZERO, const(SHORT - 1)) as i:
            entry, so_far = host.load(scratch, i), host.load(ranks, i)
            less = [cast(compare("lt", other, entry), kind) for other in some]
            host.store(ranks, i, reduce(add, less, so_far))
    total = host.cell(ZERO, "total")
    with host.each(ZERO, last) as i:
        rank = cast(host.load(ranks, i), Int64)
        host.store(data, add(low, rank), host.load(scratch, i))
        host.update(total, "add", rank)
    has_equal_ones = compare("ne", mul(host.get(total), 2), mul(count, last))
    with host.when(has_equal_ones):
        with host.each(ZERO, last) as i:
            host.store(data, add(low, i), host.load(scratch, i))
        _insertion_sort(host, data, low, high)


def _insertion_sort(host: WritingHost, data: Buffer, low: Expr, high: Expr) -> None:
    with host.each(add(low, 1), sub(high, 1)) as i:
        entry, hole = host.load(data, i), host.cell(i, "hole")

        def is_misplaced() -> Expr:
            at = host.get(hole)
            return host.both(
                compare("gt", at, low), lambda: compare("gt", host.load(data, sub(at, 1)), entry)
            )

        with host.repeat(is_misplaced):
            at = host.get(hole)
            host.store(data, at, host.load(data, sub(at, 1)))
            host.set(hole, sub(at, 1))
        host.store(data, host.get(hole), entry)


def _heapsort(host: WritingHost, data: Buffer, low: Expr, high: Expr) -> None:
    """Builds the heap, from its last parent to its root, then takes off its maximum, again and again."""
    root = host.cell(op("shr", sub(high, low), 1), "root")
    count = host.cell(sub(high, low), "count")

    def at(position: Expr) -> Expr:
        return add(low, position)

    with host.repeat(lambda: compare("gt", host.get(count), 1)):
        unbuilt = host.get(root)
        with host.when(compare("gt", unbuilt, 0)):
            host.set(root, sub(unbuilt, 1))
        with host.otherwise():
            rest = sub(host.get(count), 1)
            _swap(host, data, low, at(rest))
            host.set(count, rest)
        _sift(host, data, at, host.get(root), host.get(count))


def _sift(
    host: WritingHost, data: Buffer, at: Callable[[Expr], Expr], root: Expr, count: Expr
) -> None:
    """Let the entry at `root` sink until neither child of it is greater."""
    entry = host.load(data, at(root))
    parent = host.cell(root, "parent")
    child = host.cell(ZERO, "child")

    def sinks() -> Expr:
        left = add(mul(host.get(parent), 2), 1)
        host.set(child, left)

        def greater_child() -> Expr:
            right = add(left, 1)
            is_right = host.both(
                compare("lt", right, count),
                lambda: compare("gt", host.load(data, at(right)), host.load(data, at(left))),
            )
            host.set(child, op("select", is_right, right, left))
            return compare("gt", host.load(data, at(host.get(child))), entry)

        return host.both(compare("lt", left, count), greater_child)

    with host.repeat(sinks):
        hole, larger = host.get(parent), host.get(child)
        host.store(data, at(hole), host.load(data, at(larger)))
        host.set(parent, larger)
    host.store(data, at(host.get(parent)), entry)


def _swap(host: WritingHost, data: Buffer, i: Expr, j: Expr) -> None:
    a, b = host.load(data, i), host.load(data, j)
    host.store(data, i, b)
    host.store(data, j, a)
