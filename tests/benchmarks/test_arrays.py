"""Array expressions (`finchlang.array`) beside the peers, as their users write them: planned, looked up
and called each time."""

from __future__ import annotations

import numpy as np
import peers
import pytest
import scipy.sparse as sp
from test_functions import matrices

import finchlang.array as xp

sparse = peers.pydata_sparse
#: the same text for NumPy's dialect of PyData/Sparse, and for ours
PYDATA = {
    "(A * v + A).sum(axis=0)": lambda np, A, v: np.sum(A * v + A, axis=0),
    "where(A > .5, A, 0)": lambda np, A, v: np.where(A > 0.5, A, 0),
}
SCIPY = {
    "A * v": (lambda A, B, v: A * v, lambda A, B, v: A.multiply(v).tocsc()),
    "A + B": (lambda A, B, v: A + B, lambda A, B, v: A + B),
    "sums of columns": (lambda A, B, v: xp.sum(A, axis=0), lambda A, B, v: A.sum(axis=0)),
    "sums of rows": (lambda A, B, v: xp.sum(A, axis=1), lambda A, B, v: A.sum(axis=1)),
    "maxima of columns": (lambda A, B, v: xp.max(A, axis=0), lambda A, B, v: A.max(axis=0)),
    "maxima of rows": (lambda A, B, v: xp.max(A, axis=1), lambda A, B, v: A.max(axis=1)),
    "stride 2": (
        lambda A, B, v: A[::2, ::2] + B[::2, ::2],
        lambda A, B, v: A[::2, ::2] + B[::2, ::2],
    ),
    "stride 8": (
        lambda A, B, v: A[::8, ::8] + B[::8, ::8],
        lambda A, B, v: A[::8, ::8] + B[::8, ::8],
    ),
}


def same(found, expected):
    if found.ndim == 2:
        assert abs(sp.csc_array(found.to_scipy()) - sp.csc_array(expected)).max() < 1e-12
        return
    expected = expected.todense() if hasattr(expected, "todense") else expected
    assert np.allclose(found.to_numpy(), np.asarray(expected).ravel())


@pytest.mark.skipif(sparse is None, reason="needs PyData/Sparse")
@pytest.mark.parametrize("operation", PYDATA)
def test_pydata(meter, operation):
    A = matrices("100 in a column")[0].copy()
    A.data -= 0.5
    column, theirs = np.random.default_rng(1).random((A.shape[0], 1)), sparse.COO(A.tocoo())
    value, ours = PYDATA[operation], xp.asarray(A)
    expected = value(sparse, theirs, column)
    same(xp.compute(value(xp, ours, column)), expected.tocsc() if expected.ndim == 2 else expected)
    others = {"PyData/Sparse": lambda: value(sparse, theirs, column)}
    ours_now = {"same": lambda: xp.compute(value(xp, ours, column))}
    meter.race(f"{operation}, array", "100 in a column", ours_now, others)


@pytest.mark.parametrize("operation", SCIPY)
def test_scipy(meter, operation):
    name = "100 in a column"
    A, B = matrices(name)
    column = np.random.default_rng(1).random((A.shape[0], 1))
    value, theirs = SCIPY[operation]
    left, right = xp.asarray(A), xp.asarray(B)
    same(xp.compute(value(left, right, column)), theirs(A, B, column))
    ours = {"same": lambda: xp.compute(value(left, right, column))}
    others = {"SciPy": lambda: theirs(A, B, column)}
    meter.race(f"{operation}, array", name, ours, others)


def test_small_sum(meter):
    A = sp.random_array((50, 50), density=0.1, rng=1, format="csr")
    ours = xp.asarray(A)
    same(xp.compute(ours + ours), 2 * A)
    call = {"same": lambda: xp.compute(ours + ours)}
    meter.race("A + A of 50 x 50, array", "density 0.1", call, {"SciPy": lambda: A + A})
