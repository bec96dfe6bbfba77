"""Functions of vectors and matrices, as in Julia's LinearAlgebra, and Finch.jl's names of formats."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, reduce
from inspect import signature
from typing import Any

import numpy as np

from finchlang.base.errors import FinchError
from finchlang.levels.level import Level
from finchlang.script import values as data
from finchlang.script.containers import axes_of
from finchlang.script.lazy_values import Identity, RowVector
from finchlang.script.make_tensors import sparse_of, tensor_of
from finchlang.script.shape_functions import FUNCTIONS as shapes
from finchlang.script.show import kind_of, other_sizes
from finchlang.script.whole_arrays import grid
from finchlang.syntax.types import Pair, type_of_value
from finchlang.tensors.array_base import size_text
from finchlang.tensors.convert import copy_of
from finchlang.tensors.formats import construct

FUNCTIONS = data.Builtins()
#: functions of a namespace of the array API and of arrays of it, and how many they take
OVER: dict[str, tuple[Callable[..., Any], int]] = {}


@FUNCTIONS.add("transpose", is_lazy=True)
@FUNCTIONS.add("adjoint", is_lazy=True)
def _adjoint(value: Any) -> Any:
    if type(value) is RowVector:
        return np.asarray(value)[0]
    if isinstance(value, (list, data.FinchRange)):
        value = data.as_array(value)
    if data.is_number(value):
        return value
    if not data.is_array(value) or len(value.shape) not in (1, 2):
        raise FinchError("type", f"{kind_of(value)} cannot be transposed")
    if isinstance(value, np.ndarray):
        is_matrix = value.ndim == 2
        return np.asfortranarray(value.T) if is_matrix else value.reshape(1, -1).view(RowVector)
    if len(value.shape) == 2:
        return shapes["permutedims"].function(value, 2, 1)
    return shapes["expand_dims"].function(value, 1)


def _numbers(value: Any, name: str) -> np.ndarray:
    found = np.asarray(data.as_array(value))
    if found.dtype.kind not in "biuf":
        raise FinchError("type", f"{name} takes numbers, not {kind_of(value)}")
    return found


def _over(name: str, count: int = 1, to: Callable[..., Any] = _numbers) -> Any:
    """Adds a function of a namespace of the array API and `count` arrays of it: of NumPy and values of
    scripts, which `to` makes arrays; `array_expressions.py` has it of lazy arrays."""

    def add(function: Callable[..., Any]) -> None:
        def of_numpy(*args: Any, **keywords: Any) -> Any:
            arrays = [to(arg, name) for arg in args[:count]]
            found = np.asarray(function(np, *arrays, *args[count:], **keywords))
            return np.asfortranarray(found) if found.ndim else data.plain(found[()])

        known = signature(function)
        of_numpy.__signature__ = known.replace(parameters=[*known.parameters.values()][1:])  # type: ignore
        FUNCTIONS.add(name, of_numpy, is_lazy=True)
        OVER[name] = function, count

    return add


def _as_numbers(xp: Any, *arrays: Any) -> list[Any]:
    """Arrays with integers in place of Bools."""
    return [xp.where(array, 1, 0) if array.dtype == bool else array for array in arrays]


@_over("dropdims", 1, lambda A, name: grid(A))
def _dropped(xp: Any, array: Any, dims: Any) -> Any:
    axes = axes_of(array, dims) or ()
    wrong = next((array.shape[axis] for axis in axes if array.shape[axis] != 1), None)
    if wrong is not None:
        raise FinchError("dimension", f"a dimension of size {wrong} cannot be dropped")
    return xp.squeeze(array, axis=axes)


@_over("norm")
def _norm(xp: Any, array: Any, order: Any = 2) -> Any:
    if not data.is_number(order):
        hint = "`norm(A)` is that of all entries, also of a matrix (Frobenius)"
        what = f"the order of a norm is a number, not {kind_of(order)}"
        raise FinchError("type", what, hint=hint)
    values = xp.asarray(array, dtype=np.float64)
    return xp.sum(values) if 0 in array.shape else xp.linalg.vector_norm(values, ord=order)


@_over("dot", 2)
def _dot(xp: Any, a: Any, b: Any) -> Any:
    if a.shape != b.shape:
        message = f"dot of arrays of sizes {size_text(a.shape)} and {size_text(b.shape)}"
        a_longer = math.prod(a.shape) >= math.prod(b.shape)
        hint = other_sizes(a.shape, b.shape) if a_longer else other_sizes(b.shape, a.shape, "y")
        raise FinchError("dimension", message, hint=hint)
    order, (x, y) = len(a.shape), _as_numbers(xp, a, b)
    return xp.vecdot(x, y) if order == 1 else xp.tensordot(x, y, axes=[[*range(order)]] * 2)


@_over("tensordot", 2)
def _tensordot(xp: Any, a: Any, b: Any, dims: Any = 2) -> Any:
    if isinstance(dims, (tuple, list)):
        if len(dims) != 2:
            message = "tensordot takes a number of dimensions, or those of each array"
            raise FinchError("type", message, hint="tensordot(A, B, ((2,), (1,)))")
        pair: Any = [axes_of(array, own) for array, own in zip((a, b), dims, strict=True)]
    else:
        n, order = data.whole(dims, "a number of dimensions"), len(a.shape)
        if not 0 <= n <= min(order, len(b.shape)):
            raise FinchError("dimension", f"the arrays have no {n} dimensions to sum over")
        pair = [[*range(order - n, order)], [*range(n)]]
    summed = [[array.shape[k] for k in own] for array, own in zip((a, b), pair, strict=True)]
    if summed[0] != summed[1]:
        sizes = f"{size_text(a.shape)} and {size_text(b.shape)}"
        raise FinchError("dimension", f"tensordot of arrays of sizes {sizes}: the sizes differ")
    return xp.tensordot(*_as_numbers(xp, a, b), axes=pair)


@FUNCTIONS.add("cross")
def _cross(a: Any, b: Any) -> np.ndarray:
    x, y = _numbers(a, "cross"), _numbers(b, "cross")
    if x.shape != (3,) or y.shape != (3,):
        message = f"cross of arrays of sizes {size_text(x.shape)} and {size_text(y.shape)}"
        raise FinchError("dimension", message, hint="it takes two vectors of 3 entries")
    return np.cross(x, y)


# ------------------------------------------------------------------------------ small dense systems


def small(value: Any, name: str) -> np.ndarray:
    """An array as NumPy's floats. Raises FinchError "type" if that is much larger than the tensor."""
    from finchlang.array.compute import dense_array

    if isinstance(value, (list, data.FinchRange)):
        return _numbers(value, name).astype(float)
    tensor = value if isinstance(value, np.ndarray) else tensor_of(value)
    try:
        found = np.asarray(dense_array(tensor))
    except TypeError:
        message = f"`{name}` takes arrays that fit into memory densely, and this one does not"
        hint = "write an iterative method with `A * x`, or use `scipy.sparse.linalg` in Python"
        raise FinchError("type", message, hint=hint) from None
    return _numbers(found, name).astype(float)


