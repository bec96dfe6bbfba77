"""How Python calls a kernel: as a built-in function of a list of arrays, which gives a status.

A call through `ctypes` takes 0.4 us more, and 12 us more where the arrays of a large kernel have
driven everything else from the processor's caches.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

#: The procedure that kernels are called by; like `grow` it is LLVM's, and compiled on its own.
CALL = "call"

#: `call((entry, slots), arrays)`: puts where each array of a list is, and its room, into the slots, and
#: runs. Where memory is is found by the buffer protocol, with nothing between that and the run. Null is
#: returned for an array that is not contiguous, or if a signal's handler raised an exception, which
#: then comes through.
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

#: The procedure that tells where an object's buffer is.
ADDRESS = "address"

#: `address(nothing, object)`: through the buffer protocol, an array's first entry, whatever its
#: strides. It takes an eighth of the time of `__array_interface__`.
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

#: the arrays of a kernel's buffers to the status of the call
Entry = Callable[[list[Any]], int]


class _Method(ctypes.Structure):
    """What Python must know of a built-in function (`PyMethodDef`)."""

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
    """The procedure at an address, which takes and gives Python's objects, as a built-in function of
    its second argument; the first is `first`."""
    if procedure not in _methods:
        method = _methods[procedure] = _Method(b"kernel", procedure, _ONE_ARGUMENT, None)
        # a function looks into it even when it is freed, which may be after this module was
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(method))
    return _make(ctypes.addressof(_methods[procedure]), first, None)
