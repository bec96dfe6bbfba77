"""Data given by coordinates: `fsparse` of random ones, in any order and more than once, holds what SciPy's
matrix of them does, and so do copies of it in other formats, natively and interpreted."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings, strategies as st

from finchlang import Session, Tensor

FORMATS = (
    *("Dense(SparseList(%))", "SparseList(SparseList(%))", "SparseCOO{2}(%)", "SparseHash{2}(%)"),
    *("Dense(SparseByteMap(%))", "Dense(RunList(%))", "SparseBlockList(SparseBand(%))"),
)
COPY = "C = Tensor({0})\n@finch begin C .= 0; for j = _, i = _; C[i, j] = A[i, j] end end"


@st.composite
def entries(draw: st.DrawFn) -> sp.coo_array:
    """A matrix with entries at places that may repeat."""
    shape = draw(st.tuples(st.integers(1, 6), st.integers(1, 6)))
    place = st.tuples(*(st.integers(0, size - 1) for size in shape))
    places = draw(st.lists(place, max_size=12))
    values = draw(st.lists(st.integers(-4, 4), min_size=len(places), max_size=len(places)))
    rows, columns = np.array(places, int).reshape(-1, 2).T
    return sp.coo_array((np.array(values, float), (rows, columns)), shape)


@pytest.mark.parametrize("engine", ["native", "interpret"])
@settings(max_examples=40)
@given(matrix=entries(), format=st.sampled_from(FORMATS))
def test_coordinates_hold_what_scipys_do(engine: str, matrix: sp.coo_array, format: str) -> None:
    session = Session(engine)
    for name, values in zip("IJV", (*(c + 1 for c in matrix.coords), matrix.data), strict=True):
        session[name] = values
    session["B"] = matrix
    m, n = matrix.shape
    session.run(f"A = fsparse(I, J, V, ({m}, {n}))")
    session.run(COPY.format(format.replace("%", "Element(0.0)")))
    expected = matrix.toarray()
    made = session["A"]
    assert isinstance(made, Tensor) and made.countstored() == matrix.tocsc().nnz
    for name in "ABC":
        found = session[name]
        array = found.to_numpy() if isinstance(found, Tensor) else found.toarray()
        np.testing.assert_array_equal(array, expected, name)
