"""The functions of the examples against NumPy and SciPy, on data of all kinds: the case studies of
Finch'25 section 7 and Looplets'23 section 9."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.ndimage
import scipy.sparse as sp
from level_kernels import tensor
from scipy.sparse import csgraph
from scipy.spatial.distance import cdist

from finchlang.session import Session
from finchlang.source import FinchError
from finchlang.tensors.adopted import as_tensor
from finchlang.tensors.tensor import Tensor

pytestmark = pytest.mark.optimised

EXAMPLES = Path(__file__).parent.parent / "examples"
CSC = "Dense(SparseList(Element(0.0)))"
GRAPH = "Dense(SparseList(Pattern()))"


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
    found = as_tensor(value)
    return value if found is None else found.to_numpy()


def call(name: str, function: str, *values: Any) -> Any:
    """What a function of an example gives, densely."""
    world = session(name)
    for k, value in enumerate(values):
        world[f"given_{k}"] = value
    given = ", ".join(f"given_{k}" for k in range(len(values)))
    return plain(world.run(f"{function}({given})"))


def sparse(seed: int, m: int, n: int, density: float = 0.2) -> np.ndarray:
    random = np.random.default_rng(seed)
    return np.where(random.random((m, n)) < density, random.random((m, n)) + 0.5, 0.0)


def edges(seed: int, n: int, density: float = 0.1) -> np.ndarray:
    """A directed graph without loops; `[k, j]` is true for an edge from j to k."""
    return (np.random.default_rng(seed).random((n, n)) < density) & ~np.eye(n, dtype=bool)


def shades(seed: int, m: int, n: int, share_on: float = 0.8) -> np.ndarray:
    """An image of bytes, of which about `share_on` are 128 and above."""
    random = np.random.default_rng(seed)
    image = np.where(random.random((m, n)) < share_on, 128, 0) + random.integers(0, 128, (m, n))
    return image.astype(np.uint8)


# ------------------------------------------------------------------------------------- SpMV, SpMSpV

STRUCTURED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "Dense(SparseList(Element(0.0)))": lambda a: a,
    "Dense(SparseBlockList(Element(0.0)))": lambda a: a,
    "Dense(SparseBand(Element(0.0)))": lambda a: np.triu(np.tril(a, 2), -1),
    "Dense(SparsePinpoint(Element(0.0)))": lambda a: np.diag(a[::-1].diagonal())[::-1],
    "UpperTriangular(Element(0.0))": np.triu,
    "LowerTriangular(Element(0.0))": np.tril,
    "Symmetric(Element(0.0))": lambda a: a + a.T,
    "Dense(Ragged(Element(0.0)))": np.triu,
}


@pytest.mark.parametrize("format", STRUCTURED)
def test_spmv_is_right_for_every_structure(format: str) -> None:
    for seed in range(3):
        A = STRUCTURED[format](sparse(seed, 9, 9, 0.4))
        x = np.arange(1.0, 10.0)
        by_columns = call("spmv_formats", "column_major", tensor(A, format), x)
        by_rows = call("spmv_formats", "row_major", tensor(A, format), x)
        np.testing.assert_allclose(by_columns, A @ x)
        np.testing.assert_allclose(by_rows, A.T @ x)


def test_spmv_of_a_graph() -> None:
    A, x = edges(0, 12, 0.3), np.arange(1.0, 13.0)
    np.testing.assert_allclose(call("spmv_formats", "column_major", tensor(A, GRAPH), x), A @ x)
    np.testing.assert_allclose(call("spmv_formats", "row_major", tensor(A, GRAPH), x), A.T @ x)


@pytest.mark.parametrize("n", [1, 2, 9])
def test_symmetric_spmv(n: int) -> None:
    A = sparse(n, n, n, 0.5)
    A, x = A + A.T, np.arange(1.0, n + 1)
    upper = tensor(np.triu(A, 1), CSC)
    y = call("spmv_symmetric", "symmetric_spmv", upper, A.diagonal().copy(), x)
    np.testing.assert_allclose(y, A @ x)


ROW_KERNELS = ("walk_both", "row_leads", "vector_leads", "gallop_both")


@pytest.mark.parametrize("stored", [0, 1, 5, 30])
def test_spmspv(stored: int) -> None:
    A, x = sparse(stored, 20, 30), np.zeros(30)
    x[np.random.default_rng(0).permutation(30)[:stored]] = 2.0
    v = tensor(x, "SparseList(Element(0.0))")
    rows = tensor(A.T, CSC)
    np.testing.assert_allclose(call("spmspv", "by_columns", tensor(A, CSC), v), A @ x)
    for kernel in ROW_KERNELS:
        np.testing.assert_allclose(call("spmspv", kernel, rows, v), A @ x, err_msg=kernel)
    blocks = tensor(A.T, "Dense(SparseBlockList(Element(0.0)))")
    np.testing.assert_allclose(call("spmspv", "walk_both", blocks, v), A @ x)


# ------------------------------------------------------------------------------------------- SpGEMM


@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 9, 5), (12, 3, 10)])
@pytest.mark.parametrize("density", [0.0, 0.2, 1.0])
def test_spgemm(shape: tuple[int, int, int], density: float) -> None:
    m, k, n = shape
    A, B = sparse(1, m, k, density), sparse(2, k, n, density)
    by_columns, by_rows = (tensor(M, CSC) for M in (A, A.T))
    np.testing.assert_allclose(
        call("spgemm", "inner_products", by_rows, tensor(B, CSC)), A @ B, atol=1e-12
    )
    np.testing.assert_allclose(call("spgemm", "gustavson", by_columns, tensor(B, CSC)), A @ B)
    np.testing.assert_allclose(
        call("spgemm", "outer_products", by_columns, tensor(B.T, CSC)), A @ B
    )


# ------------------------------------------------------------------------------------------- graphs


def star_and_path(n: int) -> np.ndarray:
    """A path into a hub with many neighbours: a frontier that is small, huge, and small again."""
    A = np.zeros((n, n), bool)
    for i in range(5):
        A[i + 1, i] = A[i, i + 1] = True
    A[6 : n - 3, 5] = A[5, 6 : n - 3] = True
    for i in range(n - 4, n - 1):
        A[i + 1, i] = A[i, i + 1] = True
    return A


GRAPHS = {
    "random": edges(1, 40),
    "sparse": edges(2, 40, 0.02),
    "hub": star_and_path(60),
    "one vertex": edges(0, 1),
}


def steps_from(A: np.ndarray, source: int) -> np.ndarray:
    """The number of edges on a shortest path to each vertex, by SciPy."""
    return csgraph.shortest_path(A.T, unweighted=True, indices=source)


def search(A: np.ndarray, mode: str) -> Any:
    """The search from vertex 1 in the graph with an edge from j to k where A[k, j] is not 0."""
    degree = np.count_nonzero(A, axis=0)
    return call("bfs", "bfs", tensor(A, GRAPH), tensor(A.T, GRAPH), degree, 1, mode)


@pytest.mark.parametrize("mode", ["push", "pull", "both"])
@pytest.mark.parametrize("name", GRAPHS)
def test_bfs_gives_parents_one_step_nearer(name: str, mode: str) -> None:
    A = GRAPHS[name]
    P, pushed, pulled = search(A, mode)
    distance = steps_from(A, 0)
    assert P[0] == 1
    for k in range(1, len(A)):
        assert (P[k] == 0) == np.isinf(distance[k])
        if P[k]:
            assert A[k, P[k] - 1] and distance[P[k] - 1] == distance[k] - 1
    # the last step finds that nothing is left
    assert pushed + pulled == np.max(distance[np.isfinite(distance)]) + 1
    assert mode == "both" or (pulled if mode == "push" else pushed) == 0


def test_bfs_changes_its_direction() -> None:
    A = GRAPHS["hub"]
    _, pushed, pulled = search(A, "both")
    assert pushed > 0 and pulled > 0


def lengths(seed: int, n: int, negative: bool) -> np.ndarray:
    """`[i, j]` is the length of the edge from j to i. Potentials make some lengths negative, and
    leave the lengths of all cycles positive."""
    random = np.random.default_rng(seed)
    A = np.where(edges(seed, n, 0.2), random.integers(1, 10, (n, n)) * 1.0, np.inf)
    potential = random.integers(0, 12, n) * (1.0 if negative else 0.0)
    return A + potential[:, None] - potential[None, :]


def weighted(A: np.ndarray) -> Tensor:
    return tensor(A, "Dense(SparseList(Element(Inf)))")


@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_bellman_ford(seed: int, negative: bool) -> None:
    A = lengths(seed, 25, negative)
    assert (A < 0).any() == negative
    i, j = np.nonzero(np.isfinite(A))
    expected = csgraph.bellman_ford(sp.csr_array((A[i, j], (j, i)), A.shape), indices=0)
    D, _ = call("bellman_ford", "distances", weighted(A), 1)
    np.testing.assert_array_equal(D, expected)
    P = call("bellman_ford", "parents", weighted(A), D, 1)
    assert P[0] == 1
    for k in range(1, len(A)):
        assert (P[k] == 0) == np.isinf(D[k])
        assert P[k] == 0 or D[P[k] - 1] + A[k, P[k] - 1] == D[k]
        seen, at = set(), k + 1  # the parents lead to the source
        while P[k] and at != 1:
            assert at not in seen
            seen.add(at)
            at = P[at - 1]


def test_bellman_ford_finds_a_negative_cycle() -> None:
    A = np.full((3, 3), np.inf)
    A[1, 0], A[2, 1], A[1, 2] = 1.0, 2.0, -3.0
    with pytest.raises(FinchError, match="cycle of negative length"):
        call("bellman_ford", "distances", weighted(A), 1)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("density", [0.0, 0.1, 0.5])
def test_triangles(seed: int, density: float) -> None:
    A = edges(seed, 20, density)
    A = A | A.T
    expected = np.trace(np.linalg.matrix_power(A.astype(int), 3)) // 6
    L, U = tensor(np.tril(A), GRAPH), tensor(np.triu(A), GRAPH)
    both = (expected, expected)
    assert call("triangles", "from_the_smallest", L) == both
    assert call("triangles", "from_the_middle", L, U) == both
    assert call("triangles", "from_the_largest", U) == both
    assert call("triangles", "by_marks", U) == both[0]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("density", [0.0, 0.02, 0.04])
def test_components(seed: int, density: float) -> None:
    A = edges(seed, 40, density)
    count, labels = csgraph.connected_components(A, directed=False)
    found = call("components", "components", tensor(A, GRAPH))
    least = [1 + np.flatnonzero(labels == label)[0] for label in labels]
    np.testing.assert_array_equal(found, least)
    assert call("components", "how_many", found) == count


def test_pagerank_is_the_stationary_distribution() -> None:
    world = session("pagerank")
    A = plain(world["A"]).astype(float)
    n, d = len(A), world["damping"]
    expected = np.linalg.solve(np.eye(n) - d * A / A.sum(axis=0), np.full(n, (1 - d) / n))
    np.testing.assert_allclose(plain(world["rank"]), expected, atol=world["tolerance"])


# ------------------------------------------------------------------------------------------- images

SQUARE = np.ones((3, 3))
BYTES = ("Dense(Dense(Element(false)))", "Dense(Element(false))")
RUNS = ("Dense(SparseRunList(Pattern()))", "SparseRunList(Pattern())")
IMAGES = {
    "noise": shades(0, 11, 9),
    "off": shades(1, 5, 6, 0.0),
    "on": shades(1, 5, 6, 1.0),
    "a row": shades(2, 1, 7),
    "a column": shades(3, 9, 1),
}


def eroded(image: np.ndarray) -> np.ndarray:
    return scipy.ndimage.binary_erosion(image >= 128, SQUARE, border_value=1)


def dilated(image: np.ndarray) -> np.ndarray:
    return scipy.ndimage.binary_dilation(image >= 128, SQUARE)


@pytest.mark.parametrize("name", IMAGES)
def test_morphology_of_bytes_and_runs(name: str) -> None:
    image = IMAGES[name] >= 128
    m, n = image.shape
    for whole, line in (BYTES, RUNS):
        given = tensor(image, whole)
        found = call("erosion", "erode", Tensor(whole, m, n), Tensor(line, m), given)
        np.testing.assert_array_equal(found, eroded(IMAGES[name]))
        inverted = call("erosion", "invert", Tensor(whole, m, n), given)
        np.testing.assert_array_equal(inverted, ~image)
    found = call("erosion", "dilate", Tensor(BYTES[0], m, n), Tensor(BYTES[1], m), image)
    np.testing.assert_array_equal(found, dilated(IMAGES[name]))


def test_the_runs_dilated_by_the_example_are_dilated() -> None:
    world = session("erosion")
    expected = scipy.ndimage.binary_dilation(plain(world["image"]), SQUARE)
    np.testing.assert_array_equal(plain(world["dilated_runs"]), expected)


@pytest.mark.parametrize("m", [1, 63, 64, 65, 128, 150])
@pytest.mark.parametrize("share_on", [0.0, 0.9, 1.0])
def test_morphology_of_bits(m: int, share_on: float) -> None:
    image = np.asfortranarray(shades(m, m, 4, share_on))
    words = -(-m // 64)
    bits, blank = (call("erosion_bits", "pack", image, words, out) for out in (True, False))
    on = call("erosion_bits", "unpack", bits, m)
    np.testing.assert_array_equal(on, image >= 128)
    found = call("erosion_bits", "unpack", call("erosion_bits", "erode", bits), m)
    np.testing.assert_array_equal(found, eroded(image))
    mask = tensor(bits != 0, GRAPH)
    np.testing.assert_array_equal(call("erosion_bits", "words_on", bits), bits != 0)
    masked = call("erosion_bits", "erode_masked", bits, mask)
    np.testing.assert_array_equal(call("erosion_bits", "unpack", masked, m), eroded(image))
    found = call("erosion_bits", "unpack", call("erosion_bits", "dilate", blank), m)
    np.testing.assert_array_equal(found, dilated(image))


@pytest.mark.parametrize(
    "format", ["Dense(Dense(Element(false)))", GRAPH, "Dense(SparseRunList(Pattern()))"]
)
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_masked_histogram(format: str, share: float) -> None:
    image = np.asfortranarray(np.random.default_rng(4).integers(0, 256, (12, 10), np.uint8))
    mask = np.random.default_rng(5).random((12, 10)) < share
    expected, _ = np.histogram(image[mask], 16, (0, 256))
    np.testing.assert_array_equal(
        call("histogram", "histogram", image, tensor(mask, format)), expected
    )


@pytest.mark.parametrize("format", ["Dense(RunList(Element(0x00)))", "Dense(Dense(Element(0x00)))"])
def test_alpha_blending(format: str) -> None:
    random = np.random.default_rng(6)
    b, c = (np.repeat(random.integers(0, 256, (4, 5), np.uint8), 3, axis=0) for _ in range(2))
    found = call(
        "blend", "blend", Tensor(format, 1, 1), tensor(b, format), tensor(c, format), 0.75, 0.25
    )
    expected = np.round(0.75 * b.astype(float) + 0.25 * c)
    np.testing.assert_array_equal(found, expected.astype(np.uint8))


@pytest.mark.parametrize("shape", [(1, 1), (20, 15), (4, 30)])
def test_masked_convolution(shape: tuple[int, int]) -> None:
    A, F = sparse(7, *shape), np.random.default_rng(8).random((11, 11))
    expected = scipy.ndimage.correlate(A, F, mode="constant") * (A != 0)
    found = call("convolution", "masked_convolution", tensor(A, CSC), F)
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("level", ["SparseList", "SparseBlockList", "RunList", "SparseRunList"])
def test_similarity(level: str) -> None:
    random = np.random.default_rng(9)
    images = np.repeat(random.integers(0, 3, (10, 6)) * 1.0, 4, axis=0)
    found = call("similarity", "distances", tensor(images, f"Dense({level}(Element(0.0)))"))
    np.testing.assert_allclose(found, cdist(images.T, images.T), atol=1e-6)
