"""Native code does what the host language says, statement by statement, and is good code."""

from __future__ import annotations

import re
import time

import ir_samples as samples
import numpy as np
import pytest
import scipy.sparse as sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_samples import checked, compiled
from level_kernels import result, tensor
from native_calls import run

import finchlang.array as xp
from finchlang.host.execute import run_residual
from finchlang.host.fold import ONE, ZERO, const, op
from finchlang.native import jit, module
from finchlang.native.jit import assembly_text, compile_residual, llvm_text
from finchlang.native.target import has_masks
from finchlang.run.kernel import Kernel
from finchlang.tensors.formats import parse_format
from finchlang.tensors.tensor import Tensor
from finchlang.text.parse import parse_kernel
from finchlang.types import (
    TYPES,
    Bool,
    Int32,
    Int64,
    Type,
    UInt8,
)

pytestmark = pytest.mark.optimised

INTEGERS = [t for t in TYPES.values() if t.is_integer]


@pytest.mark.parametrize("by_row", [False, True])
@pytest.mark.parametrize("density", [0.0, 0.002, 0.1])
def test_spmv(by_row: bool, density: float) -> None:
    m, n = 211, 187
    a = sparse.random(m, n, density, format="csr" if by_row else "csc", random_state=3)
    x, y = np.random.default_rng(0).random(n), np.full(m, 7.0)
    kernel = compiled(samples.spmv, by_row)
    arrays, outputs = run(kernel, [y, a.indptr, a.indices, a.data, x], [m, n])
    assert arrays[0] is y and outputs == []
    np.testing.assert_allclose(y, a @ x)


def test_inner_product_gives_an_output() -> None:
    a, b = np.random.default_rng(0).random((2, 1001))
    _, outputs = run(compiled(samples.inner_product), [a, b], [1001])
    assert outputs == [pytest.approx(a @ b)]


entries = st.dictionaries(st.integers(0, 60), st.floats(-5, 5), max_size=40)


@settings(max_examples=60, deadline=None)
@given(entries, entries, st.integers(0, 3))
def test_union_grows_its_result(a: dict, b: dict, room: int) -> None:
    def arrays(entries: dict) -> list[np.ndarray]:
        keys = sorted(entries)
        return [np.array(keys, np.int32), np.array([entries[k] for k in keys], float)]

    given_arrays = [*arrays(a), *arrays(b), np.zeros(room, np.int32), np.zeros(room)]
    inputs = [len(a), len(b)]
    kernel = compiled(samples.union)
    after, (count,) = run(kernel, given_arrays, inputs)
    sums = {k: a.get(k, 0.0) + b.get(k, 0.0) for k in sorted({*a, *b})}
    assert after[4][:count].tolist() == list(sums)
    np.testing.assert_allclose(after[5][:count], list(sums.values()))
    _, evaluated, outputs = run_residual(samples.union(), [x.copy() for x in given_arrays], inputs)
    assert outputs == [count]
    np.testing.assert_array_equal(evaluated[4][:count], after[4][:count])


@settings(max_examples=60, deadline=None)
@given(st.sets(st.integers(0, 300)), st.sets(st.integers(0, 300)))
def test_intersection_by_search(a: set[int], b: set[int]) -> None:
    arrays = [np.array(sorted(x), np.int32) for x in (a, b)]
    assert run(compiled(samples.intersection), arrays, [len(a), len(b)])[1] == [len(a & b)]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 255), max_size=300), st.integers(0, 255), st.integers(0, 400))
def test_search(values: list[int], key: int, low: int) -> None:
    data = np.array(sorted(values), np.uint8)
    low = min(low, len(data))
    found = run(compiled(samples.searched, UInt8), [data], [low, len(data), key])[1]
    assert found == [low + np.searchsorted(data[low:], key)]


