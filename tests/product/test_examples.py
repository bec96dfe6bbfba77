"""Every example leaves the same on every engine, and its functions give what NumPy and SciPy do (the case
studies of Finch'25 section 7 and Looplets'23 section 9). What it prints: `transcripts/examples.txt`."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.ndimage
import scipy.sparse as sp
from scipy.sparse import csgraph
from scipy.spatial.distance import cdist

from finchlang import FinchError, Session, Tensor
from finchlang.testing.compare_engines import SEMANTICS, compare, ways_of

EXAMPLES = Path(__file__).parents[2] / "examples"
CSC, GRAPH = "Dense(SparseList(Element(0.0)))", "Dense(SparseList(Pattern()))"
RUNS, BYTES = "Dense(SparseRunList(Pattern()))", "Dense(Dense(Element(false)))"

#: example → the small data it is compared on: names of files below, or other arguments
ARGUMENTS = {
    "any_order": [],
    "bellman_ford": ["graph.mtx", "2"],
    "bfs": ["graph.mtx", "6"],
    "blend": ["image.npy", "other.npy"],
    "components": ["graph.mtx"],
    "conjugate_gradients": ["3"],
    "convolution": ["tiny.mtx"],
    "erosion": ["image.npy"],
    "erosion_bits": ["tall.npy"],
    "even_indices": ["20"],
    "gnn": ["graph.mtx", "2"],
    "histogram": ["image.npy"],
    "kcore": ["graph.mtx"],
    "lanczos": ["3", "5"],
    "linear_layer": ["stack.npy"],
    "own_operators": [],
    "pagerank": ["graph.mtx"],
    "saddle_point": ["symmetric.mtx"],
    "similarity": ["images.npy"],
    "spgemm": ["graph.mtx"],
    "spmspv": ["matrix.mtx"],
    "spmv": ["matrix.mtx"],
    "spmv_formats": ["4"],
    "spmv_symmetric": ["symmetric.mtx"],
    "stacked_spmv": ["matrix.mtx"],
    "triangles": ["graph.mtx"],
    "upper_triangle": [],
    "volume_slice": ["6"],
}
#: those with loops over all pixels or pairs, which only two of the semantics run
LONG = {
    *("convolution", "erosion", "erosion_bits", "pagerank", "similarity", "spgemm", "spmspv"),
    *("spmv_formats", "linear_layer", "stacked_spmv"),
}
#: one of each kind: lists, workspaces, early break, masks, runs
BY_THE_PAPER = {"spmv", "spgemm", "bfs", "triangles", "upper_triangle", "histogram", "blend"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of small matrices, graphs and images."""
    folder = tmp_path_factory.mktemp("data")
    random = np.random.default_rng(5)
    matrix = sp.random(10, 10, 0.25, random_state=random)
    scipy.io.mmwrite(folder / "matrix.mtx", matrix)
    scipy.io.mmwrite(folder / "tiny.mtx", sp.random(4, 3, 0.3, random_state=random))
    scipy.io.mmwrite(folder / "symmetric.mtx", matrix + matrix.T, symmetry="symmetric")
    edges = np.array([(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (1, 3), (4, 5), (6, 7)]).T
    graph = sp.coo_array((np.ones(edges.shape[1]), tuple(edges)), (8, 8))
    scipy.io.mmwrite(folder / "graph.mtx", graph + graph.T, field="pattern", symmetry="general")
    for name, shape in (("image", (6, 5)), ("other", (6, 5)), ("tall", (65, 1))):
        pixels = random.choice(np.array([0, 255], np.uint8), shape, p=[0.2, 0.8])
        np.save(folder / f"{name}.npy", pixels)
    np.save(folder / "stack.npy", random.integers(0, 2, (4, 3, 2)).astype(np.uint8))
    np.save(folder / "images.npy", np.repeat(random.integers(0, 3, (6, 3)) * 1.0, 2, axis=0))
    return folder


def test_every_example_is_listed() -> None:
    names = {path.stem for path in EXAMPLES.glob("*.finch")}
    assert names == {*ARGUMENTS}
    shown = Path(__file__).with_name("transcripts") / "examples.txt"
    assert names == {*re.findall(r"^== (\w+)$", shown.read_text("utf-8"), re.MULTILINE)}
    readme = (EXAMPLES / "README.md").read_text("utf-8")
    assert [name for name in sorted(names) if f"({name}.finch)" not in readme] == []


@pytest.mark.parametrize("name", ARGUMENTS)
def test_engines_agree(name: str, data: Path) -> None:
    path = EXAMPLES / f"{name}.finch"
    arguments = [str(data / a) if "." in a else a for a in ARGUMENTS[name]]
    ways = ways_of(("interpret", "native") if name in LONG else SEMANTICS)
    ways += ways_of(("residual", "native"), rules="paper") if name in BY_THE_PAPER else ()
    found = compare(path.read_text("utf-8"), str(path), args=arguments, ways=ways)
    assert found.agrees and not found.errors, found.report


# ------------------------------------------------------------------------ beside NumPy and SciPy


@cache
def session(name: str) -> Session:
    """The session that an example leaves behind."""
    found = Session(output=lambda _: None)
    found.run_file(EXAMPLES / f"{name}.finch")
    return found


def plain(value: Any) -> Any:
    """Tensors as arrays, and tuples of them."""
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return value.to_numpy() if hasattr(value, "to_numpy") else value


def call(name: str, function: str, *values: Any, world: Session | None = None) -> Any:
    """What a function of an example gives, densely."""
    world = world or session(name)
    for k, value in enumerate(values):
        world[f"given_{k}"] = value
    return plain(world.run(f"{function}({', '.join(f'given_{k}' for k in range(len(values)))})"))


def tensor(array: Any, format: str) -> Tensor:
    return Tensor.from_numpy(np.asarray(array), format)


def sparse(seed: int, m: int, n: int, density: float = 0.2) -> np.ndarray:
    random = np.random.default_rng(seed)
    return np.where(random.random((m, n)) < density, random.random((m, n)) + 0.5, 0.0)


def edges(seed: int, n: int, density: float = 0.1) -> np.ndarray:
    """A directed graph without loops; `[k, j]` is true for an edge from j to k."""
    return (np.random.default_rng(seed).random((n, n)) < density) & ~np.eye(n, dtype=bool)


STRUCTURED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    CSC: lambda a: a,
    GRAPH: lambda a: a != 0,
    "Dense(SparseBlockList(Element(0.0)))": lambda a: a,
    "Dense(SparseBand(Element(0.0)))": lambda a: np.triu(np.tril(a, 2), -1),
    "Dense(SparsePinpoint(Element(0.0)))": lambda a: np.diag(a[::-1].diagonal())[::-1],
    "UpperTriangular(Element(0.0))": np.triu,
    "LowerTriangular(Element(0.0))": np.tril,
    "Symmetric(Element(0.0))": lambda a: a + a.T,
    "Dense(Ragged(Element(0.0)))": np.triu,
}


