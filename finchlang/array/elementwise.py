"""Elementwise functions of arrays, with broadcasting: each applies an operator to elements of a common
type."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from finchlang.array.expression import Array, Expression, NumberOperand, apply, constant, converted
from finchlang.array.inferred_values import op_node
from finchlang.array.operands import as_expression, compared, operands
from finchlang.array.promotion import floating, integer, type_of
from finchlang.operators.operator_table import operator
from finchlang.syntax.types import Bool, Float64, Type

__all__ = ["abs", "acos", "acosh", "add", "asin", "asinh", "astype", "atan", "atan2", "atanh"]
__all__ += ["bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or"]
__all__ += ["bitwise_right_shift", "bitwise_xor", "ceil", "clip", "conj", "copysign", "cos", "cosh"]
__all__ += ["divide", "equal", "exp", "expm1", "fabs", "floor", "floor_divide", "greater"]
__all__ += ["greater_equal", "hypot", "imag", "isfinite", "isinf", "isnan", "less", "less_equal"]
__all__ += ["log", "log10", "log1p", "log2", "logaddexp", "logical_and", "logical_not"]
__all__ += ["logical_or", "logical_xor", "map_elements", "maximum", "minimum", "multiply"]
__all__ += ["negative", "nextafter", "not_equal", "positive", "pow", "real", "reciprocal"]
__all__ += ["remainder", "rint", "round", "sign", "signbit", "sin", "sinh", "sqrt", "square"]
__all__ += ["subtract", "tan", "tanh", "trunc", "where"]

#: the functions of elements by name; NumPy's functions of these names are looked up here, too
FUNCTIONS: dict[str, Callable[..., Any]] = {}


def named(function: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    """`function` with this name and docstring."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _function(
    name: str, op: Any, *kinds: str, bools: str = "", count: int = 1, take: Any = operands
) -> Callable[..., Any]:
    """The operator `op`, for Bool `bools` if that is given, or what a function makes, of one or two arrays.
    These are of some kinds as `take` makes them expressions."""

    def made(*given: Any) -> Array:
        args = take(*given)
        type = args[0].values.type
        if kinds and type.kind not in kinds:
            raise TypeError(f"{name} takes no arrays of {type.dtype}")
        if callable(op):
            return Array(op(*args))
        return Array(apply(bools if bools and type is Bool else op, *args))

    def of_one(x: Any, /) -> Array:
        return made(x)

    def of_two(x1: Any, x2: Any, /) -> Array:
        return made(x1, x2)

    what = "each element" if count == 1 else "the elements of two arrays"
    doc = f"{name.replace('_', ' ') if callable(op) else f'`{op}`'} of {what}."
    FUNCTIONS[name] = named(of_one if count == 1 else of_two, name, doc)
    return FUNCTIONS[name]


def floats(*given: Any) -> list[Expression]:
    args = operands(*[float(x) if type(x) is int else x for x in given])
    return [converted(x, floating(x.values.type)) for x in args]


def _truths(*given: Any) -> list[Expression]:
    return [truth(as_expression(x)) for x in given]


def number(value: Any, like: Expression) -> Expression:
    """A Python number as a literal of the type of `like`."""
    return constant(value, like.values.type)


def truth(arg: Expression) -> Expression:
    """Whether each element is not 0."""
    return converted(arg, Bool)


def _quotient(op: str, a: Expression, b: Expression) -> Expression:
    """`fld` or `mod` as the standard and NumPy have them: an infinity divided by a finite number stays
    infinite, and integers divided by 0 give 0, so that the result does not depend on what is stored."""
    if a.values.type.is_float:
        found = apply(op, a, b)
        if op != "fld":
            return found
        parts = apply("==", *_size_and_infinity(a)), apply("<", *_size_and_infinity(b))
        return apply("ifelse", apply("&&", *parts), apply("/", a, b), found)
    if isinstance(b, NumberOperand) and b.value != 0:
        return apply(op, a, b)
    is_zero = apply("==", b, number(0, b))
    quotient = apply(op, a, apply("ifelse", is_zero, number(1, b), b))
    return apply("ifelse", is_zero, number(0, a), quotient)


