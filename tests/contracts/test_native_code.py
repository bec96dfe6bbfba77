"""The contract of native code beside what every host does: it gives back memory, can be interrupted
anywhere, compiles nothing twice, and is good code."""

from __future__ import annotations

import gc
import re
import signal
import tracemalloc
from collections import Counter
from collections.abc import Callable
from typing import Any

import host_programs as programs
import numpy as np
import pytest
from alarms import alarmed, ctrl_c
from hosts import Program, Sample, everywhere, run
from in_child import isolated
from level_kernels import run_on

from finchlang import FinchError
from finchlang.calls.kernel import SpecializedKernel
from finchlang.host.construct import ONE, ZERO, const, op
from finchlang.host.ir import Expr, Residual
from finchlang.native import compiler, module_text
from finchlang.native.emit import emit
from finchlang.native.jit import assembly_text, compile_residual, llvm_text
from finchlang.native.target import has_masks
from finchlang.syntax.types import Float64, Int32, Int64, Type
from finchlang.tensors.formats import parse_format
from finchlang.tensors.tensor import Tensor
from finchlang.text.parse import parse_kernel

pytestmark = pytest.mark.optimised

SPMV, PRODUCT = Program(programs.spmv, (False,)), Program(programs.inner_product)


def kernel(text: str, **formats: str) -> SpecializedKernel:
    return SpecializedKernel(
        parse_kernel(text), {name: parse_format(f) for name, f in formats.items()}
    )


# ----------------------------------------------------------------------------------------- memory


def test_growth_keeps_contents_and_leaves_alone_what_was_given() -> None:
    native = Program(programs.appended).compiled()
    start = np.full(5, -1)
    (grown,), _ = run(native, [start], [1000])
    assert grown is not start and grown[:1000].tolist() == list(range(1000))
    (again,), _ = run(native, [grown], [700])
    assert again is grown
    (larger,), _ = run(native, [grown], [100_000])  # grown memory is outside memory the next time
    assert np.array_equal(larger[:100_000], np.arange(100_000))
    assert grown[:1000].tolist() == list(range(1000))


def test_no_leaks() -> None:
    native, fails = (Program(programs.appended, (k,)).compiled() for k in (-1, 9999))
    tracemalloc.start()  # the memory of kernels is traced, as they use the interpreter's functions
    try:
        run(native, [np.zeros(1, np.int64)], [10_000])
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(50):
            run(native, [np.zeros(1, np.int64)], [10_000])
            with pytest.raises(FinchError):
                run(fails, [np.zeros(1, np.int64)], [10_000])
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 200_000  # one array has 80,000 bytes
    finally:
        tracemalloc.stop()


def grown(s: Sample) -> None:
    data, n = s.buffer("data", Int32), s.input("n")
    s.host.store(data, ZERO, const(5, Int32))
    s.host.grow(data, n)
    s.host.store(data, ONE, const(6, Int32))


@pytest.mark.parametrize("size", [-1, -(2**63), 2**50, 2**62, 2**63 - 1])
def test_absurd_sizes_are_refused(size: int) -> None:
    data = np.array([1, 2], np.int32)
    with pytest.raises(FinchError) as caught:
        run(Program(grown).compiled(), [data], [size])
    assert caught.value.kind == "resource" and data.tolist() == [1, 2]


# -------------------------------------------------------------------------------------- interrupts

SLOW = 10**13


def counted(s: Sample) -> None:
    h = s.buffer("h", Int64)
    s.host.count(ONE, const(SLOW), lambda i: scramble(s, h, i))


def repeated(s: Sample) -> None:
    h, c = s.buffer("h", Int64), s.host.cell(ZERO)

    def step() -> None:
        scramble(s, h, s.host.get(c))
        s.add_to(c, 1)

    s.host.loop(lambda: op("lt", s.host.get(c), SLOW), step)


def scramble(s: Sample, h: Any, i: Expr) -> None:
    old = s.host.load(h, ZERO)
    s.host.store(h, ZERO, op("xor", op("mul", old, 6364136223846793005), op("add", i, 1)))


def short_rows(s: Sample) -> None:
    """Too short to look for interrupts."""
    h = s.buffer("h", Int64)
    row = lambda i: s.host.count(ONE, const(10), lambda j: scramble(s, h, op("xor", i, j)))  # noqa: E731
    s.host.count(ONE, const(SLOW), row)


def long_rows(s: Sample) -> None:
    h = s.buffer("h", Int64)
    row = lambda _: s.host.count(ONE, const(SLOW), lambda j: scramble(s, h, j))  # noqa: E731
    s.host.count(ONE, const(10), row)


def fills(s: Sample) -> None:
    h = s.buffer("h", Int64)
    s.host.count(ONE, const(SLOW), lambda i: s.host.fill(h, ZERO, const(100_000), i))


def sorts(s: Sample) -> None:
    h = s.buffer("h", Int64)
    s.host.count(ONE, const(SLOW), lambda i: s.host.sort(h, ZERO, const(100_000)))


