"""The procedures that sort a range of integers, and words by some of their bits, in the host language."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache, reduce

from finchlang.host.construct import ONE, ZERO, add, below_64, cast, compare, const, mul, op, sub
from finchlang.host.interface import bit_length
from finchlang.host.ir import Buffer, Expr, Residual
from finchlang.host.writing import WritingHost
from finchlang.syntax.types import Int32, Int64, Type

#: up to how many entries a range is sorted by counting; the size of the scratch memory of procedures
SHORT = 32
#: how many entries each entry is compared with at once
_TOGETHER = 4
#: A digit has about as many bits as the number of entries, so that clearing and summing the counts takes no
#: longer than the sort by it; at least and at most this many.
NARROWEST, WIDEST = 6, 14


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
    at once. Equal entries get the same rank: the sum of the ranks shows that, and the places behind, where
    there is none, are filled."""
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
    least = const(data.type.lowest, data.type)
    host.fill(data, low, high, least)
    total, greatest = host.cell(ZERO, "total"), host.cell(least, "greatest")
    with host.each(ZERO, last) as i:
        rank = cast(host.load(ranks, i), Int64)
        host.store(data, add(low, rank), host.load(scratch, i))
        host.update(total, "add", rank)
    has_equal_ones = compare("ne", mul(host.get(total), 2), mul(count, last))
    with host.when(has_equal_ones), host.each(low, sub(high, 1)) as i:
        host.update(greatest, "max", host.load(data, i))
        host.store(data, i, host.get(greatest))


@cache
def sort_bits(type: Type) -> Residual:
    """`sortbits(words, scratch; start, stop, low, high)`: as SortBits."""
    host = WritingHost()
    start, stop, low, high = inputs = host.inputs("start", "stop", "low", "high")
    radix = _Radix(host, type, start, stop, low, high)
    short = [Buffer(name, Int64) for name in ("own", "copy", "ranks")]
    is_long = compare("gt", sub(stop, start), SHORT)
    is_long = op("or", is_long, compare("ge", radix.highest, 2**62 // SHORT))
    with host.when(is_long), host.when(radix.is_unsorted()):
        radix.sort()
    with host.otherwise():
        radix.sort_short(*short)
    scratch = ((radix.counts, 1 << WIDEST), *((buffer, SHORT) for buffer in short))
    buffers = radix.words, radix.scratch
    return Residual(f"sortbits_{type}", buffers, tuple(inputs), (), host.code(), scratch)


class _Radix:
    """A radix sort of the words from `start` to `stop` by their keys, the bits from `low` to before `high`;
    `highest` is the highest key.

    A range that is in order is left as it is. A short one is sorted by counting, another one digit by
    digit, the lowest first, each pass from one array to the other; if the number of passes is odd, the
    first one begins with a copy in `scratch`.
    """

    def __init__(
        self, host: WritingHost, type: Type, start: Expr, stop: Expr, low: Expr, high: Expr
    ):
        self.host, self.start, self.stop, self.bits = host, start, stop, sub(high, low)
        highest = sub(op("shl", ONE, below_64(self.bits)), 1)
        self.highest = host.let(highest, "highest")
        self.shift = host.let(below_64(low), "shift")
        self.words, self.scratch = Buffer("words", type), Buffer("scratch", type)
        self.counts = Buffer("counts", Int64)

    def key(self, word: Expr) -> Expr:
        return op("and", op("shr", word, self.shift), self.highest)

    def _each(self) -> AbstractContextManager[Expr]:
        return self.host.each(self.start, sub(self.stop, 1))

    def is_unsorted(self) -> Expr:
        host, descents = self.host, self.host.cell(ZERO, "descents")
        with host.each(add(self.start, 1), sub(self.stop, 1)) as i:
            before, own = (self.key(host.load(self.words, at)) for at in (sub(i, 1), i))
            host.update(descents, "add", compare("lt", own, before))
        return compare("gt", host.get(descents), 0)

    def sort_short(self, own: Buffer, copy: Buffer, ranks: Buffer) -> None:
        """Sort by key and position, packed into one word, so that all are different; at most SHORT."""
        host, start, words = self.host, self.start, self.words
        count = sub(self.stop, start)
        width = SHORT.bit_length() - 1
        with host.each(ZERO, sub(count, 1)) as k:
            key = self.key(host.load(words, add(start, k)))
            host.store(own, k, add(op("shl", key, width), k))
        counting_sort(host, own, copy, ranks, ZERO, count)
        with host.each(ZERO, sub(count, 1)) as k:
            at = op("and", host.load(own, k), SHORT - 1)
            host.store(self.scratch, add(start, k), host.load(words, add(start, at)))
        self._move(self.scratch, words)

    def _move(self, source: Buffer, target: Buffer) -> None:
        with self._each() as i:
            self.host.store(target, i, self.host.load(source, i))

    def sort(self) -> None:
        """Sort by all digits."""
        host, words, scratch, counts = self.host, self.words, self.scratch, self.counts
        many = bit_length(host, sub(self.stop, self.start))
        widest = host.let(op("min", op("max", many, NARROWEST), WIDEST), "widest")
        passes = op("idiv", sub(add(self.bits, widest), 1), widest)
        passes = host.let(op("max", passes, 1), "passes")
        width = op("idiv", sub(add(self.bits, passes), 1), passes)
        width, low = host.let(width, "width"), host.cell(ZERO, "low")

        def by_digit(source: Buffer, target: Buffer) -> None:
            """Place the words after those of lower digits, and after earlier ones of the same digit."""
            done = host.get(low)
            by = host.let(below_64(add(done, self.shift)), "by")
            bits = below_64(op("min", width, sub(self.bits, done)))
            mask = host.let(sub(op("shl", ONE, bits), 1), "mask")

            def digit(i: Expr) -> tuple[Expr, Expr]:
                word = host.load(source, i, "word")
                return word, host.let(op("and", op("shr", word, by), mask), "digit")

            host.fill(counts, ZERO, add(mask, 1), ZERO)
            with self._each() as i:
                _, at = digit(i)
                host.store(counts, at, add(host.load(counts, at), 1))
            total = host.cell(self.start, "total")
            with host.each(ZERO, mask) as k:
                count, so_far = host.load(counts, k), host.get(total)
                host.store(counts, k, so_far)
                host.set(total, add(so_far, count))
            with self._each() as i:
                word, at = digit(i)
                position = host.load(counts, at, "position")
                host.store(counts, at, add(position, 1))
                host.store(target, position, word)
            host.set(low, add(done, width))

        with host.when(compare("eq", op("and", passes, 1), 1)):
            self._move(words, scratch)
            by_digit(scratch, words)
        with host.repeat(lambda: compare("lt", host.get(low), self.bits)):
            by_digit(words, scratch)
            by_digit(scratch, words)
