"""NumPy arrays and SciPy matrices as tensors over the same memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from finchlang.source import FinchError
from finchlang.tensors.borrowed_list import BorrowedList
from finchlang.tensors.dense import Dense
from finchlang.tensors.element import Element, typed_literal
from finchlang.tensors.level import Level
from finchlang.tensors.memory import Memory
from finchlang.tensors.sparse_coo import SparseCOO
from finchlang.tensors.sparse_list import SparseList
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor, dense_format
from finchlang.types import Int64, type_of_dtype


def as_tensor(value: Any) -> Tensor | SwizzledTensor | Scalar | None:
    """The tensor a script value stands for, over the same memory: NumPy arrays (contiguous in any
    order of their axes) and SciPy matrices (CSC and CSR in place); None if it stands for none.

    A SciPy matrix with unsorted or repeated coordinates is put in order first (in place).
    """
    if isinstance(value, (Tensor, SwizzledTensor, Scalar)):
        return value
    if isinstance(value, np.ndarray):
        return _from_array(value)
    return _from_scipy(value) if is_scipy(value) else None


def is_scipy(value: Any) -> bool:
    """Whether a value is a sparse array or matrix of SciPy."""
    return type(value).__module__.startswith("scipy.sparse")


def _from_array(array: np.ndarray) -> Tensor | SwizzledTensor:
    level = dense_format(array.dtype, array.ndim)
    axes = sorted(range(array.ndim), key=lambda k: (array.strides[k], array.shape[k] != 1))
    flat = array.transpose(axes[::-1])
    if not flat.flags.c_contiguous:
        axes, flat = list(range(array.ndim)), array.transpose()
        flat = np.ascontiguousarray(flat)
    shape = tuple([array.shape[k] for k in axes])
    body = Tensor.over(level, Memory.borrowed(shape, (flat.reshape(-1),), ()), checked=True)
    if axes == list(range(array.ndim)):
        return body
    return SwizzledTensor(body, tuple(k + 1 for k in axes))


def _from_scipy(matrix: Any) -> Tensor | SwizzledTensor:
    if matrix.format not in ("csc", "csr") or matrix.ndim != 2:
        matrix = matrix.tocsc() if matrix.ndim == 2 else matrix.tocoo()
    element = type_of_dtype(matrix.dtype)
    if element is None:
        raise FinchError("type", f"matrices of {matrix.dtype} have no element type here")
    leaf = Element(typed_literal(0, element))
    if matrix.ndim != 2:
        matrix.sum_duplicates()
        order = matrix.ndim
        level: Level = SparseList(leaf) if order == 1 else SparseCOO(leaf, Int64, order)
        return Tensor.from_coo(level, matrix.shape, matrix.coords, matrix.data)
    rows = matrix.shape[0] if matrix.format == "csc" else matrix.shape[1]
    fibers = matrix.shape[1] if matrix.format == "csc" else matrix.shape[0]
    if not _is_sound(matrix, rows, fibers):
        raise FinchError("bounds", "corrupt SciPy matrix: indptr or indices are out of range")
    matrix.sum_duplicates()
    if matrix.indptr.dtype != matrix.indices.dtype:
        matrix.indptr = matrix.indptr.astype(np.int64)
        matrix.indices = matrix.indices.astype(np.int64)
    index = type_of_dtype(matrix.indices.dtype) or Int64
    arrays = matrix.indptr, matrix.indices, matrix.data
    room = min(len(matrix.indices), len(matrix.data)) if rows else 0
    level = Dense(BorrowedList(leaf, index))
    body = Tensor.over(level, Memory.borrowed((rows, fibers), arrays, (room,)), checked=False)
    body.validate()
    return body if matrix.format == "csc" else SwizzledTensor(body, (2, 1))


def _is_sound(matrix: Any, rows: int, fibers: int) -> bool:
    """Whether SciPy itself may walk this matrix (it does not check before it sorts)."""
    ptr, idx = matrix.indptr, matrix.indices
    if len(ptr) != fibers + 1 or ptr[0] != 0 or np.any(ptr[1:] < ptr[:-1]):
        return False
    if ptr[-1] > min(len(idx), len(matrix.data)):
        return False
    used = idx[: ptr[-1]]
    return len(used) == 0 or bool(used.min() >= 0 and used.max() < rows)
