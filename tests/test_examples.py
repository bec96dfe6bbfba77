"""Every example runs, prints what it should, leaves the same on every engine, and visits no more than
it says."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from level_kernels import tensor

from finchlang.session import Observer, Session
from finchlang.tensors.adopted import as_tensor
from finchlang.tensors.tensor import Scalar, Tensor
from finchlang.testing.compare import SEMANTICS, compare, ways_of

pytestmark = pytest.mark.optimised

EXAMPLES = Path(__file__).parent.parent / "examples"

#: example → a line it prints on its own data
PRINTED = {
    "any_order": "the square has 18 entries, of 12",
    "bellman_ford": "67 of 67 vertices are reached, in 6 rounds",
    "bfs": "2 steps pushed, 4 pulled",
    "blend": "the first pixels: [168 168 168 168 168]",
    "components": "without vertices 1 and 34: 5",
    "convolution": "170 of 3600 entries are computed",
    "erosion": "pixels that are on: 641, eroded 414, dilated 859",
    "erosion_bits": "119 of 300 words have a pixel that is on",
    "even_indices": "6 of 20 and 24 entries",
    "histogram": "1256 of 2400 pixels: [ 85  69  46   4  10  50  73  86  97 104 108 110 109 108 ",
    "linear_layer": "1695 of 9408 pixels are not blank",
    "own_operators": "common divisors: [4 2 1], of all of the second: 4",
    "pagerank": "converged after 19 steps",
    "saddle_point": "46 + 2 * 12 entries, 18 rows",
    "similarity": "image 1 is this far from images 2 and 3: [ 765.         1196.05601875]",
    "spgemm": "members 1 and 2 share 7.0 friends",
    "spmspv": "x has 8 of 67 entries",
    "spmv": "column by column: y[1:4] = [ 0.15057588 -0.09279997 -0.3058652  -0.488803  ]",
    "spmv_formats": "ragged: 96 of 576 entries are stored",
    "spmv_symmetric": "16 entries above the diagonal stand for 46",
    "stacked_spmv": "294 + 195 + 13 entries, 145 rows",
    "triangles": "45 triangles",
    "upper_triangle": "sum of the upper triangle: 22.0",
    "volume_slice": "349 of 900 places are dense, 151 in the plate",
}

#: example → the small data it is compared on: names of files below, or other arguments
ARGUMENTS = {
    "any_order": [],
    "bellman_ford": ["graph.mtx", "2"],
    "bfs": ["graph.mtx", "6"],
    "blend": ["image.npy", "other.npy"],
    "components": ["graph.mtx"],
    "convolution": ["tiny.mtx"],
    "erosion": ["image.npy"],
    "erosion_bits": ["tall.npy"],
    "even_indices": ["20"],
    "histogram": ["image.npy"],
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

#: examples with loops over all pixels or pairs, which only two of the semantics run
LONG = {
    *("convolution", "erosion", "erosion_bits", "pagerank", "similarity", "spgemm", "spmspv"),
    *("spmv_formats", "linear_layer", "stacked_spmv"),
}


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


def arguments(name: str, data: Path) -> list[str]:
    return [str(data / a) if "." in a else a for a in ARGUMENTS[name]]


def test_every_example_is_listed() -> None:
    names = {path.stem for path in EXAMPLES.glob("*.finch")}
    assert names == set(PRINTED) == set(ARGUMENTS)
    readme = (EXAMPLES / "README.md").read_text("utf-8")
    assert [name for name in sorted(names) if f"({name}.finch)" not in readme] == []


@pytest.mark.parametrize("name", PRINTED)
def test_prints(name: str) -> None:
    lines: list[str] = []
    Session(output=lines.append).run_file(EXAMPLES / f"{name}.finch")
    assert PRINTED[name] in "".join(lines)


def check(name: str, data: Path, engines: tuple[str, ...], rules: str) -> None:
    path = EXAMPLES / f"{name}.finch"
    text, ways = path.read_text("utf-8"), ways_of(engines, rules=rules)
    found = compare(text, str(path), args=arguments(name, data), ways=ways)
    assert not found.errors, found.errors
    assert found.agrees, found.report


@pytest.mark.parametrize("name", ARGUMENTS)
def test_engines_agree(name: str, data: Path) -> None:
    check(name, data, ("interpret", "native") if name in LONG else SEMANTICS, "all")


# One of each kind: lists, workspaces, early break, masks, runs.
@pytest.mark.parametrize(
    "name", ["spmv", "spgemm", "bfs", "triangles", "upper_triangle", "histogram", "blend"]
)
def test_derived_rules_change_nothing(name: str, data: Path) -> None:
    check(name, data, ("residual", "native"), "paper")


# ---------------------------------------------------------------------------------- what they visit


@cache
def counting(name: str) -> tuple[Session, list[Counter[str]]]:
    """The session an example leaves behind, and the host steps of each kernel it runs. Kernels run
    as residual programs, which take the interpreter's steps."""
    steps: list[Counter[str]] = []

    class Counting(Observer):
        def finished(self, event: Any, taken: Counter[str]) -> None:
            steps.append(taken)

    found = Session("residual", observer=Counting(), output=lambda _: None)
    found.run_file(EXAMPLES / f"{name}.finch")
    return found, steps


