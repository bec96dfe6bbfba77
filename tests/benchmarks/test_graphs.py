"""Triangle counting, sparse matrix times sparse vector, breadth-first search, shortest paths."""

from __future__ import annotations

import inspect

import graph_peers
import numpy as np
import peers
import pytest
import scipy.sparse as sp
from calls import calls
from data import available, grid, matrix, symmetric
from experts import expert
from programs import lines_of, session_with
from scipy.sparse.csgraph import breadth_first_order, dijkstra

from finchlang import Scalar, Session, Tensor

REAL = ("cora", "citeseer", "jagmesh7", "pushpull", "karate")
POWER_LAW = available("RMAT 13, seed 1", "RMAT 16, seed 1", "RMAT 16, seed 2")
GRAPHS = available(*POWER_LAW, "Erdos-Renyi 10, seed 1", "Erdos-Renyi 10, seed 2", *REAL)
LONG = ["grid 300 x 300", "grid 20 x 2000"]


def graph(name):
    """A symmetric graph without loops, as CSR, with the sums of two random numbers as lengths."""
    if name in LONG:
        _, rows, _, columns = name.split()
        return grid(int(rows), int(columns), seed=1)
    return undirected(matrix(name))


def undirected(A):
    """Its edges in both directions, without loops."""
    A = symmetric(A)
    A = sp.csr_array(A - sp.diags_array(A.diagonal()))
    A.eliminate_zeros()
    A.data[:] = np.abs(A.data)
    A.sort_indices()
    return A


def pattern(A):
    """A Dense(SparseList(Pattern())) tensor over the very arrays of a CSC or symmetric matrix."""
    storage = [{}, {"ptr": A.indptr, "idx": A.indices, "stored": A.nnz}, {}]
    form = Tensor("Dense(SparseList{Int32}(Pattern()))").format
    return Tensor.from_storage(form, A.shape, storage, False)


def symmetric_tensor(A, fill):
    """A tensor over the very arrays of a symmetric matrix."""
    storage = [{}, {"ptr": A.indptr, "idx": A.indices, "stored": A.nnz}, {"val": A.data}]
    form = Tensor(f"Dense(SparseList{{Int32}}(Element({fill})))").format
    return Tensor.from_storage(form, A.shape, storage, False)


# ------------------------------------------------------------------------------------- triangles

TRIANGLES = "@finch begin\nt .= 0\nfor i = _, k = _, j = _\n t[] += U[k, i] && {}\nend\nend"
MERGE = TRIANGLES.format("U[j, k] && U[j, i]")
GALLOP = TRIANGLES.format("U[gallop(j), k] && U[gallop(j), i]")
MARK = """@finch begin
    t .= 0
    for i = _
        marked .= false
        for j = _
            marked[j] |= U[j, i]
        end
        for k = _, j = _
            t[] += U[k, i] && U[j, k] && marked[follow(j)]
        end
    end
end"""


@pytest.mark.parametrize("name", [*POWER_LAW, *available(*REAL)])
def test_triangles(meter, name):
    """From the largest vertex, as in examples/triangles.finch: merging, galloping, and by marks."""
    A = graph(name)
    U = sp.csc_array(sp.triu(A, 1))
    U.indices, U.indptr = U.indices.astype(np.int32), U.indptr.astype(np.int32)
    U.sort_indices()
    ones = sp.csr_array((np.ones(U.nnz), U.indices, U.indptr), U.shape)
    expected = int((ones @ ones.T).multiply(ones).sum()) if U.nnz < 1e5 else None
    call = expert("graphs", "triangles", A.shape[0], U.indptr, U.indices)
    session = Session()
    session["U"], session["t"] = pattern(U), Scalar(0)
    session["marked"] = Tensor("SparseByteMap(Pattern())", A.shape[0])
    marked = np.zeros(A.shape[0], np.uint8)
    marks = expert("graphs", "triangles_marks", A.shape[0], U.indptr, U.indices, marked)
    others = {"GraphBLAS": None, "expert C merge": call, "expert C": marks}
    if peers.graphblas is not None:
        lower = peers.graphblas.io.from_scipy_sparse(ones)
        others["GraphBLAS"] = lambda: graph_peers.triangles(lower)
    counts = {name: other() for name, other in others.items() if other is not None}
    counts |= {} if expected is None else {"SciPy": expected}
    programs = {", merging": MERGE, ", galloping": GALLOP, "": MARK}
    for how, program in programs.items():
        session.run(program)
        assert all(count == session["t"].value for count in counts.values())
        meter.race(f"triangles{how}", name, calls(session, program), others)


