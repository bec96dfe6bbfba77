"""The procedures that sort by keys in an array, or by bits, in the host language."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache

from finchlang.host import construct as code
from finchlang.host.interface import bit_length
from finchlang.host.ir import Buffer, Expr, Residual, Var
from finchlang.host.writing import WritingHost
from finchlang.native.range_sort import SHORT, counting_sort
from finchlang.syntax.types import Int64, Type

#: A digit has about as many bits as the number of entries, so that clearing and summing the counts takes no
#: longer than the sort by it; at least and at most this many.
NARROWEST, WIDEST = 6, 14
#: how many entries at a time are checked for being in order
BLOCK = 1024


@cache
def sort_by(type: Type, key_type: Type) -> Residual:
    """`sortby(numbers, scratch, keys; start, stop, bound, room)`: as SortBy, for `room` keys.

    If a number and its key fit into 63 bits, the numbers are sorted with their keys in the bits above them,
    so that each key is loaded only once. Nanoseconds an entry, for 10^6 entries in random order: with keys
    below 10^4 8, with keys loaded in each pass 11; with keys below 10^6 8 and 21.
    """
    host = WritingHost()
    keys = Buffer("keys", key_type)
    start, stop, bound, room = inputs = host.inputs("start", "stop", "bound", "room")

    def key(number: Expr) -> Expr:
        return host.load(keys, code.cast(number, Int64), "key", Int64)

    radix = _Radix(host, type, start, stop, key, code.sub(bound, 1))

    with radix.of_long_range():
        shift = host.let(code.below_64(code.sub(63, radix.bits)), "shift")
        if type == Int64:
            with host.when(code.compare("eq", code.op("shr", code.sub(room, 1), shift), 0)):
                radix.sort(shift, lambda n: code.op("or", n, code.op("shl", key(n), shift)))
            with host.otherwise():
                radix.sort()
        else:
            radix.sort()
    return radix.procedure(f"sortby_{type}_{key_type}", inputs, keys)


@cache
def sort_bits(type: Type) -> Residual:
    """`sortbits(words, scratch; start, stop, low, high)`: as SortBits."""
    host = WritingHost()
    start, stop, low, high = inputs = host.inputs("start", "stop", "low", "high")
    highest = host.let(code.sub(code.op("shl", code.ONE, code.sub(high, low)), 1), "highest")
    shift = host.let(code.below_64(low), "shift")

    def key(word: Expr) -> Expr:
        return code.op("and", code.op("shr", word, shift), highest)

    radix = _Radix(host, type, start, stop, key, highest)

    with radix.of_long_range():
        radix.sort(shift)
    return radix.procedure(f"sortbits_{type}", inputs)


class _Radix:
    """A radix sort of the numbers from `start` to `stop` by their keys, up to `highest`. In
    `of_long_range` it has `passes`, each by a digit of `width` of the `bits` of the keys.

    A range that is in order is left as it is. A short one is sorted by counting, another one digit by
    digit, the lowest first, each pass from one array to the other; if the number of passes is odd, the
    first one begins with a copy in `scratch`.
    """

    passes: Expr
    width: Expr
    bits: Expr

    def __init__(
        self,
        host: WritingHost,
        type: Type,
        start: Expr,
        stop: Expr,
        key: Callable[[Expr], Expr],
        highest: Expr,
    ):
        self.host, self.start, self.stop = host, start, stop
        self.key, self.highest = key, highest
        self.numbers, self.scratch = Buffer("numbers", type), Buffer("scratch", type)
        self.counts = Buffer("counts", Int64)
        self.short = [Buffer(name, Int64) for name in ("own", "copy", "ranks")]

    def procedure(self, name: str, inputs: list[Var], *keys: Buffer) -> Residual:
        scratch = ((self.counts, 1 << WIDEST), *((buffer, SHORT) for buffer in self.short))
        buffers = self.numbers, self.scratch, *keys
        return Residual(name, buffers, tuple(inputs), (), self.host.code(), scratch)

    @contextmanager
    def of_long_range(self) -> Iterator[None]:
        """What is recorded here sorts a long range that is not in order."""
        is_long = code.compare("gt", code.sub(self.stop, self.start), SHORT)
        is_long = code.op("or", is_long, code.compare("ge", self.highest, 2**62 // SHORT))
        with self.host.when(is_long), self.host.when(self._is_unsorted()):
            self._choose_digits()
            yield
        with self.host.otherwise():
            self._sort_short(*self.short)

    def _each(self) -> AbstractContextManager[Expr]:
        return self.host.each(self.start, code.sub(self.stop, 1))

    def _is_unsorted(self) -> Expr:
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
                own = host.let(self.key(host.load(self.numbers, i)), "own")
                falls = code.compare("lt", own, host.get(before))
                host.update(descents, "add", falls)
                host.set(before, own)
            host.set(low, behind)
        return code.compare("gt", host.get(descents), 0)

    def _sort_short(self, own: Buffer, copy: Buffer, ranks: Buffer) -> None:
        """Sort by key and position, packed into one word, so that all are different; at most SHORT."""
        host, start, numbers = self.host, self.start, self.numbers
        count = code.sub(self.stop, start)
        width = SHORT.bit_length() - 1
        with host.each(code.ZERO, code.sub(count, 1)) as k:
            key = self.key(host.load(numbers, code.add(start, k)))
            host.store(own, k, code.add(code.op("shl", key, width), k))
        counting_sort(host, own, copy, ranks, code.ZERO, count)
        with host.each(code.ZERO, code.sub(count, 1)) as k:
            at = code.op("and", host.load(own, k), SHORT - 1)
            number = host.load(numbers, code.add(start, at))
            host.store(self.scratch, code.add(start, k), number)
        with self._each() as i:
            host.store(numbers, i, host.load(self.scratch, i))

    def _choose_digits(self) -> None:
        host = self.host
        self.bits = bit_length(host, self.highest)
        many = bit_length(host, code.sub(self.stop, self.start))
        widest = host.let(code.op("min", code.op("max", many, NARROWEST), WIDEST), "widest")
        passes = code.op("idiv", code.sub(code.add(self.bits, widest), 1), widest)
        self.passes = host.let(code.op("max", passes, 1), "passes")
        width = code.op("idiv", code.sub(code.add(self.bits, self.passes), 1), self.passes)
        self.width = host.let(width, "width")

    def sort(self, shift: Expr | None = None, pack: Callable[[Expr], Expr] | None = None) -> None:
        """Sort by all digits. With `shift` the keys are in the numbers, from that bit on; `pack` puts them
        there first, if it is given, and the last pass removes them."""
        host, numbers, scratch = self.host, self.numbers, self.scratch
        low = host.cell(code.ZERO, "low")

        def move(target: Buffer) -> None:
            with self._each() as i:
                n = host.load(numbers, i, "n")
                host.store(target, i, pack(n) if pack else n)

        def by_digit(source: Buffer, target: Buffer) -> None:
            at = host.get(low)
            up = host.let(code.add(at, self.width), "up")
            by = host.let(code.below_64(at if shift is None else code.add(at, shift)), "by")
            bits = code.op("min", self.width, code.sub(self.bits, at))
            mask = host.let(code.sub(code.op("shl", code.ONE, code.below_64(bits)), 1), "mask")
            kept: Expr | None = None
            if pack and shift is not None:
                own = code.sub(code.op("shl", code.ONE, shift), 1)
                is_last = code.compare("ge", up, self.bits)
                kept = host.let(code.op("select", is_last, own, code.const(-1)), "kept")

            def digit(i: Expr) -> Expr:
                n = host.load(source, i, "n")
                key = self.key(n) if shift is None else n
                return host.let(code.op("and", code.op("shr", key, by), mask), "digit")

            top = code.op("min", code.op("shr", self.highest, at), mask)
            with self._placing(top, digit) as (i, position):
                n = host.load(source, i, "n")
                host.store(target, position, n if kept is None else code.op("and", n, kept))
            host.set(low, up)

        with host.when(code.compare("eq", code.op("and", self.passes, 1), 1)):
            move(scratch)
            by_digit(scratch, numbers)
        with host.otherwise():
            if pack:
                move(numbers)
        with host.repeat(lambda: code.compare("lt", host.get(low), self.bits)):
            by_digit(numbers, scratch)
            by_digit(scratch, numbers)

    @contextmanager
    def _placing(self, top: Expr, digit: Callable[[Expr], Expr]) -> Iterator[tuple[Expr, Expr]]:
        """Count the entries of each digit up to `top`. What is recorded here, with an entry's place and its
        new one, places it after those of lower digits, and after earlier ones of the same digit."""
        host, counts = self.host, self.counts
        host.fill(counts, code.ZERO, code.add(top, 1), code.ZERO)
        with self._each() as i:
            at = digit(i)
            host.store(counts, at, code.add(host.load(counts, at), 1))
        total = host.cell(self.start, "total")
        with host.each(code.ZERO, top) as k:
            count, so_far = host.load(counts, k), host.get(total)
            host.store(counts, k, so_far)
            host.set(total, code.add(so_far, count))
        with self._each() as i:
            at = digit(i)
            position = host.load(counts, at, "position")
            host.store(counts, at, code.add(position, 1))
            yield i, position
