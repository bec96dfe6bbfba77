"""What the functions of examples visit: host steps, which do not depend on what is not stored."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest
from test_examples import BYTES, EXAMPLES, GRAPH, RUNS, call, tensor

from finchlang import Scalar, Session, Tensor
from finchlang.calls.runner import Observer

LISTS = "SparseByteMap(Pattern())"


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


def counted(name: str, function: str, *values: Any) -> tuple[list[Counter[str]], Any]:
    """The host steps, by their kind, of each kernel that a function of an example runs; and what the
    function gives."""
    world, steps = counting(name)
    steps.clear()
    result = call(name, function, *values, world=world)
    return list(steps), result


def total(name: str, function: str, *values: Any) -> int:
    return sum(steps.total() for steps in counted(name, function, *values)[0])


WAYS = ("merge_with_condition", "select_first", "select_last", "merge_with_filter")


def visit(way: str, a: range, b: range, n: int = 500) -> tuple[int, int]:
    """How many host steps a way of Finch'25 Fig 2 takes on two lists of places in 1:n, and how many
    of them are stores."""
    both = [np.isin(np.arange(1, n + 1), places) * np.arange(1, n + 1) for places in (a, b)]
    kernels, c = counted("even_indices", way, *(tensor(v, "SparseList(Element(0))") for v in both))
    np.testing.assert_array_equal(c, both[0] * both[1] * (both[0] % 2 == 0))
    steps = sum(kernels, Counter())
    return steps.total(), steps["store"]


@pytest.mark.parametrize("way", WAYS)
def test_ways_to_take_even_indices(way: str) -> None:
    """Only the filter looks at every index, only selecting first walks what meets nothing, and only
    selecting last stores what it drops (both lists have the same odd places there)."""
    a, b = range(1, 60, 3), range(2, 60, 2)
    (short, _), (long, _) = (visit(way, a, b, n) for n in (100, 300))
    assert (long - short >= 200) if way == "merge_with_filter" else long == short
    (short, _), (long, _) = (visit(way, range(2, last), range(1, 2)) for last in (100, 200))
    assert (long - short >= 100) if way == "select_first" else long == short
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
        line = Tensor("SparseRunList(Pattern())", len(bars))
        taken.append(
            total("erosion", "erode", Tensor(RUNS, *image.shape), line, tensor(image, RUNS))
        )
    assert taken[0] == taken[1]


def test_a_run_of_the_mask_is_decided_once() -> None:
    """Pixels cost what they cost; a mask of runs costs less on top than a mask of pixels."""
    image, mask = np.zeros((60, 3), np.uint8, order="F"), np.zeros((60, 3), bool)
    nothing = total("histogram", "histogram", image, tensor(mask, RUNS))
    mask[10:50] = True
    by_run, by_list, by_pixel = (
        total("histogram", "histogram", image, tensor(mask, f)) for f in (RUNS, GRAPH, BYTES)
    )
    assert nothing < by_run < by_list < by_pixel


def test_bellman_ford_looks_at_the_edges_of_the_frontier() -> None:
    """Vertices that no edge leads to cost nothing in a round."""
    taken = []
    for n in (200, 400):  # in which a frontier of one is listed, not scanned
        A = np.full((n, n), np.inf)
        A[1, 0], A[2, 0], A[3, 1] = 1.0, 2.0, 1.0
        D = np.where(np.arange(n) == 0, 0.0, np.inf)
        given = D.copy(), D, tensor(np.arange(n) == 0, LISTS), Tensor(LISTS, n)
        lengths = tensor(A, "Dense(SparseList(Element(Inf)))")
        taken.append(total("bellman_ford", "relax", lengths, *given, Scalar(0)))
        np.testing.assert_array_equal(D[:4], [0.0, 1.0, 2.0, np.inf])
    assert taken[0] == taken[1]


def test_to_pull_is_to_stop_at_the_first_neighbour() -> None:
    """Each vertex but the first is a neighbour of all; the frontier is vertex 1."""
    n = 20
    taken = []
    for neighbours in (5, 15):
        AT = np.zeros((n, n), bool)
        AT[:neighbours, 1:3] = True
        first = np.arange(n) == 0
        graph = tensor(AT.T, GRAPH), tensor(AT, GRAPH)
        given = Tensor(LISTS, n), tensor(first, LISTS), *graph, first.copy()
        P, p = np.zeros(n, np.int64), counting("bfs")[0].run("ShortCircuitScalar{0}()")
        taken.append(total("bfs", "step", *given, P, p, P.copy(), Scalar(0), Scalar(0), True))
        np.testing.assert_array_equal(P[:4], [0, 1, 1, 0])
    assert taken[0] == taken[1]


@pytest.mark.parametrize("function", ["from_the_smallest", "from_the_middle", "from_the_largest"])
def test_a_gallop_leaps_over_what_it_does_not_meet(function: str) -> None:
    """One vertex knows all others, each of which knows the next one, too. Where the function starts
    from the largest vertex, the one with all the neighbours is the last."""
    n = 60
    A = np.zeros((n, n), bool)
    A[1:, 0] = True
    A[np.arange(2, n), np.arange(1, n - 1)] = True
    L, U, largest = (tensor(M, GRAPH) for M in (A, A.T, A[::-1, ::-1]))
    given = {"from_the_smallest": (L,), "from_the_middle": (L, U), "from_the_largest": (largest,)}
    (merge, gallop), found = counted("triangles", function, *given[function])
    assert found == (n - 2, n - 2)
    assert gallop.total() < merge.total()
