"""Entries as arrays of coordinates and values: sorted, summed where coordinates repeat, and numbered by
the subtensors they belong to."""

from __future__ import annotations

from math import prod

import numpy as np

from finchlang.base.errors import FinchError


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
    new = np.ones(len(values), bool)
    new[1:] = np.any(outer[:, 1:] != outer[:, :-1], axis=0)
    starts = [*np.flatnonzero(new), len(values)]
    rows = np.vstack((inner, numbers)).T
    known: dict[bytes, int] = {}
    found = [
        known.setdefault(rows[a:b].tobytes(), len(known))
        for a, b in zip(starts, starts[1:], strict=False)
    ]
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
) -> tuple[np.ndarray, np.ndarray]:
    """The entries sorted by their coordinates (a row for each mode), each coordinate once. Values at the
    same coordinates are summed as `dtype`; of Bool the result is whether one is true. Raises FinchError
    "type" for repeated coordinates if `duplicates` is "error", or if the values are pairs."""
    if not is_sorted(coordinates):
        order = _order(coordinates)
        coordinates, values = coordinates[:, order], values[order]
    new = np.ones(len(values), bool)
    new[1:] = np.any(coordinates[:, 1:] != coordinates[:, :-1], axis=0)
    if new.all():
        return coordinates, values
    if duplicates == "error" or dtype.names:
        at = ", ".join(map(str, coordinates[:, np.argmin(new)]))
        raise FinchError("type", f"there is more than one value at the coordinates ({at})")
    add = np.logical_or if dtype == np.bool_ else np.add
    return coordinates[:, new], add.reduceat(values, np.flatnonzero(new), dtype=dtype)


def _order(coordinates: np.ndarray) -> np.ndarray:
    """The permutation that sorts entries by their coordinates, and is stable. They are sorted as one
    number each if that fits in 64 bits, which takes a tenth of the time if they are distinct."""
    sizes = [int(row.max()) + 1 for row in coordinates]
    if prod(sizes) >= 2**63:
        return np.lexsort(coordinates)
    number = np.zeros(coordinates.shape[1], np.int64)
    for row, size in zip(coordinates[::-1], sizes[::-1], strict=True):
        number = number * size + row
    order = np.argsort(number)
    at = number[order]
    # the faster sort is not stable, which matters only if numbers repeat
    return order if np.all(at[1:] > at[:-1]) else np.argsort(number, kind="stable")


def mirrored(
    coordinates: np.ndarray, values: np.ndarray, is_skew: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The entries of a square matrix together with those mirrored at its diagonal, negated if it
    `is_skew`."""
    off = coordinates[0] != coordinates[1]
    others = -values[off] if is_skew else values[off]
    both = np.hstack((coordinates, coordinates[::-1][:, off]))
    return both, np.concatenate((values, others))
