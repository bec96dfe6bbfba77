"""Conversions of what holds little, in little memory; and entries that are given twice."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from every_format import nests
from in_child import isolated, limited

from finchlang import FinchError, Session
from finchlang.array import asarray, compute
from finchlang.files.suffixes import FORMATS, fread, fwrite
from finchlang.tensors.tensor import SwizzledTensor, Tensor

#: the sizes of a matrix with one entry: dense it has 32 terabytes
SIZE, ROW, COLUMN, VALUE = 2_000_000, 1_999_998, 7, 2.5
#: bytes that a conversion may take beside those that are in use
ROOM = 1_000_000_000
LISTS = "SparseList(SparseList(Element(0.0)))"
CSC = "Dense(SparseList(Element(0.0)))"
RUNS = "RunList(RunList(Element(0.0)))"
#: levels that take memory for coordinates where nothing is stored
DENSE = ("Dense", "ByteMap", "Triangular", "Symmetric", "Ragged")
FORMATS_OF_TWO = [f for f in nests("Element(0.0)", 2) if not any(name in f for name in DENSE)]


def made(format: str) -> Tensor:
    return Tensor.from_coo(format, (SIZE, SIZE), [[ROW], [COLUMN]], np.array([VALUE]))


def has_the_entry(tensor: Any) -> bool:
    coordinates, values = tensor.entries()
    stored = values != 0
    return coordinates[:, stored].tolist() == [[ROW], [COLUMN]] and values[stored] == [VALUE]


def convert_all(pairs: Iterator[tuple[str, str]]) -> None:
    for source, target in pairs:
        found = Tensor(target, made(source))
        assert has_the_entry(found), (source, target)


def some_pairs() -> Iterator[tuple[str, str]]:
    """Each format to lists and from them, and to another that lies some way on."""
    for k, format in enumerate(FORMATS_OF_TWO):
        yield format, LISTS
        yield LISTS, format
        yield format, FORMATS_OF_TWO[(5 * k + 3) % len(FORMATS_OF_TWO)]


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the limit is one of Linux")


@isolated
def test_formats_are_converted_in_little_memory() -> None:
    assert len(FORMATS_OF_TWO) > 100
    with limited(ROOM):
        convert_all(some_pairs())


@pytest.mark.parametrize("name", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
@isolated
def test_matrices_of_scipy_are_converted_in_little_memory(name: str) -> None:
    with limited(ROOM):
        matrix = scipy.sparse.coo_array(([VALUE], ([ROW], [COLUMN])), (SIZE, SIZE)).asformat(name)
        assert has_the_entry(Tensor(LISTS, matrix))
        assert has_the_entry(compute(asarray(matrix, format=LISTS)))
        assert has_the_entry(compute(asarray(matrix, fill_value=0.0)))
        session = Session()
        session["A"] = matrix
        session.run(f"B = Tensor({LISTS}, A)")
        assert has_the_entry(session["B"])


@pytest.mark.parametrize("format", [LISTS, CSC, RUNS, "SparseList(RunList(Element(0.0)))"])
@isolated
def test_tensors_leave_in_little_memory(format: str, tmp_path: Path) -> None:
    with limited(ROOM):
        tensor = made(format)
        assert has_the_entry(compute(asarray(tensor, format=CSC)))
        assert has_the_entry(Tensor(LISTS, tensor.to_scipy()))
        assert has_the_entry(Tensor(LISTS, SwizzledTensor(tensor, (2, 1)).to_scipy().T))
        session = Session()
        session["A"] = tensor
        session.run("column, part = A[:, 8], A[1999999:-1:1999990, 6:9]")
        assert session["column"][ROW] == VALUE == session["column"].sum()
        assert session["part"][0, COLUMN - 5] == VALUE == session["part"].sum()
        for suffix in FORMATS.keys() - {".npy", ".mtx"}:
            fwrite(str(tmp_path / f"a{suffix}"), tensor)
    for suffix in FORMATS.keys() - {".npy", ".mtx", ".tns"}:
        assert has_the_entry(fread(str(tmp_path / f"a{suffix}"))), suffix


@pytest.mark.parametrize("format", [LISTS, CSC, "SparseCOO{2}(Element(0.0))", RUNS])
def test_entries_given_twice_are_summed(format: str) -> None:
    rows, columns, values = [1, 0, 1, 1], [2, 0, 2, 0], [1.0, 2.0, 4.0, 8.0]
    expected = scipy.sparse.coo_array((values, (rows, columns)), (2, 3)).toarray()
    tensor = Tensor.from_coo(format, (2, 3), [rows, columns], np.array(values))
    np.testing.assert_array_equal(tensor.to_numpy(), expected)
    with pytest.raises(FinchError, match=r"more than one value at the coordinates \(1, 2\)"):
        Tensor.from_coo(format, (2, 3), [rows, columns], np.array(values), duplicates="error")
    once = [rows[1:], columns[1:]]
    refusing = Tensor.from_coo(format, (2, 3), once, np.array(values[1:]), duplicates="error")
    assert refusing.to_numpy().sum() == 14.0
    with pytest.raises(FinchError, match='is "sum" or "error"'):
        Tensor.from_coo(format, (2, 3), once, np.array(values[1:]), duplicates="last")


@pytest.mark.parametrize("size", [30, 2**31 - 1, 2**40, 2**62])
@pytest.mark.parametrize(("modes", "count"), [(2, 40), (2, 400), (3, 200)])
def test_entries_come_in_any_order(size: int, modes: int, count: int) -> None:
    """Those of equal coordinates are added up, also where no integer has room for all coordinates."""
    rng = np.random.default_rng(count)
    places = rng.integers(size - 30 if modes == 2 else size - 8, size, (modes, count))
    values = rng.integers(1, 100, count).astype(float)
    expected: dict[tuple[int, ...], float] = {}
    for place, value in zip(zip(*places[::-1].tolist(), strict=True), values, strict=True):
        expected[place] = expected.get(place, 0.0) + value
    format = "SparseList(" * modes + "Element(0.5)" + ")" * modes
    found, sums = Tensor.from_coo(format, (size,) * modes, [*places], values).entries()
    assert [*zip(*found[::-1].tolist(), strict=True)] == sorted(expected)
    assert sums.tolist() == [expected[at] for at in sorted(expected)]


@pytest.mark.parametrize(
    "format, values, expected",
    [
        ("SparseList(Element(0.0))", np.array([100, 100], np.int8), 200.0),
        ("SparseList(Element(Int8(0)))", np.array([100, 100], np.int8), -56),
        ("SparseList(Element(false))", np.array([True, True]), True),
        ("SparseList(Element(false))", np.array([True, False]), True),
        ("SparseList(Pattern())", np.array([True, True]), True),
        ("SparseList(Element(1.5))", np.array([1.0, 0.5]), 1.5),
    ],
)
def test_sums_of_entries_are_of_the_type_of_the_format(
    format: str, values: np.ndarray, expected: Any
) -> None:
    tensor = Tensor.from_coo(format, (3,), [[1, 1]], values)
    assert tensor.to_numpy()[1] == expected
    assert tensor.countstored() == 1


def test_both_places_of_a_symmetric_matrix_are_summed() -> None:
    tensor = Tensor.from_coo("Symmetric(Element(0.0))", (2, 2), [[0, 1, 0, 1]] * 2, np.ones(4))
    np.testing.assert_array_equal(tensor.to_numpy(), [[2, 0], [0, 2]])
    rows, columns = [0, 1, 0, 1], [1, 0, 1, 0]
    tensor = Tensor.from_coo("Symmetric(Element(0.0))", (2, 2), [rows, columns], np.ones(4))
    np.testing.assert_array_equal(tensor.to_numpy(), [[0, 2], [2, 0]])


def test_coordinates_without_a_value_are_refused() -> None:
    with pytest.raises(FinchError, match="coordinates"):
        Tensor.from_coo(LISTS, (2, 2), [[0, 1], [0, 1]], np.ones(1))


def test_no_modes_have_one_place() -> None:
    for values in (np.array(2.0), [2.0], [0.5, 1.5]):
        assert Tensor.from_coo("Element(0.0)", (), [], values).to_numpy() == 2
    assert Tensor.from_coo("Element(0.0)", (), [], []).to_numpy() == 0


@pytest.mark.parametrize(
    ("coordinates", "kind"),
    [
        ([], "dimension"),
        ([[0], [1]], "dimension"),
        ([[0, 1]], "dimension"),
        *[([[at]], "type") for at in (0.5, np.nan, "a", None, True, 2**70)],
        *[([[at]], "bounds") for at in (-1, 3, 2**63, 2**64 - 1)],
    ],
)
def test_what_are_no_coordinates(coordinates: Any, kind: str) -> None:
    with pytest.raises(FinchError) as caught:
        Tensor.from_coo("SparseList(Element(0.0))", (3,), coordinates, np.ones(1))
    assert caught.value.kind == kind


@pytest.mark.parametrize("level", ["Dense", "SparseList", "RunList"])
@pytest.mark.parametrize(
    ("fill", "value", "expected"),
    [
        *[("0", value, None) for value in (1.5, np.nan, np.inf, 1e30, 1j, "a", None, [1, [2]])],
        ("0", 2.0, 2),
        ("Int8(0)", 300, 44),
        ("UInt8(0)", 256.0, None),
        ("Float32(0)", 1e300, np.inf),
        ("0.0", np.float16(1.5), 1.5),
        ("false", 2.0, True),
    ],
)
def test_what_a_format_keeps_of_values(level: str, fill: str, value: Any, expected: Any) -> None:
    """As a kernel does: integers wrap around, and no fraction goes into an integer."""
    values, format = value if type(value) is list else [value], f"{level}(Element({fill}))"
    works = [lambda: Tensor.from_numpy(values, format)]
    works.append(lambda: Tensor.from_coo(format, (1,), [range(len(values))], values))
    for work in works:
        if expected is None:
            with pytest.raises(FinchError) as caught:
                work()
            assert caught.value.kind == "type"
        else:
            assert work().to_numpy().tolist() == [expected]


if __name__ == "__main__":
    with limited(ROOM):
        convert_all(product(FORMATS_OF_TWO, repeat=2))
    print(f"{len(FORMATS_OF_TWO)} formats, each to each")
