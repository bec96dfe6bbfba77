"""Binsparse 0.1 in HDF5: every format the standard names, nests of levels, iso values, structures;
every level of ours; and files that are wrong."""

from __future__ import annotations

import json
import sys
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from every_format import LEAVES, fits, nests

from finchlang.script.files import fread, fwrite
from finchlang.source import FinchError
from finchlang.tensors.formats import parse_format
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor

h5py = pytest.importorskip("h5py")
binsparse = pytest.importorskip("binsparse")

MATRIX = np.array([[0, 0, 0, 7.0], [0, 5, 0, 0], [0, 0, 0, 0], [1, 0, 0, 2]])
ELEMENT = {"level_desc": "element"}


def level(kind: str, below: dict, rank: int = 1) -> dict[str, Any]:
    return {"level_desc": kind, "rank": rank, "level": below}


def header(format: str, shape, count: int, arrays: dict, **more: Any) -> dict[str, Any]:
    types = {name: "bint8" if a.dtype == bool else str(a.dtype) for name, a in arrays.items()}
    types |= more.pop("data_types", {})
    return {
        **{"version": "0.1", "format": format, "shape": list(shape)},
        **{"number_of_stored_values": count, "data_types": types},
        **more,
    }


def make(path: Path, described: Any, arrays: dict[str, np.ndarray]) -> str:
    """Write a file by hand."""
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[name] = array.view(np.uint8) if array.dtype == bool else array
        text = described if isinstance(described, str) else json.dumps({"binsparse": described})
        file.attrs["binsparse"] = text
    return str(path)


def read(folder: Path, format: str, shape, count: int, arrays: dict[str, Any], **more: Any):
    arrays = {name: np.asarray(array) for name, array in arrays.items()}
    return fread(make(folder / "a.bsp.h5", header(format, shape, count, arrays, **more), arrays))


# ------------------------------------------------------------ reading what the standard names

VALUES = [7.0, 5, 1, 2]
NAMED = {
    "DVEC": ("Dense(Element(0.0))", MATRIX[3], {"values": MATRIX[3]}),
    "CVEC": ("SparseList(Element(0.0))", MATRIX[3], {"indices_0": [0, 3], "values": [1.0, 2]}),
    "DMAT": ("swizzle(Dense(Dense(Element(0.0))), 2, 1)", MATRIX, {"values": MATRIX.ravel()}),
    "DMATR": ("swizzle(Dense(Dense(Element(0.0))), 2, 1)", MATRIX, {"values": MATRIX.ravel()}),
    "DMATC": ("Dense(Dense(Element(0.0)))", MATRIX, {"values": MATRIX.ravel("F")}),
    "CSR": (
        "swizzle(Dense(SparseList(Element(0.0))), 2, 1)",
        MATRIX,
        {"pointers_to_1": [0, 1, 2, 2, 4], "indices_1": [3, 1, 0, 3], "values": VALUES},
    ),
    "CSC": (
        "Dense(SparseList(Element(0.0)))",
        MATRIX,
        {"pointers_to_1": [0, 1, 2, 2, 4], "indices_1": [3, 1, 0, 3], "values": [1.0, 5, 7, 2]},
    ),
    "DCSR": (
        "swizzle(SparseList(SparseList(Element(0.0))), 2, 1)",
        MATRIX,
        {
            **{"indices_0": [0, 1, 3], "pointers_to_1": [0, 1, 2, 4]},
            **{"indices_1": [3, 1, 0, 3], "values": VALUES},
        },
    ),
    "DCSC": (
        "SparseList(SparseList(Element(0.0)))",
        MATRIX,
        {
            **{"indices_0": [0, 1, 3], "pointers_to_1": [0, 1, 2, 4]},
            **{"indices_1": [3, 1, 0, 3], "values": [1.0, 5, 7, 2]},
        },
    ),
    "COO": (
        "swizzle(SparseCOO{2}(Element(0.0)), 2, 1)",
        MATRIX,
        {"indices_0": [0, 1, 3, 3], "indices_1": [3, 1, 0, 3], "values": VALUES},
    ),
    "COOR": (
        "swizzle(SparseCOO{2}(Element(0.0)), 2, 1)",
        MATRIX,
        {"indices_0": [0, 1, 3, 3], "indices_1": [3, 1, 0, 3], "values": VALUES},
    ),
    "COOC": (
        "SparseCOO{2}(Element(0.0))",
        MATRIX,
        {"indices_0": [0, 1, 3, 3], "indices_1": [3, 1, 0, 3], "values": [1.0, 5, 7, 2]},
    ),
}