@pytest.mark.parametrize("masks", [False, True])
@pytest.mark.parametrize("type", INTEGERS, ids=str)
def test_search_in_ranges_of_every_length(
    type: Type, masks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within one window of entries, just beyond it, and far away; other fibers' entries around."""
    monkeypatch.setattr(module, "has_masks", lambda: masks and has_masks())
    monkeypatch.setattr(jit, "_procedures", {})
    kernel = compile_residual(checked(samples.searched(type)))
    for length in (0, 1, 2, 15, 16, 17, 18, 33, 50):
        middle = np.arange(1, 2 * length + 1, 2)
        data = np.concatenate([[9, 0], middle, [0, 0]]).astype(type.dtype)
        for key in range(0, 2 * length + 3):
            found = run(kernel, [data], [2, 2 + length, key])[1]
            assert found == [2 + np.searchsorted(middle, key)]


@pytest.mark.parametrize("type", INTEGERS, ids=str)
def test_sort_every_type(type: Type) -> None:
    rng = np.random.default_rng(0)
    for n in (0, 1, 2, 16, 25, 500):
        data = rng.integers(type.lowest, type.highest, n + 5, type.dtype, endpoint=True)
        want = np.concatenate([np.sort(data[:n]), data[n:]])
        run(compiled(samples.sorted_range, type), [data], [0, n])
        np.testing.assert_array_equal(data, want)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(-5, 50), max_size=400), st.integers(0, 20))
def test_sort_a_part(values: list[int], low: int) -> None:
    data = np.array(values, np.int32)
    low = min(low, len(values))
    want = np.concatenate([data[:low], np.sort(data[low:])])
    run(compiled(samples.sorted_range, Int32), [data], [low, len(values)])
    np.testing.assert_array_equal(data, want)


def median_of_three_killer(n: int) -> np.ndarray:
    """An order on which quicksort with this pivot divides badly every time (Musser 1997)."""
    half = n // 2
    first = [i + 1 if i % 2 == 0 else half + i + (0 if half % 2 else 1) for i in range(half)]
    return np.array([*first, *range(2, n + 2, 2)][:n], np.int64)


@pytest.mark.parametrize("order", ["random", "sorted", "reversed", "equal", "killer", "organ pipe"])
def test_sort_large_is_quick(order: str) -> None:
    n = 300_000
    up = np.arange(n)
    data = {
        "random": lambda: np.random.default_rng(0).permutation(n),
        "sorted": lambda: up,
        "reversed": lambda: up[::-1].copy(),
        "equal": lambda: np.full(n, 3),
        "killer": lambda: median_of_three_killer(n),
        "organ pipe": lambda: np.minimum(up, up[::-1]),
    }[order]().astype(np.int64)
    want = np.sort(data)
    start = time.perf_counter()
    run(compiled(samples.sorted_range, Int64), [data], [0, n])
    assert time.perf_counter() - start < 1.0
    np.testing.assert_array_equal(data, want)


@pytest.mark.parametrize("type", TYPES.values(), ids=str)
@pytest.mark.parametrize("value", [0, 1, -0.0])
def test_fill(type: Type, value: float) -> None:
    kernel = compile_residual(checked(samples.filled(type, const(value))))
    data = np.full(50, 1, type.dtype)
    for low, high in ((3, 40), (10, 10), (10, 4)):
        want = data.copy()
        want[low : max(low, high)] = value
        run(kernel, [data], [low, high])
        assert data.tobytes() == want.tobytes()  # also tells -0.0 from 0.0


@pytest.mark.parametrize("type", TYPES.values(), ids=str)
def test_inputs_and_outputs_of_every_type(type: Type) -> None:
    s = samples.Sample()
    for k in range(2):
        s.output(s.input(f"x{k}", type))
    kernel = compile_residual(checked(s.residual()))
    low = -1.5 if type.is_float else type.lowest
    high = 2.25 if type.is_float else type.highest
    assert run(kernel, [], [low, high])[1] == [low, high]


