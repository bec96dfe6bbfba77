"""Entries as arrays of coordinates and values: checked, sorted, summed where coordinates repeat, and
numbered by the subtensors they belong to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from finchlang.base.errors import FinchError
from finchlang.levels.numpy_layout import are_new
from finchlang.syntax.types import Type

#: coordinates, a row for each mode, and values
Entries = tuple[np.ndarray, np.ndarray]


def masked_entries(name: str) -> FinchError:
    """The error for a masked array of NumPy; `name` is what its hint calls it."""
    message = "a masked array is no tensor: what is masked has no value"
    hint = f"`{name}.filled(0.0)` gives the masked entries a value"
    return FinchError("type", message, None, hint)


def array_of(given: Any, what: str) -> np.ndarray:
    """An array, number or lists as a NumPy array. Raises FinchError "type"."""
    if isinstance(given, np.ma.MaskedArray):
        raise masked_entries("x")
    try:
        return np.asarray(given)
    except ValueError:  # lists of different lengths
        raise FinchError("type", f"{what} are no array") from None


def values_of(type: Type, given: Any) -> np.ndarray:
    """Values as an array of an element type. Integers wrap around, as where a kernel stores them, floats
    are rounded, and of Bool a number is whether it is not 0. Raises FinchError "type" for what is no
    number, and for floats of which an integer type would keep something else."""
    array = array_of(given, "the values")
    if type.dtype.names or array.dtype.names:
        is_kept = array.dtype == type.dtype
    else:
        is_kept = array.dtype.kind in "biuf"
    with np.errstate(all="ignore"):
        found = array.astype(type.dtype, copy=False) if is_kept else array
    if not is_kept or type.is_integer and array.dtype.kind == "f" and np.any(found != array):
        hint = "`round.(x)` rounds them, in Python `np.rint(x)`" if is_kept else None
        raise FinchError("type", f"values of {array.dtype} cannot be kept as {type}", None, hint)
    return found


def coordinates_of(order: int, given: Sequence[Any], count: int) -> list[np.ndarray]:
    """The coordinates of `count` entries, an array for each of `order` modes. Raises FinchError "dimension"
    for others, "type" for those that are no integers."""
    given = given if isinstance(given, Iterable) else ()
    rows = [array_of(row, "the coordinates").reshape(-1) for row in given]
    if len(rows) != order or any(len(row) != count for row in rows):
        told = f"coordinates of {order} modes for {count} values"
        raise FinchError("dimension", f"these are no {told}")
    for row in rows:
        if count and row.dtype.kind not in "iu":
            raise FinchError("type", f"coordinates are integers, not {row.dtype}")
    return rows


def check_within(coordinates: Any, shape: Sequence[int], what: str = "") -> None:
    """Raises FinchError "bounds" for coordinates outside of `shape`; `what` begins its message."""
    for mode, (row, size) in enumerate(zip(coordinates, shape, strict=True), 1):
        if len(row) and not (row.min() >= 0 and row.max() < size):
            message = f"{what}a coordinate of mode {mode} is not within its size, {size}"
            raise FinchError("bounds", message)


def chosen(kept: np.ndarray, coordinates: np.ndarray, values: np.ndarray) -> Entries:
    """The entries that a mask keeps, without a copy if it keeps all."""
    return (coordinates, values) if kept.all() else (coordinates[:, kept], values[kept])


def content_numbers(coordinates: np.ndarray, values: np.ndarray, modes: int) -> np.ndarray:
    """For entries sorted by `coordinates` (a row for each mode; the last mode is the first sort key): a
    number for each, equal for two entries if and only if the subtensors of the first `modes` modes that
    they belong to have the same values (`element.same_value`) at the same coordinates."""
    if not len(values):
        return np.zeros(0, np.int64)
    parts = [values[name] for name in values.dtype.names or ()] or [values]
    numbers = np.zeros(len(values), np.int64)
    for part in parts:
        own = np.unique(part, return_inverse=True)[1].reshape(-1).astype(np.int64)
        numbers = numbers * len(values) + own
    if modes == 0:
        return numbers
    inner, outer = coordinates[:modes], coordinates[modes:]
    new = are_new(np.zeros(len(values)), *outer)
    starts = [*np.flatnonzero(new), len(values)]
    rows = np.vstack((inner, numbers)).T
    known: dict[bytes, int] = {}
    keys = [rows[a:b].tobytes() for a, b in zip(starts, starts[1:], strict=False)]
    found = [known.setdefault(key, len(known)) for key in keys]
    return np.array(found)[np.cumsum(new) - 1]


def is_sorted(coordinates: np.ndarray) -> bool:
    """Whether entries are sorted by their coordinates, the last mode being the first key."""
    equal: np.ndarray | bool = True
    for row in coordinates[::-1]:
        if np.any(equal & (row[1:] < row[:-1])):
            return False
        equal = equal & (row[1:] == row[:-1])
    return True


def summed(
    coordinates: np.ndarray, values: np.ndarray, dtype: np.dtype, duplicates: str = "sum"
) -> Entries:
    """The entries sorted by their coordinates (a row for each mode), each coordinate once. Values at the
    same coordinates are summed as `dtype`; of Bool the result is whether one is true. Raises FinchError
    "type" for repeated coordinates if `duplicates` is "error", or if the values are pairs."""
    if not is_sorted(coordinates):
        coordinates, order = _ordered(coordinates)
        values = values[order]
    new = are_new(*coordinates) if len(coordinates) else np.arange(len(values)) == 0
    if new.all():
        return coordinates, values
    if duplicates == "error" or dtype.names:
        at = ", ".join(map(str, coordinates[:, np.argmin(new)]))
        raise FinchError("type", f"there is more than one value at the coordinates ({at})")
    return coordinates[:, new], sum_of(new, values, dtype)


def sum_of(new: np.ndarray, values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The sums of values as `dtype`, each from a place where `new` is true; of Bool whether one is true."""
    add = np.logical_or if dtype == np.bool_ else np.add
    several = ~new  # the values of sums of several: the others stay as they are
    several[:-1] |= several[1:]
    found = values[new].astype(dtype, copy=False)
    sums = add.reduceat(values[several], np.flatnonzero(new[several]), dtype=dtype)
    found[several[new]] = sums
    return found


