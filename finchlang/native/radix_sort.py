"""The procedure that sorts words by some of their bits, in the host language."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache

from finchlang.host import construct as code
from finchlang.host.interface import bit_length
from finchlang.host.ir import Buffer, Expr, Residual
from finchlang.host.writing import WritingHost
from finchlang.native.range_sort import SHORT, counting_sort
from finchlang.syntax.types import Int64, Type

#: A digit has about as many bits as the number of entries, so that clearing and summing the counts takes no
#: longer than the sort by it; at least and at most this many.
NARROWEST, WIDEST = 6, 14
#: how many entries at a time are checked for being in order
BLOCK = 1024


@cache
def sort_bits(type: Type) -> Residual:
    """`sortbits(words, scratch; start, stop, low, high)`: as SortBits."""
    host = WritingHost()
    start, stop, low, high = inputs = host.inputs("start", "stop", "low", "high")
    radix = _Radix(host, type, start, stop, low, high)
    short = [Buffer(name, Int64) for name in ("own", "copy", "ranks")]
    is_long = code.compare("gt", code.sub(stop, start), SHORT)
    is_long = code.op("or", is_long, code.compare("ge", radix.highest, 2**62 // SHORT))
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
        self.host, self.start, self.stop, self.bits = host, start, stop, code.sub(high, low)
        highest = code.sub(code.op("shl", code.ONE, code.below_64(self.bits)), 1)
        self.highest = host.let(highest, "highest")
        self.shift = host.let(code.below_64(low), "shift")
        self.words, self.scratch = Buffer("words", type), Buffer("scratch", type)
        self.counts = Buffer("counts", Int64)

    def key(self, word: Expr) -> Expr:
        return code.op("and", code.op("shr", word, self.shift), self.highest)

    def _each(self) -> AbstractContextManager[Expr]:
        return self.host.each(self.start, code.sub(self.stop, 1))

    def is_unsorted(self) -> Expr:
        """Whether the keys are out of order; looks no further than the first block where they are."""
        host, stop = self.host, self.stop
        low, descents = host.cell(self.start, "low"), host.cell(code.ZERO, "descents")
        before = host.cell(code.ZERO, "before")

        def goes_on() -> Expr:
            is_left = code.compare("lt", host.get(low), stop)
            return code.op("and", is_left, code.compare("eq", host.get(descents), 0))

        with host.repeat(goes_on):
            first = host.get(low)
            behind = host.let(code.op("min", code.add(first, BLOCK), stop), "behind")
            with host.each(first, code.sub(behind, 1)) as i:
                own = host.let(self.key(host.load(self.words, i)), "own")
                falls = code.compare("lt", own, host.get(before))
                host.update(descents, "add", falls)
                host.set(before, own)
            host.set(low, behind)
        return code.compare("gt", host.get(descents), 0)

    def sort_short(self, own: Buffer, copy: Buffer, ranks: Buffer) -> None:
        """Sort by key and position, packed into one word, so that all are different; at most SHORT."""
        host, start, words = self.host, self.start, self.words
        count = code.sub(self.stop, start)
        width = SHORT.bit_length() - 1
        with host.each(code.ZERO, code.sub(count, 1)) as k:
            key = self.key(host.load(words, code.add(start, k)))
            host.store(own, k, code.add(code.op("shl", key, width), k))
        counting_sort(host, own, copy, ranks, code.ZERO, count)
        with host.each(code.ZERO, code.sub(count, 1)) as k:
            at = code.op("and", host.load(own, k), SHORT - 1)
            host.store(self.scratch, code.add(start, k), host.load(words, code.add(start, at)))
        self._move(self.scratch, words)

    def _move(self, source: Buffer, target: Buffer) -> None:
        with self._each() as i:
            self.host.store(target, i, self.host.load(source, i))

    def sort(self) -> None:
        """Sort by all digits."""
        host, words, scratch, counts = self.host, self.words, self.scratch, self.counts
        many = bit_length(host, code.sub(self.stop, self.start))
        widest = host.let(code.op("min", code.op("max", many, NARROWEST), WIDEST), "widest")
        passes = code.op("idiv", code.sub(code.add(self.bits, widest), 1), widest)
        passes = host.let(code.op("max", passes, 1), "passes")
        width = code.op("idiv", code.sub(code.add(self.bits, passes), 1), passes)
        width, low = host.let(width, "width"), host.cell(code.ZERO, "low")

        def by_digit(source: Buffer, target: Buffer) -> None:
            """Place the words after those of lower digits, and after earlier ones of the same digit."""
            done = host.get(low)
            by = host.let(code.below_64(code.add(done, self.shift)), "by")
            bits = code.below_64(code.op("min", width, code.sub(self.bits, done)))
            mask = host.let(code.sub(code.op("shl", code.ONE, bits), 1), "mask")

            def digit(i: Expr) -> tuple[Expr, Expr]:
                word = host.load(source, i, "word")
                return word, host.let(code.op("and", code.op("shr", word, by), mask), "digit")

            host.fill(counts, code.ZERO, code.add(mask, 1), code.ZERO)
            with self._each() as i:
                _, at = digit(i)
                host.store(counts, at, code.add(host.load(counts, at), 1))
            total = host.cell(self.start, "total")
            with host.each(code.ZERO, mask) as k:
                count, so_far = host.load(counts, k), host.get(total)
                host.store(counts, k, so_far)
                host.set(total, code.add(so_far, count))
            with self._each() as i:
                word, at = digit(i)
                position = host.load(counts, at, "position")
                host.store(counts, at, code.add(position, 1))
                host.store(target, position, word)
            host.set(low, code.add(done, width))

        with host.when(code.compare("eq", code.op("and", passes, 1), 1)):
            self._move(words, scratch)
            by_digit(scratch, words)
        with host.repeat(lambda: code.compare("lt", host.get(low), self.bits)):
            by_digit(words, scratch)
            by_digit(scratch, words)
