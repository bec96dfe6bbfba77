"""Subscripts in scripts: `A[1, 2]`, `A[:, 1]`, `A[2:4]`, `s[]`, read and set, counted from 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from finchlang.base.aligned_memory import full_aligned
from finchlang.base.errors import FinchError
from finchlang.calls.lazy_shape import TensorView
from finchlang.script import values as data
from finchlang.script.show import kind_of, show
from finchlang.syntax.types import Type, can_store, type_of_dtype, type_of_value
from finchlang.tensors.adopt import as_tensor, is_scipy
from finchlang.tensors.array_base import size_text
from finchlang.tensors.entries import values_of
from finchlang.tensors.tensor import Scalar, SwizzledTensor

ALL = slice(None)  # the index `:`


def subscript(value: Any, indices: list[Any]) -> Any:
    """`value[indices...]`, counted from 1. Parts of arrays and tensors are copied to NumPy arrays. Raises
    FinchError "bounds", "dimension" or "type"."""
    if isinstance(value, Scalar):
        _check_count(value, (), indices)
        return data.held(value)
    if isinstance(value, dict):
        key = _key(indices)
        if key not in value:
            raise FinchError("bounds", f"there is no key {show(key)}")
        return value[key]
    if isinstance(value, Type):
        return values_of(value, data.array_literal([indices], False)) if indices else []
    if isinstance(value, (tuple, list, data.FinchRange, str)):
        (subscript,) = _subscripts(value, (len(value),), indices)
        if isinstance(subscript, int):
            return value[subscript]
        part = [value[k] for k in range(len(value))[subscript]]
        if isinstance(value, str):
            return "".join(part)
        return tuple(part) if isinstance(value, tuple) else data.array_literal([part], False)
    if not data.is_array(value):
        raise FinchError("type", f"{kind_of(value)} cannot be indexed")
    value = value if isinstance(value, np.ndarray) else as_tensor(value)
    subscripts = _subscripts(value, value.shape, indices)
    found = _part(value, subscripts)
    return np.array(found, order="F") if isinstance(found, np.ndarray) else data.plain(found)


def set_subscript(target: Any, indices: list[Any], value: Any) -> None:
    """`target[indices...] = value`. Raises FinchErrors as `subscript`, and "access order" for a tensor that
    is not dense, whose entries cannot be set one by one."""
    if isinstance(target, Scalar):
        _check_count(target, (), indices)
        element = target.format.element_type
        target.value = element.wrap(_storable(value, element))
        return
    if isinstance(target, dict):
        target[_key(indices)] = value
        return
    if isinstance(target, list):
        (subscript,) = _subscripts(target, (len(target),), indices)
        if isinstance(subscript, slice):
            count = len(target[subscript])
            found = _of_size(value, (count,))
            target[subscript] = [value] * count if found is value else [*data.entries(found)]
        else:
            target[subscript] = value
        return
    if not data.is_array(target):
        raise FinchError("type", f"the entries of {kind_of(target)} cannot be set")
    if isinstance(target, TensorView):
        hint = (
            "a kernel writes through it: `@finch V[1] = 2`; or make a tensor of it: `V = copy(V)`"
        )
        raise FinchError("type", "the entries of a view cannot be set one by one", hint=hint)
    target = as_tensor(target) if is_scipy(target) else target
    subscripts = _subscripts(target, target.shape, indices)
    array = _dense_view(target)
    if array is None:
        hint = f"build it in a kernel: `@finch begin A .= {target.fill}; for ... end end`"
        message = f"the entries of {target.format} cannot be set one by one"
        raise FinchError("access order", message, hint=hint)
    if not array.flags.writeable:
        raise FinchError("type", "this array is read-only")
    kept, found = type_of_dtype(array.dtype), _of_size(value, array[subscripts].shape)
    array[subscripts] = found if kept is None else _storable(found, kept)


def _key(indices: list[Any]) -> Any:
    key = indices[0] if len(indices) == 1 else tuple(indices)
    if not isinstance(key, (str, tuple)) and not data.is_number(key):
        raise FinchError("type", f"{kind_of(key)} is no key")
    return key


def shape_of(value: Any) -> tuple[int, ...]:
    """The sizes of a value that can be indexed. Raises FinchError "type" for others."""
    shape = data.shape_of(value, str)
    if shape is None:
        raise FinchError("type", f"{kind_of(value)} cannot be indexed")
    return shape


def _dense_view(value: Any) -> np.ndarray | None:
    """An array over the memory of a tensor that is dense in every mode; None for another tensor."""
    if isinstance(value, np.ndarray):
        return np.asarray(value)
    if isinstance(value, SwizzledTensor):
        body = _dense_view(value.body)
        axes = [value.permutation.index(k + 1) for k in range(value.order)]
        return None if body is None else body.transpose(axes)
    return value._dense_view()


def _of_size(value: Any, shape: tuple[int, ...]) -> Any:
    """An array, vector or range as an array for a part of this shape, whose sizes it must have but for
    those of 1, as in Julia; another value itself, for all of the part. Raises FinchError "dimension"."""
    if not shape or not (data.is_array(value) or data.is_vector(value)):
        return value
    found = data.dense(value) if data.is_array(value) else data.shaped([*data.entries(value)])
    if [n for n in np.shape(found) if n != 1] != [n for n in shape if n != 1]:
        what = f"{kind_of(value)} is assigned to a part of size {size_text(shape)}"
        raise FinchError("dimension", what)
    return found.reshape(shape, order="F") if isinstance(found, np.ndarray) else found


def _storable(value: Any, element: Type) -> Any:
    source = type_of_dtype(value.dtype) if isinstance(value, np.ndarray) else type_of_value(value)
    if source is None or not can_store(source, element):
        hint = "an array keeps its type of entries: `[1.0, 2.0]` and `zeros(3)` hold fractions"
        is_fraction = source is not None and source.is_float and element.is_integer
        message = f"{kind_of(value)} cannot be stored as {element}"
        raise FinchError("type", message, hint=hint if is_fraction else None)
    return value if isinstance(value, np.ndarray) else element.wrap(value)


def _part(tensor: Any, subscripts: tuple[int | slice, ...]) -> Any:
    """The part of a tensor that NumPy would give for its dense array, which is not made."""
    view = _dense_view(tensor)
    if view is not None:
        return view[subscripts]
    coordinates, values = tensor.entries()
    kept = [
        range(p, p + 1) if isinstance(p, int) else range(*p.indices(size))
        for p, size in zip(subscripts, tensor.shape, strict=True)
    ]
    places = [(row - of.start) // of.step for row, of in zip(coordinates, kept, strict=True)]
    rows = zip(coordinates, places, kept, strict=True)
    inside = [(at >= 0) & (at < len(of)) & (row == of.start + at * of.step) for row, at, of in rows]
    stored = np.all(np.array(inside), axis=0)
    found = full_aligned(tuple(map(len, kept)), tensor.fill, tensor.dtype)
    found[tuple(at[stored] for at in places)] = values[stored]
    return found[tuple(0 if isinstance(p, int) else ALL for p in subscripts)]


def _check_count(value: Any, shape: tuple[int, ...], indices: list[Any]) -> None:
    if len(indices) != len(shape):
        what = f"{kind_of(value)} has {len(shape)} dimensions, {len(indices)} indices are given"
        is_row = len(indices) == 1 and len(shape) == 2
        hint = "a row is `A[1, :]`, a column `A[:, 1]`, an entry `A[1, 2]`" if is_row else None
        raise FinchError("dimension", what, hint=hint)


def _subscripts(value: Any, shape: tuple[int, ...], indices: list[Any]) -> tuple[Any, ...]:
    """The indices for NumPy: counted from 0, ranges as slices."""
    _check_count(value, shape, indices)
    return tuple(_subscript(i, size) for i, size in zip(indices, shape, strict=True))


def _subscript(index: Any, size: int) -> int | slice:
    if index is ALL:
        return ALL
    if isinstance(index, data.FinchRange):
        for k in (0, len(index) - 1)[: len(index)]:
            _subscript(data.whole(index[k], "an index"), size)
        return index.slice
    k = data.whole(index, "an index")
    if not 1 <= k <= size:
        hint = None
        if k <= 0 < size:
            hint = f"indices count from 1: the first is `x[1]`, the last `x[end]`, which is {size}"
        elif k == size + 1:
            hint = "an array keeps its size; a vector that grows begins as `[]`, and `push!(x, 1)` appends"
        raise FinchError("bounds", f"index {k} is not in 1:{size}", hint=hint)
    return k - 1
