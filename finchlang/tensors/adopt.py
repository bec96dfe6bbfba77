"""NumPy arrays and SciPy matrices as tensors over the same memory."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import numpy as np

from finchlang.base.aligned_memory import aligned_copy
from finchlang.base.errors import FinchError
from finchlang.levels.dense import Dense
from finchlang.levels.element import Element, typed_literal
from finchlang.levels.level import Level, Swizzled
from finchlang.levels.sparse_coo import SparseCOO
from finchlang.levels.sparse_list import SparseList
from finchlang.syntax.types import Int64, Type, foreign, type_of_dtype
from finchlang.tensors.array_base import LazyTensor, dense_format, element_of
from finchlang.tensors.entries import check_within, masked_entries
from finchlang.tensors.formats import Format, nest_of, permuted
from finchlang.tensors.memory import Memory
from finchlang.tensors.tensor import AnyTensor, Scalar, SwizzledTensor, Tensor, tensor_over

#: a COO matrix of more columns than this, and than entries, is taken as lists of its columns
MANY = 1 << 20


def as_tensor(value: Any) -> AnyTensor | None:
    """The value as a tensor, over the same memory: a NumPy array (contiguous in any order of its axes) or a
    SciPy matrix (CSC and CSR in place); a sparse array of PyData is copied. None for other values. A SciPy
    matrix with unsorted or repeated coordinates is put in order first (in place, unless it is read-only);
    parts that are not contiguous or not in the machine's byte order are copied. Raises FinchError "type"
    for entries or parts of a type that tensors do not have, "bounds" for indices that are out of range."""
    if isinstance(value, (Tensor, SwizzledTensor, Scalar)):
        return value
    if isinstance(value, LazyTensor):
        return value.materialized()
    if isinstance(value, np.ma.MaskedArray):
        raise masked_entries("x")
    if isinstance(value, np.ndarray):
        return _from_array(value)
    if is_pydata(value):
        return _from_coordinates(_coordinates(value, "PyData"), value.fill_value)
    return _from_scipy(value) if is_scipy(value) else None


def is_pydata(value: Any) -> bool:
    return type(value).__module__.startswith("sparse.") and hasattr(value, "asformat")


def is_scipy(value: Any) -> bool:
    """Whether a value is a matrix or array of SciPy, which its linear operators are not."""
    return scipy_class(value.__class__) is not None


@cache
def scipy_class(kind: Any) -> Any:
    """The class of SciPy's matrices and arrays that a class is, or is derived from; None for another."""
    return next((c for c in kind.__mro__ if c.__module__.startswith("scipy.sparse._")), None)


