"""Results written in another order than they are stored in: through workspaces that the compiler inserts,
by hand, and by SciPy, NumPy and PyData/Sparse (Workspaces'24 section 7)."""

from __future__ import annotations

from itertools import product
from time import process_time

import numpy as np
import peers
import pytest
import scipy.sparse as sp
from calls import calls
from data import erdos_renyi
from test_spgemm import GUSTAVSON, same

from finchlang import Session, Tensor
from finchlang.native import jit

CSC = "Dense(SparseList{Int32}(Element(0.0)))"
DCSC = "SparseList{Int32}(SparseList{Int32}(Element(0.0)))"
CSF = "Dense(SparseList{Int32}(SparseList{Int32}(Element(0.0))))"


def kernel(update, *loops):
    """A kernel that makes C by one update, in these loops."""
    return f"@finch begin\nC .= 0\nfor {', '.join(f'{i} = _' for i in loops)}\n{update}\nend\nend"


OUTER = kernel("C[i, j] += A[i, k] * B[k, j]", "k", "j", "i")
ROWS = kernel("C[i, j] += A[i, k] * B[k, j]", "j", "k", "i")
COPY = kernel("C[i, j] = A[i, j]", "j", "i")
TRANSPOSE = kernel("C[j, i] = A[i, j]", "j", "i")
HISTOGRAM = kernel("C[x[p]] += 1", "p")
MTTKRP = kernel("C[i, j] += X[i, l, k] * F[j, l] * G[j, k]", "k", "l", "i", "j")
TTM_MIDDLE = kernel("C[i, l, k] += X[i, j, k] * F[l, j]", "k", "j", "i", "l")


def by_columns_and_rows(A, B):
    """A as it is, by columns, and B by rows, as a tensor whose modes are named the other way round."""
    return A.tocsc(), B.tocsr()


def sorted_product(A, B):
    def call():
        C = A @ B
        C.sort_indices()
        return C

    return call


# ---------------------------------------------------------------------------------------- matrices


@pytest.mark.parametrize("name", ["10,000 x 8, seed 1", "200,000 x 2, seed 1"])
def test_outer_product(meter, name):
    n, degree = (int(word) for word in name.replace(",", "").split(" seed")[0].split(" x "))
    A, B = by_columns_and_rows(*(erdos_renyi(n, degree, seed) for seed in (1, 2)))
    session = Session()
    session["A"], session["B"], session["C"] = A, B, Tensor(CSC, n, n)
    session.run(OUTER)
    by_columns = A, B.tocsc()
    theirs = sorted_product(*by_columns)
    same(session["C"].to_scipy(), theirs())
    meter.race("outer product", name, calls(session, OUTER), {"SciPy and sort": theirs})


def test_outer_product_doubly_compressed(meter):
    n = 1_000_000
    A, B = by_columns_and_rows(*(erdos_renyi(n, 1, seed) for seed in (1, 2)))
    session = Session()
    made = ((M.tocoo(), order) for M, order in ((A, 1), (B, -1)))
    for name, (M, order) in zip("AB", made, strict=True):
        places = (M.row, M.col)[::order]
        session[name] = Tensor.from_coo(DCSC, M.shape, places, M.data)
    session["C"] = Tensor(DCSC, n, n)
    program = OUTER.replace("B[k, j]", "B[j, k]")
    session.run(program)
    theirs = sorted_product(A, B.tocsc())
    same(session["C"].to_scipy(), theirs())
    name = "1,000,000 x 1, doubly compressed"
    meter.race("outer product", name, calls(session, program), {"SciPy and sort": theirs})


@pytest.mark.parametrize("name", ["Erdos-Renyi 4, seed 1", "Erdos-Renyi 12, seed 1"])
def test_gustavson(meter, name):
    """The inserted workspace beside the one written by hand."""
    A, B = (erdos_renyi(20_000, int(name.split(",")[0][12:]), seed).tocsc() for seed in (1, 11))
    automatic, by_hand = Session(), Session()
    for session in (automatic, by_hand):
        session["A"], session["B"], session["C"] = A, B, Tensor(CSC, *A.shape)
    by_hand["w"] = Tensor("SparseByteMap{Int32}(Element(0.0))", A.shape[0])
    automatic.run(ROWS), by_hand.run(GUSTAVSON)
    theirs = sorted_product(A, B)
    same(automatic["C"].to_scipy(), theirs())
    others = {"by hand": lambda: by_hand.run(GUSTAVSON), "SciPy and sort": theirs}
    meter.race("Gustavson, inserted", name, {"same": lambda: automatic.run(ROWS)}, others)


