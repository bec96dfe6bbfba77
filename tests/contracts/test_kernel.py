"""`finchlang.kernel`: Finch text as a function of Python, its parameters, results, errors and types."""

from __future__ import annotations

import copy
import inspect
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import finchlang
from finchlang import FinchError, Session, Tensor, kernel

pytestmark = pytest.mark.optimised

CSC = "Dense(SparseList(Element(0.0)))"
A = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0]])
X = np.array([1.0, 2.0, 3.0])

spmv = kernel("""
    function spmv(A, x)
        y = Tensor(Dense(Element(0.0)))
        @finch begin
            y .= 0
            for j = _, i = _
                y[i] += A[i, j] * x[j]
            end
        end
        return y
    end
""")


def test_a_function_of_a_script_needs_no_session() -> None:
    halved = finchlang.function(
        "function halved(n, by = 2)\n s = 0; while n > 1; n = div(n, by); s += 1; end; s end"
    )
    assert halved(1000) == 9 and halved(1000, by=10) == 3
    assert str(inspect.signature(halved)) == "(n, by=2)"
    text = "function given(a, b = a, rest...)\n (a, b, rest)\nend"
    session = Session()
    session.run(text)
    for given in (finchlang.function(text), session["given"]):
        assert str(inspect.signature(given)) == "(a, b=Ellipsis, *rest)"
        assert (
            given(1) == (1, 1, ())
            and given(1, 2, 3, 4) == (1, 2, (3, 4))
            and given(b=5, a=4) == (4, 5, ())
        )
    assert pickle.loads(pickle.dumps(halved))(8) == 3


CONSTANT = """
x = [1,
"""


def twice(x: float) -> float:
    return 2 * x


@kernel
def scaled(A: Any, x: np.ndarray, c: float = 3.0) -> Tensor:
    """
    # A x, times twice a number
    y = Tensor(Dense(Element(0.0)))
    @finch begin
        y .= 0
        for j = _, i = _
            y[i] += A[i, j] * x[j] * twice(c)
        end
    end
    """
    raise NotImplementedError


@pytest.mark.parametrize("matrix", [A, sp.csc_array(A), sp.csr_array(A), Tensor(CSC, A)])
def test_a_function_is_called_with_any_arrays(matrix: Any) -> None:
    assert np.array_equal(spmv(matrix, X).to_numpy(), A @ X)
    assert np.array_equal(spmv(x=X, A=matrix).to_numpy(), A @ X)
    assert np.array_equal(spmv(matrix, X.tolist()).to_numpy(), A @ X)


def test_it_has_a_name_a_signature_and_a_text() -> None:
    assert (spmv.__name__, str(inspect.signature(spmv))) == ("spmv", "(A, x)")
    assert "function spmv(A, x)" in str(spmv.__doc__) and repr(spmv) == "<Finch kernel spmv(A, x)>"
    assert scaled.__name__ == "scaled" and scaled.__module__ == __name__
    assert str(scaled.__doc__).strip().startswith("# A x")
    assert inspect.signature(scaled).parameters["c"].default == 3.0


def test_a_decorated_function_calls_functions_of_its_module() -> None:
    assert np.array_equal(scaled(A, X).to_numpy(), A @ X * 6)
    assert np.array_equal(scaled(A, X, c=1.0).to_numpy(), A @ X * 2)


def test_the_parameters_of_a_kernel_are_its_free_names_and_it_returns_what_it_writes() -> None:
    product = kernel("@finch begin y .= 0; for j = _, i = _; y[i] += A[i, j] * f(x[j]) end end")
    assert str(inspect.signature(product)) == "(y, A, f, x)"
    y = np.zeros(2)
    assert product(y, A, twice, X) is y and np.array_equal(y, A @ X * 2)
    both = kernel("@finch for i = _ begin a[i] = x[i]; b[i] = n end end")
    a, b = np.zeros(3), np.zeros(3, np.int64)
    assert both(a, X, b, 4) == (a, b) and np.array_equal(a, X) and b.tolist() == [4, 4, 4]
    chosen = kernel("@finch begin for i = _ begin a[i] = x[i]; b[i] = n end end; return b end")
    assert chosen(a, X, b, 5) is b
    scattered = kernel("@finch for i = _; a[I[i]] += values[i] end")  # names of functions
    assert str(inspect.signature(scattered)) == "(a, I, values)"


