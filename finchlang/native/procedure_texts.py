"""The procedures of the library that are LLVM text, since the host language has no addresses."""

from __future__ import annotations

import mmap

from finchlang.base import aligned_memory, memory_limit
from finchlang.native.compiled_kernel import ADDRESS, CALL
from finchlang.native.library import GROW

#: Gives larger memory to the buffer at %slot: at least doubled, so that appending takes linear time in all.
#: Memory that came from outside is copied, and left as it was. Null if there is no memory: the system may
#: promise more than it has, so it is asked before much is taken, as in `memory_limit.py`. The allocator
#: aligns to 16 bytes, or less; so somewhat more memory is allocated, and an aligned address in it is taken.
#: The third word of the slot says where the memory begins, which is needed to free it.
_GROW = """
declare i64 @llvm.umax.i64(i64, i64) nounwind
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1) nounwind
declare ptr @PyMem_RawMalloc(i64) nounwind
declare ptr @PyMem_RawRealloc(ptr, i64) nounwind
declare i32 @madvise(ptr, i64, i32) nounwind

define preserve_mostcc noalias ptr @grow(ptr captures(none) %slot, i64 %size, i64 %width) nounwind {{
  %room = getelementptr i64, ptr %slot, i64 1
  %mine = getelementptr i64, ptr %slot, i64 2
  %old = load ptr, ptr %slot
  %capacity = load i64, ptr %room
  %begin = load ptr, ptr %mine
  %sane = icmp ult i64 %size, 72057594037927936
  br i1 %sane, label %choose, label %none
choose:
  %double = shl i64 %capacity, 1
  %larger = call i64 @llvm.umax.i64(i64 %double, i64 %size)
  %wanted = call i64 @llvm.umax.i64(i64 %larger, i64 16)
  %bytes = mul i64 %wanted, %width
  %all = add i64 %bytes, {spare}
  %used = mul i64 %capacity, %width
  %is_foreign = icmp eq ptr %begin, null
  %more = sub i64 %all, %used
  %needed = select i1 %is_foreign, i64 %all, i64 %more
  %is_much = icmp uge i64 %needed, {large}
  br i1 %is_much, label %ask, label %take
ask:
  %fits = call i1 @fits(i64 %needed)
  br i1 %fits, label %take, label %none
take:
  br i1 %is_foreign, label %fresh, label %extend
extend:
  %old_at = ptrtoint ptr %old to i64
  %begin_at = ptrtoint ptr %begin to i64
  %before = sub i64 %old_at, %begin_at
  %extended = call ptr @PyMem_RawRealloc(ptr %begin, i64 %all)
  %moved = getelementptr i8, ptr %extended, i64 %before
  br label %check
fresh:
  %new = call ptr @PyMem_RawMalloc(i64 %all)
  br label %check
check:
  %memory = phi ptr [ %extended, %extend ], [ %new, %fresh ]
  %from = phi ptr [ %moved, %extend ], [ %old, %fresh ]
  %lost = icmp eq ptr %memory, null
  br i1 %lost, label %none, label %align
align:
  call void @advise(ptr %memory, i64 %all)
  %memory_at = ptrtoint ptr %memory to i64
  %over = add i64 %memory_at, {last}
  %aligned = and i64 %over, {mask}
  %gap = sub i64 %aligned, %memory_at
  %data = getelementptr i8, ptr %memory, i64 %gap
  %is_there = icmp eq ptr %data, %from
  br i1 %is_there, label %keep, label %move
move:
  call void @llvm.memmove.p0.p0.i64(ptr %data, ptr %from, i64 %used, i1 false)
  br label %keep
keep:
  store ptr %data, ptr %slot
  store i64 %wanted, ptr %room
  store ptr %memory, ptr %mine
  ret ptr %data
none:
  ret ptr null
}}"""

