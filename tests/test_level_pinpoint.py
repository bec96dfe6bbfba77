"""The SparsePinpoint level."""

from __future__ import annotations

import numpy as np
import pytest
from level_kernels import changed, result, run, tensor

from finchlang.source import FinchError
from finchlang.tensors.formats import parse_format
from finchlang.tensors.tensor import Scalar, Tensor

pytestmark = pytest.mark.checked

POINT = "SparsePinpoint(Element(0.0))"
VECTORS = [np.zeros(0), np.zeros(5), np.array([7.0]), np.eye(6)[0], 3 * np.eye(6)[5], np.eye(6)[2]]
OTHERS = [
    "Dense(Element(0.0))",
    "SparseList(Element(0.0))",
    "SparseByteMap(Element(0.0))",
    "SparseBand(Element(0.0))",
    "SparseBlockList(Element(0.0))",
    POINT,
]
OPERATORS = {"+": np.add, "*": np.multiply, "min": np.minimum}


def test_storage_is_that_of_table_4() -> None:
    array = np.array([[0, 0, 5, 0], [8, 0, 0, 0], [0, 0, 0, 9.0]])
    found = tensor(array, f"Dense({POINT})")
    assert found.storage[1]["idx"].tolist() == [1, -1, 0, 2]
    assert found.storage[2]["val"].tolist() == [8, 0, 5, 9]
    assert found.countstored() == 3


def test_both_names_and_index_types() -> None:
    assert parse_format("SparsePoint(Element(0.0))") == parse_format(POINT)
    small = tensor(np.eye(4)[3], "SparsePinpoint{Int8}(Element(0.0))")
    assert small.storage[0]["idx"].dtype == np.int8
    with pytest.raises(FinchError, match="must be signed") as error:
        parse_format("SparsePinpoint{UInt8}(Element(0.0))")
    assert error.value.kind == "type"


@pytest.mark.parametrize("leaf", ["Element(0.0)", "Element(Int32(0))", "Element(Inf)", "Pattern()"])
@pytest.mark.parametrize("shape", [(0,), (1,), (5,), (0, 3), (3, 0), (4, 3)])
def test_round_trips(leaf: str, shape: tuple[int, ...]) -> None:
    level = parse_format(
        f"SparsePinpoint({leaf})" if len(shape) == 1 else f"Dense(SparsePinpoint({leaf}))"
    )
    array = np.full(shape, level.fill.value, level.element_type.dtype)
    for place in (None, 0, -1):
        if place is not None and array.size:
            array[place] = True if leaf == "Pattern()" else 3
            if array.ndim == 2:
                array[:place] = level.fill.value
        if array.ndim == 2 and any(
            (array[:, j] != level.fill.value).sum() > 1 for j in range(shape[1])
        ):
            continue
        if array.ndim == 1 and (array != level.fill.value).sum() > 1:
            continue
        found = Tensor.from_numpy(array, level)
        found.checked = False
        found.validate()
        np.testing.assert_array_equal(found.to_numpy(), array)


def test_two_entries_in_a_fiber_are_refused() -> None:
    with pytest.raises(FinchError, match="one coordinate") as error:
        tensor(np.ones(2), POINT)
    assert error.value.kind == "access order"
    text = "C .= 0\nfor i = _\n C[i] = A[i]\nend"
    with pytest.raises(FinchError, match="coordinate 4 is the second .* after 2") as error:
        run(text, {"C": Tensor(POINT, 0), "A": tensor([0, 1, 0, 1.0], OTHERS[1])})
    assert error.value.kind == "access order"


@pytest.mark.parametrize("protocol", ["walk", "gallop", "follow"])
@pytest.mark.parametrize("array", VECTORS, ids=str)
def test_reading(protocol: str, array: np.ndarray) -> None:
    read = f"A[{protocol}(i)]"
    total = result(
        f"s .= 0\nfor i = _\n s[] += {read}\nend",
        {"s": Scalar(0.0), "A": tensor(array, POINT)},
        "s",
    )
    assert total == array.sum()
    rng = np.random.default_rng(1)
    for format in OTHERS:
        other = rng.integers(0, 3, len(array)).astype(float)
        if format == POINT:
            other[np.flatnonzero(other)[1:]] = 0
        for name, meaning in OPERATORS.items():
            value = f"min({read}, B[i])" if name == "min" else f"{read} {name} B[i]"
            found = result(
                f"C .= 0\nfor i = _\n C[i] = {value}\nend",
                {"C": Tensor(OTHERS[1], 0), "A": tensor(array, POINT), "B": tensor(other, format)},
                native=False,
            )
            np.testing.assert_array_equal(found, meaning(array, other))


def test_reading_booleans() -> None:
    a, b = np.eye(5, dtype=bool)[2], np.array([1, 0, 1, 0, 0], bool)
    for op, meaning in (("|", np.logical_or), ("&", np.logical_and)):
        found = result(
            f"C .= false\nfor i = _\n C[i] = A[i] {op} B[i]\nend",
            {
                "C": Tensor("SparseList(Pattern())", 0),
                "A": tensor(a, "SparsePinpoint(Pattern())"),
                "B": tensor(b, "SparseList(Pattern())"),
            },
        )
        np.testing.assert_array_equal(found, meaning(a, b))
    chosen = result(
        "s .= 0\nfor i = _\n s[] <<choose(0)>>= A[i]\nend",
        {"s": Scalar(0), "A": tensor(4 * np.eye(5, dtype=int)[3], "SparsePinpoint(Element(0))")},
        "s",
    )
    assert chosen == 4


