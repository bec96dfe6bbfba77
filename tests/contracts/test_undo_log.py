"""The undo log: which arrays have one, and that it puts them back under both engines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hosts import Sample, up_to
from hypothesis import given, settings, strategies as st

from finchlang.base.errors import FinchError
from finchlang.calls.kernel import SpecializedKernel
from finchlang.host.construct import ZERO, const, op
from finchlang.host.executing import run_residual
from finchlang.host.ir import Residual
from finchlang.host.noted import LAST_EPOCH, UndoLog, undo
from finchlang.host.verify import check
from finchlang.native import jit, link
from finchlang.native.function_text import layout_of
from finchlang.optimize.undo_log import scattered, with_undo_log
from finchlang.syntax.types import Int64
from finchlang.tensors.formats import parse_format
from finchlang.text.parse import parse_kernel

FORMATS = {
    "x": "Dense(Element(0.0))",
    "y": "Dense(Element(0.0))",
    "k": "Dense(Element(0))",
    "s": "SparseList(Element(0.0))",
    "t": "SparseList(Element(0.0))",
    "F": "SparseByteMap(Pattern())",
    "A": "Dense(SparseList(Element(0.0)))",
}
SCATTER = "for i = _\n y[k[i]] += s[i]\nend"


@pytest.mark.parametrize(
    ("program", "names"),
    [
        (SCATTER, ["y_val"]),
        ("for i = _\n y[k[i]] += x[i]\nend", []),  # over a whole dimension
        ("for i = 1:3\n y[k[i]] += x[i]\nend", []),
        ("y .= 0; for i = _\n y[k[i]] += s[i]\nend", []),  # all of y is written anyhow
        ("for j = _, i = _\n y[i] += A[i, j] * x[j]\nend", []),
        ("for j = _, i = _\n y[i] += A[i, j] * s[j]\nend", ["y_val"]),
        ("t .= 0; for i = _\n t[i] = 2 * s[i]\nend", []),  # appended to
        (SCATTER + "; for i = _\n x[i] += 1\nend", []),  # there is as much to do elsewhere
        ("F .= false; for i = _\n F[k[i]] |= s[i] > 0\nend", ["F_tbl1"]),
        ("y[1] += x[1]", []),
    ],
)
def test_what_few_stores_go_to_has_a_log(program: str, names: list[str]) -> None:
    formats = {name: parse_format(text) for name, text in FORMATS.items()}
    residual = SpecializedKernel(parse_kernel(f"begin\n{program}\nend"), formats).staged.residual
    assert [buffer.name for buffer in scattered(residual)] == names
    logged, undo_log = with_undo_log(residual)
    check(logged)
    assert [residual.buffers[log.array].name for log in undo_log.logs] == names


def scatter() -> Residual:
    """`y[k[p]] += p + 1`, and the size that y is to have in a branch of its own: entries that this adds
    are -1. A place of -2 fails. Buffers y, k, p; inputs size, grow_to."""
    s = Sample()
    host = s.host
    y, k, p = s.buffer("y", Int64), s.buffer("k", Int64), s.buffer("p", Int64)
    size, grow_to = s.input("size"), s.input("grow_to")

    def renew() -> None:
        host.grow(y, grow_to)
        host.fill(y, size, grow_to, const(-1))

    def step(q: Any) -> None:
        place = host.load(k, q)
        host.branch(op("eq", place, -2), lambda: host.fail("bounds", "no place"))
        s.add_at(y, place, op("add", q, 1))

    host.branch(op("lt", size, grow_to), renew)
    first = host.load(p, ZERO)
    host.count(first, up_to(host.load(p, const(1))), step)
    return s.residual()


Run = Callable[[Sequence[np.ndarray], Sequence[int]], tuple[bool, list[np.ndarray]]]


def evaluated(residual: Residual) -> Run:
    def run(arrays: Sequence[np.ndarray], inputs: Sequence[int]) -> tuple[bool, list[np.ndarray]]:
        try:
            return True, run_residual(residual, arrays, inputs)[1]
        except FinchError:
            return False, list(arrays)

    return run


def native(residual: Residual) -> Run:
    kernel = link.kernel_of(layout_of(residual), jit.object_code(residual), None, None)

    def run(arrays: Sequence[np.ndarray], inputs: Sequence[int]) -> tuple[bool, list[np.ndarray]]:
        after = list(arrays)
        try:
            kernel.call(list(arrays), list(inputs))
        except FinchError:
            return False, after
        for number, grown in kernel.grown().items():
            after[number] = grown
        return True, after

    return run


class Calls:
    """Calls of a program with an undo log for its first buffer; the log's memory is kept."""

    def __init__(self, engine: Callable[[Residual], Run], residual: Residual, most: int):
        logged, self.description = with_undo_log(residual)
        check(logged)
        self.run, (self.log,) = engine(logged), self.description.logs
        self.touched = np.zeros(most, np.uint8)
        self.at, self.was = np.empty(most + 1, np.int64), np.empty(most, np.int64)
        self.epoch = 0

    def __call__(self, arrays: Sequence[np.ndarray], inputs: Sequence[int]) -> tuple[bool, Any]:
        if self.epoch == LAST_EPOCH:
            self.epoch = 0
            self.touched[:] = 0
        self.epoch += 1
        assert self.description == UndoLog((self.log,), len(inputs))
        all_inputs = [*inputs, self.epoch, len(arrays[0])]
        log = [self.touched, self.at, self.was]
        succeeds, after = self.run([*arrays, *log], all_inputs)
        return succeeds, after[0]


@pytest.mark.parametrize("engine", [evaluated, native])
def test_what_was_there_is_put_back(engine: Callable[[Residual], Run]) -> None:
    residual = scatter()
    calls = Calls(engine, residual, 12)

    @settings(max_examples=100)
    @given(
        st.integers(1, 9),
        st.integers(0, 12),
        st.lists(st.integers(0, 8), max_size=20),
        st.booleans(),
    )
    def puts_back(size: int, grow_to: int, places: list[int], fails: bool) -> None:
        y, last = np.arange(100, 100 + size), max(size, grow_to) - 1
        k = np.array([min(place, last) for place in places] + [-2] * fails, np.int64)
        p = np.array([0, len(k)])
        before, wanted = y.copy(), np.append(y, np.full(max(grow_to - size, 0), -1))
        for step, place in enumerate(k[: len(places)]):
            wanted[place] += step + 1
        succeeds, after = calls([y, k, p], [size, grow_to])
        assert succeeds != fails
        assert fails or np.array_equal(after[: len(wanted)], wanted)
        noted = set(k[: len(places)].tolist()) & set(range(size))
        assert calls.at[0] == len(noted)
        undo(y, calls.at, calls.was)
        assert np.array_equal(y, before)

    puts_back()


@pytest.mark.parametrize("engine", [evaluated, native])
def test_epochs_begin_again(engine: Callable[[Residual], Run]) -> None:
    calls = Calls(engine, scatter(), 3)
    y, p = np.zeros(3, np.int64), np.array([0, 1])
    for step in range(2 * LAST_EPOCH + 3):
        before = y.copy()
        succeeds, _ = calls([y, np.array([step % 3]), p], [3, 0])
        assert succeeds and calls.at[0] == 1
        if step % 2:
            undo(y, calls.at, calls.was)
            assert np.array_equal(y, before)
