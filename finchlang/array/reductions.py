"""Reductions over axes, with the types that the array API standard gives them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from finchlang.array.elementwise import truth
from finchlang.array.expression import (
    Array,
    Expression,
    Number,
    Reduce,
    apply,
    as_expression,
    converted,
)
from finchlang.array.promotion import floating, normalized_axes, type_of
from finchlang.array.shapes import with_axes
from finchlang.types import Int64, Type, UInt64


def reduced(op: Any, arg: Expression, axis: Any, keepdims: bool) -> Expression:
    """The reduction of an expression by an operator, over these axes."""
    axes = normalized_axes(axis, len(arg.shape))
    found = Reduce(op, arg, axes) if axes else arg
    return with_axes(found, axes, len(arg.shape)) if keepdims and axes else found


def _wide(type: Type) -> Type:
    """The type of a sum of values of a type."""
    return type if type.is_float else UInt64 if type.kind == "uint" else Int64


def _summed(op: str, name: str) -> Callable[..., Array]:
    def function(x: Any, /, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Array:
        arg = as_expression(x)
        type = _wide(arg.values.type) if dtype is None else type_of(dtype)
        return Array(reduced(op, converted(arg, type), axis, keepdims))

    return _named(function, name)


def _extreme(name: str) -> Callable[..., Array]:
    def function(x: Any, /, axis: Any = None, keepdims: bool = False) -> Array:
        arg = as_expression(x)
        axes = normalized_axes(axis, len(arg.shape))
        if math.prod([arg.shape[a] for a in axes]) == 0:
            raise ValueError(f"the {name} of no elements has no value")
        return Array(reduced(name, arg, axes, keepdims))

    return _named(function, name)


def _logical(op: str, name: str) -> Callable[..., Array]:
    def function(x: Any, /, axis: Any = None, keepdims: bool = False) -> Array:
        return Array(reduced(op, truth(as_expression(x)), axis, keepdims))

    return _named(function, name)


def _named(function: Callable[..., Array], name: str) -> Callable[..., Array]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The {name} over some axes, or all."
    return function


sum, prod = _summed("+", "sum"), _summed("*", "prod")
min, max = _extreme("min"), _extreme("max")
any, all = _logical("||", "any"), _logical("&&", "all")


def count_nonzero(x: Any, /, axis: Any = None, keepdims: bool = False) -> Array:
    """How many elements are not 0."""
    arg = converted(truth(as_expression(x)), Int64)
    return Array(reduced("+", arg, axis, keepdims))


def mean(x: Any, /, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """The mean over some axes, or all."""
    arg = _float(x, dtype)
    return Array(_mean(arg, axis, keepdims))


def var(
    x: Any, /, axis: Any = None, correction: float = 0.0, keepdims: bool = False, **numpy: Any
) -> Array:
    """The variance over some axes, or all; what it is divided by is the number of elements less the
    `correction` (NumPy's `ddof`)."""
    return Array(_var(x, axis, numpy.pop("ddof", correction), keepdims, **numpy))


def std(
    x: Any, /, axis: Any = None, correction: float = 0.0, keepdims: bool = False, **numpy: Any
) -> Array:
    """The square root of the variance."""
    return Array(apply("sqrt", _var(x, axis, numpy.pop("ddof", correction), keepdims, **numpy)))


def _var(x: Any, axis: Any, correction: float, keepdims: bool, dtype: Any = None) -> Expression:
    arg = _float(x, dtype)
    rest = apply("-", arg, _mean(arg, axis, True))
    return _mean(apply("*", rest, rest), axis, keepdims, correction)


def _float(x: Any, dtype: Any) -> Expression:
    arg = as_expression(x)
    return converted(arg, floating(arg.values.type) if dtype is None else type_of(dtype))


def _mean(arg: Expression, axis: Any, keepdims: bool, correction: float = 0) -> Expression:
    count = math.prod([arg.shape[a] for a in normalized_axes(axis, len(arg.shape))])
    left = count - correction if count > correction else 0
    return apply("/", reduced("+", arg, axis, keepdims), Number(float(left), arg.values.type))
