"""Pointer arrays in NumPy: fiber p lists the entries ptr[p] to ptr[p + 1] - 1."""

from __future__ import annotations

import numpy as np


def ranges(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The numbers 0..n - 1 for each n in `lengths`, one after the other: for each number the index of its
    length, and the number."""
    which = np.repeat(np.arange(len(lengths)), lengths)
    before = np.cumsum(lengths) - lengths
    return which, np.arange(len(which)) - before[which]


def listed_at(ptr: np.ndarray, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each entry listed by the fibers at `positions`: the index of its fiber in `positions`, and its
    own position."""
    starts = ptr[positions].astype(np.int64)
    which, nth = ranges(ptr[positions + 1].astype(np.int64) - starts)
    return which, starts[which] + nth


def pointers(fibers: np.ndarray, count: int) -> np.ndarray:
    """The pointer array for entries in the given fibers, of 0..count - 1."""
    ptr = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(fibers, minlength=count), out=ptr[1:])
    return ptr


def are_new(*rows: np.ndarray) -> np.ndarray:
    """A mask of the entries that differ from the one before in any of `rows`."""
    new = np.ones(len(rows[0]), bool)
    new[1:] = np.any([row[1:] != row[:-1] for row in rows], axis=0)
    return new