@pytest.mark.parametrize("format", NAMED)
def test_named_formats(tmp_path: Path, format: str) -> None:
    ours, expected, arrays = NAMED[format]
    tensor = read(tmp_path, format, expected.shape, len(arrays["values"]), arrays)
    assert str(tensor.format) == ours
    np.testing.assert_array_equal(tensor.to_numpy(), expected)
    # and written again under the same name, with the same arrays
    path = str(tmp_path / "b.bsp.h5")
    fwrite(path, tensor)
    with h5py.File(path) as file:
        assert file.keys() == arrays.keys()
        for name, array in arrays.items():
            np.testing.assert_array_equal(file[name][()], array)
        described = json.loads(file.attrs["binsparse"])["binsparse"]
    assert described["format"] == {"DMAT": "DMATR", "COO": "COOR"}.get(format, format)
    assert described["shape"] == list(expected.shape) and "custom" not in described
    assert described["data_types"].keys() == arrays.keys() and "fill" not in described
    assert described["number_of_stored_values"] == len(arrays["values"])


def test_index_types_are_kept_where_they_can_be(tmp_path: Path) -> None:
    _, expected, arrays = NAMED["CSC"]
    for dtype, index in ((np.int32, "{Int32}"), (np.uint32, ""), (np.uint64, ""), (np.int64, "")):
        own = {n: np.asarray(a, float if n == "values" else dtype) for n, a in arrays.items()}
        tensor = read(tmp_path, "CSC", expected.shape, 4, own)
        assert str(tensor.format) == f"Dense(SparseList{index}(Element(0.0)))"
        np.testing.assert_array_equal(tensor.to_numpy(), expected)
    tall = {"indices_0": np.array([5, 100], np.int8), "values": np.array([1.0, 2])}
    tensor = read(tmp_path, "CVEC", (1000,), 2, tall)
    assert str(tensor.format) == "SparseList(Element(0.0))" and tensor.to_numpy()[100] == 2


def test_iso_values(tmp_path: Path) -> None:
    """The example of the standard's section on iso values, and Patterns."""
    arrays = {"pointers_to_1": [0, 1, 3, 3, 5, 6], "indices_1": [3, 1, 4, 1, 2, 3]}
    expected = np.zeros((5, 5), np.int8)
    expected[[0, 1, 1, 3, 3, 4], arrays["indices_1"]] = 7
    for value, name in ((np.int8(7), "int8"), (np.uint8(1), "bint8"), (np.uint8(0), "bint8")):
        own = arrays | {"values": np.array([value])}
        tensor = read(tmp_path, "CSR", (5, 5), 6, own, data_types={"values": f"iso[{name}]"})
        scaled = expected if value == 7 else (expected > 0) & bool(value)
        np.testing.assert_array_equal(tensor.to_numpy(), scaled)
        leaf = {7: "Element(Int8(0))", 1: "Pattern()", 0: "Element(false)"}[int(value)]
        assert str(tensor.body.format) == f"Dense(SparseList({leaf}))"
    dense = read(
        *(tmp_path, "DVEC", (3,), 3), {"values": np.ones(1)}, data_types={"values": "iso[float64]"}
    )
    assert dense.to_numpy().tolist() == [1, 1, 1]


@pytest.mark.parametrize("half", ["lower", "upper"])
@pytest.mark.parametrize("kind", ["symmetric", "skew_symmetric"])
@pytest.mark.parametrize("format", ["CSR", "CSC", "COOR", "COOC", "DMATR", "DMATC", "DCSR"])
def test_structures(tmp_path: Path, kind: str, half: str, format: str) -> None:
    matrix = np.array([[1.0, 2, 7], [2, 9, 0], [7, 0, 3]])
    if kind == "skew_symmetric":
        matrix = np.tril(matrix, -1) - np.triu(matrix, 1)
    stored = np.tril(matrix) if half == "lower" else np.triu(matrix)
    by_rows = format in ("CSR", "COOR", "DMATR", "DCSR")
    levels = {"CSR": "Dense(SparseList({}))", "COOR": "SparseCOO{{2}}({})"}
    levels |= {"DMATR": "Dense(Dense({}))", "DCSR": "SparseList(SparseList({}))"}
    text = levels[format.replace("CSC", "CSR").replace("OOC", "OOR").replace("ATC", "ATR")]
    tensor = Tensor.from_numpy(stored.T if by_rows else stored, text.format("Element(0.0)"))
    path = str(tmp_path / "a.bsp.h5")
    fwrite(path, SwizzledTensor(tensor, (2, 1)) if by_rows else tensor)
    with h5py.File(path, "r+") as file:
        described = json.loads(file.attrs["binsparse"])
        assert described["binsparse"]["format"] == format
        described["binsparse"]["structure"] = f"{kind}_{half}"
        file.attrs["binsparse"] = json.dumps(described)
    np.testing.assert_array_equal(fread(path).to_numpy(), matrix)


