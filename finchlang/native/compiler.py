"""From LLVM IR to object code: the pass pipeline and the code generator."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

import llvmlite.binding as llvm
from llvmlite.binding.newpassmanagers import ModulePassManager, NewPassManager

from finchlang.base.disk_cache import DiskCache, kept
from finchlang.native.emit import emit_procedure
from finchlang.native.target import key_of, target_machine, uninterrupted

T = TypeVar("T")

#: an access to entries of one or two bytes; see `_optimise`
_NARROW = re.compile(r"\b(load|store) (volatile )?i(8|16)\b")


def _optimise(module: Any, source: str) -> None:
    """LLVM's O1 with vectorisers and unrolling.

    Measured on one core of a Xeon (AVX-512): milliseconds for passes and code generator.

                               SpMV (CSC)      Gustavson      erosion on runs
        O2                     11.9 + 12.2     47.4 + 30.6    206 + 167
        this                   10.1 + 11.2     33.9 + 31.0    154 + 140
        without unrolling       8.0 +  7.5     31.4 + 27.3    168 + 139

    On the same arrays, for 16 workloads of tests/benchmarks, the code took 1.01 times as long as
    O2's in geometric mean (0.95 to 1.12), and O2's own measured once more 1.04 (0.94 to 1.13): what
    O1 lacks, global value numbering and jump threading, finds nothing that counts here. Without
    unrolling it was 1.02. Vectors are made of straight code (SLP) only where a sum may be taken in any
    order: without it long rows take up to 1.19 times as long, other code does not. It takes 2 to 50 % of
    the passes' time, most for products of many lists. Not so where entries are narrow: SLP keeps offsets
    of addresses in a table in which 2^63 - 1 and 2^63 - 2 are no keys, and ends the process upon those
    (LLVM 22); only entries of a byte or two can be so far off, where a loop is left that ends at the
    greatest number.

    A dense inner product of 1000 entries is three times faster interleaved, so only gathering
    loops are not (`emit.py` marks them). An empty module takes 0.4 ms, and 1 ms to generate.
    """
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    options.loop_vectorization = True
    options.loop_interleaving = True
    options.slp_vectorization = " reassoc " in source and _NARROW.search(source) is None
    options.loop_unrolling = True
    builder = llvm.create_pass_builder(target_machine(), options)
    _run(builder.getModulePassManager(), module, builder)


def _run(passes: ModulePassManager, module: Any, builder: Any) -> None:
    """Run passes, and free them: llvmlite's `close` finds a method that does nothing before the one that
    frees them (45 KB for each module; seen in 0.50). The callbacks of a builder, 1.5 KB, are never freed;
    they refer to things that are gone after a run, so a builder cannot be used again."""
    passes.run(module, builder)
    NewPassManager._dispose(passes)
    passes.detach()


#: from so many lines of LLVM IR on, the time to compile matters more than that of the code
LARGE = 3_000
#: From so many lines on, the code generator's own optimisations are left out: 1.6 s become 0.1 s for 22,000
#: lines. The xor of three tensors of five modes, 15,000 lines, would take three times as long to run.
HUGE = 20_000


def _optimise_briefly(module: Any) -> None:
    """Only passes that put variables into registers and simplify control flow. Where many structures meet,
    code can be 20,000 lines of IR: all of O2 takes 3.9 s for those, this and the code generator 1.4 s. For
    the erosion of an image in runs, 4,400 lines, it is 0.26 s in place of 0.35, and the code takes 1.01
    times as long: loops along several lists at once have little to hoist, and nothing to vectorise. (Dense
    inner loops would take 1.5 to 3 times as long.)"""
    builder = llvm.create_pass_builder(target_machine(), llvm.create_pipeline_tuning_options())
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    _run(passes, module, builder)


def optimised(source: str, use: Callable[[Any], T], is_rare: bool = False) -> T:
    """What `use` gives for the optimised module of a text. Brief optimisation is enough for a rare part,
    whose loops merge one entry at a time: the merging of a workspace compiles in 50 ms in place of 78, and
    runs as fast."""

    def optimise(module: Any) -> T:
        if is_rare or source.count("\n") >= LARGE:
            _optimise_briefly(module)
        else:
            _optimise(module, source)
        return use(module)

    return _parsed(source, target_machine(), optimise)


def _parsed(source: str, machine: Any, use: Callable[[Any], T]) -> T:
    """What `use` gives for the module of a text. The module is freed here: the garbage collector might free
    its context first."""

    def work() -> T:
        with llvm.parse_assembly(source, llvm.create_context()) as module:
            # gives passes the offsets of the parts of pairs: without it, an i64 may stand at offset 4
            module.data_layout = str(machine.target_data)
            return use(module)

    return uninterrupted(work)


_is_plain = False


def is_plain() -> bool:
    """Whether LLVM's passes are left out."""
    return _is_plain


def compile_plainly(on: bool = True) -> None:
    """From now on (or no longer) compile without LLVM's passes, which take most of the time and are not
    needed where kernels run once: for tests. Such code is not kept on disk."""
    global _is_plain
    _is_plain = on
    part_code.cache_clear()


def machine_code(source: str, is_rare: bool = False) -> bytes:
    """The machine code of a module's text as an object file."""
    if _is_plain:
        machine = target_machine(0)
        return _parsed(source, machine, machine.emit_object)
    return optimised(source, generator(source).emit_object, is_rare)


@lru_cache(maxsize=64)
def part_code(source: str, cache: DiskCache | None) -> bytes:
    """The object code of the module of a rare part."""
    return kept(cache, key_of("part", source), lambda: machine_code(source, is_rare=True))


def generator(source: str) -> Any:
    return target_machine(2 if source.count("\n") < HUGE else 0)


def procedure_code(name: str) -> bytes:
    """The object code of a procedure of the library, always with LLVM's passes: it is kept on disk."""
    source = emit_procedure(name)
    return optimised(source, generator(source).emit_object)
