"""Functions of the script whose loops have kernels in them, as a whole: searches and solvers beside C and
SciPy, on small graphs beside the same loops of Python over SciPy. Then loops of numbers alone."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from data import erdos_renyi, grid, poisson, rmat
from experts import expert
from programs import session_with
from scipy.sparse.csgraph import (
    bellman_ford,
    breadth_first_order,
    connected_components,
    shortest_path,
)
from scipy.sparse.linalg import cg
from test_graphs import (
    check_parents,
    check_paths,
    expert_bfs,
    expert_paths,
    levels_of,
    pattern,
    symmetric_tensor,
    undirected,
)

from finchlang import Session, Tensor

VECTOR = "Dense(Element(0.0))"


def star(n):
    """Vertex 0 beside all others, with random lengths."""
    lengths = np.random.default_rng(1).random(n - 1) + 0.5
    return sp.csr_array((lengths, (np.zeros(n - 1, int), np.arange(1, n))), (n, n))


def path(n):
    """Each vertex beside the next one, with random lengths."""
    lengths = np.random.default_rng(1).random(n - 1) + 0.5
    return sp.csr_array(sp.diags_array([lengths], offsets=[1], shape=(n, n)))


GRAPHS = {
    **{f"RMAT {scale}": lambda scale=scale: rmat(scale, 8, 1) for scale in (8, 10, 12, 14)},
    "grid 300 x 300": lambda: grid(300, 300, 1),
    "grid 100 x 100": lambda: grid(100, 100, 1),
    "grid 30 x 30": lambda: grid(30, 30, 1),
    "path of 10,000": lambda: path(10_000),
    "star of 10,000": lambda: star(10_000),
    "random, 10,000": lambda: erdos_renyi(10_000, 10, 1),
    "random, 1,000": lambda: erdos_renyi(1_000, 5, 1),
}
#: of 100 vertices; the first has some components
SMALL = {
    "random, 1 edge": lambda: erdos_renyi(100, 1, 1),
    "random, 5 edges": lambda: erdos_renyi(100, 5, 1),
    "grid 10 x 10": lambda: grid(10, 10, 1),
    "path": lambda: path(100),
}


def graph(name, graphs=GRAPHS):
    A = undirected(graphs[name]())
    return A, int(np.argmax(np.diff(A.indptr)))


def scipy_name(name):
    return "SciPy, on RMAT" if name.startswith("RMAT") else "SciPy"


# --------------------------------------------------------------------------------------- searches


@pytest.mark.parametrize("name", GRAPHS)
def test_bfs(meter, name):
    """Parents, by examples/bfs.finch."""
    A, source = graph(name)
    session = session_with("bfs")
    session["A"] = session["AT"] = pattern(A)
    session["source"] = source + 1
    session.run("@einsum degree[j] += A[k, j]")
    program = "P, pushed, pulled = bfs(A, AT, degree, source)"
    session.run(program)
    expected = levels_of(breadth_first_order(A, source)[1].clip(-1), source)
    check_parents(A, session["P"].to_numpy() - 1, source, expected)
    others = {
        "expert C": expert_bfs(A, source, expected),
        scipy_name(name): lambda: breadth_first_order(A, source),
    }
    meter.race("loop: BFS", name, lambda: session.run(program), others)


@pytest.mark.parametrize("name", GRAPHS)
def test_bellman_ford(meter, name):
    """Distances and tree, by examples/bellman_ford.finch. SciPy's `bellman_ford` takes as many rounds as
    there are vertices; `shortest_path` takes Dijkstra's algorithm where no length is negative."""
    A, source = graph(name)
    session = session_with("bellman_ford")
    session["A"], session["source"] = symmetric_tensor(A, "Inf"), source + 1
    program = "D, P, rounds = bellman_ford(A, source)"
    [session.run(program) for _ in range(9)]  # from here on it is compiled whole
    expected = shortest_path(A, indices=source)
    check_paths(A, session["D"].to_numpy(), session["P"].to_numpy() - 1, source, expected)
    others = {
        "expert C": expert_paths(A, source, expected),
        "C of the same rounds": expert_paths(A, source, expected, "bellman_ford_rounds"),
        scipy_name(name): lambda: shortest_path(A, indices=source, return_predecessors=True),
    }
    if A.shape[0] <= 1024:
        others["SciPy's bellman_ford"] = lambda: bellman_ford(
            A, indices=source, return_predecessors=True
        )
    meter.race("loop: Bellman-Ford", name, lambda: session.run(program), others)


# ----------------------------------------------------------------------------------- 100 vertices


def connected(name):
    """A small graph of which each vertex has a neighbour: others get the next one."""
    A = undirected(SMALL[name]())
    alone = np.flatnonzero(np.diff(A.indptr) == 0)
    places = alone, (alone + 1) % A.shape[0]
    return undirected(A + sp.csr_array((np.ones(len(alone)), places), A.shape))


def with_ones(A):
    return sp.csr_array((np.ones(A.nnz), A.indices, A.indptr), A.shape)


