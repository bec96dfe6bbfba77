"""Functions that order elements, or whose result's size depends on data: computed at once, from the
stored entries where these are enough, else from a dense array."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from finchlang.array.compute import compute, dense_array, is_much_smaller
from finchlang.array.concatenation import concat
from finchlang.array.creation import asarray
from finchlang.array.elementwise import named, not_equal, subtract
from finchlang.array.expression import Array
from finchlang.array.indexing import along
from finchlang.array.operands import as_expression
from finchlang.array.promotion import normalized_axis, type_of
from finchlang.array.reshaping import broadcast_arrays, broadcast_to, expand_dims, ravel
from finchlang.levels.element import Element, typed_literal
from finchlang.levels.sparse_run_list import SparseRunList
from finchlang.syntax.types import foreign
from finchlang.tensors.adopt import list_format
from finchlang.tensors.convert import MANY
from finchlang.tensors.formats import nest_of, permuted
from finchlang.tensors.tensor import Tensor, swizzled

__all__ = ["argsort", "cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "diff"]
__all__ += ["from_dlpack", "meshgrid", "nonzero", "searchsorted", "sort", "take_along_axis"]
__all__ += ["unique_all", "unique_counts", "unique_inverse", "unique_values"]


class UniqueAll(NamedTuple):
    """`values` are the distinct elements, `indices` the place of the first of each in row-major order,
    `inverse_indices` for each element which one it is, `counts` how often each occurs."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """Distinct elements, and how often each occurs."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """Distinct elements, and for each element of the argument which one it is."""

    values: Array
    inverse_indices: Array


def _stored(x: Any) -> tuple[np.ndarray, np.ndarray, Any] | None:
    """Coordinates and values of entries other than the fill, and that; None if more than half is stored."""
    found = x if isinstance(x, Tensor) else compute(Array(as_expression(x)))
    if not hasattr(found, "entries") or not found.shape:
        return None
    coordinates, values = found.entries()
    if len(values) * 2 > math.prod(found.shape):
        return None
    differs = values != found.fill
    return coordinates[:, differs], values[differs], found.fill


class _Lines:
    """The lines along an axis that entries are in: the `order` by line, and by `keys` within each; and in
    this order the number of each entry's line, and its place there. Each line has a length."""

    def __init__(self, coordinates: np.ndarray, at: int, keys: np.ndarray):
        others = np.delete(coordinates, at, axis=0)
        self.order = np.lexsort((keys, *others))
        begins: Any = np.diff(others[:, self.order], axis=1, prepend=-1).any(axis=0)
        begins[:1] = True  # of a vector, too
        self.numbers, starts = np.cumsum(begins) - 1, np.flatnonzero(begins)
        self.places = np.arange(len(keys)) - starts[self.numbers]
        self.lengths = np.diff(starts, append=len(keys))


def _axis_of(x: Any, axis: int) -> int:
    return normalized_axis(axis, len(as_expression(x).shape))


def _along(x: Any, axis: int | None) -> tuple[Any, int]:
    return (ravel(x), 0) if axis is None else (x, _axis_of(x, axis))


def sort(
    x: Any, /, *, axis: int | None = -1, descending: bool = False, stable: bool = True
) -> Array:
    """The elements in order along an axis, NaN last, or first if descending; always stable. With None for
    the axis they are those of `ravel(x)`, as in all functions here that take None. Of a tensor that stores
    at most half of its elements only these are sorted: the result is sparse with the same fill. Raises
    TypeError if a dense array is needed and much larger than the memory of `x`."""
    x, at = _along(x, axis)
    stored = _stored(x)
    if stored is None:
        found = np.sort(dense_array(x), axis=at, kind="stable")
        return asarray(np.flip(found, at) if descending else found)
    coordinates, values, fill = stored
    shape = as_expression(x).shape
    lines = _Lines(coordinates, at, values)
    coordinates, values, places = coordinates[:, lines.order], values[lines.order], lines.places
    counts = lines.lengths[lines.numbers]
    # in each line: the entries below the fill, then the fills, then the entries above it and NaN
    is_after = np.sort([fill, fill])[0] < values if fill == fill else np.zeros(len(values), bool)
    is_after |= values != values
    places = places + np.where(is_after, shape[at] - counts, 0)
    coordinates[at] = shape[at] - 1 - places if descending else places
    are_dense = shape[-1] <= max(MANY, len(values)), False
    format = list_format(type_of(values.dtype), len(shape), fill, are_dense)
    return asarray(Tensor(format, *shape).holding(coordinates, values))


