"""The derived rule CopyFibers: fibers in a row are copied as the base rules do it, element by element,
and in fewer steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from level_kernels import run, tensor

from finchlang.source import FinchError
from finchlang.tensors.tensor import Tensor

pytestmark = pytest.mark.checked

LISTS = "Dense(SparseList(Element(0.0)))"
SMALL = "Dense(SparseList{Int8}(Element(0.0)))"
COO = "Dense(SparseCOO{1}(Element(0.0)))"
FACES = "Dense(Dense(SparseList(Element(0.0))))"


def random(*shape: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(1, 9, shape) * (rng.random(shape) < 0.4).astype(float)


def copied(text: str, format: str, given: dict[str, Any], expected: np.ndarray) -> None:
    """What is assigned to C by these loops is the same with the rule and without, and stored alike, under
    both hosts and natively; with it in fewer steps."""
    found, steps, text = [], [], f"C .= 0\n{text}\nend"
    for which in ("all", "all-CopyFibers", "paper"):
        own = {"C": Tensor(format, *[0] * expected.ndim), **given}
        results, taken = run(text, own, which)
        np.testing.assert_array_equal(results["C"].to_numpy(), expected)
        found.append(results["C"].storage)
        steps.append(sum(taken.values()))
    for other in found[1:]:
        for level, same in zip(found[0], other, strict=True):
            for name in level:
                np.testing.assert_array_equal(level[name], same[name])
    assert steps[0] < steps[1] or not expected.size


@pytest.mark.parametrize("target", [LISTS, SMALL, COO])
@pytest.mark.parametrize("source", [LISTS, SMALL, COO])
def test_columns_side_by_side(source: str, target: str) -> None:
    arrays = {name: random(5, 4 + k, seed=k) for k, name in enumerate("AB")}
    given = {name: tensor(array, source) for name, array in arrays.items()}
    for stored in given.values():
        stored.storage[-1]["val"][0] = 0.0  # a value that is stored stays stored
    expected = np.hstack([given[name].to_numpy() for name in "AB"])
    copied("for j=_, i=_\nC[i, j] = hcat(A, B)[i, j]", target, given, expected)
    copied(
        "for j=_, i=_\nC[i, j] = hcat(B, A, B)[i, j]",
        target,
        given,
        expected[:, [*range(4, 9), *range(9)]],
    )


@pytest.mark.parametrize("part", ["1:3", "3:6", "4:4", "5:4", "1:6"])
def test_columns_in_a_row(part: str) -> None:
    array = random(5, 6)
    first, last = map(int, part.split(":"))
    text = f"for j=_, i=_\nC[i, j] = slice(A, 2, {part})[i, j]"
    copied(text, LISTS, {"A": tensor(array, LISTS)}, array[:, first - 1 : last])


@pytest.mark.parametrize(
    ("mode", "target"), [(2, FACES), (3, FACES), (3, "Dense(SparseCOO{2}(Element(0.0)))")]
)
def test_cubes(mode: int, target: str) -> None:
    """Of the last mode faces are copied, of the one before columns of each face."""
    cubes = {"A": random(3, 4, 2), "B": random(3, 4, 2, seed=1)}
    given = {name: tensor(cube, FACES) for name, cube in cubes.items()}
    expected = np.concatenate([*cubes.values()], mode - 1)
    text = f"for k=_, j=_, i=_\nC[i, j, k] = concat({mode}, A, B)[i, j, k]"
    copied(text, target, given, expected)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1)])
def test_nothing_beside_nothing(shape: tuple[int, int]) -> None:
    given = {"A": tensor(np.ones(shape), LISTS), "B": tensor(np.zeros(shape), LISTS)}
    text = "C .= 0\nfor j=_, i=_\nC[i, j] = hcat(A, B)[i, j]\nend"
    found, _ = run(text, {"C": Tensor(LISTS, 0, 0), **given})
    np.testing.assert_array_equal(
        found["C"].to_numpy(), np.hstack([np.ones(shape), np.zeros(shape)])
    )


def test_other_fills_other_types_and_what_is_computed_are_not_copied() -> None:
    array = random(4, 5)
    for source, value in (
        (LISTS, "slice(A, 2, 1:3)[i, j] * 2"),
        ("Dense(SparseList(Element(1.0)))", "slice(A, 2, 1:3)[i, j]"),
        ("Dense(SparseList(Element(0)))", "slice(A, 2, 1:3)[i, j]"),
    ):
        given = {"A": tensor(array.astype(int) if "(0)" in source else array, source)}
        text = f"C .= 0\nfor j=_, i=_\nC[i, j] = {value}\nend"
        found, _ = run(text, {"C": Tensor(LISTS, 0, 0), **given})
        np.testing.assert_array_equal(
            found["C"].to_numpy(), array[:, :3] * (2 if "*" in value else 1)
        )


def test_rows_that_do_not_fit_are_an_error() -> None:
    given = {"A": tensor(random(4, 5), LISTS), "B": tensor(random(3, 5), LISTS)}
    with pytest.raises(FinchError, match="dimension 1 of A is 1:4, but dimension 1 of B is 1:3"):
        run(
            "C .= 0\nfor j=_, i=_\nC[i, j] = hcat(A, B)[i, j]\nend",
            {"C": Tensor(LISTS, 0, 0), **given},
        )


def test_indices_without_room_for_all_positions_are_an_error() -> None:
    given = {name: tensor(np.ones((10, 10)), SMALL) for name in "AB"}
    text = "C .= 0\nfor j=_, i=_\nC[i, j] = hcat(A, B)[i, j]\nend"
    with pytest.raises(FinchError, match="Int8 has no room"):
        run(text, {"C": Tensor(SMALL, 0, 0), **given})
