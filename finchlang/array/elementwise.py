"""Elementwise functions of arrays, with broadcasting: each applies an operator to elements of a common
type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from finchlang.array.expression import Array, Constant, Expression, NumberOperand, apply, converted
from finchlang.array.inferred_values import op_node
from finchlang.array.operands import as_expression, compared, operands
from finchlang.array.promotion import floating, integer, type_of
from finchlang.levels.element import typed_literal
from finchlang.operators.operator_table import operator
from finchlang.syntax.types import Bool, Float64, Type

__all__ = ["abs", "acos", "acosh", "add", "asin", "asinh", "astype", "atan", "atan2", "atanh"]
__all__ += ["bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or"]
__all__ += ["bitwise_right_shift", "bitwise_xor", "ceil", "clip", "conj", "copysign", "cos", "cosh"]
__all__ += ["divide", "equal", "exp", "expm1", "floor", "floor_divide", "greater", "greater_equal"]
__all__ += ["hypot", "imag", "isfinite", "isinf", "isnan", "less", "less_equal", "log", "log10"]
__all__ += ["log1p", "log2", "logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor"]
__all__ += ["map_elements", "maximum", "minimum", "multiply", "negative", "nextafter", "not_equal"]
__all__ += ["positive", "pow", "real", "reciprocal", "remainder", "round", "sign", "signbit", "sin"]
__all__ += ["sinh", "sqrt", "square", "subtract", "tan", "tanh", "trunc", "where"]

Maker = Callable[..., Expression]
#: the functions of this module by name; NumPy's functions of these names are looked up here, too
FUNCTIONS: dict[str, Callable[..., Any]] = {}


def named(function: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    """`function` with this name and docstring."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    FUNCTIONS[name] = function
    return function


def _function(
    name: str, make: Maker, *kinds: str, count: int = 1, take: Any = operands, doc: str = ""
) -> Callable[..., Any]:
    """A function of one or two arrays, which are of these kinds as `take` makes them expressions."""

    def made(*given: Any) -> Array:
        args = take(*given)
        if kinds and args[0].values.type.kind not in kinds:
            raise TypeError(f"{name} takes no arrays of {args[0].values.type.dtype}")
        return Array(make(*args))

    def of_one(x: Any, /) -> Array:
        return made(x)

    def of_two(x1: Any, x2: Any, /) -> Array:
        return made(x1, x2)

    what = "each element" if count == 1 else "the elements of two arrays"
    doc = doc or f"{name.replace('_', ' ')} of {what}."
    return named(of_one if count == 1 else of_two, name, doc)


def _operator(name: str, op: str, *kinds: str, bools: str = "", take: Any = operands) -> Any:
    """`op` of two arrays as `take` makes them expressions; for Bool the operator `bools`, if given."""

    def make(a: Expression, b: Expression) -> Expression:
        return apply(bools if bools and a.values.type is Bool else op, a, b)

    kinds, doc = (*kinds, "bool") if bools else kinds, f"`{op}` of the elements of two arrays."
    return _function(name, make, *kinds, count=2, take=take, doc=doc)


def _float(name: str, count: int = 1) -> Callable[..., Any]:
    """The operator of this name of one or two arrays; integers and Bools are converted to float64."""
    doc = f"`{name}` of the elements, as floats."
    return _function(name, lambda *args: apply(name, *args), count=count, take=floats, doc=doc)


def floats(*given: Any) -> list[Expression]:
    return [converted(x, floating(x.values.type)) for x in operands(*given)]


def _truths(*given: Any) -> list[Expression]:
    return [truth(as_expression(x)) for x in given]


def number(value: Any, like: Expression) -> Expression:
    """A Python number as a literal of the type of `like`."""
    return Constant(typed_literal(value, like.values.type))


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
        raise ValueError(
            "integers have no negative powers among the integers: `x ** -1.0` has floats"
        )
    return apply("^", a, b)


_NUMBERS = ("int", "uint", "float")
_BITS = ("bool", "int", "uint")

