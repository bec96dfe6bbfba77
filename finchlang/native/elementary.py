"""Elementary functions of floats as sequences of host operations, which LLVM makes vectors of.

Each is written for both types of floats. Coefficients follow from Taylor series, and `ln 2` and `pi / 2`
are sums of parts so short that their products with whole numbers are exact. The same sequence computes the
lanes of a vector and single values, and rounds each operation as it is written: results depend neither on
length nor on alignment. `SEQUENCES` says what there is, and how far a result may be from the exact one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache, partial, reduce
from itertools import zip_longest
from math import factorial, inf, nan

from finchlang.base.records import record
from finchlang.host.construct import cast, const, op
from finchlang.host.ir import Branch, Cell, Code, Expr, Residual, Set, Stmt, Var
from finchlang.syntax.types import TYPES, Float64, Type

LN2 = Fraction("0.69314718055994530941723212145817656807550013436025525412068")
HALF_PI = Fraction("1.57079632679489661923132169163975144209858469968755291048747")


@record
class FloatKind:
    """A type of floats, with what sequences need of it: the unsigned type of its bits, how many bits a
    fraction has, and the exponent that stands for 2^0."""

    type: Type
    bits: Type
    fraction: int
    bias: int

    def number(self, value: float | Fraction) -> Expr:
        return const(float(value), self.type)

    def of(self, bits: Expr) -> Expr:
        """The float with these bits."""
        return op("reinterpret", bits, type=self.type)

    def bits_of(self, x: Expr) -> Expr:
        return op("reinterpret", x, type=self.bits)

    def power_of_two(self, biased: Expr) -> Expr:
        """2 to the power of an exponent less the bias."""
        return self.of(op("shl", biased, self.fraction))

    @property
    def ln_2(self) -> list[Expr]:
        return self.parts(LN2, self.fraction // 2 + 6, 2)

    def parts(self, value: Fraction, width: int, count: int) -> list[Expr]:
        """`value` as a sum of floats, of which all but the last have `width` bits."""
        found = []
        for _ in range(count - 1):
            unit = Fraction(2) ** (_exponent(value) + 1 - width)
            found.append(round(value / unit) * unit)
            value -= found[-1]
        return [self.number(part) for part in (*found, value)]


def _exponent(value: Fraction) -> int:
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    return exponent if Fraction(2) ** exponent <= size else exponent - 1


FLOATS = {
    TYPES["Float64"]: FloatKind(TYPES["Float64"], TYPES["UInt64"], 52, 1023),
    TYPES["Float32"]: FloatKind(TYPES["Float32"], TYPES["UInt32"], 23, 127),
}


def _exact(name: str) -> Callable[..., Expr]:
    return lambda a, b: op("exact", op(name, a, b))


add, sub, mul, div = map(_exact, ("add", "sub", "mul", "fdiv"))
muladd, select = partial(op, "muladd"), partial(op, "select")


def polynomial(x: Expr, coefficients: Sequence[Fraction]) -> Expr:
    """The polynomial with these coefficients, that of the constant term first."""
    return reduce(lambda value, c: muladd(value, x, c), reversed(coefficients))  # type: ignore


def _shorter(
    series: Sequence[Fraction], low: Fraction, top: Fraction, count: int
) -> list[Fraction]:
    """The first `count` coefficients of a series, changed so that on [low, top] it is as near as all of
    them: multiples of Chebyshev's polynomials take away the last one at a time (economisation)."""
    found, zero, middle = [*series], Fraction(0), (low + top) / 2
    while len(found) > count:
        before, chebyshev = [Fraction(1)], [-2 * middle / (top - low), 2 / (top - low)]
        for _ in range(len(found) - 2):  # T(n + 1) = 2 t T(n) - T(n - 1)
            scaled = [4 * c / (top - low) for c in chebyshev]
            rows = zip_longest([zero, *scaled], scaled, before, fillvalue=zero)
            before, chebyshev = chebyshev, [a - middle * b - c for a, b, c in rows]
        factor = found[-1] / chebyshev[-1]
        found = [c - factor * t for c, t in zip(found[:-1], chebyshev, strict=False)]
    return found


