"""Tensors as lines of coordinates: FROSTT's `.tns`, and `.ttx` with a header."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from every_format import LEAVES, fits, nests

from finchlang.script.files import fread, fwrite
from finchlang.source import FinchError
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor


def read_text(folder: Path, text: str, name: str):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return fread(str(path))


HEADER = "%%MatrixMarket tensor coordinate real general\n"


def test_a_tns_file(tmp_path: Path) -> None:
    text = "# from a paper\n1 2 3 1.5  # the first\n\n 2 1 1 -2e3\n1 2 3 1\n"
    tensor = read_text(tmp_path, text, "a.tns")
    assert str(tensor.format) == "SparseCOO{3}(Element(0.0))" and tensor.shape == (2, 2, 3)
    expected = np.zeros((2, 2, 3))
    expected[0, 1, 2], expected[1, 0, 0] = 2.5, -2000
    np.testing.assert_array_equal(tensor.to_numpy(), expected)
    assert tensor.countstored() == 2
    assert read_text(tmp_path, "3 4\n", "v.tns").to_numpy().tolist() == [0, 0, 4]


@pytest.mark.parametrize(
    ("field", "lines", "leaf", "expected"),
    [
        ("real", "2 1 3 2\n1 1 3 .5\n2 1 1 -1", "Element(0.0)", [[[0, 0, 0.5]], [[-1, 0, 0]]]),
        ("integer", "1 1 2 1\n1 1 2 9007199254740993", "Element(0)", [[[0, 2**53 + 1]]]),
        ("unsigned-integer", "2 1\n2 18446744073709551615", "Element(UInt64(0))", [0, 2**64 - 1]),
        ("pattern", "% no values\n2 2 2\n1 2\n1 2", "Pattern()", [[0, 1], [0, 0]]),
        ("real", "2 0 3 0", "Element(0.0)", np.zeros((2, 0, 3))),
        ("pattern", "2 3 0", "Pattern()", np.zeros((2, 3), bool)),
        ("real", "2 2 2\n1 1 1\n1 1 2", "Element(0.0)", [[3, 0], [0, 0]]),
    ],
)
def test_ttx_files(tmp_path: Path, field: str, lines: str, leaf: str, expected) -> None:
    text = f"%%MatrixMarket TENSOR coordinate {field} general\n% a comment\n\n{lines}\n"
    tensor = read_text(tmp_path, text, "a.ttx")
    order = np.ndim(expected)
    assert str(tensor.format) == f"SparseCOO{{{order}}}({leaf})"
    np.testing.assert_array_equal(tensor.to_numpy(), np.array(expected, tensor.dtype))


def test_a_ttx_file_may_call_itself_a_matrix_and_leave_out_the_symmetry(tmp_path: Path) -> None:
    text = "%%MatrixMarket matrix coordinate integer\n2 2 1\n2 1 5\n"
    assert read_text(tmp_path, text, "a.ttx").to_numpy().tolist() == [[0, 0], [5, 0]]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.tns", "", "no entries"),
        ("a.tns", "# nothing\n", "no entries"),
        ("a.tns", "1 1 x\n", "convert"),
        ("a.tns", "1 1 2.0\n1 2.0\n", "columns"),
        ("a.tns", "0 1 2.0\n", "count from 1"),
        ("a.tns", "1.5 1 2.0\n", "1.5"),
        ("a.tns", "5\n", "a coordinate and a value"),
        ("a.tns", "99999999999999999999 1 2.0\n", "99999999999999999999"),
        ("a.ttx", "", "does not begin"),
        ("a.ttx", "1 1 1 1\n", "does not begin"),
        ("a.ttx", "%%MatrixMarket tensor array real general\n2\n1\n2\n", "does not begin"),
        ("a.ttx", "%%MatrixMarket tensor coordinate real symmetric\n2 2 0\n", "does not begin"),
        ("a.ttx", "%%MatrixMarket tensor coordinate red general\n2 2 0\n", "`red`"),
        ("a.ttx", HEADER, "its sizes"),
        ("a.ttx", HEADER + "3\n", "its sizes"),
        ("a.ttx", HEADER + "2 -2 0\n", "its sizes"),
        ("a.ttx", HEADER + "2 x 0\n", "x"),
        ("a.ttx", HEADER + "2 2 2\n1 1 1\n", "instead of 2"),
        ("a.ttx", HEADER + "2 2 1\n1 1 1\n2 2 2\n", "instead of 1"),
        ("a.ttx", HEADER + "2 2 1\n3 1 1\n", "greater than the size"),
        ("a.ttx", HEADER + "2 2 1\n0 1 1\n", "count from 1"),
        ("a.ttx", HEADER + "2 2 99999999999999\n1 1 1\n", "cut short"),
        ("a.tns", b"\xff\xfe1 1 2\n".decode("latin-1"), "convert"),
    ],
)
def test_files_that_are_wrong(tmp_path: Path, name: str, text: str, words: str) -> None:
    with pytest.raises(FinchError) as caught:
        read_text(tmp_path, text, name)
    assert caught.value.kind == "I/O" and name in caught.value.message
    assert words in caught.value.message


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.tns").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FinchError) as caught:
        fread(str(tmp_path / "a.tns"))
    assert caught.value.kind == "I/O"


def test_complex_numbers_are_a_type_error(tmp_path: Path) -> None:
    with pytest.raises(FinchError) as caught:
        read_text(tmp_path, HEADER.replace("real", "complex") + "1 1\n1 1 1\n", "a.ttx")
    assert caught.value.kind == "type"


@pytest.mark.parametrize("leaf", [name for name, (_, fill, _) in LEAVES.items() if fill == 0])
def test_every_element_type_comes_back(tmp_path: Path, leaf: str) -> None:
    dtype, fill, value = LEAVES[leaf]
    array = np.full((2, 3, 2), fill, dtype)
    array[1, 2, 1] = array[0, 1, 0] = value
    tensor = Tensor.from_numpy(array, f"SparseCOO{{3}}({leaf})")
    path = str(tmp_path / "a.ttx")
    fwrite(path, tensor)
    np.testing.assert_array_equal(fread(path).to_numpy(), array)
    path = str(tmp_path / "a.tns")
    fwrite(path, tensor)
    np.testing.assert_array_equal(fread(path).to_numpy(), array.astype(float))


def test_every_level_is_written(tmp_path: Path) -> None:
    array = np.zeros((4, 4))
    array[0, 0], array[1, 1], array[3, 3] = 1.5, np.pi, 1e300
    for format in nests("Element(0.0)", 2):
        tensor = fits(format, array)
        if tensor is not None:
            for name in ("a.ttx", "a.tns"):
                fwrite(str(tmp_path / name), tensor)
                np.testing.assert_array_equal(fread(str(tmp_path / name)).to_numpy(), array, format)


def test_numbers_come_back_exactly(tmp_path: Path) -> None:
    array = np.array([0.1, 1 / 3, 5e-324, np.inf, -np.inf, np.nan, 1.7976931348623157e308])
    for dtype in (np.float64, np.float32):
        with np.errstate(over="ignore"):
            numbers = array.astype(dtype)
        for name in ("a.ttx", "a.tns"):
            path = str(tmp_path / name)
            fwrite(path, numbers)
            np.testing.assert_array_equal(fread(path).to_numpy().astype(dtype), numbers)


def test_stored_zeros_swizzles_and_many_entries(tmp_path: Path) -> None:
    path = str(tmp_path / "a.ttx")
    places = [np.array([0, 1]), np.array([2, 0])]
    stored = Tensor.from_coo("Dense(SparseList(Element(0.0)))", (2, 3), places, np.array([0.0, 5]))
    fwrite(path, SwizzledTensor(stored, (2, 1)))
    back = fread(path)
    assert back.countstored() == 2 and back.shape == (3, 2)
    np.testing.assert_array_equal(back.to_numpy(), stored.to_numpy().T)
    many = np.arange(1.0, 250_001)  # more than are written in one go
    fwrite(path, many)
    np.testing.assert_array_equal(fread(path).to_numpy(), many)


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("a.tns", Scalar(1.0), "dimension"),
        ("a.ttx", Scalar(1.0), "dimension"),
        ("a.tns", np.ones(()), "dimension"),
        ("a.tns", Tensor("SparseCOO{2}(Element(0.0))", 2, 2), "dimension"),
        ("a.ttx", Tensor("SparseCOO{2}(Element(1.0))", 2, 2), "type"),
        ("a.tns", Tensor("SparseCOO{2}(Element(NaN))", 2, 2), "type"),
        ("a.ttx", "text", "type"),
    ],
)
def test_what_the_files_cannot_hold(tmp_path: Path, name: str, value, kind: str) -> None:
    with pytest.raises(FinchError) as caught:
        fwrite(str(tmp_path / name), value)
    assert caught.value.kind == kind
    assert list(tmp_path.iterdir()) == []
