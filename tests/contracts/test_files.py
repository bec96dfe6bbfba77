"""The contract of readers and writers, over all kinds of files: what is written is read again exactly, what
a file cannot hold is refused, and what stands in the place of another is whole or is not there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest
from every_format import LEAVES, fits, nests
from hypothesis import given, settings
from hypothesis.extra import numpy as arrays

from finchlang import FinchError, Scalar, Tensor
from finchlang.base.paths import replace_file
from finchlang.files.suffixes import fread, fwrite
from finchlang.tensors.tensor import SwizzledTensor

CSC = "Dense(SparseList(Element(0.0)))"


def needs(suffix: str, *libraries: str) -> Any:
    is_there = all(map(find_spec, libraries))
    mark = pytest.mark.skipif(not is_there, reason=f"no {' or '.join(libraries)}")
    return pytest.param(suffix, marks=mark)


TEXTS = (".mtx", ".ttx", ".tns")
BINSPARSE = (
    needs(".bsp.h5", "h5py", "binsparse"),
    needs(".bsp.npz", "binsparse"),
    needs(".bsp.zarr", "zarr", "binsparse"),
)
SUFFIXES = pytest.mark.parametrize("suffix", (*TEXTS, ".npy", *BINSPARSE))


def again(path: Path, value: Any) -> Any:
    fwrite(str(path), value)
    return fread(str(path))


def same(found: Any, wanted: np.ndarray, *said: Any) -> None:
    array = found if isinstance(found, np.ndarray) else found.to_numpy()
    np.testing.assert_array_equal(array, wanted, err_msg=str(said))


def refused(work: Callable[[], Any]) -> FinchError:
    with pytest.raises(FinchError) as caught:
        work()
    return caught.value


# ------------------------------------------------------------------------------------ round trips


@SUFFIXES
def test_every_level_comes_back(tmp_path: Path, suffix: str, is_quick: bool) -> None:
    """In its format, where the file tells that: the levels that Binsparse names."""
    matrix, path = np.zeros((4, 4)), tmp_path / f"a{suffix}"
    matrix[0, 0], matrix[1, 1], matrix[3, 3] = 1.5, np.pi, 1e300
    some = 8 if is_quick or suffix == ".bsp.zarr" else 1  # of zarr many small files are slow
    for format in nests("Element(0.0)", 2)[::some]:
        tensor = fits(format, matrix)
        if tensor is not None:
            back = again(path, tensor)
            same(back, matrix, format)
            others = format.replace("SparseList", "").replace("Dense", "").replace("Element", "")
            if suffix.startswith(".bsp") and not any(map(str.isalpha, others)):
                assert str(back.format) == format


@SUFFIXES
@pytest.mark.parametrize("leaf", LEAVES)
def test_every_element_type_comes_back(tmp_path: Path, suffix: str, leaf: str) -> None:
    dtype, fill, value = LEAVES[leaf]
    matrix = np.full((2, 3), fill, dtype)
    matrix[1, 2] = matrix[0, 1] = value
    tensor, path = Tensor.from_numpy(matrix, f"Dense(SparseList({leaf}))"), tmp_path / f"a{suffix}"
    if suffix in TEXTS and fill != 0:
        assert refused(lambda: fwrite(str(path), tensor)).kind == "type"
        return
    back = again(path, tensor)
    same(back, matrix if suffix != ".tns" else matrix.astype(float))
    is_exact = suffix not in TEXTS or dtype in (np.float64, np.int64, np.uint64, np.bool_)
    assert back.dtype == dtype or not is_exact or suffix == ".tns"
    if suffix.startswith(".bsp"):
        assert back.fill == fill


SHAPES = [(0, 3), (3, 0), (0, 0), (0,), (1,), (2, 0, 3), (2, 3, 4)]


@pytest.mark.slow
@SUFFIXES
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_comes_back(tmp_path: Path, suffix: str, shape: tuple[int, ...]) -> None:
    path, array = tmp_path / f"a{suffix}", np.arange(np.prod(shape, dtype=float)).reshape(shape)
    if (suffix == ".mtx" and len(shape) != 2) or (suffix == ".tns" and not array.size):
        assert refused(lambda: fwrite(str(path), array)).kind == "dimension"
        assert list(tmp_path.iterdir()) == []
        return
    for value in (array, np.asfortranarray(array), Tensor.from_numpy(array)):
        same(again(path, value), array)
    formats = nests("Element(0.0)", len(shape))[SHAPES.index(shape) :: (1, 3, 40)[len(shape) - 1]]
    for tensor in (fits(format, 0 * array) for format in formats if suffix == ".bsp.h5"):
        assert tensor is None or again(path, tensor).shape == shape


@settings(max_examples=25)
@given(array=arrays.arrays(np.float64, arrays.array_shapes(min_dims=2, max_dims=2, max_side=5)))
def test_matrices_come_back_exactly(tmp_path_factory: Any, array: np.ndarray) -> None:
    folder = tmp_path_factory.mktemp("round")
    for format in (CSC, "Dense(Dense(Element(0.0)))"):
        back = again(folder / "a.mtx", Tensor.from_numpy(array, format))
        assert str(back.format) == format
        same(back, array)


@SUFFIXES
def test_numbers_come_back_exactly(tmp_path: Path, suffix: str) -> None:
    """Of each size; and more of them than are written in one go."""
    array = np.array([[0.1, 1 / 3, 5e-324, np.inf, -np.inf, np.nan, 1.7976931348623157e308]])
    with np.errstate(over="ignore"):
        for numbers in (array, array.astype(np.float32), np.arange(1.0, 250_001)[None]):
            back = again(tmp_path / f"a{suffix}", numbers)
            same(np.asarray(back).astype(numbers.dtype), numbers)


@SUFFIXES
def test_what_is_stored_is_stored_again(tmp_path: Path, suffix: str) -> None:
    """Zeros, too, and in swizzled tensors; scalars where a file has them."""
    path = tmp_path / f"a{suffix}"
    stored = Tensor.from_coo(CSC, (2, 3), [np.array([0, 1]), np.array([2, 0])], np.array([0.0, 5]))
    if suffix != ".npy":
        assert again(path, stored).countstored() == 2
    back = again(path, SwizzledTensor(stored, (2, 1)))
    same(back, stored.to_numpy().T)
    if suffix in TEXTS:
        assert refused(lambda: fwrite(str(path), Scalar(2.0, 5.0))).kind == "dimension"
        assert refused(lambda: fwrite(str(path), np.ones(()))).kind == "dimension"
        same(fread(str(path)), stored.to_numpy().T)  # which is still there
    elif suffix == ".npy":
        assert again(path, Scalar(2.5)) == 2.5
    else:
        back = again(path, Scalar(2.0, 5.0))
        assert isinstance(back, Scalar) and (back.value, back.fill) == (5.0, 2.0)


@SUFFIXES
def test_what_no_file_holds(tmp_path: Path, suffix: str) -> None:
    path = str(tmp_path / f"a{suffix}")
    for value in ("text", np.zeros((1, 1), complex), 3 + 1j):
        assert refused(lambda value=value: fwrite(path, value)).kind == "type"
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------------ paths


@SUFFIXES
def test_paths_that_are_wrong(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"folder{suffix}").mkdir()
    (tmp_path / f"folder{suffix}" / "thesis").write_text("mine")
    for name, is_written in ((f"no{suffix}", False), ("a.txt", True), ("", True)):
        path = str(tmp_path / name)
        for attempt in (fread, lambda path: fwrite(path, np.eye(2)))[: 1 + is_written]:
            error = refused(lambda attempt=attempt, path=path: attempt(path))
            assert error.kind == "I/O" and path in error.message
    for name in (f"folder{suffix}", f"no/a{suffix}"):
        path = str(tmp_path / name)
        for attempt in (fread, lambda path: fwrite(path, np.eye(2))):
            error = refused(lambda attempt=attempt, path=path: attempt(path))
            assert error.kind == "I/O" and path in error.message
    assert (tmp_path / f"folder{suffix}" / "thesis").read_text() == "mine"
    assert refused(lambda: fread(f"a\0{suffix}")).kind == "I/O"
    assert refused(lambda: fread(3)).kind == "type"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
def test_permissions(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.zeros(1))
    path.chmod(0)
    assert refused(lambda: fread(str(path))).kind == "I/O"
    tmp_path.chmod(0o500)
    assert refused(lambda: fwrite(str(tmp_path / "b.npy"), np.zeros(1))).kind == "I/O"
    tmp_path.chmod(0o700)


def output_of(program: str, *arguments: Any) -> str:
    """What a program prints in a process of its own, without an error."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done
    return done.stdout