def sorts_by_bits(s: Sample) -> None:
    h, scratch = (s.buffer(name, Int64) for name in ("h", "scratch"))
    sort = lambda i: s.host.sort_bits(h, scratch, ZERO, const(100_000), ZERO, const(62))  # noqa: E731
    s.host.count(ONE, const(SLOW), sort)


def called(s: Sample) -> None:
    """In a procedure: the first call ends soon, the second never."""
    h, count = s.buffer("h", Int64), s.host.cell(ZERO)

    def body(values: Any, cells: Any) -> None:
        for k in range(8):  # what is short is put where it is called
            s.add_to(cells[0], k)
        s.host.count(ONE, values[0], lambda i: scramble(s, h, i))

    for most in (10, SLOW):
        s.host.share("counting", (const(most),), (count,), body)


@pytest.mark.parametrize(
    "make", [counted, repeated, short_rows, long_rows, fills, sorts, sorts_by_bits, called]
)
@isolated
def test_an_interrupt_ends_what_takes_for_ever(make: Callable[[Sample], None]) -> None:
    """In a child, which is killed if it does not end; arrays are as before, and what handles the signal
    may raise what it likes."""
    program = Program(make)
    native, product = program.compiled(), PRODUCT.compiled()
    arrays = [np.arange(100_000)[::-1].copy() for _ in program.residual.buffers]
    answers = (ctrl_c, FinchError), (lambda: 1 // 0, ZeroDivisionError)
    for answer, error in answers:
        before = arrays[0].copy()
        with pytest.raises(error) as caught, alarmed(answer, 0.1):
            run(native, arrays)
        assert getattr(caught.value, "kind", "interrupted") == "interrupted"
        assert np.array_equal(arrays[0], before)
    assert run(product, [np.ones(2), np.ones(2)], [2])[1] == [2.0]


@isolated
def test_an_interrupt_in_llvms_passes_leaves_nothing_to_the_collector() -> None:
    """Which may free a module after what it is in, and crash."""

    def interrupted(*_: object) -> None:
        error = KeyboardInterrupt()
        error.cycle = error  # type: ignore[attr-defined]
        raise error

    compiler._run = interrupted
    for _ in range(10):
        with pytest.raises(KeyboardInterrupt):
            compiler.machine_code("define void @f() {\n  ret void\n}\n")
        gc.collect()


@isolated
def test_no_handler_runs_within_llvmlite() -> None:
    """What it raises there would leave an object half freed, which is then freed twice: the process died
    after compiling had been interrupted some hundred times."""

    places = Counter[str]()

    def handler(number: int, frame: Any) -> None:
        while frame is not None and "llvmlite" not in frame.f_code.co_filename:
            frame = frame.f_back
        places[frame.f_code.co_qualname if frame else ""] += 1

    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    for n in range(4):
        compiler.machine_code(emit(SPMV.residual)[0])
        compile_residual(Program(programs.spmv, (n % 2 == 0,)).residual)
        assembly_text(SPMV.residual)
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert set(places) == {""}, places


# ------------------------------------------------------------------------------- what it is made of


def test_spmv_inner_loop_has_no_polling() -> None:
    """What CSC SpMV does for each entry: three loads, a multiplication, an addition, a store."""
    text = llvm_text(SPMV.residual)
    assert "PyErr_CheckSignals" in text and "alloca" not in text
    blocks = [block for block in text.split("\n\n") if "fmul" in block]
    assert blocks
    for block in blocks:  # LLVM unrolls the loop: some blocks do several entries
        entries = block.count("fmul")
        counts = [block.count(word) for word in ("= load ", "fadd", " store ", " call ")]
        assert counts == [3 * entries, entries, entries, 0]


def test_sums_are_vectorised_and_rows_are_gathered_whole() -> None:
    assert "x double>" in llvm_text(PRODUCT.residual)
    assert "x double>" not in llvm_text(PRODUCT.residual, optimised=False)
    assert "entry" in assembly_text(PRODUCT.residual)
    assert "alloca" not in llvm_text(Program(programs.union).residual)  # what grows is in registers
    lines = llvm_text(Program(programs.spmv, (True,)).residual).splitlines()
    gathers = [line for line in lines if "call" in line and "masked.gather" in line]
    assert all(re.search(r"x i1> splat \(i1 true\)", line) for line in gathers)


def test_large_modules_are_optimised_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "LARGE", 10)
    text = llvm_text(PRODUCT.residual)
    assert "alloca" not in text and "x double>" not in text
    a = np.arange(1.0, 9.0)
    for huge in (compiler.HUGE, 10):
        monkeypatch.setattr(compiler, "HUGE", huge)
        assert run(compile_residual(PRODUCT.residual), [a, a.copy()], [8])[1] == [204.0]


