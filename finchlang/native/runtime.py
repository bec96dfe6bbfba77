"""What native code needs of the running process: symbols to link with, and addresses."""

from __future__ import annotations

import ctypes
from typing import Any

_EXPORTS = (
    *("PyErr_CheckSignals", "PyErr_Occurred", "PyLong_AsVoidPtr", "PyLong_FromLong"),
    *("PyMem_RawMalloc", "PyMem_RawRealloc", "PyObject_GetBuffer", "PyBuffer_Release"),
    *("PyList_Size", "PyList_GetItem", "PyTuple_GetItem"),
)

#: Functions of the interpreter that kernels call, by the name they are linked with. (Kernels run
#: holding the GIL; the C library's mathematics is found in the process itself.)
SYMBOLS: dict[str, int] = {
    name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0
    for name in _EXPORTS
}


def new_slots(size: int) -> Any:
    """`size` 64-bit words, all 0; assigning an unsigned integer keeps its bits."""
    return (ctypes.c_int64 * size)()


def address_of(slots: Any) -> int:
    """Where `slots` are in memory."""
    return ctypes.addressof(slots)
