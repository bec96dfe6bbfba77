"""Comparing, moving and copying the frozen fibers of a level: what RunList and its like need to merge
equal neighbours when they are frozen (Finch'25 Table 4), and what copies whole tensors."""

from __future__ import annotations

from collections.abc import Callable

from finchlang.host.construct import FALSE, ONE, TRUE, ZERO, add, compare, op, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Buffer, Expr
from finchlang.syntax.types import Int64, Pair, PairType


def same_value(a: Expr, b: Expr) -> Expr:
    """Whether two values are the same to a level that merges them: NaN is NaN, and zeros are the
    same, as arithmetic does not keep their sign (`nsz`)."""
    if isinstance(a.type, PairType):
        return op("and", *(same_value(op(part, a), op(part, b)) for part in Pair._fields))
    equal = compare("eq", a, b)
    return op("or", equal, op("and", op("isnan", a), op("isnan", b))) if a.type.is_float else equal


def each_equal(host: Host, count: Expr, test: Callable[[Expr], Expr]) -> Expr:
    """Whether test(0), ..., test(count - 1) all hold; stops at the first that does not."""
    same, at = host.cell(TRUE, "same"), host.cell(ZERO, "k")

    def body() -> None:
        k = host.get(at)
        host.set(same, test(k))
        host.set(at, add(k, 1))

    host.loop(lambda: op("and", host.get(same), compare("lt", host.get(at), count)), body)
    return host.get(same)


def ranges_equal(
    host: Host,
    ptr: Buffer,
    p: Expr,
    q: Expr,
    arrays: tuple[Buffer, ...],
    children_equal: Callable[[Expr, Expr], Expr],
) -> Expr:
    """Whether the entries ptr[p] .. ptr[p + 1] - 1 and ptr[q] .. ptr[q + 1] - 1 are as many, the same
    in each of `arrays`, and `children_equal` one by one."""
    first, other = host.load(ptr, p, "first", Int64), host.load(ptr, q, "other", Int64)
    length = host.let(sub(host.load(ptr, add(p, 1), "end", Int64), first), "length")
    found = host.cell(FALSE, "equal")

    def one(k: Expr) -> Expr:
        a, b = host.let(add(first, k), "a"), host.let(add(other, k), "b")
        same = host.cell(TRUE, "same")
        for array in arrays:
            alike = compare("eq", host.load(array, a, "i", Int64), host.load(array, b, "i", Int64))
            host.set(same, op("and", host.get(same), alike))
        host.branch(host.get(same), lambda: host.set(same, children_equal(a, b)))
        return host.get(same)

    alike = compare("eq", length, sub(host.load(ptr, add(q, 1), "end", Int64), other))
    host.branch(alike, lambda: host.set(found, each_equal(host, length, one)))
    return host.get(found)


def move_range(
    host: Host,
    ptr: Buffer,
    source: Expr,
    target: Expr,
    arrays: tuple[Buffer, ...],
    move_child: Callable[[Expr, Expr], None],
) -> tuple[Expr, Expr, Expr]:
    """Move the entries of fiber `source` down to those of `target`, with their children; gives where
    they began and ended, and where they begin now."""
    start = host.load(ptr, source, "start", Int64)
    stop = host.load(ptr, add(source, 1), "stop", Int64)
    to = host.load(ptr, target, "to", Int64)

    def entry(q: Expr) -> None:
        k = host.let(add(to, sub(q, start)), "k")
        for array in arrays:
            host.store(array, k, host.load(array, q, "i"))
        move_child(q, k)

    host.count(start, sub(stop, ONE), entry, "q")
    host.store(ptr, add(target, 1), host.let(add(to, sub(stop, start)), "end"))
    return start, stop, to


def copy_array(host: Host, to: Buffer, at: Expr, source: Buffer, count: Expr) -> None:
    """to[at + k] = source[k] for k below `count`."""

    def entry(k: Expr) -> None:
        place = host.let(add(at, k), "to")
        host.store(to, place, host.load(source, k, "v"))

    host.count(ZERO, sub(count, 1), entry, "k")
