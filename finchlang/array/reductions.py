"""Reductions over axes, with the types that the array API standard gives them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from finchlang.algebra import costs
from finchlang.array import expression as lazy
from finchlang.array.elementwise import named, number, truth
from finchlang.array.expression import Array, Expression, Reduce, apply, converted
from finchlang.array.operands import as_expression
from finchlang.array.promotion import floating, normalized_axes, type_of
from finchlang.array.reshaping import with_axes
from finchlang.syntax.types import Bool, Int64, UInt64

__all__ = ["all", "any", "count_nonzero", "max", "mean", "min", "prod", "std", "sum", "var"]


def reduced(op: Any, arg: Expression, axis: Any, keepdims: bool) -> Expression:
    """A reduction over some axes, None for all. Raises TypeError for an operator without an identity."""
    axes = normalized_axes(axis, len(arg.shape))
    left = [size for k, size in enumerate(arg.shape) if k not in axes]
    has_fill = len(left) > 1 or math.prod(left) > costs.SHORT
    found = Reduce(op, arg, axes, has_fill) if axes else arg
    return with_axes(found, axes, len(arg.shape)) if keepdims and axes else found


def _count(arg: Expression, axes: tuple[int, ...]) -> int:
    return math.prod([arg.shape[axis] for axis in axes])


def _summed(op: str, of_bools: str, name: str) -> Callable[..., Array]:
    """Sums and products are of 64 bits for integers (array API standard); `of_bools` is the operator where
    booleans are asked for."""

    def function(x: Any, /, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Array:
        arg = as_expression(x)
        type = arg.values.type
        wide = type if type.is_float else UInt64 if type.kind == "uint" else Int64
        wanted = wide if dtype is None else type_of(dtype)
        chosen = of_bools if wanted is Bool else op
        return Array(reduced(chosen, converted(arg, wanted), axis, keepdims))

    return named(function, name, f"The {name} over some axes, or all.")


def _reduction(op: str, name: str, takes_bools: bool) -> Callable[..., Array]:
    """`op` over some axes of elements, or of whether these are not 0; without an identity for all types it
    takes at least one."""

    def function(x: Any, /, axis: Any = None, keepdims: bool = False) -> Array:
        arg = as_expression(x)
        if not takes_bools and _count(arg, normalized_axes(axis, len(arg.shape))) == 0:
            raise ValueError(f"the {name} of no elements has no value")
        return Array(reduced(op, truth(arg) if takes_bools else arg, axis, keepdims))

    return named(function, name, f"The {name} over some axes, or all.")


sum, prod = _summed("+", "||", "sum"), _summed("*", "&&", "prod")
min, max = _reduction("min", "min", False), _reduction("max", "max", False)
any, all = _reduction("||", "any", True), _reduction("&&", "all", True)


def count_nonzero(x: Any, /, axis: Any = None, keepdims: bool = False) -> Array:
    """How many elements are not 0."""
    return Array(reduced("+", converted(truth(as_expression(x)), Int64), axis, keepdims))


def mean(x: Any, /, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """The mean over some axes, or all; of integers in float64 unless a type is given."""
    return Array(_mean(_float(x, dtype), axis, keepdims))


def var(
    x: Any,
    /,
    axis: Any = None,
    correction: float = 0.0,
    keepdims: bool = False,
    *,
    dtype: Any = None,
    ddof: float | None = None,
) -> Array:
    """The variance over some axes, or all: the sum of squared deviations, divided by the number of elements
    less the `correction` (NumPy's `ddof`)."""
    arg = _float(x, dtype)
    rest = apply("-", arg, _mean(arg, axis, True))
    less = correction if ddof is None else ddof
    return Array(_mean(apply("*", rest, rest), axis, keepdims, less))


def std(
    x: Any, /, axis: Any = None, correction: float = 0.0, keepdims: bool = False, **numpy: Any
) -> Array:
    """The standard deviation over some axes, or all: the square root of `var`."""
    return Array(apply("sqrt", var(x, axis, correction, keepdims, **numpy).node))


def _float(x: Any, dtype: Any) -> Expression:
    arg = as_expression(x)
    wanted = floating(arg.values.type) if dtype is None else type_of(dtype)
    if wanted is Bool:
        raise TypeError("means and deviations are numbers, and are not computed as Bools")
    return converted(arg, wanted)


def _mean(arg: Expression, axis: Any, keepdims: bool, correction: float = 0) -> Expression:
    axes, order = normalized_axes(axis, len(arg.shape)), len(arg.shape)
    found = _divided(reduced("+", arg, axes, False), _count(arg, axes) - correction)
    return with_axes(found, axes, order) if keepdims and axes else found


def _divided(arg: Expression, count: float) -> Expression:
    found = apply("/", arg, lazy.Count(float(count if count > 0 else 0), arg.values.type))
    if count > 0 or not arg.values.is_fill:
        return found
    # a mean of nothing is NaN, but by the laws a fill of 0 divided by anything is 0
    return apply("ifelse", apply("==", arg, number(0, arg)), number(math.nan, arg), found)
