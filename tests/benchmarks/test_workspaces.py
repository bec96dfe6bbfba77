"""Results written in another order than they are stored in: through workspaces that the compiler inserts,
by hand, and by SciPy, NumPy and PyData/Sparse (Workspaces'24 section 7)."""

from __future__ import annotations

from itertools import product
from time import process_time

import numpy as np
import pytest
import scipy.sparse as sp
from calls import calls
from data import erdos_renyi
from experts import expert
from test_spgemm import GUSTAVSON, same

from finchlang import Session, Tensor
from finchlang.native import compiler

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
    workload = "outer product" if degree == 8 else HYPERSPARSE
    meter.race(workload, name, calls(session, OUTER), {"SciPy and sort": theirs})


#: with few entries for its size
HYPERSPARSE = "outer product, hypersparse"


def in_c(function, inner, rows, columns, *arrays, capacity):
    """A call of `function` of workspaces.c for each policy, and what a call of it makes."""
    made = np.zeros(columns + 1, np.int32), np.zeros(capacity, np.int32), np.zeros(capacity)
    names = ("coord", "vector", "hash", "bucket")
    given = inner, rows, columns, *arrays, *made
    found = {n: expert("workspaces", function, k, *given) for k, n in enumerate(names)}

    def result(call):
        count = call()
        parts = made[2][:count], made[1][:count], made[0]
        return sp.csc_array(tuple(part.copy() for part in parts), (rows, columns))

    return found, result


def csc_arrays(A):
    return A.indptr, A.indices, A.data


def close(found, expected):
    assert found.nnz == expected.nnz
    assert abs(found - expected).max() <= 1e-9 * abs(expected).max()


@pytest.mark.parametrize("name", ["10,000 x 8", "200,000 x 2", "1,000 columns", "4,000 columns"])
def test_map_and_vector(meter, name):
    """Fig 21: one map for all that is written, or one vector that is sorted at the end, in C: by its
    library's sort, and by digits as we do."""
    if "columns" in name:
        inner = int(name.split()[0].replace(",", ""))
        A, B = (colliding(1_000, inner, 100, seed) for seed in (1, 2))
        B = B.T.tocsr()
    else:
        n, degree = (int(word) for word in name.replace(",", "").split(" x "))
        A, B = by_columns_and_rows(*(erdos_renyi(n, degree, seed) for seed in (1, 2)))
    session = Session()
    session["A"], session["B"], session["C"] = A, B, Tensor(CSC, A.shape[0], B.shape[1])
    session.run(OUTER)
    expected = sorted_product(A, B.tocsc())()
    close(session["C"].to_scipy(), expected)
    sizes = A.shape[1], A.shape[0], B.shape[1]
    arrays = *csc_arrays(A), *csc_arrays(B)
    found, result = in_c("outer", *sizes, *arrays, capacity=expected.nnz)
    names = {"hash": "a map", "vector": "a vector", "coord": "a vector, sorted by digits"}
    others = {names[n]: call for n, call in found.items() if n in names and call is not None}
    for call in others.values():
        close(result(call), expected)
    best = ("the better of map and vector", ("a map", "a vector"))
    ours = {"same": lambda: session.run(OUTER)}
    meter.race("one map or vector", name, ours, others, best if others else None)


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
    meter.race(HYPERSPARSE, name, calls(session, program), {"SciPy and sort": theirs})


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


#: as they are written by hand: one for all, or one for each column, and what is stored of it
OUTER_BY_HAND = """@finch begin
w .= 0
for k = _, j = _, i = _
    w[i, j] += A[i, k] * B[k, j]
end
C .= 0
for j = _, i = _
    STORE
end
end"""
ROWS_BY_HAND = """@finch begin
C .= 0
for j = _
    w .= 0
    for k = _, i = _
        w[i] += A[i, k] * B[k, j]
    end
    for i = _
        STORE
    end
end
end"""
#: by hand, the workspace over the modes before the last, and whether all its places are stored
HANDS = {
    "dense by hand": ("Dense(Element(0.0))", False),
    "flags by hand": ("SparseByteMap(Element(0.0))", False),
    "sparse by hand": ("SparseHash(Element(0.0))", False),
    "dense by hand, which stores zeros": ("Dense(Element(0.0))", True),
}


