"""Binsparse files go through the standard's reference library: what we write it reads and what it
writes we read, for every format and container; and files that reach beyond themselves are refused."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from every_format import LEAVES, fits, nests

from finchlang.script.files import fread, fwrite
from finchlang.source import FinchError
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor

h5py = pytest.importorskip("h5py")
binsparse = pytest.importorskip("binsparse")

MATRIX = np.array([[0, 0, 7.0], [0, 5, 0], [0, 0, 0], [1, 0, 2]])
ZARR = pytest.param(".bsp.zarr", marks=pytest.mark.skipif(not find_spec("zarr"), reason="no zarr"))
SUFFIXES = (".bsp.h5", ".bsp.hdf5", ".bsp.npz", ZARR)


def dense(tensor: Any) -> np.ndarray:
    """What a CustomTensor of the library stands for, read off its levels one by one."""
    order = tensor.transpose or tuple(range(len(tensor.shape)))
    fill = tensor.fill_value if tensor.fill else 0

    def entries(level: Any, depth: int, p: int) -> Iterator[tuple[tuple[int, ...], Any]]:
        if isinstance(level, binsparse.ElementLevel):
            yield (), level.values[p]
            return
        inner = depth + level.rank
        sizes = [tensor.shape[k] for k in order[depth:inner]]
        if isinstance(level, binsparse.DenseLevel):
            start = p * int(np.prod(sizes))
            places = [(start + k, at) for k, at in enumerate(np.ndindex(*sizes))]
        else:
            ptr = level.pointers_to_next
            begin, end = (0, len(level.indices[0])) if ptr is None else (ptr[p], ptr[p + 1])
            places = [(q, tuple(int(row[q]) for row in level.indices)) for q in range(begin, end)]
        for q, at in places:
            for below, value in entries(level.level, inner, q):
                yield at + below, value

    found = list(entries(tensor.level, 0, 0))
    array = np.full([tensor.shape[k] for k in order], fill, np.asarray([v for _, v in found]).dtype)
    for at, value in found:
        array[at] = value
    return array.transpose(np.argsort(order)) if order else array


def loaded(path: Path) -> Any:
    """A file as the library reads it, level by level."""
    container = path.with_name(path.name.replace(".bsp", ""))
    moved(path, container)
    return binsparse.load_binsparse(container, alias=False)


def saved(tensor: Any, path: Path, alias: bool | None = None) -> str:
    """A file as the library writes it."""
    container = path.with_name(path.name.replace(".bsp", ""))
    binsparse.save_binsparse(tensor, container, alias=alias)
    moved(container, path)
    return str(path)


def moved(source: Path, target: Path) -> None:
    if target.is_dir():
        shutil.rmtree(target)
    source.rename(target)


#: our format for each of the standard's
FORMATS = {
    "DVEC": "Dense({})",
    "CVEC": "SparseList({})",
    "DMATR": "Dense(Dense({}))",
    "DMATC": "Dense(Dense({}))",
    "CSR": "Dense(SparseList({}))",
    "CSC": "Dense(SparseList({}))",
    "DCSR": "SparseList(SparseList({}))",
    "DCSC": "SparseList(SparseList({}))",
    "COOR": "SparseCOO{{2}}({})",
    "COOC": "SparseCOO{{2}}({})",
}


def ours(name: str, leaf: str, array: np.ndarray) -> Tensor | SwizzledTensor:
    format = FORMATS[name].format(leaf)
    if array.ndim == 1 or name.endswith("C"):
        return Tensor.from_numpy(array, format)
    return SwizzledTensor(Tensor.from_numpy(array.T, format), (2, 1))


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", FORMATS)
def test_every_format_goes_both_ways(tmp_path: Path, name: str, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    for leaf, (dtype, fill, value) in LEAVES.items():
        if leaf == "Pattern()" and name in ("DVEC", "DMATR", "DMATC"):
            continue  # it would be true everywhere
        array = np.where(MATRIX == 0, np.array(fill, dtype), np.array(value, dtype))
        array = array[3] if "VEC" in name else array
        tensor = ours(name, leaf, array)
        fwrite(str(path), tensor)
        theirs = loaded(path)
        np.testing.assert_array_equal(dense(theirs), array)
        assert dense(theirs).dtype == dtype
        for alias in (True, False):
            back = fread(saved(theirs, path, alias))
            assert str(back.format) == str(tensor.format)
            np.testing.assert_array_equal(back.to_numpy(), array)


def test_what_we_write_has_the_names_of_the_standard(tmp_path: Path) -> None:
    for name in FORMATS:
        path = tmp_path / "a.h5"
        fwrite(
            str(tmp_path / "a.bsp.h5"),
            ours(name, "Element(0.0)", MATRIX[3] if "VEC" in name else MATRIX),
        )
        (tmp_path / "a.bsp.h5").rename(path)
        assert binsparse.load_binsparse(path).format == name


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_nests_of_levels_go_both_ways(tmp_path: Path, suffix: str) -> None:
    """Every level of ours, those that the standard cannot name too; modes in any order."""
    path = tmp_path / f"a{suffix}"
    array = np.zeros((3, 3))
    array[0, 0], array[1, 1] = 2.5, -1
    some = 8 if suffix == ".bsp.zarr" else 1  # many small files are slow; descriptors are the same
    for format in list(nests("Element(0.0)", 2))[::some]:
        tensor = fits(format, array)
        if tensor is not None:
            fwrite(str(path), tensor)
            theirs = loaded(path)
            np.testing.assert_array_equal(dense(theirs), tensor.to_numpy(), format)
            np.testing.assert_array_equal(fread(saved(theirs, path)).to_numpy(), tensor.to_numpy())
    cube = np.where(np.arange(24).reshape(2, 3, 4) % 5 == 1, np.arange(24).reshape(2, 3, 4), 3)
    for format in ("Dense(SparseCOO{2}(Element(3)))", "SparseCOO{2}(SparseList(Element(3)))"):
        for modes in permutations((1, 2, 3)):
            swizzled = SwizzledTensor(Tensor.from_numpy(cube, format), modes)
            fwrite(str(path), swizzled)
            np.testing.assert_array_equal(dense(loaded(path)), swizzled.to_numpy())


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_scalars_and_empty_tensors_go_both_ways(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    fwrite(str(path), Scalar(2.0, 5.0))
    theirs = loaded(path)
    assert theirs.fill_value == 2.0 and dense(theirs) == 5.0
    back = fread(saved(theirs, path))
    assert isinstance(back, Scalar) and (back.value, back.fill) == (5.0, 2.0)
    for format in ("Dense(SparseList(Pattern()))", "Dense(Dense(Element(0)))"):
        for shape in ((0, 3), (3, 0), (2, 3)):
            fwrite(str(path), Tensor(format, *shape))
            theirs = loaded(path)
            assert theirs.shape == shape
            assert str(fread(saved(theirs, path)).format) == format


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_levels_of_several_ranks_are_read(tmp_path: Path, suffix: str) -> None:
    level = binsparse.DenseLevel(2, binsparse.ElementLevel(MATRIX.ravel()))
    theirs = binsparse.CustomTensor((4, 3), 12, level=level)
    back = fread(saved(theirs, tmp_path / f"a{suffix}"))
    np.testing.assert_array_equal(back.to_numpy(), MATRIX)
    rows, columns = np.nonzero(MATRIX)
    level = binsparse.SparseLevel(2, binsparse.ElementLevel(MATRIX[rows, columns]), (rows, columns))
    theirs = binsparse.CustomTensor((4, 3), 4, level=level)
    np.testing.assert_array_equal(fread(saved(theirs, tmp_path / f"a{suffix}")).to_numpy(), MATRIX)


# --------------------------------------------------------------------- files that are not to be read


def refused(path: Path) -> str:
    with pytest.raises(FinchError) as caught:
        fread(str(path))
    assert caught.value.kind == "I/O" and str(path) in caught.value.message
    return caught.value.message


@pytest.fixture
def vector(tmp_path: Path) -> Path:
    """A file, beside one with secrets."""
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["values"] = np.arange(3.0)
    np.arange(3.0).tofile(tmp_path / "secret.bin")
    fwrite(str(tmp_path / "a.bsp.h5"), np.arange(3.0))
    with h5py.File(tmp_path / "a.bsp.h5", "r+") as file:
        del file["values"]
    return tmp_path / "a.bsp.h5"


def test_what_is_in_other_files_is_not_read(vector: Path) -> None:
    secret = str(vector.with_name("secret.h5"))
    layout = h5py.VirtualLayout((3,), np.float64)
    layout[:] = h5py.VirtualSource(secret, "values", (3,))
    external = [(str(vector.with_name("secret.bin")), 0, 24)]
    cases: list[tuple[Any, str]] = [
        (lambda file: file.create_dataset("values", (3,), float, external=external), "other files"),
        (lambda file: file.create_virtual_dataset("values", layout), "other files"),
        (lambda file: file.__setitem__("values", h5py.ExternalLink(secret, "values")), "is a link"),
        (lambda file: file.__setitem__("values", h5py.SoftLink("/elsewhere")), "is a link"),
    ]
    for plant, words in cases:
        with h5py.File(vector, "r+") as file:
            plant(file)
        assert words in refused(vector)
        with h5py.File(vector, "r+") as file:
            del file["values"]


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
    program = f"""
