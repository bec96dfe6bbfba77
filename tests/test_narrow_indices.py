"""Index types of few bits: what they cannot hold is an error, never another number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from level_kernels import run

from finchlang.source import FinchError
from finchlang.tensors.tensor import Tensor

pytestmark = pytest.mark.checked

ONE = "{}{{{}}}(Element(0.0))"
LISTS = ("SparseList", "SparseByteMap", "SparseBlockList", "SparseBand")
RUNS = ("RunList", "SparseRunList", "PackBits")
LEVELS = (*LISTS, *RUNS, "SparseHash", "SparseInterval", "SparsePinpoint")
INDICES = (("Int8", 127), ("UInt8", 255), ("Int16", 32767))


def signed(level: str, index: str) -> bool:
    return index.startswith("Int") or level not in ("SparseBand", "SparsePinpoint")


def point(size: int) -> np.ndarray:
    """Zeros, and one 1 at the end."""
    array = np.zeros(size)
    array[-1] = 1
    return array


def fault(text: str, tensors: dict[str, Any]) -> FinchError:
    """What every engine ends with; outputs are as they were."""
    with pytest.raises(FinchError) as caught:
        run(text, tensors)
    return caught.value


COPY = "C .= 0\nfor i = _\nC[i] = x[i]\nend"


def given(format: str, size: int) -> dict[str, Any]:
    return {
        "C": Tensor(format, 1),
        "x": Tensor.from_numpy(point(size), ONE.format("SparseList", "Int64")),
    }


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("index, most", INDICES)
def test_dimensions_of_any_size_that_fits(level: str, index: str, most: int) -> None:
    if not signed(level, index):
        return
    format = ONE.format(level, index)
    found, _ = run(COPY, given(format, most))
    np.testing.assert_array_equal(found["C"].to_numpy(), point(most))
    np.testing.assert_array_equal(Tensor.from_numpy(point(most), format).to_numpy(), point(most))
    for make in (
        lambda: Tensor(format, most + 1),
        lambda: Tensor.from_numpy(point(most + 1), format),
    ):
        with pytest.raises(FinchError, match=f"{index} has no room") as caught:
            make()
        assert caught.value.kind == "dimension"
    error = fault(COPY, given(format, most + 1))
    assert error.kind == "dimension" and f"of size {most + 1}" in error.message


@pytest.mark.parametrize("level", [*LISTS, *RUNS])
def test_positions_of_all_fibers_together(level: str) -> None:
    """Each fiber is short, but the positions of all are counted."""
    format = f"Dense({ONE.format(level, 'Int8')})"
    text = "C .= 0\nfor j = _, i = _\nC[i, j] = x[i, j]\nend"
    for columns in (12, 13):
        x = 1.0 + np.arange(10 * columns).reshape(10, columns)
        tensors = {"C": Tensor(format, 1, 1), "x": Tensor.from_numpy(x)}
        if columns == 12:
            found, _ = run(text, tensors)
            np.testing.assert_array_equal(found["C"].to_numpy(), x)
            np.testing.assert_array_equal(Tensor.from_numpy(x, format).to_numpy(), x)
            continue
        error = fault(text, tensors)
        assert error.kind == "resource" and "130 positions" in error.message
        with pytest.raises(FinchError, match="Int8 has no room for the 130 positions") as caught:
            Tensor.from_numpy(x, format)
        assert caught.value.kind == "resource"


def test_places_of_a_bytemap_that_is_updated_in_place() -> None:
    """Few entries are stored, but while it is updated the places of all fibers are numbers."""
    x = np.zeros((10, 13))
    x[9, 12] = 1
    few = Tensor.from_numpy(x[:, :12], "Dense(SparseByteMap{Int8}(Element(0.0)))")
    many = Tensor.from_numpy(x, "Dense(SparseByteMap{Int8}(Element(0.0)))")
    np.testing.assert_array_equal(many.to_numpy(), x)
    text = "for j = _, i = _\nC[i, j] += 1\nend"
    assert run(text, {"C": few})[0]["C"].to_numpy().all()
    error = fault(text, {"C": many})
    assert error.kind == "resource" and "130 positions" in error.message


def test_workspaces_have_the_index_type_too() -> None:
    text = "for i = _\nC[i] += 1\nend"
    C = Tensor.from_numpy(point(127), "SparseList{Int8}(Element(0.0))")
    np.testing.assert_array_equal(run(text, {"C": C})[0]["C"].to_numpy(), point(127) + 1)
