"""Functions of NumPy that the standard does not have, made of those that it has."""

from __future__ import annotations

from typing import Any

import numpy as np

from finchlang.array import elementwise, reductions
from finchlang.array.concatenation import diagonal, stack
from finchlang.array.expression import Array
from finchlang.array.linalg import outer
from finchlang.array.operands import as_expression
from finchlang.array.ordering import nonzero
from finchlang.array.products import dot, tensordot
from finchlang.array.reshaping import ravel

__all__ = ["allclose", "argwhere", "array_equal", "inner", "isclose", "nan_to_num", "nansum"]
__all__ += ["divmod", "outer", "ptp", "trace", "vdot"]


def isclose(
    a: Any, b: Any, /, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Array:
    """Whether elements differ by at most `atol + rtol * abs(b)`; with `equal_nan` NaN is close to NaN."""
    a, b = Array(as_expression(a)), Array(elementwise.floats(b)[0])
    near = abs(a - b) <= atol + rtol * abs(b)
    found = near & elementwise.isfinite(b) | (a == b)
    return found | elementwise.isnan(a) & elementwise.isnan(b) if equal_nan else found


def allclose(
    a: Any, b: Any, /, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Whether all elements are close, as `isclose` has it."""
    return bool(reductions.all(isclose(a, b, rtol, atol, equal_nan)))


def array_equal(a: Any, b: Any, /) -> bool:
    """Whether two arrays have the same shape and equal elements."""
    same = as_expression(a).shape == as_expression(b).shape
    return same and bool(reductions.all(elementwise.equal(a, b)))


def argwhere(x: Any, /) -> Array:
    """The coordinates of the elements that are not 0, a row for each."""
    return stack(nonzero(x), axis=1)


def divmod(x1: Any, x2: Any, /) -> tuple[Array, Array]:
    """The quotients, rounded down, and the remainders."""
    return elementwise.floor_divide(x1, x2), elementwise.remainder(x1, x2)


def inner(a: Any, b: Any, /) -> Array:
    """The sum of products over the last axes; of a number with an array the products."""
    orders = len(as_expression(a).shape), len(as_expression(b).shape)
    return tensordot(a, b, axes=([-1], [-1])) if all(orders) else dot(a, b)


def vdot(a: Any, b: Any, /) -> Array:
    """The sum of products of all elements of two arrays of one size."""
    return dot(ravel(a), ravel(b))


def nan_to_num(
    x: Any, /, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None
) -> Array:
    """`x` with numbers for NaN and infinities: the greatest and the least float unless others are given."""
    found = Array(as_expression(x))
    if found.dtype.kind != "f":
        return found
    limits = np.finfo(found.dtype)
    for is_one, number in (
        (elementwise.isnan(x), nan),
        (elementwise.equal(x, float("inf")), limits.max if posinf is None else posinf),
        (elementwise.equal(x, float("-inf")), limits.min if neginf is None else neginf),
    ):
        found = elementwise.where(is_one, float(number), found)
    return found


def nansum(x: Any, /, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """The sum of the elements that are not NaN over some axes, or all."""
    return reductions.sum(elementwise.where(elementwise.isnan(x), False, x), axis, dtype, keepdims)


def ptp(x: Any, /, axis: Any = None, keepdims: bool = False) -> Array:
    """The greatest less the least element over some axes, or all."""
    least, most = (f(x, axis=axis, keepdims=keepdims) for f in (reductions.min, reductions.max))
    return elementwise.subtract(most, least)


def trace(x: Any, /, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Array:
    """The sum over a diagonal of two axes."""
    return reductions.sum(diagonal(x, offset, axis1, axis2), axis=-1, dtype=dtype)
