"""The contract of arguments: each call sees what is bound as it is then. Nothing that was true of the
user's memory at the calls before is believed, and no change of it makes native code leave its buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from in_child import isolated

from finchlang import FinchError, Scalar, Session, Tensor
from finchlang.calls.arguments import COMPARED

pytestmark = pytest.mark.filterwarnings("ignore:Setting the:DeprecationWarning")

N = 9
MULTIPLY = "@finch begin\ny .= 0\nfor {} y[i] += A[i, j] * x[j] * c end\nend"
LOOPS = {"csc": "j = _, i = _", "csr": "i = _, j = _", "dense": "j = _, i = _"}
INNER = "@finch begin\nt .= 0\nfor j = _, i = _ t[] += A[i, j] * B[i, j] end\nend"


class Multiplying(Session):
    """A session in which A, x and c have been multiplied so often; `y` is an array or a tensor."""

    def __init__(self, engine: str, kind: str, y: str, calls: int):
        super().__init__(engine)
        self.given, self.text, self.calls = (
            (engine, kind, y, calls),
            MULTIPLY.format(LOOPS[kind]),
            calls,
        )
        bands = [np.arange(1.0, N), np.arange(1.0, N + 1), np.arange(2.0, N + 1)]
        A = sp.diags_array(bands, offsets=[-1, 0, 1], format=None if kind == "dense" else kind)
        self["A"] = A.toarray() if kind == "dense" else A
        self["x"], self["c"] = np.arange(1.0, N + 1), 1.0
        self["y"] = np.zeros(N) if y == "array" else Tensor(f"{y}(Element(0.0))", N)
        self.check()

    def check(self) -> None:
        """Multiply, and compare with NumPy."""
        for _ in range(self.calls):
            self.run(self.text)
            expected = self["A"] @ self["x"] * self["c"]
            assert np.array_equal(np.asarray(self["y"]), expected), self.given


@pytest.fixture(autouse=True, scope="module")
def compiled(is_quick: bool) -> None:
    """What the children share is compiled before there are any."""
    for kind in ("csc", "csr") if is_quick else LOOPS:
        for y in ("array",) if is_quick else ("array", "Dense", "SparseByteMap"):
            Multiplying("native", kind, y, 1)


def numbers(s: Any) -> None:
    values = s["A"].data if sp.issparse(s["A"]) else s["A"]
    values *= 2
    s["x"][3:5] = 7, -1


def rebound(s: Any) -> None:
    s["A"], s["x"] = s["A"].copy() * 2, np.full(N, 3.0)


def scalars(s: Any) -> None:
    for c in (2.0, 1.0, 3, 3, 1.0, 0.0, -0.0):
        s["c"] = c
        s.check()


def other_rows(s: Any) -> None:
    s["A"], s["y"] = sp.csc_array(np.eye(7, N)).asformat(s["A"].format), np.ones(7)


def a_new_result(s: Any) -> None:
    s["y"] = Tensor("Dense(Element(0.0))", N)
    s.check()
    s["y"].storage = [{}, {"val": np.arange(float(N))}]


def strides(s: Any) -> None:
    for name in "xy":
        s[name] = np.arange(2.0 * N)[:N]
        s.check()
        s[name].strides = (16,)


def another_type(s: Any) -> None:
    s["x"].dtype = np.int64
    s["x"][:] = np.arange(N)


def another_size(s: Any) -> None:
    for size in (3, 8, 5000 if s.given[0] == "native" else 60):
        x, y = s["x"], s["y"]
        s["A"] = sp.eye_array(size, format="csc")
        x.resize(size, refcheck=False)
        x[:] = np.arange(size) + 1
        y.resize(size, refcheck=False)
        s.check()
        assert s["y"] is y


def more_rows_and_columns(s: Any) -> None:
    for shape in ((11, 9), (9, 12), (9, 6), (6, 9)):
        s["A"].resize(*shape)
        s["x"], s["y"] = np.arange(1.0, shape[1] + 1), np.zeros(shape[0])
        s.check()


def parts(s: Any) -> None:
    """All of them, and each alone, also at once with others' memory."""
    A = s["A"]
    other = sp.random_array((N, N), density=0.5, rng=np.random.default_rng(1)).asformat(A.format)
    other.data = np.round(other.data * 8)
    for name in ("data", "indices", "indptr"):
        setattr(A, name, getattr(other, name))
    for name in ("data", "indices", "indptr"):
        s.check()
        setattr(A, name, getattr(A, name).copy())


