"""Memory in which every array stands against a page that nobody may touch, and which is never used again
once it was freed: NumPy's arrays, and what kernels allocate through Python's raw allocator.

NumPy and Python are given other allocators; of the package only the alignment of its arrays is patched.
A process may have some tens of thousands of such pieces at a time (Linux limits its mappings); what is
beyond comes unguarded.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np

from finchlang.base import aligned_memory
from finchlang.native.target import target_machine

ARENA = 1 << 41  #: bytes of address space; what is freed is not given out again

SIDES = {"after": 0, "before": 1}

TEXT = Path(__file__).with_suffix(".ll").read_text("utf-8")  #: the allocators

_POINTERS = ("malloc", "calloc", "realloc", "free")


class _Allocator(ctypes.Structure):
    """`PyMemAllocatorEx`, which NumPy's `PyDataMemAllocator` is like."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("context", *_POINTERS)]


class _Handler(ctypes.Structure):
    """`PyDataMem_Handler`, version 1."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("allocator", _Allocator),
    )


_RAW = 0  # PYMEM_DOMAIN_RAW
_SET_HANDLER = 304  # the place of PyDataMem_SetHandler in NumPy's table of functions
_kept: list[object] = []  # what must live as long as the process


def _compiled() -> llvm.ExecutionEngine:
    target_machine()  # initialises LLVM
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(TEXT), machine)
    engine.finalize_object()
    return engine


def _set_handler(capsule: object) -> object:
    """Have NumPy allocate by a handler; gives the one before."""
    table_of = ctypes.pythonapi.PyCapsule_GetPointer
    table_of.restype, table_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    api = np._core._multiarray_umath._ARRAY_API  # type: ignore[attr-defined]
    table = ctypes.cast(table_of(api, None), ctypes.POINTER(ctypes.c_void_p))
    function = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[_SET_HANDLER])
    return function(capsule)


def _handler_capsule(handler: _Handler) -> object:
    make = ctypes.pythonapi.PyCapsule_New
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return make(ctypes.addressof(handler), b"mem_handler", None)


def _reserve(size: int, protection: int) -> int:
    """The address of so many bytes of address space, which take memory as they are touched."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_size_t
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # MAP_NORESERVE
    at = libc.mmap(None, size, protection, flags, -1, 0)
    if at == ctypes.c_size_t(-1).value:
        raise MemoryError("no address space for guarded memory")
    return at


def _set(engine: llvm.ExecutionEngine, name: str, value: int | None) -> None:
    ctypes.c_uint64.from_address(engine.get_global_value_address(name)).value = value or 0


@contextmanager
def guarded(side: str) -> Iterator[None]:
    """In here, arrays have an unmapped page right "after" or "before" them. What was allocated in here
    may be used and freed later."""
    engine, at = _compiled(), _reserve(ARENA, 0)
    table = _reserve(ARENA >> 8, mmap.PROT_READ | mmap.PROT_WRITE)
    for name, value in (("first", at), ("next", at), ("stop", at + ARENA), ("table", table)):
        _set(engine, name, value)
    _set(engine, "side", SIDES[side])
    alignment, aligned_memory.ALIGNMENT = (
        aligned_memory.ALIGNMENT,
        1,
    )  # arrays end where their memory ends
    old = _Allocator()
    ctypes.pythonapi.PyMem_GetAllocator(_RAW, ctypes.byref(old))
    for name in ("context", "malloc", "realloc", "free"):
        _set(engine, f"old.{name}", getattr(old, name))
    raw = [engine.get_function_address(f"raw_{name}") for name in _POINTERS]
    data = [engine.get_function_address(f"data_{name}") for name in _POINTERS]
    handler = _Handler(b"guarded", 1, _Allocator(None, *data))
    capsule, allocator = _handler_capsule(handler), _Allocator(None, *raw)
    _kept.extend((engine, handler, capsule, allocator))
    before = _set_handler(capsule)
    ctypes.pythonapi.PyMem_SetAllocator(_RAW, ctypes.byref(allocator))
    try:
        yield
    finally:
        aligned_memory.ALIGNMENT = alignment
        # what was allocated in here must be freed as such: only the next allocations are others
        _set_handler(before)
        mixed = _Allocator(old.context, old.malloc, old.calloc, *raw[2:])
        _kept.append(mixed)
        ctypes.pythonapi.PyMem_SetAllocator(_RAW, ctypes.byref(mixed))
