"""Binsparse 0.1: every format and structure that the standard names, in files made by hand; and files that
are wrong or reach beyond themselves."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_files import output_of

from finchlang import FinchError, Tensor
from finchlang.files.suffixes import fread, fwrite
from finchlang.tensors.tensor import SwizzledTensor

h5py = pytest.importorskip("h5py")
binsparse = pytest.importorskip("binsparse")

MATRIX = np.array([[0, 0, 0, 7.0], [0, 5, 0, 0], [0, 0, 0, 0], [1, 0, 0, 2]])
ELEMENT = {"level_desc": "element"}
ZARR = pytest.param(".bsp.zarr", marks=pytest.mark.skipif(not find_spec("zarr"), reason="no zarr"))


def level(kind: str, below: dict, rank: int = 1) -> dict[str, Any]:
    return {"level_desc": kind, "rank": rank, "level": below}


def header(format: str, shape: Any, count: int, arrays: dict, **more: Any) -> dict[str, Any]:
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


def read(folder: Path, format: str, shape: Any, count: int, arrays: Any, **more: Any) -> Any:
    arrays = {name: np.asarray(array) for name, array in arrays.items()}
    return fread(make(folder / "a.bsp.h5", header(format, shape, count, arrays, **more), arrays))


def refused(path: Path | str, work: Callable[[], Any] | None = None, kind: str = "I/O") -> str:
    with pytest.raises(FinchError) as caught:
        (work or (lambda: fread(str(path))))()
    assert caught.value.kind == kind and (kind != "I/O" or str(path) in caught.value.message)
    return caught.value.message


# ------------------------------------------------------------------ reading what the standard names

ROWS, COLUMNS = [7.0, 5, 1, 2], [1.0, 5, 7, 2]
POINTERS = {"pointers_to_1": [0, 1, 2, 2, 4], "indices_1": [3, 1, 0, 3]}
LISTS = {"indices_0": [0, 1, 3], "pointers_to_1": [0, 1, 2, 4], "indices_1": [3, 1, 0, 3]}
PLACES = {"indices_0": [0, 1, 3, 3], "indices_1": [3, 1, 0, 3]}
#: our levels, and what the arrays hold
NAMED: dict[str, tuple[str, dict[str, Any]]] = {
    "DVEC": ("Dense({})", {"values": MATRIX[3]}),
    "CVEC": ("SparseList({})", {"indices_0": [0, 3], "values": [1.0, 2]}),
    "DMAT": ("swizzle(Dense(Dense({})), 2, 1)", {"values": MATRIX.ravel()}),
    "DMATR": ("swizzle(Dense(Dense({})), 2, 1)", {"values": MATRIX.ravel()}),
    "DMATC": ("Dense(Dense({}))", {"values": MATRIX.ravel("F")}),
    "CSR": ("swizzle(Dense(SparseList({})), 2, 1)", {**POINTERS, "values": ROWS}),
    "CSC": ("Dense(SparseList({}))", {**POINTERS, "values": COLUMNS}),
    "DCSR": ("swizzle(SparseList(SparseList({})), 2, 1)", {**LISTS, "values": ROWS}),
    "DCSC": ("SparseList(SparseList({}))", {**LISTS, "values": COLUMNS}),
    "COO": ("swizzle(SparseCOO{{2}}({}), 2, 1)", {**PLACES, "values": ROWS}),
    "COOR": ("swizzle(SparseCOO{{2}}({}), 2, 1)", {**PLACES, "values": ROWS}),
    "COOC": ("SparseCOO{{2}}({})", {**PLACES, "values": COLUMNS}),
}


@pytest.mark.parametrize("format", NAMED)
def test_named_formats(tmp_path: Path, format: str) -> None:
    ours, arrays = NAMED[format]
    expected = MATRIX[3] if "VEC" in format else MATRIX
    tensor = read(tmp_path, format, expected.shape, len(arrays["values"]), arrays)
    assert str(tensor.format) == ours.format("Element(0.0)")
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
    if "indices_1" in arrays:  # and with indices that count from one
        own = {n: np.asarray(a) + (n != "values") for n, a in arrays.items()}
        tensor = read(tmp_path, format, expected.shape, 4, own, index_base=1)
        np.testing.assert_array_equal(tensor.to_numpy(), expected)


def test_index_types_are_kept_where_they_can_be(tmp_path: Path) -> None:
    arrays = NAMED["CSC"][1]
    for dtype, index in ((np.int32, "{Int32}"), (np.uint32, ""), (np.uint64, ""), (np.int64, "")):
        own = {n: np.asarray(a, float if n == "values" else dtype) for n, a in arrays.items()}
        tensor = read(tmp_path, "CSC", (4, 4), 4, own)
        assert str(tensor.format) == f"Dense(SparseList{index}(Element(0.0)))"
        np.testing.assert_array_equal(tensor.to_numpy(), MATRIX)
    tall = {"indices_0": np.array([5, 100], np.int8), "values": np.array([1.0, 2])}
    tensor = read(tmp_path, "CVEC", (1000,), 2, tall)
    assert str(tensor.format) == "SparseList(Element(0.0))" and tensor.to_numpy()[100] == 2


def test_iso_values_and_fills(tmp_path: Path) -> None:
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
    types, one = {"values": "iso[float64]"}, {"values": np.ones(1)}
    assert read(tmp_path, "DVEC", (3,), 3, one, data_types=types).to_numpy().tolist() == [1, 1, 1]
    with pytest.raises(FinchError) as caught:  # told in a few bytes
        read(tmp_path, "DVEC", (2**45,), 2**45, one, data_types=types)
    assert caught.value.kind == "resource"
    arrays = {"indices_0": [1], "values": [3.0], "fill_value": [np.inf]}
    tensor = read(tmp_path, "CVEC", (3,), 1, arrays, fill=True)
    assert tensor.to_numpy().tolist() == [np.inf, 3, np.inf]
    assert str(tensor.format) == "SparseList(Element(Inf))"


def ours(name: str, leaf: str, array: np.ndarray) -> Tensor | SwizzledTensor:
    """An array in our format for one of the standard's."""
    format = NAMED[name][0].format(leaf)
    if not format.startswith("swizzle"):
        return Tensor.from_numpy(array, format)
    body = format.removeprefix("swizzle(").removesuffix(", 2, 1)")
    return SwizzledTensor(Tensor.from_numpy(array.T, body), (2, 1))


