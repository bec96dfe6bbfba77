"""An LLVM module as text: what its functions share."""

from __future__ import annotations

import mmap

from finchlang.native import call
from finchlang.native.target import has_masks

#: Gives larger memory to the buffer at %slot: at least doubled, so that appending is linear in
#: all. Memory that came from outside is left as it was and copied. Null if there is none.
GROW = """
define noalias ptr @grow(ptr captures(none) %slot, i64 %size, i64 %width) nounwind {
  %room = getelementptr i64, ptr %slot, i64 1
  %mine = getelementptr i64, ptr %slot, i64 2
  %old = load ptr, ptr %slot
  %capacity = load i64, ptr %room
  %owned = load i64, ptr %mine
  %sane = icmp ult i64 %size, 72057594037927936
  br i1 %sane, label %choose, label %none
choose:
  %double = shl i64 %capacity, 1
  %larger = call i64 @llvm.umax.i64(i64 %double, i64 %size)
  %wanted = call i64 @llvm.umax.i64(i64 %larger, i64 16)
  %bytes = mul i64 %wanted, %width
  %is_owned = icmp ne i64 %owned, 0
  br i1 %is_owned, label %extend, label %fresh
extend:
  %extended = call ptr @PyMem_RawRealloc(ptr %old, i64 %bytes)
  br label %check
fresh:
  %new = call ptr @PyMem_RawMalloc(i64 %bytes)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %none, label %copy
copy:
  %used = mul i64 %capacity, %width
  call void @llvm.memcpy.p0.p0.i64(ptr %new, ptr %old, i64 %used, i1 false)
  br label %check
check:
  %memory = phi ptr [ %extended, %extend ], [ %new, %copy ]
  %lost = icmp eq ptr %memory, null
  br i1 %lost, label %none, label %keep
keep:
  call void @advise(ptr %memory, i64 %bytes)
  store ptr %memory, ptr %slot
  store i64 %wanted, ptr %room
  store i64 1, ptr %mine
  ret ptr %memory
none:
  ret ptr null
}"""

#: Asks the system for large pages for much memory, as NumPy does for its arrays: entries that lie
#: apart are quicker to reach there.
_ADVISE = """
define internal void @advise(ptr %memory, i64 %bytes) cold noinline nounwind {{
  %is_large = icmp uge i64 %bytes, 4194304
  br i1 %is_large, label %ask, label %end
ask:
  %address = ptrtoint ptr %memory to i64
  %reach = add i64 %address, {last}
  %page = and i64 %reach, {mask}
  %before = sub i64 %page, %address
  %whole = sub i64 %bytes, %before
  %first = inttoptr i64 %page to ptr
  %ignored = call i32 @madvise(ptr %first, i64 %whole, i32 {advice})
  br label %end
end:
  ret void
}}"""
_NO_ADVICE = """
define internal void @advise(ptr %memory, i64 %bytes) {
  ret void
}"""


def _advise() -> str:
    advice = getattr(mmap, "MADV_HUGEPAGE", None)  # not every system has it
    page = mmap.PAGESIZE
    return _ADVISE.format(last=page - 1, mask=-page, advice=advice) if advice else _NO_ADVICE


#: The names of the metadata that do not depend on the residual: first weights (cold, hot).
UNLIKELY, INVARIANT, TBAA_ROOT, TBAA_SLOTS = "!0", "!1", "!2", "!4"
METADATA = [
    '!0 = !{!"branch_weights", i32 1, i32 4000}',
    "!1 = !{}",
    '!2 = !{!"finchlang"}',
    '!3 = !{!"slots", !2, i64 0}',
    "!4 = !{!3, !3, i64 0}",
]


