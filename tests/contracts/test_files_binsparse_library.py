"""Binsparse files and the standard's reference library: what we write it reads and what it writes we read,
in every format and container."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from every_format import LEAVES, fits, nests
from test_files_binsparse import MATRIX, NAMED, ZARR, binsparse, ours

from finchlang import Scalar, Tensor
from finchlang.files.suffixes import fread, fwrite
from finchlang.tensors.tensor import SwizzledTensor

SUFFIXES = pytest.mark.parametrize("suffix", [".bsp.h5", ".bsp.hdf5", ".bsp.npz", ZARR])


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


def moved(source: Path, target: Path) -> None:
    if target.is_dir():
        shutil.rmtree(target)
    source.rename(target)


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


@SUFFIXES
@pytest.mark.parametrize("name", [name for name in NAMED if name not in ("DMAT", "COO")])
def test_every_format_goes_both_ways(tmp_path: Path, name: str, suffix: str) -> None:
    """Each leaf in one container, or in one format; others hold the same arrays."""
    path, are_all = tmp_path / f"a{suffix}", suffix == ".bsp.npz" or name == "CSR"
    for leaf, (dtype, fill, value) in [*LEAVES.items()][:: 1 if are_all else 5]:
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


@SUFFIXES
def test_nests_of_levels_go_both_ways(tmp_path: Path, suffix: str) -> None:
    """Every level of ours, those that the standard cannot name too; modes in any order."""
    path, array = tmp_path / f"a{suffix}", np.zeros((3, 3))
    array[0, 0], array[1, 1] = 2.5, -1
    some = 1 if suffix == ".bsp.npz" else 8  # many small files are slow; descriptors are the same
    for format in nests("Element(0.0)", 2)[::some]:
        tensor = fits(format, array)
        if tensor is not None:
            fwrite(str(path), tensor)
            theirs = loaded(path)
            np.testing.assert_array_equal(dense(theirs), tensor.to_numpy(), format)
            np.testing.assert_array_equal(fread(saved(theirs, path)).to_numpy(), tensor.to_numpy())
    cube = np.where(np.arange(24).reshape(2, 3, 4) % 5 == 1, np.arange(24).reshape(2, 3, 4), 3)
    for format in (
        "Dense(SparseCOO{2}(E))",
        "SparseCOO{2}(SparseList{Int32}(E))",
        "SparseCOO{3}(E)",
    ):
        for modes in permutations((1, 2, 3)):
            tensor = Tensor.from_numpy(cube, format.replace("E", "Element(3)"))
            swizzled = SwizzledTensor(tensor, modes)
            fwrite(str(path), swizzled)
            back = fread(str(path))
            assert str(back.format) == str(tensor.format if modes == (1, 2, 3) else swizzled.format)
            np.testing.assert_array_equal(back.to_numpy(), swizzled.to_numpy())
            np.testing.assert_array_equal(dense(loaded(path)), swizzled.to_numpy())


@SUFFIXES
def test_odd_tensors_go_both_ways(tmp_path: Path, suffix: str) -> None:
    """Scalars, what is empty, and levels of several ranks."""
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
    rows, columns = np.nonzero(MATRIX)
    element = binsparse.ElementLevel(MATRIX[rows, columns])
    for level, count in (
        (binsparse.DenseLevel(2, binsparse.ElementLevel(MATRIX.ravel())), 16),
        (binsparse.SparseLevel(2, element, (rows, columns)), 4),
    ):
        theirs = binsparse.CustomTensor((4, 4), count, level=level)
        np.testing.assert_array_equal(fread(saved(theirs, path)).to_numpy(), MATRIX)
