"""What each primitive operation of the host language computes, on Python values."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from finchlang.host.ir import Const, Expr, Op, Var
from finchlang.syntax.types import Bool, Float64, Pair, Type


def _fdiv(a: float, b: float) -> float:
    if b != 0:
        return a / b
    if a == 0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _idiv(a: int, b: int) -> int:
    if b == 0:
        return 0
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _minimum(a: Any, b: Any) -> Any:
    return a if a != a or (b == b and a < b) else b


def _maximum(a: Any, b: Any) -> Any:
    return a if a != a or (b == b and a > b) else b


def _total(function: Callable[..., Any]) -> Callable[..., float]:
    """A function of `math` or NumPy that gives NaN or an infinity where Python would raise or warn."""

    def total(*args: float) -> float:
        with np.errstate(all="ignore"):
            return float(function(*args))

    return total


def _shift(a: int, count: int, type: Type, left: bool) -> int:
    if count < 0:
        return _shift(a, -count, type, not left)
    if count >= type.bits:
        return 0 if left or a >= 0 else -1
    return a << count if left else a >> count


def _round_away(value: float, how: Callable[[float], float]) -> float:
    return float(how(float(value))) if math.isfinite(value) else value


def _cast(value: Any, source: Type, target: Type) -> Any:
    if source.is_float and target.is_integer:
        if math.isnan(value):
            return 0
        if value <= target.lowest:
            return target.lowest
        return target.highest if value >= target.highest else int(value)
    return value


#: NumPy's function for one step, by the operation that takes n of them
STEPS = {"add_times": np.add, "mul_times": np.multiply, "div_times": np.divide}
#: how many steps are folded for constants at most, and how many are taken at a time
MOST_STEPS = 1 << 16


def _stepped(step: np.ufunc, dtype: Any, x: float, a: float, count: int) -> float:
    """`x` after `count` steps with `a`, one after the other. If two steps in a row change nothing (as
    x * -1 does in two), no later two do, and only the parity of the rest matters."""
    with np.errstate(all="ignore"):
        while count > 0:
            given = np.full(min(count, MOST_STEPS) + 1, a, dtype)
            given[0] = x
            values = step.accumulate(given)
            count, x = count - len(given) + 1, float(values[-1])
            if len(values) > 2 and np.array_equal(values[-1:], values[-3:-2], equal_nan=True):
                count %= 2
    return x


def _of_numpy(names: Sequence[str], rename: Callable[[str], str] = str) -> dict[str, Any]:
    return {name: _total(getattr(np, rename(name))) for name in names}


_ORDERS = ("eq", "ne", "lt", "le", "gt", "ge")
_PLAIN: dict[str, Callable[..., Any]] = {
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "neg", "xor", *_ORDERS)},
    **{"and": operator.and_, "or": operator.or_},
    "abs": abs,
    "fdiv": _fdiv,
    "idiv": _idiv,
    "irem": lambda a, b: a - b * _idiv(a, b) if b else 0,
    "ipow": lambda a, b: a**b if b >= 0 else a ** (-b % 2) if abs(a) == 1 else 0,
    "fpow": _total(np.power),
    "fmod": lambda a, b: math.nan if b == 0 or math.isinf(a) else math.fmod(a, b),
    "copysign": math.copysign,
    "atan2": math.atan2,
    "min": _minimum,
    "max": _maximum,
    "bits": lambda a: max(a, 0).bit_length(),
    "floor": lambda a: _round_away(a, math.floor),
    "ceil": lambda a: _round_away(a, math.ceil),
    "trunc": lambda a: _round_away(a, math.trunc),
    "round": lambda a: _round_away(a, round),
    "isnan": lambda a: a != a,
    "select": lambda c, a, b: a if c else b,
    "exact": lambda a: a,
    "muladd": lambda a, b, c: a * b + c,
    "pair": Pair,
    "first": lambda pair: pair[0],
    "second": lambda pair: pair[1],
    **_of_numpy(("hypot", "nextafter", "ldexp", "exp2", "cbrt", "expm1", "log1p", "sqrt")),
    **_of_numpy(("exp", "log", "log2", "log10", "sin", "cos", "tan", "sinh", "cosh", "tanh")),
    **_of_numpy(("asin", "acos", "atan", "asinh", "acosh", "atanh"), lambda name: f"arc{name[1:]}"),
}


#: operations whose Python function returns a Python bool
_TRUTHS = {*_ORDERS, "and", "or", "xor", "isnan"}


@cache
def function_of(name: str, result: Type, operand: Type) -> Callable[..., Any]:
    """The operation `name` on values of type `operand` (the first argument's) that gives one of type
    `result`: Python's own, where that gives the right value, as with Float64 and Bool."""
    match name:
        case "cast":
            return lambda a: result.wrap(_cast(a, operand, result))
        case "reinterpret":
            return lambda a: np.array(a, operand.dtype).view(result.dtype).item()
        case "not":
            return operator.not_ if operand == Bool else lambda a: result.wrap(~a)
        case "nextafter" if result.bits == 32:
            return lambda a, b: float(np.nextafter(np.float32(a), np.float32(b)))
        case "add_times" | "mul_times" | "div_times":
            return partial(_stepped, STEPS[name], result.dtype)
        case "shl" | "shr":
            return lambda a, count: result.wrap(_shift(a, count, result, name == "shl"))
    plain = _PLAIN[name]
    if result == Float64 or (result == Bool and name in _TRUTHS):
        return plain
    if name in ("add", "sub", "mul") and result.is_integer:
        low, high = result.lowest, result.highest

        def wrapped(a: int, b: int) -> int:
            value = plain(a, b)
            return value if low <= value <= high else result.wrap(value)

        return wrapped
    if name == "ipow":
        return lambda a, b: result.wrap(plain(a, b) if b < 64 else pow(a, b, 1 << 64))
    return lambda *args: result.wrap(plain(*args))


def as_function(expr: Expr, variables: Sequence[Var]) -> Callable[..., Any]:
    """`expr` as a function of the values of its variables."""
    if isinstance(expr, Const):
        value = expr.value
        return lambda *values: value
    if isinstance(expr, Var):
        number = next(k for k, variable in enumerate(variables) if variable is expr)
        return lambda *values: values[number]
    assert isinstance(expr, Op)
    function = function_of(expr.name, expr.type, expr.args[0].type)
    if len(expr.args) == len(variables) and all(map(operator.is_, expr.args, variables)):
        return function
    parts = [as_function(a, variables) for a in expr.args]
    if expr.name == "select":
        condition, then, otherwise = parts
        return lambda *values: then(*values) if condition(*values) else otherwise(*values)
    return lambda *values: function(*[part(*values) for part in parts])