add = _operator("add", "+", *_NUMBERS, bools="||")
subtract = _operator("subtract", "-", *_NUMBERS)
multiply = _operator("multiply", "*")
divide = _operator("divide", "/", take=floats)
floor_divide = _function("floor_divide", lambda a, b: _quotient("fld", a, b), *_NUMBERS, count=2)
remainder = _function("remainder", lambda a, b: _quotient("mod", a, b), *_NUMBERS, count=2)
pow = _function("pow", _power, *_NUMBERS, count=2)
maximum, minimum = _operator("maximum", "max"), _operator("minimum", "min")
equal, not_equal, less, less_equal, greater, greater_equal = (
    _operator(name, op, take=compared)
    for name, op in (
        *(("equal", "=="), ("not_equal", "!="), ("less", "<"), ("less_equal", "<=")),
        *(("greater", ">"), ("greater_equal", ">=")),
    )
)
bitwise_and = _operator("bitwise_and", "&", *_BITS, bools="&&")
bitwise_or = _operator("bitwise_or", "|", *_BITS, bools="||")
bitwise_xor = _operator("bitwise_xor", "xor", *_BITS)
bitwise_left_shift = _operator("bitwise_left_shift", "<<", "int", "uint")
bitwise_right_shift = _operator("bitwise_right_shift", ">>", "int", "uint")
logical_and = _operator("logical_and", "&&", take=_truths)
logical_or = _operator("logical_or", "||", take=_truths)
logical_xor = _operator("logical_xor", "xor", take=_truths)

sqrt, exp, expm1, log, log1p, log2, log10 = map(
    _float, ("sqrt", "exp", "expm1", "log", "log1p", "log2", "log10")
)
sin, cos, tan, asin, acos, atan = map(_float, ("sin", "cos", "tan", "asin", "acos", "atan"))
sinh, cosh, tanh, asinh, acosh, atanh = map(
    _float, ("sinh", "cosh", "tanh", "asinh", "acosh", "atanh")
)
atan2, copysign, hypot, nextafter = (
    _float(name, 2) for name in ("atan2", "copysign", "hypot", "nextafter")
)

abs = _function("abs", lambda x: apply("abs", x))
negative = _function("negative", lambda x: apply("-", x), *_NUMBERS)
sign = _function("sign", lambda x: apply("sign", x), *_NUMBERS)
square = _function("square", lambda x: apply("*", x, x), *_NUMBERS)
bitwise_invert = _function(
    "bitwise_invert", lambda x: apply("!" if x.values.type is Bool else "~", x), *_BITS
)
logical_not = _function("logical_not", lambda x: apply("!", x), take=_truths)
floor, ceil, trunc, round_ = (
    _function(name, lambda x, name=name: x if not x.values.type.is_float else apply(name, x))
    for name in ("floor", "ceil", "trunc", "round")
)
isnan = _function("isnan", lambda x: apply("isnan", x))
isinf = _function(
    "isinf", lambda x: _is_float(x, lambda: apply("==", *_size_and_infinity(x)), False)
)
isfinite = _function(
    "isfinite", lambda x: _is_float(x, lambda: apply("<", *_size_and_infinity(x)), True)
)
positive, real, conj = (
    _function(name, lambda x: x, *_NUMBERS) for name in ("positive", "real", "conj")
)
imag = _function("imag", lambda x: apply("*", number(0, x), x), *_NUMBERS)
signbit = _function(
    "signbit", lambda x: apply("<", apply("copysign", number(1, x), x), number(0, x)), take=floats
)
# NumPy's, of integers in float64
_function("fabs", lambda x: apply("abs", x), take=floats)
_function("rint", lambda x: apply("round", x), take=floats)
reciprocal = _function("reciprocal", lambda x: apply("/", number(1, x), x), take=floats)


def _size_and_infinity(x: Expression) -> tuple[Expression, Expression]:
    return apply("abs", x), number(float("inf"), x)


def _is_float(x: Expression, test: Callable[[], Expression], otherwise: bool) -> Expression:
    """A test of floats; for other types an array of `otherwise`, made of `x` to have its shape."""
    if x.values.type.is_float:
        return test()
    return apply("||" if otherwise else "&&", number(otherwise, truth(x)), truth(x))


def _logaddexp(a: Expression, b: Expression) -> Expression:
    above = apply("max", a, b)
    rest = apply("log1p", apply("exp", apply("-", apply("abs", apply("-", a, b)))))
    # equal infinities would give inf - inf
    twice = apply("+", a, number(float(np.log(2)), a))
    return apply("ifelse", apply("==", a, b), twice, apply("+", above, rest))


logaddexp = _function("logaddexp", _logaddexp, count=2, take=floats)


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


def is_operator(op: Any) -> bool:
    """Whether the language has this operator: its name, or a user's."""
    return operator(op_node(op)) is not None


def map_elements(op: Any, *arrays: Any) -> Array:
    """An operator of the language by its name, a NumPy ufunc or a user's operator of elements of arrays,
    which keep their types unless one is a Python number. Raises TypeError if there is none."""
    if isinstance(op, np.ufunc):
        function = FUNCTIONS.get(ALIASES.get(op.__name__, op.__name__))
        if function is not None:
            return function(*arrays)
        op = op.__name__
    if not is_operator(op):
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
