"""The procedure that sorts numbers by keys that an array has for them: a radix sort that counts."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from finchlang.host.fold import ONE, ZERO, add, cast, compare, const, op, sub
from finchlang.host.ir import Buffer, Cell, Expr, Residual
from finchlang.host.residual import ResidualHost
from finchlang.types import Int64, Type

#: Digits have at most so many bits,
WIDEST = 14
#: and as many only of ranges with so many entries; others have NARROW ones.
MANY, NARROW = 1 << 13, 8
#: So many entries at a time are looked at for whether they are in order.
BLOCK = 1024


@cache
def sort_by(type: Type, key_type: Type) -> Residual:
    """`sortby(numbers, scratch, keys; start, stop, bound)`: as SortBy.

    What is in order already is left as it is. Otherwise each pass sorts by one digit of the keys,
    the lowest first, from one array to the other; if their number is odd, the first begins with a
    copy in `scratch`.
    """
    host = ResidualHost()
    numbers, scratch = Buffer("numbers", type), Buffer("scratch", type)
    keys, counts = Buffer("keys", key_type), Buffer("counts", Int64)
    start, stop = host.variable("start", Int64), host.variable("stop", Int64)
    bound = host.variable("bound", Int64)
    last = sub(stop, 1)

    def key(number: Expr) -> Expr:
        return host.load(keys, cast(number, Int64), "key", Int64)

    def sort() -> None:
        highest = sub(bound, 1)
        bits = _bits(host, highest)
        many = compare("ge", sub(stop, start), MANY)
        widest = op("select", many, const(WIDEST), const(NARROW))
        passes = op("idiv", sub(add(bits, widest), 1), widest)
        passes = host.let(op("max", passes, 1), "passes")
        width = host.let(op("idiv", sub(add(bits, passes), 1), passes), "width")
        mask = host.let(sub(op("shl", ONE, width), 1), "mask")
        shift = host.cell(ZERO, "shift")

        def one_pass(source: Buffer, target: Buffer, copies: bool = False) -> None:
            low = host.get(shift)
            top = op("min", op("shr", highest, low), mask)

            def digit(number: Expr) -> Expr:
                return host.let(op("and", op("shr", key(number), low), mask), "digit")

            def number(i: Expr) -> None:
                n = host.load(target if copies else source, i, "n")
                if copies:
                    host.store(source, i, n)
                at = digit(n)
                host.store(counts, at, add(host.load(counts, at), 1))

            def place(i: Expr) -> None:
                n = host.load(source, i, "n")
                at = digit(n)
                position = host.load(counts, at, "position")
                host.store(counts, at, add(position, 1))
                host.store(target, position, n)

            host.fill(counts, ZERO, add(top, 1), ZERO)
            host.count(start, last, number)
            _accumulate(host, counts, start, top)
            host.count(start, last, place)
            host.set(shift, add(low, width))

        is_odd = compare("eq", op("and", passes, 1), 1)
        host.branch(is_odd, lambda: one_pass(scratch, numbers, copies=True))

        def two_passes() -> None:
            one_pass(numbers, scratch)
            one_pass(scratch, numbers)

        host.loop(lambda: compare("lt", host.get(shift), bits), two_passes)

    host.branch(op("not", _is_sorted(host, numbers, key, start, stop)), sort)
    name, given = f"sortby_{type}_{key_type}", (numbers, scratch, keys)
    return Residual(name, given, (start, stop, bound), (), host.code(), ((counts, 1 << WIDEST),))


def _is_sorted(
    host: ResidualHost, numbers: Buffer, key: Callable[[Expr], Expr], start: Expr, stop: Expr
) -> Expr:
    """Whether the keys are in order, looked at up to the first block where they are not."""
    low, descents = host.cell(start, "low"), host.cell(ZERO, "descents")
    before = host.cell(ZERO, "before")

    def block() -> None:
        first = host.get(low)
        behind = host.let(op("min", add(first, BLOCK), stop), "behind")

        def look(i: Expr) -> None:
            own = key(host.load(numbers, i))
            falls = compare("lt", own, host.get(before))
            host.set(descents, add(host.get(descents), cast(falls, Int64)))
            host.set(before, own)

        host.count(first, sub(behind, 1), look)
        host.set(low, behind)

    def goes_on() -> Expr:
        return op("and", compare("lt", host.get(low), stop), compare("eq", host.get(descents), 0))

    host.loop(goes_on, block)
    return compare("eq", host.get(descents), 0)


def _bits(host: ResidualHost, highest: Expr) -> Expr:
    """How many bits `highest` has."""
    bits = host.cell(ZERO, "bits")
    host.loop(
        lambda: compare("gt", op("shr", highest, host.get(bits)), 0),
        lambda: host.set(bits, add(host.get(bits), 1)),
    )
    return host.get(bits)


def _accumulate(host: ResidualHost, counts: Buffer, start: Expr, top: Expr) -> None:
    """From how many there are of each digit, up to `top`, to where the first of them goes."""
    total: Cell = host.cell(start, "total")

    def step(digit: Expr) -> None:
        count, so_far = host.load(counts, digit), host.get(total)
        host.store(counts, digit, so_far)
        host.set(total, add(so_far, count))

    host.count(ZERO, top, step)