@pytest.mark.parametrize("format", STRUCTURED)
def test_products_with_a_vector(format: str) -> None:
    for seed in range(3):
        A, x = STRUCTURED[format](sparse(seed, 9, 9, 0.4)), np.arange(1.0, 10.0)
        given = tensor(A, format), x
        np.testing.assert_allclose(call("spmv_formats", "column_major", *given), A @ x)
        np.testing.assert_allclose(call("spmv_formats", "row_major", *given), A.T @ x)
    A = sparse(3, 9, 9, 0.5) + sparse(3, 9, 9, 0.5).T
    given = tensor(np.triu(A, 1), CSC), A.diagonal().copy(), x
    np.testing.assert_allclose(call("spmv_symmetric", "symmetric_spmv", *given), A @ x)


@pytest.mark.parametrize("stored", [0, 1, 5, 30])
def test_products_with_a_sparse_vector(stored: int) -> None:
    A, x = sparse(stored, 20, 30), np.zeros(30)
    x[np.random.default_rng(0).permutation(30)[:stored]] = 2.0
    v = tensor(x, "SparseList(Element(0.0))")
    np.testing.assert_allclose(call("spmspv", "by_columns", tensor(A, CSC), v), A @ x)
    rows = tensor(A.T, CSC), tensor(A.T, "Dense(SparseBlockList(Element(0.0)))")
    for kernel in ("walk_both", "row_leads", "vector_leads", "gallop_both"):
        np.testing.assert_allclose(call("spmspv", kernel, rows[0], v), A @ x, err_msg=kernel)
    np.testing.assert_allclose(call("spmspv", "walk_both", rows[1], v), A @ x)


