"""Array programs of SparseArray'21 (sections 8.2.4 to 8.4): sums of slices, products masked by a
complement over semirings, edges of images, minimax."""

from __future__ import annotations

import numpy as np
import peers
import pytest
import scipy.sparse as sp
from calls import calls
from data import erdos_renyi, matrix, scan
from test_images import run_tensor

from finchlang import Scalar, Session, SwizzledTensor, Tensor

gb, sparse = peers.graphblas, peers.pydata_sparse


def kernel(body):
    return f"@finch begin\n{body}\nend"


CSC = "Dense(SparseList{Int32}(Element(0.0)))"


def by_rows(leaf, *shape):
    return SwizzledTensor(Tensor(f"Dense(SparseList{{Int32}}({leaf}))", *shape[::-1]), (2, 1))


# ------------------------------------------------------------------------------------------- slices

SLICES = {
    "500 x 500": lambda n: (n // 4, 1, n // 4 + 499),
    "a quarter": lambda n: (n // 4, 1, n // 2 - 1),
    "all but the ends": lambda n: (2, 1, n - 1),
    "stride 2": lambda n: (1, 2, n),
    "stride 4": lambda n: (1, 4, n),
    "stride 8": lambda n: (1, 8, n),
}


@pytest.mark.parametrize("part", SLICES)
@pytest.mark.parametrize("name", ["10 in a row", "100 in a row", "300 in a row"])
def test_slices(meter, name, part):
    degree = int(name.split()[0])
    size = 1_000_000 // degree
    A, B = (erdos_renyi(size, degree, seed) for seed in (1, 2))
    first, step, last = SLICES[part](size)
    range = f"{first}:{step}:{last}" if step > 1 else f"{first}:{last}"
    taken = slice(first - 1, last, step)
    count, session = len(np.arange(size)[taken]), Session()
    for letter, M in zip("AB", (A, B), strict=True):
        body = Tensor.from_coo(CSC, M.shape, M.tocoo().coords[::-1], M.data)
        session[letter] = SwizzledTensor(body, (2, 1))
    session["C"] = by_rows("Element(0.0)", count, count)
    value = f"A[({range})(i), ({range})(j)] + B[({range})(i), ({range})(j)]"
    text = kernel(f"C .= 0\nfor i = _, j = _\nC[i, j] = {value}\nend")
    session.run(text)

    def theirs():
        return A[taken, taken] + B[taken, taken]

    assert abs(session["C"].to_scipy() - theirs()).max() == 0
    workload = "strides, then add" if step > 1 else "windows, then add"
    data = f"{part} of {size:,}, {name}"
    meter.race(workload, data, calls(session, text), {"SciPy": theirs})


# ------------------------------------------------------------------------------- masked products

GRAPHS = ["RMAT 13, seed 1", "RMAT 16, seed 1", "Erdos-Renyi 10, seed 1"]
#: the sum of a row over a semiring, where the result is asked for
ROWS = """y .= {0}
for i = _
    if !m[i]
        t .= {0}
        for j = _
            t[] <<{1}>>= A[i, j] {2} x[j]
        end
        y[i] = t[]
    end
end"""
MIN_PLUS, OR_AND = ROWS.format("Inf", "min", "+"), ROWS.format("false", "||", "&&")


def weighted(A):
    """A matrix by rows whose absent entries are infinite, and its pattern."""
    places = A.tocoo().coords[::-1]
    form = "Dense(SparseList{Int32}(Element(Inf)))"
    lengths = Tensor.from_coo(form, A.shape[::-1], places, A.data)
    form = "Dense(SparseList{Int32}(Pattern()))"
    pattern = Tensor.from_coo(form, A.shape[::-1], places, np.ones(A.nnz, bool))
    return SwizzledTensor(lengths, (2, 1)), SwizzledTensor(pattern, (2, 1))


def graphblas(A, type=float):
    if gb is None:
        return None
    values = A.data if type is float else np.ones(A.nnz, bool)
    return gb.io.from_scipy_sparse(sp.csr_array((values, A.indices, A.indptr), A.shape))


@pytest.mark.parametrize("semiring", ["min_plus", "lor_land", "any_pair"])
@pytest.mark.parametrize("name", GRAPHS)
def test_masked_mxv(meter, name, semiring):
    """A quarter of the vector is there, and a quarter of the results is asked for."""
    A, rng = matrix(name), np.random.default_rng(1)
    n = A.shape[0]
    lengths, pattern = weighted(A)
    m, there = rng.random(n) < 0.75, np.flatnonzero(rng.random(n) < 0.25)
    is_path = semiring == "min_plus"
    fill, type = (np.inf, float) if is_path else (False, bool)
    values = rng.random(len(there)).astype(type) if is_path else np.ones(len(there), bool)
    x = np.full(n, fill)
    x[there] = values
    session = Session()
    session["A"], session["x"], session["m"] = lengths if is_path else pattern, x, m
    session["t"] = Scalar(fill)
    leaf = {"min_plus": "Element(Inf)", "lor_land": "Element(false)"}.get(semiring, "Pattern()")
    session["y"] = Tensor(f"SparseList{{Int32}}({leaf})", n)
    text = kernel(MIN_PLUS if is_path else OR_AND)
    if semiring == "any_pair":
        session.run("t = ShortCircuitScalar{false}()")
    session.run(text)
    others = {}
    if gb is not None:
        left, operator = graphblas(A, type), getattr(gb.semiring, semiring)
        vector, mask = gb.Vector.from_coo(there, values, size=n), gb.Vector.from_dense(m)

        def theirs():
            y = gb.Vector(type, n)
            y(~mask.V) << left.mxv(vector, operator)
            y.wait()
            return y

        assert np.allclose(session["y"].to_numpy(), theirs().to_dense(fill))
        others["GraphBLAS"] = theirs
    short = {"min_plus": "min-plus", "lor_land": "or-and", "any_pair": "any"}[semiring]
    meter.race(f"masked mxv, {short}", name, calls(session, text), others)


#: A times A where A has no entry
PRODUCT = """C .= {0}
for i = _
    w .= {0}
    for k = _, j = _
        w[j] <<{1}>>= A[i, k] {2} A[k, j]
    end
    for j = _
        if !M[i, j]
            C[i, j] = w[j]
        end
    end
end"""
SEMIRINGS = {
    "min_plus": (PRODUCT.format("Inf", "min", "+"), "Element(Inf)", float),
    "lor_land": (PRODUCT.format("false", "||", "&&"), "Pattern()", bool),
}


@pytest.mark.parametrize("semiring", SEMIRINGS)
@pytest.mark.parametrize("name", ["RMAT 13, seed 1", "Erdos-Renyi 10, seed 1"])
def test_masked_mxm(meter, name, semiring):
    body, leaf, type = SEMIRINGS[semiring]
    A = matrix(name) if name.startswith("R") else erdos_renyi(20_000, 10, 1)
    n = A.shape[0]
    lengths, pattern = weighted(A)
    session = Session()
    session["A"], session["M"] = lengths if type is float else pattern, pattern
    session["C"] = by_rows(leaf, n, n)
    session["w"] = Tensor(f"SparseByteMap{{Int32}}({leaf})", n)
    session.run(kernel(body))
    others = {}
    if gb is not None:
        left, operator = graphblas(A, type), getattr(gb.semiring, semiring)

        def theirs():
            C = gb.Matrix(type, n, n)
            C(~left.S) << left.mxm(left, operator)
            C.wait()
            return C

        assert session["C"].body.entries()[1].sum() == pytest.approx(theirs().to_coo()[2].sum())
        others["GraphBLAS"] = theirs
    data = f"{semiring}, {name}"
    meter.race("masked mxm", data, calls(session, kernel(body)), others)


# --------------------------------------------------------------------------------------- images


@pytest.mark.parametrize("name", ["1%", "5%", "25%"])
@pytest.mark.parametrize("size", [256, 1024, 4096])
def test_edges(meter, size, name):
    """(P && R) xor (Q && R) of two thresholds of a scan and a region of interest, as runs
    (SparseArray'21 section 8.4.1)."""
    share = int(name[:-1]) / 100
    image, region = scan(size), np.zeros((size, size), bool)
    region[size // 8 : -size // 8, size // 8 : -size // 8] = True
    high, low = (image > np.quantile(image, 1 - share * part) for part in (0.8, 1))
    session = Session()
    session["P"], session["Q"], session["R"] = (run_tensor(on) for on in (high, low, region))
    session["C"] = Tensor("Dense(SparseRunList{Int32}(Pattern()))", size, size)
    value = "xor(P[x, y] && R[x, y], Q[x, y] && R[x, y])"
    text = kernel(f"C .= false\nfor y = _, x = _\nC[x, y] = {value}\nend")
    session.run(text)

    def numpy_edges():
        return (high & region) ^ (low & region)

    assert np.array_equal(session["C"].to_numpy().T, numpy_edges())
    others = {"NumPy": numpy_edges}
    if sparse is not None:
        P, Q, R = (sparse.COO(on) for on in (high, low, region))
        others["PyData/Sparse"] = lambda: (P & R) ^ (Q & R)
    meter.race("MRI edges", f"{size} wide, {name} set", calls(session, text), others)


# --------------------------------------------------------------------------------------- minimax


def minimax(order):
    """The kernel of max_i min_j max_k ..., with a scalar for each mode but the first."""
    names, lines = "ijklmnp"[:order], ["t0 .= -Inf"]
    for depth, name in enumerate(names):
        lines.append(f"for {name} = _")
        if depth < order - 1:
            lines.append(f"t{depth + 1} .= {'Inf' if depth % 2 == 0 else '-Inf'}")
    value = f"A[{', '.join(names[::-1])}]"
    for depth in reversed(range(order)):
        lines += [f"t{depth}[] <<{'min' if depth % 2 else 'max'}>>= {value}", "end"]
        value = f"t{depth}[]"
    return kernel("\n".join(lines))


@pytest.mark.parametrize("order", [3, 5, 7])
def test_minimax(meter, order):
    """20 x 20 x 43 x 43 ... moves of chess, a million known, or a quarter of them
    (SparseArray'21 section 8.4.2)."""
    shape, rng = (20, 20) + (43,) * (order - 2), np.random.default_rng(1)
    size = int(np.prod(shape))
    places = np.unique(rng.integers(0, size, min(1_000_000, size // 4)))
    where, values = np.array(np.unravel_index(places, shape)), rng.random(len(places)) + 0.5
    form = "SparseList{Int32}(" * order + "Element(0.0)" + ")" * order
    session, text = Session(), minimax(order)
    session["A"] = Tensor.from_coo(form, shape[::-1], tuple(where[::-1]), values)
    for depth in range(order):
        session[f"t{depth}"] = Scalar(0.0)
    session.run(text)
    others = {}
    if sparse is not None:
        A = sparse.COO(where, values, shape)

        def theirs():
            found = A
            for depth in reversed(range(order)):
                found = found.min(axis=depth) if depth % 2 else found.max(axis=depth)
            return found

        assert session["t0"].value == theirs().todense()
        others["PyData/Sparse"] = theirs
    data = f"{len(places):,} of {' x '.join(map(str, shape))}"
    meter.race(f"minimax, order {order}", data, calls(session, text), others)