def _between(x: Expr, low: float, high: float, k: FloatKind) -> Expr:
    """x, or the nearest end of an interval; NaN stays."""
    x = select(op("lt", x, low), low, x)
    return select(op("gt", x, high), high, x)


def _nearest(x: Expr, factor: Fraction, k: FloatKind) -> tuple[Expr, Expr]:
    """The whole number nearest to x * factor, as a float and as bits that wrap around: a large number with
    no bits for fractions is added, and subtracted again."""
    large = k.number(3 * 2.0 ** (k.fraction - 1))
    moved = muladd(x, float(factor), large)
    return sub(moved, large), op("sub", k.bits_of(moved), k.bits_of(large))


def _reduced(x: Expr, k: FloatKind, rest: Expr | None = None) -> tuple[Expr, Expr]:
    """n as bits, and e^r - 1, where x (and `rest`) is n * ln 2 + r."""
    high, low = k.ln_2
    n, bits = _nearest(x, 1 / LN2, k)
    minus = op("neg", n)
    r = muladd(minus, low, muladd(minus, high, x))
    r = r if rest is None else add(r, rest)
    taylor = [Fraction(1, factorial(j)) for j in range(2, 15)]
    short = _shorter(taylor, -LN2 / 2, LN2 / 2, 11 if k.fraction == 52 else 5)
    return bits, muladd(mul(r, r), polynomial(r, short), r)


def _ends(k: FloatKind) -> tuple[float, float]:
    """Where e^x is certainly 0, and certainly infinite."""
    return -(k.bias + k.fraction + 2) * 0.6932, (k.bias + 2) * 0.6932


def _scaled(x: Expr, n: Expr, k: FloatKind) -> Expr:
    """x * 2^n in two steps, of which the last may go over to 0 or an infinity."""
    both = op("add", n, 2 * k.bias)
    half = op("shr", both, 1)
    return mul(mul(x, k.power_of_two(half)), k.power_of_two(op("sub", both, half)))


def exp(k: FloatKind, x: Expr) -> Expr:
    n, less = _reduced(_between(x, *_ends(k), k), k)
    return _scaled(add(less, 1), n, k)


def _small(x: Expr, otherwise: Expr, k: FloatKind) -> Expr:
    """x where it is so small that f(x) = x, which keeps -0.0 and denormals."""
    least = 2.0 ** -(k.fraction + 2)
    return select(op("lt", op("abs", x), least), x, otherwise)


def _half_of_expm1(x: Expr, k: FloatKind) -> Expr:
    n, less = _reduced(x, k)
    half = k.power_of_two(op("add", n, k.bias - 1))  # 2^n itself may be too large
    return muladd(half, less, sub(half, 0.5))


def expm1(k: FloatKind, x: Expr) -> Expr:
    half = _half_of_expm1(_between(x, -float(k.fraction), (k.bias + 1.4) * 0.69315, k), k)
    return _small(x, add(half, half), k)


def tanh(k: FloatKind, x: Expr) -> Expr:
    """(1 - e^-2x) / (1 + e^-2x) for x >= 0."""
    minus, low = mul(op("abs", x), -2), -float(k.fraction)
    half = _half_of_expm1(select(op("lt", minus, low), low, minus), k)
    return op("copysign", div(half, add(half, 1)), x)


def _divided(x: Expr, k: FloatKind) -> tuple[Expr, Expr]:
    """(k + bias, m) where x > 0 is 2^k * m, and m is from sqrt(1/2) to sqrt(2); k + bias as bits."""
    one = 2**k.fraction
    root = int(0.5**0.5 * 2 * one) - one  # the fraction of sqrt(1/2)
    moved = op("add", k.bits_of(x), one - root)  # carries into the exponent from sqrt(2) on
    m = op("add", op("and", moved, one - 1), (k.bias - 1) * one + root)
    return op("shr", moved, k.fraction), k.of(m)


def _whole(bits: Expr, bias: float, k: FloatKind) -> Expr:
    """A small whole number, given as bits, less `bias`."""
    one = 2.0**k.fraction
    return sub(k.of(op("or", bits, k.bits_of(k.number(one)))), one + bias)


def _normal(x: Expr, k: FloatKind) -> tuple[Expr, Expr]:
    """x times a power of 2 where it is denormal, and the exponent's bias then."""
    is_tiny = op("lt", x, 2.0 ** (1 - k.bias))
    shift = k.fraction + 2
    return select(is_tiny, mul(x, 2.0**shift), x), select(is_tiny, k.number(shift), k.number(0))


