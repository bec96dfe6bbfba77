"""RunList, SparseRunList and PackBits: storage (Finch'25 Table 4, Looplets'23 Fig 3), reading by each
protocol, writing, merging at freeze, and step counts that show runs are used as runs."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from level_kernels import changed, result, run, run_out_of_order, tensor

from finchlang.source import FinchError
from finchlang.tensors.formats import parse_format
from finchlang.tensors.tensor import Scalar, Tensor

pytestmark = pytest.mark.checked

RUNS = ("RunList", "SparseRunList", "PackBits")
OTHERS = ("Dense", "SparseList", "SparseByteMap")
PROTOCOLS = ("walk", "gallop", "follow")
VECTORS: dict[str, list[float]] = {
    "mixed": [0, 0, 3, 3, 3, 1, 2, 0, 5, 5],
    "nothing": [],
    "fill": [0, 0, 0, 0],
    "no fill": [1, 1, 2, 3, 3],
    "one fill": [0],
    "one": [7],
    "at the ends": [4, 0, 0, 4],
}
OPERATIONS: dict[str, tuple[str, Any]] = {
    "+": ("{} + {}", np.add),
    "*": ("{} * {}", np.multiply),
    "min": ("min({}, {})", np.minimum),
    "choose": ("choose(0.0)({}, {})", lambda a, b: np.where(a == 0, b, a)),
}


def each(format: str) -> str:
    return f"{format}(Element(0.0))"


def lists(storage: dict[str, Any], *names: str) -> list[list[int]]:
    return [storage[name].tolist() for name in names]


# ---------------------------------------------------------------------------------------- storage


def test_storage_of_vectors() -> None:
    values = VECTORS["mixed"]
    dense = tensor(values, each("RunList")).storage
    assert lists(dense[0], "ptr", "right") == [[0, 6], [1, 4, 5, 6, 7, 9]]
    assert dense[1]["val"].tolist() == [0, 3, 1, 2, 0, 5]
    sparse = tensor(values, each("SparseRunList")).storage
    assert lists(sparse[0], "ptr", "left", "right") == [[0, 4], [2, 5, 6, 8], [4, 5, 6, 9]]
    assert sparse[1]["val"].tolist() == [3, 1, 2, 5]
    packed = tensor(values, each("PackBits")).storage
    assert lists(packed[0], "ptr", "right", "ofs") == [[0, 4], [1, 4, 7, 9], [0, 1, 2, 5, 6]]
    assert packed[1]["val"].tolist() == [0, 3, 1, 2, 0, 5]


def test_storage_of_matrices() -> None:
    """Columns are runs of equal subfibers, whatever these are stored as."""
    matrix = np.array([[1.0, 1, 0, 0], [2, 2, 0, 0], [2, 2, 0, 0]])
    for below in (*RUNS, *OTHERS):
        outer = tensor(matrix, f"RunList({each(below)})").storage[0]
        assert lists(outer, "ptr", "right") == [[0, 2], [1, 3]]
        outer = tensor(matrix, f"SparseRunList({each(below)})").storage[0]
        assert lists(outer, "ptr", "left", "right") == [[0, 1], [0], [1]]
    inner = tensor(matrix, f"Dense({each('SparseRunList')})").storage[1]
    assert lists(inner, "ptr", "left") == [[0, 2, 4, 4, 4], [0, 1, 0, 1]]


@pytest.mark.parametrize("format", ["RunList", "PackBits", "SparseRunList"])
def test_zeros_of_both_signs_and_nans_are_merged(format: str) -> None:
    """The sign of a zero is not kept by arithmetic, so what is stored does not depend on it."""
    array = np.array([0.0, -0.0, np.nan, np.nan, 3.0, -0.0, 2.0])
    made = tensor(array, f"{format}(Element(1.0))")
    kernel = "C .= 1.0\nfor i = _\nC[i] = A[i]\nend"
    dense = tensor(array, "Dense(Element(1.0))")
    computed = run(kernel, {"A": dense, "C": Tensor(f"{format}(Element(1.0))", 7)})[0]["C"]
    assert computed.countstored() == made.countstored()
    for one, other in zip(made.storage, computed.storage, strict=True):
        for name, part in one.items():
            np.testing.assert_array_equal(part, other[name])


@pytest.mark.parametrize("format", RUNS)
@pytest.mark.parametrize(
    "leaf", ["Element(0.0)", "Element(2)", "Element(false)", "Element(Int8(1))"]
)
def test_round_trips(format: str, leaf: str) -> None:
    rng = np.random.default_rng(1)
    for shape in ((0,), (1,), (7,), (0, 3), (3, 0), (4, 5), (2, 3, 4)):
        array = rng.integers(0, 3, shape).astype(parse_format(leaf).element_type.dtype)
        for levels in range(len(shape)):
            nest = "".join(f"{format}(" if k >= levels else "Dense(" for k in range(len(shape)))
            made = tensor(array, nest + leaf + ")" * len(shape))
            np.testing.assert_array_equal(made.to_numpy(), array)
            made.checked = False
            made.validate()


def test_pattern() -> None:
    array = np.array([True, True, False, True])
    made = tensor(array, "SparseRunList(Pattern())")
    assert lists(made.storage[0], "left", "right") == [[0, 3], [1, 3]]
    np.testing.assert_array_equal(made.to_numpy(), array)
    for format in ("RunList", "PackBits"):
        with pytest.raises(FinchError, match="true everywhere") as fault:
            parse_format(f"{format}(Pattern())")
        assert fault.value.kind == "type"


def test_aliases() -> None:
    assert parse_format("DenseRLE(Element(0.0))") == parse_format(each("RunList"))
    assert parse_format("SparseRLE{Int32}(Pattern())") == parse_format(
        "SparseRunList{Int32}(Pattern())"
    )


CORRUPT = [
    ("RunList", "ptr", [0, 9]),
    ("RunList", "ptr", [1, 3]),
    ("RunList", "ptr", [0]),
    ("RunList", "ptr", [0, 0]),
    ("RunList", "right", [1, 3, 9]),
    ("RunList", "right", [1, 1, 4]),
    ("RunList", "right", [1, 2, 3]),
    ("SparseRunList", "left", [0, 1, 4]),
    ("SparseRunList", "left", [0, 4, 4]),
    ("SparseRunList", "left", [0]),
    ("SparseRunList", "left", [-1, 2, 4]),
    ("SparseRunList", "right", [1, 3, 5]),
    ("PackBits", "ofs", [0, 1]),
    ("PackBits", "ofs", [1, 2, 4]),
    ("PackBits", "ofs", [0, 0, 3]),
    ("PackBits", "ofs", [0, 1, 9]),
]


@pytest.mark.parametrize(("format", "name", "entries"), CORRUPT)
def test_corrupt_storage(format: str, name: str, entries: list[int]) -> None:
    values = [1, 1, 2, 2, 4] if format != "PackBits" else [1, 1, 2, 3, 4]
    made = tensor(np.array(values, float), each(format))
    broken = changed(made, 0, lambda s: s.update({name: np.array(entries)}))
    with pytest.raises(FinchError, match="corrupt"):
        broken.validate()


# ---------------------------------------------------------------------------------------- reading


@pytest.mark.parametrize("format", RUNS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_reads(format: str, protocol: str) -> None:
    for values in VECTORS.values():
        found = result(
            f"s .= 0\nfor i = _\ns[] += A[{protocol}(i)]\nend",
            {"A": tensor(np.array(values, float), each(format)), "s": Scalar(0.0)},
            "s",
        )
        assert found == sum(values)


@pytest.mark.parametrize("format", RUNS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_two_operands(format: str, protocol: str, operation: str) -> None:
    """With each other format, to a Dense result and one of the format's own."""
    text, function = OPERATIONS[operation]
    a, b = np.array(VECTORS["mixed"], float), np.array([0, 1, 1, 0, 0, 2, 2, 2, 0, 4.0])
    value = text.format(f"A[{protocol}(i)]", "B[i]")
    for other in (*RUNS, *OTHERS) if protocol == "walk" else (format, "SparseList"):
        tensors = {"A": tensor(a, each(format)), "B": tensor(b, each(other))}
        outputs = {"C": Tensor(each("Dense"), 10), "D": Tensor(each(format), 10)}
        found, _ = run(
            f"C .= 0\nD .= 0\nfor i = _\nC[i] = {value}\nD[i] = {value}\nend",
            tensors | outputs,
            native=other == "RunList" and protocol == "walk",
        )
        for name in "CD":
            np.testing.assert_array_equal(found[name].to_numpy(), function(a, b))