def test_the_value_of_other_texts_is_that_of_the_last_statement() -> None:
    total = kernel("s = Scalar(0.0); @finch for i = _; s[] += x[i] end; s[]")
    assert str(inspect.signature(total)) == "(x)" and total(X) == 6.0
    assert kernel('println(""); nothing')() is None


def test_a_function_of_the_place_where_it_is_decorated_is_called() -> None:
    def third(v: float) -> float:
        return v / 3

    @kernel
    def thirds(x: Any, y: Any) -> Any:
        "@finch for i = _; y[i] = third(x[i]) end"

    assert np.allclose(thirds(X, np.zeros(3)), X / 3)


def test_kernels_are_operators_of_scripts_and_share_a_session() -> None:
    session = Session()
    square = kernel("square(x) = x * x", session=session)
    assert square(3) == 9 and session.run("square(4)") == 16
    other = Session()
    other["x"], other["y"], other["f"] = X, np.zeros(3), square
    other.run("@finch for i = _; y[i] = f(x[i]) end")
    assert np.array_equal(other["y"], X**2) and other.run("f(5)") == 25


def test_errors_stand_at_their_place_in_the_python_file() -> None:
    with pytest.raises(FinchError) as caught:
        spmv(A, np.ones(4))
    span = caught.value.span
    assert span is not None and span.source.name == __file__
    line = Path(__file__).read_text().split("\n")[span.line - 1]
    assert line == "                y[i] += A[i, j] * x[j]"
    assert str(caught.value).split("\n")[1].endswith(line)
    with pytest.raises(FinchError) as caught:
        kernel("""
            x = (1 +
        """)
    assert caught.value.span is not None and caught.value.span.source.name == __file__
    with pytest.raises(FinchError) as caught:
        kernel(CONSTANT)
    assert caught.value.span is not None and caught.value.span.source.name == __file__
    with pytest.raises(FinchError) as caught:
        scaled(A, np.ones(4))
    line = Path(__file__).read_text().split("\n")[caught.value.span.line - 1]  # type: ignore[union-attr]
    assert line == "            y[i] += A[i, j] * x[j] * twice(c)"
    with pytest.raises(FinchError) as caught:
        kernel("y = \n x ]")  # does not stand in the file as it is
    assert "<kernel at" in str(caught.value) and caught.value.span is not None


def no_text(A: Any) -> None: ...


def of_many(A: Any, *more: Any) -> None:
    "@finch for i = _ A[i] = 1 end"


