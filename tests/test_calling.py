"""Calling a kernel again: what is as it was is not told again, and what is not is noticed."""

from __future__ import annotations

import copy
import os
import pickle
import signal
from collections.abc import Callable
from threading import Timer

import numpy as np
import pytest
import scipy.sparse as sp
from in_child import in_child

from finchlang import FinchError, Scalar, Session, Tensor

LARGE = 1 << 16

MULTIPLY = "@finch begin\ny .= 0\nfor j = _, i = _\n y[i] += A[i, j] * x[j]\nend\nend"
SUM = "@finch begin\ns .= 0\nfor i = _\n s[] += x[i]\nend\nend"
KEEP = "@finch begin\nw .= 0\nfor i = _\n if x[i] > c\n w[i] += x[i]\n end\nend\nend"
VECTOR = "Dense(Element(0.0))"


def multiplying(size: int) -> Session:
    session = Session()
    bands = [np.linspace(1, 2, size - 1), np.linspace(3, 4, size)]
    session["A"] = sp.diags_array(bands, offsets=[-1, 0], format="csc")
    session["x"], session["y"] = np.ones(size), Tensor(VECTOR, size)
    return session


@pytest.mark.parametrize("calls", [1, 4, 12])
@pytest.mark.parametrize("size", [10, LARGE // 8])
def test_what_is_done_between_calls_counts(size: int, calls: int) -> None:
    session = multiplying(size)

    def check() -> None:
        for _ in range(calls):
            session.run(MULTIPLY)
            assert np.allclose(session["y"].to_numpy(), session["A"] @ session["x"])

    check()
    session["y"].storage = [{}, {"val": np.arange(float(size))}]
    check()
    session["A"].data = 2 * session["A"].data
    check()
    session["x"] = np.full(size, 3.0)
    check()
    session["y"] = Tensor(VECTOR, size)
    check()
    session["A"] = sp.csc_array(np.eye(7, size))
    check()
    session["y"] = np.ones(7)
    for _ in range(calls):
        session.run(MULTIPLY)
        assert np.allclose(session["y"], session["A"] @ session["x"])


@pytest.mark.parametrize("size", [10, LARGE // 8])
def test_numbers_are_told_anew(size: int) -> None:
    session, program = multiplying(size), MULTIPLY.replace("x[j]", "x[j] * c")
    for c in (1.0,) * 9 + (2.0, 1.0, 1.0, 3, 3, 1.0) + (0.0,) * 9 + (-0.0,):
        session["c"] = c
        session.run(program)
        expected = session["A"] @ session["x"] * c
        assert np.allclose(session["y"].to_numpy(), expected)


@pytest.mark.parametrize("size", [10, LARGE // 8])
def test_a_call_that_fails_after_many_that_did_not(size: int) -> None:
    session = Session()
    session["x"], session["y"] = np.arange(float(size)), Tensor(VECTOR, size)
    session["k"] = k = np.arange(1, size + 1)
    program = "@finch begin\ny .= 0\nfor i = _\n y[k[i]] += x[i]\nend\nend"
    for _ in range(9):
        session.run(program)
    k[-1] = size + 1
    with pytest.raises(FinchError, match="is not in"):
        session.run(program)
    assert session["y"].to_numpy().tolist() == session["x"].tolist()
    k[-1] = size - 1
    for _ in range(9):
        session.run(program)
        assert session["y"].to_numpy()[-2:].tolist() == [2 * size - 3, 0]


def test_names_may_lose_their_values() -> None:
    session = multiplying(10)
    for _ in range(9):
        session.run(MULTIPLY)
    del session.environment.values["x"]
    with pytest.raises(FinchError, match="x"):
        session.run(MULTIPLY)


def test_a_function_calls_its_kernel_again_on_what_it_is_given() -> None:
    session = multiplying(10)
    session.run(f"function f(A, x, y)\n{MULTIPLY}\nend")
    session["v"] = np.full(10, 2.0)
    for name in ["x"] * 9 + ["v"] * 9 + ["x", "v", "x"]:
        session.run(f"f(A, {name}, y)")
        assert np.allclose(session["y"].to_numpy(), session["A"] @ session[name])


class Alarm(Exception):
    pass


def handler(*_: object) -> None:
    raise Alarm


@pytest.mark.parametrize(
    "raising, caught", [(handler, Alarm), (signal.default_int_handler, FinchError)]
)
def test_an_interrupt_during_a_repeated_call(raising, caught: type[Exception]) -> None:
    """A handler's exception comes through, Ctrl-C is an error, and what the kernel did is taken
    back."""
    session = Session()
    session["x"], session["y"] = np.zeros(1000), Tensor(VECTOR, 1000)
    session["n"] = np.array([10])
    program = """@finch begin
        y .= 0
        for t = _, i = _
            for k = 1:n[t]
                y[i] += cos(x[i] * k)
            end
        end
    end"""
    for _ in range(9):
        session.run(program)
    session["n"][:] = 10**12
    old = signal.signal(signal.SIGALRM, raising)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(caught):
            session.run(program)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert session["y"].to_numpy().tolist() == [10.0] * 1000
    session["n"][:] = 3
    session.run(program)
    assert session["y"].to_numpy().tolist() == [3.0] * 1000


def test_results_are_read_by_other_kernels_in_turn() -> None:
    """Two kernels on two large vectors: each sees what the other made."""
    session = multiplying(LARGE // 8)
    session["x"] = Tensor.from_numpy(np.ones(LARGE // 8))
    expected = np.ones(LARGE // 8)
    back = MULTIPLY.replace("y", "z").replace("x", "y").replace("z", "x")
    for _ in range(5):
        session.run(MULTIPLY)
        session.run(back)
        expected = session["A"] @ (session["A"] @ expected)
        assert np.allclose(session["x"].to_numpy(), expected)


def test_a_scalar_that_was_set_to_something_else_is_computed_again() -> None:
    session = Session()
    session["x"], session["s"] = np.arange(4.0), Scalar(0.0)
    for _ in range(3):
        session.run(SUM)
        assert session["s"].value == 6
        session["s"].value = 1.0
    session.run(SUM)
    session["x"][:] = 2
    session.run(SUM)
    assert session["s"].value == 8


def test_a_scalar_goes_on_from_what_it_was() -> None:
    session = Session()
    session["x"], session["s"] = np.arange(4.0), Scalar(0.0)
    for number in range(1, 5):
        session.run(SUM.replace("s .= 0\n", ""))
        assert session["s"].value == 6 * number


def test_signed_zeros_are_told_apart() -> None:
    session = Session()
    session["s"], session["t"] = Scalar(0.0), Scalar(0.0)
    for value in (0.0, -0.0, 0.0):
        session["s"].value = value
        session.run("@finch t[] = s[]")
        assert np.signbit(session["t"].value) == np.signbit(value)


def test_lengths_within_spare_room_are_noticed() -> None:
    """The number of entries is in no counter: only the arrays' lengths tell."""
    session = Session()
    x = session["x"] = np.arange(1.0, 101.0)
    session["w"] = Tensor("SparseList(Element(0.0))", 100)
    for c in (0.0, 90.0, 90.0, 50.0, 50.0, 99.0, 0.0):
        session["c"] = c
        session.run(KEEP)
        assert session["w"].countstored() == np.count_nonzero(x > c)
        assert len(session["w"].storage[-1]["val"]) == np.count_nonzero(x > c)


def test_two_calls_in_turn() -> None:
    session = multiplying(10)
    session["v"], session["z"] = np.full(10, 2.0), Tensor(VECTOR, 10)
    session.run(f"function f(A, x, y)\n{MULTIPLY}\nend")
    for _ in range(9):
        session.run("f(A, x, y)\nf(A, v, z)")
    for factor in (2, 3):
        session["A"].data *= factor
        session.run("f(A, x, y)\nf(A, v, z)")
        assert np.allclose(session["y"].to_numpy(), session["A"] @ session["x"])
        assert np.allclose(session["z"].to_numpy(), session["A"] @ session["v"])


@pytest.mark.parametrize("kind", [sp.csc_array, sp.csr_matrix])
def test_a_matrix_with_parts_that_are_not_in_place_stays_the_same_object(kind) -> None:
    session, C = Session(), kind(np.eye(3))
    C.indices = C.indices[::-1].copy()[::-1]
    session["A"], session["C"] = kind(np.diag([1.0, 2.0, 3.0])), C
    loops = "j = _, i = _" if kind is sp.csc_array else "i = _, j = _"
    session.run(f"@finch begin\nC .= 0\nfor {loops}\n C[i, j] = 2 * A[i, j]\nend\nend")
    assert session["C"] is C and np.array_equal(C.toarray(), np.diag([2.0, 4.0, 6.0]))


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))]
)
@pytest.mark.parametrize("format", ["Dense(Element(0.0))", "SparseList(Element(0.0))"])
def test_a_copy_of_a_tensor_has_memory_of_its_own(duplicate, format: str) -> None:
    session = Session()
    session["y"], session["x"] = Tensor(format, 5), np.arange(5.0)
    for _ in range(3):
        session.run("@finch begin\ny .= 0\nfor i = _\n y[i] = x[i]\nend\nend")
    first, kept = session["y"], duplicate(session["y"])
    session["y"] = kept
    for factor in (2.0, 3.0, 4.0):
        session["x"] = factor * np.arange(5.0)
        session.run("@finch begin\ny .= 0\nfor i = _\n y[i] = x[i]\nend\nend")
        assert np.array_equal(kept.to_numpy(), session["x"])
        assert np.array_equal(first.to_numpy(), np.arange(5.0))


def test_indices_of_two_widths_that_are_out_of_order() -> None:
    session, A = Session(), sp.csc_array(np.arange(9.0).reshape(3, 3))
    A.indices, A.data = A.indices[::-1].astype(np.int64), A.data[::-1].copy()
    A.indptr = A.indptr.astype(np.int32)
    A.has_sorted_indices = False
    expected = np.zeros((3, 3))
    for j in range(3):
        for q in range(A.indptr[j], A.indptr[j + 1]):
            expected[A.indices[q], j] += A.data[q]
    session["A"], session["x"], session["y"] = A, np.ones(3), np.zeros(3)
    session.run(MULTIPLY)
    assert np.allclose(session["y"], expected.sum(axis=1))


#: operands of which many loops are staged for minutes
FORMATS = [
    "SparseBlockList(SparseRunList({}))",
    "SparseBand(RunList({}))",
    "RunList(SparseList({}))",
]
SLOW = "for j = _, i = _ y[i] += A[i, j] + B[i, j] + C[i, j] end;" * 300


class OutOfTime(Exception):
    """What a time limit raises."""


def _out_of_time(*_: object) -> None:
    raise OutOfTime


@pytest.mark.parametrize("engine", ["native", "interpret", "residual"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGALRM])
def test_a_kernel_that_takes_long_to_stage_is_stopped(engine: str, number: int) -> None:
    """By Ctrl-C, and by a limit of the user's; the session is as before."""

    def work(report: Callable[[str], None]) -> None:
        signal.signal(signal.SIGALRM, _out_of_time)
        session = Session(engine=engine)
        for name, format in zip("ABC", FORMATS, strict=True):
            session[name] = Tensor(format.format("Element(0.0)"), np.eye(3))
        session["y"] = y = np.full(3, 7.0)
        asking = Timer(1.0, os.kill, (os.getpid(), number))
        asking.start()
        with pytest.raises((FinchError, OutOfTime)) as caught:
            session.run(f"@finch begin y .= 0; {SLOW} end")
        if number == signal.SIGINT:
            assert caught.value.kind == "interrupted"  # type: ignore[union-attr]
        assert session["y"] is y and y.tolist() == [7, 7, 7]
        session.run("@finch begin y .= 0; for j = _, i = _ y[i] += A[i, j] + B[i, j] end end")
        assert y.tolist() == [2, 2, 2]

    ended = in_child(work)
    assert ended, ended