def _log(m: Expr, exponent: Expr, error: Expr | None, k: FloatKind) -> Expr:
    """ln(m) + exponent * ln 2 + error, with ln(1 + f) = f - s (f - R(s^2)), s = f / (2 + f)."""
    high, low = k.ln_2
    f = sub(m, 1)
    s = div(f, add(f, 2))
    z = mul(s, s)
    taylor = [Fraction(2, 2 * j + 3) for j in range(12)]
    short = _shorter(taylor, Fraction(0), Fraction(295, 10_000), 7 if k.fraction == 52 else 3)
    below = muladd(op("neg", z), polynomial(z, short), f)
    rest = mul(exponent, low) if error is None else muladd(exponent, low, error)
    return muladd(exponent, high, sub(f, muladd(s, below, op("neg", rest))))


def _where_positive(u: Expr, found: Expr, k: FloatKind) -> Expr:
    """`found` where 0 < u < Inf, which is one comparison of bits; a logarithm is -Inf of 0, NaN below, and
    else u itself: u * Inf + Inf."""
    before = op("sub", k.bits_of(u), 1)
    is_inside = op("lt", before, ((2 * k.bias + 1) << k.fraction) - 1)
    beyond = muladd(u, inf, inf)
    beyond = select(op("eq", u, 0), -inf, beyond)
    return select(is_inside, found, beyond)


def log(k: FloatKind, x: Expr) -> Expr:
    normal, shift = _normal(x, k)
    exponent, m = _divided(normal, k)
    return _where_positive(x, _log(m, sub(_whole(exponent, k.bias, k), shift), None, k), k)


def log1p(k: FloatKind, x: Expr) -> Expr:
    """The logarithm of the rounded sum u = 1 + x, and for what the rounding took away the quotient by u."""
    u = add(x, 1)
    back = sub(u, 1)
    error = add(sub(1, sub(u, back)), sub(x, back))
    exponent, m = _divided(u, k)
    found = _log(m, _whole(exponent, k.bias, k), div(error, u), k)
    return _small(x, _where_positive(u, found, k), k)


def _two(a: Expr | int, b: Expr) -> tuple[Expr, Expr]:
    """a + b and what its rounding took away, where a is 0 or not smaller than b in size."""
    total = add(a, b)
    return total, sub(b, sub(total, a))


