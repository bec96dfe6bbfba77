"""The procedure that sorts a range of integers, in the host language."""

from __future__ import annotations

from functools import cache, reduce

from finchlang.host.construct import ZERO, add, cast, compare, const, mul, op, sub
from finchlang.host.ir import Buffer, Expr, Residual
from finchlang.host.writing import WritingHost
from finchlang.syntax.types import Int32, Int64, Type

#: up to how many entries a range is sorted by counting; the size of the scratch memory of procedures
SHORT = 32
#: how many entries each entry is compared with at once
_TOGETHER = 4


@cache
def sort(type: Type) -> Residual:
    """`sort(data; start, stop)`: as Sort.

    A long range that is in order is left as it is: entries are often found in order. Another one is divided
    in the middle between its least and its greatest entry, so that no order of entries is bad: there are at
    most as many divisions, one in the other, as the type has bits (radix exchange; Knuth, The Art of
    Computer Programming, 5.2.2). The shorter part is sorted by a call, the longer in the same loop. Neither
    partitioning nor the counting sort of short ranges has branches that could be mispredicted: a range of
    1000 takes 8 ns an entry, where Hoare's partition and counting one by one take 30.
    """
    host = WritingHost()
    data, scratch = Buffer("data", type), Buffer("scratch", type)
    ranks = Buffer("ranks", Int64 if type.bits == 64 else Int32)
    start, stop = host.inputs("start", "stop")
    low, high = host.cell(start, "low"), host.cell(stop, "high")
    with host.repeat(lambda: compare("gt", sub(host.get(high), host.get(low)), SHORT)):
        first, behind = host.get(low), host.get(high)
        border = _partition(host, data, first, behind)
        with host.when(compare("lt", border, first)):
            host.set(low, behind)  # it is in order
        with host.otherwise():
            is_shorter = compare("lt", sub(border, first), sub(behind, border))
            with host.when(is_shorter):
                host.sort(data, first, border)
                host.set(low, border)
            with host.otherwise():
                host.sort(data, border, behind)
                host.set(high, border)
    counting_sort(host, data, scratch, ranks, host.get(low), host.get(high))
    short = ((scratch, SHORT), (ranks, SHORT))
    return Residual(f"sort_{type}", (data,), (start, stop), (), host.code(), short)


def _partition(host: WritingHost, data: Buffer, low: Expr, high: Expr) -> Expr:
    """Lomuto's partition, without branches that could be mispredicted: every entry is swapped with the
    first of those that are greater than the middle, whose border moves on if the entry is not. Returns the
    border; low - 1 if the range is in order."""
    entry = host.load(data, low)
    least, greatest = host.cell(entry, "least"), host.cell(entry, "greatest")
    descents, border = host.cell(ZERO, "descents"), host.cell(sub(low, 1), "border")
    with host.each(add(low, 1), sub(high, 1)) as i:
        entry = host.load(data, i)
        host.update(descents, "add", compare("lt", entry, host.load(data, sub(i, 1))))
        host.update(least, "min", entry)
        host.update(greatest, "max", entry)
    with host.when(compare("gt", host.get(descents), 0)):
        a, b = host.get(least), host.get(greatest)  # their sum may overflow
        half = op("shr", op("xor", a, b), 1)
        middle = host.let(add(op("and", a, b), half), "middle")
        host.set(border, low)
        with host.each(low, sub(high, 1)) as i:
            entry, at = host.load(data, i), host.get(border)
            host.store(data, i, host.load(data, at))
            host.store(data, at, entry)
            host.set(border, add(at, cast(compare("le", entry, middle), Int64)))
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
            return host.only_if(
                compare("gt", at, low),
                lambda: compare("gt", host.load(data, sub(at, 1)), entry),
                "both",
            )

        with host.repeat(is_misplaced):
            at = host.get(hole)
            host.store(data, at, host.load(data, sub(at, 1)))
            host.set(hole, sub(at, 1))
        host.store(data, host.get(hole), entry)
