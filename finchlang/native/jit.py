"""From residual programs to kernels in memory, by object code that may be on disk already."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from finchlang.base.disk_cache import DiskCache, kept
from finchlang.host.ir import Residual
from finchlang.host.listing import text
from finchlang.native.compiled_kernel import NativeKernel
from finchlang.native.compiler import generator, is_plain, machine_code, optimised, part_code
from finchlang.native.emit import emit
from finchlang.native.function_text import layout_of
from finchlang.native.link import joined, kernel_of, linking
from finchlang.native.target import key_of
from finchlang.optimize.pipeline import lower, transform


def _optimised(residual: Residual, use: Callable[[str, Any], str]) -> str:
    """What `use` says of the text of each module of `residual` and the module after LLVM's passes."""
    kernel, *parts = emit(lower(residual)[0])
    whole = (kernel, *parts)
    texts = (optimised(part, partial(use, part), is_rare=part is not kernel) for part in whole)
    return "\n".join(texts)


def llvm_text(residual: Residual, optimised: bool = True) -> str:
    """The LLVM IR of `residual`: as emitted, or after LLVM's passes."""
    if optimised:
        return _optimised(residual, lambda source, module: str(module))
    return "\n".join(emit(lower(residual)[0]))


def assembly_text(residual: Residual) -> str:
    return _optimised(residual, lambda source, module: generator(source).emit_assembly(module))


def object_code(residual: Residual, cache: DiskCache | None = None) -> bytes:
    """The machine code of `residual`. That of its rare parts is taken from memory, if another kernel had
    the same, or from `cache`."""
    kernel, *parts = emit(residual)
    return joined([machine_code(kernel), *(part_code(part, cache) for part in parts)])


def compile_residual(
    residual: Residual, cache: DiskCache | None = None, checked: bool = False
) -> NativeKernel:
    """Compile `residual`, which `host.verify` accepts, or take its object code from `cache` if it is there;
    `checked` as in `lower`."""
    with linking:
        logging, undo_log = lower(residual, checked)
        code, name = _cached(logging, cache)
        return kernel_of(layout_of(logging, undo_log), code, name, cache)


def compile_for_copies(residual: Residual) -> NativeKernel:
    """Compile `residual` without an undo log, for calls on arrays that need not be put back."""
    with linking:
        lowered = transform(residual)
        return kernel_of(layout_of(lowered), object_code(lowered), None, None)


def _cached(residual: Residual, cache: DiskCache | None) -> tuple[bytes, str | None]:
    if cache is None or is_plain():
        return object_code(residual), None
    name = key_of("kernel", text(residual))
    return kept(cache, name, lambda: object_code(residual, cache)), name