def _times(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """a * b and what its rounding took away."""
    product = mul(a, b)
    return product, muladd(a, b, op("neg", product))


def _log_in_two(m: Expr, exponent: Expr, k: FloatKind) -> tuple[Expr, Expr]:
    """ln(m) + exponent * ln 2 in two floats: ln(1 + f) = 2 (s + s^3 (1/3 + s^2/5 ...)), s = f / (2 + f)."""
    high, low = k.ln_2
    f = sub(m, 1)
    under, under_low = _two(1, m)
    inverse = div(1, under)
    s = mul(f, inverse)
    missing = muladd(op("neg", s), under_low, muladd(op("neg", s), under, f))
    s_low = mul(missing, inverse)
    z, z_low = _times(s, s)
    z_low = muladd(add(s, s), s_low, z_low)
    terms = 13 if k.fraction == 52 else 6
    tail = polynomial(z, [Fraction(1, 2 * j + 1) for j in range(2, terms)])
    third, third_low = k.parts(Fraction(1, 3), k.fraction + 1, 2)
    w, w_low = _two(third, mul(z, tail))
    v, v_low = _times(z, w)
    v_low = muladd(z, add(w_low, third_low), muladd(z_low, w, v_low))
    cube, cube_low = _times(s, v)
    cube_low = muladd(s, v_low, muladd(s_low, v, cube_low))
    total, total_low = _two(s, cube)
    total_low = add(total_low, add(cube_low, s_low))
    found, found_low = _two(mul(exponent, high), add(total, total))
    return found, add(found_low, muladd(exponent, low, add(total_low, total_low)))


def power(k: FloatKind, x: Expr, y: Expr) -> Expr:
    """e^(y ln |x|), with the logarithm and the product in two floats, and the sign of an odd power."""
    size = op("abs", x)
    normal, shift = _normal(size, k)
    biased, m = _divided(normal, k)
    ln, ln_low = _log_in_two(m, sub(_whole(biased, k.bias, k), shift), k)
    ln = _where_positive(size, ln, k)
    product, low = _times(y, ln)
    is_inside = op("lt", op("abs", product), _ends(k)[1] * 1.2)
    low = select(is_inside, muladd(y, ln_low, low), 0)
    n, less = _reduced(_between(product, *_ends(k), k), k, low)
    found = _scaled(add(less, 1), n, k)
    is_whole = op("eq", op("trunc", y), y)
    half = mul(y, 0.5)
    is_odd = op("and", is_whole, op("ne", op("trunc", half), half))
    found = select(is_odd, op("copysign", found, x), found)
    is_negative = op("and", op("lt", x, 0), op("gt", x, -inf))
    found = select(op("and", is_negative, op("not", is_whole)), nan, found)
    is_one = op("and", op("eq", size, 1), op("eq", op("abs", y), inf))
    certain = op("or", op("or", op("eq", y, 0), op("eq", x, 1)), is_one)
    return select(certain, 1, found)


def _turned(k: FloatKind, x: Expr, quarters: int) -> Expr:
    """sin(x + quarters * pi / 2) where x is r + n * pi / 2, n at most 2^20: the parts of pi / 2 are so many
    and short that r is exact but for its own rounding."""
    n, bits = _nearest(x, 1 / HALF_PI, k)
    r = x
    for part in k.parts(HALF_PI, k.fraction - 19, 4):
        r = muladd(op("neg", n), part, r)
    z = mul(r, r)
    series = [Fraction((-1) ** (j // 2), factorial(j)) for j in range(3, 19)]
    sines, cosines = series[::2], series[1::2]
    sine = muladd(mul(z, r), polynomial(z, sines), r)
    half = mul(z, 0.5)
    main = sub(1, half)
    lost = sub(sub(1, main), half)
    cosine = add(main, muladd(mul(z, z), polynomial(z, cosines), lost))
    quarter = op("add", bits, quarters)
    found = select(op("eq", op("and", quarter, 1), 0), sine, cosine)
    sign = op("shl", op("and", quarter, 2), k.bits.bits - 2)
    return k.of(op("xor", k.bits_of(found), sign))


def sin(k: FloatKind, x: Expr) -> Expr:
    return select(op("eq", x, 0), x, _turned(k, x, 0))  # -0.0 stays


def cos(k: FloatKind, x: Expr) -> Expr:
    return _turned(k, x, 1)


@record
class Elementary:
    """A row: what makes the result, how far it may be off in units in the last place, and whether it relies
    on products that are not rounded before they are added to."""

    make: Callable[..., Expr]
    most_ulp: float
    arity: int = 1
    is_fused: bool = False
    #: beyond this the platform's function of the row's name is called
    limit: float = inf


SEQUENCES: dict[str, Elementary] = {
    "exp": Elementary(exp, 1.1),
    "expm1": Elementary(expm1, 2.0),
    "log": Elementary(log, 1.0),
    "log1p": Elementary(log1p, 1.1),
    "tanh": Elementary(tanh, 3.0),
    "sin": Elementary(sin, 2.0, limit=2.0**20),
    "cos": Elementary(cos, 2.0, limit=2.0**20),
    "fpow": Elementary(power, 1.3, 2, is_fused=True),
}


@cache
def elementary(name: str, type: Type) -> Residual:
    """The sequence `name` as a procedure; with a limit that of Float64, whatever the type."""
    row = SEQUENCES[name]
    inputs = tuple(Var(letter, type) for letter in "xy"[: row.arity])
    result = Cell("result", type)
    if row.limit == inf:
        code: tuple[Stmt, ...] = (Set(result, row.make(FLOATS[type], *inputs)),)
    else:
        wide, (k, *_) = cast(inputs[0], Float64), FLOATS.values()
        is_far = op("gt", op("abs", wide), row.limit)
        far = Set(result, cast(op(name, wide), type))
        code = (Set(result, cast(row.make(k, wide), type)), Branch(is_far, Code((far,))))
    return Residual(f"{name}_{type}", (), inputs, (result,), Code(code))