def run_counted(name: str, function: str, *values: Any) -> tuple[list[Counter[str]], Any]:
    """The host steps, by their kind, of each kernel that a function of an example runs; and what the
    function gives."""
    world, steps = counting(name)
    for k, value in enumerate(values):
        world[f"given_{k}"] = value
    given = ", ".join(f"given_{k}" for k in range(len(values)))
    steps.clear()
    result = world.run(f"{function}({given})")
    return list(steps), result


def total(name: str, function: str, *values: Any) -> int:
    return sum(steps.total() for steps in run_counted(name, function, *values)[0])


WAYS = ("merge_with_condition", "select_first", "select_last", "merge_with_filter")


def visit(way: str, a: range, b: range, n: int = 500) -> tuple[int, int]:
    """How many host steps a way of Finch'25 Fig 2 takes on two lists of places in 1:n, and how many
    of them are stores."""
    lists = []
    for places in (a, b):
        coordinates = np.array(places)
        lists.append(
            Tensor.from_coo("SparseList(Element(0))", (n,), [coordinates - 1], coordinates)
        )
    kernels, c = run_counted("even_indices", way, *lists)
    found = as_tensor(c)
    assert found is not None
    both = set(a) & set(b)
    expected = [i * i if i % 2 == 0 and i in both else 0 for i in range(1, n + 1)]
    np.testing.assert_array_equal(found.to_numpy(), expected)
    steps = sum(kernels, Counter())
    return steps.total(), steps["store"]


@pytest.mark.parametrize("way", WAYS)
def test_only_the_filter_looks_at_every_index(way: str) -> None:
    a, b = range(1, 60, 3), range(2, 60, 2)
    (short, _), (long, _) = (visit(way, a, b, n) for n in (100, 300))
    assert (long - short >= 200) if way == "merge_with_filter" else long == short


@pytest.mark.parametrize("way", WAYS)
def test_only_selecting_first_walks_what_meets_nothing(way: str) -> None:
    (short, _), (long, _) = (visit(way, range(2, last), range(1, 2)) for last in (100, 200))
    assert (long - short >= 100) if way == "select_first" else long == short


@pytest.mark.parametrize("way", WAYS)
def test_only_selecting_last_stores_what_it_drops(way: str) -> None:
    """Both lists have the same odd places. A product stored takes a coordinate and a value, and is
    read again; one that is only looked at may leave a value that the next one replaces."""
    stores = [visit(way, range(1, last, 2), range(1, last, 2))[1] for last in (101, 201)]
    assert (stores[1] - stores[0] > 100) == (way == "select_last")


def test_the_condition_in_the_merge_is_the_least_work() -> None:
    a, b = range(1, 120, 3), range(2, 120, 2)
    taken = {way: visit(way, a, b)[0] for way in WAYS}
    assert min(taken, key=taken.__getitem__) == "merge_with_condition"
    assert max(taken, key=taken.__getitem__) == "merge_with_filter"


def test_runs_are_eroded_where_they_begin_and_end() -> None:
    """The same bars in lines of 30 and of 90 pixels."""
    taken = []
    for scale in (1, 3):
        bars = np.repeat(np.array([0, 1, 1, 0, 1, 0], bool), 5 * scale)
        image = np.repeat(bars[:, None], 4, axis=1)
        runs, line = "Dense(SparseRunList(Pattern()))", "SparseRunList(Pattern())"
        given = Tensor(runs, *image.shape), Tensor(line, len(bars)), tensor(image, runs)
        taken.append(total("erosion", "erode", *given))
    assert taken[0] == taken[1]