from finchlang import Session
for path in {list(map(str, paths))}:
    try:
        Session().run(f'fread("{{path}}")')
    except Exception as error:
        print(error.kind, "deep" in error.message, flush=True)
"""
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "I/O True\n" * len(paths)), done.stderr


def test_archives_that_are_wrong(tmp_path: Path) -> None:
    path = tmp_path / "a.bsp.npz"
    for content in (b"", b"PK\x03\x04", b"\x80\x04]."):
        path.write_bytes(content)
        refused(path)
    np.savez(tmp_path / "a.bsp", values=np.arange(3.0))
    assert "`binsparse`" in refused(path)
    fwrite(str(path), np.arange(3.0))
    with np.load(path) as archive:
        header = archive["binsparse"]
    np.savez(tmp_path / "a.bsp", binsparse=header)
    assert "no array `values`" in refused(path)
    np.savez(tmp_path / "a.bsp", binsparse=header, values=np.array([{}] * 3, object))
    refused(path)  # objects could run code


# ------------------------------------------------------------------------------------ Zarr's folders


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pytest.importorskip("zarr")
    fwrite(str(tmp_path / "a.bsp.zarr"), np.arange(3.0))
    return tmp_path / "a.bsp.zarr"


def test_folders_that_are_wrong(folder: Path) -> None:
    """What is elsewhere, is no file, is encoded in another way or is missing."""
    described = folder / "values" / "zarr.json"
    known = json.loads(described.read_text())
    for codecs in ([{"name": "pickle"}], [{"name": "vlen-utf8"}], [{"name": "numcodecs.zlib"}]):
        described.write_text(json.dumps(known | {"codecs": codecs}))
        refused(folder)
    described.write_text(json.dumps(known | {"data_type": "string", "fill_value": ""}))
    refused(folder)
    huge = {"name": "regular", "configuration": {"chunk_shape": [10**15]}}
    described.write_text(json.dumps(known | {"chunk_grid": huge}))
    with pytest.raises(FinchError, match="no memory"):
        fread(str(folder))
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


def test_a_folder_is_replaced_whole(folder: Path, monkeypatch: Any) -> None:
    folder.chmod(0o750)
    fwrite(str(folder), np.ones(2))
    assert fread(str(folder)).to_numpy().tolist() == [1.0, 1.0]
    assert folder.stat().st_mode & 0o777 == 0o750
    with pytest.raises(FinchError):
        fwrite(str(folder), Tensor("Dense(Element(0.0 => 0))", 2))
    monkeypatch.setitem(sys.modules, "zarr", None)
    for use in (fread, lambda path: fwrite(path, np.ones(3))):
        with pytest.raises(FinchError, match="zarr, which is not installed") as caught:
            use(str(folder))
        assert caught.value.hint == "pip install finchlang[zarr]"
    monkeypatch.undo()
    assert fread(str(folder)).to_numpy().tolist() == [1.0, 1.0]
    assert [path.name for path in folder.parent.iterdir()] == ["a.bsp.zarr"]
    other = folder.with_name("b.bsp.zarr")
    other.mkdir()
    (other / "thesis").write_text("mine")
    with pytest.raises(FinchError, match="something else"):
        fwrite(str(other), np.ones(3))
    assert (other / "thesis").exists()