# ---------------------------------------------------------------------------------------- SpMSpV

SCATTER = "@finch begin\ny .= 0\nfor j = _, i = _\n y[i] += A[i, j] * x[j]\nend\nend"
ROWS = """@finch begin
    y .= 0
    for i = _, j = _
        y[i] += R[gallop(j), i] * x[gallop(j)]
    end
end"""


@pytest.mark.parametrize("share", [0.1, 0.01, 0.001])
@pytest.mark.parametrize(
    "name", available("RMAT 13, seed 1", "RMAT 16, seed 1", "Erdos-Renyi 100, seed 1", "cora")
)
def test_spmspv(meter, name, share):
    """By columns, and by rows, galloping (examples/spmspv.finch)."""
    R = matrix(name)
    A, n = R.tocsc(), R.shape[1]
    rng = np.random.default_rng(1)
    xidx = np.sort(rng.choice(n, max(1, int(n * share)), replace=False)).astype(np.int32)
    xval, z = rng.random(len(xidx)), np.zeros(R.shape[0])
    dense = np.zeros(n)
    dense[xidx] = xval
    session = Session()
    session["A"], session["R"] = A, R.T.tocsc()
    session["y"] = Tensor("Dense(Element(0.0))", R.shape[0])
    session["x"] = Tensor.from_coo("SparseList{Int32}(Element(0.0))", (n,), (xidx,), xval)
    vector = len(xidx), xidx, xval, z
    scatter = expert("graphs", "spmspv_scatter", len(z), A.indptr, A.indices, A.data, *vector)
    merge = expert("graphs", "spmspv_merge", len(z), R.indptr, R.indices, R.data, *vector)
    for program, call in ((SCATTER, scatter), (ROWS, merge)):
        z[:] = np.nan
        session.run(program)
        assert np.allclose(session["y"].to_numpy(), R @ dense)
        if call is not None:
            call()
            assert np.allclose(z, R @ dense)
    label = f"{name}, {share:g} of x"
    others = {"GraphBLAS": graphblas_spmspv(R, xidx, xval, R @ dense), "expert C": scatter}
    meter.race("SpMSpV scatter", label, calls(session, SCATTER), others)
    meter.race("SpMSpV gallop", label, calls(session, ROWS), {"expert C merge": merge})


def graphblas_spmspv(R, xidx, xval, expected):
    if peers.graphblas is None:
        return None
    gb = peers.graphblas
    A = gb.io.from_scipy_sparse(R.T.tocsr())  # row j is column j of R
    x = gb.Vector.from_coo(xidx, xval, size=R.shape[1])

    def product():
        y = x.vxm(A, gb.semiring.plus_times).new()
        y.wait()
        return y

    assert np.allclose(product().to_dense(0.0), expected)
    return product


# ------------------------------------------------------------------------------------------- BFS


def levels_of(parent, source):
    """How far each vertex is from the source along the parents (-1: not reached)."""
    level = np.full(len(parent), -1)
    level[source] = 0
    here, far = np.flatnonzero(parent >= 0), 0
    here = here[here != source]
    while len(here):
        far += 1
        found = level[parent[here]] == far - 1
        assert found.any(), "a circle of parents"
        level[here[found]] = far
        here = here[~found]
    return level


@pytest.mark.parametrize("name", [*GRAPHS, *LONG])
def test_bfs(meter, name):
    """The whole of examples/bfs.finch's search: script, and every step."""
    A = graph(name)
    source = int(np.argmax(np.diff(A.indptr)))
    session = session_with("bfs")
    session["A"] = session["AT"] = pattern(A)
    session["source"] = source + 1
    session.run("@einsum degree[j] += A[k, j]")  # as the others are given it
    program = "P, pushed, pulled = bfs(A, AT, degree, source)"

    def ours():
        session.run(program)

    ours()
    order, _ = breadth_first_order(A, source)
    expected = levels_of(breadth_first_order(A, source)[1].clip(-1), source)
    check_parents(A, np.asarray(session["P"].to_numpy()) - 1, source, expected)
    assert len(order) == np.count_nonzero(expected >= 0)

    def scipy_search():
        return breadth_first_order(A, source)

    others = {
        ("SciPy, on RMAT" if name in POWER_LAW else "SciPy"): scipy_search,
        "GraphBLAS": graphblas_bfs(A, source, expected),
        "expert C": expert_bfs(A, source, expected),
    }
    meter.race("BFS", name, ours, others)
    count_lines(meter)


