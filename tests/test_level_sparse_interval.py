"""SparseInterval: one run in each fiber (Finch'25 Table 4); a second one is an error at run time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from level_kernels import changed, result, run, run_out_of_order, tensor

from finchlang.source import FinchError
from finchlang.tensors.tensor import Scalar, Tensor

pytestmark = pytest.mark.checked

VECTOR = "SparseInterval(Element(0.0))"
OTHERS = ("Dense", "SparseList", "SparseByteMap", "RunList", "SparseRunList", "PackBits")
VECTORS: dict[str, list[float]] = {
    "inside": [0, 0, 3, 3, 3, 0],
    "nothing": [],
    "fill": [0, 0, 0],
    "no fill": [2, 2],
    "one": [7],
    "one fill": [0],
    "at the start": [5, 5, 0],
    "at the end": [0, 5],
}
COPY = "C .= 0\nfor i = _\nC[i] = A[i]\nend"


def ends(found: Tensor) -> list[list[int]]:
    return [found.storage[0][name].tolist() for name in ("left", "right")]


def test_storage() -> None:
    assert ends(tensor(np.array(VECTORS["inside"], float), VECTOR)) == [[2], [4]]
    assert ends(tensor(np.array(VECTORS["fill"], float), VECTOR)) == [[1], [0]]
    matrix = np.array([[0.0, 1, 0], [0, 1, 2]])
    made = tensor(matrix, f"Dense({VECTOR})")
    assert [made.storage[1][name].tolist() for name in ("left", "right")] == [[1, 0, 1], [0, 1, 1]]
    assert made.storage[2]["val"].tolist() == [0, 1, 2]
    with pytest.raises(FinchError, match="second run, 3:3, .* already: 1:1") as fault:
        tensor(np.array([1.0, 0, 1]), VECTOR)
    assert fault.value.kind == "access order"


@pytest.mark.parametrize("entries", [([2], [6]), ([3], [1]), ([-1], [2]), ([], [])])
def test_corrupt_storage(entries: tuple[list[int], list[int]]) -> None:
    made = tensor(np.array(VECTORS["inside"], float), VECTOR)
    left, right = (np.array(own, np.int64) for own in entries)
    broken = changed(made, 0, lambda s: s.update(left=left, right=right))
    with pytest.raises(FinchError, match="corrupt"):
        broken.validate()


@pytest.mark.parametrize("protocol", ["walk", "follow"])
def test_reads(protocol: str) -> None:
    for values in VECTORS.values():
        array = np.array(values, float)
        made = tensor(array, VECTOR)
        np.testing.assert_array_equal(made.to_numpy(), array)
        text = f"s .= 0\nfor i = _\ns[] += A[{protocol}(i)]\nend"
        assert result(text, {"A": made, "s": Scalar(0.0)}, "s") == array.sum()


OPERATIONS: dict[str, Any] = {"+": np.add, "*": np.multiply}


@pytest.mark.parametrize("operator", OPERATIONS)
@pytest.mark.parametrize("other", (*OTHERS, "SparseInterval"))
def test_two_operands(operator: str, other: str) -> None:
    a, b = np.array([0, 0, 3, 3, 3, 0.0]), np.array([0, 0, 0, 2, 2, 2.0])
    for protocol in ("walk", "follow"):
        found = result(
            f"C .= 0\nfor i = _\nC[i] = A[{protocol}(i)] {operator} B[i]\nend",
            {
                "A": tensor(a, VECTOR),
                "B": tensor(b, f"{other}(Element(0.0))"),
                "C": Tensor("SparseRunList(Element(0.0))", 6),
            },
            native=protocol == "walk",
        )
        np.testing.assert_array_equal(found, OPERATIONS[operator](a, b))


@pytest.mark.parametrize("source", OTHERS)
def test_writes(source: str) -> None:
    """Coordinate by coordinate or run by run, neighbours of equal value are one run."""
    for values in VECTORS.values():
        array = np.array(values, float)
        tensors = {"A": tensor(array, f"{source}(Element(0.0))"), "C": Tensor(VECTOR, len(array))}
        found, _ = run(COPY, tensors, native=source in ("Dense", "SparseList"))
        assert ends(found["C"]) == ends(tensor(array, VECTOR))
        np.testing.assert_array_equal(found["C"].to_numpy(), array)


@pytest.mark.parametrize("values", [[1, 0, 1], [1, 2], [0, 1, 1, 3, 0], [1, 1, 0, 0, 1]])
def test_a_second_run(values: list[float]) -> None:
    """An error by name, and the output as it was."""
    array = np.array(values, float)
    for source in ("Dense", "SparseList", "RunList"):
        before = np.zeros(len(array))
        before[0] = 9
        tensors = {"A": tensor(array, f"{source}(Element(0.0))"), "C": tensor(before, VECTOR)}
        with pytest.raises(FinchError, match="a second run") as fault:
            run(COPY, tensors)
        assert fault.value.kind == "access order"


def test_patterns() -> None:
    format = "SparseInterval(Pattern())"
    source = "Dense(Element(false))"
    copy = COPY.replace("0", "false")
    good, bad = np.array([False, True, True]), np.array([True, False, True])
    found, _ = run(copy, {"A": tensor(good, source), "C": Tensor(format, 3)})
    assert ends(found["C"]) == [[1], [2]]
    with pytest.raises(FinchError, match="a second run, 3:3"):
        run(copy, {"A": tensor(bad, source), "C": Tensor(format, 3)})


MATRICES = {
    "a block": [[0, 4, 4, 0], [0, 4, 4, 0]],
    "a column": [[0, 0, 1], [0, 0, 1]],
    "nothing stored": [[0, 0], [0, 0]],
}


@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("other", OTHERS)
def test_over_and_under_other_levels(matrix: str, other: str) -> None:
    array = np.array(MATRICES[matrix], float)
    source = tensor(array, "SparseRunList(SparseRunList(Element(0.0)))")
    text = "C .= 0\nfor j = _, i = _\nC[i, j] = A[i, j]\nend"
    for format in (f"{other}({VECTOR})", f"SparseInterval({other}(Element(0.0)))"):
        tensors = {"A": source, "C": Tensor(format, *array.shape)}
        np.testing.assert_array_equal(result(text, tensors, native=False), array, format)
        made = tensor(array, format)
        np.testing.assert_array_equal(made.to_numpy(), array, format)
        assert (
            result(
                "s .= 0\nfor j = _, i = _\ns[] += A[i, j]\nend",
                {"A": made, "s": Scalar(0.0)},
                "s",
                native=False,
            )
            == array.sum()
        )


def test_equal_subfibers_column_by_column() -> None:
    """Dense subfibers are compared while they are written; others would have to be frozen first."""
    array = np.array([[0.0, 1, 1, 0], [0, 2, 2, 0]])
    text = "C .= 0\nfor j = _, i = _\nC[i, j] = A[i, j]\nend"
    source = tensor(array, "Dense(Dense(Element(0.0)))")
    dense = "SparseInterval(Dense(Element(0.0)))"
    found, _ = run(text, {"A": source, "C": Tensor(dense, 2, 4)})
    assert ends(found["C"]) == [[1], [2]]
    assert found["C"].storage[2]["val"].tolist() == [1, 2]
    source = tensor(array, "SparseList(SparseList(Element(0.0)))")
    with pytest.raises(FinchError, match="a second run, 3:3"):
        run(text, {"A": source, "C": Tensor("SparseInterval(SparseList(Element(0.0)))", 2, 4)})


def test_update_in_place() -> None:
    tensors = {
        "C": tensor(np.array([0.0, 1, 1, 1]), VECTOR),
        "A": tensor(np.array([0.0, 2, 2, 2]), "SparseList(Element(0.0))"),
    }
    found, _ = run("for i = _\nC[i] += A[i]\nend", tensors)
    assert ends(found["C"]) == [[1], [3]]
    assert found["C"].to_numpy().tolist() == [0, 3, 3, 3]
    tensors["A"] = tensor(np.array([0.0, 2, 0, 2]), "SparseList(Element(0.0))")
    with pytest.raises(FinchError, match="a second run"):
        run("for i = _\nC[i] += A[i]\nend", tensors)


def test_order() -> None:
    tensors = {"A": tensor(np.eye(2), "Dense(Dense(Element(0.0)))"), "C": Tensor(VECTOR, 2)}
    _, found = run_out_of_order("C .= 0\nfor j = _, i = _\nC[i] += A[i, j]\nend", tensors)
    assert found["C"].to_numpy().tolist() == [1, 1]


def test_steps_do_not_grow_with_the_run() -> None:
    def steps(length: int) -> int:
        values = np.repeat([0.0, 2, 0], length)
        tensors = {"A": tensor(values, VECTOR), "C": Tensor(VECTOR, 3 * length), "s": Scalar(0.0)}
        text = "C .= 0\ns .= 0\nfor i = _\nC[i] = 2 * A[i]\ns[] += A[i]\nend"
        found, counted = run(text, tensors)
        assert found["s"].value == 2 * length
        assert ends(found["C"]) == [[length], [2 * length - 1]]
        return counted.total()

    assert steps(300_000) == steps(10)
