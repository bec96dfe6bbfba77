"""Native code without LLVM's optimisation, which takes most of the time of a test and is not ours."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import llvmlite.binding as llvm

from finchlang.host.ir import Residual
from finchlang.host.print import text
from finchlang.native import jit
from finchlang.native.link import joined
from finchlang.native.target import target_machine


@cache
def _quick_machine() -> Any:
    target_machine()  # initialises LLVM
    return llvm.Target.from_default_triple().create_target_machine(opt=0, jit=True)


@lru_cache(maxsize=2000)
def _quick_code(source: str) -> bytes:
    return _quick_machine().emit_object(llvm.parse_assembly(source))


def compile_quickly(patch: Callable[[Any, str, Any], None] = setattr, some: int = 0) -> None:
    """From now on, compile without LLVM's passes, but for one of `some` kernels (0: none), always
    the same ones. What is compiled so is never kept in the cache on disk, but here."""
    thorough = jit._cached

    def cached(residual: Residual, store: Any) -> Any:
        if some and zlib.crc32(text(residual).encode()) % some == 0:
            return thorough(residual, store)
        return joined(map(_quick_code, jit.emit(residual))), None

    patch(jit, "_cached", cached)