def argsort(
    x: Any, /, *, axis: int | None = -1, descending: bool = False, stable: bool = True
) -> Array:
    """The coordinates, from 0, that put the elements along an axis in order; equal elements keep theirs."""
    x, at = _along(x, axis)
    given = dense_array(x)
    if not descending:
        return asarray(np.argsort(given, axis=at, kind="stable"))
    found = np.argsort(np.flip(given, at), axis=at, kind="stable")
    return asarray(given.shape[at] - 1 - np.flip(found, at))


def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Array:
    """The places, from 0, at which to insert the elements of `x2` into the sorted vector `x1` (sorted by
    `sorter`, if given): before equal elements, or with `side="right"` after them."""
    order = None if sorter is None else dense_array(sorter)
    return asarray(np.searchsorted(dense_array(x1), dense_array(x2), side, order))  # type: ignore


def nonzero(x: Any, /) -> tuple[Array, ...]:
    """For each axis the coordinates, from 0, of the elements that are not 0, in row-major order. Raises
    ValueError for an array without dimensions."""
    if not as_expression(x).shape:
        raise ValueError("an array without dimensions has no coordinates")
    stored = _stored(x)
    if stored is None or stored[2]:
        return tuple([asarray(row) for row in np.nonzero(dense_array(x))])
    coordinates = stored[0][:, np.lexsort(stored[0][::-1])]
    return tuple([asarray(np.ascontiguousarray(row)) for row in coordinates])


def unique_counts(x: Any, /) -> UniqueCounts:
    """The distinct elements in order, and how often each occurs; each NaN is distinct."""
    stored = _stored(x)
    if stored is None or stored[2] != stored[2]:
        found = np.unique(dense_array(x), return_counts=True, equal_nan=False)
    else:
        values, counts = np.unique(stored[1], return_counts=True, equal_nan=False)
        rest = math.prod(as_expression(x).shape) - len(stored[1])
        at = [np.searchsorted(values, stored[2])] if rest else []
        found = np.insert(values, at, stored[2]), np.insert(counts, at, rest)
    return UniqueCounts(asarray(found[0]), asarray(found[1]))


def unique_values(x: Any, /) -> Array:
    """The distinct elements in order; each NaN is distinct."""
    return unique_counts(x).values


def unique_inverse(x: Any, /) -> UniqueInverse:
    """The distinct elements in order, and for each element of `x` its place among them."""
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_all(x: Any, /) -> UniqueAll:
    """As `unique_counts`, with the first place of each in row-major order and the place of each element."""
    found = np.unique(dense_array(x), True, True, True, equal_nan=False)
    values, indices, inverse, counts = map(asarray, found)
    shape = as_expression(x).shape
    return UniqueAll(values, indices, asarray(compute(inverse).reshape(shape)), counts)


def _accumulated(function: Any, lines: _Lines, values: np.ndarray, dtype: Any) -> np.ndarray:
    """The results for lines of values one after the other. Lines of about the same length are the rows of
    one array, of at most twice as many elements."""
    found, rounded = np.empty(len(values), dtype), np.frexp(lines.lengths)[1]
    for one in np.unique(rounded):
        (own,) = np.nonzero(rounded[lines.numbers] == one)
        rows = np.cumsum(rounded == one) - 1
        at = rows[lines.numbers[own]], lines.places[own]
        block = np.zeros((rows[-1] + 1, at[1].max() + 1), values.dtype)
        block[at] = values[own]
        found[own] = function(block, axis=1, dtype=dtype)[at]
    return found


def _in_runs(function: Any, x: Any, at: int, dtype: Any, initial: int, offset: int) -> Array:
    """The results along an axis of a tensor with the fill `initial`, `offset` places later, as runs."""
    coordinates, values = x.entries()
    others = [k for k in range(len(x.shape)) if k != at]
    lines = _Lines(coordinates, at, coordinates[at])
    coordinates, values = coordinates[:, lines.order], values[lines.order]
    found = _accumulated(function, lines, values, dtype)
    before = np.where(lines.places, np.roll(found, 1), initial)
    is_new = (found != before) & ((found == found) | (before == before))
    coordinates, found, numbers = coordinates[:, is_new], found[is_new], lines.numbers[is_new]
    ends = np.full(len(found), x.shape[at] - 1)
    goes_on = np.flatnonzero(numbers[1:] == numbers[:-1])
    ends[goes_on] = coordinates[at, goes_on + 1] - 1
    stored = found != initial
    sizes = [x.shape[at] + offset, *[x.shape[k] for k in others]]
    coordinates = coordinates[[at, *others]][:, stored]
    coordinates[0] += offset
    leaf = Element(typed_literal(found.dtype.type(initial).item(), type_of(found.dtype)))
    body = Tensor(nest_of([False] * len(others), SparseRunList(leaf)), *sizes)
    body.holding(coordinates, found[stored])
    body.memory.storage(body.format)[-2]["right"][:] = ends[stored] + offset
    return asarray(swizzled(body, permuted(body.format, (at + 1, *[k + 1 for k in others]))))