def test_windows_shifts_and_permission() -> None:
    values = np.array([1, 1, 0, 2, 2, 2.0])
    for format in RUNS:
        found = result(
            "C .= 0\nfor i = _\nC[i] = coalesce(A[~(i - 2)], 9.0) + coalesce(A[~(i + 1)], 5.0)\nend",
            {"A": tensor(values, each(format)), "C": Tensor(each(format), 6)},
            native=False,
        )
        assert found.tolist() == [10, 9, 3, 3, 2, 7]


# ---------------------------------------------------------------------------------------- writing


@pytest.mark.parametrize("format", RUNS)
def test_copies_are_stored_as_if_from_numpy(format: str) -> None:
    """Written one by one or run by run, equal neighbours are merged."""
    for values in VECTORS.values():
        array = np.array(values, float)
        for source in ("Dense", "RunList", "SparseByteMap"):
            found, _ = run(
                "C .= 0\nfor i = _\nC[i] = A[i]\nend",
                {"A": tensor(array, each(source)), "C": Tensor(each(format), len(array))},
            )
            np.testing.assert_array_equal(found["C"].to_numpy(), array)
            if format != "SparseRunList" or source == "SparseByteMap":  # others write the fill too
                expected = tensor(array, each(format)).storage
                for level, wanted in zip(found["C"].storage, expected, strict=True):
                    for name, entries in wanted.items():
                        if isinstance(entries, np.ndarray):
                            np.testing.assert_array_equal(level[name], entries)


