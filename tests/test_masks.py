"""Masks: what they hold of, their dimensions, and that nothing outside of them is visited."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernels import kernel
from level_kernels import run

from finchlang.session import Session
from finchlang.source import FinchError
from finchlang.tensors.tensor import Scalar, Tensor
from finchlang.testing.compare import SEMANTICS, compare, ways_of

TABLES = pytest.mark.parametrize("which", ["all", "paper"])
N = 7
#: conditions on i and j, and what they mean
CONDITIONS: dict[str, Callable[[int, int], bool]] = {
    "UpTriMask()[i, j]": lambda i, j: i <= j,
    "LoTriMask()[i, j]": lambda i, j: i >= j,
    "lotrimask()[i, j]": lambda i, j: i >= j,
    "diagmask()[i, j]": lambda i, j: i == j,
    "BandMask()[i, j, m]": lambda i, j: j <= i <= 5,
    "!(LoTriMask()[i, j])": lambda i, j: i < j,
    "!(bandmask()[i, j, m])": lambda i, j: not j <= i <= 5,
    "splitmask(7, 3)[i, j]": lambda i, j: 7 * (j - 1) // 3 < i <= 7 * j // 3,
    "!splitmask(7, 3)[i, j]": lambda i, j: not 7 * (j - 1) // 3 < i <= 7 * j // 3,
    "chunkmask(7, 3)[i, j]": lambda i, j: 3 * (j - 1) < i <= 3 * j,
    "chunkmask(n, 2)[i, j]": lambda i, j: 2 * (j - 1) < i <= 2 * j,
    "lotrimask()[i, j] && !diagmask()[i, j]": lambda i, j: i > j,
    "uptrimask()[i, j] || i == 6": lambda i, j: i <= j or i == 6,
    "chunkmask(7, 3)[i, j] && lotrimask()[i, j]": lambda i, j: 3 * (j - 1) < i <= 3 * j and i >= j,
    "bandmask()[i, j, m] || diagmask()[i, j] && i > 2": lambda i, j: j <= i <= 5 or (i == j > 2),
}
#: how many columns the masks with sizes have
COLUMNS = {"splitmask(7, 3)": 3, "chunkmask(7, 3)": 3, "chunkmask(n, 2)": 4}


def columns(condition: str) -> int:
    return next((n for name, n in COLUMNS.items() if name in condition), N)


def matrix(columns: int) -> np.ndarray:
    rng = np.random.default_rng(columns)
    return rng.integers(1, 9, (N, columns)) * (rng.random((N, columns)) < 0.6)


def script(condition: str, format: str, body: str) -> str:
    width = columns(condition)
    rows = "; ".join(" ".join(map(str, row)) for row in matrix(width))
    return f"""
    n = {N}
    m = 5
    A = Tensor({format}, [{rows}])
    s = Scalar(0)
    C = Tensor(Dense(SparseList(Element(0))), {N}, {width})
    """ + kernel(f"s .= 0\nC .= 0\nfor j = _, i = _\nif {condition}\n{body}\nend\nend")


@TABLES
@pytest.mark.parametrize("format", ["Dense(SparseList(Element(0)))", "Dense(Dense(Element(0)))"])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_masks_hold_of_what_they_say(condition: str, format: str, which: str) -> None:
    text = script(condition, format, "s[] += A[i, j]\nC[i, j] = 2 * A[i, j]")
    engines = SEMANTICS if which == "all" else ("residual", "native")
    found = compare(text, ways=ways_of(engines, rules=which))
    assert found.agrees and not found.errors, found.report
    A, holds = matrix(columns(condition)), CONDITIONS[condition]
    kept = [[A[i, j] * holds(i + 1, j + 1) for j in range(A.shape[1])] for i in range(N)]
    results = found.results["native"]
    np.testing.assert_array_equal(results["C"].to_numpy(), 2 * np.array(kept))
    assert results["s"].value == np.sum(kept)


@pytest.mark.parametrize("n, parts", [(0, 2), (1, 3), (7, 1), (7, 7), (3, 5), (8, 3), (4, 0)])
@pytest.mark.parametrize("mask", ["splitmask", "chunkmask"])
def test_parts_cover_everything_once_and_give_loops_their_extents(
    mask: str, n: int, parts: int
) -> None:
    text = f"""
    n = {n}
    p = {parts}
    C = Tensor(Dense(Dense(Element(0))), 1, 1)
    @finch begin
        C .= 0
        for j = _, i = _
            if {mask}(n, p)[i, j]
                C[i, j] += 1
            end
        end
    end
    """
    found = compare(text)
    assert found.agrees and not found.errors, found.report
    C = found.results["native"]["C"].to_numpy()
    if mask == "splitmask":
        assert C.shape == (n, parts)
        if parts:
            assert np.ptp(C.sum(0)) <= 1
    else:
        assert C.shape == (n, -(-n // parts) if parts else 0)
        assert all(C.sum(0)[:-1] == parts)
    if parts:
        assert (C.sum(1) == 1).all()


def test_a_sum_over_parts_is_the_sum() -> None:
    text = """
    x = [1.0, 2.0, 4.0, 8.0, 16.0]
    y = Tensor(Dense(Element(0.0)))
    z = Tensor(Dense(Element(0.0)))
    @finch begin
        y .= 0
        z .= 0
        for j = _, i = _
            if splitmask(size(x, 1), 2)[i, j]
                y[j] += x[i]
            end
        end
        for j = _, i = _
            if chunkmask(5, 2)[i, j]
                z[j] += x[i]
            end
        end
    end
    """
    found = compare(text)
    assert found.agrees and not found.errors, found.report
    assert found.results["native"]["y"].to_numpy().tolist() == [3.0, 28.0]
    assert found.results["native"]["z"].to_numpy().tolist() == [3.0, 12.0, 16.0]


def test_sizes_of_masks_take_part_in_dimension_checks() -> None:
    text = """
    x = [1.0, 2.0, 3.0]
    s = Scalar(0.0)
    @finch for j = _, i = _
        if chunkmask(4, 2)[i, j]
            s[] += x[i]
        end
    end
    """
    found = compare(text)
    assert found.agrees and set(found.results["native"].values()) == {"dimension"}


@pytest.mark.parametrize(
    "condition, kind",
    [
        ("splitmask(4)[i, j]", "type"),
        ("uptrimask(4)[i, j]", "type"),
        ("bandmask()[i, j]", "dimension"),
        ("splitmask(4.0, 2)[i, j]", "type"),
        ("chunkmask(nowhere, 2)[i, j]", "unknown name"),
        ("chunkmask(x[1], 2)[i, j]", "type"),
    ],
)
def test_faults(condition: str, kind: str) -> None:
    session = Session("interpret", output=lambda _: None)
    session["x"], session["s"] = np.ones(4, int), Scalar(0)
    with pytest.raises(FinchError) as caught:
        session.run(f"@finch for j = 1:2, i = 1:4\nif {condition}\ns[] += x[i]\nend\nend")
    assert caught.value.kind == kind


# ------------------------------------------------------------------------------------------ steps


def count(condition: str, tensors: dict[str, Any], which: str) -> int:
    text = f"for j = _, i = _\nif {condition}\ns[] += A[i, j]\nend\nend"
    return run(text, {**tensors, "s": Scalar(0.0)}, which)[1].total()


@TABLES
def test_nothing_outside_of_a_mask_is_visited(which: str) -> None:
    for condition, share in (
        ("splitmask(64, 8)[i, j]", 1 / 8),
        ("chunkmask(64, 8)[i, j]", 1 / 8),
        ("diagmask()[i, j]", 1 / 64),
        ("splitmask(64, 8)[i, j] && lotrimask()[i, j]", 1 / 8),
        ("splitmask(64, 8)[i, j] || diagmask()[i, j]", 1 / 8),
    ):
        A = Tensor.from_numpy(np.ones((64, 8)))
        everything = count("true", {"A": A}, which)
        assert count(condition, {"A": A}, which) < everything * share + 8 * 30


@TABLES
def test_lists_are_searched_for_where_a_mask_begins(which: str) -> None:
    """A column of 50 or of 500 entries below the mask: a search, no walk."""
    totals = []
    for n in (100, 1000):
        A = Tensor.from_numpy(np.ones((n, 2)), "Dense(SparseList(Element(0.0)))")
        totals.append(count(f"!(uptrimask()[i, j + {n - 6}])", {"A": A}, which))
    assert totals[1] - totals[0] <= 40