def _square(value: Any, name: str) -> np.ndarray:
    found = small(value, name)
    if found.ndim != 2 or found.shape[0] != found.shape[1]:
        raise FinchError("dimension", f"`{name}` takes a square matrix, not {kind_of(value)}")
    return found


@FUNCTIONS.add("\\")
def _solved(a: Any, b: Any) -> Any:
    matrix, other = small(a, "\\"), small(b, "\\")
    if matrix.ndim != 2 or not other.ndim or matrix.shape[0] != other.shape[0]:
        sizes = f"{size_text(matrix.shape)} and {size_text(other.shape)}"
        hint = "`A \\ b` takes a `b` of as many rows as `A`"
        if matrix.ndim == 2 and other.ndim and matrix.shape[1] == other.shape[0]:
            hint = f"{hint}, as in `A' \\ b`"
        raise FinchError("dimension", f"`\\` does not take arrays of sizes {sizes}", hint=hint)
    if matrix.shape[0] != matrix.shape[1]:
        return np.asfortranarray(np.linalg.lstsq(matrix, other, rcond=None)[0])
    try:
        return np.asfortranarray(np.linalg.solve(matrix, other))
    except np.linalg.LinAlgError:
        raise FinchError("type", "the matrix is singular: there is no one solution") from None


@FUNCTIONS.add("det")
def _determinant(value: Any) -> float:
    from scipy.linalg import det

    return float(det(_square(value, "det")))


def _inverse(value: Any) -> np.ndarray:
    try:
        return np.asfortranarray(np.linalg.inv(_square(value, "inv")))
    except np.linalg.LinAlgError:
        raise FinchError("type", "the matrix is singular: it has no inverse") from None


#: operators of numbers that mean something else of a matrix
MATRIX: dict[str, Callable[[Any], Any]] = {"inv": _inverse}


@FUNCTIONS.add("tr")
def _trace(value: Any) -> Any:
    shape = data.sizes(value)
    if len(shape) != 2 or shape[0] != shape[1]:
        raise FinchError("dimension", f"`tr` takes a square matrix, not {kind_of(value)}")
    return sum(data.entries(_diagonal(value)))