class Module:
    """What the functions of one module share: declarations, library functions and metadata."""

    def __init__(self) -> None:
        self.functions: list[str] = []
        self.declarations: dict[str, str] = {}
        self.metadata = list(METADATA)

    def declare(self, result: str, name: str, arguments: str, attributes: str = "nounwind") -> None:
        if name not in self.declarations:
            self.declarations[name] = f"declare {result} @{name}({arguments}) {attributes}"

    def use_grow(self) -> None:
        """Declare the procedure that gives a buffer larger memory."""
        arguments = "ptr captures(none), i64, i64"
        self.declare("noalias ptr", "grow", arguments, "cold nounwind")

    def define_grow(self) -> None:
        """Define it."""
        self.functions.append(GROW)
        self.declare("i64", "llvm.umax.i64", "i64, i64")
        self.declare("void", "llvm.memcpy.p0.p0.i64", "ptr, ptr, i64, i1")
        self.declare("ptr", "PyMem_RawMalloc", "i64")
        self.declare("ptr", "PyMem_RawRealloc", "ptr, i64")
        self.functions.append(_advise())
        self.declare("i32", "madvise", "ptr, i64, i32")

    def define_call(self) -> None:
        """Define the procedure that Python calls kernels by."""
        self.functions.append(call.TEXT)
        self.declare("i32", "memcmp", "ptr, ptr, i64")
        self.declare("void", "llvm.memcpy.p0.p0.i64", "ptr, ptr, i64, i1")
        self.declare("ptr", "PyErr_Occurred", "")
        self.declare("ptr", "PyLong_AsVoidPtr", "ptr")
        self.declare("ptr", "PyLong_FromLong", "i64")

    def define_repeat(self) -> None:
        """Define the procedure that calls a kernel again if all is as it was."""
        self.functions.append(call.TEXT_OF_REPEAT)
        for name, arguments in (
            *((call.CALL, "ptr, ptr"), ("PyDict_GetItem", "ptr, ptr")),
            *(("PyObject_GetAttr", "ptr, ptr"), ("PyLong_AsVoidPtr", "ptr")),
            ("PyLong_FromLong", "i64"),
        ):
            self.declare("ptr", name, arguments)
        self.declare("void", "PyErr_Clear", "")
        self.declare("void", "Py_DecRef", "ptr")

    def tbaa(self, name: str) -> str:
        """The access tag of a new type of memory, apart from every other."""
        number = len(self.metadata)
        self.metadata.append(f'!{number} = !{{!"{name}", {TBAA_ROOT}, i64 0}}')
        self.metadata.append(f"!{number + 1} = !{{!{number}, !{number}, i64 0}}")
        return f", !tbaa !{number + 1}"

    def loop_hint(self, **properties: str) -> str:
        """What LLVM is to do with a loop: a property's name has `_` where LLVM's has a dot."""
        number = len(self.metadata)
        names = ", ".join(f"!{number + k}" for k in range(len(properties) + 1))
        self.metadata.append(f"!{number} = distinct !{{{names}}}")
        for name, value in properties.items():
            name = name.replace("_", ".")
            self.metadata.append(f'!{len(self.metadata)} = !{{!"llvm.loop.{name}", {value}}}')
        return f", !llvm.loop !{number}"

    def short_loop(self, is_straight: bool) -> str:
        """A hint for a loop that often has few steps: one vector at a time, the last one with
        lanes left out where the processor can do that (loops that gather are `host/passes/lanes.py`'s).

        What is saved are branches that depend on the length, which cannot be predicted. Likewise a
        loop that `is_straight`, without loops or branches in it, is unrolled twice only, if it is
        not vectorised: columns of two or three entries are then 1.1 (CSC) to 1.2 times faster (a
        stored triangle used twice) than with the usual four, and long ones as fast.
        """
        hints = {"vectorize_predicate_enable": "i1 1"} if has_masks() else {}
        if is_straight:
            hints["unroll_count"] = "i32 2"
        return self.loop_hint(interleave_count="i32 1", **hints)

    def text(self) -> str:
        return "\n".join([*self.declarations.values(), *self.functions, *self.metadata, ""])