def _ordered(coordinates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sorted coordinates, and the stable permutation that sorts them. Where 63 bits hold the coordinates of
    an entry and its place, entries are sorted as one number each, in a tenth of the time."""
    count = coordinates.shape[1]
    bits = [int(row.max()).bit_length() for row in coordinates]
    own = (count - 1).bit_length()
    if sum(bits) + own > 63:
        order = np.lexsort(coordinates)
        return coordinates[:, order], order
    key = np.zeros(count, np.int64)
    for row, size in zip(coordinates[::-1], bits[::-1], strict=True):
        key = (key << size) | row
    key = (key << own) | np.arange(count)
    key.sort()
    order = key & ((1 << own) - 1)
    key >>= own
    found = np.empty_like(coordinates)
    for row, size in zip(found, bits, strict=True):
        row[:] = key & ((1 << size) - 1)
        key >>= size
    return found, order


def mirrored(coordinates: np.ndarray, values: np.ndarray, is_skew: bool) -> Entries:
    """The entries of a square matrix with those mirrored at its diagonal, negated if it `is_skew`. Raises
    ValueError for values that have no negative."""
    if is_skew and values.dtype.kind in "bu":
        raise ValueError("a skew-symmetric matrix has signed numbers, and no Bools")
    off = coordinates[0] != coordinates[1]
    others = -values[off] if is_skew else values[off]
    both = np.hstack((coordinates, coordinates[::-1][:, off]))
    return both, np.concatenate((values, others))
