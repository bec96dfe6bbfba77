"""Bad input of shape operators: what is said, and that nothing is written."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.sparse as sp

import finchlang.array as xp
from finchlang.session import Session
from finchlang.source import FinchError
from finchlang.tensors.tensor import Tensor

pytestmark = pytest.mark.checked

CSC = "Dense(SparseList(Element(0.0)))"
GIVEN = {
    "A": Tensor.from_numpy(np.eye(3, 4), CSC),
    "B": Tensor.from_numpy(np.eye(4, 3), CSC),
    "v": Tensor.from_numpy(np.arange(12.0), "SparseList(Element(0.0))"),
    "w": np.arange(5.0),
    "minus": -3,
    "half": 2.5,
    "huge": 2**63 - 1,
    "S": Tensor("SparseList(Element(0.0))", 4611686018427387904),
    "n": 5,
    "zero": 0,
}


def test_parts_are_chosen_in_conditions() -> None:
    """A part that is out of range where another is read is no missing number."""
    session = Session("interpret")
    session["A"], session["w"], session["c"] = np.ones((2, 2)), np.full(2, 3.0), np.zeros(4)
    session.run("@finch for i=_; c[i] = ifelse(i < 3, concat(1, w, w)[i], flatten(A)[i]) end")
    np.testing.assert_array_equal(session["c"], [3, 3, 1, 1])


@pytest.mark.parametrize("level", ["SparseList", "SparseHash", "SparseByteMap", "SparseCOO"])
def test_index_types_without_room_are_refused(level: str) -> None:
    """The coordinates of SciPy's matrices are Int32; a mode that operators make may be larger."""
    index = "{1, Int32}" if level == "SparseCOO" else "{Int32}"
    session = Session()
    session["M"] = _corners(70_000, 70_000)
    session.run(f"C = Tensor({level}{index}(Element(0.0)), 1)")
    with pytest.raises(FinchError, match="Int32 has no room .* of size 4900000000") as caught:
        session.run("@finch begin C .= 0; for i = _; C[i] = flatten(M)[i]; end end")
    assert caught.value.kind == "dimension"
    assert session["C"].shape == (1,)


def test_index_types_are_widened_where_the_format_is_ours() -> None:
    session = Session()
    session["M"] = _corners(70_000, 70_000)
    session.run("C = copy(collapse(M, 2, 1))")
    assert session["C"].entries()[0].tolist() == [[0, 70_000**2 - 1]]
    wide = 2**31 - 10
    row, tall = xp.asarray(_corners(1, wide)), xp.asarray(_corners(70_000, 70_000))
    for made, shape, last in (
        (xp.concat([row, row], axis=1), (1, 2 * wide), (0, 2 * wide - 1)),
        (xp.reshape(tall, (-1,)), (70_000**2,), (70_000**2 - 1,)),
    ):
        assert made.shape == shape
        coordinates = np.asarray(xp.nonzero(made))
        assert tuple(coordinates[:, -1].tolist()) == last, made


def _corners(m: int, n: int) -> sp.csr_array:
    """A matrix with its first and its last element, with Int32 coordinates."""
    rows, columns = (np.array([0, k - 1], np.int32) for k in (m, n))
    return sp.coo_array((np.array([1.0, 2.0]), (rows, columns)), shape=(m, n)).tocsr()


#: what arrays refuse at once: the error, and what it says
REFUSED_ARRAYS: dict[str, tuple[type[Exception], str]] = {
    "xp.tile(A, -1)": (ValueError, "negative"),
    "xp.tile(A, 1.5)": (TypeError, "integer"),
    "xp.roll(A, 1.5)": (TypeError, "integer"),
    "xp.tril(A, 1.5)": (TypeError, "integer"),
    "xp.broadcast_to(A, (-1, 3, 4))": (ValueError, "negative"),
    "xp.broadcast_to(A, (2.0, 3, 4))": (TypeError, "integers"),
    "xp.reshape(xp.broadcast_to(A, (2**62, 3, 4)), -1)": (ValueError, "2^62"),
}