@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 9, 5), (12, 3, 10)])
@pytest.mark.parametrize("density", [0.0, 0.2, 1.0])
def test_products_of_matrices(shape: tuple[int, int, int], density: float) -> None:
    m, k, n = shape
    A, B = sparse(1, m, k, density), sparse(2, k, n, density)
    for function, one, other in (
        ("inner_products", A.T, B),
        ("gustavson", A, B),
        ("outer_products", A, B.T),
    ):
        found = call("spgemm", function, tensor(one, CSC), tensor(other, CSC))
        np.testing.assert_allclose(found, A @ B, atol=1e-12)


def hub(n: int) -> np.ndarray:
    """A path into a hub with many neighbours: a frontier that is small, huge, and small again."""
    A = np.zeros((n, n), bool)
    for i in (*range(5), *range(n - 4, n - 1)):
        A[i + 1, i] = A[i, i + 1] = True
    A[6 : n - 3, 5] = A[5, 6 : n - 3] = True
    return A


#: when a search pulls, and when it pushes again
MODES = {"push": (0, 0), "pull": (10**9, 10**9), "both": (14, 24)}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("A", [edges(1, 40), edges(2, 40, 0.02), hub(60), edges(0, 1)])
def test_bfs_gives_parents_one_step_nearer(A: np.ndarray, mode: str) -> None:
    given = tensor(A, GRAPH), tensor(A.T, GRAPH), np.count_nonzero(A, axis=0), 1
    P, pushed, pulled = call("bfs", "bfs", *given, *MODES[mode])
    distance = csgraph.shortest_path(A.T, unweighted=True, indices=0)
    assert P[0] == 1
    for k in range(1, len(A)):
        assert (P[k] == 0) == np.isinf(distance[k])
        assert not P[k] or (A[k, P[k] - 1] and distance[P[k] - 1] == distance[k] - 1)
    # the last step finds that nothing is left
    assert pushed + pulled == np.max(distance[np.isfinite(distance)]) + 1
    # a source that no edge leaves pushes to nobody
    assert mode == "both" or (pulled if mode == "push" else pushed) == 0 or not A[:, 0].any()
    assert mode != "both" or len(A) != 60 or (pushed > 0 and pulled > 0)  # its direction changes


@pytest.mark.parametrize("highest", [0, 12])
@pytest.mark.parametrize("seed", range(3))
def test_bellman_ford(seed: int, highest: int) -> None:
    """`[i, j]` is the length of the edge from j to i. Potentials make some lengths negative, and leave the
    lengths of all cycles positive."""
    random, n = np.random.default_rng(seed), 25
    A = np.where(edges(seed, n, 0.2), random.integers(1, 10, (n, n)) * 1.0, np.inf)
    potential = random.integers(0, highest + 1, n)
    A += potential[:, None] - potential[None, :]
    i, j = np.nonzero(np.isfinite(A))
    expected = csgraph.bellman_ford(sp.csr_array((A[i, j], (j, i)), A.shape), indices=0)
    weighted = tensor(A, "Dense(SparseList(Element(Inf)))")
    D, P, _ = call("bellman_ford", "bellman_ford", weighted, 1)
    np.testing.assert_array_equal(D, expected)
    assert P[0] == 1
    for k in range(1, n):
        assert (P[k] == 0) == np.isinf(D[k])
        assert P[k] == 0 or D[P[k] - 1] + A[k, P[k] - 1] == D[k]
        at, steps = k + 1, 0  # the parents lead to the source
        while P[k] and at != 1:
            at, steps = P[at - 1], steps + 1
            assert steps < n


def test_bellman_ford_finds_a_negative_cycle() -> None:
    A = np.full((3, 3), np.inf)
    A[1, 0], A[2, 1], A[1, 2] = 1.0, 2.0, -3.0
    with pytest.raises(FinchError, match="cycle of negative length"):
        call("bellman_ford", "distances", tensor(A, "Dense(SparseList(Element(Inf)))"), 1)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("density", [0.0, 0.04, 0.4])
