"""Checked native code: planted faults of memory are found by every host that can run them, are told by
their statement, and leave everything as it was; what is in order runs as it does unchecked."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hosts import Sample, run

from finchlang import Session
from finchlang.base.errors import BUG, Bug
from finchlang.calls.runner import KernelEvent, Observer
from finchlang.host.construct import ONE, ZERO, add, const, op
from finchlang.host.executing import run_residual
from finchlang.host.ir import CallProcedure, Code, Expr, Load, Procedure, Residual, Store, Var
from finchlang.host.verify import check
from finchlang.levels.sparse_list import SparseList
from finchlang.native.jit import compile_residual
from finchlang.optimize.pipeline import lower
from finchlang.repl.__main__ import main
from finchlang.syntax.types import Int32, Int64
from finchlang.tensors.tensor import Tensor

Made = Callable[[Sample, Expr], None]


def grown(s: Sample, name: str = "g", size: int = 3) -> Any:
    """An array with so many entries asked for, and room for more, of which the first two are written."""
    buffer = s.buffer(name, Int64)
    s.host.grow(buffer, const(size))
    s.host.fill(buffer, ZERO, const(2), const(7))
    return buffer


def load(s: Sample, n: Expr) -> None:
    s.output(s.host.load(s.buffer("x", Int64), n))


def store(s: Sample, n: Expr) -> None:
    s.host.store(s.buffer("x", Int64), n, ONE)


def store_grown(s: Sample, n: Expr) -> None:
    s.host.store(grown(s), add(n, 1), ONE)


def load_grown(s: Sample, n: Expr) -> None:
    s.output(s.host.load(grown(s), n))


def grow_again(s: Sample, n: Expr) -> None:
    """What was written stays so, what is asked for later is not."""
    buffer = grown(s)
    s.host.grow(buffer, const(100))
    s.output(s.host.load(buffer, n))


def fill(s: Sample, n: Expr) -> None:
    s.host.fill(s.buffer("x", Int64), ONE, add(n, 1), ONE)


def copy(s: Sample, n: Expr) -> None:
    x, buffer = s.buffer("x", Int64), grown(s)
    s.host.count(ZERO, n, lambda k: s.host.store(x, ZERO, s.host.load(buffer, k)))


def search(s: Sample, n: Expr) -> None:
    s.output(s.host.search(grown(s), ZERO, add(n, 1), const(7)))


def disjoint(s: Sample, n: Expr) -> None:
    x, y = s.buffer("x", Int64), s.buffer("y", Int32)
    s.output(s.host.disjoint(x, add(n, 1), ZERO, y, n))


def sort(s: Sample, n: Expr) -> None:
    s.host.sort(grown(s), ZERO, add(n, 1))


def sort_bits(s: Sample, n: Expr) -> None:
    buffer, scratch = grown(s), s.buffer("x", Int64)
    s.host.sort_bits(buffer, scratch, ZERO, const(2), ZERO, add(n, 62))


def left_undefined(s: Sample, n: Expr) -> None:
    """Of the scratch memory of a sort nothing is left."""
    scratch = grown(s, "scratch")
    s.host.sort_bits(s.buffer("x", Int64), scratch, ZERO, n, ZERO, const(3))
    s.output(s.host.load(scratch, ZERO))


def rarely(s: Sample, n: Expr) -> None:
    buffer, out = grown(s), s.output(ZERO)
    is_rare = op("gt", n, 0)
    s.host.branch(is_rare, lambda: s.host.set(out, s.host.load(buffer, n)), is_rare=True)


def in_procedure(s: Sample, n: Expr) -> None:
    buffer, p = grown(s), Var("p", Int64)
    value = Var("value", Int64)
    body = Code((Load(value, buffer, p), Store(buffer, ZERO, value)))
    s.procedures = (Procedure("own", (p,), (), body),)
    s.host.do(CallProcedure("own", (n,), (), (buffer,), (buffer,)))


#: for which n each is in order, for which it is at fault, and the line that is
FAULTS: dict[Made, tuple[int, int, str]] = {
    load: (8, 9, "v: Int64 = x[n]"),
    store: (0, -1, "x[n] = 1"),
    store_grown: (1, 2, "g[n + 1] = 1"),
    load_grown: (1, 2, "v: Int64 = g[n]"),
    grow_again: (1, 2, "v: Int64 = g[n]"),
    fill: (8, 9, "fill(x, 1, n + 1, 1)"),
    copy: (1, 2, "v: Int64 = g[i]"),
    search: (1, 2, "q: Int64 = search(g, 0, n + 1, 7)"),
    disjoint: (0, 1, "disjoint: Bool = disjoint(x, n + 1, 0, y, n)"),
    sort: (1, 2, "sort(g, 0, n + 1)"),
    sort_bits: (1, 2, "sort_bits(g, x, 0, 2, 0, n + 62)"),
    left_undefined: (0, 2, "v: Int64 = scratch[0]"),
    rarely: (1, 2, "v: Int64 = g[n]"),
    in_procedure: (1, 2, "value: Int64 = g[p]"),
}


def residual_of(make: Made) -> Residual:
    sample = Sample()
    make(sample, sample.input("n"))
    return sample.residual()


def given(residual: Residual) -> list[np.ndarray]:
    sizes = {"x": 9, "y": 9, "k": 8}
    values = {"k": np.arange(8) % 3}
    found = []
    for buffer in residual.buffers:
        array = values.get(buffer.name, np.zeros(sizes.get(buffer.name, 1)))
        found.append(array.astype(buffer.type.dtype))
    return found


def evaluated(residual: Residual, n: int) -> Any:
    """By the evaluator, which gets no memory for what a program with checks has of its own."""
    arrays = given(residual)
    return run_residual(residual, arrays, [n])[2]


@pytest.mark.parametrize("make", FAULTS, ids=lambda make: make.__name__)
def test_a_planted_fault_is_found_by_every_host(make: Made) -> None:
    residual, (right, fault, line) = residual_of(make), FAULTS[make]
    program, kernel = lower(residual, checked=True)[0], compile_residual(residual, checked=True)
    check(program)
    result = evaluated(residual, right)
    assert evaluated(program, right) == run(kernel, given(residual), [right])[1] == result
    arrays = given(residual)
    with pytest.raises(Bug):
        evaluated(residual, fault)
    for engine in (lambda: evaluated(program, fault), lambda: run(kernel, arrays, [fault])):
        with pytest.raises(Bug, match=re.escape(f"`{line}`: ")):
            engine()
    for before, after in zip(given(residual), arrays, strict=True):
        np.testing.assert_array_equal(before, after)


# -------------------------------------------------------------------------------- whole kernels

COPY = """
@finch begin
    C .= 0
    for j = _, i = _
        C[i, j] = A[i, j] + B[i, j]
    end