@pytest.mark.parametrize("text", REFUSED_ARRAYS)
def test_arrays_are_refused_where_they_are_made(text: str) -> None:
    kind, said = REFUSED_ARRAYS[text]
    with pytest.raises(kind, match=re.escape(said)):
        eval(text, {"xp": xp, "A": GIVEN["A"]})


def test_arrays_of_numbers_without_bounds() -> None:
    a, huge = np.arange(1, 13.0).reshape(3, 4), 2**63 - 1
    A = xp.asarray(Tensor.from_numpy(a, CSC))
    for k in (huge, -huge, 10**30, -(10**30)):
        assert np.array_equal(xp.todense(xp.tril(A, k)), a * (k > 0))
        assert np.array_equal(xp.todense(xp.triu(A, k)), a * (k < 0))
    assert np.array_equal(xp.todense(A[::huge]), a[:1])
    assert np.array_equal(xp.todense(A[:, ::-huge]), a[:, ::-huge])
    assert np.array_equal(xp.todense(xp.reshape(A, np.array([2, 6]))), a.reshape(2, 6))


#: written across the order, and the order that would do
ACROSS = {
    "@declare(c, 0, 1:12); for i=_, j=_; split(c, 1, 3)[i, j] = A[i, j] end": "`j`, `i`",
    "@declare(c, 0, 1:12); for i=_, k=1:2, j=1:2; split(split(c, 1, 3), 2, 2)[i, j, k] = w[i] end": (
        "`k`, `j`, `i`"
    ),
    "@declare(C, 0, 1:3, 1:4); for k=_; collapse(C, 2, 1)[k] = v[k] end": "in the order of the storage",
}


@pytest.mark.parametrize("text", ACROSS)
def test_the_order_that_would_do_is_named(text: str) -> None:
    session = Session(workspaces=False)
    for name, value in GIVEN.items():
        session[name] = value
    session["w"] = np.arange(3.0)
    session["c"] = Tensor("SparseList(Element(0.0))", 12)
    session["C"] = Tensor(CSC, 3, 4)
    with pytest.raises(FinchError) as caught:
        session.run(f"@finch begin {text} end")
    assert caught.value.kind == "access order" and ACROSS[text] in (caught.value.hint or "")


def test_places_in_a_block_do_not_wrap_around_in_an_index_type() -> None:
    m = np.zeros((100, 100))
    m[3, 4], m[99, 99] = 1, 2
    session = Session()
    session["C"] = Tensor.from_numpy(m, "SparseCOO{2, Int8}(Element(0.0))")
    session["Q"] = Tensor("Dense(Dense(Element(0.0)))", 0, 0)
    session.run(
        "@finch begin Q .= 0; for j=_, i=_; Q[i, j] = split(flatten(C), 1, 50)[i, j] end end"
    )
    assert np.array_equal(session["Q"].to_numpy(), m.reshape(50, 200, order="F"))


@pytest.mark.parametrize(
    "loop, hint",
    [
        ("for j = 0:2, i = _ s[] += A[i, j] end", "count from 1: `for j = 1:3` or `_`"),
        ("for i = 1:2, j = _ s[] += A[i + 1, j] * B[i, j] end", None),
    ],
)
def test_a_loop_of_another_range_is_told_what_counts(loop: str, hint: str | None) -> None:
    """`~` is named only with what it does: what is outside is `missing`."""
    session = Session()
    session["A"], session["B"] = np.ones((3, 4)), np.ones((3, 4))
    session.run("s = Scalar(0.0)")
    with pytest.raises(FinchError) as caught:
        session.run(f"@finch {loop}")
    said = f"{caught.value.message} {caught.value.hint}"
    assert caught.value.kind == "dimension"
    assert hint in said if hint else "~" not in said or "missing" in said
