"""Tensors in files: round trips, every kind of Matrix Market file, and files that are wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra import numpy as arrays

from finchlang.script.files import fread, fwrite
from finchlang.source import FinchError
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor

CSC = "Dense(SparseList(Element(0.0)))"
BANNER = "%%MatrixMarket matrix"


def read_text(folder: Path, text: str | bytes, name: str = "a.mtx"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return fread(str(path))


@pytest.mark.parametrize("format", [CSC, "Dense(Dense(Element(0.0)))"])
@settings(max_examples=25, deadline=None)
@given(array=arrays.arrays(np.float64, arrays.array_shapes(min_dims=2, max_dims=2, max_side=5)))
def test_matrices_come_back_exactly(tmp_path_factory, format: str, array: np.ndarray) -> None:
    path = str(tmp_path_factory.mktemp("round") / "a.mtx")
    fwrite(path, Tensor.from_numpy(array, format))
    back = fread(path)
    assert str(back.format) == format
    np.testing.assert_array_equal(back.to_numpy(), array)


@pytest.mark.parametrize(
    ("leaf", "dtype", "leaf_back"),
    [
        ("Element(0)", np.int64, "Element(0)"),
        ("Element(Int8(0))", np.int8, "Element(0)"),
        ("Element(UInt64(0))", np.uint64, "Element(UInt64(0))"),
        ("Element(Float32(0))", np.float32, "Element(0.0)"),
        ("Element(false)", bool, "Pattern()"),
        ("Pattern()", bool, "Pattern()"),
    ],
)
def test_the_field_follows_the_leaf(tmp_path: Path, leaf: str, dtype, leaf_back: str) -> None:
    array = np.array([[1, 0, 3], [0, 100, 0]]).astype(dtype)
    if dtype is np.uint64:
        array[0, 0] = 2**64 - 1
    path = str(tmp_path / "a.mtx")
    fwrite(path, Tensor.from_numpy(array, f"Dense(SparseList({leaf}))"))
    back = fread(path)
    assert str(back.format) == f"Dense(SparseList({leaf_back}))"
    np.testing.assert_array_equal(back.to_numpy(), array)


def test_stored_zeros_and_swizzles_are_written_as_they_are(tmp_path: Path) -> None:
    path = str(tmp_path / "a.mtx")
    stored = Tensor.from_coo(CSC, (2, 3), [np.array([0, 1]), np.array([2, 0])], np.array([0.0, 5]))
    fwrite(path, stored)
    assert fread(path).countstored() == 2
    fwrite(path, SwizzledTensor(stored, (2, 1)))
    np.testing.assert_array_equal(fread(path).to_numpy(), stored.to_numpy().T)
    fwrite(path, np.arange(6).reshape(2, 3))
    np.testing.assert_array_equal(fread(path).to_numpy(), np.arange(6).reshape(2, 3))


@pytest.mark.parametrize(
    ("kind", "lines", "leaf", "expected"),
    [
        ("coordinate real general", "2 2 2\n1 1 1\n1 1 2.5", "Element(0.0)", [[3.5, 0], [0, 0]]),
        ("coordinate integer general", "2 2 1\n2 1 3", "Element(0)", [[0, 0], [3, 0]]),
        ("coordinate pattern general", "2 2 2\n1 2\n1 2", "Pattern()", [[0, 1], [0, 0]]),
        ("coordinate real symmetric", "2 2 2\n1 1 1\n2 1 5", "Element(0.0)", [[1, 5], [5, 0]]),
        ("coordinate real skew-symmetric", "2 2 1\n2 1 5", "Element(0.0)", [[0, -5], [5, 0]]),
        ("coordinate real hermitian", "2 2 1\n2 1 5", "Element(0.0)", [[0, 5], [5, 0]]),
        ("coordinate pattern symmetric", "2 2 1\n2 1", "Pattern()", [[0, 1], [1, 0]]),
        ("coordinate real general", "% comment\n\n1 1 1\n1 1 -2e-3", "Element(0.0)", [[-0.002]]),
    ],
)
def test_coordinate_files(tmp_path: Path, kind: str, lines: str, leaf: str, expected) -> None:
    tensor = read_text(tmp_path, f"{BANNER} {kind}\n{lines}\n")
    assert str(tensor.format) == f"Dense(SparseList({leaf}))"
    np.testing.assert_array_equal(tensor.to_numpy(), np.array(expected))


def test_array_files(tmp_path: Path) -> None:
    tensor = read_text(tmp_path, f"{BANNER} array real general\n2 2\n1\n2\n3\n4\n")
    assert str(tensor.format) == "Dense(Dense(Element(0.0)))"
    np.testing.assert_array_equal(tensor.to_numpy(), [[1, 3], [2, 4]])
    tensor = read_text(tmp_path, f"{BANNER} array integer symmetric\n2 2\n1\n2\n3\n")
    np.testing.assert_array_equal(tensor.to_numpy(), [[1, 2], [2, 3]])


REAL = f"{BANNER} coordinate real general\n"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello\n",
        REAL,
        REAL + "2 2 3\n1 1 1.0\n",
        REAL + "2 2 1\n1 1 1.0\n2 2 2.0\n",
        REAL + "2 2 1\n3 1 1.0\n",
        REAL + "2 2 1\n0 1 1.0\n",
        REAL + "2 2 1\n1 1 abc\n",
        REAL + "2 2 1\n1 1\n",
        REAL + "-2 2 1\n1 1 1\n",
        REAL + "99999999999999999999 2 1\n1 1 1\n",
        REAL + "2 2 99999999999999\n1 1 1\n",
        REAL.replace("general", "symmetric") + "2 3 1\n1 1 1\n",
        REAL.replace("real", "integer") + "2 2 1\n1 1 99999999999999999999\n",
        f"{BANNER} array real general\n2 2\n1\n2\n3\n",
        f"{BANNER} array real general\n1000000 1000000\n1\n",
        f"{BANNER} array real general\n2 2\n1 2\n3 4\n",
        f"{BANNER} array real general\n2 2\n1 2\n2 2\n3 2\n4 2\n",
        f"{BANNER} array real general\n2 1\n1 apples\n2\n",
        f"{BANNER} array real general\n2 1\n1.5apples\n2\n",
        f"{BANNER} array pattern general\n1 1\n1\n",
        REAL + "2 2 1\n1 1 1.0 apples\n",
        REAL + "2 2 1\n1 1 1.0apples\n",
        REAL.replace("real", "integer") + "2 2 1\n1 1 2.5\n",
        REAL.replace("real", "pattern") + "2 2 1\n1 1 2\n",
        b"\xff\xfe\x00\x01",
    ],
)
def test_damaged_mtx_files(tmp_path: Path, text: str | bytes) -> None:
    with pytest.raises(FinchError) as caught:
        read_text(tmp_path, text)
    assert caught.value.kind == "I/O" and "a.mtx" in caught.value.message


def test_matrices_of_no_entries_are_read(tmp_path: Path) -> None:
    """In a process of its own: a division by the number of rows once ended it."""
    expected = []
    for kind, symmetry in product(
        ("array", "coordinate"), ("general", "symmetric", "skew-symmetric")
    ):
        shapes = [(0, 3), (3, 0), (0, 0)] if symmetry == "general" else [(0, 0)]
        for rows, columns in shapes:
            count = " 0" if kind == "coordinate" else ""
            (tmp_path / f"{len(expected)}.mtx").write_text(
                f"{BANNER} {kind} real {symmetry}\n{rows} {columns}{count}\n"
            )
            expected.append(f"({rows}, {columns}) ({rows}, {columns})\n")
    program = f"""