#: Whether the system still has so many bytes besides those that it has promised, if it tells.
_FITS = """
declare noalias ptr @fopen(ptr, ptr) nounwind
declare i32 @fscanf(ptr, ptr, ...) nounwind
declare i32 @fclose(ptr) nounwind
@reading = private constant [2 x i8] c"r\\00"
@place = private constant [{length} x i8] c"{place}\\00"
@lines = private constant [54 x i8] c"MemTotal: %*d kB MemFree: %*d kB MemAvailable: %ld kB\\00"
@own = private constant [{own_length} x i8] c"{own}\\00"
@pages = private constant [24 x i8] c"%*d %ld %ld %*d %*d %ld\\00"

define internal void @scan(ptr %place, ptr %form, ptr %a, ptr %b, ptr %c) cold noinline nounwind {{
  %file = call ptr @fopen(ptr %place, ptr @reading)
  %is_none = icmp eq ptr %file, null
  br i1 %is_none, label %end, label %read
read:
  %items = call i32 (ptr, ptr, ...) @fscanf(ptr %file, ptr %form, ptr %a, ptr %b, ptr %c)
  %closed = call i32 @fclose(ptr %file)
  br label %end
end:
  ret void
}}

define internal i1 @fits(i64 %bytes) cold noinline nounwind {{
  %numbers = alloca [4 x i64]
  store [4 x i64] [i64 {most}, i64 0, i64 0, i64 0], ptr %numbers
  %resident.at = getelementptr i64, ptr %numbers, i64 1
  %shared.at = getelementptr i64, ptr %numbers, i64 2
  %promised.at = getelementptr i64, ptr %numbers, i64 3
  call void @scan(ptr @place, ptr @lines, ptr %numbers, ptr null, ptr null)
  call void @scan(ptr @own, ptr @pages, ptr %resident.at, ptr %shared.at, ptr %promised.at)
  %available = load i64, ptr %numbers
  %resident = load i64, ptr %resident.at
  %shared = load i64, ptr %shared.at
  %promised = load i64, ptr %promised.at
  %touched = sub i64 %resident, %shared
  %untouched = sub i64 %promised, %touched
  %others = mul i64 %untouched, {kilobytes}
  %kilobytes = lshr i64 %bytes, 10
  %needed = add i64 %kilobytes, %others
  %fits = icmp sle i64 %needed, %available
  ret i1 %fits
}}"""

#: Asks the system for large pages for much memory, as NumPy does for its arrays: random accesses are
#: quicker there, and it is taken in fewer faults. The first page is among them: the system grows only what
#: is advised as a whole, and the allocator would copy the rest.
_ADVISE = """
define internal void @advise(ptr %memory, i64 %bytes) cold noinline nounwind {{
  %is_large = icmp uge i64 %bytes, 4194304
  br i1 %is_large, label %ask, label %end
ask:
  %address = ptrtoint ptr %memory to i64
  %page = and i64 %address, {mask}
  %before = sub i64 %address, %page
  %whole = add i64 %bytes, %before
  %first = inttoptr i64 %page to ptr
  %ignored = call i32 @madvise(ptr %first, i64 %whole, i32 {advice})
  br label %end
end:
  ret void
}}"""

#: the alignment that the allocator is sure to give
_LEAST = 8


def _grow() -> str:
    to = max(aligned_memory.ALIGNMENT, _LEAST)
    place, own, large = memory_limit.PLACE, memory_limit.OWN, memory_limit.LARGE
    lengths, page = {"length": len(place) + 1, "own_length": len(own) + 1}, mmap.PAGESIZE
    fits = _FITS.format(place=place, own=own, **lengths, most=2**63 - 1, kilobytes=page // 1024)
    advice = _ADVISE.format(mask=-page, advice=getattr(mmap, "MADV_HUGEPAGE", 0))
    return _GROW.format(spare=to - _LEAST, last=to - 1, mask=-to, large=large) + fits + advice


_BUFFERS = """
declare i32 @PyObject_GetBuffer(ptr, ptr, i32) nounwind
declare void @PyBuffer_Release(ptr) nounwind
declare ptr @PyLong_FromLong(i64) nounwind
"""

#: `call((entry, slots), arrays)` puts the address and the capacity of each array of a list into the slots,
#: and runs the kernel. Addresses are asked for by the buffer protocol right before the run, so that nothing
#: can move the arrays in between. Null is returned, with the exception set, for an array that is not
#: contiguous, or if a signal's handler raised an exception.
_CALL = """
declare ptr @PyErr_Occurred() nounwind
declare ptr @PyLong_AsVoidPtr(ptr) nounwind
declare ptr @PyTuple_GetItem(ptr, i64) nounwind
declare ptr @PyList_GetItem(ptr, i64) nounwind
declare i64 @PyList_Size(ptr) nounwind

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

#: `address(nothing, object)`: the address of an array's first entry, whatever its strides, by the buffer
#: protocol, which takes an eighth of the time of `__array_interface__`
_ADDRESS = """
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

#: the procedures, by their names
TEXTS = {GROW: _grow, CALL: lambda: _BUFFERS + _CALL, ADDRESS: lambda: _BUFFERS + _ADDRESS}