def _power(a: Expression, b: Expression) -> Expression:
    if isinstance(b, NumberOperand) and b.values.type.is_integer and b.value < 0:
        message = "integers have no negative powers among the integers: `x ** -1.0` has floats"
        raise ValueError(message)
    return apply("^", a, b)


_NUMBERS = ("int", "uint", "float")
_BITS = ("bool", "int", "uint")

_of_two = partial(_function, count=2)
_of_floats = partial(_function, take=floats)

add = _of_two("add", "+", bools="||")
subtract = _of_two("subtract", "-", *_NUMBERS)
multiply = _of_two("multiply", "*")
divide = _of_two("divide", "/", take=floats)
floor_divide = _of_two("floor_divide", partial(_quotient, "fld"), *_NUMBERS)
remainder = _of_two("remainder", partial(_quotient, "mod"), *_NUMBERS)
pow = _of_two("pow", _power, *_NUMBERS)
maximum, minimum = _of_two("maximum", "max"), _of_two("minimum", "min")
equal = _of_two("equal", "==", take=compared)
not_equal = _of_two("not_equal", "!=", take=compared)
less, less_equal = (_of_two(*row, take=compared) for row in (("less", "<"), ("less_equal", "<=")))
greater = _of_two("greater", ">", take=compared)
greater_equal = _of_two("greater_equal", ">=", take=compared)
bitwise_and = _of_two("bitwise_and", "&", *_BITS, bools="&&")
bitwise_or = _of_two("bitwise_or", "|", *_BITS, bools="||")
bitwise_xor = _of_two("bitwise_xor", "xor", *_BITS)
bitwise_left_shift = _of_two("bitwise_left_shift", "<<", "int", "uint")
bitwise_right_shift = _of_two("bitwise_right_shift", ">>", "int", "uint")
logical_and = _of_two("logical_and", "&&", take=_truths)
logical_or = _of_two("logical_or", "||", take=_truths)
logical_xor = _of_two("logical_xor", "xor", take=_truths)

sqrt, exp, expm1, log, log1p, log2, log10 = (
    _of_floats(name, name) for name in ("sqrt", "exp", "expm1", "log", "log1p", "log2", "log10")
)
sin, cos, tan, asin, acos, atan = (
    _of_floats(name, name) for name in ("sin", "cos", "tan", "asin", "acos", "atan")
)
sinh, cosh, tanh, asinh, acosh, atanh = (
    _of_floats(name, name) for name in ("sinh", "cosh", "tanh", "asinh", "acosh", "atanh")
)
atan2, copysign, hypot, nextafter = (
    _of_floats(name, name, count=2) for name in ("atan2", "copysign", "hypot", "nextafter")
)

abs, isnan = _function("abs", "abs"), _function("isnan", "isnan")
negative, sign = _function("negative", "-", *_NUMBERS), _function("sign", "sign", *_NUMBERS)
square = _function("square", lambda x: apply("*", x, x), *_NUMBERS)
bitwise_invert = _function("bitwise_invert", "~", *_BITS, bools="!")
logical_not = _function("logical_not", "!", take=_truths)
floor, ceil, trunc, round_ = (
    _function(name, lambda x, name=name: x if not x.values.type.is_float else apply(name, x))
    for name in ("floor", "ceil", "trunc", "round")
)
isinf = _of_floats("isinf", lambda x: apply("==", *_size_and_infinity(x)))
isfinite = _of_floats("isfinite", lambda x: apply("<", *_size_and_infinity(x)))
positive, real, conj = (
    _function(name, lambda x: x, *_NUMBERS) for name in ("positive", "real", "conj")
)
imag = _function("imag", lambda x: apply("*", number(0, x), x), *_NUMBERS)
signbit = _of_floats(
    "signbit", lambda x: apply("<", apply("copysign", number(1, x), x), number(0, x))
)
fabs, rint = _of_floats("fabs", "abs"), _of_floats("rint", "round")  # NumPy's
reciprocal = _of_floats("reciprocal", lambda x: apply("/", number(1, x), x))


def _size_and_infinity(x: Expression) -> tuple[Expression, Expression]:
    return apply("abs", x), number(float("inf"), x)