from finchlang.script.files import fread, fwrite
for number in range({len(expected)}):
    tensor = fread({str(tmp_path)!r} + f"/{{number}}.mtx")
    fwrite({str(tmp_path / "again.mtx")!r}, tensor)
    print(tensor.shape, fread({str(tmp_path / "again.mtx")!r}).shape, flush=True)
"""
    assert output_of(program) == "".join(expected)


def output_of(program: str) -> str:
    """What a program prints in a process of its own, without an error."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done
    return done.stdout


def test_pipes_are_not_read(tmp_path: Path) -> None:
    """In a process of its own: one would wait for a writer."""
    os.mkfifo(tmp_path / "a.mtx")
    program = f"""
import numpy as np
from finchlang.script.files import fread, fwrite
path = {str(tmp_path / "a.mtx")!r}
for attempt in (lambda: fread(path), lambda: fwrite(path, np.eye(2))):
    try:
        attempt()
    except Exception as error:
        print(error.kind, error.message.endswith("no regular file"))
"""
    assert output_of(program) == "I/O True\n" * 2


def test_files_the_machine_cannot_hold(tmp_path: Path) -> None:
    with pytest.raises(FinchError) as caught:
        read_text(tmp_path, REAL + "2 99999999999999 1\n1 1 1\n")
    assert caught.value.kind == "resource"


def test_complex_numbers_are_a_type_error(tmp_path: Path) -> None:
    with pytest.raises(FinchError) as caught:
        read_text(tmp_path, f"{BANNER} coordinate complex general\n1 1 1\n1 1 1 1\n")
    assert caught.value.kind == "type"
    np.save(tmp_path / "c.npy", np.zeros(2, complex))
    with pytest.raises(FinchError) as caught:
        fread(str(tmp_path / "c.npy"))
    assert caught.value.kind == "type"