def test_triangles_and_components(seed: int, density: float) -> None:
    A = edges(seed, 30, density)
    count, labels = csgraph.connected_components(A, directed=False)
    found = call("components", "components", tensor(A, GRAPH))
    np.testing.assert_array_equal(found, [1 + np.argmax(labels == label) for label in labels])
    assert call("components", "how_many", found) == count
    A |= A.T
    expected = np.trace(np.linalg.matrix_power(A.astype(int), 3)) // 6
    L, U = tensor(np.tril(A), GRAPH), tensor(np.triu(A), GRAPH)
    for function, given in (("smallest", (L,)), ("middle", (L, U)), ("largest", (U,))):
        assert call("triangles", f"from_the_{function}", *given) == (expected, expected)
    assert call("triangles", "by_marks", U) == expected


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("density", [0.0, 0.05, 0.3])
def test_cores_are_what_is_left(seed: int, density: float) -> None:
    """The vertices of core numbers from k on are those left when all with fewer neighbours than k go."""
    A = edges(seed, 30, density)
    A |= A.T
    found = call("kcore", "cores", tensor(A, GRAPH))
    for k in range(1, found.max() + 2):
        left = np.ones(len(A), bool)
        while np.any(left & ((A & left).sum(axis=1) < k)):
            left &= (A & left).sum(axis=1) >= k
        np.testing.assert_array_equal(found >= k, left)
        np.testing.assert_array_equal(call("kcore", "in_core", tensor(A, GRAPH), k), left)


@pytest.mark.parametrize("n", [1, 2, 20])
def test_linear_systems_and_eigenvalues(n: int) -> None:
    """Of random positive definite matrices; Lanczos takes as many steps as they have rows, at most 8."""
    R = sparse(n, n, n)
    A, b = R @ R.T + np.eye(n), np.arange(1.0, n + 1)
    x, steps = call("conjugate_gradients", "conjugate_gradients", tensor(A, CSC), b, 1e-10)
    np.testing.assert_allclose(x, np.linalg.solve(A, b), rtol=1e-6)
    assert steps <= 2 * n
    count = min(n, 8)
    diagonal, beside = call("lanczos", "lanczos", tensor(A, CSC), count)
    T = np.diag(diagonal) + np.diag(beside[:-1], 1) + np.diag(beside[:-1], -1)
    start = np.sqrt(2 * b / (n * (n + 1)))
    Q, _ = np.linalg.qr(np.stack([np.linalg.matrix_power(A, k) @ start for k in range(count)], 1))
    ritz = np.linalg.eigvalsh(Q.T @ A @ Q)
    np.testing.assert_allclose(np.linalg.eigvalsh(T), ritz, rtol=1e-4)
    for k in range(count):
        found = call("lanczos", "eigenvalue", diagonal, beside, k + 1, 0.0, 1e3)
        np.testing.assert_allclose(found, ritz[k], rtol=1e-4)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_a_graph_network(layers: int) -> None:
    A, random = edges(layers, 12, 0.2), np.random.default_rng(layers)
    A |= A.T
    X, W = random.random((3, 12)), random.random((3, 3, layers)) - 0.5
    degree = 1 + A.sum(axis=0)
    N = (A + np.eye(12)) / np.sqrt(np.outer(degree, degree))
    np.testing.assert_allclose(call("gnn", "normalized", tensor(A, GRAPH)), N)
    H = X
    for k in range(layers):
        H = W[:, :, k] @ H @ N
        H = H if k == layers - 1 else np.maximum(H, 0)
    given = tensor(X, "Dense(Dense(Element(0.0)))"), tensor(W, "Dense(Dense(Dense(Element(0.0))))")
    np.testing.assert_allclose(call("gnn", "forward", tensor(N, CSC), *given), H, atol=1e-12)


def test_pagerank_is_the_stationary_distribution() -> None:
    world = session("pagerank")
    A = plain(world["A"]).astype(float)
    n, d = len(A), world["damping"]
    expected = np.linalg.solve(np.eye(n) - d * A / A.sum(axis=0), np.full(n, (1 - d) / n))
    np.testing.assert_allclose(plain(world["rank"]), expected, atol=world["tolerance"])


def shades(seed: int, m: int, n: int, share_on: float = 0.8) -> np.ndarray:
    """An image of bytes, of which about `share_on` are 128 and above."""
    random = np.random.default_rng(seed)
    image = np.where(random.random((m, n)) < share_on, 128, 0) + random.integers(0, 128, (m, n))
    return np.asfortranarray(image.astype(np.uint8))