PIPES = """
import sys, numpy as np
from finchlang.files.suffixes import fread, fwrite
for path in sys.argv[1:]:
    for attempt in (lambda: fread(path), lambda: fwrite(path, np.eye(2))):
        try:
            attempt()
        except Exception as error:
            print(error.kind, error.message.endswith("no regular file"))
"""


def test_pipes_are_not_read(tmp_path: Path) -> None:
    """In a process of its own: one would wait for a writer."""
    paths = [tmp_path / f"a{suffix}" for suffix in (".mtx", ".tns", ".npy")]
    for path in paths:
        os.mkfifo(path)
    assert output_of(PIPES, *paths) == "I/O True\n" * 2 * len(paths)


# ------------------------------------------------------------------- files in the place of others


@SUFFIXES
def test_what_is_replaced_keeps_its_mode(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    fwrite(str(path), np.ones((2, 2)))
    usual = path.stat().st_mode
    for mode in (0o700, 0o775, 0o750) if path.is_dir() else (0o600, 0o664, 0o640):
        path.chmod(mode)
        same(again(path, np.full((1, 2), mode)), np.full((1, 2), mode))
        assert path.stat().st_mode & 0o777 == mode
    path.rename(tmp_path / "other")
    fwrite(str(path), np.ones((2, 2)))
    assert path.stat().st_mode == usual
    assert sorted(p.name for p in tmp_path.iterdir()) == [path.name, "other"]


def test_a_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link, real = tmp_path / "a.npy", tmp_path / "real" / "b.npy"
    link.symlink_to(real)
    for value in (1.0, 2.0):  # what it leads to is made, and then replaced
        fwrite(str(link), np.full(2, value))
        assert link.is_symlink() and np.load(real).tolist() == [value, value]
    (tmp_path / "c.npy").symlink_to(tmp_path / "c.npy")
    assert refused(lambda: fwrite(str(tmp_path / "c.npy"), np.ones(1))).kind == "I/O"


def test_a_failed_write_leaves_what_was_there(tmp_path: Path, monkeypatch: Any) -> None:
    """Also where files must have names: one is made under another name, and removed."""
    path = tmp_path / "a.npy"
    fwrite(str(path), np.ones(2))

    def full(out: BinaryIO) -> None:
        out.write(b"half of it")
        raise OSError(28, "No space left on device")

    for _ in range(2):
        error = refused(lambda: replace_file(path, str(path), full))
        assert error.kind == "I/O" and "No space left" in error.message
        assert fread(str(path)).tolist() == [1, 1]
        assert [p.name for p in tmp_path.iterdir()] == ["a.npy"]
        monkeypatch.setattr(os, "O_TMPFILE", os.O_CREAT | os.O_EXCL)  # of a folder: refused
    same(again(path, np.zeros(2)), np.zeros(2))


HALF = """
import sys
from pathlib import Path
from finchlang.base.paths import replace_file, replace_folder
def write(out):
    if sys.argv[2] == "folder":
        (out / "zarr.json").write_text("half of it")
    else:
        out.write(b"half of it")
        out.flush()
    print("begun", flush=True)
    sys.stdin.readline()
(replace_folder if sys.argv[2] == "folder" else replace_file)(Path(sys.argv[1]), sys.argv[1], write)
print("goes on", flush=True)
"""


@pytest.mark.parametrize(
    "kind, number", [("file", signal.SIGTERM), ("file", signal.SIGKILL), ("folder", signal.SIGTERM)]
)
def test_a_process_that_is_ended_leaves_nothing_half_done(
    tmp_path: Path, kind: str, number: int
) -> None:
    """Folders have names from the start, so a process that is told to end completes them first."""
    try:
        os.close(os.open(tmp_path, os.O_TMPFILE | os.O_RDWR))
    except OSError:
        pytest.skip("this file system has no files without names")
    command, root = (
        [sys.executable, "-c", HALF, str(tmp_path / "a"), kind],
        Path(__file__).parents[2],
    )
    with subprocess.Popen(
        command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == b"begun\n"
        process.send_signal(number)
        assert process.communicate(b"\n")[0] == b"" and process.returncode == -number
    assert [p.name for p in tmp_path.iterdir()] == (["a"] if kind == "folder" else [])