end
"""


@pytest.fixture
def no_assembling(monkeypatch: pytest.MonkeyPatch) -> None:
    """A level that does not ask its child for the fibers that it writes."""
    monkeypatch.setattr(SparseList, "assemble", lambda *args: None)
    monkeypatch.setattr("finchlang.calls.kernel.default_cache", lambda: None)


@pytest.mark.parametrize("engine", ["native", "residual", "interpret"])
def test_a_level_that_does_not_assemble_is_found(engine: str, no_assembling: None) -> None:
    """Unchecked native code is right here by luck: growing gives it more room than it asks for."""
    session, format = Session(engine, checked=True), "SparseList(SparseList(Element(0.0)))"
    for name in "AB":
        session[name] = Tensor(format, np.array([[1.0, 0.0], [2.0, 3.0]]))
    before = session["C"] = Tensor(format, np.array([[5.0]]))
    with pytest.raises(Bug, match=r"C_ptr1\[1"):
        session.run(COPY)
    assert session["C"] is before
    np.testing.assert_array_equal(before.to_numpy(), [[5.0]])


SPMV = """
A = Tensor(Dense(SparseList(Element(0.0))), [1.0 0.0; 2.0 3.0])
y = Tensor(Dense(Element(0.0)))
@finch begin
    y .= 0
    for j = _, i = _
        y[i] += A[i, j]
    end
end
println(y[2])
"""


@pytest.mark.parametrize("way", ["run", "diff", "directly", "environment", "unchecked"])
def test_who_asks_for_checks_gets_them(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "seen"  # a file, since `finch diff` runs in a process of its own

    def lowered(residual: Residual, checked: bool = False) -> Any:
        with seen.open("a") as file:
            file.write(f"{checked} ")
        return lower(residual, checked)

    monkeypatch.setattr("finchlang.native.jit.lower", lowered)
    monkeypatch.setattr("finchlang.calls.kernel.default_cache", lambda: None)
    file = tmp_path / "spmv.finch"
    file.write_text(SPMV)
    options = [] if way in ("environment", "unchecked") else ["--checked"]
    if way == "environment":
        monkeypatch.setenv("FINCH_CHECKED", "1")
    command = [way] if way in ("run", "diff") else []
    assert main([*command, *options, str(file)]) == 0
    assert seen.read_text() == f"{way != 'unchecked'} "


def test_code_without_checks_is_not_that_with_them_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FINCH_CACHE_DIR", str(tmp_path))
    found: list[bool] = []

    class Failures(Observer):
        def kernel(self, event: KernelEvent) -> None:
            failures = event.compiled.native.layout.failures
            found.append(any(failure.kind == BUG for failure in failures))

    for checked in (False, True, False, True):
        Session(checked=checked, observer=Failures()).run(SPMV)
    assert found == [False, True, False, True]


def test_an_array_that_is_resized_stays_as_it_was() -> None:
    session, y = Session(checked=True), np.arange(3.0)
    session["y"], session["x"] = y, np.array([5.0, 6.0])
    session.run("@finch begin\ny .= 0\nfor i = _\ny[i] = x[i]\nend\nend")
    np.testing.assert_array_equal(session["y"], [5.0, 6.0])
    np.testing.assert_array_equal(y, [0.0, 1.0, 2.0])