def check_parents(A, parent, source, expected):
    """That parents are neighbours, and one step nearer to the source than their children."""
    assert parent[source] == source
    assert np.array_equal(parent >= 0, expected >= 0)
    assert np.array_equal(levels_of(parent, source), expected)
    children = np.flatnonzero((parent >= 0) & (np.arange(len(parent)) != source))
    assert np.all(A[parent[children], children] != 0)


def graphblas_bfs(A, source, expected):
    if peers.graphblas is None:
        return None
    G = peers.graphblas.io.from_scipy_sparse(A)
    degree = G.reduce_rowwise(peers.graphblas.agg.count).new()

    def search():
        return graph_peers.bfs(G, G, degree, source)

    check_parents(A, search().to_dense(-1), source, expected)
    return search


def expert_bfs(A, source, expected):
    n = A.shape[0]
    parent, queue, front = np.zeros(n, np.int32), np.zeros(n, np.int32), np.zeros(n, np.uint8)
    call = expert("graphs", "bfs", n, source, A.indptr, A.indices, parent, queue, front)
    if call is not None:
        call()
        check_parents(A, parent, source, expected)
    return call


def count_lines(meter):
    """Lines of code of the two searches, without blank lines and comments."""
    meter.note(
        "Lines of code, Finch / python-graphblas: "
        f"BFS {lines_of('bfs', 'step', 'bfs')} / {python_lines('bfs')}, "
        f"Bellman-Ford {lines_of('bellman_ford', 'relax', 'distances', 'parents', 'bellman_ford')} / "
        f"{python_lines('bellman_ford', 'tree')}."
    )


def python_lines(*names):
    count = 0
    for name in names:
        lines, _ = inspect.getsourcelines(getattr(graph_peers, name))
        text = [line.strip() for line in lines]
        docstring = getattr(graph_peers, name).__doc__.splitlines()
        count += sum(bool(line) for line in text) - len(docstring)
    return count


# ---------------------------------------------------------------------------------- Bellman-Ford


@pytest.mark.parametrize("name", [*GRAPHS, *LONG])
def test_bellman_ford(meter, name):
    """Distances and tree of examples/bellman_ford.finch, over positive lengths."""
    A = graph(name)
    source = int(np.argmax(np.diff(A.indptr)))
    session = session_with("bellman_ford")
    session["A"] = symmetric_tensor(A, "Inf")
    session["source"] = source + 1
    program = "D, P, rounds = bellman_ford(A, source)"

    def ours():
        session.run(program)

    [ours() for _ in range(9)]  # from here on it is compiled whole
    expected = dijkstra(A, indices=source)
    check_paths(A, session["D"].to_numpy(), session["P"].to_numpy() - 1, source, expected)

    def scipy_paths():
        return dijkstra(A, indices=source, return_predecessors=True)

    others = {
        ("SciPy, on RMAT" if name in POWER_LAW else "SciPy"): scipy_paths,
        "GraphBLAS": graphblas_paths(A, source, expected),
        "expert C": expert_paths(A, source, expected),
    }
    meter.race("Bellman-Ford", name, ours, others)
    count_lines(meter)


def check_paths(A, distance, parent, source, expected):
    """That distances are right, and that parents are on shortest paths."""
    assert np.allclose(distance, expected)
    assert parent[source] == source
    assert np.array_equal(parent >= 0, np.isfinite(expected))
    children = np.flatnonzero((parent >= 0) & (np.arange(len(parent)) != source))
    lengths = np.asarray(A[parent[children], children]).ravel()
    assert np.all(lengths > 0)
    assert np.allclose(expected[parent[children]] + lengths, expected[children])


def graphblas_paths(A, source, expected):
    if peers.graphblas is None:
        return None
    G = peers.graphblas.io.from_scipy_sparse(A)

    def search():
        return graph_peers.bellman_ford(G, source)

    distance, parent = search()
    check_paths(A, distance.to_dense(np.inf), parent.to_dense(-1), source, expected)
    return search


def expert_paths(A, source, expected, name="bellman_ford"):
    n = A.shape[0]
    distance, parent = np.zeros(n), np.zeros(n, np.int32)
    work = np.zeros(n, np.int32), np.zeros(n, np.int32), np.zeros(n, np.uint8), np.zeros(n)
    arrays = A.indptr, A.indices, A.data, distance, parent, *work
    call = expert("graphs", name, n, source, *arrays)
    if call is not None:
        call()
        reached = np.where(distance < 1e300, distance, np.inf)
        check_paths(A, reached, parent, source, expected)
    return call
