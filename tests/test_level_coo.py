"""The SparseCOO level: its storage, and writing in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from level_kernels import changed, result, run, run_out_of_order, tensor

from finchlang.source import FinchError
from finchlang.tensors.formats import parse_format
from finchlang.tensors.tensor import Scalar, Tensor

pytestmark = pytest.mark.checked

COO = "SparseCOO{2}(Element(0.0))"
DENSE = "Dense(Dense(Element(0.0)))"
ARRAY = np.array([[0, 0, 5, 0], [8, 0, 0, 0], [6, 0, 0, 9.0]])
COPY = "C .= 0\nfor j = _, i = _\n C[i, j] = A[i, j]\nend"


def test_storage() -> None:
    packed = tensor(ARRAY, COO)
    written, _ = run(
        COPY, {"C": Tensor(COO, 0, 0), "A": tensor(ARRAY, "SparseHash{2}(Element(0.0))")}
    )
    for found in (packed, written["C"]):
        storage = found.storage[0]
        assert storage["ptr"].tolist() == [0, 4]
        assert storage["idx1"].tolist() == [1, 2, 0, 2]
        assert storage["idx2"].tolist() == [0, 0, 2, 3]
        assert found.storage[1]["val"].tolist() == [8, 6, 5, 9]


def test_storage_over_and_under_dense() -> None:
    cube = np.stack((ARRAY, 0 * ARRAY, ARRAY[::-1]), axis=2)
    storage = tensor(cube, f"Dense({COO})").storage[1]
    assert storage["ptr"].tolist() == [0, 4, 4, 8]
    assert storage["idx2"].tolist() == [0, 0, 2, 3, 0, 0, 2, 3]
    found = tensor(cube, "SparseCOO{2}(Dense(Element(0.0)))")
    # entries are the columns (j, k) that have something, each with all its rows
    assert found.storage[0]["idx1"].tolist() == [0, 2, 3, 0, 2, 3]
    assert found.storage[0]["idx2"].tolist() == [0, 0, 0, 2, 2, 2]
    assert found.storage[2]["val"][:6].tolist() == [0, 8, 6, 5, 0, 0]


def test_three_modes() -> None:
    rng = np.random.default_rng(0)
    cube = rng.integers(1, 5, (3, 4, 5)) * (rng.random((3, 4, 5)) < 0.3)
    a = tensor(cube, "SparseCOO{3}(Element(0))")
    text = "C .= 0\nfor k = _, j = _, i = _\n C[i, j, k] = A[i, j, k] * x[k]\nend"
    values = {"C": Tensor("SparseCOO{3}(Element(0))", 0, 0, 0), "A": a}
    values["x"] = tensor([1, 0, 2, 0, 3], "SparseList(Element(0))")
    np.testing.assert_array_equal(result(text, values), cube * [1, 0, 2, 0, 3])
    text = "s .= 0\nfor k = _, j = _, i = _\n s[] += A[follow(i), walk(j), gallop(k)]\nend"
    assert result(text, {"s": Scalar(0), "A": a}, "s") == cube.sum()


@pytest.mark.parametrize(
    "body",
    [
        "for i = _, j = _\n C[i, j] = A[i, j]\nend",
        "for k = 1:2, j = _, i = _\n C[i, j] += A[i, j]\nend",
        "for j = _, i = _\n C[i, j] = A[i, j]\nend\nfor j = _, i = _\n C[j, i] = A[i, j]\nend",
    ],
)
def test_orders_it_cannot_take(body: str) -> None:
    square = np.arange(9.0).reshape(3, 3)
    tensors = {"C": Tensor(COO, 0, 0), "A": tensor(square, DENSE)}
    error, found = run_out_of_order(f"C .= 0\n{body}", tensors)
    assert "SparseHash{2}(Element(0.0))" in str(error)
    wanted = result(f"C .= 0\n{body}", tensors | {"C": Tensor(DENSE, 3, 3)})
    np.testing.assert_array_equal(found["C"].to_numpy(), wanted)


def test_outer_mode_in_order_but_inner_repeated() -> None:
    text = "C .= 0\nfor j = _, k = _, i = _\n C[i, j] += A[i, k] * B[k, j]\nend"
    square = np.arange(9.0).reshape(3, 3)
    tensors = {"C": Tensor(COO, 0, 0), "A": tensor(square, DENSE), "B": tensor(square.T, DENSE)}
    _, found = run_out_of_order(text, tensors)
    np.testing.assert_array_equal(found["C"].to_numpy(), square @ square.T)


@pytest.mark.parametrize("format", [COO, f"Dense({COO})", f"SparseList({COO})"])
def test_updates_in_place_and_shifted_writes(format: str) -> None:
    modes = parse_format(format).order
    array = ARRAY if modes == 2 else np.stack((ARRAY, 0 * ARRAY), axis=2)
    index, loops = ("i, j", "j = _, i = _") if modes == 2 else ("i, j, k", "k = _, j = _, i = _")
    source = tensor(np.flip(array), f"Dense({DENSE})" if modes == 3 else DENSE)
    values: dict[str, Any] = {"C": tensor(array, format), "A": source}
    found = result(f"for {loops}\n C[{index}] += A[{index}]\nend", values)
    np.testing.assert_array_equal(found, array + np.flip(array))
    values = {"C": tensor(0 * array, format), "A": source}
    loops = loops.replace("i = _", "i = 1:2")
    target = index.replace("i", "i + 1")
    found = result(
        f"C .= 0\nfor {loops}\n C[{target}] = coalesce(A[~i{index[1:]}], 0)\nend", values
    )
    expected = np.zeros_like(found)
    expected[1:] = np.flip(array)[:2]
    np.testing.assert_array_equal(found, expected)


def test_equal_neighbours_are_merged_by_a_parent() -> None:
    """RunList(SparseCOO{2}(...)): equal matrices next to each other are stored once."""
    for name in ("SparseCOO{2}", "SparseHash{2}"):
        format = f"RunList({name}(Element(0.0)))"
        cube = np.stack((ARRAY, ARRAY, 0 * ARRAY, 0 * ARRAY, ARRAY[::-1], ARRAY), axis=2)
        values = {"C": Tensor(format, 0, 0, 0), "A": tensor(cube, f"Dense({DENSE})")}
        text = """C .= 0
        for k = _, j = _, i = _
          if A[i, j, k] > 0
            C[i, j, k] = A[i, j, k]
          end
        end"""
        found, _ = run(text, values)
        np.testing.assert_array_equal(found["C"].to_numpy(), cube)
        assert found["C"].storage[0]["right"].tolist() == [1, 3, 4, 5]
        assert found["C"].storage[1]["ptr"].tolist() == [0, 4, 4, 8, 12]
        text = "s .= 0\nfor k = _, j = _, i = _\n s[] += C[follow(i), follow(j), k]\nend"
        assert result(text, {"s": Scalar(0.0), "C": found["C"]}, "s") == cube.sum()


def test_scipy() -> None:
    matrix = scipy.sparse.random_array((20, 30), density=0.1, rng=np.random.default_rng(0))
    found = Tensor.from_coo(COO, matrix.shape, matrix.coords, matrix.data)
    np.testing.assert_array_equal(found.to_scipy().toarray(), matrix.toarray())


BREAKS = {
    "ptr": lambda s: s.update(ptr=np.array([0, 9])),
    "start": lambda s: s.update(ptr=np.array([1, 4])),
    "no ptr": lambda s: s.update(ptr=np.array([0])),
    "idx1": lambda s: s["idx1"].__setitem__(0, 3),
    "idx2": lambda s: s["idx2"].__setitem__(0, -1),
    "order": lambda s: s.update(idx1=s["idx1"][::-1].copy()),
    "twice": lambda s: s.update(idx1=np.array([1, 1, 0, 2])),
    "outer order": lambda s: s.update(idx2=np.array([0, 2, 0, 3])),
    "short": lambda s: s.update(idx2=s["idx2"][:2]),
}


@pytest.mark.parametrize("what", BREAKS)
def test_validate(what: str) -> None:
    broken = changed(tensor(ARRAY, COO), 0, BREAKS[what])
    with pytest.raises(FinchError, match="corrupt SparseCOO"):
        broken.validate()
