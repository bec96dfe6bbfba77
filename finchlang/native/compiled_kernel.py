"""Compiled kernels, and how they are called."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from finchlang.base.errors import Bug, FinchError, failure
from finchlang.native.abi import FAILED, NO_MEMORY, OK, Layout, packer, unpacker
from finchlang.native.growable_arrays import adopt, free

#: the procedure that Python calls kernels by; written as LLVM text, and compiled on its own
CALL = "call"

#: `call((entry, slots), arrays)` puts the address and the capacity of each array of a list into the slots,
#: and runs the kernel. Addresses are asked for by the buffer protocol right before the run, so that nothing
#: can move the arrays in between. Null is returned, with the exception set, for an array that is not
#: contiguous, or if a signal's handler raised an exception.
TEXT = """
define ptr @call(ptr %kernel, ptr %arrays) nounwind {
start:
  %view = alloca [10 x i64]
  %bytes.at = getelementptr i64, ptr %view, i64 2
  %width.at = getelementptr i64, ptr %view, i64 3
  %entry = call ptr @PyTuple_GetItem(ptr %kernel, i64 0)
  %address = call ptr @PyTuple_GetItem(ptr %kernel, i64 1)
  %function = call ptr @PyLong_AsVoidPtr(ptr %entry)
  %slots = call ptr @PyLong_AsVoidPtr(ptr %address)
  %count = call i64 @PyList_Size(ptr %arrays)
  br label %next
next:
  %k = phi i64 [ 0, %start ], [ %after, %fill ]
  %is.one = icmp slt i64 %k, %count
  br i1 %is.one, label %look, label %run
look:
  %array = call ptr @PyList_GetItem(ptr %arrays, i64 %k)
  %found = call i32 @PyObject_GetBuffer(ptr %array, ptr %view, i32 152)
  %is.there = icmp eq i32 %found, 0
  br i1 %is.there, label %fill, label %raise
fill:
  %buffer = load i64, ptr %view
  %bytes = load i64, ptr %bytes.at
  %width = load i64, ptr %width.at
  %room = sdiv i64 %bytes, %width
  %first = mul i64 %k, 3
  %slot = getelementptr i64, ptr %slots, i64 %first
  %room.at = getelementptr i64, ptr %slot, i64 1
  %begin.at = getelementptr i64, ptr %slot, i64 2
  store i64 %buffer, ptr %slot
  store i64 %room, ptr %room.at
  store i64 0, ptr %begin.at
  call void @PyBuffer_Release(ptr %view)
  %after = add i64 %k, 1
  br label %next
run:
  %status = call i32 %function(ptr %slots)
  %raised = call ptr @PyErr_Occurred()
  %is.raised = icmp ne ptr %raised, null
  br i1 %is.raised, label %raise, label %end
raise:
  ret ptr null
end:
  %wide = sext i32 %status to i64
  %number = call ptr @PyLong_FromLong(i64 %wide)
  ret ptr %number
}"""

#: the procedure that gives the address of an object's buffer
ADDRESS = "address"

#: `address(nothing, object)`: the address of an array's first entry, whatever its strides, by the buffer
#: protocol, which takes an eighth of the time of `__array_interface__`
TEXT_OF_ADDRESS = """
define ptr @address(ptr %nothing, ptr %object) nounwind {
start:
  %view = alloca [10 x i64]
  %status = call i32 @PyObject_GetBuffer(ptr %object, ptr %view, i32 24)
  %is.there = icmp eq i32 %status, 0
  br i1 %is.there, label %found, label %none
found:
  %buffer = load i64, ptr %view
  call void @PyBuffer_Release(ptr %view)
  %number = call ptr @PyLong_FromLong(i64 %buffer)
  ret ptr %number
none:
  ret ptr null
}"""

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
_make.argtypes, _make.restype = (
    [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p],
    ctypes.py_object,
)

_methods: dict[int, _Method] = {}


def built_in(procedure: int, first: Any) -> Any:
    """The procedure at an address, which takes and returns Python objects, as a built-in function of its
    second argument; its first argument is `first`."""
    if procedure not in _methods:
        method = _methods[procedure] = _Method(b"kernel", procedure, _ONE_ARGUMENT, None)
        # the function reads it even when it is freed, which may be after this module is gone
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(method))
    return _make(ctypes.addressof(_methods[procedure]), first, None)


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
        pack = [packer(type) for type in layout.inputs]
        self._packed = [(k, p) for k, p in enumerate(pack) if p is not int]
        unpack = [unpacker(type) for type in layout.outputs]
        self._unpacked = [(k, u) for k, u in enumerate(unpack) if u is not int]
        self._inputs = slice(layout.first_input, layout.first_output)
        self._outputs = slice(layout.first_output, layout.failure)

    def call(self, arrays: list[np.ndarray], inputs: list[Any]) -> list[Any]:
        """Run on the arrays of the buffers, which are contiguous, and on inputs (this changes `inputs`);
        returns the outputs as Python numbers. Only one call is made at a time.

        Raises FinchError (or Bug) of the kind of a Fail statement that is reached, of kind resource without
        enough memory, of kind interrupted at Ctrl-C, and whatever a signal's handler raises. Arrays are
        then as the kernel left them; memory that it allocated is freed.
        """
        for k, pack in self._packed:
            inputs[k] = pack(inputs[k])
        slots = self.slots
        slots[self._inputs] = inputs
        try:
            status = self.entry(arrays)
        except BaseException as error:
            self.release()
            if isinstance(error, KeyboardInterrupt):
                message = f"{self.layout.name} was interrupted"
                raise FinchError("interrupted", message) from None
            raise
        if status != OK:
            self.release()
            raise self._error(status)
        outputs = slots[self._outputs]
        for k, unpack in self._unpacked:
            outputs[k] = unpack(outputs[k])
        return outputs

    def grown(self, number: int, dtype: np.dtype) -> np.ndarray | None:
        """The new memory of buffer `number`, if the last call allocated any; it can be taken only once."""
        slots, at = self.slots, 3 * number
        begin = slots[at + 2]
        if not begin:
            return None
        slots[at + 2] = 0
        return adopt(slots[at], slots[at + 1], begin, dtype)

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
        words = self.slots[layout.failure + 1 : layout.failure + 1 + len(fail.values)]
        values = [unpacker(type)(word) for type, word in zip(fail.values, words, strict=True)]
        return failure(fail.kind, fail.message.format(*values), fail.span)
