"""Sums and products by elements of two CSR matrices, as CSR."""

from __future__ import annotations

import numpy as np
import peers
import pytest
import scipy.sparse as sp
from calls import calls
from data import available, erdos_renyi, matrix, permuted
from experts import expert
from test_spgemm import same

from finchlang import Session, SwizzledTensor, Tensor

PROGRAMS = {
    "add": "@finch begin\nC .= 0\nfor i = _, j = _\n C[i, j] = A[i, j] + B[i, j]\nend\nend",
    "multiply": "@finch begin\nC .= 0\nfor i = _, j = _\n C[i, j] = A[i, j] * B[i, j]\nend\nend",
}
#: a matrix, and the same with its rows moved down by one
MATRICES = available(
    *("RMAT 16, seed 1", "RMAT 16, seed 2", "Poisson 2-d", "band 30, seed 2", "bcsstk13", "cora")
)
RANDOM = {f"Erdos-Renyi {d}, seed {s}": (d, s) for d in (10, 100) for s in (1, 2)}


def pair(name):
    if name in RANDOM:
        degree, seed = RANDOM[name]
        return tuple(erdos_renyi(1_000_000 // degree, degree, s) for s in (seed, seed + 10))
    A = matrix(name)
    return A, permuted(A)


@pytest.mark.parametrize("operation", PROGRAMS)
@pytest.mark.parametrize("name", [*RANDOM, *MATRICES])
def test_elementwise(meter, name, operation):
    A, B = pair(name)
    session, program = Session(), PROGRAMS[operation]
    body = Tensor("Dense(SparseList{Int32}(Element(0.0)))", *A.shape[::-1])
    session["A"], session["B"], session["C"] = A, B, SwizzledTensor(body, (2, 1))
    session.run(program)
    ours = session["C"].to_scipy().tocsr()

    def scipy_operation():
        return A + B if operation == "add" else A.multiply(B)

    expected = sp.csr_array(scipy_operation())
    same(ours, expected)
    others = {
        "SciPy": scipy_operation,
        "GraphBLAS": graphblas_operation(A, B, operation, expected),
        "PyData/Sparse": pydata_operation(A, B, operation, expected),
        "expert C": expert_operation(A, B, operation, expected),
    }
    meter.race(operation, name, calls(session, program), others)


def expert_operation(A, B, operation, expected):
    room = A.nnz + B.nnz  # SciPy drops sums that are zero, the function does not
    ptr, idx = np.zeros(A.shape[0] + 1, np.int32), np.zeros(room, np.int32)
    val = np.zeros(room)
    matrices = A.indptr, A.indices, A.data, B.indptr, B.indices, B.data
    call = expert("spgemm", operation, A.shape[0], *matrices, ptr, idx, val)
    if call is not None:
        count = call()
        same(sp.csr_array((val[:count], idx[:count], ptr), A.shape), expected)
    return call


def graphblas_operation(A, B, operation, expected):
    if peers.graphblas is None:
        return None
    gb = peers.graphblas
    left, right = (gb.io.from_scipy_sparse(M) for M in (A, B))

    def run():
        if operation == "add":
            C = left.ewise_add(right, gb.binary.plus).new()
        else:
            C = left.ewise_mult(right, gb.binary.times).new()
        C.wait()
        return C

    assert abs(gb.io.to_scipy_sparse(run()) - expected).max() < 1e-12
    return run


def pydata_operation(A, B, operation, expected):
    if peers.pydata_sparse is None:
        return None
    left, right = (peers.pydata_sparse.GCXS.from_scipy_sparse(M) for M in (A, B))

    def run():
        return left + right if operation == "add" else left * right

    assert abs(run().to_scipy_sparse() - expected).max() < 1e-12
    return run