@pytest.mark.parametrize("format", RUNS)
@pytest.mark.parametrize("below", (*RUNS, *OTHERS))
def test_equal_subfibers_are_merged(format: str, below: str) -> None:
    matrix = np.array([[0.0, 0, 3, 3, 3, 0], [0, 0, 2, 2, 0, 0], [0, 0, 2, 2, 2, 0]])
    found, _ = run(
        "C .= 0\nfor j = _, i = _\nC[i, j] = A[i, j]\nend",
        {
            "A": tensor(matrix, f"SparseList({each('SparseList')})"),
            "C": Tensor(f"{format}({each(below)})", 3, 6),
        },
        native=below in ("Dense", "SparseByteMap"),
    )
    np.testing.assert_array_equal(found["C"].to_numpy(), matrix)
    outer, width = found["C"].storage[0], {"Dense": 3, "SparseByteMap": 3}.get(below)
    if format == "SparseRunList":
        assert lists(outer, "left", "right") == [[2, 4], [3, 4]]
    elif format == "RunList":
        assert lists(outer, "right") == [[1, 3, 4, 5]]
    else:
        assert lists(outer, "right", "ofs") == [[1, 3, 5], [0, 1, 2, 4]]
    if width:
        assert len(found["C"].storage[2]["val"]) == width * (2 if format == "SparseRunList" else 4)


@pytest.mark.parametrize("format", RUNS)
@pytest.mark.parametrize("above", ["Dense(Dense({}))", "SparseList(Dense({}))"])
def test_a_fiber_that_is_entered_for_each_value(above: str, format: str) -> None:
    """What is written goes on with the run before it, and the levels above know of it."""
    B, D = np.array([0.0, 1, 3, 3, 1, 2]), np.array([3.0, 3, 3, 0, 0, 1, 1, 2])
    expected = np.zeros((9, 2, 6))
    expected[1:, :, B != 1] = (D[:, None] * [1, 0])[:, :, None]
    tensors = {"B": tensor(B, "Dense(Element(0.0))"), "D": tensor(D, "Dense(Element(0.0))")}
    tensors["C"] = Tensor(above.format(each(format)), 9, 2, 6)
    body = "if B[j] != 1 && k == 1\nC[i + 1, k, j] = D[i]\nend"
    found = run(f"C .= 0\nfor j=_, k=1:2, i=_\n{body}\nend", tensors)[0]["C"]
    np.testing.assert_array_equal(found.to_numpy(), expected)
    if format == "RunList" and above.startswith("Dense"):
        wanted = tensor(expected, found.format).storage
        np.testing.assert_array_equal(found.storage[2]["ptr"], wanted[2]["ptr"])
        np.testing.assert_array_equal(found.storage[2]["right"], wanted[2]["right"])


