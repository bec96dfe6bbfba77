"""Sparse matrix times vector over plain CSC and CSR."""

from __future__ import annotations

import mkl_sparse
import numpy as np
import peers
import pytest
from calls import calls
from data import REAL, available, matrix
from experts import expert

from finchlang import Session, Tensor

PROGRAMS = {
    "CSC": "@finch begin\ny .= 0\nfor j = _, i = _\n y[i] += A[i, j] * x[j]\nend\nend",
    "CSR": "@finch begin\ny .= 0\nfor i = _, j = _\n y[i] += A[i, j] * x[j]\nend\nend",
}
GENERATED = [
    *("10,000 of density 1e-3, seed 1", "10,000 of density 1e-3, seed 2"),
    *("Erdos-Renyi 10, seed 1", "Erdos-Renyi 10, seed 2"),
    *("Erdos-Renyi 100, seed 1", "Erdos-Renyi 100, seed 2"),
    *("RMAT 16, seed 1", "RMAT 16, seed 2", "band 5, seed 1", "band 30, seed 1"),
    *("band 100, seed 1", "band 100, seed 2", "Poisson 2-d", "Poisson 3-d"),
    *("blocks of 6, seed 1", "triangle, seed 1", "reverse permutation"),
    *("hypersparse, seed 1", "hypersparse, seed 2"),
]
#: those that finch-tensor takes part in: a second for each product
PLANNED = ("Erdos-Renyi 10, seed 1", "RMAT 16, seed 1", "Poisson 2-d")


def graphblas_product(A, x):
    """A x by GraphBLAS, ready to go."""
    if peers.graphblas is None:
        return None
    gb = peers.graphblas
    matrix = gb.io.from_scipy_sparse(A.tocsr())
    vector, out = gb.Vector.from_dense(x), gb.Vector(float, A.shape[0])

    def product():
        out << matrix.mxv(vector, gb.semiring.plus_times)
        return out

    assert np.allclose(product().to_dense(0.0), A @ x)
    return product


def finch_tensor_product(A, x):
    """A x by finch-tensor, which plans each product anew. It wants indices as wide as positions."""
    if peers.finch_tensor is None:
        return None
    wide = A.copy()
    wide.indices, wide.indptr = A.indices.astype(np.int64), A.indptr.astype(np.int64)
    matrix, vector = peers.finch_tensor.asarray(wide), peers.finch_tensor.asarray(x)

    def product():
        return peers.finch_tensor.matmul(matrix, vector)

    assert np.allclose(np.asarray(peers.finch_tensor.to_numpy(product())), A @ x)
    return product


def expert_product(A, x):
    """A x by an expert's C, in the layout A has, ready to go."""
    y = np.full(A.shape[0], np.nan)
    sizes = A.shape if A.format == "csc" else A.shape[:1]
    call = expert("spmv", A.format, *sizes, A.indptr, A.indices, A.data, x, y)
    if call is not None:
        call()
        assert np.allclose(y, A @ x)
    return call


@pytest.mark.parametrize("layout", PROGRAMS)
@pytest.mark.parametrize("name", available(*GENERATED, *REAL))
def test_spmv(meter, name, layout, quick):
    A = matrix(name).asformat(layout.lower())
    x = np.random.default_rng(0).random(A.shape[1])
    session = Session()
    session["A"], session["x"], session["y"] = A, x, Tensor("Dense(Element(0.0))", A.shape[0])
    program = PROGRAMS[layout]
    session.run(program)
    assert np.allclose(session["y"].to_numpy(), A @ x)
    is_planned = not quick and layout == "CSR" and name in PLANNED
    others = {
        "SciPy": lambda: A @ x,
        "MKL": mkl_sparse.product(A, x),
        "GraphBLAS": graphblas_product(A, x) if layout == "CSR" else None,
        "finch-tensor": finch_tensor_product(A, x) if is_planned else None,
        "expert C": expert_product(A, x),
    }
    meter.race("SpMV", f"{layout}, {name}", calls(session, program), others)