@pytest.mark.parametrize("loops", ["by columns", "outer"])
@pytest.mark.parametrize(
    "size, inner",
    [(1_000, n) for n in (250, 1_000, 4_000)]
    + [pytest.param(4_000, n, marks=pytest.mark.long) for n in (1_000, 4_000, 16_000)],
)
def test_collisions(meter, loops, size, inner):
    """More columns make more terms of the same sums. By hand with a dense and with a sparse workspace;
    those that store the same as we are compared. Terms for each sum are as many as in the paper, where
    there are 10,000 rows, for which not all that is compared has room in 24 GB."""
    program, hand = (OUTER, OUTER_BY_HAND) if loops == "outer" else (ROWS, ROWS_BY_HAND)
    A, B = (colliding(size, inner, size // 10, seed) for seed in (1, 2))
    B = B.T.tocsr() if loops == "outer" else B.T.tocsc()
    session = Session()
    session["A"], session["B"], session["C"] = A, B, Tensor(CSC, size, size)
    session.run(program)
    expected = sorted_product(A, B.tocsc())()
    close(session["C"].to_scipy(), expected)
    others, place = {}, "w[i, j]" if loops == "outer" else "w[i]"
    for name, (form, is_all) in HANDS.items():
        other = Session()
        other["A"], other["B"], other["C"] = A, B, Tensor(CSC, size, size)
        if loops == "outer":
            both = "SparseHash{2}(Element(0.0))" if "Hash" in form else f"Dense({form})"
            other["w"] = Tensor(both, size, size)
        else:
            other["w"] = Tensor(form, size)
        store = f"C[i, j] = {place}"
        if name == "dense by hand":
            store = f"if {place} != 0\n{store}\nend"
        text = hand.replace("STORE", store)
        others[name] = lambda other=other, text=text: other.run(text)
        others[name]()
        stored = other["C"].to_scipy()
        assert is_all or stored.nnz == expected.nnz
        assert abs(stored - expected).max() <= 1e-9 * abs(expected).max()
    best = ("the better by hand", [name for name, (_, is_all) in HANDS.items() if not is_all])
    ours = {"same": lambda: session.run(program)}
    data = f"{size:,} rows, {inner:,} columns"
    meter.race(f"collisions, {loops}", data, ours, others, best)


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


@pytest.mark.parametrize("count", [1_000_000, 10_000_000])
def test_histogram(meter, count):
    """Of 10,000,000 places, into a list."""
    n, program = 10_000_000, "@finch begin\nC .= 0\nfor p = _\nC[~(x[p])] += 1\nend\nend"
    x = np.random.default_rng(1).integers(1, n + 1, count)
    session = Session()
    session["x"], session["C"] = x, Tensor("SparseList(Element(0))", n)
    session.run(program)
    places, counts = np.unique(x, return_counts=True)
    found = session["C"].entries()
    assert np.array_equal(found[0][0] + 1, places) and np.array_equal(found[1], counts)
    others = {"np.unique": lambda: np.unique(x, return_counts=True)}
    name = f"10,000,000 places, {count:,} counted"
    meter.race("histogram into a list", name, calls(session, program), others)


# -------------------------------------------------------------------------------------- compiling


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
                compiler.part_code.cache_clear()
            session = Session(output=lambda _: None)
            session["A"], session["B"], session["C"] = A, A, Tensor(CSC, *A.shape)
            session["w"] = Tensor(format, *A.shape[:modes])
            start = process_time()
            session.run(program)
            least[kind] = min(least[kind], process_time() - start)
    for kind, seconds in least.items():
        meter.median(f"compile, {name}", kind, [seconds])
