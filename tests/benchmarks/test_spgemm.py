"""Sparse matrix times sparse matrix by Gustavson's algorithm, with sorted columns."""

from __future__ import annotations

import numpy as np
import peers
import pytest
import scipy.sparse as sp
from calls import calls
from data import available, erdos_renyi, matrix
from experts import expert

from finchlang import Session, Tensor

GUSTAVSON = """
@finch begin
    C .= 0
    for j = _
        w .= 0
        for k = _, i = _
            w[i] += A[i, k] * B[k, j]
        end
        for i = _
            C[i, j] = w[i]
        end
    end
end
"""
#: the square of a matrix
MATRICES = available(
    *("Poisson 2-d", "blocks of 3, seed 1", "band 30, seed 2"),
    *("RMAT 13, seed 1", "RMAT 13, seed 2", "dense square, seed 1", "dense square, seed 2"),
    *("one-entry columns", "hypersparse, seed 1", "hypersparse, seed 2"),
    *("bcsstk13", "jagmesh7", "cora", "citeseer"),
)
#: the product of two random ones
RANDOM = {f"Erdos-Renyi {d}, seed {s}": (d, s) for d in (4, 12) for s in (1, 2)}


def expert_product(A, B, expected):
    """A B by an expert's C, ready to go, in memory that is there already."""
    (m, n), int32 = (A.shape[0], B.shape[1]), np.int32
    ones = [sp.csc_array((np.ones(M.nnz), M.indices, M.indptr), M.shape) for M in (A, B)]
    count = (ones[0] @ ones[1]).nnz
    ptr, idx, val = np.zeros(n + 1, int32), np.zeros(count + 1, int32), np.zeros(count + 1)
    seen, used = np.zeros(m // 64 + 1, np.uint64), np.zeros(m // 4096 + 1, np.uint64)
    work = np.zeros(m)
    matrices = A.indptr, A.indices, A.data, B.indptr, B.indices, B.data
    call = expert("spgemm", "gustavson", m, n, *matrices, ptr, idx, val, seen, used, work)
    if call is not None:
        assert call() == count
        same(sp.csc_array((val[:-1], idx[:-1], ptr), (m, n)), expected)
    return call


def same(found, expected):
    """That two sparse matrices are equal, and that the first is in order. (Sums that happen to be
    zero are stored or not.)"""
    assert found.has_sorted_indices
    difference, most = abs(found - expected), abs(expected).max()
    assert difference.nnz == 0 or difference.max() <= 1e-12 * most


@pytest.mark.parametrize("name", [*RANDOM, *MATRICES])
def test_spgemm(meter, name):
    if name in RANDOM:
        degree, seed = RANDOM[name]
        A, B = (erdos_renyi(20_000, degree, s).tocsc() for s in (seed, seed + 10))
    else:
        A = B = matrix(name).tocsc()
    A.sort_indices(), B.sort_indices()
    session = Session()
    session["A"], session["B"] = A, B
    session["C"] = Tensor("Dense(SparseList{Int32}(Element(0.0)))", A.shape[0], B.shape[1])
    session["w"] = Tensor("SparseByteMap{Int32}(Element(0.0))", A.shape[0])

    def scipy_product():
        C = A @ B
        C.sort_indices()
        return C

    session.run(GUSTAVSON)
    expected = scipy_product()
    same(session["C"].to_scipy(), expected)
    others = {
        "SciPy and sort": scipy_product,
        "GraphBLAS": graphblas_product(A, B, expected),
        "PyData/Sparse": pydata_product(A, B, expected),
        "expert C": expert_product(A, B, expected),
    }
    meter.race("SpGEMM", name, calls(session, GUSTAVSON), others)


def graphblas_product(A, B, expected):
    if peers.graphblas is None:
        return None
    gb = peers.graphblas
    left, right = (gb.io.from_scipy_sparse(M.tocsr()) for M in (A, B))

    def product():
        C = left.mxm(right, gb.semiring.plus_times).new()
        C.wait()
        return C

    assert abs(gb.io.to_scipy_sparse(product()) - expected).max() <= 1e-12 * abs(expected).max()
    return product


def pydata_product(A, B, expected):
    if peers.pydata_sparse is None or B.nnz < B.shape[1]:
        return None  # it clears a row of the result for each row of A: minutes where there are many
    left, right = (peers.pydata_sparse.GCXS.from_scipy_sparse(M.tocsr()) for M in (A, B))
    assert abs((left @ right).to_scipy_sparse() - expected).max() <= 1e-12 * abs(expected).max()
    return lambda: left @ right
