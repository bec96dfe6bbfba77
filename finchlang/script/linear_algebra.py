"""Functions of vectors and matrices, as in Julia's LinearAlgebra, and Finch.jl's names of formats."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from finchlang.base.errors import FinchError
from finchlang.levels.level import Level
from finchlang.script.containers import items, sizes
from finchlang.script.make_tensors import tensor_of
from finchlang.script.shape_functions import FUNCTIONS as shapes
from finchlang.script.show import kind_of
from finchlang.script.values import Builtins, FinchRange, dense, is_array, is_number, plain, whole
from finchlang.syntax.types import type_of_value
from finchlang.tensors.formats import construct

FUNCTIONS = Builtins()


@FUNCTIONS.add("transpose(A)", "the same as adjoint")
@FUNCTIONS.add("adjoint(A)", "A with its dimensions in the other order; a vector as a row")
def _adjoint(value: Any) -> Any:
    if isinstance(value, (list, FinchRange)):
        value = np.array(list(value))
    if is_number(value):
        return value
    if not is_array(value) or len(value.shape) not in (1, 2):
        raise FinchError("type", f"{kind_of(value)} cannot be transposed")
    if isinstance(value, np.ndarray):
        return np.asfortranarray(value.T if value.ndim == 2 else value.reshape(1, -1))
    if len(value.shape) == 2:
        return shapes["permutedims"].function(value, 2, 1)
    return shapes["expand_dims"].function(value, 1)


def _numbers(value: Any, name: str) -> np.ndarray:
    found = dense(value).ravel() if is_array(value) else np.array(list(items(value)))
    if found.dtype.kind not in "biuf":
        raise FinchError("type", f"{name} takes numbers, not {kind_of(value)}")
    return found.astype(float)


@FUNCTIONS.add("norm(A, p)", "the 2-norm of the entries, or the p-norm")
def _norm(value: Any, order: Any = 2) -> float:
    found = np.abs(_numbers(value, "norm"))
    if not is_number(order):
        raise FinchError("type", f"the order of a norm is a number, not {kind_of(order)}")
    if math.isinf(order):
        return float(found.max() if order > 0 else found.min()) if found.size else 0.0
    if order == 0:
        return float(np.count_nonzero(found))
    return float(np.linalg.norm(found, order)) if found.size else 0.0


@FUNCTIONS.add("dot(x, y)", "the sum of the products of the entries")
def _dot(a: Any, b: Any) -> Any:
    x, y = _numbers(a, "dot"), _numbers(b, "dot")
    if len(x) != len(y):
        raise FinchError("dimension", f"dot of {len(x)} and {len(y)} numbers")
    is_whole = all(isinstance(plain(v), int) for each in (a, b) for v in items(each))
    return sum(p * q for p, q in zip(items(a), items(b), strict=True)) if is_whole else float(x @ y)


@FUNCTIONS.add("axes(A, k)", "the ranges of the indices, or the k-th")
def _axes(value: Any, mode: Any = None) -> Any:
    shape = sizes(value)
    if mode is None:
        return tuple(FinchRange(1, 1, n) for n in shape)
    k = whole(mode, "the number of a dimension")
    return FinchRange(1, 1, shape[k - 1] if 1 <= k <= len(shape) else 1)


@FUNCTIONS.add("eachindex(v)", "the range of the indices of a vector")
def _each_index(value: Any) -> FinchRange:
    shape = sizes(value)
    if len(shape) != 1:
        hint = "write a loop for each dimension, as in `for j = axes(A, 2), i = axes(A, 1)`"
        raise FinchError("dimension", f"{kind_of(value)} has no single index", hint=hint)
    return FinchRange(1, 1, shape[0])


@FUNCTIONS.add("ffindnz(A)", "the coordinates of what is stored, and the values")
def _find_stored(value: Any) -> tuple[Any, ...]:
    coordinates, values = tensor_of(value).entries()
    return (*(np.asfortranarray(c + 1) for c in coordinates), np.array(values))


def _format(usage: str, doc: str, outer: str, inner: str) -> None:
    """Adds a function that makes formats with `outer` as the outermost level and `inner` for the others, of
    2 modes, or as many as its first argument `n` says. COO and hash levels hold all modes in one."""

    def made(*args: Any) -> Level:
        order, *rest = args if "(n" in usage else (2, *args)
        count = whole(order, "the number of dimensions")
        if len(rest) > 1 or not 1 <= count <= 32:
            raise FinchError("type", "a format takes the number of dimensions and a fill")
        fill = rest[0] if rest else 0.0
        if type_of_value(fill) is None:
            raise FinchError("type", f"a fill is a number, not {kind_of(fill)}")
        level: Any = construct("Element", (), (fill,))
        if not inner:
            return construct(outer, (count,), (level,))
        for name in [inner] * (count - 1) + [outer]:
            level = construct(name, (), (level,))
        return level

    FUNCTIONS.add(usage, doc, made)


_DENSE, _LIST = "Dense", "SparseList"
_format("CSCFormat(fill)", "the format `Dense(SparseList(Element(fill)))`", _DENSE, _LIST)
_format("DCSCFormat(fill)", "the format `SparseList(SparseList(Element(fill)))`", _LIST, _LIST)
_format("CSFFormat(n, fill)", "`Dense` over n - 1 levels `SparseList`", _DENSE, _LIST)
_format("DCSFFormat(n, fill)", "n levels `SparseList`", _LIST, _LIST)
_format("COOFormat(n, fill)", "the format `SparseCOO{n}(Element(fill))`", "SparseCOO", "")
_format("HashFormat(n, fill)", "the format `SparseHash{n}(Element(fill))`", "SparseHash", "")
_format(
    "ByteMapFormat(n, fill)", "`Dense` over n - 1 levels `SparseByteMap`", _DENSE, "SparseByteMap"
)
_format("DenseFormat(n, fill)", "n levels `Dense`", _DENSE, _DENSE)
