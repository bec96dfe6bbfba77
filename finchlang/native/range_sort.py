"""The procedure that sorts a range of integers, in the host language."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, reduce

from finchlang.host.construct import FALSE, ZERO, const, op
from finchlang.host.ir import Buffer, Cell, Expr, Residual
from finchlang.host.recording import ResidualHost
from finchlang.syntax.types import Bool, Int32, Int64, Type

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
    host = ResidualHost()
    data, scratch = Buffer("data", type), Buffer("scratch", type)
    ranks = Buffer("ranks", Int64 if type.bits == 64 else Int32)
    start, stop = host.variable("start", Int64), host.variable("stop", Int64)
    low, high = host.cell(start, "low"), host.cell(stop, "high")
    patience = host.cell(const(8), "patience")

    def length() -> Expr:
        return op("sub", host.get(high), host.get(low))

    def is_long() -> Expr:
        return op("and", op("gt", length(), SHORT), op("gt", host.get(patience), 0))

    def divide() -> None:
        total = length()
        border = _partition(host, data, host.get(low), host.get(high))
        before = op("sub", border, host.get(low))
        behind = op("sub", host.get(high), border)
        bad = op("lt", op("min", before, behind), op("shr", total, 3))
        host.set(patience, op("sub", host.get(patience), op("cast", bad, type=Int64)))

        def shorter_left() -> None:
            host.sort(data, host.get(low), border)
            host.set(low, border)

        def shorter_right() -> None:
            host.sort(data, border, host.get(high))
            host.set(high, border)

        host.branch(op("lt", before, behind), shorter_left, shorter_right)

    host.branch(is_long(), lambda: _unless_sorted(host, data, low, high))
    host.loop(is_long, divide)
    host.branch(
        op("gt", length(), SHORT),
        lambda: _heapsort(host, data, host.get(low), host.get(high)),
        lambda: counting_sort(host, data, scratch, ranks, host.get(low), host.get(high)),
    )
    short = ((scratch, SHORT), (ranks, SHORT))
    return Residual(f"sort_{type}", (data,), (start, stop), (), host.code(), short)


def _unless_sorted(host: ResidualHost, data: Buffer, low: Cell, high: Cell) -> None:
    """Make the range from `low` to `high` empty if it is in order."""
    first, stop, descents = host.get(low), host.get(high), host.cell(ZERO, "descents")

    def look(i: Expr) -> None:
        falls = op("lt", host.load(data, i), host.load(data, op("sub", i, 1)))
        host.set(descents, op("add", host.get(descents), op("cast", falls, type=Int64)))

    host.count(op("add", first, 1), op("sub", stop, 1), look)
    host.branch(op("eq", host.get(descents), 0), lambda: host.set(low, stop))


def _partition(host: ResidualHost, data: Buffer, low: Expr, high: Expr) -> Expr:
    """Lomuto's partition, without branches that could be mispredicted: every entry is swapped with the
    first of those that are not less than the pivot, whose border moves on if the entry is less. Returns the
    border."""
    first, last = host.load(data, low), host.load(data, op("sub", high, 1))
    middle = host.load(data, op("add", low, op("shr", op("sub", high, low), 1)))
    smaller, larger = op("min", first, middle), op("max", first, middle)
    pivot = host.let(op("max", smaller, op("min", larger, last)), "pivot")
    border = host.cell(low, "border")

    def sift(i: Expr) -> None:
        entry, at = host.load(data, i), host.get(border)
        host.store(data, i, host.load(data, at))
        host.store(data, at, entry)
        host.set(border, op("add", at, op("cast", op("lt", entry, pivot), type=Int64)))

    host.count(low, op("sub", high, 1), sift)
    return host.get(border)


def counting_sort(
    host: ResidualHost, data: Buffer, scratch: Buffer, ranks: Buffer, low: Expr, high: Expr
) -> None:
    """Sort at most SHORT entries: the rank of each is the number of entries that are less, counted for all
    at once. Equal entries would get the same rank: the sum of the ranks shows that, and they are sorted by
    insertion."""
    count = host.let(op("sub", high, low), "count")
    last = op("sub", count, 1)
    kind = ranks.type
    host.fill(scratch, ZERO, const(SHORT), const(data.type.highest, data.type))
    host.fill(ranks, ZERO, const(SHORT), const(0, kind))
    host.count(ZERO, last, lambda i: host.store(scratch, i, host.load(data, op("add", low, i))))

    def compare(group: Expr) -> None:
        first = op("mul", group, _TOGETHER)
        some = [host.load(scratch, op("add", first, k)) for k in range(_TOGETHER)]

        def rank(i: Expr) -> None:
            entry, so_far = host.load(scratch, i), host.load(ranks, i)
            less = [op("cast", op("lt", other, entry), type=kind) for other in some]
            host.store(ranks, i, reduce(lambda x, y: op("add", x, y), less, so_far))

        host.count(ZERO, const(SHORT - 1), rank)

    host.count(ZERO, op("idiv", last, _TOGETHER), compare)
    total = host.cell(ZERO, "total")

    def put(i: Expr) -> None:
        rank = op("cast", host.load(ranks, i), type=Int64)
        host.store(data, op("add", low, rank), host.load(scratch, i))
        host.set(total, op("add", host.get(total), rank))

    def sort_equal_ones() -> None:
        host.count(ZERO, last, lambda i: host.store(data, op("add", low, i), host.load(scratch, i)))
        _insertion_sort(host, data, low, high)

    host.count(ZERO, last, put)
    distinct = op("eq", op("mul", host.get(total), 2), op("mul", count, last))
    host.branch(distinct, lambda: None, sort_equal_ones)


def _insertion_sort(host: ResidualHost, data: Buffer, low: Expr, high: Expr) -> None:
    def insert(i: Expr) -> None:
        entry = host.load(data, i)
        hole = host.cell(i, "hole")

        def misplaced() -> Expr:
            at = host.get(hole)
            return both(
                host,
                op("gt", at, low),
                lambda: op("gt", host.load(data, op("sub", at, 1)), entry),
            )

        def shift() -> None:
            at = host.get(hole)
            host.store(data, at, host.load(data, op("sub", at, 1)))
            host.set(hole, op("sub", at, 1))

        host.loop(misplaced, shift)
        host.store(data, host.get(hole), entry)

    host.count(op("add", low, 1), op("sub", high, 1), insert)


def _heapsort(host: ResidualHost, data: Buffer, low: Expr, high: Expr) -> None:
    """Builds the heap, from its last parent to its root, then takes off its maximum, again and again."""
    root = host.cell(op("shr", op("sub", high, low), 1), "root")
    count = host.cell(op("sub", high, low), "count")

    def at(position: Expr) -> Expr:
        return op("add", low, position)

    def take_maximum() -> None:
        rest = op("sub", host.get(count), 1)
        _swap(host, data, low, at(rest))
        host.set(count, rest)

    def step() -> None:
        unbuilt = host.get(root)
        host.branch(
            op("gt", unbuilt, 0), lambda: host.set(root, op("sub", unbuilt, 1)), take_maximum
        )
        _sift(host, data, at, host.get(root), host.get(count))

    host.loop(lambda: op("gt", host.get(count), 1), step)


def _sift(
    host: ResidualHost, data: Buffer, at: Callable[[Expr], Expr], root: Expr, count: Expr
) -> None:
    """Let the entry at `root` sink until neither child of it is greater."""
    entry = host.load(data, at(root))
    parent = host.cell(root, "parent")
    child = host.cell(ZERO, "child")

    def sinks() -> Expr:
        left = op("add", op("mul", host.get(parent), 2), 1)
        host.set(child, left)

        def greater_child() -> Expr:
            right = op("add", left, 1)
            is_right = both(
                host,
                op("lt", right, count),
                lambda: op("gt", host.load(data, at(right)), host.load(data, at(left))),
            )
            host.set(child, op("select", is_right, right, left))
            return op("gt", host.load(data, at(host.get(child))), entry)

        return both(host, op("lt", left, count), greater_child)

    def sink() -> None:
        hole, larger = host.get(parent), host.get(child)
        host.store(data, at(hole), host.load(data, at(larger)))
        host.set(parent, larger)

    host.loop(sinks, sink)
    host.store(data, at(host.get(parent)), entry)


def _swap(host: ResidualHost, data: Buffer, i: Expr, j: Expr) -> None:
    a, b = host.load(data, i), host.load(data, j)
    host.store(data, i, b)
    host.store(data, j, a)


def both(host: ResidualHost, first: Expr, second: Callable[[], Expr]) -> Expr:
    """`first` and `second()`; the latter is evaluated only if the former holds."""
    cell = host.cell(FALSE, "both")
    host.branch(first, lambda: host.set(cell, op("cast", second(), type=Bool)))
    return host.get(cell)
