"""What fibers list, from ptr[p] to ptr[p + 1] - 1, as NumPy arrays: how it is packed, unpacked and
checked."""

from __future__ import annotations

import numpy as np


def ranges(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """0, 1, ... up to each of `lengths`, one after the other: for each number, which of the lengths
    it belongs to, and itself."""
    which = np.repeat(np.arange(len(lengths)), lengths)
    before = np.cumsum(lengths) - lengths
    return which, np.arange(len(which)) - before[which]


def listed_at(ptr: np.ndarray, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each entry listed by the fibers at `positions`: which of them, and its own position."""
    starts = ptr[positions].astype(np.int64)
    which, nth = ranges(ptr[positions + 1].astype(np.int64) - starts)
    return which, starts[which] + nth


def pointers(fibers: np.ndarray, count: int) -> np.ndarray:
    """`ptr` for entries in fibers 0..count - 1."""
    ptr = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(fibers, minlength=count), out=ptr[1:])
    return ptr


def are_new(*rows: np.ndarray) -> np.ndarray:
    """Whether an entry differs from the one before it in any of `rows`."""
    new = np.ones(len(rows[0]), bool)
    new[1:] = np.any([row[1:] != row[:-1] for row in rows], axis=0)
    return new