def no_name(A: Any) -> None:
    "@finch for i = _ A[i] = B[i] end"


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: spmv(A), TypeError, "missing a required argument: 'x'"),
        (lambda: spmv(A, X, X), TypeError, "too many positional"),
        (lambda: spmv(A, np.ma.array(X, mask=True)), FinchError, "`x` of spmv: a masked array"),
        (lambda: spmv(A, "text"), FinchError, "`x` is a string"),
        (lambda: kernel(5), FinchError, "made of a text or of a function"),  # type: ignore[call-overload]
        (lambda: kernel("", session=5), FinchError, "in a Session, not in an int"),  # type: ignore[call-overload]
        (lambda: kernel(no_text), FinchError, "has no docstring"),
        (lambda: kernel(of_many), FinchError, r"`\*more` of of_many: a kernel takes each"),
        (lambda: kernel(no_name), FinchError, "`B` is neither a parameter of no_name"),
    ],
)
def test_misuse(make: Callable[[], Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        make()


def test_names_that_python_does_not_have() -> None:
    f = kernel("f(is, x!, x_, def = 4) = is + 10 * x! + 100x_ + 1000def")
    assert f"{f.__signature__}" == "(is_, x_, x__, def_=4)"
    assert f(1, 2, 3) == f(1, x__=3, x_=2, def_=4) == f.function(1, 2, x__=3) == 4321
    assert kernel(f"y = α₁ + {'-' * 2000}x!")(1, 2) == 3


CLIENT = '''
from typing import assert_type
import numpy as np
import finchlang
import finchlang.array as fa
from finchlang import FinchError, Scalar, Session, Tensor

@finchlang.kernel
def scaled(A: Tensor, c: float = 2.0) -> Tensor:
    """y = A"""
    raise NotImplementedError

@finchlang.operator
def plus(a: float, b: float) -> float:
    return a + b

def main(session: Session) -> float:
    A = Tensor("Dense(SparseList(Element(0.0)))", np.eye(3))
    assert_type(scaled(A, c=3.0), Tensor)
    assert_type(plus(1.0, 2.0), float)
    sizes: tuple[int, ...] = (A.ndim, A.nnz, A.size, A.nbytes, *A.shape)
    f = finchlang.kernel("g(x) = 2x")
    session["A"] = A[1:, 0]
    try:
        print(session.run("sum(A)"), f(2), sizes, Scalar(1.0).copy().value, A.copy().fill_value)
    except FinchError as error:
        print(error.kind, error.hint)
    return float(fa.compute(A * 2 + A.T).sum())
'''
WRONG = """
from client import scaled
from finchlang import Tensor
A = Tensor("Dense(Element(0.0))", 3)
scaled("text")
A.nothing_like_it
x: str = scaled(A)
"""


def test_programs_that_use_us_are_typed(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """`mypy --strict` passes one, and finds the three faults of another."""
    (tmp_path / "client.py").write_text(CLIENT)
    (tmp_path / "wrong.py").write_text(WRONG)
    package = Path(finchlang.__file__).parent
    assert (package / "py.typed").exists()
    kept = str(pytestconfig.cache.mkdir("mypy")) if pytestconfig.cache else str(tmp_path)
    options = ["--strict", "--follow-imports=silent", f"--cache-dir={kept}"]
    path = {} if "site-packages" in package.parts else {"MYPYPATH": str(package.parent)}
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "client.py", "wrong.py"],
        cwd=tmp_path,
        env={**os.environ, **path},
        capture_output=True,
        text=True,
    )
    found = [line.split(": error:")[0] for line in done.stdout.splitlines() if ": error:" in line]
    assert found == ["wrong.py:5", "wrong.py:6", "wrong.py:7"], done.stdout


def test_a_function_called_from_python_has_no_place_that_it_is_called_at() -> None:
    half = kernel("function half(a)\n    return a[1] / a[2]\nend")
    with pytest.raises(FinchError) as error:
        half([1.0])
    assert error.value.render().split("\n")[-1:] == ["in `half`"]


def test_errors_are_pickled_and_copied() -> None:
    """Processes of a pool hand them on."""
    with pytest.raises(FinchError) as raised:
        Session().run("x = [1, 2]\nx[3]")
    for other in (pickle.loads(pickle.dumps(raised.value)), copy.deepcopy(raised.value)):
        assert str(other) == str(raised.value)


def test_texts_that_nest_deeply() -> None:
    deep = kernel(f"function deep(x)\n    return {'x + ' * 1500}x\nend")
    assert deep(2) == 3002


def test_kernels_are_pickled_and_copied() -> None:
    """A text is compiled again where it is loaded, a function of Python is found by its name."""
    other = pickle.loads(pickle.dumps(spmv))
    assert other is not spmv and other.session is not spmv.session
    np.testing.assert_array_equal(other(A, X), A @ X)
    assert other.text == spmv.text and other.__signature__ == spmv.__signature__
    assert pickle.loads(pickle.dumps(scaled)) is scaled
    assert copy.deepcopy(spmv) is spmv and copy.copy(scaled) is scaled