@pytest.mark.parametrize("half", ["lower", "upper"])
@pytest.mark.parametrize("kind", ["symmetric", "skew_symmetric"])
@pytest.mark.parametrize("format", ["CSR", "CSC", "COOR", "COOC", "DMATR", "DMATC", "DCSR"])
def test_structures(tmp_path: Path, kind: str, half: str, format: str) -> None:
    matrix = np.array([[1.0, 2, 7], [2, 9, 0], [7, 0, 3]])
    if kind == "skew_symmetric":
        matrix = np.tril(matrix, -1) - np.triu(matrix, 1)
    path = str(tmp_path / "a.bsp.h5")
    fwrite(
        path, ours(format, "Element(0.0)", np.tril(matrix) if half == "lower" else np.triu(matrix))
    )
    with h5py.File(path, "r+") as file:
        described = json.loads(file.attrs["binsparse"])
        assert described["binsparse"]["format"] == format
        described["binsparse"]["structure"] = f"{kind}_{half}"
        file.attrs["binsparse"] = json.dumps(described)
    np.testing.assert_array_equal(fread(path).to_numpy(), matrix)


def test_custom_levels(tmp_path: Path) -> None:
    """A transpose that is not its own inverse, A[i, j, k] = B[k, i, j], of which the levels have the
    dimensions k, i, j; and a dense level of rank 2, which is two of ours, in the words of a draft."""
    custom = {"level": level("sparse", ELEMENT, 3), "transpose": [2, 0, 1]}
    arrays = {"indices_0": [1, 3], "indices_1": [0, 1], "indices_2": [2, 0], "values": [7, 5]}
    tensor = read(tmp_path, "custom", (2, 3, 4), 2, arrays, custom=custom)
    expected = np.zeros((2, 3, 4), int)
    expected[0, 2, 1], expected[1, 0, 3] = 7, 5
    np.testing.assert_array_equal(tensor.to_numpy(), expected)
    text = json.dumps(level("dense", level("sparse", ELEMENT), 2)).replace("_desc", "_kind")
    arrays = {"pointers_to_2": [0, 1, 1, 2, 3], "indices_2": [2, 0, 1], "values": [1, 2, 3]}
    expected = np.zeros((2, 2, 3), int)
    expected[0, 0, 2], expected[1, 0, 0], expected[1, 1, 1] = 1, 2, 3
    for key in ("custom", "tensor"):
        own = {key: {"level": json.loads(text)}}
        tensor = read(tmp_path, "custom", (2, 2, 3), 3, arrays, **own)
        np.testing.assert_array_equal(tensor.to_numpy(), expected)