def _cumulative(name: str, function: Any, initial: int) -> tuple[Callable[..., Array], ...]:
    def standard(
        x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
    ) -> Array:
        if axis is None and len(as_expression(x).shape) != 1:
            raise ValueError("an axis is needed for an array that is no vector")
        at, dtype = _axis_of(x, axis or 0), None if dtype is None else type_of(dtype).dtype
        x = x if isinstance(x, (Tensor, np.ndarray)) else compute(Array(as_expression(x)))
        if getattr(x, "fill", None) == initial and is_much_smaller(x):
            dtype = function(np.empty(0, x.dtype), dtype=dtype).dtype
            return _in_runs(function, x, at, dtype, initial, int(include_initial))
        found = function(dense_array(x), axis=at, dtype=dtype)
        if include_initial:
            shape = (*found.shape[:at], 1, *found.shape[at + 1 :])
            found = np.concatenate((np.full(shape, initial, found.dtype), found), axis=at)
        return asarray(found)

    def short(x: Any, /, axis: int | None = None, dtype: Any = None) -> Array:
        return standard(ravel(x) if axis is None else x, axis=axis, dtype=dtype)

    doc = f"""The cumulative {name} along an axis, none for a vector. With `include_initial` it starts with
    {initial}. Of a tensor with the fill {initial} that a dense array would be much larger than, the result
    has runs along the axis. Raises ValueError if an axis is needed; TypeError for a large sparse array of
    another fill."""
    own = f"As `cumulative_{name}`, but of all elements in row-major order if no axis is given."
    return named(standard, f"cumulative_{name}", doc), named(short, f"cum{name}", own)


cumulative_sum, cumsum = _cumulative("sum", np.cumsum, 0)
cumulative_prod, cumprod = _cumulative("prod", np.cumprod, 1)


def diff(
    x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None
) -> Array:
    """The differences of neighbours along an axis, taken `n` times, of `x` with `prepend` before and
    `append` after it; of Bools whether neighbours differ. Raises ValueError for a negative `n`."""
    at = _axis_of(x, axis)
    end = [1 if k == at else size for k, size in enumerate(as_expression(x).shape)]
    given = [part for part in (prepend, x, append) if part is not None]
    parts = [part if np.ndim(part) else broadcast_to(part, end) for part in given]
    found = concat(parts, axis=at) if len(parts) > 1 else x
    if n < 0:
        raise ValueError(f"differences are taken 0 times or more, not {n}")
    for _ in range(n):
        ends = slice(1, None), slice(None, -1)
        later, earlier = (along(found, {at: end}) for end in ends)
        found = (not_equal if later.dtype == np.bool_ else subtract)(later, earlier)
    return Array(as_expression(found))


def meshgrid(*arrays: Any, indexing: str = "xy") -> list[Array]:
    """Vectors as arrays of one shape, each along its own axis; with "xy" the first vector is along the
    second axis, and the second along the first."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f'indexing is "xy" or "ij", not {indexing!r}')
    axes = list(range(len(arrays)))
    if indexing == "xy" and len(arrays) > 1:
        axes[:2] = 1, 0
    others = [[axis for axis in range(len(arrays)) if axis != own] for own in axes]
    wide = [expand_dims(ravel(x), axis=new) for x, new in zip(arrays, others, strict=True)]
    return broadcast_arrays(*wide)


def take_along_axis(x: Any, indices: Any, /, *, axis: int | None = -1) -> Array:
    """The elements of `x` at `indices` along an axis, from 0: each line has coordinates of its own."""
    x, at = _along(x, axis)
    return asarray(np.take_along_axis(dense_array(x), dense_array(indices), at))


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array of another library by DLPack, over its own memory if that is possible. Raises TypeError for
    what has no `__dlpack__`."""
    if not hasattr(x, "__dlpack__"):
        raise TypeError(f"from_dlpack takes an array with `__dlpack__`, not {foreign(x)}")
    return asarray(np.from_dlpack(x, copy=copy))
