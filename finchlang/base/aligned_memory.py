"""Memory for our arrays, aligned to ALIGNMENT bytes: a load across cache lines takes twice as long."""

from __future__ import annotations

import math

import numpy as np

from finchlang.base.memory_limit import NoMemory, check_available

#: bytes of a cache line, and of the widest vector
ALIGNMENT = 64


def empty_aligned(shape: int | tuple[int, ...], dtype: np.dtype | type) -> np.ndarray:
    """As numpy.empty in Fortran order, aligned. Raises NoMemory for any size that is too large."""
    kind = np.dtype(dtype)
    size = kind.itemsize * (math.prod(shape) if isinstance(shape, tuple) else shape)
    check_available(size)
    try:
        memory = np.empty(size + ALIGNMENT - 1, np.uint8)
    except (MemoryError, ValueError):  # the latter beyond the address space
        raise NoMemory("resource", f"no memory for an array of {shape}") from None
    first = -memory.__array_interface__["data"][0] % ALIGNMENT
    return memory[first : first + size].view(kind).reshape(shape, order="F")


def full_aligned(shape: int | tuple[int, ...], value: object, dtype: np.dtype | type) -> np.ndarray:
    """As numpy.full in Fortran order, aligned."""
    array = empty_aligned(shape, dtype)
    array[...] = value
    return array


def aligned_copy(array: np.ndarray) -> np.ndarray:
    """An aligned copy of `array`, of one dimension."""
    copy = empty_aligned(len(array), array.dtype)
    copy[...] = array
    return copy