# --------------------------------------------------------------------------------- what is wrong

GOOD = {name: np.asarray(array) for name, array in NAMED["CSR"][1].items()}
CUSTOM = {"format": "custom"}
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "version": ({"version": "2.0.0"}, "version '2.0.0'"),
    "format": ({"format": "CSX"}, "'CSX'"),
    "no levels": (CUSTOM, "custom.level"),
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
    "level": (CUSTOM | {"custom": {"level": level("banded", ELEMENT)}}, "'banded'"),
    "great rank": (
        CUSTOM | {"custom": {"level": level("dense", ELEMENT, 10**12)}},
        "the tensor rank",
    ),
    "rank": (CUSTOM | {"custom": {"level": level("sparse", ELEMENT, 0)}}, "rank must be >= 1"),
    "transpose": (
        CUSTOM | {"custom": {"level": level("dense", ELEMENT, 2), "transpose": [0, 0]}},
        "a permutation of the dimensions",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_descriptors_that_are_wrong(tmp_path: Path, case: str) -> None:
    change, words = BAD[case]
    path = make(tmp_path / "a.bsp.h5", header("CSR", (4, 4), 4, GOOD) | change, GOOD)
    assert words in refused(path)


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
    described = header("CSR", (4, 4), 4, GOOD)
    if given.get("indices_1", np.empty(0)).dtype.kind == "f":
        described["data_types"]["indices_1"] = "float64"
    assert words in refused(make(tmp_path / "a.bsp.h5", described, given))


def test_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "a.bsp.h5"
    for content in (b"", b"hello", b"\x89HDF\r\n\x1a\n" + b"\0" * 100):
        path.write_bytes(content)
        refused(path)
    for text in ("", "[]", "3", '{"binsparse": 3}', "{}", "{"):
        refused(make(path, text, {}))
    with h5py.File(path, "w") as file:
        file["values"] = np.arange(1000)
    assert "no Binsparse file" in refused(path)
    fwrite(str(path), np.arange(1000))
    whole = path.read_bytes()
    for length in (len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        refused(path)
    path = tmp_path / "a.bsp.npz"
    for content in (b"", b"PK\x03\x04", b"\x80\x04]."):
        path.write_bytes(content)
        refused(path)
    np.savez(tmp_path / "a.bsp", values=np.arange(3.0))
    assert "`binsparse`" in refused(path)
    fwrite(str(path), np.arange(3.0))
    with np.load(path) as archive:
        descriptor = archive["binsparse"]
    np.savez(tmp_path / "a.bsp", binsparse=descriptor)
    assert "no array `values`" in refused(path)
    np.savez(tmp_path / "a.bsp", binsparse=descriptor, values=np.array([{}] * 3, object))
    refused(path)  # objects could run code


def test_what_no_machine_or_tensor_holds(tmp_path: Path) -> None:
    """A dataset of which nothing is stored, and complex numbers."""
    path = tmp_path / "a.bsp.h5"
    make(path, header("DVEC", (2**45,), 2**45, {"values": np.ones(1)}), {})
    with h5py.File(path, "r+") as file:
        file.create_dataset("values", (2**45,), np.float64, chunks=(2**20,))
    refused(path, kind="resource")
    types = {"values": "complex[float64]"}
    given = (tmp_path, "DVEC", (2,), 2, {"values": np.arange(4.0)})
    refused(path, lambda: read(*given, data_types=types), kind="type")


def test_what_is_in_other_files_is_not_read(tmp_path: Path) -> None:
    path, secret = tmp_path / "a.bsp.h5", str(tmp_path / "secret.h5")
    with h5py.File(secret, "w") as file:
        file["values"] = np.arange(3.0)
    np.arange(3.0).tofile(tmp_path / "secret.bin")
    layout = h5py.VirtualLayout((3,), np.float64)
    layout[:] = h5py.VirtualSource(secret, "values", (3,))
    external = [(str(tmp_path / "secret.bin"), 0, 24)]
    cases: list[tuple[Any, str]] = [
        (lambda file: file.create_dataset("values", (3,), float, external=external), "other files"),
        (lambda file: file.create_virtual_dataset("values", layout), "other files"),
        (lambda file: file.__setitem__("values", h5py.ExternalLink(secret, "values")), "is a link"),
        (lambda file: file.__setitem__("values", h5py.SoftLink("/elsewhere")), "is a link"),
    ]
    for plant, words in cases:
        fwrite(str(path), np.arange(3.0))
        with h5py.File(path, "r+") as file:
            del file["values"]
            plant(file)
        assert words in refused(path)


DEEP = """
import sys
from finchlang import Session
for path in sys.argv[1:]:
    try:
        Session().run(f'fread("{path}")')
    except Exception as error:
        print(error.kind, "deep" in error.message, flush=True)
"""


@pytest.mark.parametrize("suffix", [".bsp.h5", ".bsp.npz", ZARR])
def test_descriptors_of_many_brackets(tmp_path: Path, suffix: str) -> None:
    """In a process of their own, from a script: they took the process down."""
    openings = ("[", '{"a":', '{"binsparse": {"version": "0.1.0", "shape": [')
    paths = [tmp_path / f"{number}{suffix}" for number in range(len(openings))]
    for path, opening in zip(paths, openings, strict=True):
        text = opening + "[" * 100_000
        if suffix == ".bsp.npz":
            np.savez(path.with_suffix(""), binsparse=np.asarray(text))
        elif suffix == ".bsp.zarr":
            path.mkdir()
            (path / "zarr.json").write_text(text)
        else:
            with h5py.File(path, "w", libver="latest") as file:
                file.attrs["binsparse"] = text
    assert output_of(DEEP, *paths) == "I/O True\n" * len(paths)


def test_folders_that_are_wrong(tmp_path: Path) -> None:
    """What is elsewhere, is no file, is encoded in another way or is missing."""
    pytest.importorskip("zarr")
    folder = tmp_path / "a.bsp.zarr"
    fwrite(str(folder), np.arange(3.0))
    described = folder / "values" / "zarr.json"
    known = json.loads(described.read_text())
    huge = {"name": "regular", "configuration": {"chunk_shape": [10**15]}}
    for change, kind in (
        ({"codecs": [{"name": "pickle"}]}, "I/O"),
        ({"codecs": [{"name": "vlen-utf8"}]}, "I/O"),
        ({"codecs": [{"name": "numcodecs.zlib"}]}, "I/O"),
        ({"data_type": "string", "fill_value": ""}, "I/O"),
        ({"chunk_grid": huge}, "resource"),
    ):
        described.write_text(json.dumps(known | change))
        refused(folder, kind=kind)
    described.write_text(json.dumps(known))
    assert fread(str(folder)).to_numpy().tolist() == [0.0, 1.0, 2.0]
    (folder / "values" / "c" / "1").symlink_to("/etc/passwd")
    refused(folder)
    (folder / "values" / "c" / "1").unlink()
    shutil.move(folder / "values", folder.with_name("values"))
    assert "no array `values`" in refused(folder)
    (folder / "zarr.json").unlink()
    refused(folder)
    shutil.rmtree(folder)
    refused(folder)
    (folder.mkdir(), (folder / "thesis").write_text("mine"))
    assert "something else" in refused(folder, lambda: fwrite(str(folder), np.ones(3)))
    assert (folder / "thesis").exists()


@pytest.mark.parametrize("suffix, library", [(".bsp.h5", "binsparse"), (".bsp.zarr", "zarr")])
def test_without_the_library_the_error_says_how_to_get_it(
    tmp_path: Path, suffix: str, library: str, monkeypatch: Any
) -> None:
    pytest.importorskip(library)
    path = tmp_path / f"a{suffix}"
    fwrite(str(path), np.eye(2))
    monkeypatch.setitem(sys.modules, library, None)
    for attempt in (lambda: fread(str(path)), lambda: fwrite(str(path), np.eye(3))):
        with pytest.raises(FinchError) as caught:
            attempt()
        assert caught.value.kind == "I/O" and library in caught.value.message
        extra = "zarr" if library == "zarr" else "hdf5"
        assert caught.value.hint == f"pip install finchlang[{extra}]"
    monkeypatch.undo()
    np.testing.assert_array_equal(fread(str(path)).to_numpy(), np.eye(2))
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