@pytest.mark.parametrize("dtype", [bool, np.int16, np.uint64, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3, 4)])
def test_npy_files_come_back_exactly(tmp_path: Path, dtype, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape, order="F").astype(dtype)
    path = str(tmp_path / "a.npy")
    fwrite(path, array)
    back = fread(path)
    assert back.dtype == array.dtype and back.shape == shape
    np.testing.assert_array_equal(back, array)


def test_npy_takes_tensors_scalars_and_other_byte_orders(tmp_path: Path) -> None:
    path = str(tmp_path / "a.npy")
    fwrite(path, Tensor.from_numpy(np.eye(3), CSC))
    np.testing.assert_array_equal(fread(path), np.eye(3))
    fwrite(path, Scalar(2.5))
    assert fread(path) == 2.5
    np.save(path, np.array([1.0, 2.0]).astype(">f8"))
    assert fread(path).dtype.isnative and fread(path).tolist() == [1, 2]


@pytest.mark.parametrize(
    "end", ["3 2 4.5\0001e-01\n", "3 2 4.5e", "3 2 4.5\n\0", "3 2 4.5e-", "3 2x"]
)
def test_lines_without_an_end_do_not_crash_the_reader(tmp_path: Path, end: str) -> None:
    """They take SciPy's reader down: scipy issue 19949."""
    for entries in (2, 9):
        text = REAL + f"6 7 {entries}\n1 1 1.0\n{end}"
        try:
            assert read_text(tmp_path, text).to_numpy()[2, 1] == 4.5 and entries == 2
        except FinchError as error:
            assert error.kind == "I/O" and "a.mtx" in error.message


def test_damaged_npy_files(tmp_path: Path) -> None:
    np.save(tmp_path / "good.npy", np.arange(6.0).reshape(2, 3))
    good = (tmp_path / "good.npy").read_bytes()
    np.save(tmp_path / "object.npy", np.array([{}], dtype=object), allow_pickle=True)
    pickled = (tmp_path / "object.npy").read_bytes()
    bad = [b"", good[:20], good[:-3], good.replace(b"(2, 3)", b"(9, 9)"), b"\0" * 200]
    bad += [good.replace(b"(2, 3)", b"(2, -)"), good.replace(b"<f8", b"<zz")]
    bad += [good.replace(b"(2, 3), }", b"(2, 3),  ")]  # the header does not end
    for content in bad:
        with pytest.raises(FinchError) as caught:
            read_text(tmp_path, content, "b.npy")
        assert caught.value.kind == "I/O" and "b.npy" in caught.value.message
    with pytest.raises(FinchError):  # objects could run code
        read_text(tmp_path, pickled, "b.npy")


def test_paths_that_are_wrong(tmp_path: Path) -> None:
    (tmp_path / "folder.mtx").mkdir()
    for path in (
        tmp_path / "no.mtx",
        tmp_path / "no.npy",
        tmp_path / "a.txt",
        tmp_path,
        tmp_path / "folder.mtx",
        tmp_path / "no" / "a.mtx",
    ):
        for attempt in (lambda p: fread(p), lambda p: fwrite(p, np.eye(2))):
            if path.name.startswith("no.") and path.parent == tmp_path:
                attempt = fread
            with pytest.raises(FinchError) as caught:
                attempt(str(path))
            assert caught.value.kind == "I/O" and str(path) in caught.value.message
    with pytest.raises(FinchError) as caught:
        fread("a\0.mtx")
    assert caught.value.kind == "I/O"
    with pytest.raises(FinchError) as caught:
        fread(3)
    assert caught.value.kind == "type"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
def test_permissions(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.zeros(1))
    path.chmod(0)
    with pytest.raises(FinchError) as caught:
        fread(str(path))
    assert caught.value.kind == "I/O"
    tmp_path.chmod(0o500)
    with pytest.raises(FinchError) as caught:
        fwrite(str(tmp_path / "b.npy"), np.zeros(1))
    assert caught.value.kind == "I/O"
    tmp_path.chmod(0o700)


def test_a_failed_write_leaves_what_was_there(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "a.npy"
    fwrite(str(path), np.ones(2))
    before = path.read_bytes()

    def full(out, array, **_):
        out.write(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(FinchError) as caught:
        fwrite(str(path), np.zeros(2))
    assert caught.value.kind == "I/O" and "No space left" in caught.value.message
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.npy"]


def test_what_an_mtx_file_cannot_hold(tmp_path: Path) -> None:
    path = str(tmp_path / "a.mtx")
    for value, kind in (
        (np.zeros(3), "dimension"),
        (Scalar(1.0), "dimension"),
        (Tensor.from_numpy(np.eye(2), "Dense(SparseList(Element(Inf)))"), "type"),
        ("text", "type"),
        (np.zeros((1, 1), complex), "type"),
    ):
        with pytest.raises(FinchError) as caught:
            fwrite(path, value)
        assert caught.value.kind == kind
    assert list(tmp_path.iterdir()) == []