@lru_cache(1024)
def layout_of_array(
    dtype: np.dtype, shape: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[Format, tuple[int, ...] | None, tuple[int, ...], int]:
    """For arrays of this type, shape and strides: their format; their axes in the order of memory,
    slowest first (None if the entries are not next to each other, or not in the machine's byte order);
    the sizes of these, fastest first; and the alignment that the address must have. Raises FinchError
    "type" for entries that no tensor holds."""
    level = dense_format(dtype, len(shape))
    # An axis of size 1 may have any stride. Of two axes of equal stride it is taken as the faster
    # one.
    axes = tuple(sorted(range(len(shape)), key=lambda k: (strides[k], shape[k] != 1)))
    step, has_entries = dtype.itemsize, 0 not in shape
    for k in axes:
        if has_entries and shape[k] != 1 and strides[k] != step:
            return level, None, shape, dtype.alignment
        step *= shape[k]
    if not dtype.isnative:
        return level, None, shape, dtype.alignment
    format = permuted(level, tuple([k + 1 for k in axes]))
    return format, axes[::-1], tuple([shape[k] for k in axes]), dtype.alignment


def _from_array(array: np.ndarray) -> Tensor | SwizzledTensor:
    array = np.asarray(array)  # of no class of its own, as np.matrix
    format, axes, shape, _ = layout_of_array(array.dtype, array.shape, array.strides)
    if axes is None or not array.flags.aligned:
        return _from_array(np.array(array, array.dtype.newbyteorder("="), order="F"))
    memory = Memory.borrowed(shape, (array.transpose(axes).reshape(-1),), ())
    return tensor_over(format, memory, True)


def _from_scipy(matrix: Any) -> Tensor | SwizzledTensor:
    if matrix.ndim != 2:
        return _from_coordinates(_checked_coordinates(matrix))
    if matrix.format not in ("csc", "csr"):
        if (in_order := _listed_in_order(matrix)) is not None:
            return in_order
        matrix = _checked_coordinates(matrix)
        if matrix.shape[1] > max(MANY, len(matrix.data)):
            return _from_coordinates(matrix, are_dense=(False, False))
        matrix = matrix.tocsc()
    rows, fibers = matrix.shape if matrix.format == "csc" else matrix.shape[::-1]
    data, idx, ptr = (_part(matrix, name) for name in ("data", "indices", "indptr"))
    element_of("matrices", data.dtype)
    if not _is_sound(data, idx, ptr, rows, fibers):
        raise FinchError("bounds", "corrupt SciPy matrix: indptr or indices are out of range")
    if ptr.dtype != idx.dtype:  # SciPy fails to sort such a matrix
        ptr, idx = ptr.astype(np.int64), idx.astype(np.int64)
        matrix.indptr, matrix.indices = ptr, idx
    # as SciPy has noted it, perhaps before the indices were changed
    is_noted = matrix.has_canonical_format or matrix.has_sorted_indices
    matrix = _in_order(matrix, (data, idx, ptr))
    # kernels index by copies, which nobody else can change after the check
    ptr, idx = aligned_copy(matrix.indptr), aligned_copy(matrix.indices)
    memory = Memory.borrowed((rows, fibers), (ptr, idx, matrix.data), (int(ptr[-1]),))
    format = matrix_format(matrix.data.dtype, idx.dtype, matrix.format == "csr")
    tensor = tensor_over(format, memory, checked=False)
    try:
        tensor.validate()
    except FinchError:
        if not is_noted:
            raise
        matrix.has_canonical_format = matrix.has_sorted_indices = False
        return _from_scipy(matrix)
    return tensor


def _listed_in_order(matrix: Any) -> Tensor | None:
    """A tensor over a COO matrix that is valid and already sorted by columns, so that it need not be sorted
    again; None for another, or one of fewer entries than columns."""
    if matrix.format != "coo":
        return None
    data, coordinates = _part(matrix, "data"), _coordinates(matrix, "SciPy").coords
    is_listed = all(part.shape == data.shape for part in coordinates)
    if not is_listed or len(data) < max(matrix.shape[1], 1):
        return None
    is_native = data.flags.c_contiguous and data.flags.aligned and data.dtype.isnative
    if not is_native or any(part.dtype not in (np.int32, np.int64) for part in coordinates):
        return None
    # checked as copies, since kernels index by these and nobody else can change them
    rows, columns = map(aligned_copy, coordinates)
    (height, width), is_next = matrix.shape, columns[1:] > columns[:-1]
    is_inside = rows.min() >= 0 and rows.max() < height and columns[0] >= 0 and columns[-1] < width
    is_sorted = np.all(is_next | ((columns[1:] == columns[:-1]) & (rows[1:] > rows[:-1])))
    if not is_inside or not is_sorted:
        return None
    ends = np.searchsorted(columns, np.arange(width + 1, dtype=columns.dtype))
    memory = Memory.borrowed((height, width), (ends.astype(rows.dtype), rows, data), (len(rows),))
    level = matrix_format(data.dtype, rows.dtype, False)
    assert isinstance(level, Level)
    return Tensor.over(level, memory, True)


@cache
def matrix_format(dtype: np.dtype, index: np.dtype, is_by_rows: bool) -> Format:
    """The format of a CSC (or CSR) matrix of these types, in any byte order. Raises FinchError "type" if
    tensors have none."""
    leaf = Element(typed_literal(0, element_of("matrices", dtype)))
    level = Dense(SparseList(leaf, type_of_dtype(index) or Int64))
    return Swizzled(level, (2, 1)) if is_by_rows else level


def list_format(element: Type, order: int, fill: Any = 0, are_dense: Any = (True, False)) -> Level:
    """The default format of a sparse tensor; `are_dense` are the levels of a matrix."""
    leaf = Element(typed_literal(fill, element))
    if order > 2:
        return SparseCOO(leaf, Int64, order)
    return nest_of([*are_dense] if order == 2 else [False] * order, leaf)


def _from_coordinates(array: Any, fill: Any = 0, are_dense: Any = (True, False)) -> Tensor:
    """A tensor with the entries of a COO array of SciPy or PyData."""
    element = element_of("arrays", array.dtype)
    level = list_format(element, array.ndim, element.wrap(fill), are_dense)
    return Tensor.from_coo(level, array.shape, array.coords, array.data)


def _part(matrix: Any, name: str) -> np.ndarray:
    """An array of a SciPy matrix, which a user may have replaced by anything. Raises FinchError "type"."""
    part: Any = getattr(matrix, name, None)
    is_array = isinstance(part, np.ndarray) and not isinstance(part, np.ma.MaskedArray)
    if not is_array or part.ndim != 1:
        what = f"an array of {part.ndim} dimensions" if is_array else foreign(part)
        raise FinchError("type", f"`{name}` of a SciPy matrix is a vector, not {what}")
    if name != "data" and not (part.dtype.kind in "iu" and np.can_cast(part.dtype, np.int64)):
        raise FinchError("type", f"`{name}` of a SciPy matrix holds indices, not {part.dtype}")
    return part


def _in_order(matrix: Any, parts: tuple[np.ndarray, ...]) -> Any:
    """The matrix in canonical form, with aligned parts in native byte order, in place if possible."""
    fits = [p.flags.c_contiguous and p.flags.aligned and p.dtype.isnative for p in parts]
    is_fixed = not all(p.flags.writeable for p in parts) and not matrix.has_canonical_format
    if is_fixed or not all(fits):
        copies = [np.array(p, p.dtype.newbyteorder("="), order="C") for p in parts]
        matrix = scipy_class(matrix.__class__)(tuple(copies), shape=matrix.shape)
    matrix.sum_duplicates()  # this sorts, too
    return matrix


def _checked_coordinates(array: Any) -> Any:
    """The array as COO, its coordinates checked: SciPy does not check them before it sorts by them."""
    found = _coordinates(array, "SciPy")
    for coordinates in found.coords:
        if coordinates.shape != found.data.shape:
            raise FinchError("bounds", "corrupt SciPy array: its parts are of different lengths")
        if coordinates.dtype.kind not in "iu":
            message = f"the coordinates of a SciPy array are integers, not {coordinates.dtype}"
            raise FinchError("type", message)
    check_within(found.coords, found.shape, "corrupt SciPy array: ")
    return found


def _coordinates(array: Any, library: str) -> Any:
    """The array as its library makes it COO. Raises FinchError "bounds" for one whose parts do not fit."""
    try:
        _check_lengths(array)
        found = array.tocoo() if library == "SciPy" else array.asformat("coo")
        if len(found.coords) != len(found.shape) or not hasattr(found.data, "shape"):
            raise ValueError("it has no coordinates for each mode, or no data")
    except (ValueError, IndexError, TypeError, AttributeError, ArithmeticError) as error:
        raise FinchError("bounds", f"corrupt {library} array: {error}") from None
    except MemoryError as error:
        raise FinchError("resource", f"no memory for a {library} array: {error}") from None
    return found


def _check_lengths(array: Any) -> None:
    """Raises ValueError for arrays of which SciPy would read or write beyond the parts, or repeat indices
    without end, and for GCXS arrays whose entries PyData would put into other places."""
    format = getattr(array, "format", "")  # old versions of PyData have none
    if format == "lil":
        lists = [[len(row) for row in part] for part in (array.rows, array.data)]
        fits = lists[0] == lists[1] and len(lists[0]) == array.shape[0]
    elif format == "dia":
        most = max(np.iinfo(np.int32).max, *array.shape)
        fits = array.data.ndim == 2 and array.offsets.shape == array.data.shape[:1]
        fits = fits and array.offsets.dtype.kind in "iu"
        fits = fits and not np.any((array.offsets > most) | (array.offsets < -most))
    elif format in ("csr", "bsr") or (format == "gcxs" and array.ndim > 1):
        parts, most = (array.data, array.indices, array.indptr), np.iinfo(np.int64).max
        fits = _is_sound(*parts, most, len(array.indptr) - 1)
    else:
        return
    if not fits:
        raise ValueError("its parts do not fit each other")


def _is_sound(data: np.ndarray, idx: np.ndarray, ptr: np.ndarray, rows: int, fibers: int) -> bool:
    """Whether indices and pointers are within range: SciPy sorts the matrix without a check."""
    if len(ptr) != fibers + 1 or ptr[0] != 0 or np.any(ptr[1:] < ptr[:-1]):
        return False
    if ptr[-1] > min(len(idx), len(data)):
        return False
    used = idx[: ptr[-1]]
    return len(used) == 0 or bool(used.min() >= 0 and used.max() < rows)
