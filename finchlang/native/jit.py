"""From LLVM IR to code in memory: the pass pipeline, the code generator, the linker."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from itertools import count
from typing import Any

import llvmlite.binding as llvm

from finchlang.host.ir import Residual
from finchlang.host.listing import text
from finchlang.native.cache import ObjectCache, key_of
from finchlang.native.emit import emit, emit_procedure
from finchlang.native.journal import with_journals
from finchlang.native.kernel import NativeKernel
from finchlang.native.layout import Layout
from finchlang.native.library import procedures
from finchlang.native.runtime import ENTRY, SYMBOLS
from finchlang.native.target import environment, target_machine

_lock = threading.Lock()


@cache
def _linker() -> Any:
    return llvm.create_lljit_compiler(target_machine())


def _optimise(module: Any) -> None:
    """LLVM's O2 with the loop vectoriser and unrolling, without SLP.

    Measured on one core of a Xeon (AVX-512), SpMV with 10,000 rows, 10 and 100 entries in each:
    milliseconds from text to callable, then time relative to SciPy's. CSC scatters, CSR gathers.

        this without unrolling                        CSC 12.3 ms 0.95 0.96   CSR 16.8 ms 0.82 0.85
        the same, gathering loops interleaved, too    CSC 12.6 ms 0.96 0.96   CSR 21.1 ms 0.90 0.85
        without unrolling, prefer-no-gather           CSC 12.7 ms 0.95 0.89   CSR 24.4 ms 0.88 0.96
        without unrolling, with SLP                   CSC 12.9 ms 0.94 0.96   CSR 17.0 ms 0.83 0.85
        gathering loops interleaved, and unrolled     CSC 17.9 ms 0.76 0.93   CSR 21.3 ms 0.90 0.85
        the same, O3                                  CSC 18.2 ms 0.90 0.94   CSR 22.0 ms 0.90 0.85
        O1 with the vectoriser                        CSC 11.1 ms 0.94 0.96   CSR 15.4 ms 0.84 0.85
        O1, no vectoriser                             CSC 11.1 ms 0.95 0.96   CSR 11.5 ms 1.03 1.32

    A dense inner product of 1000 entries is three times faster interleaved, so only gathering
    loops are not (`emit.py` marks them). O1 would save a millisecond, but leaves redundant loads
    in (it has no global value numbering). Unrolling costs SpMV 5 ms and makes scatters of short
    columns 1.1 to 1.2 times faster. An empty module takes 4.5 ms.
    """
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = True
    options.loop_interleaving = True
    options.slp_vectorization = False
    options.loop_unrolling = True
    builder = llvm.create_pass_builder(target_machine(), options)
    builder.getModulePassManager().run(module, builder)


#: From so many lines of LLVM IR on, compiling in time matters more than how quick the code is.
LARGE = 6_000
#: From so many on, the code generator does without its own: 1.6 s become 0.1 s for 22,000 lines.
HUGE = 12_000


def _optimise_briefly(module: Any) -> None:
    """Registers for variables, and no detours. Where many structures meet, code can be 20,000 lines
    of IR: all of O2 takes 3.9 s for those, this and the code generator 1.4 s."""
    builder = llvm.create_pass_builder(target_machine(), llvm.create_pipeline_tuning_options())
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, builder)


def _module(source: str, optimised: bool = True) -> Any:
    target_machine()  # initialises LLVM
    module = llvm.parse_assembly(source)
    if optimised:
        optimise = _optimise if source.count("\n") < LARGE else _optimise_briefly
        optimise(module)
    return module


def llvm_text(residual: Residual, optimised: bool = True) -> str:
    """The LLVM IR of `residual`: as emitted, or as LLVM's passes leave it."""
    source = emit(with_journals(residual)[0])
    return str(_module(source)) if optimised else source


def assembly_text(residual: Residual) -> str:
    """The machine code of `residual` as assembly."""
    source = emit(with_journals(residual)[0])
    return _generator(source).emit_assembly(_module(source))


def object_code(residual: Residual, emitter: Callable[[Residual], str] = emit) -> bytes:
    """The machine code of `residual` as an object file."""
    source = emitter(residual)
    return _generator(source).emit_object(_module(source))


def _generator(source: str) -> Any:
    return target_machine(2 if source.count("\n") < HUGE else 0)


def compile_residual(residual: Residual, cache: ObjectCache | None = None) -> NativeKernel:
    """Compile `residual`, which `host.check` accepts, or take its object code from `cache` if
    that holds it."""
    with _lock:
        noting, journals = with_journals(residual)
        layout = Layout(noting)
        addresses = {p.name: _procedure(p, cache) for p in procedures(layout.statements)}
        linked = _link(_cached(noting, emit, cache), "entry", addresses)
        return NativeKernel(residual, layout, journals, ENTRY(linked["entry"]), linked)


def _cached(
    residual: Residual, emitter: Callable[[Residual], str], cache: ObjectCache | None
) -> bytes:
    """The object code of `residual`, from `cache` or else compiled and put there."""
    if cache is None:
        return object_code(residual, emitter)
    key = key_of(text(residual), f"{emitter.__name__} {environment()}")
    code = cache.get(key)
    if code is None:
        code = object_code(residual, emitter)
        cache.put(key, code)
    return code


_procedures: dict[str, Any] = {}


def _procedure(procedure: Residual, cache: ObjectCache | None) -> int:
    """The address of a procedure of the library, which stays in memory."""
    name = procedure.name
    if name not in _procedures:
        _procedures[name] = _link(_cached(procedure, emit_procedure, cache), name, {})
    return _procedures[name][name]


_names = count(1)


def _link(code: bytes, symbol: str, addresses: dict[str, int]) -> Any:
    """Load object code that defines `symbol`; the code is there as long as the result is."""
    library = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
    for name, address in {**SYMBOLS, **addresses}.items():
        library.import_symbol(name, address)
    return library.export_symbol(symbol).link(_linker(), f"library{next(_names)}")
