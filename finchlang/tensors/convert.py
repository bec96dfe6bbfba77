"""Conversion of tensors between formats, copies that share no memory, and parts at listed coordinates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from finchlang.base.errors import FinchError, number_of
from finchlang.levels.element import differs
from finchlang.levels.level import level_of
from finchlang.levels.numpy_layout import pointers, ranges
from finchlang.levels.pattern import Pattern
from finchlang.levels.scalars import Scalar as ScalarLevel
from finchlang.syntax.types import can_store, type_of_dtype
from finchlang.tensors.adopt import MANY, as_tensor, is_scipy, list_format
from finchlang.tensors.array_base import LazyTensor, TensorBase, is_whole, size_text
from finchlang.tensors.entries import chosen
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor, is_compressed, scipy_sparse


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
        own = number_of(format.order, "dimension")
        message = f"{format} has {own}, {given} has {source.order}"
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


def taken(tensor: Any, lists: Mapping[int, np.ndarray]) -> Any:
    """The parts of a tensor at 0-based coordinates of some modes, an array for each, in their order and as
    often as they are there. What is stored there is stored in the result. Takes time in proportion to
    entries, not to pairs of coordinates."""
    if isinstance(tensor, SwizzledTensor):
        own = {mode: lists[k] for k, mode in enumerate(tensor._axes) if k in lists}
        return SwizzledTensor(taken(tensor.body, own), tensor.permutation)
    if is_compressed(tensor.format):
        return _of_compressed(tensor, lists.get(0), lists.get(1))
    shape, coordinates, values = entries_at(tensor, lists)
    are_dense = shape[-1] <= max(MANY, len(values)), False
    element = tensor.format.element_type
    format = list_format(element, tensor.order, tensor.fill, are_dense)
    return Tensor(format, *shape).holding(coordinates, values)


def entries_at(
    tensor: Any, lists: Mapping[int, np.ndarray]
) -> tuple[tuple[int, ...], np.ndarray, np.ndarray]:
    """The shape and the entries of what is `taken`."""
    shape = tuple([len(lists.get(k, range(size))) for k, size in enumerate(tensor.shape)])
    coordinates, values = tensor.entries()
    for mode, given in lists.items():
        order = np.argsort(given, kind="stable")
        first, last = (
            np.searchsorted(given[order], coordinates[mode], s) for s in ("left", "right")
        )
        which, number = ranges(last - first)
        coordinates, values = coordinates[:, which], values[which]
        coordinates[mode] = order[first[which] + number]
    return shape, coordinates, values


def _of_compressed(tensor: Tensor, rows: np.ndarray | None, columns: np.ndarray | None) -> Tensor:
    _, lists, leaf = tensor._storage
    ptr, idx, values, (height, width) = lists["ptr"], lists["idx"], leaf["val"], tensor.shape
    if columns is not None:  # the others are not read
        which, number = ranges(ptr[columns + 1] - ptr[columns])
        places, width = ptr[columns][which] + number, len(columns)
        ptr, idx, values = pointers(which, width), idx[places], values[places]
    matrix = scipy_sparse().csc_array((values, idx, ptr), (height, width))
    if rows is not None:
        matrix = matrix[rows]
        matrix.sort_indices()
    return Tensor(tensor.format, *matrix.shape).holding_matrix(matrix)
