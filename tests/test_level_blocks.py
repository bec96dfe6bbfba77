"""The levels of blocks: SparseBand, Ragged, SparseBlockList."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from level_kernels import changed, result, run, run_out_of_order, tensor

from finchlang.script.tensors import pattern_of
from finchlang.source import FinchError
from finchlang.tensors.formats import parse_format
from finchlang.tensors.tensor import Scalar, Tensor

pytestmark = pytest.mark.checked

BAND, RAGGED, BLOCKS = "SparseBand", "Ragged", "SparseBlockList"
KINDS = pytest.mark.parametrize("kind", [BAND, RAGGED, BLOCKS])
LIST = "SparseList(Element(0.0))"
OTHERS = ["Dense", "SparseList", "SparseByteMap", "SparsePinpoint", BAND, RAGGED, BLOCKS]
VECTORS = [
    np.array(v, float)
    for v in (
        [],
        [0],
        [3],
        [0, 0, 0, 0],
        [1, 2, 3, 4],
        [0, 0, 5, 0, 6, 7, 0],
        [1, 0, 0, 0, 2, 0, 3],
    )
]
EXAMPLE = np.array([[0, 1, 0], [2, 0, 0], [3, 0, 0], [0, 4, 0], [5, 0, 6.0]])


def storage(found: Tensor, level: int = 1) -> dict[str, Any]:
    return {n: v.tolist() for n, v in found.storage[level].items() if isinstance(v, np.ndarray)}


def test_storage_is_that_of_table_4() -> None:
    band = tensor(EXAMPLE, f"Dense({BAND}(Element(0.0)))")
    assert storage(band) == {"idx": [4, 3, 4], "ofs": [0, 4, 8, 9]}
    assert band.storage[2]["val"].tolist() == [2, 3, 0, 5, 1, 0, 0, 4, 6]
    ragged = tensor(EXAMPLE, f"Dense({RAGGED}(Element(0.0)))")
    assert storage(ragged) == {"ofs": [0, 5, 9, 14]}
    assert ragged.storage[2]["val"].tolist() == [0, 2, 3, 0, 5, 1, 0, 0, 4, 0, 0, 0, 0, 6]
    blocks = tensor(EXAMPLE, f"Dense({BLOCKS}(Element(0.0)))")
    expected = {"ptr": [0, 2, 4, 5], "idx": [2, 4, 0, 3, 4], "ofs": [0, 2, 3, 4, 5, 6]}
    assert storage(blocks) == expected
    assert blocks.storage[2]["val"].tolist() == [2, 3, 5, 1, 4, 6]
    assert [t.countstored() for t in (band, ragged, blocks)] == [9, 14, 6]
    assert storage(tensor(np.zeros((3, 2)), f"Dense({BAND}(Element(0.0)))")) == {
        "idx": [-1, -1],
        "ofs": [0, 0, 0],
    }


def test_names_and_faults_at_construction() -> None:
    assert parse_format("SparseVBL(Element(0.0))") == parse_format(f"{BLOCKS}(Element(0.0))")
    for kind in (BAND, RAGGED):
        with pytest.raises(FinchError, match=r"Pattern\(\)\) cannot be") as error:
            parse_format(f"{kind}(Pattern())")
        assert error.value.kind == "type"
        with pytest.raises(FinchError, match="signed"):
            parse_format(f"{kind}{{UInt16}}(Element(0.0))")
    small = tensor(EXAMPLE, f"Dense({BLOCKS}{{Int32}}(Element(0.0)))")
    assert {v.dtype for v in small.storage[1].values() if isinstance(v, np.ndarray)} == {
        np.dtype(np.int32)
    }


@KINDS
@pytest.mark.parametrize(
    "leaf", ["Element(0.0)", "Element(UInt8(0))", "Element(Inf)", "Element(false)", "Pattern()"]
)
def test_round_trips(kind: str, leaf: str) -> None:
    if leaf == "Pattern()" and kind != BLOCKS:
        leaf = "Element(true)"
    level = parse_format(f"{kind}({leaf})")
    matrices = [*VECTORS, EXAMPLE, EXAMPLE[:0], EXAMPLE[:, :0], np.ones((2, 3)), np.zeros((2, 3))]
    for array in matrices:
        format = level if array.ndim == 1 else parse_format(f"SparseList({level})")
        array = array.astype(format.element_type.dtype)
        found = Tensor.from_numpy(array, format)
        found.checked = False
        found.validate()
        np.testing.assert_array_equal(found.to_numpy(), array)


@KINDS
@pytest.mark.parametrize("protocol", ["walk", "gallop", "follow"])
def test_reading(kind: str, protocol: str) -> None:
    read = f"A[{protocol}(i)]"
    rng = np.random.default_rng(1)
    for array in VECTORS:
        a = tensor(array, f"{kind}(Element(0.0))")
        for which in ("all", "paper"):
            text = f"s .= 0\nfor i = _\n s[] += {read}\nend"
            values, native = {"s": Scalar(0.0), "A": a}, which == "all" and protocol != "gallop"
            assert result(text, values, "s", which, native) == array.sum()
        for other in OTHERS[:4] if protocol == "gallop" else OTHERS:
            b = rng.integers(0, 3, len(array)).astype(float)
            if other == "SparsePinpoint":
                b[np.flatnonzero(b)[1:]] = 0
            for value, expected in ((f"{read} + B[i]", array + b), (f"{read} * B[i]", array * b)):
                values = {"C": Tensor(LIST, 0), "A": a, "B": tensor(b, f"{other}(Element(0.0))")}
                found = result(f"C .= 0\nfor i = _\n C[i] = {value}\nend", values, native=False)
                np.testing.assert_array_equal(found, expected)


@KINDS
def test_reading_with_other_operators(kind: str) -> None:
    array, b = VECTORS[5], np.arange(7.0)
    reads = {
        "min(A[i], B[i])": np.minimum(array, b),
        "max(A[i], 2 * B[i])": np.maximum(array, 2 * b),
        "ifelse(A[i] > 5, B[i], 0.0)": np.where(array > 5, b, 0),
        "coalesce(A[~(i + 2)], 9.0)": np.append(array[2:], [9, 9]),
    }
    for value, expected in reads.items():
        values = {
            "C": Tensor("Dense(Element(0.0))", 0),
            "A": tensor(array, f"{kind}(Element(0.0))"),
            "B": tensor(b, LIST),
        }
        found = result(f"C .= 0\nfor i = _\n C[i] = {value} + 0 * B[i]\nend", values, native=False)
        np.testing.assert_array_equal(found, expected)
    bits = array > 0
    found = result(
        "C .= false\nfor i = _\n C[i] = A[i] | B[i]\nend",
        {
            "C": Tensor(f"{BLOCKS}(Pattern())", 0),
            "A": tensor(bits, f"{kind}(Element(false))"),
            "B": tensor(b > 4, f"{BLOCKS}(Pattern())"),
        },
    )
    np.testing.assert_array_equal(found, bits | (b > 4))
    text = "s .= 0.0\nfor i = _\n s[] <<choose(0.0)>>= A[i]\nend"
    first = result(text, {"s": Scalar(0.0), "A": tensor(array, f"{kind}(Element(0.0))")}, "s")
    assert first == 5


@KINDS
def test_writing_gives_the_storage_of_packing(kind: str) -> None:
    for array in VECTORS:
        values = {"C": Tensor(f"{kind}(Element(0.0))", 0), "A": tensor(array, LIST)}
        found, _ = run("C .= 0\nfor i = _\n C[i] = 2 * A[i]\nend", values)
        expected = tensor(2 * array, f"{kind}(Element(0.0))").storage
        for own, wanted in zip(found["C"].storage, expected, strict=True):
            for name in wanted:
                np.testing.assert_array_equal(own[name], wanted[name])


@KINDS
def test_a_fiber_is_entered_again_for_each_shifted_coordinate(kind: str) -> None:
    text = "C .= 0\nfor i = 1:4\n C[i + 1] = A[i]\nend"
    for array in ([1, 0, 2, 3.0], [0, 0, 0, 4], [0, 0, 0, 0]):
        values = {"C": Tensor(f"{kind}(Element(0.0))", 5), "A": tensor(array, LIST)}
        np.testing.assert_array_equal(result(text, values), [0, *array])


@KINDS
@pytest.mark.parametrize("other", OTHERS)
def test_over_and_under_other_levels(kind: str, other: str) -> None:
    array = np.zeros((4, 6))
    array[2, 1], array[0, 3], array[1, 4] = 5, 6, 7
    if other == "SparsePinpoint":
        array[2, 1] = array[1, 4] = 0
    vector = {"s": Scalar(0.0)}
    for format in (f"{other}({kind}(Element(0.0)))", f"{kind}({other}(Element(0.0)))"):
        a = tensor(array, format)
        text = "s .= 0\nfor j = _, i = _\n s[] += A[i, j]\nend"
        assert result(text, vector | {"A": a}, "s", native=False) == array.sum()
        source = tensor(array, f"Dense({LIST})")
        written, _ = run(
            "C .= 0\nfor j = _, i = _\n C[i, j] = 2 * A[i, j]\nend",
            {"C": Tensor(format, 0, 0), "A": source},
            native=other in ("SparseList", kind),
        )
        np.testing.assert_array_equal(written["C"].to_numpy(), 2 * array)
        own, wanted = written["C"].storage[0], tensor(2 * array, format).storage[0]
        for name in {"idx", "ofs", "ptr"} & wanted.keys():
            np.testing.assert_array_equal(own[name], wanted[name])
        if other != "Dense" or not format.startswith("Dense"):
            text = "for j = _, i = _\n C[i, j] += A[i, j]\nend"
            values = {"C": a, "A": source}
            np.testing.assert_array_equal(result(text, values, native=False), 2 * array)


@KINDS
def test_an_order_it_cannot_take(kind: str) -> None:
    values = {
        "C": Tensor(f"Dense({kind}(Element(0.0)))", 0, 0),
        "A": tensor(EXAMPLE, f"Dense({LIST})"),
    }
    text = "C .= 0\nfor i = _, j = _\n C[i, j] = A[i, j]\nend"
    error, written = run_out_of_order(text, values)
    np.testing.assert_array_equal(written["C"].to_numpy(), EXAMPLE)
    assert f"{kind} is written in order" in error.message
    other = parse_format((error.hint or "").partition("use a format that takes any order: ")[2])
    found = result(text, values | {"C": Tensor(other, 0, 0)})
    np.testing.assert_array_equal(found, EXAMPLE)


def steps(read: str, tensors: dict[str, Any]) -> int:
    text = f"s .= 0\nfor i = _\n s[] += {read}\nend"
    return run(text, {"s": Scalar(0.0), **tensors}, native=False)[1].total()


def test_what_is_not_stored_is_not_visited() -> None:
    for kind in (BAND, BLOCKS):
        counts = []
        for n in (100, 10_000):
            array = np.zeros(n)
            array[n // 2 : n // 2 + 5] = 1
            counts.append(steps("A[i]", {"A": tensor(array, f"{kind}(Element(0.0))")}))
        assert counts[0] == counts[1]
    ragged = [np.append(np.ones(5), np.zeros(n)) for n in (10, 10_000)]
    one, other = (steps("A[i]", {"A": tensor(a, f"{RAGGED}(Element(0.0))")}) for a in ragged)
    assert one == other


def test_an_intersection_with_a_band_starts_at_the_band() -> None:
    """Looplets'23 Fig 1: the entries of the list before the band are skipped by a search."""
    counts = []
    for before in (10, 10_000):
        n = before + 20
        band = np.zeros(n)
        band[before : before + 5] = 2
        listed = tensor(np.ones(n), LIST)
        counts.append(
            steps("A[i] * B[i]", {"A": tensor(band, f"{BAND}(Element(0.0))"), "B": listed})
        )
    assert counts[1] - counts[0] <= 20  # the search's logarithm


