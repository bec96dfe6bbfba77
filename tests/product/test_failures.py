"""What stops a run from outside, an interrupt or data that are not sound, is an error, after which all that
is bound is as it was; and functions of one session in another."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse.linalg
from alarms import alarmed, arm, ctrl_c

from finchlang import FinchError, Scalar, Session, array
from finchlang.calls.runner import ENGINES, Observer

RUNNING = tuple(engine for engine in ENGINES if engine != "check")
ENDLESS = "@finch for i = 1:1000000000, j = 1:1000000000; s[] += sin(i + j); end"
IN_A_FUNCTION = """
function f(x)
    while x > 0.0
        x += 1.0
    end
    x
end
@finch begin; s .= 0; for i = 1:3{}; s[] += f(x[i]); end; end
"""
TEXTS = (ENDLESS, IN_A_FUNCTION.format(""), IN_A_FUNCTION.format(", j = 1:3"))


class Interrupting(Observer):
    """Ctrl-C comes a little after a kernel has been compiled that never ends by itself: however slow the
    machine is, it comes at some point of its run. The denotation compiles nothing: there it comes after
    what is printed before."""

    def __init__(self) -> None:
        self.is_armed = False

    def kernel(self, event: Any) -> None:
        self.strike()

    def strike(self, text: str = "") -> None:
        if self.is_armed:
            arm(0.1)


WAYS = [(e, t) for e in RUNNING for t in TEXTS if (e, t) != ("denote", ENDLESS)]  # too many places


@pytest.mark.parametrize(("engine", "text"), WAYS)
def test_an_interrupt_ends_a_kernel(engine: str, text: str) -> None:
    """At any depth."""
    total, coming = "@finch for i = _; s[] += x[i]; end", Interrupting()
    session = Session(engine, output=coming.strike, observer=coming)
    session["s"], session["x"] = Scalar(0.0), np.ones(3)
    session.run(total)
    coming.is_armed = True
    with pytest.raises(FinchError) as found, alarmed(ctrl_c):
        session.run(f'println("go")\n{text}' if engine == "denote" else text)
    coming.is_armed = False
    assert found.value.kind == "interrupted"
    assert session["s"].value == 3.0  # as it was before
    session.run(total)
    assert session["s"].value == 6.0


class Late(Observer):
    """Lets Ctrl-C come while an object is being cleaned up."""

    traces = True

    def __init__(self) -> None:
        self.left = 30

    def rule(self, applied: Any) -> None:
        self.left -= 1
        if self.left == 0:
            Falling()


class Falling:
    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        sum(range(10))


def test_an_interrupt_in_a_clean_up_is_not_lost() -> None:
    session = Session("interpret", observer=Late())
    session["s"], session["x"] = Scalar(0.0), np.ones(1000)
    with pytest.raises(FinchError, match="interrupted"):
        session.run("@finch for i = _; s[] += x[i]; end")
    assert session["s"].value == 0.0


def test_a_loop_of_a_script_says_where_it_was_stopped() -> None:
    class Stopping(Observer):
        def started(self, event: Any) -> None:
            raise KeyboardInterrupt

    for text, line in (("x = 1\nwhile true\n@finch s[] = 1\nend", 2), ("@finch s[] = 1", 1)):
        session = Session("residual", observer=Stopping())
        session["s"] = Scalar(0)
        with pytest.raises(FinchError) as caught:
            session.run(text)
        assert caught.value.kind == "interrupted" and caught.value.span.line == line


# --------------------------------------------------------------------------------------- the data


def _matrix() -> Any:
    return scipy.sparse.csc_array(np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0], [4.0, 0.0, 0.0]]))


#: what is wrong with a matrix of SciPy, and what makes it so
CORRUPT: dict[str, Callable[[Any], None]] = {
    "indptr descends": lambda m: m.indptr.__setitem__(slice(None), [0, 3, 2, 4]),
    "indptr goes beyond the data": lambda m: m.indptr.__setitem__(3, 1000),
    "indptr starts late": lambda m: m.indptr.__setitem__(0, 1),
    "indptr is negative": lambda m: m.indptr.__setitem__(1, -5),
    "indptr is short": lambda m: setattr(m, "indptr", m.indptr[:-1]),
    "indptr is long": lambda m: setattr(m, "indptr", np.append(m.indptr, 4)),
    "indices are short": lambda m: setattr(m, "indices", m.indices[:2]),
    "data is short": lambda m: setattr(m, "data", m.data[:2]),
    "an index is too large": lambda m: m.indices.__setitem__(0, 3),
    "an index is negative": lambda m: m.indices.__setitem__(2, -1),
    "an index is huge": lambda m: m.indices.__setitem__(1, 2**31 - 1),
}


@pytest.mark.parametrize("engine", RUNNING)
@pytest.mark.parametrize("name", CORRUPT)
def test_corrupt_scipy_matrices(engine: str, name: str) -> None:
    """Before the first kernel, or in place between two, so that the arrays are those found sound before."""
    total = "@finch begin s .= 0; for j = _, i = _; s[] += B[i, j]; end; end"
    for format, runs_before in product(("csc", "csr"), (0, 1, 2)):
        session, matrix = Session(engine), _matrix().asformat(format)
        session["s"], session["B"] = Scalar(0.0), matrix
        for _ in range(runs_before):
            session.run(total)
        CORRUPT[name](matrix)
        with pytest.raises(FinchError) as found:
            session.run(total)
        assert found.value.kind == "bounds" and "corrupt" in found.value.message
        assert found.value.span is not None and session["s"].value == 10.0 * min(runs_before, 1)


@pytest.mark.parametrize("name", CORRUPT)
def test_scripts_give_scipy_no_corrupt_matrix(name: str) -> None:
    """SciPy itself reads outside of its arrays then."""
    matrix, session = _matrix(), Session(output=lambda text: None)
    CORRUPT[name](matrix)
    session["B"] = matrix
    texts = [
        "sum(B)",
        "maximum(B)",
        "copy(B)",
        "println(B)",
        "B == B",
        "[x for x in B]",
        "findall(B)",
    ]
    for text in [*texts, "Matrix(B)", "for x in B\n    x\nend", "B[1, 1]", "n = 0\nn += B[1, 1]"]:
        with pytest.raises(FinchError, match="corrupt SciPy matrix"):
            session.run(text, "script")
    with pytest.raises(FinchError, match="corrupt SciPy matrix"):
        array.linalg.solve(matrix, np.ones(3))


#: what is wrong with an array of another container, and what makes it so
MISMATCHED: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "fewer offsets": ("dia", lambda m: setattr(m, "offsets", m.offsets[:1])),
    "a huge offset": ("dia", lambda m: setattr(m, "offsets", m.offsets.astype(int) + (1 << 32))),
    "offsets of floats": ("dia", lambda m: setattr(m, "offsets", m.offsets + 0.5)),
    "more values than columns": ("lil", lambda m: m.data[0].extend([1.0] * 99)),
    "fewer values than columns": ("lil", lambda m: m.data[0].clear()),
    "fewer rows": ("lil", lambda m: setattr(m, "rows", m.rows[:1])),
    "no row": ("lil", lambda m: m.rows.__setitem__(0, None)),
    "blocks of no entries": ("bsr", lambda m: setattr(m, "data", np.zeros((3, 0, 0)))),
    "fewer blocks": ("bsr", lambda m: setattr(m, "data", m.data[:1])),
    "pointers beyond the blocks": ("bsr", lambda m: m.indptr.__setitem__(-1, 10**6)),
    "no coordinates": ("coo", lambda m: setattr(m, "coords", ())),
    "fewer values": ("coo", lambda m: setattr(m, "data", m.data[:2])),
    "fewer coordinates": ("coo", lambda m: setattr(m, "coords", (m.coords[0][:2], m.coords[1]))),
    "coordinates of rows": (
        "coo",
        lambda m: setattr(m, "coords", (m.coords[0][None], m.coords[1])),
    ),
}


@pytest.mark.parametrize("name", MISMATCHED)
def test_parts_of_scipy_arrays_that_do_not_fit(name: str) -> None:
    """SciPy itself reads and writes outside of its arrays for some of them."""
    format, change = MISMATCHED[name]
    matrix, session = _matrix().asformat(format), Session(output=lambda text: None)
    change(matrix)
    session["B"], session["s"] = matrix, Scalar(0.0)
    for text in "sum(B)", "println(B)", "@finch for j = _, i = _; s[] += B[i, j]; end":
        with pytest.raises(FinchError, match="corrupt SciPy array"):
            session.run(text, "script")


@pytest.mark.parametrize("format", ("csr", "csc", "coo", "dia", "lil", "bsr"))
def test_scipy_arrays_without_data(format: str) -> None:
    for part in ("data", "indices") if format in ("csr", "csc") else ("data",):
        matrix = _matrix().asformat(format)
        setattr(matrix, part, None)
        with pytest.raises(FinchError):
            array.asarray(matrix)


def test_a_linear_operator_of_scipy_is_no_matrix() -> None:
    operator = scipy.sparse.linalg.aslinearoperator(np.eye(3))
    with pytest.raises(FinchError, match="a name cannot be bound to a MatrixLinearOperator"):
        Session()["B"] = operator


def test_a_matrix_of_scipy_is_copied_and_printed_as_a_tensor() -> None:
    matrix, told = _matrix(), list[str]()
    session = Session(output=told.append)
    session["B"] = matrix
    session.run("C = copy(B)\n@finch for j = _, i = _; C[i, j] *= 2; end\nprintln(B)")
    assert matrix.sum() == 10 and session["C"].to_numpy().sum() == 20
    assert "[[1. 0. 2.]\n [0. 3. 0.]\n [4. 0. 0.]]" in "".join(told)


# ----------------------------------------------------------------------------------- functions


def test_what_is_the_same_again_is_not_compiled_again() -> None:
    class Counting(Observer):
        compiled = 0

        def kernel(self, event: Any) -> None:
            self.compiled += 1

    session = Session(observer=(counting := Counting()))
    session["x"], session["y"] = np.arange(3.0), np.zeros(3)
    for t in (1.0, 2.0, 1.0, 2.0):
        session["t"] = t
        session.run("g(x) = x * t\nf(x) = g(x) + 1.0\n@finch for i = _; y[i] = f(x[i]); end")
        assert session["y"].tolist() == [1, 1 + t, 1 + 2 * t]
    assert counting.compiled == 2


@pytest.mark.parametrize("engine", RUNNING)
def test_a_function_bound_in_a_session_is_that_of_its_own(engine: str) -> None:
    other, session = Session(engine), Session(engine)
    other["t"] = 10.0
    other.run("f(x) = x + t")
    session["f"], session["t"] = other["f"], 0.0
    session["x"], session["y"] = np.arange(1.0, 4.0), np.zeros(3)
    for t in (10.0, 20.0):
        other["t"] = t
        session.run("@finch for i = _; y[i] = f(x[i]); end")
        assert session["y"].tolist() == [t + 1, t + 2, t + 3]