# ------------------------------------------------------------------- custom nests of levels


def test_a_custom_transpose_that_is_not_its_own_inverse(tmp_path: Path) -> None:
    """A[i, j, k] = B[k, i, j]: the levels have the dimensions k, i, j."""
    custom = {"level": level("sparse", ELEMENT, 3), "transpose": [2, 0, 1]}
    arrays = {"indices_0": [1, 3], "indices_1": [0, 1], "indices_2": [2, 0], "values": [7, 5]}
    tensor = read(tmp_path, "custom", (2, 3, 4), 2, arrays, custom=custom)
    expected = np.zeros((2, 3, 4), int)
    expected[0, 2, 1], expected[1, 0, 3] = 7, 5
    np.testing.assert_array_equal(tensor.to_numpy(), expected)


def test_ranks_and_names_of_the_draft(tmp_path: Path) -> None:
    """A dense level of rank 2 is two of ours; a draft wrote `tensor` and `level_kind`."""
    text = json.dumps(level("dense", level("sparse", ELEMENT), 2)).replace("_desc", "_kind")
    arrays = {"pointers_to_2": [0, 1, 1, 2, 3], "indices_2": [2, 0, 1], "values": [1, 2, 3]}
    expected = np.zeros((2, 2, 3), int)
    expected[0, 0, 2], expected[1, 0, 0], expected[1, 1, 1] = 1, 2, 3
    for key in ("custom", "tensor"):
        own = {key: {"level": json.loads(text)}}
        tensor = read(tmp_path, "custom", (2, 2, 3), 3, arrays, **own)
        np.testing.assert_array_equal(tensor.to_numpy(), expected)


def test_indices_that_count_from_one(tmp_path: Path) -> None:
    _, expected, arrays = NAMED["DCSC"]
    own = {n: np.asarray(a) + (n != "values") for n, a in arrays.items()}
    tensor = read(tmp_path, "DCSC", expected.shape, 4, own, index_base=1)
    np.testing.assert_array_equal(tensor.to_numpy(), expected)


def test_fill_values(tmp_path: Path) -> None:
    arrays = {"indices_0": [1], "values": [3.0], "fill_value": [np.inf]}
    tensor = read(tmp_path, "CVEC", (3,), 1, arrays, fill=True)
    assert tensor.to_numpy().tolist() == [np.inf, 3, np.inf]
    assert str(tensor.format) == "SparseList(Element(Inf))"


@pytest.mark.parametrize("modes", [*permutations((1, 2, 3))])
@pytest.mark.parametrize(
    "format",
    [
        "Dense(SparseList(Dense({})))",
        "SparseList(SparseList(SparseList({})))",
        "Dense(SparseCOO{{2}}({}))",
        "SparseCOO{{2}}(SparseList{{Int32}}({}))",
        "SparseCOO{{3}}({})",
    ],
)
def test_nests_come_back_in_their_formats(tmp_path: Path, format: str, modes) -> None:
    array = np.where(np.arange(24).reshape(2, 3, 4) % 5 == 1, np.arange(24).reshape(2, 3, 4), 3)
    tensor = SwizzledTensor(Tensor.from_numpy(array, format.format("Element(3)")), modes)
    path = str(tmp_path / "a.bsp.h5")
    fwrite(path, tensor)
    back = fread(path)
    assert str(back.format) == str(tensor.format if modes != (1, 2, 3) else tensor.body.format)
    np.testing.assert_array_equal(back.to_numpy(), tensor.to_numpy())


