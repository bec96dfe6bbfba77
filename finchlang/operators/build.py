"""What operators compute: each function makes the host expression, and so the type, of a result."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from finchlang.base.errors import FinchError
from finchlang.base.records import record
from finchlang.host.construct import cast, const, op
from finchlang.host.ir import Expr
from finchlang.syntax.types import (
    TYPES,
    Bool,
    Float64,
    Int64,
    PairType,
    Type,
    UInt64,
    promote,
    type_of_value,
)

Build = Callable[..., Expr]


@record
class Sizing:
    """When the result for two sizes is a size: `fits` makes this condition of the two as Int64, `message`
    is told where it fails, with {} for each; `of_sizes`: checked only where both are made of sizes."""

    fits: Build
    message: str
    of_sizes: bool = False


#: the most places that a mode may have
LARGEST = 2**62
IN_A_ROW = Sizing(
    lambda a, b: op("ge", op("add", a, b), const(0)),
    "dimensions one after the other are longer than 2^62",
    of_sizes=True,
)
PLACES = Sizing(
    lambda a, b: op("le", a, op("idiv", const(LARGEST), op("max", b, const(1)))),
    "a mode of {} x {} places is more than 2^62",
)
#: kinds of types without fractions and NaN
_EXACT = ("bool", "int", "uint")


def promoted(args: tuple[Expr, ...]) -> tuple[list[Expr], Type]:
    result = args[0].type
    for arg in args[1:]:
        result = promote(result, arg.type)
    return [cast(a, result) for a in args], result


def number(type: Type) -> Type:
    """Bool counts as Int64 in sums, as in Julia."""
    if isinstance(type, PairType):
        raise FinchError("type", "a pair is no number")
    return Int64 if type == Bool else type


def numbers(*args: Expr) -> tuple[list[Expr], Type]:
    """The arguments in their common type, which is one of numbers."""
    exprs, type = promoted(args)
    type = number(type)
    return [cast(a, type) for a in exprs], type


def maker(function: Callable[..., Expr]) -> Callable[..., Build]:
    """`function(which, *args)` as a function of `which` that gives a function of the arguments."""
    return partial(partial, function)


@maker
def arithmetic(name: str, a: Expr, b: Expr, bools: bool = False) -> Expr:
    (a, b), type = promoted((a, b))
    if type == Bool:
        if bools:
            return op({"mul": "and", "min": "and", "max": "or"}[name], a, b)
        a, b = cast(a, Int64), cast(b, Int64)
    return op(name, a, b)


@maker
def times(name: str, x: Expr, a: Expr, n: Expr, negated: bool = False) -> Expr:
    """x after n steps with a, or -a if `negated`, in floats, as one host operation."""
    x, a = floats((x, a))
    return op(name, x, op("neg", a) if negated else a, cast(n, Int64))


def plus(a: Expr, b: Expr | None = None) -> Expr:
    return cast(a, number(a.type)) if b is None else arithmetic("add")(a, b)


def minus(a: Expr, b: Expr | None = None) -> Expr:
    return op("neg", plus(a)) if b is None else arithmetic("sub")(a, b)


def floats(args: tuple[Expr, ...]) -> list[Expr]:
    exprs, type = promoted(args)
    return exprs if type.is_float else [cast(a, Float64) for a in args]


@maker
def on_floats(name: str, *args: Expr) -> Expr:
    return op(name, *floats(args))


def inverse(a: Expr) -> Expr:
    (a,) = floats((a,))
    return op("fdiv", const(1.0, a.type), a)


def remainder(a: Expr, b: Expr) -> Expr:
    """The remainder with the sign of a."""
    (a, b), type = numbers(a, b)
    return op("fmod" if type.is_float else "irem", a, b)


def divides_by_zero(a: Expr, b: Expr) -> Expr:
    """Whether a division has no result: that of an integer by 0."""
    _, type = promoted((a, b))
    return const(False) if type.is_float else op("eq", b, const(0, b.type))


@maker
def rounded_quotient(way: str, a: Expr, b: Expr) -> Expr:
    """The quotient rounded towards 0 ("trunc"), down ("floor") or up ("ceil"). Of floats it is that of
    the numbers as they are: 1.0 / 0.1 is rounded to 10, but 0.1 is in 1.0 only 9 times."""
    (a, b), type = numbers(a, b)
    if not type.is_float:
        return _rounded(way, op("idiv", a, b), op("irem", a, b), b)
    rest, quotient = op("fmod", a, b), op("fdiv", a, b)
    whole = op("copysign", op("round", op("fdiv", op("sub", a, rest), b)), quotient)
    return op("select", op("eq", b, const(0, type)), quotient, _rounded(way, whole, rest, b))


def _rounded(way: str, whole: Expr, rest: Expr, b: Expr) -> Expr:
    one = const(1, whole.type)
    if way == "floor":
        return op("select", _is_cut(rest, b, "ne"), op("sub", whole, one), whole)
    if way == "ceil":
        return op("select", _is_cut(rest, b, "eq"), op("add", whole, one), whole)
    return whole


def modulus(a: Expr, b: Expr) -> Expr:
    """The remainder with the sign of b."""
    (a, b), type = numbers(a, b)
    rest = remainder(a, b)
    same = op("copysign", rest, b) if type.is_float else rest  # a 0 has the sign of b, too
    return op("select", _is_cut(rest, b, "ne"), op("add", rest, b), same)


def _is_cut(rest: Expr, b: Expr, relation: str) -> Expr:
    """Whether a quotient with this remainder is not whole, and negative, so that truncating it rounds up
    (`relation` "ne": the signs of the remainder and b differ), or positive ("eq")."""
    zero = const(0, rest.type)
    if rest.type.kind == "uint":
        return op("ne", rest, zero) if relation == "eq" else const(False)
    signs = op(relation, op("lt", rest, zero), op("lt", b, zero))
    return op("and", op("ne", rest, zero), signs)


#: exponents for which a power of floats is a product, a quotient or a root
QUICK_POWERS = (1, 2, -1, 0.5)


def power(a: Expr, b: Expr) -> Expr:
    if not a.type.is_float and not b.type.is_float:
        return op("ipow", cast(a, number(a.type)), _exponent(b))
    return op("fpow", *floats((a, b)))


def _exponent(b: Expr) -> Expr:
    """An exponent of integers as Int64. Of one from 2^63 on the last 62 bits and 2^62 give the same: to
    the power of 2^62 an odd number is 1 modulo 2^64, an even one 0."""
    count = cast(b, Int64)
    if b.type is not UInt64:
        return count
    low = op("and", count, const(2**62 - 1, Int64))
    is_large = op("lt", count, const(0, Int64))
    return op("select", is_large, op("or", low, const(2**62, Int64)), count)


@maker
def comparison(name: str, a: Expr, b: Expr) -> Expr:
    if {a.type.kind, b.type.kind} == {"int", "uint"}:
        return mixed_signs(name, a, b)
    return op(name, *promoted((a, b))[0])


def mixed_signs(name: str, a: Expr, b: Expr) -> Expr:
    """Compare a signed with an unsigned integer by their values, whatever their widths."""
    if a.type.kind == "uint":
        mirrored = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}.get(name, name)
        return mixed_signs(mirrored, b, a)
    negative = op("lt", a, const(0, a.type))
    wide = op(name, cast(a, TYPES["UInt64"]), cast(b, TYPES["UInt64"]))
    return op("select", negative, const(name in ("lt", "le", "ne")), wide)


@maker
def logical(name: str, *args: Expr) -> Expr:
    for arg in args:
        if arg.type != Bool:
            raise FinchError("type", f"a condition must be a Bool, not {arg.type}")
    return op(name, *args)


@maker
def bitwise(name: str, *args: Expr) -> Expr:
    exprs, type = promoted(args)
    if type.is_float:
        raise FinchError("type", f"bit operations need integers or Bools, not {type}")
    return op(name, *exprs)


def clamped(a: Expr, low: Expr, high: Expr) -> Expr:
    return arithmetic("min", bools=True)(arithmetic("max", bools=True)(a, low), high)


@maker
def parity(is_odd: bool, a: Expr) -> Expr:
    last = bitwise("and")(a, const(1, a.type))
    return op("ne" if is_odd else "eq", last, const(0, last.type))


@maker
def shift(name: str, a: Expr, b: Expr) -> Expr:
    if a.type.is_float or b.type.is_float:
        raise FinchError("type", "a shift needs integers")
    return op(name, cast(a, number(a.type)), _count(b))


def scaled(a: Expr, b: Expr) -> Expr:
    """A float times a power of 2 with a whole exponent."""
    if b.type.is_float:
        raise FinchError("type", "the exponent of ldexp is an integer")
    (a,) = floats((a,))
    return op("ldexp", a, _count(b))


def _count(b: Expr) -> Expr:
    """A shift count as Int64; UInt64 counts from 2^63 on are capped, or they would be negative."""
    most = const(Int64.highest, b.type) if b.type is UInt64 else None
    return cast(b if most is None else op("min", b, most), Int64)


@maker
def rounding(name: str, a: Expr) -> Expr:
    return a if a.type.kind in _EXACT else op(name, a)


def ifelse(c: Expr, a: Expr, b: Expr) -> Expr:
    if c.type != Bool:
        raise FinchError("type", f"a condition must be a Bool, not {c.type}")
    return op("select", c, *promoted((a, b))[0])


@maker
def conversion(type: Type, a: Expr) -> Expr:
    return op("ne", a, const(0, a.type)) if type == Bool else cast(a, type)


@maker
def cannot_hold(type: Type, a: Expr) -> Expr:
    """Whether a number has no value in an integer type: a fraction, out of range, NaN."""
    if not a.type.is_float:
        is_low: Expr = const(False)
        is_high: Expr = const(False)
        if a.type.kind in ("int", "uint"):
            if a.type.lowest < type.lowest:
                is_low = op("lt", a, const(type.lowest, a.type))
            if a.type.highest > type.highest:
                is_high = op("gt", a, const(type.highest, a.type))
        return op("or", is_low, is_high)
    # highest + 1 is a power of 2, which is exact as a float; highest is not
    low, behind = (const(float(end), a.type) for end in (type.lowest, type.highest + 1))
    is_within = op("and", op("ge", a, low), op("lt", a, behind))
    return op("not", op("and", is_within, op("eq", op("trunc", a), a)))


def sign(a: Expr) -> Expr:
    a = cast(a, number(a.type))
    zero, one = const(0, a.type), const(1, a.type)
    if a.type.kind == "uint":
        return op("select", op("gt", a, zero), one, zero)
    below = op("select", op("lt", a, zero), op("neg", one), a)
    return op("select", op("gt", a, zero), one, below)


@maker
def by_first(worse: str, a: Expr, b: Expr) -> Expr:
    """The pair with the lesser (`worse` "gt") or greater ("lt") first part; of equal ones the first."""
    if not (isinstance(a.type, PairType) and isinstance(b.type, PairType)):
        raise FinchError("type", "these are no pairs", hint="a pair is written `value => place`")
    exprs, _ = promoted((a, b))
    is_second = comparison(worse)(op("first", a), op("first", b))
    return op("select", is_second, exprs[1], exprs[0])


@maker
def chosen(z: Any, a: Expr, b: Expr) -> Expr:
    """a if it is not z, else b. Integers are not converted to another type first: 1 is not 1.5."""
    (a, b), type = promoted((a, b))
    own = type_of_value(z)
    is_other = own is None or isinstance(own, PairType) != isinstance(type, PairType)
    if is_other or (own == Float64 and not type.is_float and not math.isfinite(z)):
        raise FinchError("type", f"`choose({z})` does not take {type}")
    known = const(z, type if type.is_float or type.kind == "pair" else own)
    return op("select", comparison("ne")(a, known), a, b)


def isnan(a: Expr) -> Expr:
    return const(False) if a.type.kind in _EXACT else op("isnan", a)


@maker
def finite(name: str, a: Expr) -> Expr:
    """How the size of a number compares (`lt`, `eq`) with infinity."""
    if a.type.kind in _EXACT:
        return const(name == "lt")
    return op(name, op("abs", a), const(math.inf, a.type))