def test_blocks_take_steps_for_blocks_not_entries() -> None:
    """In a block there is nothing to compare: an entry costs a count, two loads and the sum."""
    array = np.zeros(500)
    array[25:225] = 1
    array[250:450] = 1
    blocks = steps("A[i]", {"A": tensor(array, f"{BLOCKS}(Element(0.0))")})
    assert blocks < 400 * 6 + 60
    longer = np.ones(500)
    more = steps("A[i]", {"A": tensor(longer, f"{BLOCKS}(Element(0.0))")})
    assert more - blocks <= 100 * 6


def test_gallop_over_blocks() -> None:
    """Two long lists of blocks that meet in few places."""
    a, b = np.zeros(20_000), np.zeros(20_000)
    a[::4], b[10_000:10_003] = 1, 1
    tensors = {"A": tensor(a, f"{BLOCKS}(Element(0.0))"), "B": tensor(b, f"{BLOCKS}(Element(0.0))")}
    assert steps("A[gallop(i)] * B[gallop(i)]", tensors) < 200


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        (BAND, {"idx": [7]}),
        (BAND, {"idx": [-2]}),
        (BAND, {"idx": []}),
        (BAND, {"ofs": [0]}),
        (BAND, {"ofs": [1, 3]}),
        (BAND, {"ofs": [0, 6], "idx": [4]}),
        (RAGGED, {"ofs": [0, 8]}),
        (RAGGED, {"ofs": [0, -1]}),
        (RAGGED, {"ofs": []}),
        (BLOCKS, {"ptr": [0, 4]}),
        (BLOCKS, {"idx": [2, 7]}),
        (BLOCKS, {"idx": [5, 2]}),
        (BLOCKS, {"ofs": [0, 1]}),
        (BLOCKS, {"ofs": [0, 0, 3]}),
        (BLOCKS, {"ofs": [0, 4, 5]}),
        (BLOCKS, {"ofs": [0, 1, 5]}),
        (BLOCKS, {"ofs": [0, 2, 1]}),
    ],
    ids=str,
)
def test_validate(kind: str, changes: dict[str, list[int]]) -> None:
    own = {name: np.array(values, np.int64) for name, values in changes.items()}
    broken = changed(tensor(VECTORS[5], f"{kind}(Element(0.0))"), 0, lambda s: s.update(own))
    with pytest.raises(FinchError, match="corrupt"):
        broken.validate()


