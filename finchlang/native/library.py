"""The procedures that native kernels call: their names, and those that are written in the host language.

`search` and the sorts are compiled on their own, once for each type: inside, they would make a kernel that
sorts take 25 ms longer to compile. So is `grow`, which is LLVM text and would take 3 ms in each kernel that
grows. OPERATIONS are small enough to be inlined.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from math import inf, nan

from finchlang.host.construct import ONE, ZERO, conjunction, const, op
from finchlang.host.ir import AnySort, Buffer, Expr, Grow, Residual, Search, SortBy
from finchlang.host.recording import ResidualHost
from finchlang.native.radix_sort import sort_bits, sort_by
from finchlang.native.range_sort import both, sort
from finchlang.syntax.types import TYPES, Int32, Int64, Type

#: how many entries a search compares at once
_WINDOW = 16


#: the procedure that gives a buffer larger memory; LLVM text (`growable_arrays.py`), since the host
#: language has no addresses
GROW = "grow"


def procedure_name(statement: Grow | Search | AnySort) -> str:
    """The name of the procedure that performs `statement`; it is compiled on its own."""
    if isinstance(statement, Grow):
        return GROW
    keys = f"_{statement.keys.type}" if isinstance(statement, SortBy) else ""
    return f"{type(statement).__name__.lower()}_{statement.buffer.type}{keys}"


def procedure(name: str) -> Residual:
    """The procedure of a name made by `procedure_name`, in the host language."""
    kind, *types = name.split("_")
    make = {"search": search, "sort": sort, "sortby": sort_by, "sortbits": sort_bits}[kind]
    return make(*(TYPES[type] for type in types))


@cache
def search(type: Type) -> Residual:
    """`search(data; start, stop, key)`: as Search, but data[start] < key is known.

    The entries of a window are all compared at once, without branches that could be mispredicted. If the
    key is not in the first window, it is found by galloping in steps that double, and by halving the last
    step down to a window.
    """
    host = ResidualHost()
    data = Buffer("data", type)
    start, stop = host.variable("start", Int64), host.variable("stop", Int64)
    key = host.variable("key", type)
    low, step = host.cell(start, "low"), host.cell(const(_WINDOW), "step")
    high = host.cell(op("min", op("add", start, _WINDOW), stop), "high")

    def find() -> None:
        """The answer is after `low`, and at most `high`: low + 1, and one more for each entry between them
        that is less than the key."""
        first = op("add", host.get(low), 1)
        less = host.cell(const(0, Int32), "less")

        def compare(k: Expr) -> None:
            is_less = op("cast", op("lt", host.load(data, k), key), type=Int32)
            host.set(less, op("add", host.get(less), is_less))

        host.count(first, op("sub", host.get(high), 1), compare)
        host.set(high, op("add", first, op("cast", host.get(less), type=Int64)))

    def is_below(q: Expr) -> Expr:
        return both(host, op("lt", q, stop), lambda: op("lt", host.load(data, q), key))

    def gallop() -> None:
        reach = host.get(step)
        host.set(low, op("add", host.get(low), reach))
        host.set(step, op("add", reach, reach))
        host.set(high, op("min", op("add", host.get(low), host.get(step)), stop))

    def halve() -> None:
        left, right = host.get(low), host.get(high)
        middle = host.let(op("add", left, op("shr", op("sub", right, left), 1)))
        less = host.let(op("lt", host.load(data, middle), key))
        host.set(low, op("select", less, middle, left))
        host.set(high, op("select", less, right, middle))

    host.loop(lambda: is_below(op("add", host.get(low), host.get(step))), gallop)
    host.loop(lambda: op("gt", op("sub", host.get(high), host.get(low)), _WINDOW), halve)
    find()
    return Residual(f"search_{type}", (data,), (start, stop, key), (high,), host.code())


@cache
def power(type: Type) -> Residual:
    """`power(; base, exponent)`: integer power by squaring. For a negative exponent it is 0, except for the
    bases 1 and -1, which are their own inverses."""
    host = ResidualHost()
    base, exponent = host.variable("base", type), host.variable("exponent", Int64)
    negative = op("lt", exponent, 0)
    is_unit = op("eq", base, const(1, type))
    if type.kind == "int":
        is_unit = op("or", is_unit, op("eq", base, const(-1, type)))
    vanishes = op("and", negative, op("not", is_unit))
    result = host.cell(op("select", vanishes, const(0, type), const(1, type)), "result")
    steps = op("select", negative, op("and", exponent, 1), exponent)
    square, rest = host.cell(base, "square"), host.cell(op("select", vanishes, 0, steps), "rest")

    def multiply() -> None:
        factor, bits = host.get(square), host.get(rest)
        so_far = host.get(result)
        odd = op("eq", op("and", bits, 1), 1)
        host.set(result, op("select", odd, op("mul", so_far, factor), so_far))
        host.set(square, op("mul", factor, factor))
        host.set(rest, op("shr", bits, 1))

    host.loop(lambda: op("gt", host.get(rest), 0), multiply)
    return Residual(f"power_{type}", (), (base, exponent), (result,), host.code())


#: for the operation of many steps: that of one, and that which combines the operands of many into one
_MANY = {
    "add_times": ("add", "mul"),
    "mul_times": ("mul", "fpow"),
    "div_times": ("fdiv", "fpow"),
}


@cache
def steps(name: str, type: Type) -> Residual:
    """`steps(; x, a, count)`: the result of `count` steps with `a` on x, at once if that is exact.

    The steps change x monotonically (but for the sign): if neither end is infinite nor, for products, below
    the normal numbers, nothing between them is. Otherwise single steps are tried, then twice as many or,
    where the test fails, half as many. After a step that changes nothing the rest is skipped; after two
    steps that change nothing together, all but an odd one."""
    host, (one, many) = ResidualHost(), _MANY[name]
    given, a = host.variable("x", type), host.variable("a", type)
    count = host.variable("count", Int64)
    least = const(2.0**-1022 if type.bits == 64 else 2.0**-126, type)

    def tried(x: Expr, count: Expr) -> tuple[Expr, Expr]:
        """The result of some steps at once, and whether that is what they give one by one."""
        part = op(many, a, op("cast", count, type=type))
        result = op(one, x, part)
        normal = [] if one == "add" else [op("ge", op("abs", e), least) for e in (x, part, result)]
        return result, conjunction(op("lt", op("abs", result), const(inf, type)), *normal)

    result, is_right = tried(given, count)
    cells = [host.cell(e, "c") for e in (result, given, const(nan, type), count, ONE)]
    whole, now, before, left, most = cells

    def step() -> None:
        x, rest = host.get(now), host.get(left)
        size = host.let(op("min", host.get(most), rest))
        result, is_right = map(host.let, tried(x, size))
        is_one = op("eq", size, 1)

        def take() -> None:
            is_back = op("or", op("eq", result, host.get(before)), op("isnan", result))
            behind = op("sub", rest, size)
            host.set(left, op("select", is_back, op("and", behind, 1), behind))
            host.set(before, op("select", is_one, x, const(nan, type)))
            host.set(now, result)
            host.set(most, op("shl", size, 1))

        host.branch(op("or", is_right, is_one), take, lambda: host.set(most, op("shr", size, 1)))

    def in_parts() -> None:
        host.set(left, op("select", op("eq", op(one, given, a), given), ZERO, count))
        host.loop(lambda: op("gt", host.get(left), 0), step)
        host.set(whole, host.get(now))

    host.branch(op("not", is_right), in_parts)
    return Residual(f"{name}_{type}", (), (given, a, count), (whole,), host.code())


#: the procedures for operations, each made for a type
OPERATIONS: dict[str, Callable[[Type], Residual]] = {
    "ipow": power,
    **{name: partial(steps, name) for name in _MANY},
}