def test_bools_are_bytes_in_memory() -> None:
    s = samples.Sample()
    a, b = s.buffer("a", Bool), s.buffer("b", Bool)
    s.host.store(b, ZERO, op("not", s.host.load(a, ONE)))
    a_data, b_data = np.array([True, False]), np.array([False, False])
    run(compile_residual(checked(s.residual())), [a_data, b_data])
    assert b_data.tobytes() == b"\1\0"


def test_nested_control_agrees_with_the_evaluator() -> None:
    """Collatz steps below n: a while and an if within a for, and cells used across them."""
    s = samples.Sample()
    steps, n, host = s.buffer("steps", Int64), s.input("n"), s.host
    total = s.output(ZERO)

    def entry(i):
        x = host.cell(i)

        def step() -> None:
            old = host.get(x)
            even = op("eq", op("irem", old, 2), 0)
            host.branch(
                even,
                lambda: host.set(x, op("idiv", old, 2)),
                lambda: host.set(x, op("add", op("mul", old, 3), 1)),
            )
            s.add_at(steps, i, ONE)
            s.add_to(total, 1)

        host.loop(lambda: op("gt", host.get(x), 1), step)

    host.count(ONE, op("sub", n, 1), entry)
    residual = checked(s.residual())
    native, evaluated = np.zeros(40, np.int64), np.zeros(40, np.int64)
    _, outputs = run(compile_residual(residual), [native], [40])
    assert outputs == run_residual(residual, [evaluated], [40])[2]
    np.testing.assert_array_equal(native, evaluated)
    assert native[27] == 111


# ------------------------------------------------------------------------------------- code quality


def test_spmv_inner_loop_has_no_polling() -> None:
    """What CSC SpMV does for each entry: three loads, a multiplication, an addition, a store."""
    text = llvm_text(samples.spmv(False))
    assert "PyErr_CheckSignals" in text and "alloca" not in text
    blocks = [block for block in text.split("\n\n") if "fmul" in block]
    assert blocks
    for block in blocks:  # LLVM unrolls the loop: some blocks do several entries
        entries = block.count("fmul")
        counts = [block.count(word) for word in ("= load ", "fadd", " store ", " call ")]
        assert counts == [3 * entries, entries, entries, 0]


def test_inner_product_is_vectorised_and_unoptimised_text_is_plain() -> None:
    assert "x double>" in llvm_text(samples.inner_product())
    assert "x double>" not in llvm_text(samples.inner_product(), optimised=False)
    assert "entry" in assembly_text(samples.inner_product())


def test_large_modules_are_optimised_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "LARGE", 10)
    text = llvm_text(samples.inner_product())
    assert "alloca" not in text and "x double>" not in text
    native, evaluated = np.arange(1.0, 9.0), np.arange(1.0, 9.0)
    residual = samples.inner_product()
    for huge in (jit.HUGE, 10):
        monkeypatch.setattr(jit, "HUGE", huge)
        found = run(compile_residual(residual), [native, native.copy()], [8])[1]
        assert found == run_residual(residual, [evaluated, evaluated.copy()], [8])[2] == [204.0]


def test_growable_buffers_stay_in_registers() -> None:
    assert "alloca" not in llvm_text(samples.union())


# ---------------------------------------------------------------------------- short loops

SHORT = {
    "rows": "begin y .= 0; for i=_, j=_ y[i] += A[j, i] * x[j] end end",
    "least": "begin y .= 99; for i=_, j=_ y[i] <<min>>= A[j, i] + x[j] end end",
    "columns": "begin y .= 0; for i=_, j=_ y[j] += A[j, i] * x[i] end end",
}


