"""Files that others wrote, and that are wrong: Matrix Market's `.mtx`, lines of coordinates (FROSTT's
`.tns`, and `.ttx` with a header), and `.npy`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rows import rows
from test_files import output_of

from finchlang import FinchError, Tensor
from finchlang.files.suffixes import fread, fwrite


def read(folder: Path, name: str, text: str | bytes) -> Any:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return fread(str(path))


def format_of(suffix: str, kind: str, order: int, leaf: str) -> str:
    if suffix != ".mtx":
        return f"SparseCOO{{{order}}}({leaf})"
    return f"Dense(SparseList({leaf}))" if kind[0] == "c" else f"Dense(Dense({leaf}))"


@pytest.mark.parametrize(
    ("suffix", "kind", "lines", "leaf", "numbers"), rows("file_rows.txt", "read")
)
def test_files_of_numbers(
    tmp_path: Path, suffix: str, kind: str, lines: str, leaf: str, numbers: str
) -> None:
    banners, expected = [f"%%MatrixMarket matrix {kind}\n"], eval(numbers)
    if suffix == ".ttx":  # it may call itself a matrix
        banners = [f"%%MatrixMarket {what} coordinate {kind}\n" for what in ("TENSOR", "matrix")]
    for banner in [*banners, f"\ufeff{banners[0]}"] if kind != "-" else [""]:
        tensor = read(tmp_path, f"a{suffix}", f"{banner}{eval(lines)}\n")
        assert str(tensor.format) == format_of(suffix, kind, np.ndim(expected), leaf)
        np.testing.assert_array_equal(tensor.to_numpy(), np.array(expected, tensor.dtype))


def test_what_is_written_is_written_with_the_field_of_its_leaf(tmp_path: Path) -> None:
    for leaf, field in (
        ("Element(0)", "integer"),
        ("Element(Int8(0))", "integer"),
        ("Element(UInt64(0))", "unsigned-integer"),
        ("Element(Float32(0))", "real"),
        ("Element(false)", "pattern"),
        ("Pattern()", "pattern"),
    ):
        for suffix in (".mtx", ".ttx"):
            path = tmp_path / f"a{suffix}"
            fwrite(str(path), Tensor(f"Dense(SparseList({leaf}))", 2, 2))
            assert path.read_text().split()[3] == field


MTX = "%%MatrixMarket matrix coordinate real general\n"
ARRAY = "%%MatrixMarket matrix array real general\n"
TTX = "%%MatrixMarket tensor coordinate real general\n"


@pytest.mark.parametrize(("suffix", "text", "words"), rows("file_rows.txt", "wrong"))
def test_files_that_are_wrong(tmp_path: Path, suffix: str, text: str, words: str) -> None:
    with pytest.raises(FinchError) as caught:
        read(tmp_path, f"a{suffix}", eval(text))
    assert caught.value.kind == "I/O" and f"a{suffix}" in caught.value.message
    assert words in caught.value.message


def test_what_no_machine_or_tensor_holds(tmp_path: Path) -> None:
    np.save(tmp_path / "c.npy", np.zeros(2, complex))
    for name, text, kind in (
        ("a.mtx", MTX + "2 99999999999999 1\n1 1 1\n", "resource"),
        ("a.mtx", MTX.replace("real", "complex") + "1 1 1\n1 1 1 1\n", "type"),
        ("a.ttx", TTX.replace("real", "complex") + "1 1\n1 1 1\n", "type"),
        ("c.npy", (tmp_path / "c.npy").read_bytes(), "type"),
    ):
        with pytest.raises(FinchError) as caught:
            read(tmp_path, name, text)
        assert caught.value.kind == kind


def test_more_than_the_free_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system may promise it, and end the process when it is used."""
    monkeypatch.setattr("finchlang.base.memory_limit._available", lambda: 10**8)
    for make in (
        lambda: Tensor("Dense(Element(0.0))", 10**8),
        lambda: Tensor("Dense(SparsePinpoint(Element(0.0)))", 3, 10**8),
        lambda: read(tmp_path, "a.mtx", MTX + f"2 {10**8} 1\n1 1 1\n"),
    ):
        with pytest.raises(FinchError, match="no memory"):
            make()


@pytest.mark.parametrize(
    "end", ["3 2 4.5\0001e-01\n", "3 2 4.5e", "3 2 4.5\n\0", "3 2 4.5e-", "3 2x"]
)
def test_lines_without_an_end_do_not_crash_the_reader(tmp_path: Path, end: str) -> None:
    """They take SciPy's reader down: scipy issue 19949."""
    for entries in (2, 9):
        text = MTX + f"6 7 {entries}\n1 1 1.0\n{end}"
        try:
            assert read(tmp_path, "a.mtx", text).to_numpy()[2, 1] == 4.5 and entries == 2
        except FinchError as error:
            assert error.kind == "I/O" and "a.mtx" in error.message


SHAPES = """
import sys
from finchlang.files.suffixes import fread
for path in sys.argv[1:]:
    print(fread(path).shape, flush=True)
"""


def test_matrices_of_no_entries_are_read(tmp_path: Path) -> None:
    """In a process of its own: a division by the number of rows once ended it."""
    paths, expected = [], ""
    for kind in ("array", "coordinate"):
        for symmetry in ("general", "symmetric", "skew-symmetric"):
            for m, n in ((0, 3), (3, 0), (0, 0)) if symmetry == "general" else ((0, 0),):
                paths.append(str(tmp_path / f"{len(paths)}.mtx"))
                count = " 0" if kind == "coordinate" else ""
                text = f"%%MatrixMarket matrix {kind} real {symmetry}\n{m} {n}{count}\n"
                Path(paths[-1]).write_text(text)
                expected += f"({m}, {n})\n"
    assert output_of(SHAPES, *paths) == expected


@pytest.mark.parametrize("dtype", [bool, np.int16, np.uint64, np.float32, ">f8", ">i4"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3, 4)])
def test_npy_files_keep_types_and_shapes(
    tmp_path: Path, dtype: Any, shape: tuple[int, ...]
) -> None:
    """But no foreign order of bytes."""
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape, order="F").astype(dtype)
    np.save(tmp_path / "a.npy", array)
    fwrite(str(tmp_path / "b.npy"), array)
    for name in ("a.npy", "b.npy"):
        back = fread(str(tmp_path / name))
        assert back.dtype == array.dtype.newbyteorder("=") and back.dtype.isnative
        assert back.shape == shape
        np.testing.assert_array_equal(back, array)


def test_damaged_npy_files(tmp_path: Path) -> None:
    np.save(tmp_path / "good.npy", np.arange(6.0).reshape(2, 3))
    good = (tmp_path / "good.npy").read_bytes()
    np.save(tmp_path / "object.npy", np.array([{}], dtype=object), allow_pickle=True)
    bad = [b"", good[:20], good[:-3], good.replace(b"(2, 3)", b"(9, 9)"), b"\0" * 200]
    bad += [good.replace(b"(2, 3)", b"(2, -)"), good.replace(b"<f8", b"<zz")]
    bad += [good.replace(b"(2, 3), }", b"(2, 3),  ")]  # the header does not end
    bad += [(tmp_path / "object.npy").read_bytes()]  # objects could run code
    for content in bad:
        with pytest.raises(FinchError) as caught:
            read(tmp_path, "b.npy", content)
        assert caught.value.kind in ("I/O", "type") and "b.npy" in caught.value.message
