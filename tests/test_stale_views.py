"""What is bound is looked at as it is at every call: nothing that was true of the user's memory before
is believed, and no change of it makes native code leave its buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from every_format import fits
from in_child import isolated

from finchlang import FinchError, Scalar, Session, Tensor
from finchlang.run.arguments import COMPARED

pytestmark = pytest.mark.filterwarnings("ignore:Setting the:DeprecationWarning")

MULTIPLY = "@finch begin\ny .= 0\nfor j = _, i = _\n y[i] += A[i, j] * x[j]\nend\nend"
BY_ROWS = "@finch begin\ny .= 0\nfor i = _, j = _\n y[i] += A[i, j] * x[j]\nend\nend"
INNER = "@finch begin\nt .= 0\nfor j = _, i = _\n t[] += A[i, j] * B[i, j]\nend\nend"
COPY = "@finch begin\ny .= 0\nfor i = _\n y[i] = x[i]\nend\nend"
COPY_MATRIX = "@finch begin\nC .= 0\nfor j = _, i = _\n C[i, j] = A[i, j]\nend\nend"

ENGINES = pytest.mark.parametrize("engine", ["native", "interpret"])


def multiplying(format: str = "csc", n: int = 9) -> Session:
    """A session in which A, x and y have been multiplied once."""
    session = Session()
    bands = [np.arange(1.0, n), np.arange(1.0, n + 1), np.arange(2.0, n + 1)]
    session["A"] = sp.diags_array(bands, offsets=[-1, 0, 1], format=format)
    session["x"], session["y"] = np.arange(1.0, n + 1), np.zeros(n)
    session.run(text_of(format))
    assert np.array_equal(session["y"], session["A"] @ session["x"])
    return session


def text_of(format: str) -> str:
    return MULTIPLY if format == "csc" else BY_ROWS


# ------------------------------------------------------------------------- index arrays of matrices


def too_large(A: Any) -> None:
    A.indices[-1] = A.shape[0] + 5


def far_too_large(A: Any) -> None:
    A.indices[-1] = 2**31 - 1


def negative(A: Any) -> None:
    A.indices[0] = -3


def beyond_the_entries(A: Any) -> None:
    A.indptr[-1] += 10**8


def beyond_in_the_middle(A: Any) -> None:
    A.indptr[3] += 10**6


def downwards(A: Any) -> None:
    A.indptr[3], A.indptr[4] = A.indptr[4], A.indptr[3]


def before_the_entries(A: Any) -> None:
    A.indptr[0] = -1000


UNSOUND = (
    *(too_large, far_too_large, negative, beyond_the_entries, beyond_in_the_middle),
    *(downwards, before_the_entries),
)


@pytest.mark.parametrize("change", UNSOUND, ids=lambda change: change.__name__)
@pytest.mark.parametrize("format", ["csc", "csr"])
@isolated
def test_indices_that_leave_the_matrix_after_a_good_call(format: str, change: Callable) -> None:
    """Either the arrays are held read-only, which NumPy says, or the next call refuses them."""
    session = multiplying(format)
    before = session["y"].copy()
    with pytest.raises((FinchError, ValueError)) as caught:
        change(session["A"])
        session.run(text_of(format))
    if isinstance(caught.value, FinchError):
        assert caught.value.kind == "bounds"
    assert np.array_equal(session["y"], before)


@pytest.mark.parametrize("format", ["csc", "csr"])
@isolated
def test_indices_that_are_sorted_otherwise_after_a_good_call(format: str) -> None:
    session = multiplying(format)
    A = session["A"]
    session["B"], session["t"] = A.copy(), Scalar(0.0)
    session.run(INNER)
    assert session["t"].value == A.multiply(session["B"]).sum()
    try:
        for k in range(A.shape[0]):
            fiber = slice(A.indptr[k], A.indptr[k + 1])
            A.indices[fiber], A.data[fiber] = A.indices[fiber][::-1], A.data[fiber][::-1]
        A.has_sorted_indices = False
    except ValueError:  # they are held read-only
        pass
    session.run(INNER)
    assert session["t"].value == A.multiply(session["B"]).sum()


@pytest.mark.parametrize("part", ["data", "indices", "indptr"])
@isolated
def test_parts_that_are_replaced_after_a_good_call(part: str) -> None:
    session = multiplying()
    A = session["A"]
    other = sp.random_array(A.shape, density=0.5, rng=np.random.default_rng(1)).tocsc()
    for name in ("data", "indices", "indptr"):
        setattr(A, name, getattr(other, name))
    setattr(A, part, getattr(A, part).copy())
    session.run(MULTIPLY)
    assert np.allclose(session["y"], other @ session["x"])


@pytest.mark.parametrize("part", ["indices", "indptr"])
def test_a_change_in_place_of_a_large_matrix_is_seen_after_some_calls(part: str) -> None:
    n = 5 * COMPARED // 2
    session = Session()
    session["A"] = A = sp.eye_array(n, format="csc")
    session["x"], session["y"] = np.arange(1.0, n + 1), np.zeros(n)
    session.run(MULTIPLY)
    getattr(A, part)[3 * COMPARED // 2] -= 1
    expected = A @ session["x"]
    calls = 0
    while not np.array_equal(session["y"], expected):
        session.run(MULTIPLY)
        calls += 1
        assert calls <= 3


# -------------------------------------------------------------------------- arrays changed in place


def copying(engine: str, x: np.ndarray, y: np.ndarray) -> Session:
    """A session in which y was copied from x once."""
    session = Session(engine)
    session["x"], session["y"] = x, y
    session.run(COPY)
    assert np.array_equal(session["y"], x)
    return session


@ENGINES
@isolated
def test_an_array_that_gets_another_shape(engine: str) -> None:
    x = np.arange(6.0)
    session = copying(engine, x, np.zeros(6))
    x.shape = (3, 2)
    with pytest.raises(FinchError) as caught:
        session.run(COPY)
    assert caught.value.kind == "dimension"
    session["C"] = np.zeros((3, 2))
    session["A"] = x
    session.run(COPY_MATRIX)
    assert np.array_equal(session["C"], np.arange(6.0).reshape(3, 2))
    x.shape = (2, 3)
    session["C"] = np.zeros((2, 3))
    session.run(COPY_MATRIX)
    assert np.array_equal(session["C"], np.arange(6.0).reshape(2, 3))


@ENGINES
@isolated
def test_an_array_that_gets_other_strides(engine: str) -> None:
    x = np.arange(12.0)[:6]
    session = copying(engine, x, np.zeros(6))
    x.strides = (16,)
    session.run(COPY)
    assert np.array_equal(session["y"], np.arange(0.0, 12.0, 2))


@ENGINES
@isolated
def test_an_output_that_gets_other_strides(engine: str) -> None:
    memory = np.zeros(12)
    y = memory[:6]
    session = copying(engine, np.arange(1.0, 7.0), y)
    memory[:] = 0
    y.strides = (16,)
    session.run(COPY)
    assert np.array_equal(memory, np.array([1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0.0]))


@ENGINES
@isolated
def test_an_array_that_gets_another_type(engine: str) -> None:
    x = np.arange(6.0)
    session = copying(engine, x, np.zeros(6))
    x.dtype = np.int64
    x[:] = np.arange(6)
    session.run(COPY)
    assert np.array_equal(session["y"], np.arange(6.0))


@ENGINES
@pytest.mark.parametrize("size", [3, 8, 5000])
@isolated
def test_an_array_that_gets_another_size(engine: str, size: int) -> None:
    x = np.arange(6.0)
    session = copying(engine, x, np.zeros(6))
    x.resize(size, refcheck=False)
    x[:] = np.arange(size) + 1
    session.run(COPY)
    assert np.array_equal(session["y"], x)


@ENGINES
@pytest.mark.parametrize("size", [3, 8, 5000])
@isolated
def test_an_output_that_gets_another_size(engine: str, size: int) -> None:
    y = np.zeros(6)
    session = copying(engine, np.arange(6.0), y)
    y.resize(size, refcheck=False)
    session["x"] = np.arange(float(size))
    session.run(COPY)
    assert session["y"] is y and np.array_equal(y, np.arange(float(size)))


@pytest.mark.parametrize("engine", ["native", "interpret"])
@isolated
def test_an_output_that_is_made_read_only(engine: str) -> None:
    x, y = np.arange(6.0), np.zeros(6)
    session = copying(engine, x, y)
    x += 1
    y.setflags(write=False)
    with pytest.raises(FinchError) as caught:
        session.run(COPY)
    assert caught.value.kind == "type" and "read-only" in caught.value.message
    assert np.array_equal(y, np.arange(6.0))
    y.setflags(write=True)
    session.run(COPY)
    assert np.array_equal(y, x)


@pytest.mark.parametrize(
    "format, shape",
    [
        ("csc", (11, 9)),
        ("csr", (9, 12)),
        ("csc", (9, 6)),
        ("csr", (6, 9)),
    ],
)
@isolated
def test_a_matrix_that_gets_another_size(format: str, shape: tuple[int, int]) -> None:
    session = multiplying(format)
    A = session["A"]
    A.resize(*shape)
    session["x"], session["y"] = np.arange(1.0, shape[1] + 1), np.zeros(shape[0])
    session.run(text_of(format))
    assert np.array_equal(session["y"], A @ session["x"])


@pytest.mark.parametrize("format, shape", [("csc", (11, 9)), ("csr", (9, 12))])
@isolated
def test_a_matrix_that_no_longer_has_the_size_of_the_others(
    format: str, shape: tuple[int, int]
) -> None:
    session = multiplying(format)
    session["y"] = np.zeros(9)
    session["A"].resize(*shape)
    with pytest.raises(FinchError) as caught:
        session.run(text_of(format).replace("y .= 0\n", ""))
    assert caught.value.kind == "dimension"


# -------------------------------------------------------------------------- outputs that change size


@ENGINES
@pytest.mark.parametrize("format", ["csc", "csr"])
@isolated
def test_a_matrix_as_output_takes_another_size(engine: str, format: str) -> None:
    """Both the matrix that is bound and the object from before are whole, of more rows than before
    and of more columns."""
    copy = COPY_MATRIX if format == "csc" else COPY_MATRIX.replace("j = _, i = _", "i = _, j = _")
    for shape in ((9, 5), (5, 9), (9, 9), (3, 5), (5, 3)):
        session = Session(engine)
        C = session["C"] = sp.csc_array(np.eye(5)).asformat(format)
        for m, n in ((5, 5), shape, (5, 5), shape):
            A = session["A"] = sp.csc_array(np.triu(np.ones((m, n)))).asformat(format)
            session.run(copy)
            for matrix in (C, session["C"]):
                matrix.check_format(full_check=True)
            assert np.array_equal(session["C"].toarray(), A.toarray())


@ENGINES
@isolated
def test_an_array_that_is_bound_again_after_a_kernel_outgrew_it(engine: str) -> None:
    y = np.zeros(4)
    session = copying(engine, np.arange(4.0), y)
    session["x"] = np.arange(7.0)
    session.run(COPY)
    assert np.array_equal(session["y"], np.arange(7.0))
    session["x"], session["y"] = np.arange(1.0, 5.0), y
    session.run(COPY)
    assert session["y"] is y and np.array_equal(y, np.arange(1.0, 5.0))


GROWABLE = (
    *("SparseCOO{1}(Element(0.0))", "SparseList(Element(0.0))", "SparseByteMap(Element(0.0))"),
    *("RunList(Element(0.0))", "SparseRunList(Element(0.0))", "SparseBlockList(Element(0.0))"),
    *("SparseHash{1}(Element(0.0))", "PackBits(Element(0.0))", "SparseBand(Element(0.0))"),
    *("Dense(Element(0.0))", "SparseList(Pattern())"),
)


@ENGINES
@pytest.mark.parametrize("format", GROWABLE)
@isolated
def test_a_tensor_made_from_data_that_shrinks_twice_and_grows_again(
    engine: str, format: str
) -> None:
    rng = np.random.default_rng(3)
    full = np.where(rng.random(60) < 0.7, np.round(rng.random(60) * 9), 0)
    if "Pattern" in format:
        full = full != 0
    session = Session(engine)
    session["y"] = fits(format, full)
    for count in (60, 40, 20, 60, 10, 5, 60, 60):
        x = session["x"] = full[:count].copy()
        session.run(COPY)
        assert np.array_equal(session["y"].to_numpy(), x)
        entries, _ = session["y"].entries()
        assert entries.shape[1] >= np.count_nonzero(x)


@ENGINES
@pytest.mark.parametrize("format", GROWABLE)
@isolated
def test_a_tensor_of_fewer_and_fewer_entries_and_then_of_many(engine: str, format: str) -> None:
    rng = np.random.default_rng(4)
    full = np.where(rng.random(60) < 0.9, np.round(rng.random(60) * 9), 0)
    if "Pattern" in format:
        full = full != 0
    session = Session(engine)
    session["y"] = fits(format, full)
    for share in (0.5, 0.2, 1.0, 0.1, 0.0, 1.0, 1.0):
        x = session["x"] = np.where(rng.random(60) < share, full, full.dtype.type(0))
        session.run(COPY)
        assert np.array_equal(session["y"].to_numpy(), x)
        assert np.array_equal(Tensor.from_numpy(session["y"].to_numpy()).to_numpy(), x)


@isolated
def test_an_array_that_a_swizzled_tensor_stands_for_is_cut_short() -> None:
    session = Session()
    A = session["A"] = sp.random_array((60, 60), density=0.5, format="csc")
    A.data = A.data.copy()
    session.run("B = swizzle(A, 2, 1)\ns = Scalar(0.0)")
    session.run("@finch begin\ns .= 0\nfor j = _, i = _\n s[] += B[j, i]\nend\nend")
    assert np.isclose(session["s"].value, A.sum())
    A.data.resize(3, refcheck=False)
    with pytest.raises(FinchError) as caught:
        session.run("@finch begin\ns .= 0\nfor j = _, i = _\n s[] += B[j, i]\nend\nend")
    assert caught.value.kind == "bounds"
