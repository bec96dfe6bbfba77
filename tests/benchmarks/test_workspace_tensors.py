"""Products of a sparse tensor with sparse matrices, written in another order than they are stored in, by
workspaces in C and by PyData/Sparse (Workspaces'24 section 7.4)."""

from __future__ import annotations

from functools import cache

import numpy as np
import peers
import pytest
import scipy.sparse as sp
from calls import calls
from experts import expert
from test_tensors import csf
from test_workspaces import CSC, CSF, DCSC, close, csc_arrays, in_c, kernel

from finchlang import Session, Tensor

MTTKRP = kernel("C[i, j] += X[i, l, k] * F[j, l] * G[j, k]", "k", "l", "i", "j")
TTM_MIDDLE = kernel("C[i, l, k] += X[i, j, k] * F[l, j]", "k", "j", "i", "l")


def nips_like():
    """14,036 words x 2,862 authors x 2,482 papers, like `nips` of FROSTT without its last mode: each paper
    has one to three authors, and for each some 625 words, of which the first are the most frequent."""
    shape, rng = (14_036, 2_862, 2_482), np.random.default_rng(1)
    parts = []
    for k in range(shape[2]):
        words = np.unique((shape[0] * rng.random(800) ** 2).astype(int))
        authors = rng.choice(shape[1], rng.integers(1, 4), replace=False)
        i, j = (axis.ravel() for axis in np.meshgrid(words, authors))
        parts.append((i, j, np.full(len(i), k)))
    coordinates = tuple(np.concatenate(part) for part in zip(*parts, strict=True))
    values = rng.random(len(coordinates[0]))
    return coordinates, values, Tensor.from_coo(CSF, shape, coordinates, values)


@cache
def mttkrp_data(rank):
    """X, F and G with a hundredth of their places, as in the paper's Table 3, and the product."""
    (i, j, k), values, X = nips_like()
    rng = np.random.default_rng(1)
    F, G = (sp.random_array((rank, n), density=1e-2, rng=rng, format="csc") for n in X.shape[1:])
    for M in (F, G):
        M.indices, M.indptr = M.indices.astype(np.int32), M.indptr.astype(np.int32)
    fibers, of = np.unique(j * X.shape[2] + k, return_inverse=True)
    terms = F[:, fibers // X.shape[2]].multiply(G[:, fibers % X.shape[2]])
    spread = sp.csr_array((values, (i, of)), (X.shape[0], len(fibers)))
    return X, F, G, (spread @ terms.T.tocsr()).tocsc()


def doubly_compressed(M):
    """For us, as in the paper: most columns are empty where there are few rows."""
    return Tensor.from_coo(DCSC, M.shape, M.tocoo().coords, M.tocoo().data)


@pytest.mark.parametrize("rank", [4, 32, 256, 2_048])
def test_mttkrp(meter, rank):
    """Into CSC, beside each policy in C."""
    X, F, G, expected = mttkrp_data(rank)
    session = Session()
    session["X"], session["F"], session["G"] = X, doubly_compressed(F), doubly_compressed(G)
    session["C"] = Tensor(CSC, X.shape[0], rank)
    session.run(MTTKRP)
    close(session["C"].to_scipy(), expected)
    sizes, arrays = (X.shape[2], X.shape[0], rank), (*csf(X), *csc_arrays(F), *csc_arrays(G))
    found, result = in_c("mttkrp", *sizes, *arrays, capacity=expected.nnz)
    others = {f"{n} in C": call for n, call in found.items() if call and n != "vector"}
    for call in others.values():
        close(result(call), expected)
    best = ("the best policy in C", tuple(others)) if others else None
    meter.race("SpMTTKRP", f"J = {rank:,}", {"same": lambda: session.run(MTTKRP)}, others, best)


@pytest.mark.parametrize("rank", [4, 32, 256, 2_048])
def test_mttkrp_dense(meter, rank):
    """Into a dense result, which needs no workspace."""
    X, F, G, expected = mttkrp_data(rank)
    session = Session()
    session["X"], session["F"], session["G"] = X, doubly_compressed(F), doubly_compressed(G)
    C = session["C"] = np.zeros((X.shape[0], rank), order="F")
    session.run(MTTKRP)
    assert np.allclose(C, expected.toarray())
    out, none = np.zeros_like(C), np.zeros(1, np.int32)
    arrays = *csf(X), *csc_arrays(F), *csc_arrays(G), none, none, out
    call = expert("workspaces", "mttkrp", 4, X.shape[2], X.shape[0], rank, *arrays)
    if call is not None:
        call()
        assert np.allclose(C, out)
    ours = {"same": lambda: session.run(MTTKRP)}
    meter.race("SpMTTKRP, dense", f"J = {rank:,}", ours, {"C": call})


def uniform(count, seed):
    """2,482 x 2,862 x 14,036, places at random."""
    shape, rng = (2_482, 2_862, 14_036), np.random.default_rng(seed)
    places = np.unique(rng.integers(0, np.prod(shape), count))
    coordinates, values = np.unravel_index(places, shape), rng.random(len(places))
    return coordinates, values, Tensor.from_coo(CSF, shape, coordinates, values)


def test_ttm_middle(meter):
    (i, j, k), values, X = uniform(100_000, 2)
    F = sp.random_array((64, X.shape[1]), density=1e-2, rng=1, format="csc")
    session = Session()
    session["X"], session["F"] = X, F
    session["C"] = Tensor(CSF, X.shape[0], 64, X.shape[2])
    session.run(TTM_MIDDLE)
    sums = np.bincount(
        k, weights=values * np.asarray(F.sum(axis=0)).ravel()[j], minlength=X.shape[2]
    )
    coordinates, found = session["C"].entries()
    assert np.allclose(np.bincount(coordinates[2], weights=found, minlength=X.shape[2]), sums)
    others = {}
    if peers.pydata_sparse is not None:
        sparse = peers.pydata_sparse
        theirs = sparse.COO(np.array((i, j, k)), values, X.shape), sparse.COO(F.tocoo())
        others["PyData/Sparse"] = lambda: sparse.tensordot(*theirs, axes=([1], [1]))
    meter.race(
        "SpTTM, middle mode", "2,482 x 2,862 x 14,036, L = 64", calls(session, TTM_MIDDLE), others
    )