def colliding(size, inner, entries, seed):
    """size x inner, a tenth of whose columns have `entries` entries each (the paper's Figs 15, 16)."""
    rng = np.random.default_rng(seed)
    columns = np.repeat(rng.choice(inner, inner // 10, replace=False), entries)
    rows = np.concatenate([rng.choice(size, entries, replace=False) for _ in range(inner // 10)])
    A = sp.csc_array((rng.random(len(rows)), (rows, columns)), (size, inner))
    A.indices, A.indptr = A.indices.astype(np.int32), A.indptr.astype(np.int32)
    return A


@pytest.mark.parametrize("loops", ["by columns", "outer"])
@pytest.mark.parametrize("inner", [250, 1_000, 4_000])
def test_collisions(meter, loops, inner):
    """More columns make more terms of the same sums; by hand with a dense and with a sparse workspace."""
    size, program = 1_000, OUTER if loops == "outer" else ROWS
    A, B = (colliding(size, inner, 100, seed) for seed in (1, 2))
    B = B.T.tocsr() if loops == "outer" else B.T.tocsc()
    automatic, dense, sparse = Session(), Session(), Session()
    order = "k, j, i" if loops == "outer" else "j, k, i"
    nest = ", ".join(f"{i} = _" for i in order.split(", "))
    by_hand = (
        f"@finch begin\nw .= 0\nfor {nest}\nw[i, j] += A[i, k] * B[k, j]\nend\nC .= 0\n"
        "for j = _, i = _\nC[i, j] = w[i, j]\nend\nend"
    )
    for session in (automatic, dense, sparse):
        session["A"], session["B"], session["C"] = A, B, Tensor(CSC, size, size)
    dense["w"] = Tensor("Dense(Dense(Element(0.0)))", size, size)
    sparse["w"] = Tensor("SparseHash{2}(Element(0.0))", size, size)
    automatic.run(program), dense.run(by_hand), sparse.run(by_hand)
    expected = sorted_product(A, B.tocsc())()
    for session in (automatic, dense, sparse):
        difference = abs(session["C"].to_scipy() - expected)
        assert difference.max() <= 1e-12 * abs(expected).max()
    hands = {"dense by hand": dense, "sparse by hand": sparse}
    others = {name: (lambda s=session: s.run(by_hand)) for name, session in hands.items()}
    ours = {"same": lambda: automatic.run(program)}
    best = ("the better by hand", tuple(hands))
    meter.race(f"collisions, {loops}", f"{inner} columns", ours, others, best)


@pytest.mark.parametrize("rows", [10_000, 1_000_000])
def test_transpose(meter, rows):
    A = sp.random_array((rows, 10_000), density=1e6 / rows / 10_000, rng=1, format="csc")
    A.indices, A.indptr = A.indices.astype(np.int32), A.indptr.astype(np.int32)
    A.sort_indices()
    session = Session()
    session["A"], session["C"] = A, Tensor(CSC, *A.shape[::-1])
    session.run(TRANSPOSE)
    same(session["C"].to_scipy(), A.T.tocsc())
    others = {"SciPy": A.tocsr}
    meter.race("transpose", f"1,000,000 entries, {rows:,} rows", calls(session, TRANSPOSE), others)


#: what SciPy calls a format, and what it is here: by columns or by rows
FORMATS = {
    "csc": (CSC, False),
    "csr": (CSC, True),
    "coo": ("SparseCOO{2, Int32}(Element(0.0))", False),
}


@pytest.mark.parametrize("source,target", [p for p in product(FORMATS, FORMATS) if p[0] != p[1]])
def test_conversions(meter, source, target):
    A = sp.random_array((10_000, 10_000), density=1e-2, rng=1, format=source)
    if source == "coo":
        A = A.tocsc().tocoo()  # in order, as ours are
    form, is_by_rows = FORMATS[target]
    is_by_rows |= (source, target) == ("csr", "coo")  # in the order that SciPy leaves entries in
    session = Session()
    session["A"] = A
    session["C"] = Tensor(form, *A.shape)
    program = TRANSPOSE if is_by_rows else COPY
    if source == "csr":
        program = program.replace("j = _, i = _", "i = _, j = _")
    session.run(program)
    expected = A.T if is_by_rows else A
    assert abs(sp.csc_array(session["C"].to_scipy()) - expected.tocsc()).max() == 0
    others = {"SciPy": lambda: A.asformat(target)}
    meter.race(
        "conversion", f"{source} to {target}, 1,000,000 entries", calls(session, program), others
    )


def test_histogram(meter):
    """Of 10,000,000 places, into a list."""
    n, count = 10_000_000, 1_000_000
    x = np.random.default_rng(1).integers(1, n + 1, count)
    session = Session()
    session["x"], session["C"] = x, Tensor("SparseList(Element(0))", n)
    session.run("@finch begin\nC .= 0\nfor p = _\nC[~(x[p])] += 1\nend\nend")
    places, counts = np.unique(x, return_counts=True)
    found = session["C"].entries()
    assert np.array_equal(found[0][0] + 1, places) and np.array_equal(found[1], counts)
    program = "@finch begin\nC .= 0\nfor p = _\nC[~(x[p])] += 1\nend\nend"
    others = {"np.unique": lambda: np.unique(x, return_counts=True)}
    name = "10,000,000 places, 1,000,000 counted"
    meter.race("histogram into a list", name, calls(session, program), others)


# ----------------------------------------------------------------------------------------- tensors


def nips_like(count, seed):
    """2,482 x 2,862 x 14,036, as `nips` of FROSTT without its last mode: places at random."""
    shape, rng = (2_482, 2_862, 14_036), np.random.default_rng(seed)
    places = np.unique(rng.integers(0, np.prod(shape), count))
    coordinates, values = np.unravel_index(places, shape), rng.random(len(places))
    return coordinates, values, Tensor.from_coo(CSF, shape, coordinates, values)


@pytest.mark.parametrize("rank", [4, 32, 256, 2_048])
def test_mttkrp(meter, rank):
    """Into CSC, beside each policy forced, and into a dense result."""
    (i, j, k), values, X = nips_like(20_000, 1)
    rng = np.random.default_rng(1)
    F, G = (sp.random_array((rank, n), density=1e-2, rng=rng, format="csc") for n in X.shape[1:])
    session = Session()
    session["X"], session["F"], session["G"] = X, F, G
    session["C"] = Tensor(CSC, X.shape[0], rank)
    session.run(MTTKRP)
    terms = F[:, j].multiply(G[:, k]).multiply(values).T.tocsr()
    spread = sp.csr_array((np.ones(len(i)), (i, np.arange(len(i)))), (X.shape[0], len(i)))
    expected = (spread @ terms).tocsc()
    assert abs(session["C"].to_scipy() - expected).max() <= 1e-9 * abs(expected).max()
    others = {}
    for policy in ("bucket", "hash", "coord"):
        forced = f"@workspace C policy={policy}\n{MTTKRP}"
        others[policy] = lambda forced=forced: session.run(forced)
        others[policy]()
        assert abs(session["C"].to_scipy() - expected).max() <= 1e-9 * abs(expected).max()
    ours = {"same": lambda: session.run(MTTKRP)}
    meter.race("SpMTTKRP", f"J = {rank:,}", ours, others, ("the best policy", tuple(others)))


def test_ttm_middle(meter):
    (i, j, k), values, X = nips_like(100_000, 2)
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
    meter.race("SpTTM, middle mode", "nips-like, L = 64", calls(session, TTM_MIDDLE), others)


# -------------------------------------------------------------------------------- memory, compiling


BY_HAND = """@finch begin
w .= 0
for k = _, j = _, i = _
w[i, j] += A[i, k] * B[j, k]
end
C .= 0
for j = _, i = _
C[i, j] = w[i, j]
end
end"""
#: by hand, and inserted; the format of the workspace by hand, and its modes
COMPILED = {
    "Gustavson": (GUSTAVSON, ROWS, "SparseByteMap{Int32}(Element(0.0))", 1),
    "outer product": (
        BY_HAND,
        OUTER.replace("B[k, j]", "B[j, k]"),
        "SparseHash{2}(Element(0.0))",
        2,
    ),
}


@pytest.mark.parametrize("name", COMPILED)
def test_compile(meter, name, monkeypatch):
    """The whole of compiling a product, with the workspace inserted and by hand: of a session's first
    kernel of the kind, and where another with the same workspace was compiled before."""
    monkeypatch.setenv("FINCH_CACHE_DIR", "")
    A = sp.random_array((20, 20), density=0.2, rng=1, format="csc")
    by_hand, inserted, format, modes = COMPILED[name]
    programs = {"by hand": by_hand, "inserted, first": inserted, "inserted": inserted}
    least = dict.fromkeys(programs, float("inf"))
    for _ in range(5):
        for kind, program in programs.items():
            if kind == "inserted, first":
                jit._parts.clear()
            session = Session(output=lambda _: None)
            session["A"], session["B"], session["C"] = A, A, Tensor(CSC, *A.shape)
            session["w"] = Tensor(format, *A.shape[:modes])
            start = process_time()
            session.run(program)
            least[kind] = min(least[kind], process_time() - start)
    for kind, seconds in least.items():
        meter.median(f"compile, {name}", kind, [seconds])
