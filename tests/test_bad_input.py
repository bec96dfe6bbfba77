"""Bad input: each a clear error with its place, exit status 1, no traceback, and nothing written."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from finchlang.repl.__main__ import main
from finchlang.session import ENGINES, Observer, Session
from finchlang.source import FinchError
from finchlang.tensors.tensor import Scalar, Tensor

pytestmark = pytest.mark.optimised

RUNNING = tuple(engine for engine in ENGINES if engine != "check")
SET_UP = """\
x = [1.0, 2.0, 3.0]; y = [0.0, 0.0, 0.0]; z = [0.0, 0.0]; I = [1, 2, 9]; n = 3; w = 1.5
A = Tensor(Dense(SparseList(Element(0.0))), [1.0 0.0 2.0; 0.0 3.0 0.0; 4.0 0.0 0.0])
C = Tensor(Dense(SparseList(Element(0.0))), 3, 3); s = Scalar(0.0); t = Scalar(0)
"""


def failure(session: Session, text: str) -> FinchError:
    """The error `text` gives, after checking that it changed nothing that was bound."""
    before = {name: _contents(session[name]) for name in session.names()}
    with pytest.raises(FinchError) as found:
        session.run(text, "bad.finch")
    after = {name: _contents(session[name]) for name in session.names()}
    assert before == after
    return found.value


def _contents(value: Any) -> Any:
    if isinstance(value, Scalar):
        return value.value
    if isinstance(value, (np.ndarray, Tensor)):
        array = value if isinstance(value, np.ndarray) else value.to_numpy()
        return array.shape, array.tolist()
    return repr(value)


@pytest.fixture(params=RUNNING)
def session(request: pytest.FixtureRequest) -> Session:
    session = Session(engine=request.param)
    session.run(SET_UP)
    return session


def test_mismatched_sizes_name_both_extents_and_where_they_come_from() -> None:
    session = Session()
    session.run(SET_UP)
    error = failure(session, "@finch for i = _; z[i] = x[i]; end")
    for part in ("1:2", "1:3", "z", "x"):
        assert part in error.message


def test_run_time_errors_come_after_writes_that_are_undone(session: Session) -> None:
    """The first entries would be written before the index out of range is met."""
    for text in (
        "@finch for i = _; y[i] = x[I[i]]; end",
        "@finch for i = _; y[I[i]] += x[i]; end",
        "@finch begin s .= 0; for i = _; s[] += x[I[i]]; end; end",
        "@finch begin C .= 0; for j = _, i = _; C[i, j] = x[I[i]] + A[i, j]; end; end",
    ):
        error = failure(session, text)
        assert error.kind == "bounds" and "9" in error.message and "1:3" in error.message
        assert error.span is not None and error.span.line == 1
    assert session["y"].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("index", [0, -1, 4, 2**62, -(2**63)])
def test_indices_out_of_range(session: Session, index: int) -> None:
    session["J"] = np.array([1, index, 1])
    assert failure(session, "@finch for i = _; y[i] = x[J[i]]; end").kind == "bounds"
    assert failure(session, "@finch for i = _; y[J[i]] = x[i]; end").kind == "bounds"


# --------------------------------------------------------------------------------------- the data


def _matrix() -> Any:
    return scipy.sparse.csc_array(np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0], [4.0, 0.0, 0.0]]))


def _spoil(change: Callable[[Any], None]) -> Callable[[], Any]:
    def make() -> Any:
        matrix = _matrix()
        change(matrix)
        return matrix

    return make


CORRUPT: dict[str, Callable[[], Any]] = {
    "indptr descends": _spoil(lambda m: m.indptr.__setitem__(slice(None), [0, 3, 2, 4])),
    "indptr goes beyond the data": _spoil(lambda m: m.indptr.__setitem__(3, 1000)),
    "indptr starts late": _spoil(lambda m: m.indptr.__setitem__(0, 1)),
    "indptr is negative": _spoil(lambda m: m.indptr.__setitem__(1, -5)),
    "indptr is short": _spoil(lambda m: setattr(m, "indptr", m.indptr[:-1])),
    "indptr is long": _spoil(lambda m: setattr(m, "indptr", np.append(m.indptr, 4))),
    "indices are short": _spoil(lambda m: setattr(m, "indices", m.indices[:2])),
    "data is short": _spoil(lambda m: setattr(m, "data", m.data[:2])),
    "an index is too large": _spoil(lambda m: m.indices.__setitem__(0, 3)),
    "an index is negative": _spoil(lambda m: m.indices.__setitem__(2, -1)),
    "an index is huge": _spoil(lambda m: m.indices.__setitem__(1, 2**31 - 1)),
}


@pytest.mark.parametrize("name", CORRUPT)
def test_corrupt_scipy_matrices(session: Session, name: str) -> None:
    session["B"] = CORRUPT[name]()
    with pytest.raises(FinchError) as found:
        session.run("@finch begin s .= 0; for j = _, i = _; s[] += B[i, j]; end; end")
    assert found.value.kind == "bounds" and "corrupt" in found.value.message
    assert found.value.span is not None and session["s"].value == 0.0


@pytest.mark.parametrize("name", ["indptr goes beyond the data", "an index is too large"])
def test_a_matrix_that_is_corrupted_between_two_kernels(session: Session, name: str) -> None:
    """In place, so that the arrays are the ones that were found sound before."""
    matrix = session["B"] = _matrix()
    total = "@finch begin s .= 0; for j = _, i = _; s[] += B[i, j]; end; end"
    session.run(total)
    assert session["s"].value == 10.0
    matrix.indptr, matrix.indices = CORRUPT[name]().indptr, CORRUPT[name]().indices
    with pytest.raises(FinchError) as found:
        session.run(total)
    assert found.value.kind == "bounds"


MTX = "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1.0\n2 2 2.0\n"
FILES = {
    "truncated": MTX[:-8],
    "mangled": MTX.replace("1 1 1.0", "1 x 1.0"),
    "out of range": MTX.replace("2 2 2.0", "3 2 2.0"),
    "without a header": MTX.partition("\n")[2],
    "empty": "",
    "binary": "\x00\x01\x02",
}


@pytest.mark.parametrize("name", [*FILES, "not there"])
def test_files_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.mtx"
    if name in FILES:
        path.write_text(FILES[name])
    session = Session()
    error = failure(session, f'A = fread("{path}")')
    assert error.kind == "I/O" and error.span is not None and str(path) in error.message


# ------------------------------------------------------------------------------------- numbers


HUGE = {
    "zeros": "v = zeros(4611686018427387904)",
    "zeros of a square": "v = zeros(4611686018427387904, 4611686018427387904)",
    "a dense tensor": "v = Tensor(Dense(Element(0.0)), 4611686018427387904)",
    "a dense square": "v = Tensor(Dense(Dense(Element(0.0))), 4611686018427387904, 4611686018427387904)",
    "a tensor of columns": "v = Tensor(Dense(SparseList(Element(0.0))), 3, 4611686018427387904)",
    "a byte map": "v = Tensor(SparseByteMap(Element(0.0)), 4611686018427387904)",
    "a size beyond Int64": "v = Tensor(SparseList(Element(0.0)), 9223372036854775807)",
    "a negative size": "v = Tensor(Dense(Element(0.0)), -1)",
}


@pytest.mark.parametrize("name", HUGE)
def test_sizes_that_no_memory_holds(name: str) -> None:
    assert failure(Session(), HUGE[name]).kind in ("resource", "dimension")


@pytest.mark.parametrize("engine", ["native", "interpret", "residual"])
@pytest.mark.parametrize("size", ["4611686018427387904", "9223372036854775807"])
def test_kernels_that_ask_for_too_much_memory(engine: str, size: str) -> None:
    session = Session(engine=engine)
    session["D"] = Tensor.from_numpy(np.array([1.0, 2.0]), "Dense(Element(0.0))")
    session["B"] = Tensor.from_numpy(np.eye(2), "Dense(Dense(Element(0.0)))")
    text = f"@finch begin D .= 0; for i = 1:{size}; D[i] = 1; end; end"
    assert failure(session, text).kind in ("resource", "dimension")
    text = f"@finch begin B .= 0; for j = 1:{size}, i = 1:{size}; B[i, j] = 1; end; end"
    assert failure(session, text).kind in ("resource", "dimension")


def test_division_by_zero_and_overflow_are_what_they_are_for_machines(session: Session) -> None:
    """Floats follow IEEE 754; integers wrap around, and a quotient by 0 is no crash."""
    session["a"], session["b"] = np.array([1.0, -1.0, 0.0]), np.zeros(3)
    session["c"] = np.array([2**63 - 1, -(2**63), 5])
    session["d"], session["q"] = np.array([1, -1, 1]), np.zeros(3, np.int64)
    session.run("@finch for i = _; y[i] = a[i] / b[i]; end")
    assert session["y"][0] == math.inf and session["y"][1] == -math.inf
    assert math.isnan(session["y"][2])
    session.run("@finch for i = _; q[i] = c[i] + d[i]; end")
    assert session["q"].tolist() == [-(2**63), 2**63 - 1, 6]
    session.run("@finch for i = _; q[i] = div(c[i], d[i]); end")
    assert session["q"].tolist() == [2**63 - 1, -(2**63), 5]


@pytest.mark.parametrize("sign", ["div", "%"])
def test_integer_division_by_zero(sign: str) -> None:
    """The same on every engine: a value or an error, no crash."""
    found = []
    call = "div(x[i], y[i])" if sign == "div" else "x[i] % y[i]"
    for engine in RUNNING:
        session = Session(engine=engine)
        session["x"], session["y"] = np.array([5, -5, 0]), np.zeros(3, np.int64)
        session["q"] = np.ones(3, np.int64)
        try:
            session.run(f"@finch for i = _; q[i] = {call}; end")
            found.append(session["q"].tolist())
        except FinchError as error:
            found.append(error.kind)
    assert found == [found[0]] * len(RUNNING)


# -------------------------------------------------------------------------------------- interrupts


ENDLESS = "@finch for i = 1:1000000000, j = 1:1000000000; s[] += sin(i + j); end"


@pytest.mark.parametrize("engine", ["native", "interpret", "residual"])
def test_an_interrupt_ends_a_kernel(engine: str) -> None:
    session = Session(engine=engine)
    session["s"], session["x"] = Scalar(0.0), np.ones(3)
    session.run("@finch for i = _; s[] += x[i]; end")
    old = signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    try:
        signal.setitimer(signal.ITIMER_REAL, 1.0)
        with pytest.raises(FinchError) as found:
            session.run(ENDLESS)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert found.value.kind == "interrupted"
    assert session["s"].value == 3.0  # as it was before
    session.run("@finch for i = _; s[] += x[i]; end")
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
    session = Session(engine="interpret", observer=Late())
    session["s"], session["x"] = Scalar(0.0), np.ones(1000)
    with pytest.raises(FinchError, match="interrupted"):
        session.run("@finch for i = _; s[] += x[i]; end")
    assert session["s"].value == 0.0


# --------------------------------------------------------------------------------- the command line

COMMANDS = {
    "syntax": ("x = (1", "syntax error"),
    "unknown name": ("y = 1\n@finch for i = 1:3; s[] += q[i]; end", "unknown name error"),
    "dimension": (
        "x = [1, 2]; y = [1, 2, 3]\n@finch for i = _; y[i] += x[i]; end",
        "dimension error",
    ),
    "bounds": (
        "x = [1, 2]; I = [1, 5]; s = Scalar(0)\n@finch for i = _; s[] += x[I[i]]; end",
        "bounds error",
    ),
    "I/O": ('A = fread("/nowhere/at/all.mtx")', "I/O error"),
    "type": ('x = 1 + "a"', "type error"),
    "resource": ("x = zeros(4611686018427387904)", "error"),
}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("engine", RUNNING)
def test_exit_status_and_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, engine: str
) -> None:
    text, part = COMMANDS[name]
    path = tmp_path / "bad.finch"
    path.write_text(text + "\n")
    assert main(["run", "--engine", engine, str(path)]) == 1
    out, err = capsys.readouterr()
    assert out == "" and part in err and f"{path}:" in err
    assert "Traceback" not in err and "^" in err


def test_a_file_is_not_written_by_a_failing_program(tmp_path: Path) -> None:
    target = tmp_path / "out.mtx"
    session = Session()
    text = "x = [1, 2]; I = [1, 5]; y = [0, 0]\n@finch for i = _; y[i] = x[I[i]]; end\n"
    with pytest.raises(FinchError):
        session.run(f'{text}fwrite("{target}", y)')
    assert not target.exists()


def test_an_interrupted_program_ends_at_once(tmp_path: Path) -> None:
    path = tmp_path / "long.finch"
    path.write_text(f's = Scalar(0.0)\nprintln("go")\n{ENDLESS}\n')
    code = "import sys; from finchlang.repl.__main__ import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-u", "-c", code, "run", str(path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None and process.stdout.readline() == "go\n"
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130 and "interrupted" in err and "Traceback" not in err
