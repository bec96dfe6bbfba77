"""What native code needs of the running process: symbols to link with, and memory it hands over."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

_EXPORTS = (
    *("PyDict_GetItem", "PyErr_CheckSignals", "PyErr_Clear", "PyErr_Occurred", "PyLong_AsVoidPtr"),
    *("PyLong_FromLong", "PyMem_RawMalloc", "PyMem_RawRealloc", "PyObject_GetAttr", "Py_DecRef"),
)

#: Functions of the interpreter that kernels call, by the name they are linked with. (Kernels run
#: holding the GIL; the C library's mathematics is found in the process itself.)
SYMBOLS: dict[str, int] = {
    name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0
    for name in _EXPORTS
}

free = ctypes.pythonapi.PyMem_RawFree
free.argtypes, free.restype = [ctypes.c_void_p], None


def new_slots(size: int) -> Any:
    """`size` 64-bit words, all 0; assigning an unsigned integer keeps its bits."""
    return (ctypes.c_int64 * size)()


def address_of(slots: Any) -> int:
    """Where `slots` are in memory."""
    return ctypes.addressof(slots)


def address_of_array(array: np.ndarray) -> int:
    """Where an array is in memory."""
    return array.__array_interface__["data"][0]


class _Memory:
    """Memory allocated by a kernel, freed with the last array that uses it."""

    __slots__ = ("__array_interface__", "address")

    def __init__(self, address: int, capacity: int, dtype: np.dtype):
        self.address = address
        self.__array_interface__ = {
            "version": 3,
            "data": (address, False),
            "shape": (capacity,),
            "typestr": dtype.str,
        }

    def __del__(self, free=free) -> None:
        free(self.address)


def adopt(address: int, capacity: int, dtype: np.dtype) -> np.ndarray:
    """The `capacity` entries at `address`, allocated by a kernel, as an array that owns them."""
    return np.asarray(_Memory(address, capacity, dtype))


def whole(array: np.ndarray) -> np.ndarray:
    """All of the memory that a kernel allocated, if `array` is the beginning of such memory."""
    base = array.base
    if not isinstance(base, np.ndarray) or not isinstance(base.base, _Memory):
        return array
    is_start = address_of_array(base) == address_of_array(array)
    return base if is_start and base.dtype == array.dtype else array