@pytest.mark.parametrize("leaf", LEAVES)
def test_every_level_and_element_type_is_written(tmp_path: Path, leaf: str) -> None:
    dtype, fill, value = LEAVES[leaf]
    array = np.full((3, 3), fill, dtype)
    array[0, 0] = array[1, 1] = value
    path = str(tmp_path / "a.bsp.hdf5")
    formats = nests(leaf, 2)
    for format in formats if leaf == "Element(0.0)" else formats[::10]:
        tensor = fits(format, array)
        if tensor is not None:
            fwrite(path, tensor)
            back = fread(path)
            assert back.dtype == dtype and (back.fill == fill)
            np.testing.assert_array_equal(back.to_numpy(), array, format)
            kinds = {type(part).__name__ for part in parse_format(format).levels()}
            if kinds <= {"Dense", "SparseList", "Element", "Pattern"}:
                assert str(back.format) == format


@pytest.mark.parametrize("shape", [(0,), (1,), (0, 3), (3, 0), (2, 0, 3)])
def test_odd_shapes(tmp_path: Path, shape: tuple[int, ...]) -> None:
    for format in nests("Element(0.0)", len(shape))[:: 1 if len(shape) < 3 else 40]:
        tensor = fits(format, np.zeros(shape))
        if tensor is not None:
            path = str(tmp_path / "a.bsp.h5")
            fwrite(path, tensor)
            assert fread(path).shape == shape


def test_scalars_and_arrays(tmp_path: Path) -> None:
    path = str(tmp_path / "a.bsp.h5")
    fwrite(path, Scalar(2.0, 5.0))
    back = fread(path)
    assert isinstance(back, Scalar) and (back.value, back.fill) == (5.0, 2.0)
    for array in (np.arange(6).reshape(2, 3), np.asfortranarray(np.eye(3, dtype=bool))):
        fwrite(path, array)
        np.testing.assert_array_equal(fread(path).to_numpy(), array)


# ------------------------------------------------------------------------ what is wrong