SHORT = {
    "rows": "begin y .= 0; for i=_, j=_ y[i] += A[j, i] * x[j] end end",
    "least": "begin y .= 99; for i=_, j=_ y[i] <<min>>= A[j, i] + x[j] end end",
    "columns": "begin y .= 0; for i=_, j=_ y[j] += A[j, i] * x[i] end end",
}


@pytest.mark.parametrize("type", ["0.0", "Float32(0)", "0", "UInt8(0)"])
@pytest.mark.parametrize("format", ["SparseList", "SparseBlockList", "SparseBand"])
@pytest.mark.parametrize("name", SHORT)
@pytest.mark.parametrize("masks", [False, True])
def test_rows_of_every_short_length(
    type: str, format: str, name: str, masks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lanes that are left out neither count nor are read from memory that is not there."""
    monkeypatch.setattr(module_text, "has_masks", lambda: masks and has_masks())
    columns, rows = 36, 40
    matrix = np.zeros((rows, columns))
    for column in range(columns):  # of `column` entries, in blocks and apart
        matrix[:column, column] = np.arange(column) % 5 + 1
        if column % 3 == 0 and format != "SparseBand":
            matrix[:column, column] *= np.arange(column) % 4 != 1
    A = Tensor.from_numpy(matrix, f"Dense({format}(Element({type})))")
    vector, size = f"Dense(Element({type}))", rows if name != "columns" else columns
    tensors = {"A": A, "x": Tensor.from_numpy(np.arange(size) % 3, vector), "y": Tensor(vector)}
    made = kernel(SHORT[name], A=str(A.format), x=vector, y=vector)
    run_on("native", made, tensors)
    found = tensors["y"].to_numpy().copy()
    run_on("residual", made, tensors)
    assert np.array_equal(found, tensors["y"].to_numpy())


def test_short_loops_leave_lanes_out_where_the_processor_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hint, vector = "vectorize.predicate.enable", "Dense(Element(0.0))"
    band = kernel(SHORT["rows"], A="Dense(SparseBand(Element(0.0)))", x=vector, y=vector)
    for masks in (False, True):
        monkeypatch.setattr(module_text, "has_masks", lambda masks=masks: masks)
        assert (hint in llvm_text(band.staged.residual, optimised=False)) == masks
        assert hint not in llvm_text(PRODUCT.residual, optimised=False)


@pytest.mark.parametrize(("layout", "gathers"), [("rows", True), ("columns", False)])
def test_what_gathers_takes_four_steps_at_a_time(layout: str, gathers: bool) -> None:
    vector = "Dense(Element(0.0))"
    made = kernel(SHORT[layout], A="Dense(SparseList(Element(0.0)))", x=vector, y=vector)
    assert ("vectorize.width" in llvm_text(made.staged.residual, optimised=False)) == gathers


def test_what_is_written_in_a_byte_map_is_cleared_entry_by_entry() -> None:
    formats = {"w": "SparseByteMap(Element(0.0))", "A": "SparseList(Element(0.0))"}
    made = kernel("begin w .= 0; for i=_ w[i] += A[i] end end", **formats)
    assert "scatter" not in llvm_text(made.staged.residual)


# ------------------------------------------------------------------------------------ what is apart


def alike(s: Sample) -> None:
    h = s.buffer("h", Int64)
    for _ in range(2):
        for k in (0, 1):
            many = op("gt", s.host.load(h, ZERO, "first"), 3)
            s.host.branch(many, lambda k=k: s.add_at(h, ONE, const(k + 1)), is_rare=True)  # type: ignore


def test_what_is_apart_and_the_same_is_one_function() -> None:
    text, *parts = emit(Program(alike).residual)
    assert len(parts) == 2 and text.count("call preserve_mostcc i32 @part") == 4
    everywhere(Program(alike), [np.array([4, 0])])


def beside(s: Sample, type: Type, others: int) -> None:
    for k in range(others):
        s.add_at(s.buffer(f"other{k}", Int64), ZERO, ONE)
    h, n = s.buffer("h", type), s.input("n")
    s.host.branch(op("gt", n, 0), lambda: s.add_at(h, ZERO, const(7, type)), is_rare=True)


def test_two_kernels_with_the_same_part_compile_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else they have; a third, which has it on other types, does not share it."""
    compiled: list[str] = []
    original = compiler.machine_code

    def machine_code(source: str, is_rare: bool = False) -> bytes:
        compiled.extend([source] * is_rare)
        return original(source, is_rare)

    monkeypatch.setattr(compiler, "machine_code", machine_code)
    compiler.part_code.cache_clear()
    for type, others in [(Int64, 0), (Int64, 3), (Float64, 0)]:
        residual: Residual = Program(beside, (type, others)).residual
        ones = [np.ones(1, np.int64) for _ in range(others)]
        arrays, _ = run(compile_residual(residual), [*ones, np.ones(1, type.dtype)], [1])
        assert [a[0] for a in arrays] == [2] * others + [8]
    assert len(compiled) == 2
