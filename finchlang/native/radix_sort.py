"""The procedure that sorts numbers by keys that an array has for them, in the host language."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from finchlang.host.fold import ONE, ZERO, add, cast, compare, const, op, sub
from finchlang.host.ir import Buffer, Expr, Residual
from finchlang.host.residual import ResidualHost
from finchlang.native.sorting import SHORT, counting_sort
from finchlang.types import Int64, Type

#: Digits have about as many bits as the number of entries, so that clearing and adding up what counts
#: them takes no longer than sorting by them; at least and at most so many.
NARROWEST, WIDEST = 6, 14
#: So many entries at a time are looked at for whether they are in order.
BLOCK = 1024


@cache
def sort_by(type: Type, key_type: Type) -> Residual:
    """`sortby(numbers, scratch, keys; start, stop, bound, room)`: as SortBy, for keys of which there
    are `room`.

    What is in order already is left as it is. A short range is sorted by counting, another one digit
    by digit, the lowest first, each pass from one array to the other; if their number is odd, the first
    begins with a copy in `scratch`.

    Where a number and its key have room in 63 bits, the numbers are sorted with their keys above them,
    so that each key is looked for only once. Nanoseconds an entry, for 10^6 entries in any order by
    keys below 10^4: 8, with keys looked for in each loop 11; and below 10^6: 8 and 21.
    """
    host = ResidualHost()
    numbers, scratch = Buffer("numbers", type), Buffer("scratch", type)
    keys = Buffer("keys", key_type)
    names = ("start", "stop", "bound", "room")
    start, stop, bound, room = (host.variable(name, Int64) for name in names)
    counts, short = Buffer("counts", Int64), [Buffer(n, Int64) for n in ("own", "copy", "ranks")]
    radix = _Radix(host, numbers, scratch, keys, counts, start, stop, bound)

    def sort_long() -> None:
        radix.begin()
        if type == Int64:
            fits = compare("eq", op("shr", sub(room, 1), radix.shift), 0)
            host.branch(fits, lambda: radix.sort(True), lambda: radix.sort(False))
        else:
            radix.sort(False)

    def sort_short() -> None:
        radix.sort_short(*short)

    is_long = compare("gt", sub(stop, start), SHORT)
    is_long = op("or", is_long, compare("gt", bound, const(2**62 // SHORT)))
    host.branch(is_long, lambda: host.branch(radix.is_unsorted(), sort_long), sort_short)
    scratches = ((counts, 1 << WIDEST), *((buffer, SHORT) for buffer in short))
    given = start, stop, bound, room
    name = f"sortby_{type}_{key_type}"
    return Residual(name, (numbers, scratch, keys), given, (), host.code(), scratches)


class _Radix:
    """What is said of one sort: its arrays and range, and behind `begin` its digits."""

    passes: Expr
    width: Expr
    bits: Expr
    #: where a key stands in a number that has it
    shift: Expr

    def __init__(
        self,
        host: ResidualHost,
        numbers: Buffer,
        scratch: Buffer,
        keys: Buffer,
        counts: Buffer,
        start: Expr,
        stop: Expr,
        bound: Expr,
    ):
        self.host, self.numbers, self.scratch = host, numbers, scratch
        self.keys, self.counts = keys, counts
        self.start, self.stop, self.highest = start, stop, sub(bound, 1)

    def key(self, number: Expr) -> Expr:
        return self.host.load(self.keys, cast(number, Int64), "key", Int64)

    def each(self, body: Callable[[Expr], None]) -> None:
        self.host.count(self.start, sub(self.stop, 1), body)

    def is_unsorted(self) -> Expr:
        """Whether the keys are out of order, looked at up to the first block where they are."""
        host, stop = self.host, self.stop
        low, descents = host.cell(self.start, "low"), host.cell(ZERO, "descents")
        before = host.cell(ZERO, "before")

        def block() -> None:
            first = host.get(low)
            behind = host.let(op("min", add(first, BLOCK), stop), "behind")

            def look(i: Expr) -> None:
                own = self.key(host.load(self.numbers, i))
                falls = compare("lt", own, host.get(before))
                host.set(descents, add(host.get(descents), cast(falls, Int64)))
                host.set(before, own)

            host.count(first, sub(behind, 1), look)
            host.set(low, behind)

        def goes_on() -> Expr:
            is_left = compare("lt", host.get(low), stop)
            return op("and", is_left, compare("eq", host.get(descents), 0))

        host.loop(goes_on, block)
        return compare("gt", host.get(descents), 0)

    def sort_short(self, own: Buffer, copy: Buffer, ranks: Buffer) -> None:
        """By the key, and then by the place among at most SHORT, which makes all different."""
        host, start = self.host, self.start
        count = sub(self.stop, start)
        width = SHORT.bit_length() - 1

        def pack(k: Expr) -> None:
            key = self.key(host.load(self.numbers, add(start, k)))
            host.store(own, k, add(op("shl", key, width), k))

        def place(k: Expr) -> None:
            at = op("and", host.load(own, k), SHORT - 1)
            host.store(self.scratch, add(start, k), host.load(self.numbers, add(start, at)))

        host.count(ZERO, sub(count, 1), pack)
        counting_sort(host, own, copy, ranks, ZERO, count)
        host.count(ZERO, sub(count, 1), place)
        self.each(lambda i: host.store(self.numbers, i, host.load(self.scratch, i)))

    def begin(self) -> None:
        """Choose the digits."""
        host = self.host
        self.bits = self._bits(self.highest)
        self.shift = sub(63, self.bits)
        many = self._bits(sub(self.stop, self.start))
        widest = host.let(op("min", op("max", many, NARROWEST), WIDEST), "widest")
        passes = op("idiv", sub(add(self.bits, widest), 1), widest)
        self.passes = host.let(op("max", passes, 1), "passes")
        width = op("idiv", sub(add(self.bits, self.passes), 1), self.passes)
        self.width = host.let(width, "width")

    def _bits(self, number: Expr) -> Expr:
        """How many bits `number` has."""
        host, bits = self.host, self.host.cell(ZERO, "bits")
        host.loop(
            lambda: compare("gt", op("shr", number, host.get(bits)), 0),
            lambda: host.set(bits, add(host.get(bits), 1)),
        )
        return host.get(bits)

    def sort(self, is_packed: bool) -> None:
        """By all digits; `is_packed` with each number's key above it."""
        host, numbers, scratch = self.host, self.numbers, self.scratch
        own = host.let(sub(op("shl", ONE, self.shift), 1), "own")
        low = host.cell(ZERO, "low")

        def move(target: Buffer) -> None:
            def one(i: Expr) -> None:
                n = host.load(numbers, i, "n")
                if is_packed:
                    n = op("or", n, op("shl", self.key(n), self.shift))
                host.store(target, i, n)

            self.each(one)

        def digits(source: Buffer, target: Buffer) -> None:
            at = host.get(low)
            up = host.let(add(at, self.width), "up")
            shift = host.let(add(at, self.shift), "shift") if is_packed else at
            mask = host.let(sub(op("shl", ONE, self.width), 1), "mask")
            is_last = compare("ge", up, self.bits)
            kept = host.let(op("select", is_last, own, const(-1)), "kept")

            def digit(n: Expr) -> Expr:
                return op("and", op("shr", n if is_packed else self.key(n), shift), mask)

            def place(i: Expr, position: Expr) -> None:
                n = host.load(source, i, "n")
                host.store(target, position, op("and", n, kept) if is_packed else n)

            top = op("min", op("shr", self.highest, at), mask)
            self._one_pass(top, lambda i: digit(host.load(source, i, "n")), place)
            host.set(low, up)

        def two_passes() -> None:
            digits(numbers, scratch)
            digits(scratch, numbers)

        def odd() -> None:
            move(scratch)
            digits(scratch, numbers)

        def even() -> None:
            if is_packed:
                move(numbers)

        host.branch(compare("eq", op("and", self.passes, 1), 1), odd, even)
        host.loop(lambda: compare("lt", host.get(low), self.bits), two_passes)

    def _one_pass(
        self, top: Expr, digit: Callable[[Expr], Expr], place: Callable[[Expr, Expr], None]
    ) -> None:
        """Count how many entries have each digit up to `top`, and place each behind those of lower
        ones, and those before it of the same."""
        host, counts = self.host, self.counts

        def number(i: Expr) -> None:
            at = host.let(digit(i), "digit")
            host.store(counts, at, add(host.load(counts, at), 1))

        def put(i: Expr) -> None:
            at = host.let(digit(i), "digit")
            position = host.load(counts, at, "position")
            host.store(counts, at, add(position, 1))
            place(i, position)

        host.fill(counts, ZERO, add(top, 1), ZERO)
        self.each(number)
        total = host.cell(self.start, "total")

        def begin(k: Expr) -> None:
            count, so_far = host.load(counts, k), host.get(total)
            host.store(counts, k, so_far)
            host.set(total, add(so_far, count))

        host.count(ZERO, top, begin)
        self.each(put)