@pytest.mark.parametrize("type", ["0.0", "Float32(0)", "0", "Int32(0)", "UInt8(0)"])
@pytest.mark.parametrize("format", ["SparseList", "SparseBlockList", "SparseBand"])
@pytest.mark.parametrize("name", SHORT)
@pytest.mark.parametrize("masks", [False, True])
def test_rows_of_every_short_length(
    type: str, format: str, name: str, masks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lanes that are left out neither count nor are read from memory that is not there."""
    monkeypatch.setattr(module, "has_masks", lambda: masks and has_masks())
    columns, rows = 36, 40
    matrix = np.zeros((rows, columns))
    for column in range(columns):  # of `column` entries, in blocks and apart
        matrix[:column, column] = np.arange(column) % 5 + 1
        if column % 3 == 0 and format != "SparseBand":
            matrix[:column, column] *= np.arange(column) % 4 != 1
    A = Tensor.from_numpy(matrix, f"Dense({format}(Element({type})))")
    x = Tensor.from_numpy(
        np.arange(rows if name != "columns" else columns) % 3, f"Dense(Element({type}))"
    )
    y = Tensor(f"Dense(Element({type}))")
    kernel = Kernel(parse_kernel(SHORT[name]), {"A": A.format, "x": x.format, "y": y.format})
    tensors = {"A": A, "x": x, "y": y}
    kernel.run_native([tensors[n] for n in kernel.tensors], [])
    native = y.to_numpy().copy()
    kernel.run_residual([tensors[n] for n in kernel.tensors], [])
    assert np.array_equal(native, y.to_numpy())


def test_short_loops_leave_lanes_out_where_the_processor_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hint = "vectorize.predicate.enable"
    formats = {"A": "Dense(SparseBand(Element(0.0)))", "x": "Dense(Element(0.0))"}
    formats["y"] = formats["x"]
    parsed = {name: parse_format(text) for name, text in formats.items()}
    band = Kernel(parse_kernel(SHORT["columns"]), parsed).residual
    for masks in (False, True):
        monkeypatch.setattr(module, "has_masks", lambda masks=masks: masks)
        assert (hint in llvm_text(band, optimised=False)) == masks
        assert hint not in llvm_text(samples.inner_product(), optimised=False)


def test_short_loops_that_scatter_have_no_vectors() -> None:
    """What is written in a byte map is cleared entry by entry."""
    formats = {"w": "SparseByteMap(Element(0.0))", "A": "SparseList(Element(0.0))"}
    parsed = {name: parse_format(text) for name, text in formats.items()}
    kernel = Kernel(parse_kernel("begin w .= 0; for i=_ w[i] += A[i] end end"), parsed)
    assert "scatter" not in llvm_text(kernel.residual)


def test_rows_are_not_gathered_with_lanes_left_out() -> None:
    lines = llvm_text(samples.spmv(True)).splitlines()
    gathers = [line for line in lines if "call" in line and "masked.gather" in line]
    assert all(re.search(r"x i1> splat \(i1 true\)", line) for line in gathers)


# ---------------------------------------------------------------------------- fills that are fused


@pytest.mark.parametrize(("loop", "times"), [("i=_", 1), ("k=1:2, i=_", 2), ("k=1:0, i=_", 0)])
@pytest.mark.parametrize("value", ["x[i]", "x[i] * x[i]"])
@pytest.mark.parametrize("condition", ["true", "x[i] > 2"])
def test_fused_fills_fill(loop: str, times: int, value: str, condition: str) -> None:
    x = np.array([1.0, 2.0, 3.0, 4.0])
    text = f"y .= 7.0; for {loop} if {condition} y[i] += {value} end end"
    tensors = {"x": tensor(x, "Dense(Element(0.0))"), "y": Tensor("Dense(Element(0.0))", 9)}
    taken = np.where((x > 2) | (condition == "true"), x if value == "x[i]" else x * x, 0)
    np.testing.assert_array_equal(result(text, tensors, "y"), 7 + times * taken)


@pytest.mark.parametrize("type", ["int8", "uint16", "int32", "float32"])
def test_parts_of_pairs_of_different_sizes(type: str) -> None:
    """LLVM's passes must know what padding there is between them."""
    values = np.random.default_rng(0).integers(0, 9, (4, 5)).astype(type)
    for axis in (0, 1):
        found = xp.todense(xp.argmin(values, axis=axis))
        assert found.tolist() == np.argmin(values, axis=axis).tolist()