INNER = ["Dense", "SparseList", "SparseByteMap", "SparsePinpoint", "SparseBand"]


@pytest.mark.parametrize("other", INNER)
def test_over_and_under_other_levels(other: str) -> None:
    array = np.zeros((4, 5))
    array[1, 3] = 6
    for format in (f"{other}({POINT})", f"SparsePinpoint({other}(Element(0.0)))"):
        a = tensor(array, format)
        total = result(
            "s .= 0\nfor j = _, i = _\n s[] += A[i, j]\nend",
            {"s": Scalar(0.0), "A": a},
            "s",
            native=False,
        )
        assert total == 6
        written, _ = run(
            "C .= 0\nfor j = _, i = _\n C[i, j] = 2 * A[i, j]\nend",
            {"C": Tensor(format, 0, 0), "A": tensor(array, "SparseList(SparseList(Element(0.0)))")},
        )
        expected = tensor(2 * array, format)
        for found, wanted in zip(written["C"].storage, expected.storage, strict=True):
            for name, value in wanted.items():
                if name not in ("fibers", "cleared", "width"):
                    np.testing.assert_array_equal(found[name], value)


def test_written_in_any_order_and_in_place() -> None:
    matrix = np.eye(4)[[2, 0, 3, 1]]
    a = tensor(matrix, "SparseList(SparseList(Element(0.0)))")
    text = "for j = _, i = _\n C[i, j] += 2 * A[i, j]\nend"
    found = result(text, {"C": tensor(matrix, f"Dense({POINT})"), "A": a})
    np.testing.assert_array_equal(found, 3 * matrix)
    # rows outermost: each column's one entry comes at another time
    text = "C .= 0\nfor i = _, j = _\n C[i, j] = A[i, j]\nend"
    values = {"C": Tensor(f"Dense({POINT})", 0, 0), "A": a}
    np.testing.assert_array_equal(result(text, values), matrix)
    # the same place again is no second entry
    text = "C .= 0\nfor k = 1:3, i = _\n C[i] += A[i]\nend"
    values = {"C": Tensor(POINT, 0), "A": tensor(np.eye(4)[1], "SparseList(Element(0.0))")}
    np.testing.assert_array_equal(result(text, values), 3 * np.eye(4)[1])


def test_a_pattern_can_be_unset() -> None:
    text = "for i = _\n C[i] = A[i]\nend"
    point = tensor(np.eye(3, dtype=bool)[1], "SparsePinpoint(Pattern())")
    found, _ = run(text, {"C": point, "A": tensor([False] * 3, "Dense(Element(false))")})
    assert found["C"].storage[0]["idx"].tolist() == [-1]


def test_a_point_takes_the_steps_of_a_point() -> None:
    """A product with a long list looks for the point: the list is not walked."""
    steps = []
    for n in (100, 10_000):
        values = {
            "s": Scalar(0.0),
            "A": tensor(np.eye(1, n, n // 2)[0], POINT),
            "B": tensor(np.ones(n), "SparseList(Element(0.0))"),
        }
        found, taken = run("s .= 0\nfor i = _\n s[] += A[i] * B[i]\nend", values)
        assert found["s"].value == 1
        steps.append(taken.total())
    assert steps[1] - steps[0] <= 20


def test_validate() -> None:
    for idx in ([4], [-2], []):
        own = {"idx": np.array(idx, np.int64)}
        broken = changed(tensor(np.eye(4)[1], POINT), 0, lambda level, own=own: level.update(own))
        with pytest.raises(FinchError, match="corrupt SparsePinpoint"):
            broken.validate()


def test_equal_neighbours_above_are_merged() -> None:
    array = np.zeros((4, 6))
    array[2, :3] = 5
    array[1, 3] = array[2, 5] = 5
    text = "C .= 0\nfor j = _, i = _\n C[i, j] = A[i, j]\nend"
    values = {"C": Tensor(f"RunList({POINT})", 0, 0)}
    values["A"] = tensor(array, "Dense(SparseList(Element(0.0)))")
    found, _ = run(text, values)
    np.testing.assert_array_equal(found["C"].to_numpy(), array)
    assert found["C"].storage[1]["idx"].tolist() == [2, 1, -1, 2]


@pytest.mark.parametrize(
    "below", ["SparseByteMap", "SparseHash", "SparsePinpoint", "Dense", "SparseBlockList"]
)
@pytest.mark.parametrize("declared", [True, False])
def test_a_second_column_is_noticed_over_any_level(below: str, declared: bool) -> None:
    """Also where the level below has the entries already, of the first column, and nothing new."""
    array = np.zeros((3, 3))
    array[1, [0, 2]] = 1, 2
    values = {
        "C": tensor(np.zeros((3, 3)), f"SparsePinpoint({below}(Element(0.0)))"),
        "A": tensor(array, "Dense(SparseList(Element(0.0)))"),
    }
    text = "C .= 0\n" * declared + "for j = _, i = _\n C[i, j] += A[i, j]\nend"
    with pytest.raises(FinchError, match="coordinate 3 is the second .* after 1") as error:
        run(text, values)
    assert error.value.kind == "access order"


def test_a_second_coordinate_that_is_only_unset_is_no_error() -> None:
    values = {
        "C": tensor(np.eye(3, dtype=bool)[1], "SparsePinpoint(Pattern())"),
        "A": tensor([False, True, False], "Dense(Element(false))"),
    }
    found = result("for i = _\n C[i] = A[i]\nend", values)
    np.testing.assert_array_equal(found, [False, True, False])
