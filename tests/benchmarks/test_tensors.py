"""Sampled dense products (SDDMM), and products of a sparse tensor with matrices (MTTKRP) and with a
vector (TTV)."""

from __future__ import annotations

from functools import cache

import numpy as np
import peers
import pytest
import scipy.sparse as sp
from calls import calls
from data import available, matrix
from experts import expert
from test_spgemm import same

from finchlang import Session, Tensor

SDDMM = "@finch begin\nC .= 0\nfor j = _, i = _, k = _\n"
SDDMM += " C[i, j] += A[i, j] * B[k, i] * D[k, j]\nend\nend"
MTTKRP = "@finch begin\nM .= 0\nfor k = _, j = _, i = _, r = _\n"
MTTKRP += " M[r, k] += X[i, j, k] * A[r, i] * B[r, j]\nend\nend"
TTV = "@finch begin\nC .= 0\nfor k = _, j = _, i = _\n C[j, k] += X[i, j, k] * v[i]\nend\nend"
OUTPUT = "Dense(SparseList{Int32}(Element(0.0)))"


@pytest.mark.parametrize("size", [16, 64])
@pytest.mark.parametrize(
    "name",
    available(
        *("RMAT 13, seed 1", "Erdos-Renyi 100, seed 1", "Erdos-Renyi 100, seed 2"),
        *("RMAT 16, seed 1", "cora"),
    ),
)
def test_sddmm(meter, name, size):
    A = matrix(name).tocsc()
    (m, n), rng = A.shape, np.random.default_rng(1)
    B, D = (np.asfortranarray(rng.random((size, count))) for count in (m, n))
    session = Session()
    session["A"], session["B"], session["D"] = A, B, D
    session["C"] = Tensor(OUTPUT, m, n)
    session.run(SDDMM)
    columns = np.repeat(np.arange(n), np.diff(A.indptr))
    values = A.data * np.einsum("kq,kq->q", B[:, A.indices], D[:, columns])
    expected = sp.csc_array((values, A.indices, A.indptr), A.shape)
    same(session["C"].to_scipy(), expected)
    made = np.zeros(n + 1, np.int32), np.zeros(A.nnz, np.int32), np.zeros(A.nnz)
    call = expert("tensors", "sddmm", n, size, A.indptr, A.indices, A.data, B, D, *made)
    if call is not None:
        call()
        same(sp.csc_array((made[2], made[1], made[0]), A.shape), expected)
    others = {"expert C": call, "GraphBLAS": graphblas_sddmm(A, B, D, expected)}
    meter.race("SDDMM", f"K = {size}, {name}", calls(session, SDDMM), others)


def graphblas_sddmm(A, B, D, expected):
    if peers.graphblas is None:
        return None
    gb = peers.graphblas
    sample = gb.io.from_scipy_sparse(sp.csr_array((A.data, A.indices, A.indptr), A.shape[::-1]))
    left, right = (gb.Matrix.from_dense(np.ascontiguousarray(M.T)) for M in (D, B))

    def product():
        C = gb.Matrix(float, *A.shape[::-1])
        C(sample.S) << gb.semiring.plus_times(left @ right.T)
        C << gb.binary.times(C & sample)
        C.wait()
        return C

    assert abs(gb.io.to_scipy_sparse(product()).T - expected).max() <= 1e-12 * abs(expected).max()
    return product


@cache
def tensor(name):
    """A 400 x 300 x 200 tensor of random places, as CSF: coordinates, values and the tensor."""
    kind, seed = name.split(",")[0], int(name[-1])
    shape, count, rng = (400, 300, 200), 600_000, np.random.default_rng(seed)
    power = 1 if kind == "uniform" else 3  # the least coordinates are the most frequent
    places = np.unique(
        np.ravel_multi_index([(rng.random(count) ** power * s).astype(int) for s in shape], shape)
    )
    coordinates, values = np.unravel_index(places, shape), rng.random(len(places))
    form = "Dense(SparseList{Int32}(SparseList{Int32}(Element(0.0))))"
    return coordinates, values, Tensor.from_coo(form, shape, coordinates, values)


def csf(X):
    """The arrays of a CSF tensor: ptr and idx of the fibers, ptr and idx of the entries, values."""
    fibers, entries, leaves = X.storage[1:]
    return fibers["ptr"], fibers["idx"], entries["ptr"], entries["idx"], leaves["val"]


TENSORS = ["uniform, seed 1", "uniform, seed 2", "skewed, seed 1", "skewed, seed 2"]


@pytest.mark.parametrize("name", TENSORS)
def test_mttkrp(meter, name):
    (i, j, k), values, X = tensor(name)
    rank, rng = 32, np.random.default_rng(1)
    A, B = (np.asfortranarray(rng.random((rank, size))) for size in X.shape[:2])
    M = np.zeros((rank, X.shape[2]), order="F")
    session = Session()
    session["X"], session["A"], session["B"], session["M"] = X, A, B, M
    session.run(MTTKRP)
    terms = sp.csr_array((values, (k, np.arange(len(k)))), (X.shape[2], len(k)))
    expected = (terms @ (A[:, i] * B[:, j]).T).T
    assert np.allclose(M, expected)
    out = np.zeros_like(M)
    call = expert("tensors", "mttkrp", X.shape[2], rank, *csf(X), A, B, out)
    if call is not None:
        call()
        assert np.allclose(out, expected)
    meter.race("MTTKRP", name, calls(session, MTTKRP), {"expert C": call})


@pytest.mark.parametrize("name", TENSORS)
def test_ttv(meter, name):
    (i, j, k), values, X = tensor(name)
    v = np.random.default_rng(1).random(X.shape[0])
    session = Session()
    session["X"], session["v"] = X, v
    session["C"] = Tensor(OUTPUT, *X.shape[1:])
    session.run(TTV)
    expected = sp.csc_array(sp.coo_array((values * v[i], (j, k)), X.shape[1:]))
    same(session["C"].to_scipy(), expected)
    arrays, fibers = csf(X), expected.nnz
    made = np.zeros(X.shape[2] + 1, np.int32), np.zeros(fibers, np.int32), np.zeros(fibers)
    call = expert("tensors", "ttv", X.shape[2], *arrays, v, *made)
    if call is not None:
        assert call() == fibers
        same(sp.csc_array((made[2], made[1], made[0]), X.shape[1:]), expected)
    meter.race("TTV", name, calls(session, TTV), {"expert C": call})
