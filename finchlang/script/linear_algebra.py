"""Functions of vectors and matrices, as in Julia's LinearAlgebra, and Finch.jl's names of formats."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from finchlang.base.errors import FinchError
from finchlang.levels.level import Level
from finchlang.script.make_tensors import tensor_of
from finchlang.script.shape_functions import shape_function
from finchlang.script.show import kind_of
from finchlang.script.values import FinchRange, dense, is_array, is_number, plain, whole
from finchlang.script.vectors_and_dicts import CollectionRow, items
from finchlang.syntax.types import type_of_value
from finchlang.tensors.formats import construct


def _adjoint(value: Any) -> Any:
    """The transpose of a matrix; a vector as a row; a number itself. Raises FinchError "type" for
    others."""
    if isinstance(value, (list, FinchRange)):
        value = np.array(list(value))
    if is_number(value):
        return value
    if not is_array(value) or len(value.shape) not in (1, 2):
        raise FinchError("type", f"{kind_of(value)} cannot be transposed")
    if isinstance(value, np.ndarray):
        return np.asfortranarray(value.T if value.ndim == 2 else value.reshape(1, -1))
    if len(value.shape) == 2:
        return shape_function("permutedims(A, p...)")(value, 2, 1)
    return shape_function("expand_dims(A, p)")(value, 1)


def _numbers(value: Any, name: str) -> np.ndarray:
    found = dense(value).ravel() if is_array(value) else np.array(list(items(value)))
    if found.dtype.kind not in "biuf":
        raise FinchError("type", f"{name} takes numbers, not {kind_of(value)}")
    return found.astype(float)


def _norm(value: Any, order: Any = 2) -> float:
    """The p-norm of the entries, also for a matrix (Julia's `norm`)."""
    found = np.abs(_numbers(value, "norm"))
    if not is_number(order):
        raise FinchError("type", f"the order of a norm is a number, not {kind_of(order)}")
    if math.isinf(order):
        return float(found.max() if order > 0 else found.min()) if found.size else 0.0
    if order == 0:
        return float(np.count_nonzero(found))
    return float(np.linalg.norm(found, order)) if found.size else 0.0


def _dot(a: Any, b: Any) -> Any:
    x, y = _numbers(a, "dot"), _numbers(b, "dot")
    if len(x) != len(y):
        raise FinchError("dimension", f"dot of {len(x)} and {len(y)} numbers")
    is_whole = all(isinstance(plain(v), int) for each in (a, b) for v in items(each))
    return sum(p * q for p, q in zip(items(a), items(b), strict=True)) if is_whole else float(x @ y)


def _axes(value: Any, mode: Any = None) -> Any:
    shape = tuple(value.shape) if is_array(value) else (len(items(value)),)  # type: ignore[arg-type]
    if mode is None:
        return tuple(FinchRange(1, 1, n) for n in shape)
    k = whole(mode, "the number of a dimension")
    return FinchRange(1, 1, shape[k - 1] if 1 <= k <= len(shape) else 1)


def _each_index(value: Any) -> FinchRange:
    shape = value.shape if is_array(value) else (len(items(value)),)  # type: ignore[arg-type]
    if len(shape) != 1:
        hint = "write a loop for each dimension, as in `for j = axes(A, 2), i = axes(A, 1)`"
        raise FinchError("dimension", f"{kind_of(value)} has no single index", hint=hint)
    return FinchRange(1, 1, shape[0])


def _find_stored(value: Any) -> tuple[Any, ...]:
    coordinates, values = tensor_of(value).entries()
    return (*(np.asfortranarray(c + 1) for c in coordinates), np.array(values))


def _format(outer: str, inner: str, default: int | None) -> Callable[..., Level]:
    """A function that makes formats with `outer` as the outermost level and `inner` for the others, of
    `default` modes, or as many as its first argument says. COO and hash levels hold all modes in one."""

    def made(*args: Any) -> Level:
        order, *rest = args if default is None else (default, *args)
        count = whole(order, "the number of dimensions")
        if len(rest) > 1 or not 1 <= count <= 32:
            raise FinchError("type", "a format takes the number of dimensions and a fill")
        fill = rest[0] if rest else 0.0
        if type_of_value(fill) is None:
            raise FinchError("type", f"a fill is a number, not {kind_of(fill)}")
        level: Any = construct("Element", (), (fill,))
        if outer in ("SparseCOO", "SparseHash"):
            return construct(outer, (count,), (level,))
        for name in [inner] * (count - 1) + [outer]:
            level = construct(name, (), (level,))
        return level

    return made


FUNCTIONS: dict[str, CollectionRow] = {
    "adjoint(A)": CollectionRow(
        "A with its dimensions in the other order; a vector as a row", _adjoint
    ),
    "transpose(A)": CollectionRow("the same as adjoint", _adjoint),
    "norm(A, p)": CollectionRow("the 2-norm of the entries, or the p-norm", _norm),
    "dot(x, y)": CollectionRow("the sum of the products of the entries", _dot),
    "axes(A, k)": CollectionRow("the ranges of the indices, or the k-th", _axes),
    "eachindex(v)": CollectionRow("the range of the indices of a vector", _each_index),
    "ffindnz(A)": CollectionRow("the coordinates of what is stored, and the values", _find_stored),
    "CSCFormat(fill)": CollectionRow(
        "the format `Dense(SparseList(Element(fill)))`", _format("Dense", "SparseList", 2)
    ),
    "DCSCFormat(fill)": CollectionRow(
        "the format `SparseList(SparseList(Element(fill)))`", _format("SparseList", "SparseList", 2)
    ),
    "CSFFormat(n, fill)": CollectionRow(
        "`Dense` over n - 1 levels `SparseList`", _format("Dense", "SparseList", None)
    ),
    "DCSFFormat(n, fill)": CollectionRow(
        "n levels `SparseList`", _format("SparseList", "SparseList", None)
    ),
    "COOFormat(n, fill)": CollectionRow(
        "the format `SparseCOO{n}(Element(fill))`", _format("SparseCOO", "", None)
    ),
    "HashFormat(n, fill)": CollectionRow(
        "the format `SparseHash{n}(Element(fill))`", _format("SparseHash", "", None)
    ),
    "ByteMapFormat(n, fill)": CollectionRow(
        "`Dense` over n - 1 levels `SparseByteMap`", _format("Dense", "SparseByteMap", None)
    ),
    "DenseFormat(n, fill)": CollectionRow("n levels `Dense`", _format("Dense", "Dense", None)),
}