@KINDS
@pytest.mark.parametrize("outer", ["RunList", "SparseRunList"])
def test_equal_neighbours_above_are_merged(kind: str, outer: str) -> None:
    """A parent that merges equal subfibers can compare and move those of these levels."""
    columns = [VECTORS[6], VECTORS[6], np.zeros(7), VECTORS[5], VECTORS[5], VECTORS[6]]
    array = np.array(columns).T
    format = f"{outer}({kind}(Element(0.0)))"
    text = "C .= 0\nfor j = _, i = _\n C[i, j] = A[i, j]\nend"
    found, _ = run(text, {"C": Tensor(format, 0, 0), "A": tensor(array, f"Dense({LIST})")})
    np.testing.assert_array_equal(found["C"].to_numpy(), array)
    expected = tensor(array, format)
    assert storage(found["C"], 0) == storage(expected, 0)
    assert storage(found["C"], 1) == storage(expected, 1)


@KINDS
def test_the_pattern_of_a_tensor(kind: str) -> None:
    """`pattern` keeps the format where a Pattern can stand in it."""
    found = pattern_of(tensor(VECTORS[5], f"{kind}(Element(0.0))"))
    leaf = "Pattern()" if kind == BLOCKS else "Element(false)"
    assert str(found.format) == f"{kind}({leaf})"
    assert found.countstored() == tensor(VECTORS[5], f"{kind}(Element(0.0))").countstored()