def _logaddexp(a: Expression, b: Expression) -> Expression:
    above = apply("max", a, b)
    rest = apply("log1p", apply("exp", apply("-", apply("abs", apply("-", a, b)))))
    # equal infinities would give inf - inf
    twice = apply("+", a, number(float(np.log(2)), a))
    return apply("ifelse", apply("==", a, b), twice, apply("+", above, rest))


logaddexp = _of_floats("logaddexp", _logaddexp, count=2)


def where(condition: Any, x1: Any, x2: Any, /) -> Array:
    """The elements of `x1` where the condition is true, else those of `x2`."""
    return Array(apply("ifelse", truth(as_expression(condition)), *operands(x1, x2)))


def clip(x: Any, /, min: Any = None, max: Any = None) -> Array:
    """The elements of `x` limited to `min` and `max`, numbers or arrays, in the common type."""
    arg = as_expression(x)
    for op, limit in (("max", min), ("min", max)):
        if limit is not None and not _is_beyond(op, limit, arg.values.type):
            arg = apply(op, *operands(Array(arg), limit))
    return Array(arg)


def _is_beyond(op: str, limit: Any, of: Type) -> bool:
    """Whether a Python integer limits no integer of a type, which may not hold it."""
    beyond = (lambda: limit < of.lowest) if op == "max" else (lambda: limit > of.highest)
    return type(limit) is int and of.is_integer and beyond()


def round(x: Any, /, decimals: int = 0) -> Array:
    """The elements rounded to `decimals` places (negative: to tens, hundreds ...), ties to even: as by
    NumPy multiplied by a power of 10, rounded and divided by it, each of which rounds."""
    type, decimals = as_expression(x).values.type, integer(decimals, "a number of decimals")
    if not decimals or type.is_integer and decimals > 0:
        return round_(x)
    if type.is_integer:
        return astype(round(astype(x, Float64.dtype), decimals), type.dtype)
    scale = 10.0 ** max(decimals, -decimals)
    there, back = (multiply, divide) if decimals > 0 else (divide, multiply)
    return back(round_(there(x, scale)), scale)


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Array:
    """The elements converted to another type. Floats are truncated to integers; the result is undefined if
    the integer type does not hold them. Raises TypeError for a type that there is not."""
    return Array(converted(as_expression(x), type_of(dtype)))


def by_ufunc(name: str) -> Callable[..., Array] | None:
    """The function of elements that a ufunc of NumPy is, by its name; None if there is none."""
    function = FUNCTIONS.get(ALIASES.get(name, name))
    return partial(map_elements, name) if function is None and _is_operator(name) else function


def _is_operator(op: Any) -> bool:
    return operator(op_node(op)) is not None


def map_elements(op: Any, *arrays: Any) -> Array:
    """An operator of the language by its name, a NumPy ufunc or a user's operator of elements of arrays,
    which keep their types unless one is a Python number. Raises TypeError if there is none."""
    if isinstance(op, np.ufunc):
        function, op = by_ufunc(op.__name__), op.__name__
        if function is not None:
            return function(*arrays)
    if not _is_operator(op):
        raise TypeError(f"there is no operator {op}")
    numbers = {type(value) for value in arrays} & {bool, int, float}
    args = [as_expression(value) for value in arrays]
    # beside floats an integer stays one, as the exponent of `ldexp`
    is_kept = numbers == {int} and any([arg.values.type.is_float for arg in args])
    return Array(apply(op, *(operands(*arrays) if numbers and not is_kept else args)))


FUNCTIONS |= {"where": where, "clip": clip, "round": round, "astype": astype}
#: NumPy's names of functions of this package, where they differ
ALIASES = {
    **{"absolute": "abs", "true_divide": "divide", "power": "pow"},
    **{"mod": "remainder", "conjugate": "conj", "around": "round"},
    **{"invert": "bitwise_invert", "bitwise_not": "bitwise_invert"},
    **{"left_shift": "bitwise_left_shift", "right_shift": "bitwise_right_shift"},
    **{"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2"},
    **{"arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh"},
    **{"amax": "max", "amin": "min", "round_": "round", "concatenate": "concat"},
    **{"transpose": "permute_dims", "newaxis": "expand_dims", "unique": "unique_values"},
}
