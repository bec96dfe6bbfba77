"""How Python calls a kernel: as a built-in function, which saves what the kernel may overwrite, runs
it, and says whether it handed back anything else than the last time.

A call through `ctypes` takes 0.4 us more, and 12 us more where the arrays of a large kernel have
driven everything else from the processor's caches.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

#: The procedures that kernels are called by; like `grow` they are LLVM's, and compiled on their own.
CALL, REPEAT = "call", "repeat"

#: What they return if a kernel that ran to its end handed back something new, and if something is
#: not as it was; else what the kernel does (`layout.py`).
CHANGED, UNKNOWN = 4, 5


def _loads(address: str, *words: str) -> str:
    """Instructions that load the words at an address, each given by a name and a type."""
    lines = []
    for number, (name, kind) in enumerate(map(str.split, words)):
        lines.append(f"%{name}.at = getelementptr i64, ptr {address}, i64 {number}")
        lines.append(f"%{name} = load {kind}, ptr %{name}.at")
    return "\n  ".join(lines)


#: `call(entry, block)` on two Python integers. The words of the block: the address of the slots, how
#: often something is compared, how often saved; then for each comparison two addresses and a number
#: of bytes, and for each thing saved where to, from where, and how many bytes. None (null) is
#: returned if a signal's handler raised an exception, which then comes through.
TEXT = f"""
define ptr @call(ptr %entry, ptr %block) nounwind {{
start:
  %function = call ptr @PyLong_AsVoidPtr(ptr %entry)
  %words = call ptr @PyLong_AsVoidPtr(ptr %block)
  {_loads("%words", "slots ptr", "compared i64", "saved i64")}
  %first = getelementptr i64, ptr %words, i64 3
  %width = mul i64 %compared, 3
  %first.saved = getelementptr i64, ptr %first, i64 %width
  br label %save
save:
  %k = phi i64 [ 0, %start ], [ %k.next, %save.one ]
  %save.at = phi ptr [ %first.saved, %start ], [ %save.next, %save.one ]
  %is.saved = icmp eq i64 %k, %saved
  br i1 %is.saved, label %run, label %save.one
save.one:
  {_loads("%save.at", "to ptr", "from ptr", "bytes i64")}
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  %k.next = add i64 %k, 1
  %save.next = getelementptr i64, ptr %save.at, i64 3
  br label %save
run:
  %status = call i32 %function(ptr %slots)
  %is.ok = icmp eq i32 %status, 0
  br i1 %is.ok, label %compare, label %failed
failed:
  %raised = call ptr @PyErr_Occurred()
  %is.raised = icmp ne ptr %raised, null
  br i1 %is.raised, label %raise, label %end
raise:
  ret ptr null
compare:
  %j = phi i64 [ 0, %run ], [ %j.next, %same ]
  %compare.at = phi ptr [ %first, %run ], [ %compare.next, %same ]
  %is.compared = icmp eq i64 %j, %compared
  br i1 %is.compared, label %end, label %compare.one
compare.one:
  {_loads("%compare.at", "one ptr", "other ptr", "size i64")}
  %order = call i32 @memcmp(ptr %one, ptr %other, i64 %size)
  %is.same = icmp eq i32 %order, 0
  br i1 %is.same, label %same, label %end
same:
  %j.next = add i64 %j, 1
  %compare.next = getelementptr i64, ptr %compare.at, i64 3
  br label %compare
end:
  %result = phi i32 [ %status, %failed ], [ 0, %compare ], [ {CHANGED}, %compare.one ]
  %wide = sext i32 %result to i64
  %number = call ptr @PyLong_FromLong(i64 %wide)
  ret ptr %number
}}"""

#: `repeat(guard, values)` calls a kernel again if everything is as it was. The words at the address
#: `guard`: how many names there are, how many attributes, `entry` and `block` as `call` takes them;
#: then for each name the name and its value in the dictionary `values`, and for each attribute the
#: object, the attribute's name, and its value: all as addresses of Python's objects.
TEXT_OF_REPEAT = f"""
define ptr @repeat(ptr %guard, ptr %values) nounwind {{
start:
  %words = call ptr @PyLong_AsVoidPtr(ptr %guard)
  {_loads("%words", "names i64", "attributes i64", "entry ptr", "block ptr")}
  %first = getelementptr i64, ptr %words, i64 4
  br label %name
name:
  %k = phi i64 [ 0, %start ], [ %k.next, %name.one ]
  %name.at = phi ptr [ %first, %start ], [ %name.next, %name.one ]
  %is.named = icmp eq i64 %k, %names
  br i1 %is.named, label %attribute, label %name.one
name.one:
  {_loads("%name.at", "key ptr", "value ptr")}
  %bound = call ptr @PyDict_GetItem(ptr %values, ptr %key)
  %is.bound = icmp eq ptr %bound, %value
  %k.next = add i64 %k, 1
  %name.next = getelementptr i64, ptr %name.at, i64 2
  br i1 %is.bound, label %name, label %unknown
attribute:
  %j = phi i64 [ 0, %name ], [ %j.next, %known ]
  %attribute.at = phi ptr [ %name.at, %name ], [ %attribute.next, %known ]
  %is.known = icmp eq i64 %j, %attributes
  br i1 %is.known, label %run, label %attribute.one
attribute.one:
  {_loads("%attribute.at", "object ptr", "label ptr", "was ptr")}
  %is = call ptr @PyObject_GetAttr(ptr %object, ptr %label)
  %is.missing = icmp eq ptr %is, null
  br i1 %is.missing, label %missing, label %found
missing:
  call void @PyErr_Clear()
  br label %unknown
found:
  call void @Py_DecRef(ptr %is)
  %is.same = icmp eq ptr %is, %was
  br i1 %is.same, label %known, label %unknown
known:
  %j.next = add i64 %j, 1
  %attribute.next = getelementptr i64, ptr %attribute.at, i64 3
  br label %attribute
run:
  %result = tail call ptr @call(ptr %entry, ptr %block)
  ret ptr %result
unknown:
  %nothing = call ptr @PyLong_FromLong(i64 {UNKNOWN})
  ret ptr %nothing
}}"""

#: an address of a block, as an integer, to what the call came to
Entry = Callable[[int], int]
#: a dictionary of names to what the call of a guard's kernel came to
Again = Callable[[dict[str, Any]], int]


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


def built_in(procedure: int, first: int) -> Any:
    """The procedure at an address, which takes and gives Python's objects, as a built-in function of
    its second argument; the first is `first`."""
    if procedure not in _methods:
        method = _methods[procedure] = _Method(b"kernel", procedure, _ONE_ARGUMENT, None)
        # a function looks into it even when it is freed, which may be after this module was
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(method))
    return _make(ctypes.addressof(_methods[procedure]), first, None)
