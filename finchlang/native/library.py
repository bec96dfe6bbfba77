"""The procedures that native kernels call: their names, and those that are written in the host language.

`search` and the sorts are compiled on their own, once for each type: inside, they would make a kernel that
sorts take 25 ms longer to compile. So is `grow`, which is LLVM text and would take 3 ms in each kernel that
grows. OPERATIONS are small enough to be inlined.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from math import inf, nan

from finchlang.host.construct import ONE, ZERO, add, cast, compare, conjunction, const, mul, op, sub
from finchlang.host.ir import AnySort, Buffer, Expr, Grow, Residual, Search
from finchlang.host.writing import WritingHost
from finchlang.native.elementary import SEQUENCES, elementary
from finchlang.native.sorts import sort, sort_bits
from finchlang.syntax.types import TYPES, Int32, Int64, Type

#: how many entries a search compares at once
_WINDOW = 16


#: the procedure that gives a buffer larger memory; LLVM text (`procedure_texts.py`), since the host
#: language has no addresses
GROW = "grow"


def procedure_name(statement: Grow | Search | AnySort) -> str:
    """The name of the procedure that performs `statement`; it is compiled on its own."""
    if isinstance(statement, Grow):
        return GROW
    return f"{type(statement).__name__.lower()}_{statement.buffer.type}"


def procedure(name: str) -> Residual:
    """The procedure of a name made by `procedure_name`, in the host language."""
    kind, type = name.split("_")
    return {"search": search, "sort": sort, "sortbits": sort_bits}[kind](TYPES[type])


@cache
def search(type: Type) -> Residual:
    """`search(data; start, stop, key)`: as Search, but data[start] < key is known.

    The entries of a window are all compared at once, without branches that could be mispredicted. If the
    key is not in the first window, it is found by galloping in steps that double, and by halving the last
    step down to a window.
    """
    host = WritingHost()
    data = Buffer("data", type)
    start, stop = host.inputs("start", "stop")
    key = host.variable("key", type)
    low, step = host.cell(start, "low"), host.cell(const(_WINDOW), "step")
    high = host.cell(op("min", add(start, _WINDOW), stop), "high")

    def is_below(q: Expr) -> Expr:
        is_left = compare("lt", q, stop)
        return host.only_if(is_left, lambda: compare("lt", host.load(data, q), key), "both")

    with host.repeat(lambda: is_below(add(host.get(low), host.get(step)))):
        reach = host.get(step)
        host.update(low, "add", reach)
        host.set(step, add(reach, reach))
        host.set(high, op("min", add(host.get(low), host.get(step)), stop))
    with host.repeat(lambda: compare("gt", sub(host.get(high), host.get(low)), _WINDOW)):
        left, right = host.get(low), host.get(high)
        middle = host.let(add(left, op("shr", sub(right, left), 1)))
        less = host.let(compare("lt", host.load(data, middle), key))
        host.set(low, op("select", less, middle, left))
        host.set(high, op("select", less, right, middle))
    # The answer is after `low`, and at most `high`: low + 1, and one more for each entry between them that
    # is less than the key.
    first, count = add(host.get(low), 1), host.cell(const(0, Int32), "less")
    with host.each(first, sub(host.get(high), 1)) as k:
        host.update(count, "add", compare("lt", host.load(data, k), key))
    host.set(high, add(first, cast(host.get(count), Int64)))
    return Residual(f"search_{type}", (data,), (start, stop, key), (high,), host.code())


@cache
def power(type: Type) -> Residual:
    """`power(; base, exponent)`: integer power by squaring. For a negative exponent it is 0, except for the
    bases 1 and -1, which are their own inverses."""
    host = WritingHost()
    base, exponent = host.variable("base", type), host.variable("exponent", Int64)
    negative = compare("lt", exponent, 0)
    is_unit = compare("eq", base, 1)
    if type.kind == "int":
        is_unit = op("or", is_unit, compare("eq", base, -1))
    vanishes = op("and", negative, op("not", is_unit))
    result = host.cell(op("select", vanishes, const(0, type), const(1, type)), "result")
    steps = op("select", negative, op("and", exponent, 1), exponent)
    square, rest = host.cell(base, "square"), host.cell(op("select", vanishes, 0, steps), "rest")
    with host.repeat(lambda: compare("gt", host.get(rest), 0)):
        factor, bits = host.get(square), host.get(rest)
        so_far = host.get(result)
        odd = compare("eq", op("and", bits, 1), 1)
        host.set(result, op("select", odd, mul(so_far, factor), so_far))
        host.set(square, mul(factor, factor))
        host.set(rest, op("shr", bits, 1))
    return Residual(f"power_{type}", (), (base, exponent), (result,), host.code())


#: for the operation of many steps: that of one, and that which combines the operands of many into one
_MANY = {"add_times": ("add", "mul"), "mul_times": ("mul", "fpow"), "div_times": ("fdiv", "fpow")}


@cache
def steps(name: str, type: Type) -> Residual:
    """`steps(; x, a, count)`: the result of `count` steps with `a` on x, at once if that is exact.

    The steps change x monotonically (but for the sign): if neither end is infinite nor, for products, below
    the normal numbers, nothing between them is. Otherwise single steps are tried, then twice as many or,
    where the test fails, half as many. After a step that changes nothing the rest is skipped; after two
    steps that change nothing together, all but an odd one."""
    host, (one, many) = WritingHost(), _MANY[name]
    given, a = host.variable("x", type), host.variable("a", type)
    count = host.variable("count", Int64)
    least = const(2.0**-1022 if type.bits == 64 else 2.0**-126, type)

    def tried(x: Expr, count: Expr) -> tuple[Expr, Expr]:
        """The result of some steps at once, and whether that is what they give one by one."""
        part = op(many, a, cast(count, type))
        result = op(one, x, part)
        parts = () if one == "add" else (x, part, result)
        normal = [compare("ge", op("abs", e), least) for e in parts]
        return result, conjunction(compare("lt", op("abs", result), inf), *normal)

    result, is_right = tried(given, count)
    cells = [host.cell(e, "c") for e in (result, given, const(nan, type), count, ONE)]
    whole, now, before, left, most = cells
    with host.when(op("not", is_right)):
        host.set(left, op("select", compare("eq", op(one, given, a), given), ZERO, count))
        with host.repeat(lambda: compare("gt", host.get(left), 0)):
            x, rest = host.get(now), host.get(left)
            size = host.let(op("min", host.get(most), rest))
            result, is_right = map(host.let, tried(x, size))
            is_one = compare("eq", size, 1)
            with host.when(op("or", is_right, is_one)):
                is_back = op("or", compare("eq", result, host.get(before)), op("isnan", result))
                behind = sub(rest, size)
                host.set(left, op("select", is_back, op("and", behind, 1), behind))
                host.set(before, op("select", is_one, x, nan))
                host.set(now, result)
                host.set(most, op("shl", size, 1))
            with host.otherwise():
                host.set(most, op("shr", size, 1))
        host.set(whole, host.get(now))
    return Residual(f"{name}_{type}", (), (given, a, count), (whole,), host.code())


#: the procedures for operations, each made for a type
OPERATIONS: dict[str, Callable[[Type], Residual]] = {
    "ipow": power,
    **{name: partial(steps, name) for name in _MANY},
    **{name: partial(elementary, name) for name in SEQUENCES},
}