@pytest.mark.parametrize("below", RUNS)
@pytest.mark.parametrize("above", OTHERS)
def test_under_other_levels(above: str, below: str) -> None:
    """Fibers that are left out, empty, or written in part."""
    matrix = np.array([[0.0, 0, 3, 0, 3, 0], [0, 0, 3, 0, 0, 0], [0, 0, 2, 0, 2, 0]])
    format = f"{above}({each(below)})"
    tensors = {"A": tensor(matrix, f"SparseList({each('SparseList')})"), "C": Tensor(format, 3, 6)}
    found = result("C .= 0\nfor j = _, i = _\nC[i, j] = A[i, j]\nend", tensors)
    np.testing.assert_array_equal(found, matrix)
    found = result(
        "C .= 0\nfor j = _, i = _\nif A[i, j] > 2\nC[i, j] = A[i, j]\nend\nend",
        tensors,
        native=False,
    )
    np.testing.assert_array_equal(found, np.where(matrix > 2, matrix, 0))


def test_a_written_false_leaves_no_run() -> None:
    array = np.array([False, True, True, False, True])
    found, _ = run(
        "C .= false\nfor i = _\nC[i] = A[i]\nend",
        {"A": tensor(array, "Dense(Element(false))"), "C": Tensor("SparseRunList(Pattern())", 5)},
    )
    assert lists(found["C"].storage[0], "left", "right") == [[1, 4], [2, 4]]


@pytest.mark.parametrize("format", RUNS)
def test_update_in_place(format: str) -> None:
    found, _ = run(
        "for i = _\nC[i] += A[i]\nend",
        {
            "C": tensor(np.array([1.0, 1, 1, 0, 2]), each(format)),
            "A": tensor(np.array([1.0, 1, 0, 0, -1]), each("SparseList")),
        },
    )
    assert found["C"].to_numpy().tolist() == [2, 2, 1, 0, 1]
    assert found["C"].storage[1]["val"].tolist() in ([2, 1, 0, 1], [2, 1, 1])


@pytest.mark.parametrize("format", RUNS)
def test_order(format: str) -> None:
    tensors = {"A": tensor(np.eye(3), f"Dense({each('Dense')})"), "C": Tensor(each(format), 3)}
    _, found = run_out_of_order("C .= 0\nfor j = _, i = _\nC[i] += A[i, j]\nend", tensors)
    assert found["C"].to_numpy().tolist() == [1, 1, 1]


def test_several_writers_and_reductions_in_one_loop() -> None:
    """A run is accepted by all writers at once; the reductions beside them count every coordinate."""
    values = np.repeat([2.0, 0, 3], 1000)
    tensors = {
        "A": tensor(values, each("RunList")),
        "C": Tensor(each("RunList"), 3000),
        "D": Tensor(each("SparseRunList"), 3000),
        "s": Scalar(0.0),
    }
    text = "C .= 0\nD .= 0\ns .= 0\nfor i = _\nC[i] = A[i]\ns[] += A[i]\nD[i] = 2 * A[i]\nend"
    found, steps = run(text, tensors)
    assert found["s"].value == 5000
    np.testing.assert_array_equal(found["C"].to_numpy(), values)
    np.testing.assert_array_equal(found["D"].to_numpy(), 2 * values)
    assert steps.total() < 300


