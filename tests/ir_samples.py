"""Residual programs as staging would make them, written by hand for tests."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from finchlang.host.fold import FALSE, ONE, ZERO, cast, const, op
from finchlang.host.ir import OPS, Buffer, Cell, Code, Expr, Op, Residual, Var
from finchlang.host.residual import ResidualHost
from finchlang.host.verify import check
from finchlang.native.jit import compile_residual
from finchlang.native.kernel import NativeKernel
from finchlang.source import Bug
from finchlang.types import Bool, Float64, Int32, Int64, Type


class Sample:
    """A residual being written: a recording host, and lists of buffers, inputs and outputs."""

    def __init__(self, name: str = "sample"):
        self.name = name
        self.host = ResidualHost()
        self.buffers: list[Buffer] = []
        self.inputs: list[Var] = []
        self.outputs: list[Cell] = []

    def buffer(self, name: str, type: Type = Float64) -> Buffer:
        self.buffers.append(Buffer(name, type))
        return self.buffers[-1]

    def input(self, name: str, type: Type = Int64) -> Var:
        self.inputs.append(self.host.variable(name, type))
        return self.inputs[-1]

    def output(self, init: Expr, name: str = "out") -> Cell:
        self.outputs.append(self.host.cell(init, name))
        return self.outputs[-1]

    def add_to(self, cell: Cell, amount: Expr | int) -> None:
        self.host.set(cell, op("add", self.host.get(cell), amount))

    def add_at(self, buffer: Buffer, index: Expr, amount: Expr) -> None:
        self.host.store(buffer, index, op("add", self.host.load(buffer, index), amount))

    def residual(self, body: Code | None = None) -> Residual:
        lists = tuple(self.buffers), tuple(self.inputs), tuple(self.outputs)
        return Residual(self.name, *lists, body or self.host.code())


def up_to(size: Expr) -> Expr:
    return op("sub", size, 1)


def spmv(by_row: bool, index: Type = Int32) -> Residual:
    """y = A * x; buffers y, ptr, idx, val, x; inputs m, n. A is CSC, or CSR if `by_row`."""
    s = Sample("spmv_csr" if by_row else "spmv_csc")
    host = s.host
    y, ptr, idx = s.buffer("y"), s.buffer("ptr", index), s.buffer("idx", index)
    val, x = s.buffer("val"), s.buffer("x")
    m, n = s.input("m"), s.input("n")
    host.fill(y, ZERO, m, const(0.0))

    def vector(j: Expr) -> None:
        fixed = up_to(j)
        first = host.load(ptr, fixed, "p0", Int64)
        behind = host.load(ptr, j, "p1", Int64)
        factor = None if by_row else host.load(x, fixed, "xj")

        def entry(p: Expr) -> None:
            i = host.load(idx, p, "i", Int64)
            v = host.load(val, p, "v")
            other = factor if factor is not None else host.load(x, i, "xi")
            s.add_at(y, fixed if by_row else i, op("mul", v, other))

        host.count(first, up_to(behind), entry, "p")

    host.count(ONE, m if by_row else n, vector, "j")
    return s.residual()


def inner_product() -> Residual:
    """out = sum(a .* b) over n entries."""
    s = Sample("inner_product")
    a, b, n = s.buffer("a"), s.buffer("b"), s.input("n")
    out = s.output(const(0.0))
    host = s.host

    def entry(i: Expr) -> None:
        s.add_to(out, op("mul", host.load(a, i), host.load(b, i)))

    host.count(ZERO, up_to(n), entry)
    return s.residual()


def union() -> Residual:
    """Adds two sparse vectors: ai/av and bi/bv with na and nb entries give ci/cv, which grow, and
    their number of entries."""
    s = Sample("union")
    host = s.host
    ai, av, bi, bv = s.buffer("ai", Int32), s.buffer("av"), s.buffer("bi", Int32), s.buffer("bv")
    ci, cv = s.buffer("ci", Int32), s.buffer("cv")
    na, nb = s.input("na"), s.input("nb")
    p, q, r = host.cell(ZERO, "p"), host.cell(ZERO, "q"), s.output(ZERO, "r")

    def append(i: Expr, value: Expr) -> None:
        at = host.get(r)
        host.grow(ci, op("add", at, 1))
        host.grow(cv, op("add", at, 1))
        host.store(ci, at, i)
        host.store(cv, at, value)
        s.add_to(r, 1)

    def take(idx: Buffer, val: Buffer, position: Cell) -> None:
        here = host.get(position)
        append(host.load(idx, here), host.load(val, here))
        s.add_to(position, 1)

    def either(i: Expr, j: Expr) -> None:
        def both() -> None:
            x, y = host.load(av, host.get(p)), host.load(bv, host.get(q))
            append(i, op("add", x, y))
            s.add_to(p, 1)
            s.add_to(q, 1)

        host.branch(
            op("eq", i, j),
            both,
            lambda: host.branch(op("lt", i, j), lambda: take(ai, av, p), lambda: take(bi, bv, q)),
        )

    def left(position: Cell, end: Expr) -> Callable[[], Expr]:
        return lambda: op("lt", host.get(position), end)

    host.loop(
        lambda: op("and", left(p, na)(), left(q, nb)()),
        lambda: either(host.load(ai, host.get(p)), host.load(bi, host.get(q))),
    )
    host.loop(left(p, na), lambda: take(ai, av, p))
    host.loop(left(q, nb), lambda: take(bi, bv, q))
    return s.residual()


def intersection() -> Residual:
    """out = number of common entries of the sorted ai (na) and bi (nb), by galloping."""
    s = Sample("intersection")
    host = s.host
    ai, bi = s.buffer("ai", Int32), s.buffer("bi", Int32)
    na, nb = s.input("na"), s.input("nb")
    q, out = host.cell(ZERO, "q"), s.output(ZERO)

    def entry(p: Expr) -> None:
        i = host.load(ai, p, "i")
        found = host.search(bi, host.get(q), nb, i)
        host.set(q, found)
        common = host.cell(FALSE, "common")
        host.branch(
            op("lt", found, nb),
            lambda: host.set(common, op("eq", host.load(bi, found), i)),
        )
        host.branch(host.get(common), lambda: s.add_to(out, 1))

    host.count(ZERO, up_to(na), entry, "p")
    return s.residual()


def gather(kind: str = "bounds") -> Residual:
    """y[i] = x[k[i] - 1] for n entries; fails at a k outside 1 .. m, after what came before."""
    s = Sample("gather")
    host = s.host
    y, x, k = s.buffer("y"), s.buffer("x"), s.buffer("k", Int32)
    n, m = s.input("n"), s.input("m")

    def entry(i: Expr) -> None:
        at = host.load(k, i, "at", Int64)
        outside = op("or", op("lt", at, 1), op("gt", at, m))
        host.branch(outside, lambda: host.fail(kind, "{} is not in 1:{}", (at, m)))
        host.store(y, i, host.load(x, up_to(at)))

    host.count(ZERO, up_to(n), entry)
    return s.residual()


def elementwise(types: list[Type], results: list[tuple[str, Type]]) -> Residual:
    """For each (operation, result type) a buffer r with r[i] = operation(a[i], ...), i < n; the
    arguments are buffers of `types`, of which an operation takes as many as it needs."""
    s = Sample("elementwise")
    args = [s.buffer(f"a{k}", t) for k, t in enumerate(types)]
    made = [s.buffer(f"{name}_{type}", type) for name, type in results]
    n = s.input("n")

    def entry(i: Expr) -> None:
        values = [s.host.load(a, i) for a in args]
        for (name, type), target in zip(results, made, strict=True):
            s.host.store(target, i, Op(name, tuple(values[: OPS[name]]), type))

    s.host.count(ZERO, up_to(n), entry)
    return s.residual()


def signatures(name: str, type: Type) -> list[tuple[list[Type], Type]]:
    """The argument and result types that the checker lets the operation `name` have, among those
    whose first argument is of `type` and whose others are of `type` or Int64."""
    found = []
    for other in {type, Int64}:
        for result in {type, Bool}:
            types = [type, other, other][: max(2, OPS[name])]
            try:
                check(elementwise(types, [(name, result)]))
            except Bug:
                continue
            if OPS[name] > 1 or other == type:
                found.append((types, result))
    return found


def endless(counted: bool) -> Residual:
    """Scrambles h[0] for 10^13 steps, in a counted loop or a while loop; first sets h[1] to 1."""
    s = Sample("endless")
    host = s.host
    h = s.buffer("h", Int64)
    host.store(h, ONE, ONE)

    def scramble(i: Expr) -> None:
        old = host.load(h, ZERO)
        host.store(h, ZERO, op("xor", op("mul", old, 6364136223846793005), op("add", i, 1)))

    if counted:
        host.count(ONE, const(10**13), scramble)
    else:
        c = host.cell(ZERO, "c")

        def step() -> None:
            scramble(host.get(c))
            s.add_to(c, 1)

        host.loop(lambda: op("lt", host.get(c), 10**13), step)
    return s.residual()


def sorted_range(type: Type) -> Residual:
    """Sorts data[low .. high - 1]."""
    s = Sample("sorted_range")
    data, low, high = s.buffer("data", type), s.input("low"), s.input("high")
    s.host.sort(data, low, high)
    return s.residual()


def searched(type: Type) -> Residual:
    """out = the position of key in the sorted data[low .. high - 1]."""
    s = Sample("searched")
    data, low, high, key = (
        s.buffer("data", type),
        s.input("low"),
        s.input("high"),
        s.input("k", type),
    )
    s.output(s.host.search(data, low, high, key))
    return s.residual()


def filled(type: Type, value: Expr) -> Residual:
    """Fills data[low .. high - 1] with `value`."""
    s = Sample("filled")
    data, low, high = s.buffer("data", type), s.input("low"), s.input("high")
    s.host.fill(data, low, high, cast(value, type))
    return s.residual()


def appended(kind: Type = Int64, fails_at: int = -1) -> Residual:
    """Appends 0, 1, 2, ... n - 1 to data from its start, growing it; fails before `fails_at`."""
    s = Sample("appended")
    host = s.host
    data, n = s.buffer("data", kind), s.input("n")

    def entry(i: Expr) -> None:
        host.branch(op("eq", i, fails_at), lambda: host.fail("resource", "full at {}", (i,)))
        host.grow(data, op("add", i, 1))
        host.store(data, i, cast(i, kind))

    host.count(ZERO, up_to(n), entry)
    return s.residual()


@cache
def compiled(make: Callable[..., Residual], *args: object) -> NativeKernel:
    """The kernel of a sample, compiled once in all tests."""
    return compile_residual(checked(make(*args)))


def checked(residual: Residual) -> Residual:
    """`residual`, which the checker accepts."""
    check(residual)
    return residual