def small_race(meter, workload, name, session, program, theirs, more=None):
    others = {"loop over SciPy": theirs, **(more or {})}
    meter.race(f"loop: {workload}", name, lambda: session.run(program), others)


@pytest.mark.parametrize("name", SMALL)
def test_pagerank(meter, name):
    A = connected(name)
    session = session_with("pagerank")
    session["A"] = pattern(A)
    session.run("degree = degrees(A)")
    program = "rank, steps = pagerank(A, degree, 0.85, 1e-4)"
    session.run(program)
    ones, degree, n = with_ones(A), np.diff(A.indptr).astype(float), A.shape[0]

    def theirs():
        rank, change, steps = np.full(n, 1 / n), 1.0, 0
        while change > 1e-4:
            new = ones @ (0.85 * rank / degree) + (1 - 0.85) / n
            change = np.abs(new - rank).sum()
            rank, steps = new, steps + 1
        return rank, steps

    rank, steps = theirs()
    assert np.allclose(session["rank"].to_numpy(), rank) and session["steps"] == steps
    small_race(meter, "PageRank", name, session, program, theirs)


@pytest.mark.parametrize("name", SMALL)
def test_components(meter, name):
    A = connected(name)
    session = session_with("components")
    session["A"] = pattern(A)
    program = "label = components(A)"
    session.run(program)
    begin, idx = A.indptr[:-1], A.indices

    def theirs():
        label = np.arange(len(begin))
        while True:
            least = np.minimum(label, np.minimum.reduceat(label[idx], begin))
            least = least[least]
            if np.array_equal(least, label):
                return label
            label = least

    assert np.array_equal(session["label"].to_numpy() - 1, theirs())
    assert len(np.unique(theirs())) == connected_components(A, directed=False)[0]
    more = {"SciPy's connected_components": lambda: connected_components(A, directed=False)}
    small_race(meter, "components", name, session, program, theirs, more)


@pytest.mark.parametrize("name", SMALL)
def test_kcore(meter, name):
    A = connected(name)
    session = session_with("kcore")
    session["A"] = pattern(A)
    program = "core = cores(A)"
    session.run(program)
    ones = with_ones(A)

    def theirs():
        degree, core = ones.sum(axis=0), np.zeros(A.shape[0], int)
        left, k = np.ones(A.shape[0], bool), 0
        while left.any():
            k = max(k, int(degree[left].min()))
            peeled = left & (degree <= k)
            while peeled.any():
                core[peeled] = k
                left &= ~peeled
                degree -= ones @ peeled
                peeled = left & (degree <= k)
        return core

    assert np.array_equal(session["core"].to_numpy(), theirs())
    small_race(meter, "k-core", name, session, program, theirs)


# ---------------------------------------------------------------------------- conjugate gradients


@pytest.mark.parametrize("side", [100, 30])
def test_conjugate_gradients(meter, side):
    """Poisson's equation with a right side at random."""
    A = poisson(side, 2)
    b = np.random.default_rng(1).random(side * side)
    session = session_with("conjugate_gradients")
    session["A"], session["b"] = symmetric_tensor(A, "0.0"), Tensor.from_numpy(b, VECTOR)
    program = "x, steps = conjugate_gradients(A, b, 1e-6)"
    session.run(program)

    def theirs():
        return cg(A, b, rtol=1e-6, atol=0.0)

    assert np.allclose(session["x"].to_numpy(), theirs()[0], rtol=1e-4, atol=1e-4)
    data = f"Poisson 2-d, {session['steps']} steps"
    others = {"SciPy": theirs}
    meter.race(f"loop: CG, {side} x {side}", data, lambda: session.run(program), others)


# --------------------------------------------------------------------------------- loops of numbers

COLLATZ = """function collatz(n)
    most = 0
    best = 1
    for start = 1:n
        x = start
        steps = 0
        while x != 1
            x = x % 2 == 0 ? x ÷ 2 : 3x + 1
            steps += 1
        end
        if steps > most
            most = steps
            best = start
        end
    end
    return best
end
"""
SUM = """function random_sum(n)
    x = 1
    total = 0
    for k = 1:n
        x = (1103515245x + 12345) % 2147483648
        total += x
    end
    return total
end
"""


def number_race(meter, workload, function, text, count):
    session = Session()
    session.run(text)
    program = f"{function}({count})"
    call = expert("loops", function, count)
    if call is not None:
        assert session.run(program) == call()
    data, others = f"{count:,} rounds", {"expert C": call}
    meter.race(f"loop: {workload}", data, lambda: session.run(program), others)


@pytest.mark.parametrize("count", [1_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_collatz(meter, count):
    number_race(meter, "Collatz", "collatz", COLLATZ, count)


@pytest.mark.parametrize("count", [10_000, pytest.param(10_000_000, marks=pytest.mark.long)])
def test_sum(meter, count):
    number_race(meter, "sum", "random_sum", SUM, count)