@pytest.mark.parametrize("seed", range(6))
def test_random_matrices(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(4):
        formats = [
            f"{rng.choice(RUNS + OTHERS)}({each(rng.choice(RUNS + OTHERS))})" for _ in range(3)
        ]
        shape = rng.choice([0, 1, 4, 6]), rng.choice([0, 1, 3, 5])
        a, b = (
            np.array(rng.choices([0.0, 0, 1, 2], k=shape[0] * shape[1])).reshape(shape)
            for _ in range(2)
        )
        tensors = {"A": tensor(a, formats[0]), "B": tensor(b, formats[1])}
        tensors["C"] = Tensor(formats[2], *shape)
        text = "C .= 0\nfor j = _, i = _\nC[i, j] = A[i, j] {} B[i, j]\nend"
        operator, function = rng.choice([("+", np.add), ("*", np.multiply)])
        found = result(
            text.format(operator), tensors, which=rng.choice(("all", "paper")), native=False
        )
        np.testing.assert_array_equal(found, function(a, b), str(formats))


# ---------------------------------------------------------------------------- structure is used


@pytest.mark.parametrize("format", RUNS)
def test_a_long_run_is_summed_at_once(format: str) -> None:
    def steps(length: int) -> int:
        values = np.repeat([3.0, 1, 2], [length, 1, length])
        tensors = {"A": tensor(values, each(format)), "s": Scalar(0.0)}
        found, counted = run("s .= 0\nfor i = _\ns[] += A[i]\nend", tensors)
        assert found["s"].value == values.sum()
        return counted.total()

    assert steps(1_000_000) == steps(10) < 100


@pytest.mark.parametrize("format", RUNS)
def test_literals_and_runs_against_a_list(format: str) -> None:
    """A product with a list of two entries looks at the runs, not at the coordinates."""
    values = np.repeat(np.arange(1.0, 6), 1000)
    other = np.zeros(5000)
    other[[10, 4500]] = 1
    for protocol in PROTOCOLS:
        found, steps = run(
            f"s .= 0\nfor i = _\ns[] += A[{protocol}(i)] * B[i]\nend",
            {
                "A": tensor(values, each(format)),
                "B": tensor(other, each("SparseList")),
                "s": Scalar(0.0),
            },
            native=False,
        )
        assert found["s"].value == 6
        assert steps.total() < 400


EROSION = """
O .= false
for y = _
    T .= false
    for x = _
        T[x] = coalesce(A[x, ~(y - 1)], true) & A[x, y] & coalesce(A[x, ~(y + 1)], true)
    end
    for x = _
        O[x, y] = coalesce(T[~(x - 1)], true) & T[x] & coalesce(T[~(x + 1)], true)
    end
end
"""


def test_erosion_of_a_vector() -> None:
    def steps(size: int) -> int:
        row = np.zeros(size, bool)
        row[3 : size // 2] = row[size // 2 + 2 : size - 2] = True
        found, counted = run(
            "O .= false\nfor x = _\n"
            "O[x] = coalesce(A[~(x - 1)], true) & A[x] & coalesce(A[~(x + 1)], true)\nend",
            {"A": tensor(row, format), "O": Tensor(format, size)},
        )
        ends = [3, size // 2 + 2], [size // 2 - 1, size - 3]
        stored = found["O"].storage[0]
        assert lists(stored, "left", "right") == [
            [e + 1 for e in ends[0]],
            [e - 1 for e in ends[1]],
        ]
        return counted.total()

    format = "SparseRunList(Pattern())"
    assert steps(100_000) == steps(20)


def test_erosion_touches_boundaries_only() -> None:
    """Finch'25 Fig 26, left."""

    def steps(size: int) -> int:
        image = np.zeros((size, size), bool)
        image[3 : size - 2, 2 : size - 3] = True
        format = "SparseRunList(SparseRunList(Pattern()))"
        found, counted = run(
            EROSION,
            {
                "A": tensor(image, format),
                "O": Tensor(format, size, size),
                "T": Tensor("SparseRunList(Pattern())", size),
            },
            native=False,
        )
        eroded = np.zeros((size, size), bool)
        eroded[4 : size - 3, 3 : size - 4] = True
        np.testing.assert_array_equal(found["O"].to_numpy(), eroded)
        return counted.total()

    assert steps(500) == steps(10)
