"""Memory that kernels allocate, and how it becomes an array."""

from __future__ import annotations

import ctypes

import numpy as np

free = ctypes.pythonapi.PyMem_RawFree
free.argtypes, free.restype = [ctypes.c_void_p], None


class _Memory:
    """Memory allocated by a kernel, freed with the last array that uses it."""

    __slots__ = ("__array_interface__", "begin")

    def __init__(self, address: int, capacity: int, begin: int, dtype: np.dtype):
        self.begin = begin
        self.__array_interface__ = {
            "version": 3,
            "data": (address, False),
            "shape": (capacity,),
            "typestr": dtype.str,
        }

    def __del__(self, free=free) -> None:
        free(self.begin)


def adopt(address: int, capacity: int, begin: int, dtype: np.dtype) -> np.ndarray:
    """The `capacity` entries at `address`, in memory that a kernel allocated and that begins at `begin`, as
    an array that owns this memory."""
    array = np.asarray(_Memory(address, capacity, begin, dtype))
    return array.view(dtype) if dtype.names else array