@FUNCTIONS.add("diag")
def _diagonal(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.ndim == 2:
        return np.diagonal(value).copy()
    return copy_of(shapes["diagonal"].function(value, 1, 2))


@FUNCTIONS.add("spdiagm")
def _of_diagonals(*given: Any) -> Any:
    rows, columns, values, size = [], [], list[Any](), 0
    for each in given:
        k, vector = each if isinstance(each, Pair) else (0, each)
        found = _numbers(vector, "spdiagm")
        k = data.whole(k, "the number of a diagonal")
        if found.ndim != 1:
            raise FinchError("type", f"a diagonal is a vector, not {kind_of(vector)}")
        size = max(size, len(found) + abs(k))
        places = np.arange(1, len(found) + 1)
        rows.append(places - min(k, 0))
        columns.append(places + max(k, 0))
        values.append(found)
    if not given:
        raise FinchError("type", "spdiagm takes a vector, or pairs", hint="spdiagm(0 => [1, 2])")
    return sparse_of(*map(np.concatenate, (rows, columns, values)), (size, size))


FUNCTIONS.add("Diagonal", _of_diagonals)


def identity_matrix(identity: Identity, n: Any) -> Any:
    """An identity of size n as a sparse matrix."""
    return _of_diagonals(np.full(data.whole(n, "a size"), identity.scale))


@FUNCTIONS.add("Matrix")
@FUNCTIONS.add("Array")
@FUNCTIONS.add("Vector")
def _dense(value: Any, *given: Any) -> Any:
    if isinstance(value, Identity):
        m, n = (data.whole(size, "a size") for size in (given * 2)[:2])
        found = np.eye(m, n, dtype=bool if value.scale == 1 else float)
        return np.asfortranarray(found if value.scale == 1 else found * value.scale)
    return dense_copy(value)


def dense_copy(value: Any) -> Any:
    """A value with entries as an array or vector of its own."""
    if data.is_array(value):
        return data.dense(value).copy(order="F")
    return data.array_literal([[*data.entries(value)]], False)


@FUNCTIONS.add("axes")
def _axes(value: Any, mode: Any = None) -> Any:
    shape = data.sizes(value)
    if mode is None:
        return tuple(data.FinchRange(1, 1, n) for n in shape)
    k = data.whole(mode, "the number of a dimension")
    return data.FinchRange(1, 1, shape[k - 1] if 1 <= k <= len(shape) else 1)


@FUNCTIONS.add("eachindex")
def _each_index(value: Any) -> data.FinchRange:
    shape = data.sizes(value)
    if len(shape) != 1:
        hint = "write a loop for each dimension, as in `for j = axes(A, 2), i = axes(A, 1)`"
        raise FinchError("dimension", f"{kind_of(value)} has no single index", hint=hint)
    return data.FinchRange(1, 1, shape[0])


@FUNCTIONS.add("findnz")
@FUNCTIONS.add("ffindnz")
def _find_stored(value: Any) -> tuple[Any, ...]:
    coordinates, values = tensor_of(value).entries()
    return (*(np.asfortranarray(c + 1) for c in coordinates), np.array(values))


FUNCTIONS.add("nonzeros", lambda A: _find_stored(A)[-1])


def _format(outer: str, inner: str, order: int | None, *args: Any) -> Level:
    """A format with `outer` as the outermost level and `inner` for the others, of this order, or of as many
    modes as the first argument says. COO and hash levels hold all modes in one."""
    modes, *rest = args if order is None else (order, *args)
    count = data.whole(modes, "the number of dimensions")
    if len(rest) > 1 or not 1 <= count <= 32:
        raise FinchError("type", "a format takes the number of dimensions and a fill")
    fill = rest[0] if rest else 0.0
    if type_of_value(fill) is None:
        raise FinchError("type", f"a fill is a number, not {kind_of(fill)}")
    leaf: Any = construct("Element", (), (fill,))
    if not inner:
        return construct(outer, (count,), (leaf,))
    kinds = [inner] * (count - 1) + [outer]
    return reduce(lambda level, kind: construct(kind, (), (level,)), kinds, leaf)


for _name, *_levels in (
    *(("CSCFormat", "Dense", "SparseList", 2), ("DCSCFormat", "SparseList", "SparseList", 2)),
    *(("CSFFormat", "Dense", "SparseList", None), ("DCSFFormat", "SparseList", "SparseList", None)),
    *(("COOFormat", "SparseCOO", "", None), ("HashFormat", "SparseHash", "", None)),
    *(("ByteMapFormat", "Dense", "SparseByteMap", None), ("DenseFormat", "Dense", "Dense", None)),
):
    FUNCTIONS.add(_name, partial(_format, *_levels))
