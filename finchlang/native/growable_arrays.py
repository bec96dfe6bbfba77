"""Memory that kernels allocate: how a buffer grows, and how its memory becomes an array."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

from finchlang.base import aligned_memory

#: Gives larger memory to the buffer at %slot: at least doubled, so that appending takes linear time in all.
#: Memory that came from outside is copied, and left as it was. Null if there is no memory.  The allocator
#: aligns to 16 bytes, or less; so somewhat more memory is allocated, and an aligned address in it is taken.
#: The third word of the slot says where the memory begins, which is needed to free it.
_GROW = """
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
  call void @advise(ptr %data, i64 %bytes)
  store ptr %data, ptr %slot
  store i64 %wanted, ptr %room
  store ptr %memory, ptr %mine
  ret ptr %data
none:
  ret ptr null
}}"""

#: Asks the system for large pages for much memory, as NumPy does for its arrays: random accesses are
#: quicker there.
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

#: the alignment that the allocator is sure to give
_LEAST = 8


def grow_text() -> str:
    """The procedure `grow` and what it calls, as LLVM text without declarations."""
    to = max(aligned_memory.ALIGNMENT, _LEAST)
    return _GROW.format(spare=to - _LEAST, last=to - 1, mask=-to) + _advise()


def _advise() -> str:
    advice = getattr(mmap, "MADV_HUGEPAGE", None)  # not every system has it
    page = mmap.PAGESIZE
    return _ADVISE.format(last=page - 1, mask=-page, advice=advice) if advice else _NO_ADVICE


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
