"""Object code loaded into memory by LLVM's linker, which goes with the last reference to it."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

import llvmlite.binding as llvm

from finchlang.native.runtime import SYMBOLS
from finchlang.native.target import target_machine

#: A library that goes leaves 8 KB behind in the linker, whose own making takes 1 ms: so many
#: libraries share one, which goes with the last of them.
_SHARING = 32


class Linker:
    """Links libraries; what they need of LLVM's linker they keep themselves."""

    def __init__(self) -> None:
        self._names = count()
        self._current: Any = None

    def link(self, code: bytes, symbol: str, addresses: dict[str, int]) -> Any:
        """Load object code that defines `symbol`; the code is there as long as the result is."""
        library = llvm.JITLibraryBuilder().add_current_process()
        for image in _images(code):
            library.add_object_img(image)
        for name, address in {**SYMBOLS, **addresses}.items():
            library.import_symbol(name, address)
        number = next(self._names)
        if self._current is None or number % _SHARING == 0:
            self._current = llvm.create_lljit_compiler(target_machine())
        current = self._current
        linked = library.export_symbol(symbol).link(current, f"library{number}")
        linked.linker = current  # the library must go before it
        return linked


def joined(images: Iterable[bytes]) -> bytes:
    """Object files as one, which `Linker.link` takes: each behind its length."""
    return b"".join(struct.pack("<Q", len(image)) + image for image in images)


def _images(code: bytes) -> Iterator[bytes]:
    while code:
        end = 8 + struct.unpack_from("<Q", code)[0]
        yield code[8:end]
        code = code[end:]
