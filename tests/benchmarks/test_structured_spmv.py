"""Sparse matrix times vector over formats that know the matrix's structure."""

from __future__ import annotations

import mkl_sparse
import numpy as np
import pytest
import scipy.sparse as sp
from calls import calls
from data import available, matrix, symmetric
from experts import expert
from test_spmv import PROGRAMS, expert_product

from finchlang import Scalar, Session, SwizzledTensor, Tensor

BAND = available("band 5, seed 1", "band 30, seed 1", "band 100, seed 1", "band 100, seed 2")
BLOCKS = available(
    *("hexahedra, seed 1", "hexahedra, seed 2", "blocks of 6, seed 1", "blocks of 6, seed 2")
)
TRIANGLE = available("triangle, seed 1", "triangle, seed 2")
SYMMETRIC = available(
    *("Erdos-Renyi 10, seed 1", "Erdos-Renyi 10, seed 2", "Poisson 2-d", "Poisson 3-d"),
    *("blocks of 6, seed 1", "bcsstk13", "jagmesh7"),
)
CASES = [
    *[("band", "Dense(SparseBand{Int32}(Element(0.0)))", name) for name in BAND],
    *[("triangle", "UpperTriangular(Element(0.0))", name) for name in TRIANGLE],
    *[("blocks", "Dense(SparseBlockList{Int32}(Element(0.0)))", name) for name in BLOCKS],
    ("permutation", "Dense(SparsePinpoint{Int32}(Element(0.0)))", "reverse permutation"),
]
VECTOR = "Dense(Element(0.0))"


PARTS = {
    "band": ("ofs", "idx"),
    "triangle": (),
    "blocks": ("ptr", "idx", "ofs"),
    "permutation": ("idx",),
}


def stored(A, format):
    coordinates = A.tocoo()
    return Tensor.from_coo(format, A.shape, (coordinates.row, coordinates.col), coordinates.data)


def expert_call(structure, layout, A, tensor, x):
    """A x by an expert's C for the very structure, on the arrays of the tensor, ready to go."""
    y, inner = np.full(A.shape[0], np.nan), tensor.storage[-2]
    sizes = A.shape if layout == "columns" and structure != "triangle" else A.shape[:1]
    arrays = [inner[part] for part in PARTS[structure]]
    function = f"{structure}_{layout}"
    call = expert("spmv", function, *sizes, *arrays, tensor.storage[-1]["val"], x, y)
    if call is not None:
        call()
        assert np.allclose(y, A @ x)
    return call


def race(meter, structure, name, ours, A, x, structured):
    """Against the best of those that know nothing of the structure, and one that does."""
    plain = {
        "SciPy CSR": lambda: A @ x,
        "MKL CSR": mkl_sparse.product(A, x),
        "expert C, CSR": expert_product(A, x),
    }
    others = {**plain, "expert C": structured}
    meter.race(f"SpMV {structure}", name, ours, others, best=("best plain CSR", tuple(plain)))


@pytest.mark.parametrize("layout", ["rows", "columns"])
@pytest.mark.parametrize("structure, format, name", CASES)
def test_structured_spmv(meter, structure, format, name, layout):
    A = matrix(name)
    if layout == "rows":
        A = A.T.tocsr()  # so that its transpose, which is stored, has the structure
        tensor = stored(A.T, format)
        operand, program = SwizzledTensor(tensor, (2, 1)), PROGRAMS["CSR"]
    else:
        operand = tensor = stored(A, format)
        program = PROGRAMS["CSC"]
    x = np.random.default_rng(0).random(A.shape[1])
    session = Session()
    session["A"], session["x"], session["y"] = operand, x, Tensor(VECTOR, A.shape[0])
    session.run(program)
    assert np.allclose(session["y"].to_numpy(), A @ x)
    call = expert_call(structure, layout, A, tensor, x)
    workload = structure if layout == "rows" else f"{structure}, by columns"
    race(meter, workload, name, calls(session, program), A, x, call)


SYMMETRIC_PROGRAM = """
@finch begin
    y .= 0
    for j = _
        let x_j = x[j]
            y_j .= 0
            for i = _
                let A_ij = U[i, j]
                    y[i] += x_j * A_ij
                    y_j[] += A_ij * x[i]
                end
            end
            y[j] += y_j[] + D[j] * x_j
        end
    end
end
"""


@pytest.mark.parametrize("name", SYMMETRIC)
def test_symmetric_spmv(meter, name):
    """One triangle stored, each entry used twice (examples/spmv_symmetric.finch)."""
    A = symmetric(matrix(name))
    x = np.random.default_rng(0).random(A.shape[1])
    U, D = sp.csc_array(sp.triu(A, 1)), A.diagonal()
    U.sort_indices()
    session = Session()
    session["U"], session["D"], session["x"] = U, D, x
    session["y"], session["y_j"] = Tensor(VECTOR, A.shape[0]), Scalar(0.0)
    session.run(SYMMETRIC_PROGRAM)
    assert np.allclose(session["y"].to_numpy(), A @ x)
    z = np.full(A.shape[0], np.nan)
    call = expert("spmv", "symmetric", len(z), U.indptr, U.indices, U.data, D, x, z)
    if call is not None:
        call()
        assert np.allclose(z, A @ x)
    race(meter, "symmetric", name, calls(session, SYMMETRIC_PROGRAM), A, x, call)
