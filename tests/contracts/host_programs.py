"""Programs of the host language, as staging would make them and as it would not: by hand, and at random."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from hosts import Sample, up_to

from finchlang.host.construct import FALSE, ONE, ZERO, cast, const, op
from finchlang.host.ir import OPS, Buffer, Cell, Expr, Op
from finchlang.syntax.types import Float32, Float64, Int8, Int32, Int64, Type, UInt32


def spmv(s: Sample, by_row: bool) -> None:
    """y = A * x; buffers y, ptr, idx, val, x; inputs m, n. A is CSC, or CSR if `by_row`."""
    host = s.host
    y, ptr, idx = s.buffer("y"), s.buffer("ptr", Int32), s.buffer("idx", Int32)
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


def inner_product(s: Sample) -> None:
    """out = sum(a .* b) over n entries."""
    a, b, n = s.buffer("a"), s.buffer("b"), s.input("n")
    out = s.output(const(0.0))

    def entry(i: Expr) -> None:
        s.add_to(out, op("mul", s.host.load(a, i), s.host.load(b, i)))

    s.host.count(ZERO, up_to(n), entry)


def union(s: Sample) -> None:
    """Adds two sparse vectors: ai/av and bi/bv with na and nb entries give ci/cv, which grow, and
    their number of entries."""
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

    def both(i: Expr) -> None:
        x, y = host.load(av, host.get(p)), host.load(bv, host.get(q))
        append(i, op("add", x, y))
        s.add_to(p, 1)
        s.add_to(q, 1)

    def step() -> None:
        i, j = host.load(ai, host.get(p)), host.load(bi, host.get(q))
        lesser = op("lt", i, j)
        apart = lambda: host.branch(lesser, lambda: take(ai, av, p), lambda: take(bi, bv, q))  # noqa: E731
        host.branch(op("eq", i, j), lambda: both(i), apart)

    def left(position: Cell, end: Expr) -> Callable[[], Expr]:
        return lambda: op("lt", host.get(position), end)

    host.loop(lambda: op("and", left(p, na)(), left(q, nb)()), step)
    host.loop(left(p, na), lambda: take(ai, av, p))
    host.loop(left(q, nb), lambda: take(bi, bv, q))


def intersection(s: Sample) -> None:
    """out = number of common entries of the sorted ai (na) and bi (nb), by galloping."""
    host = s.host
    ai, bi = s.buffer("ai", Int32), s.buffer("bi", Int32)
    na, nb = s.input("na"), s.input("nb")
    q, out = host.cell(ZERO, "q"), s.output(ZERO)

    def entry(p: Expr) -> None:
        i = host.load(ai, p, "i")
        found = host.search(bi, host.get(q), nb, i)
        host.set(q, found)
        common = host.cell(FALSE, "common")
        look = lambda: host.set(common, op("eq", host.load(bi, found), i))  # noqa: E731
        host.branch(op("lt", found, nb), look)
        host.branch(host.get(common), lambda: s.add_to(out, 1))

    host.count(ZERO, up_to(na), entry, "p")


def gather(s: Sample) -> None:
    """y[i] = x[k[i] - 1] for n entries; fails at a k outside 1 .. m, after what came before."""
    host = s.host
    y, x, k = s.buffer("y"), s.buffer("x"), s.buffer("k", Int32)
    n, m = s.input("n"), s.input("m")

    def entry(i: Expr) -> None:
        at = host.load(k, i, "at", Int64)
        outside = op("or", op("lt", at, 1), op("gt", at, m))
        host.branch(outside, lambda: host.fail("bounds", "{} is not in 1:{}", (at, m)))
        host.store(y, i, host.load(x, up_to(at)))

    host.count(ZERO, up_to(n), entry)


def appended(s: Sample, fails_at: int = -1) -> None:
    """Appends 0, 1, 2, ... n - 1 to data from its start, growing it; fails before `fails_at`."""
    host = s.host
    data, n = s.buffer("data", Int64), s.input("n")

    def entry(i: Expr) -> None:
        host.branch(op("eq", i, fails_at), lambda: host.fail("resource", "full at {}", (i,)))
        host.grow(data, op("add", i, 1))
        host.store(data, i, i)

    host.count(ZERO, up_to(n), entry)


def in_batches(s: Sample) -> None:
    """Every number of x is appended to out, which grows by ten entries in a rare branch; there, another
    counts how often, and sums what there is so far."""
    host, x, out, n = s.host, s.buffer("x"), s.buffer("out", Float32), s.input("n")
    room, sums = s.output(ZERO, "room"), s.output(const(0.0), "sums")
    often, is_odd = s.output(ZERO, "often"), s.output(FALSE, "odd")
    scale = host.let(cast(n, Float64), "scale")

    def grow(i: Expr) -> None:
        host.set(room, op("add", i, 10))
        host.grow(out, host.get(room))

        def tell() -> None:
            s.add_to(often, 1)
            host.set(is_odd, op("not", host.get(is_odd)))

            def add(k: Expr) -> None:
                value = cast(host.load(out, k), Float64)
                s.add_to(sums, op("fdiv", value, scale))

            host.count(ZERO, up_to(i), add)

        host.branch(op("gt", i, 0), tell, is_rare=True)

    def append(i: Expr) -> None:
        host.branch(op("ge", i, host.get(room)), lambda: grow(i), is_rare=True)
        host.store(out, i, host.load(x, i))

    host.count(ZERO, up_to(n), append)


def elementwise(s: Sample, types: tuple[Type, ...], results: tuple[tuple[str, Type], ...]) -> None:
    """For each (operation, result type) a buffer r with r[i] = operation(a[i], ...), i < n; the
    arguments are buffers of `types`, of which an operation takes as many as it needs."""
    args = [s.buffer(f"a{k}", t) for k, t in enumerate(types)]
    made = [s.buffer(f"{name}_{type}", type) for name, type in results]
    n = s.input("n")

    def entry(i: Expr) -> None:
        values = [s.host.load(a, i) for a in args]
        for (name, type), target in zip(results, made, strict=True):
            s.host.store(target, i, Op(name, tuple(values[: OPS[name][0]]), type))

    s.host.count(ZERO, up_to(n), entry)


# -------------------------------------------------------------------------------------- at random

SIZE = 8
KINDS = (Int64, UInt32, Int8)
BINARY = ("add", "sub", "mul", "idiv", "irem", "min", "max", "and", "or", "xor", "shl", "shr")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
SIMPLE = ("load", "store", "set", "get", "let", "fill", "sort", "search", "grow", "fail")


def number(rng: Random, known: list[Expr], type: Type, depth: int, make: Callable = op) -> Expr:
    """An expression of `type`, of constants and what is `known`; `make` is what its operations are made
    by."""
    own = [expr for expr in known if expr.type == type]
    kind = rng.randint(0, 6 if depth else 1)
    if kind == 0 or (kind == 1 and not own):
        return const(rng.randint(-3, 9), type)
    if kind == 1:
        return rng.choice(own)
    if kind == 2:
        return make("cast", number(rng, known, rng.choice(KINDS), depth - 1, make), type=type)
    if kind == 3:
        arms = [number(rng, known, type, depth - 1, make) for _ in range(2)]
        return make("select", condition(rng, known, depth - 1, make), *arms)
    args = [number(rng, known, type, depth - 1, make) for _ in range(2)]
    return make(rng.choice(BINARY), *args)


def condition(rng: Random, known: list[Expr], depth: int, make: Callable = op) -> Expr:
    type = rng.choice(KINDS)
    args = [number(rng, known, type, depth, make) for _ in range(2)]
    result = make(rng.choice(COMPARISONS), *args)
    return make("not", result) if rng.random() < 0.5 else result


def at_random(s: Sample, seed: int, count: int) -> None:
    """`count` statements, with others in them."""
    _Random(s).block(seed, 2, count)


class _Random:
    """Writes random statements; `scope` are the expressions that may be used. Each block is written by a
    generator and with a scope of its own, so that it is the same wherever, whenever and however often
    it is performed."""

    def __init__(self, s: Sample):
        self.s, self.host = s, s.host
        self.buffers = [s.buffer(f"b{k}", kind) for k, kind in enumerate(KINDS)]
        self.scope: list[Expr] = [s.input(f"n{k}", kind) for k, kind in enumerate(KINDS)]
        self.cells = [s.output(expr) for expr in (self.scope[0], const(5))]
        self.rng = Random()

    def number(self, type: Type = Int64) -> Expr:
        return number(self.rng, self.scope, type, 2)

    def index(self) -> Expr:
        return op("and", self.number(), SIZE - 1)

    def block(self, seed: int, depth: int, count: int = 0) -> None:
        """Some statements; what they bind is out of scope behind them."""
        around = self.rng, self.scope
        self.rng, self.scope = Random(seed), [*self.scope]
        for _ in range(count or self.rng.randint(1, 4)):
            self.statement(depth)
        self.rng, self.scope = around

    def inner(self, depth: int) -> Callable[..., None]:
        """A block in what is in scope here, and what is given beside."""
        seed, scope = self.rng.getrandbits(32), [*self.scope]

        def block(*more: Expr) -> None:
            around, self.scope = self.scope, [*scope, *more]
            self.block(seed, depth - 1)
            self.scope = around

        return block

    def statement(self, depth: int) -> None:
        host, buffer = self.host, self.rng.choice(self.buffers)
        match self.rng.choice((*SIMPLE, *(("if", "for", "while") * 2 if depth else ()))):
            case "load":
                self.scope.append(host.load(buffer, self.index()))
            case "store":
                host.store(buffer, self.index(), self.number(buffer.type))
            case "set":
                host.set(self.rng.choice(self.cells), self.number())
            case "get":
                self.scope.append(host.get(self.rng.choice(self.cells)))
            case "let":
                self.scope.append(host.let(self.number(buffer.type)))
            case "fill":
                host.fill(buffer, self.index(), self.index(), self.number(buffer.type))
            case "sort":
                host.sort(buffer, ZERO, self.index())
            case "search":
                stop = self.index()
                host.sort(buffer, ZERO, stop)
                key, start = self.number(buffer.type), op("min", self.index(), stop)
                self.scope.append(host.search(buffer, start, stop, key))
            case "grow":
                host.grow(buffer, op("add", self.index(), 4))
            case "fail":
                values, rare = (self.number(), self.number(UInt32)), op("eq", self.index(), 0)
                host.branch(rare, lambda: host.fail("bounds", "{} and {}", values))
            case "if":
                arms = [self.inner(depth) for _ in range(self.rng.randint(1, 2))]
                host.branch(condition(self.rng, self.scope, 1), *arms, is_rare=depth == 2)
            case "for":
                self.counted(depth)
            case "while":
                self.repeated(depth)

    def counted(self, depth: int) -> None:
        inner, start = self.inner(depth), self.index()
        self.host.count(start, op("add", start, op("sub", self.index(), 2)), inner)

    def repeated(self, depth: int) -> None:
        """A while loop of at most SIZE steps."""
        inner, left = self.inner(depth), self.host.cell(self.index())
        goes_on = condition(self.rng, self.scope, 1)

        def body() -> None:
            inner()
            self.host.set(left, up_to(self.host.get(left)))

        self.host.loop(lambda: op("and", op("gt", self.host.get(left), 0), goes_on), body)
