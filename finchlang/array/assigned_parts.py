"""Assignment to parts of lazy arrays, `x[key] = value`: the array is then another one, and what it was made
of stays as it is."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from finchlang.array.compute import compute, dense_array
from finchlang.array.creation import asarray
from finchlang.array.elementwise import astype, bitwise_and, where
from finchlang.array.expression import Array
from finchlang.array.indexing import along, in_each_axis, is_mask
from finchlang.array.operands import as_expression, operands
from finchlang.array.reshaping import broadcast_to, reshape, with_axes

NOT_CHANGED = "arrays are not changed in place: `where` makes others"


def setitem(x: Any, key: Any, value: Any) -> None:
    """`x[key] = value` of a lazy array, which is computed at once: its operands, and expressions that were
    made of it before, do not change. The key has integers, slices, `...` and at most one list or mask of
    an axis, or it is a mask of the shape of `x`; the value broadcasts to the part. Raises TypeError for
    other keys, for other arrays than lazy ones, and for a value that is not cast to the type of `x`;
    ValueError for a value of another shape; IndexError as `x[key]`."""
    if type(x) is not Array:
        raise TypeError(NOT_CHANGED)
    given = _cast(value, x)
    if is_mask(key) and np.shape(key) == x.shape:
        inside, spread = key, given if not given.shape else _in_order(given, key)
    else:
        inside, spread = _spread(given, in_each_axis(key, len(x.shape)), x.shape)
    if spread is not None:
        changed = spread if inside is None else where(inside, spread, x)
        x.node = as_expression(compute(changed))


def _in_order(given: Array, mask: Any) -> Array | None:
    """An array that has the values given where a mask is true, in row-major order; None if that is
    nowhere."""
    counts = np.cumsum(dense_array(mask))
    values = broadcast_to(given, (counts[-1:].sum(),))
    places = np.maximum(counts - 1, 0)
    return reshape(along(values, {0: places}), np.shape(mask)) if values.shape[0] else None


def _cast(value: Any, x: Array) -> Array:
    """A number or array in the type of `x`."""
    try:
        given = Array(operands(value, x)[0])
    except TypeError:  # a list
        given = asarray(value)
    if x.dtype != np.bool_ and not np.can_cast(given.dtype, x.dtype, "same_kind"):
        raise TypeError(f"a value of {given.dtype} is not cast to {x.dtype}: `astype` converts it")
    return astype(given, x.dtype)


def _spread(given: Array, keys: list[Any], shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Where the part of an array of this shape is, None if it is all of it; and an array that has in the
    part the values given, None if the part has no elements."""
    keys = [key for key in keys if key is not Ellipsis]
    at_once = [axis for axis, key in enumerate(keys) if not isinstance(key, slice)]
    lists = [axis for axis in at_once if keys[axis] is None or np.ndim(keys[axis])]
    is_apart = bool(lists) and at_once[-1] - at_once[0] >= len(at_once)
    if len(lists) > 1 or is_apart or any([np.ndim(keys[axis]) != 1 for axis in lists]):
        what = "integers, slices, `...`, and a list or mask of an axis next to the integers"
        raise TypeError(f"a part is assigned at {what}: `where` takes any mask")
    order, masks, places = len(shape), list[Any](), dict[int, Any]()
    part, integers = list[int](), list[int]()
    for axis, (key, size) in enumerate(zip(keys, shape, strict=True)):
        if isinstance(key, Array):
            key = key.todense()
        at = np.arange(size)[key]
        inside, place = np.zeros(size, bool), np.zeros(size, np.int64)
        inside[at] = True
        if at.ndim:
            place[at] = np.arange(at.size)
            part.append(at.size)
            if np.array_equal(at, np.arange(size)):
                continue
            places[axis] = place
        else:
            integers.append(axis)
        flags = as_expression(asarray(inside, fill_value=False))
        masks.append(Array(with_axes(flags, tuple(k for k in range(order) if k != axis), order)))
    values = broadcast_to(given, part).node
    if 0 in part:
        return None, None
    spread = Array(with_axes(values, tuple(integers), order))
    for axis, place in places.items():
        spread = along(spread, {axis: place})
    return reduce(bitwise_and, masks) if masks else None, spread
