"""Object code loaded into memory by LLVM's linker, which is freed with the last reference to it. A kernel
that is on disk needs nothing else: the compiler is imported only where object code is missing."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import count
from typing import Any

from finchlang.base import aligned_memory
from finchlang.base.disk_cache import DiskCache, default_cache, kept
from finchlang.base.locks import reentrant_lock
from finchlang.native.abi import Layout
from finchlang.native.compiled_kernel import ADDRESS, CALL, NativeKernel, built_in
from finchlang.native.target import discarded, key_of, llvm, target_machine, uninterrupted

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


#: held while anything is compiled or linked
linking = reentrant_lock()

#: A library that is freed leaves 8 KB in its linker, but to make a linker takes 1 ms: so many libraries
#: share one, which is freed with the last of them.
_SHARING = 32


class _Linked:
    """Object code in memory; indexing it by a symbol gives an address. LLVM frees it when it next works."""

    __slots__ = ("_linked",)

    def __init__(self, linked: Any):
        self._linked = linked

    def __getitem__(self, symbol: str) -> int:
        address: int = self._linked[symbol]
        return address

    def __del__(self, discarded=discarded) -> None:
        discarded.append(self._linked)


class Linker:
    """Links libraries; each library keeps its linker alive."""

    def __init__(self) -> None:
        self._names = count()
        self._current: Any = None

    def link(self, code: bytes, symbol: str, addresses: dict[str, int]) -> _Linked:
        """Load object code that defines `symbol`; it stays in memory as long as the result does."""
        machine = target_machine()

        def work() -> Any:
            library = llvm().JITLibraryBuilder().add_current_process()
            for image in _images(code):
                library.add_object_img(image)
            for name, address in {**SYMBOLS, **addresses}.items():
                library.import_symbol(name, address)
            number = next(self._names)
            if self._current is None or number % _SHARING == 0:
                self._current = llvm().create_lljit_compiler(machine)
            current = self._current
            linked = library.export_symbol(symbol).link(current, f"library{number}")
            linked.linker = current  # the library must be freed before its linker
            return linked

        return _Linked(uninterrupted(work))


def joined(images: Iterable[bytes]) -> bytes:
    """Object files as one, which `Linker.link` takes: each after its length."""
    return b"".join(struct.pack("<Q", len(image)) + image for image in images)


def _images(code: bytes) -> Iterator[bytes]:
    while code:
        end = 8 + struct.unpack_from("<Q", code)[0]
        yield code[8:end]
        code = code[end:]


#: procedures stay in memory, so that they are linked apart from the kernels, which are freed
_kernels, _library = Linker(), Linker()
_procedures: dict[str, Any] = {}


def load_kernel(layout: Layout, name: str, cache: DiskCache) -> NativeKernel | None:
    """The kernel with the object code `name` of `cache`, if it is there."""
    with linking:
        code = cache.get(name)
        return None if code is None else kernel_of(layout, code, name, cache)


def kernel_of(
    layout: Layout, code: bytes, name: str | None, cache: DiskCache | None
) -> NativeKernel:
    """The kernel with this object code, which `cache` has under `name`."""
    addresses = {p: _procedure(p, cache) for p in layout.procedures}
    linked = _kernels.link(code, "entry", addresses)
    slots = (ctypes.c_int64 * layout.size)()  # assigning an unsigned integer keeps its bits
    entry = built_in(_procedure(CALL, cache), (linked["entry"], ctypes.addressof(slots)))
    return NativeKernel(layout, slots, entry, linked, name)


def _procedure(name: str, cache: DiskCache | None) -> int:
    """The address of a procedure of the library, which stays in memory. On disk it is found by its name:
    its code depends on sources that are part of every key."""
    if name not in _procedures:
        key = key_of("procedure", name, str(aligned_memory.ALIGNMENT))
        code = kept(cache, key, lambda: _compiled(name))
        # a signal's handler may have linked it in between
        _procedures.setdefault(name, _library.link(code, name, {}))
    return _procedures[name][name]


def _compiled(name: str) -> bytes:
    from finchlang.native.compiler import procedure_code

    return joined([procedure_code(name)])


@cache
def address_finder() -> Callable[[Any], int]:
    """The built-in function that gives the address of an object's buffer. It raises BufferError or
    ValueError if there is none."""
    with linking:
        return built_in(_procedure(ADDRESS, default_cache()), 0)