GOOD = NAMED["CSR"][2]
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "version": ({"version": "2.0.0"}, "version '2.0.0'"),
    "format": ({"format": "CSX"}, "'CSX'"),
    "no levels": ({"format": "custom"}, "custom.level"),
    "shape": ({"shape": [4, -4]}, "whole numbers"),
    "shape is no list": ({"shape": 4}, "no list"),
    "short shape": ({"shape": [4]}, "the tensor rank"),
    "rows": ({"shape": [3, 4]}, "5 entries, not 4"),
    "columns": ({"shape": [4, 3]}, "0..2"),
    "count": ({"number_of_stored_values": 5}, "expected 5"),
    "type": ({"data_types": {"values": "float64"}}, "data type for buffer"),
    "another type": ({"data_types": dict.fromkeys(GOOD, "float16")}, "'float16'"),
    "integers": ({"data_types": dict.fromkeys(GOOD, "int8")}, "holds float64, not int8"),
    "structure": ({"structure": "hermitian_lower"}, "`hermitian_lower`"),
    "fill": ({"fill": True}, "'fill_value'"),
    "base": ({"index_base": 2}, "count from 2"),
    "level": (
        {"format": "custom", "custom": {"level": level("banded", ELEMENT)}},
        "'banded'",
    ),
    "great rank": (
        {"format": "custom", "custom": {"level": level("dense", ELEMENT, 10**12)}},
        "the tensor rank",
    ),
    "rank": (
        {"format": "custom", "custom": {"level": level("sparse", ELEMENT, 0)}},
        "rank must be >= 1",
    ),
    "transpose": (
        {"format": "custom", "custom": {"level": level("dense", ELEMENT, 2), "transpose": [0, 0]}},
        "a permutation of the dimensions",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_descriptors_that_are_wrong(tmp_path: Path, case: str) -> None:
    change, words = BAD[case]
    arrays = {name: np.asarray(array) for name, array in GOOD.items()}
    path = make(tmp_path / "a.bsp.h5", header("CSR", (4, 4), 4, arrays) | change, arrays)
    with pytest.raises(FinchError) as caught:
        fread(path)
    assert caught.value.kind == "I/O" and path in caught.value.message
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"pointers_to_1": [0, 1, 2, 2, 3]}, "ends at 3"),
        ({"pointers_to_1": [0, 1, 2, 2, 5]}, "ends at 5"),
        ({"pointers_to_1": [0, 2, 1, 2, 4]}, "never descend"),
        ({"pointers_to_1": [1, 1, 2, 2, 4]}, "start at 0"),
        ({"pointers_to_1": [0, 4]}, "2 entries, not 5"),
        ({"indices_1": [3, 1, 0, 4]}, "0..3"),
        ({"indices_1": [3, 1, 0, -1]}, "0..3"),
        ({"indices_1": [3, 1, 3, 0]}, "ascend"),
        ({"indices_1": [3, 1, 0]}, "ends at 4"),
        ({"indices_1": [3.0, 1.0, 0.0, 3.0]}, "no integers"),
        ({"values": [7.0, 5, 1]}, "size 3, expected 4"),
        ({"values": None}, "no array `values`"),
        ({"indices_1": np.array([b"a"])}, "no array of numbers"),
    ],
)
def test_arrays_that_are_wrong(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    given = {n: np.asarray(a) for n, a in (GOOD | change).items() if a is not None}
    described = header("CSR", (4, 4), 4, {n: np.asarray(a) for n, a in GOOD.items()})
    if given.get("indices_1", np.empty(0)).dtype.kind == "f":
        described["data_types"]["indices_1"] = "float64"
    path = make(tmp_path / "a.bsp.h5", described, given)
    with pytest.raises(FinchError) as caught:
        fread(path)
    assert caught.value.kind == "I/O" and words in caught.value.message


@pytest.mark.parametrize("content", [b"", b"hello", b"\x89HDF\r\n\x1a\n" + b"\0" * 100])
def test_files_that_are_no_hdf5(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.bsp.h5").write_bytes(content)
    with pytest.raises(FinchError) as caught:
        fread(str(tmp_path / "a.bsp.h5"))
    assert caught.value.kind == "I/O" and "a.bsp.h5" in caught.value.message


@pytest.mark.parametrize("text", ["", "[]", "3", '{"binsparse": 3}', "{}", "{"])
def test_descriptors_that_are_no_json(tmp_path: Path, text: str) -> None:
    with pytest.raises(FinchError) as caught:
        fread(make(tmp_path / "a.bsp.h5", text, {}))
    assert caught.value.kind == "I/O"


def test_hdf5_without_a_tensor_and_truncated(tmp_path: Path) -> None:
    path = tmp_path / "a.bsp.h5"
    with h5py.File(path, "w") as file:
        file["values"] = np.arange(1000)
    with pytest.raises(FinchError) as caught:
        fread(str(path))
    assert "no Binsparse file" in caught.value.message
    fwrite(str(path), np.arange(1000))
    whole = path.read_bytes()
    for length in (len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(FinchError) as caught:
            fread(str(path))
        assert caught.value.kind == "I/O"


def test_complex_numbers_are_a_type_error(tmp_path: Path) -> None:
    with pytest.raises(FinchError) as caught:
        read(
            *(tmp_path, "DVEC", (2,), 2),
            {"values": np.arange(4.0)},
            data_types={"values": "complex[float64]"},
        )
    assert caught.value.kind == "type"


def test_sizes_the_machine_cannot_hold(tmp_path: Path) -> None:
    """Told in a few bytes: an iso array, and a dataset of which nothing is stored."""
    values = {"values": np.ones(1)}
    iso = {"values": "iso[float64]"}
    with pytest.raises(FinchError) as caught:
        read(tmp_path, "DVEC", (2**45,), 2**45, values, data_types=iso)
    assert caught.value.kind == "resource"
    path = tmp_path / "a.bsp.h5"
    make(path, header("DVEC", (2**45,), 2**45, {"values": np.ones(1)}), {})
    with h5py.File(path, "r+") as file:
        file.create_dataset("values", (2**45,), np.float64, chunks=(2**20,))
    with pytest.raises(FinchError) as caught:
        fread(str(path))
    assert caught.value.kind == "resource"


def test_without_the_library_the_error_says_how_to_get_it(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "a.bsp.h5"
    fwrite(str(path), np.eye(2))
    before = path.read_bytes()
    monkeypatch.setitem(sys.modules, "binsparse", None)
    for attempt in (lambda: fread(str(path)), lambda: fwrite(str(path), np.eye(3))):
        with pytest.raises(FinchError) as caught:
            attempt()
        assert caught.value.kind == "I/O" and "takes the library binsparse" in caught.value.message
        assert caught.value.hint == "pip install finchlang[hdf5]"
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == [path.name]