def wide_and_unsorted(s: Any) -> None:
    A = s["A"]
    A.indices, A.data = A.indices.astype(np.int64), A.data.copy()
    for p, q in zip(A.indptr, A.indptr[1:], strict=False):
        A.indices[p:q], A.data[p:q] = A.indices[p:q][::-1].copy(), A.data[p:q][::-1].copy()
    A.has_sorted_indices = False


def indices_in_place(s: Any) -> None:
    s["A"].indices[0] += 1
    s["A"].indices[1] += 1
    s.check()
    s["A"].indices[:2] -= 1


ARRAYS = (numbers, rebound, scalars, strides, another_type, a_new_result)
MATRICES = (
    *(other_rows, another_size, more_rows_and_columns, parts, wide_and_unsorted),
    indices_in_place,
)


def cases() -> Iterator[Any]:
    """By both engines; quickly natively what no other test of a call has."""
    for engine, change in product(("native", "interpret"), ARRAYS + MATRICES):
        is_quick = engine == "native" and change in (parts, wide_and_unsorted, indices_in_place)
        marks = [] if is_quick else [pytest.mark.slow]
        yield pytest.param(engine, change, marks=marks, id=f"{engine}-{change.__name__}")


@pytest.mark.parametrize(("engine", "change"), [*cases()])
@isolated
def test_what_is_done_between_calls_is_seen(engine: str, change: Callable[[Any], None]) -> None:
    """After one call and after many, with a matrix of each kind and results of some."""
    for calls in (1, 9) if engine == "native" else (1,):
        kinds = ("csc", "csr") if change in MATRICES else LOOPS
        for kind in kinds if engine == "native" else ("csc",):
            for y in ("array",) if change in MATRICES else ("array", "Dense", "SparseByteMap"):
                session = Multiplying(engine, kind, y, calls)
                change(session)
                session.check()


def of_another_shape(s: Any) -> None:
    s["x"].shape = (3, 3)


def read_only(s: Any) -> None:
    s["y"].setflags(write=False)


def shared(s: Any) -> None:
    s["x"] = s["y"][::-1]


REFUSED = {
    "a matrix of another size": (lambda s: s["A"].resize(11, 12), "dimension"),
    "another shape": (of_another_shape, "dimension"),
    "a result that is read-only": (read_only, "type"),
    "a result that is read": (shared, "life cycle"),
    "no value": (lambda s: s.environment.values.pop("x"), "unknown name"),
}


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize("kind", ["csc", pytest.param("csr", marks=pytest.mark.slow)])
@isolated
def test_what_is_wrong_since_the_last_call_is_refused(what: str, kind: str) -> None:
    change, error = REFUSED[what]
    session = Multiplying("native", kind, "array", 2)
    y, before = session["y"], session["y"].copy()
    change(session)
    for _ in range(2):
        with pytest.raises(FinchError) as caught:
            session.run(session.text)
        assert caught.value.kind == error and np.array_equal(y, before) and session["y"] is y


@isolated
def test_what_a_swizzled_tensor_stands_for_is_cut_short() -> None:
    session = Session()
    A = session["A"] = sp.random_array((60, 60), density=0.5, format="csc")
    A.data = A.data.copy()
    session.run("B = swizzle(A, 2, 1)\ns = Scalar(0.0)")
    total = "@finch begin\ns .= 0\nfor j = _, i = _\n s[] += B[j, i]\nend\nend"
    session.run(total)
    assert np.isclose(session["s"].value, A.sum())
    A.data.resize(3, refcheck=False)
    with pytest.raises(FinchError) as caught:
        session.run(total)
    assert caught.value.kind == "bounds"


