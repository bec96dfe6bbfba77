"""Sparse matrix times vector over plain CSC and CSR."""

from __future__ import annotations

import numpy as np
import peers
import pytest
from data import REAL, available, matrix
from experts import expert

from finchlang import Session

PROGRAMS = {
    "CSC": "@finch begin\ny .= 0\nfor j = _, i = _\n y[i] += A[i, j] * x[j]\nend\nend",
    "CSR": "@finch begin\ny .= 0\nfor i = _, j = _\n y[i] += A[i, j] * x[j]\nend\nend",
}
GENERATED = [
    *("Erdos-Renyi 10, seed 1", "Erdos-Renyi 10, seed 2"),
    *("Erdos-Renyi 100, seed 1", "Erdos-Renyi 100, seed 2"),
    *("RMAT 16, seed 1", "RMAT 16, seed 2", "band 5, seed 1", "band 30, seed 1"),
    *("band 100, seed 1", "band 100, seed 2", "Poisson 2-d", "Poisson 3-d"),
    *("blocks of 6, seed 1", "triangle, seed 1", "reverse permutation"),
]


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


def mkl_product(A, x):
    """A x by MKL, in the layout A has, ready to go."""
    if peers.mkl is None:
        return None
    out = np.zeros(A.shape[0])

    def product():
        return peers.mkl.dot_product_mkl(A, x, out=out, out_scalar=0.0)

    assert np.allclose(product(), A @ x)
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
def test_spmv(meter, name, layout):
    A = matrix(name).asformat(layout.lower())
    x, y = np.random.default_rng(0).random(A.shape[1]), np.zeros(A.shape[0])
    session = Session()
    session["A"], session["x"], session["y"] = A, x, y
    program = PROGRAMS[layout]
    session.run(program)
    assert np.allclose(y, A @ x)
    others = {
        "SciPy": lambda: A @ x,
        "MKL": mkl_product(A, x),
        "GraphBLAS": graphblas_product(A, x) if layout == "CSR" else None,
        "expert C": expert_product(A, x),
    }
    meter.race("SpMV", f"{layout}, {name}", lambda: session.run(program), others)
