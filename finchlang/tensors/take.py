"""Parts of tensors at listed coordinates, in time proportional to entries, not to pairs of coordinates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from finchlang.levels.numpy_layout import pointers, ranges
from finchlang.tensors.adopt import MANY, list_format
from finchlang.tensors.tensor import SwizzledTensor, Tensor, is_compressed, scipy_sparse


def taken(tensor: Any, lists: Mapping[int, np.ndarray]) -> Any:
    """The parts of a tensor at 0-based coordinates of some modes, an array for each, in their order and as
    often as they are there. What is stored there is stored in the result."""
    if isinstance(tensor, SwizzledTensor):
        own = {mode: lists[k] for k, mode in enumerate(tensor._axes) if k in lists}
        return SwizzledTensor(taken(tensor.body, own), tensor.permutation)
    if is_compressed(tensor.format):
        return _of_compressed(tensor, lists.get(0), lists.get(1))
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
    are_dense = shape[-1] <= max(MANY, len(values)), False
    element = tensor.format.element_type
    format = list_format(element, tensor.order, tensor.fill, are_dense)
    return Tensor(format, *shape).holding(coordinates, values)


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
