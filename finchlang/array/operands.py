"""Operands as expressions: tensors, NumPy arrays, SciPy matrices and numbers; and their common type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from finchlang.array.expression import Array, Expression, Leaf, NumberOperand, converted
from finchlang.array.inferred_values import stored_of
from finchlang.array.promotion import promoted, type_of
from finchlang.base.errors import FinchError
from finchlang.syntax.types import PairType, foreign, type_of_value
from finchlang.tensors.adopt import as_tensor, is_pydata, is_scipy, layout_of_array, matrix_format
from finchlang.tensors.array_base import LazyTensor, NotAnArray
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor


def _leaf_of_tensor(value: Any) -> Expression:
    return Leaf(value, stored_of(value.format))


def _leaf_of_array(value: np.ndarray) -> Expression:
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError("a masked array is no array here: what is masked has no value")
    own = type_of(value.dtype)
    if value.ndim == 0:
        return NumberOperand(value[()], own)
    return Leaf(value, stored_of(layout_of_array(value.dtype, value.shape, value.strides)[0]))


def _leaf_of_matrix(value: Any) -> Expression:
    # a user may have replaced the parts by anything: `as_tensor` tells
    own, indices = getattr(value, "dtype", None), getattr(value, "indices", None)
    index = getattr(indices, "dtype", None)
    if own is not None:
        type_of(own)
    if value.format not in ("csc", "csr") or value.ndim != 2 or own is None or index is None:
        return _leaf_of_tensor(as_tensor(value))
    return Leaf(value, stored_of(matrix_format(own, index, value.format == "csr")))


_MAKERS: dict[type, Callable[[Any], Expression]] = {
    **dict.fromkeys((Tensor, Scalar, SwizzledTensor), _leaf_of_tensor),
    np.ndarray: _leaf_of_array,
    Array: lambda value: value.node,
}


def as_expression(value: Any) -> Expression:
    """The expression of an array, an operand or a number; a Python number has its own type. Raises
    TypeError for another value."""
    found = expression_of(value)
    if found is None:
        way = ": `asarray` makes one" if isinstance(value, (list, tuple)) else ""
        raise NotAnArray(f"{foreign(value)} is no array{way}")
    return found


def expression_of(value: Any) -> Expression | None:
    """As `as_expression`, but None for a value that is no array and no number. Raises TypeError for an
    element type that there is not."""
    make = _MAKERS.get(type(value))
    if make is None:
        make = next((make for kind, make in _MAKERS.items() if isinstance(value, kind)), None)
    if make is not None:
        try:
            return make(value)
        except FinchError as error:
            raise TypeError(error.message) from None
    if is_scipy(value):
        return _leaf_of_matrix(value)
    if is_pydata(value) or isinstance(value, LazyTensor):
        return as_expression(as_tensor(value))
    own = type_of_value(value)
    if own is None or isinstance(own, PairType):
        if isinstance(value, (np.number, complex)):
            type_of(np.asarray(value).dtype)
        return None
    return NumberOperand(value, own)


def operands(*values: Any) -> list[Expression]:
    """The operands as expressions of their common type, to which a Python number adds its kind alone (NEP
    50). Raises TypeError for another value, OverflowError for a number out of its range."""
    args: list[Any] = [None if type(v) in _PYTHON else as_expression(v) for v in values]
    kinds = [type(v) if a is None else a.values.type for a, v in zip(args, values, strict=True)]
    wanted = promoted(*kinds)
    if kinds.count(wanted) == len(kinds):
        return args
    found: list[Expression] = []
    for arg, value in zip(args, values, strict=True):
        if arg is None and wanted.is_integer and wanted.wrap(value) != value:
            raise OverflowError(f"{value} is out of bounds for {wanted.dtype}")
        found.append(NumberOperand(value, wanted) if arg is None else converted(arg, wanted))
    return found


def compared(x1: Any, x2: Any) -> list[Expression]:
    """The operands of a comparison, as `operands`, but integers that their common type does not hold, as a
    negative one beside uint64, keep their types: integers are compared by value."""
    args = [as_expression(value) for value in (x1, x2)]
    one, other = (arg.values.type for arg in args)
    if one.is_integer and other.is_integer:
        given = [value for value in (x1, x2) if type(value) is int]
        if any([type.wrap(value) != value for value in given for type in (one, other)]):
            return args
        if one.kind != other.kind and not given:
            return args
    return operands(x1, x2)


_PYTHON = frozenset((bool, int, float))
