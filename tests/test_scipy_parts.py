"""The arrays that a SciPy matrix is made of may be of any kind: each is read as it is, or refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from finchlang import FinchError, Session

SUM = "s = Scalar(0.0); @finch for j = _, i = _ s[] += (i + 10 * j) * A[i, j] end; s[]"
DENSE = np.array([[1.0, 0, 2, 0], [0, 3, 0, 0], [4, 0, 5, 6]])


def matrix(kind: str = "csc") -> Any:
    return getattr(scipy.sparse, f"{kind}_matrix")(DENSE)


def weighted(dense: np.ndarray) -> float:
    rows, columns = np.indices(dense.shape) + 1
    return float(((rows + 10 * columns) * dense).sum())


def spread(array: np.ndarray) -> np.ndarray:
    """The same entries, each beside another."""
    wide = np.full((len(array), 2), array.dtype.type(99))
    wide[:, 0] = array
    return wide[:, 0]


def field(array: np.ndarray) -> np.ndarray:
    """The same entries, in records of a byte more."""
    records = np.zeros(len(array), [("tag", np.int8), ("part", array.dtype)])
    records["part"] = array
    return records["part"]


PLACES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "spread": spread,
    "field": field,
    "backwards": lambda array: array[::-1].copy()[::-1],
    "swapped": lambda array: array.astype(array.dtype.newbyteorder()),
    "unaligned": lambda array: np.frombuffer(b"x" + array.tobytes(), np.int8)[1:].view(array.dtype),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("part", ["data", "indices", "indptr"])
@pytest.mark.parametrize(
    ("engine", "kind"), [("native", "csc"), ("native", "csr"), ("interpret", "csc")]
)
def test_parts_in_any_place_and_byte_order(engine: str, kind: str, part: str, place: str) -> None:
    """At the first call and at each: what is changed in them is seen."""
    session, A = Session(engine), matrix(kind)
    setattr(A, part, PLACES[place](getattr(A, part)))
    session["A"] = A
    for factor in (1.0, 1.0, 2.0, 3.0):
        if A.data.flags.writeable:
            A.data[:] = factor * matrix(kind).data
        assert session.run(SUM) == weighted(A.toarray())


def test_large_parts_that_are_spread() -> None:
    n = 3000
    values = np.arange(2.0 * n).reshape(n, 2)
    A = scipy.sparse.csc_matrix((values[:, 0], np.arange(n), np.arange(n + 1)))
    A.data = values[:, 0]
    session = Session()
    session["A"], session["x"] = A, np.ones(n)
    session.run("y = zeros(3000); @finch for j = _, i = _ y[i] += A[i, j] * x[j] end")
    np.testing.assert_array_equal(session["y"], values[:, 0])


@pytest.mark.parametrize("part", ["data", "indices", "indptr"])
def test_an_output_with_parts_that_are_copied(part: str) -> None:
    session, A = Session(), matrix()
    setattr(A, part, spread(getattr(A, part)))
    session["A"], session["B"] = A, matrix()
    session.run("@finch begin A .= 0; for j = _, i = _ A[i, j] += 2 * B[i, j] end end")
    np.testing.assert_array_equal(session["A"].toarray(), 2 * DENSE)


@pytest.mark.parametrize("kind", ["csc", "csr"])
def test_unsorted_parts_that_are_read_only(kind: str) -> None:
    A = matrix(kind)
    dense, bounds = A.toarray(), A.indptr
    for start, stop in zip(bounds, bounds[1:], strict=False):
        A.indices[start:stop], A.data[start:stop] = (
            A.indices[start:stop][::-1].copy(),
            A.data[start:stop][::-1].copy(),
        )
    A.has_sorted_indices = A.has_canonical_format = False
    before = A.indices.copy()
    for part in (A.data, A.indices, A.indptr):
        part.flags.writeable = False
    session = Session()
    session["A"] = A
    assert session.run(SUM) == session.run(SUM) == weighted(dense)
    np.testing.assert_array_equal(A.indices, before)


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("indices", lambda part: part.astype(float)),
        ("indptr", lambda part: part.astype(float)),
        ("indices", lambda part: part.astype(np.uint64)),
        ("indptr", lambda part: part.astype(np.uint64)),
        ("indices", lambda part: part.astype(bool)),
        ("indices", lambda part: part.reshape(1, -1)),
        ("data", lambda part: part.reshape(-1, 1)),
        ("indptr", lambda part: part.reshape(-1, 1)),
        *[(part, lambda part: part.tolist()) for part in ("data", "indices", "indptr")],
        *[(part, lambda part: None) for part in ("data", "indices", "indptr")],
        ("data", lambda part: np.ma.masked_array(part, part > 2)),
        ("data", lambda part: part.astype(np.float16)),
        ("data", lambda part: part.astype(object)),
    ],
)
def test_parts_that_are_no_vectors_of_numbers(part: str, change: Any, is_known: bool) -> None:
    session, A = Session(), matrix()
    session["A"] = A
    if is_known:
        session.run(SUM)
    setattr(A, part, change(getattr(A, part)))
    with pytest.raises(FinchError) as caught:
        session.run(SUM)
    assert caught.value.kind == "type"


@pytest.mark.parametrize("kind", ["coo", "bsr", "dia", "lil", "dok"])
def test_matrices_of_other_formats(kind: str) -> None:
    session = Session()
    session["A"] = scipy.sparse.csc_matrix(DENSE).asformat(kind)
    assert session.run(SUM) == weighted(DENSE)


@pytest.mark.parametrize("place", [-5, 3, 10**9])
def test_coordinates_are_looked_at_before_they_are_sorted(place: int) -> None:
    session, A = Session(), scipy.sparse.coo_array(DENSE)
    A.coords[0][0] = place
    session["A"] = A
    with pytest.raises(FinchError) as caught:
        session.run(SUM)
    assert caught.value.kind == "bounds"