@pytest.mark.parametrize("kind", ["csc", "csr"])
@isolated
def test_indices_that_are_sorted_otherwise(kind: str) -> None:
    """Where two matrices meet, for which both are walked in order."""
    session = Multiplying("native", kind, "array", 1)
    session["B"], session["t"] = session["A"].copy(), Scalar(0.0)
    for change in (lambda s: None, wide_and_unsorted):
        change(session)
        session.run(INNER)
        assert session["t"].value == session["A"].multiply(session["B"]).sum()


@pytest.mark.parametrize("part", ["indices", "indptr"])
def test_a_change_in_place_of_a_large_matrix_is_seen_after_some_calls(part: str) -> None:
    n = 5 * COMPARED // 2
    session, text = Session(), MULTIPLY.format(LOOPS["csc"])
    session["A"] = A = sp.eye_array(n, format="csc")
    session["x"], session["y"], session["c"] = np.arange(1.0, n + 1), np.zeros(n), 1
    session.run(text)
    getattr(A, part)[3 * COMPARED // 2] -= 1
    for _ in range(4):
        session.run(text)
    assert np.array_equal(session["y"], A @ session["x"])


def test_scalars_are_what_they_were_set_to() -> None:
    """Also to a zero of another sign."""
    session = Session()
    session["x"], session["s"], session["t"] = np.arange(4.0), Scalar(0.0), Scalar(0.0)
    for number in range(1, 5):
        session.run("@finch for i = _ s[] += x[i] end")
        assert session["s"].value == 6 * number
    for value in (0.0, -0.0, 0.0):
        session["s"].value = value
        session.run("@finch t[] = s[]")
        assert np.signbit(session["t"].value) == np.signbit(value)


def test_a_kernel_takes_other_scalars_but_none_twice() -> None:
    session, add = Session(), "@finch a[] += b[] + 1"
    for b in ("Scalar(1.0)", "Scalar(2.0)", "Scalar(1)"):  # the last of another type
        session.run(f"a = Scalar(5.0); b = {b}")
        session.run(add)
        assert session["a"].value == 6 + session["b"].value
        session.run("b = a")
        with pytest.raises(FinchError, match="the same tensor"):
            session.run(add)


def test_a_function_calls_its_kernel_again_on_what_it_is_given() -> None:
    session = Multiplying("native", "csc", "Dense", 1)
    session.run(f"function f(A, x, y)\n{session.text}\nend")
    session["v"], session["z"] = np.full(N, 2.0), Tensor("Dense(Element(0.0))", N)
    given: list[tuple[str, Any]] = (
        [("x", "y")] * 9 + [("v", "z")] * 9 + [("x", "z"), ("v", "y")] * 2
    )
    for name, to in given:
        session.run(f"f(A, {name}, {to})")
        assert np.array_equal(session[to].to_numpy(), session["A"] @ session[name])
        session["A"].data += 1


def test_a_mask_that_becomes_an_array() -> None:
    session = Session()
    session.run("m = UpTriMask(); s = Scalar(0.0); A = ones(3, 3)")
    program = "for j = _, i = _ if m[i, j] s[] += A[i, j] end end"
    session.run(f"function f() @finch begin s .= 0; {program} end; s[] end")
    assert session.run("f()") == 6
    session["m"] = np.eye(3, dtype=bool)
    assert session.run("f()") == 3
    session["m"] = np.ones((3, 3))
    with pytest.raises(FinchError) as caught:
        session.run("f()")
    assert caught.value.kind == "type"
    session.run("m = LoTriMask()")
    assert session.run("f()") == 6


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("engine", ["native", "interpret", "residual"])
@pytest.mark.parametrize("number", [np.int8(100), np.uint8(200), np.float32(3e38)])
def test_numbers_of_numpy_wrap_around_without_a_word(engine: str, number: Any) -> None:
    session = Session(engine)
    session["y"], session["c"] = np.full(3, number), number
    session.run("@finch for i = _; y[i] += c; end")
    with np.errstate(all="ignore"):
        wanted = np.full(3, number) + number
    assert np.array_equal(session["y"], wanted) and session["y"].dtype == wanted.dtype
