"""Conversion of tensors between formats, and copies that share no memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from finchlang.base.errors import FinchError
from finchlang.levels.element import differs
from finchlang.levels.level import level_of
from finchlang.levels.pattern import Pattern
from finchlang.levels.scalars import Scalar as ScalarLevel
from finchlang.syntax.types import can_store, type_of_dtype
from finchlang.tensors.adopt import as_tensor, is_scipy
from finchlang.tensors.array_base import LazyTensor, TensorBase, is_whole, size_text
from finchlang.tensors.entries import chosen
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor, is_compressed


def convert(target: Any, source: Any) -> Any:
    """A copy of `source` in a format, or in that of a tensor; it stores what differs from the fill. Raises
    FinchError "dimension" for another order, "type" for elements that the format cannot store."""
    if isinstance(target, SwizzledTensor):
        return SwizzledTensor(convert(target.body, source.body), target.permutation)
    if isinstance(target, Scalar):
        return source.copy()
    format = target.format if isinstance(target, Tensor) else target
    if isinstance(format, ScalarLevel):
        raise FinchError("type", "a scalar is made by Scalar(value), not by Tensor")
    if source.order != format.order:
        is_scalar = isinstance(source, Scalar)
        given = "a Scalar" if is_scalar else f"a tensor of size {size_text(source.shape)}"
        message = f"{format} has {format.order} dimensions, {given} has {source.order}"
        more = source.order - format.order
        nested = f"`{'Dense(' * more}{format}{')' * more}` has {source.order}"
        hint = f"each level is one dimension: {nested}" if more > 0 and not is_scalar else None
        raise FinchError("dimension", message, hint=hint)
    to_pattern, element = isinstance(format.leaf, Pattern), type_of_dtype(source.dtype)
    if not to_pattern and not (element and can_store(element, format.element_type)):
        hint = "the type is that of the fill: `Element(0.0)` keeps fractions"
        raise FinchError("type", f"{format} cannot store {element}", hint=hint)
    if not _same(source.fill, format.fill.value) or is_whole(format):
        return Tensor.from_numpy(source.to_numpy().astype(format.element_type.dtype), format)
    if source.fill == 0 and any(map(is_compressed, (format, level_of(source.format)))):
        matrix = source.to_scipy().tocsc()
        kept = differs(matrix.data, source.fill)
        if is_compressed(format) and kept.all():
            return Tensor(format, *source.shape).holding_matrix(matrix)
        coordinates, values = np.array(matrix.tocoo(False).coords, np.int64), matrix.data
    else:
        coordinates, values = source.entries()
        kept = differs(values, source.fill)
    coordinates, values = chosen(kept, coordinates, values)
    values = values.astype(format.element_type.dtype, copy=False)
    return Tensor(format, *source.shape).holding(coordinates, values)


def _same(a: Any, b: Any) -> bool:
    return bool(a == b or (a != a and b != b))


def copy_of(value: Any) -> Any:
    """A copy of an array, tensor, Scalar or list, of a SciPy matrix as a tensor; other values are returned
    as they are."""
    if isinstance(value, LazyTensor):
        return value.materialized()
    if isinstance(value, np.ndarray):
        return value.copy(order="K")
    if is_scipy(value):
        value = as_tensor(value)
    if isinstance(value, TensorBase):
        return value.copy()
    return list(value) if isinstance(value, list) else value