def morphed(image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An image eroded and dilated by SciPy."""
    square, on = np.ones((3, 3)), image >= 128
    eroded = scipy.ndimage.binary_erosion(on, square, border_value=1)
    return eroded, scipy.ndimage.binary_dilation(on, square)


@pytest.mark.parametrize("shape", [(11, 9), (1, 7), (9, 1), (5, 6)])
@pytest.mark.parametrize("share_on", [0.0, 0.8, 1.0])
def test_morphology_of_bytes_and_runs(shape: tuple[int, int], share_on: float) -> None:
    m, n = shape
    image = shades(m, m, n, share_on)
    eroded, dilated = morphed(image)
    for whole, line in ((BYTES, "Dense(Element(false))"), (RUNS, "SparseRunList(Pattern())")):
        given = tensor(image >= 128, whole)
        found = call("erosion", "erode", Tensor(whole, m, n), Tensor(line, m), given)
        np.testing.assert_array_equal(found, eroded)
        inverted = call("erosion", "invert", Tensor(whole, m, n), given)
        np.testing.assert_array_equal(inverted, image < 128)
    outputs = Tensor(BYTES, m, n), Tensor("Dense(Element(false))", m)
    found = call("erosion", "dilate", *outputs, image >= 128)
    np.testing.assert_array_equal(found, dilated)


@pytest.mark.parametrize("m", [1, 63, 64, 65, 128, 150])
@pytest.mark.parametrize("share_on", [0.0, 0.9, 1.0])
def test_morphology_of_bits(m: int, share_on: float) -> None:
    image = shades(m, m, 4, share_on)
    eroded, dilated = morphed(image)

    def bits(function: str, *given: Any) -> np.ndarray:
        return call("erosion_bits", "unpack", call("erosion_bits", function, *given), m)

    packed, blank = (call("erosion_bits", "pack", image, -(-m // 64), out) for out in (True, False))
    np.testing.assert_array_equal(call("erosion_bits", "unpack", packed, m), image >= 128)
    np.testing.assert_array_equal(call("erosion_bits", "words_on", packed), packed != 0)
    np.testing.assert_array_equal(bits("erode", packed), eroded)
    np.testing.assert_array_equal(bits("erode_masked", packed, tensor(packed != 0, GRAPH)), eroded)
    np.testing.assert_array_equal(bits("dilate", blank), dilated)


@pytest.mark.parametrize("format", [BYTES, GRAPH, RUNS])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_masked_histogram(format: str, share: float) -> None:
    image = np.asfortranarray(np.random.default_rng(4).integers(0, 256, (12, 10), np.uint8))
    mask = np.random.default_rng(5).random((12, 10)) < share
    expected, _ = np.histogram(image[mask], 16, (0, 256))
    found = call("histogram", "histogram", image, tensor(mask, format))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("level", ["SparseList", "SparseBlockList", "RunList", "SparseRunList"])
def test_similarity_blending_and_convolution(level: str) -> None:
    random = np.random.default_rng(9)
    images = np.repeat(random.integers(0, 3, (10, 6)) * 1.0, 4, axis=0)
    found = call("similarity", "distances", tensor(images, f"Dense({level}(Element(0.0)))"))
    np.testing.assert_allclose(found, cdist(images.T, images.T), atol=1e-6)
    b, c = (np.repeat(random.integers(0, 256, (4, 5), np.uint8), 3, axis=0) for _ in range(2))
    format = f"Dense({'RunList' if level == 'RunList' else 'Dense'}(Element(0x00)))"
    given = Tensor(format, 1, 1), tensor(b, format), tensor(c, format), 0.75, 0.25
    expected = np.round(0.75 * b.astype(float) + 0.25 * c).astype(np.uint8)
    np.testing.assert_array_equal(call("blend", "blend", *given), expected)
    A, F = sparse(7, 20, 15), random.random((11, 11))
    expected = scipy.ndimage.correlate(A, F, mode="constant") * (A != 0)
    found = call("convolution", "masked_convolution", tensor(A, CSC), F)
    np.testing.assert_allclose(found, expected, atol=1e-12)
