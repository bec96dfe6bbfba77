"""Compiled kernels, and how they are called."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from finchlang.base.errors import Bug, FinchError, failure
from finchlang.native.abi import FAILED, NO_MEMORY, OK, Layout, words

#: the procedures that Python calls kernels by, and that gives the address of an object's buffer
CALL, ADDRESS = "call", "address"

#: from the arrays of a kernel's buffers to the status of the call
Entry = Callable[[list[Any]], int]


class _Method(ctypes.Structure):
    """How Python describes a built-in function (`PyMethodDef`)."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_ONE_ARGUMENT = 8  # METH_O

_make = ctypes.pythonapi.PyCFunction_NewEx
_make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
_make.restype = ctypes.py_object

_methods: dict[int, _Method] = {}


def built_in(procedure: int, first: Any) -> Any:
    """The procedure at an address, which takes and returns Python objects, as a built-in function of its
    second argument; its first argument is `first`."""
    if procedure not in _methods:
        method = _methods[procedure] = _Method(b"kernel", procedure, _ONE_ARGUMENT, None)
        # the function reads it even when it is freed, which may be after this module is gone
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(method))
    return _make(ctypes.addressof(_methods[procedure]), first, None)


free = ctypes.pythonapi.PyMem_RawFree
free.argtypes, free.restype = [ctypes.c_void_p], None


class _Memory:
    """Memory allocated by a kernel, which begins at `begin`, freed with the last array that uses it. It is
    taken from these slots of the kernel: `release` frees the others."""

    __slots__ = ("__array_interface__", "begin")

    def __init__(self, slots: Any, at: int, dtype: np.dtype):
        self.__array_interface__ = {
            "version": 3,
            "data": (slots[at], False),
            "shape": (slots[at + 1],),
            "typestr": dtype.str,
        }
        # with no call in between, where an interrupt may come, so that it has one owner
        self.begin, slots[at + 2] = slots[at + 2], 0

    def __del__(self, free=free) -> None:
        if hasattr(self, "begin"):  # or an interrupt came before it was
            free(self.begin)


class NativeKernel:
    """A compiled residual program. `layout` is what is known of it, `object_name` the name of its object
    code in the disk cache, if it is there.

    `entry`, given the arrays of the buffers, is the bare native call on them and on the inputs in `slots`,
    which are laid out by `layout`. It returns a status (`abi.py`), and does not undo what it has
    overwritten.
    """

    def __init__(
        self, layout: Layout, slots: Any, entry: Entry, code: Any, object_name: str | None = None
    ):
        self.layout, self.slots, self.entry, self.object_name = layout, slots, entry, object_name
        self._code = code  # keeps the machine code in memory
        self._inputs, self._outputs = words(layout.inputs), words(layout.outputs)
        self._at = 8 * layout.first_input, 8 * layout.first_output
        self._begins = struct.Struct("=" + "16xq" * len(layout.buffers))
        self._dtypes = [type.dtype for type in layout.buffers]

    def call(self, arrays: list[np.ndarray], inputs: list[Any]) -> list[Any]:
        """Run on the arrays of the buffers, which are contiguous, and on inputs; returns the outputs as
        Python numbers. Only one call is made at a time.

        Raises FinchError (or Bug) of the kind of a Fail statement that is reached, of kind resource without
        enough memory, of kind interrupted at Ctrl-C, and whatever a signal's handler raises. Arrays are
        then as the kernel left them; memory that it allocated is freed.
        """
        first_input, first_output = self._at
        self._inputs.pack_into(self.slots, first_input, *inputs)
        try:
            status = self.entry(arrays)
        except BaseException as error:
            self.release()
            if isinstance(error, KeyboardInterrupt):
                what = {"unit": "the loop or function"}.get(self.layout.name, "the kernel")
                message = f"{what} was stopped by Ctrl-C; its outputs are as they were"
                raise FinchError("interrupted", message) from None
            raise
        if status != OK:
            self.release()
            raise self._error(status)
        return [*self._outputs.unpack_from(self.slots, first_output)]

    def grown(self) -> dict[int, np.ndarray]:
        """The memory that the last call allocated, by numbers of buffers; it can be taken only once."""
        slots, begins = self.slots, self._begins.unpack_from(self.slots)
        found: dict[int, np.ndarray] = {}
        if any(begins):
            for number, begin in enumerate(begins):
                if begin:
                    dtype = self._dtypes[number]
                    array = np.asarray(_Memory(slots, 3 * number, dtype))
                    found[number] = array.view(dtype) if dtype.names else array
        return found

    def release(self) -> None:
        """Free the memory that the last call allocated and nobody took by `grown`."""
        for number in self.layout.grown:
            begin = self.slots[3 * number + 2]
            if begin:
                self.slots[3 * number + 2] = 0
                free(begin)

    def _error(self, status: int) -> FinchError | Bug:
        layout = self.layout
        if status == NO_MEMORY:
            return FinchError("resource", f"{layout.name} ran out of memory")
        if status != FAILED:
            raise Bug(f"{layout.name} returned {status}")
        fail = layout.failures[self.slots[layout.failure]]
        values = words(fail.values).unpack_from(self.slots, 8 * (layout.failure + 1))
        said = len(values) - fail.noted
        message = fail.message.format(*values[:said])
        return failure(fail.kind, message, fail.span, values[said:])