def test_a_run_of_the_mask_is_decided_once() -> None:
    """Pixels cost what they cost; a mask of runs costs less on top than a mask of pixels."""
    image, mask = np.zeros((60, 3), np.uint8, order="F"), np.zeros((60, 3), bool)
    nothing = total(
        "histogram", "histogram", image, tensor(mask, "Dense(SparseRunList(Pattern()))")
    )
    mask[10:50] = True
    by_run, by_list, by_pixel = (
        total("histogram", "histogram", image, tensor(mask, f))
        for f in (
            "Dense(SparseRunList(Pattern()))",
            "Dense(SparseList(Pattern()))",
            "Dense(Dense(Element(false)))",
        )
    )
    assert nothing < by_run < by_list < by_pixel


def test_bellman_ford_looks_at_the_edges_of_the_frontier() -> None:
    """Vertices that no edge leads to cost nothing in a round."""
    taken = []
    for n in (200, 400):  # in which a frontier of one is listed, not scanned
        A = np.full((n, n), np.inf)
        A[1, 0], A[2, 0], A[3, 1] = 1.0, 2.0, 1.0
        D = np.full(n, np.inf)
        D[0] = 0.0
        frontier = np.zeros(n, bool)
        frontier[0] = True
        lists = "SparseByteMap(Pattern())"
        given = D.copy(), D, tensor(frontier, lists), Tensor(lists, n)
        steps = total("bellman_ford", "relax", tensor(A, "Dense(SparseList(Element(Inf)))"), *given)
        taken.append(steps)
        np.testing.assert_array_equal(D[:4], [0.0, 1.0, 2.0, np.inf])
    assert taken[0] == taken[1]


def test_sizes_found_equal_in_turn_are_one() -> None:
    """Those of rows, and later those of columns: the columns of A are then walked to their ends, which
    need not be looked for."""
    n, lists = 9, "SparseByteMap(Pattern())"
    A = tensor(np.full((n, n), 1.0), "Dense(SparseList(Element(Inf)))")
    given = np.ones(n), np.ones(n), tensor(np.ones(n, bool), lists), Tensor(lists, n)
    [steps], _ = run_counted("bellman_ford", "relax", A, *given)
    assert steps["count"] > n and not steps["search"]


def test_to_pull_is_to_stop_at_the_first_neighbour() -> None:
    """Each vertex but the first is a neighbour of all; the frontier is vertex 1."""
    n, lists = 20, "SparseByteMap(Pattern())"
    taken = []
    for neighbours in (5, 15):
        AT = np.zeros((n, n), bool)
        AT[:neighbours, 1:3] = True
        frontier, visited = np.zeros(n, bool), np.zeros(n, bool)
        frontier[0] = visited[0] = True
        P = np.zeros(n, np.int64)
        given = (
            Tensor(lists, n),
            tensor(frontier, lists),
            tensor(AT, "Dense(SparseList(Pattern()))"),
        )
        taken.append(total("bfs", "pull", *given, visited, P, P.copy(), Scalar(0), Scalar(0)))
        np.testing.assert_array_equal(P[:4], [0, 1, 1, 0])
    assert taken[0] == taken[1]


@pytest.mark.parametrize("function", ["from_the_smallest", "from_the_middle", "from_the_largest"])
def test_a_gallop_leaps_over_what_it_does_not_meet(function: str) -> None:
    """One vertex knows all others, each of which knows the next one, too. Where the function starts
    from the largest vertex, the one with all the neighbours is the last."""
    n, format = 60, "Dense(SparseList(Pattern()))"
    A = np.zeros((n, n), bool)
    A[1:, 0] = True
    A[np.arange(2, n), np.arange(1, n - 1)] = True
    L, U = tensor(A, format), tensor(A.T, format)
    largest = tensor(A[::-1, ::-1], format)
    given = {"from_the_smallest": (L,), "from_the_middle": (L, U), "from_the_largest": (largest,)}
    (merge, gallop), found = run_counted("triangles", function, *given[function])
    assert found == (n - 2, n - 2)
    assert gallop.total() < merge.total()
