"""What `display` and `finch show` tell of a tensor: its levels, its entries, and pictures of it."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from every_format import LEAVES, fits, nests

from finchlang.repl.__main__ import main
from finchlang.script.display import display_text, save_picture
from finchlang.script.spy import PIXELS, TEXT_COLUMNS, TEXT_ROWS, picture, spy_text
from finchlang.session import Session
from finchlang.source import FinchError
from finchlang.tensors.adopted import as_tensor
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor

CSC = "Dense(SparseList(Element(0.0)))"


def csc(array: np.ndarray) -> Tensor:
    return Tensor.from_numpy(array.astype(float), CSC)


def dots(text: str) -> np.ndarray:
    """Which dots of a picture in characters are set (a character has 4 rows and 2 columns)."""
    lines = [line[1:-1] for line in text.splitlines()[1:-1]]
    bits = [[0, 3], [1, 4], [2, 5], [6, 7]]
    rows = [
        [ord(c) - 0x2800 >> bit & 1 for c in line for bit in row] for line in lines for row in bits
    ]
    return np.array(rows)


# ------------------------------------------------------------------------------- the levels


def test_a_matrix_by_levels() -> None:
    array = np.array([[0.0, 2, 0], [1, 0, 0], [0, 3, 0]])
    assert display_text(csc(array)).splitlines() == [
        "Float64 tensor of size 3 x 3, fill 0.0: 3 entries stored, 80 bytes",
        "level               dimension  size  positions  bytes",
        "Dense                       2     3          1      0",
        "└─ SparseList               1     3          3     56  ptr = [0, 1, 3, 3]  idx = [1, 0, 2]",
        "   └─ Element(0.0)                           3     24  val = [1.0, 2.0, 3.0]",
        "[[0. 2. 0.]",
        " [1. 0. 0.]",
        " [0. 3. 0.]]",
    ]


def test_dimensions_have_the_names_of_a_swizzled_tensor() -> None:
    body = Tensor.from_numpy(
        np.arange(24.0).reshape(2, 3, 4), "SparseList(SparseCOO{2}(Element(0.0)))"
    )
    lines = display_text(SwizzledTensor(body, (2, 3, 1))).splitlines()
    assert lines[0].startswith("Float64 tensor of size 4 x 2 x 3,")
    assert lines[2].split()[:3] == ["SparseList", "1", "4"]
    assert lines[3].split()[:7] == ["└─", "SparseCOO{2}", "2,", "3", "2", "x", "3"]


def test_one_entry_and_one_byte() -> None:
    assert "1 entry stored, 1 byte\n" in display_text(np.array([True]))
    assert "fill NaN" in display_text(Tensor("SparseList(Element(NaN))", 3))


def test_other_values_print_as_always() -> None:
    for value, text in ((3, "3"), ("a", '"a"'), (Scalar(2.0), "Scalar(2.0)"), (None, "nothing")):
        assert display_text(value) == text


@pytest.mark.parametrize("leaf", LEAVES)
def test_every_format_can_be_shown(leaf: str) -> None:
    dtype, fill, value = LEAVES[leaf]
    small, large = np.full((3, 3), fill, dtype), np.full((40, 40), fill, dtype)
    for array in (small, large):
        array[0, 0] = array[2, 2] = value
    for format in nests(leaf, 2)[::7]:
        for array in (small, large):
            tensor = fits(format, array)
            if tensor is None:
                continue
            text = display_text(tensor)
            # one line for each level, and bytes that add up
            levels = list(tensor.format.levels())
            rows = text.splitlines()[2 : 2 + len(levels)]
            assert all(type(a).__name__ in row for a, row in zip(levels, rows, strict=True))
            if array is large:
                expected = np.zeros((40, 40))
                expected[0, 0] = expected[2, 2] = 1
                np.testing.assert_array_equal(dots(text[text.index("┌") :]), expected)


# ---------------------------------------------------------------------------------- pictures


def test_a_dot_for_each_entry_of_a_matrix_that_fits() -> None:
    array = np.random.default_rng(1).random((TEXT_ROWS, 50)) < 0.2
    found = dots(spy_text(csc(array)))
    np.testing.assert_array_equal(found, array)
    assert spy_text(csc(array)).endswith("a dot is an entry")
    array = array[:61, :33]
    found = dots(spy_text(csc(array)))
    np.testing.assert_array_equal(found[:61, :33], array)
    assert found.sum() == array.sum()


def test_larger_matrices_are_scaled_down_in_proportion() -> None:
    size = 10 * TEXT_ROWS
    text = spy_text(csc(np.eye(size)))
    np.testing.assert_array_equal(dots(text), np.eye(TEXT_ROWS))
    assert text.endswith("a dot is 10 x 10 entries")
    wide = picture(csc(np.ones((100, 1000))), TEXT_ROWS, TEXT_COLUMNS)
    assert wide.counts.shape == (15, 144) and wide.counts.sum() == 100_000
    narrow = picture(csc(np.ones((10_000, 3))), 96, 144)
    assert narrow.counts.shape == (96, 3)


def test_entries_are_counted_and_fills_are_not() -> None:
    array = np.zeros((1000, 1000))
    array[:500, :500] = 1
    found = picture(as_tensor(array), 10, 10)
    expected = np.zeros((10, 10), int)
    expected[:5, :5] = 10_000
    np.testing.assert_array_equal(found.counts, expected)
    assert found.cell == (100, 100)
    filled = Tensor.from_numpy(np.where(array == 1, np.nan, 2.0), "Dense(Dense(Element(NaN)))")
    assert picture(filled, 10, 10).counts.sum() == 750_000


def test_crowded_pictures_are_shaded() -> None:
    array = np.zeros((960, 960))
    array[::8, ::8] = 1
    array[480:, 480:] = 1
    lines = spy_text(as_tensor(array)).splitlines()
    assert lines[-1].endswith("a character is 40 x 20 entries")
    assert set(lines[1][1:-1]) == {"░"} and lines[-2][1:-1] == "░" * 24 + "█" * 24


def test_vectors_are_a_row_and_other_dimensions_fall_together() -> None:
    vector = np.zeros(100)
    vector[[0, 7, 99]] = 1
    np.testing.assert_array_equal(dots(spy_text(as_tensor(vector)))[0], vector)
    cube = np.zeros((40, 40, 3))
    cube[1, 2, 0] = cube[1, 2, 2] = cube[30, 4, 1] = 1
    found = picture(as_tensor(cube), TEXT_ROWS, TEXT_COLUMNS)
    np.testing.assert_array_equal(found.counts, cube.sum(axis=2))


@pytest.mark.parametrize("shape", [(0,), (0, 2000), (2000, 0), (0, 0), (2**62, 2**62), (2**62,)])
def test_empty_and_enormous_tensors(shape: tuple[int, ...]) -> None:
    format = f"SparseCOO{{{len(shape)}}}(Element(0.0))"
    for last in ([], [[size - 1] for size in shape]):
        if last and 0 in shape:
            continue
        tensor = Tensor.from_coo(format, shape, last or [[]] * len(shape), np.ones(int(bool(last))))
        text = spy_text(tensor)
        assert text.count("│") == 2 * (len(text.splitlines()) - 2)
        if last:
            assert dots(text).sum() == 1


# --------------------------------------------------------------------------------------- PNG


def read_png(content: bytes) -> np.ndarray:
    """The grey pixels of a PNG without filters; checks every chunk's sum."""
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(content):
        (length,) = struct.unpack_from(">I", content, at)
        name, body = content[at + 4 : at + 8], content[at + 8 : at + 8 + length]
        (checksum,) = struct.unpack_from(">I", content, at + 8 + length)
        assert checksum == zlib.crc32(name + body)
        chunks[name], at = body, at + 12 + length
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    width, height, depth, colour, *rest = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert (depth, colour, rest) == (8, 0, [0, 0, 0])
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, width + 1)
    assert not rows[:, 0].any()
    return rows[:, 1:]


def inside(pixels: np.ndarray) -> np.ndarray:
    """What the grey frame encloses."""
    rows, columns = np.flatnonzero((pixels == 128).any(1)), np.flatnonzero((pixels == 128).any(0))
    return pixels[rows[0] + 1 : rows[-1], columns[0] + 1 : columns[-1]]


def test_the_pixels_of_a_small_matrix(tmp_path: Path) -> None:
    array = np.random.default_rng(2).random((30, 50)) < 0.3
    save_picture(str(tmp_path / "a.png"), csc(array))
    pixels = inside(read_png((tmp_path / "a.png").read_bytes()))
    side = PIXELS // 50
    assert pixels.shape == (30 * side, 50 * side)
    np.testing.assert_array_equal(pixels[::side, ::side] == 0, array)
    np.testing.assert_array_equal(np.kron(~array, np.ones((side, side))) * 255, pixels)


def test_a_pixel_is_darker_the_more_it_stands_for(tmp_path: Path) -> None:
    size = 4 * PIXELS
    coordinates = np.array([[0, 1, 2, 3, 0, size - 1], [0, 0, 0, 0, 1, size - 1]])
    tensor = Tensor.from_coo("SparseCOO{2}(Element(0.0))", (size, size), coordinates, np.ones(6))
    save_picture(str(tmp_path / "a.png"), tensor)
    pixels = inside(read_png((tmp_path / "a.png").read_bytes()))
    assert pixels.shape == (PIXELS, PIXELS)
    assert pixels[0, 0] == 0 and 0 < pixels[-1, -1] < 128 and pixels[0, 1] == 255
    assert np.count_nonzero(pixels < 255) == 2


@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (3, 0), (1, 1), (1, 5000), (5000, 1)])
def test_pictures_of_odd_shapes(tmp_path: Path, shape: tuple[int, int]) -> None:
    save_picture(str(tmp_path / "a.png"), np.ones(shape))
    pixels = read_png((tmp_path / "a.png").read_bytes())
    assert min(pixels.shape) >= 18 and max(pixels.shape) <= PIXELS + 18


def test_pictures_that_cannot_be(tmp_path: Path) -> None:
    for path, value, kind in (
        (str(tmp_path / "a.gif"), np.eye(2), "I/O"),
        (str(tmp_path / "none" / "a.png"), np.eye(2), "I/O"),
        (str(tmp_path / "a.png"), 3, "type"),
        (str(tmp_path / "a.png"), Scalar(1.0), "type"),
    ):
        with pytest.raises(FinchError) as caught:
            save_picture(path, value)
        assert caught.value.kind == kind
    assert list(tmp_path.iterdir()) == []


# ----------------------------------------------------------------------- in scripts, as a command


def test_display_in_a_script() -> None:
    printed: list[str] = []
    session = Session(output=printed.append)
    session.run("A = Tensor(SparseList(Element(0.0)), [0.0, 2.0])\nx = display(A)\ndisplay(x)")
    assert "".join(printed) == display_text(session["A"]) + "\nnothing\n"


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "a.finch"
    path.write_text('A = Tensor(SparseList(Element(0.0)), [0.0, 2.0])\nn = 3\nprintln("hello")\n')
    return str(path)


def test_finch_show(file: str, tmp_path: Path, capsys) -> None:
    assert main(["show", file, "A", "--png", str(tmp_path / "A.png")]) == 0
    tensor = Tensor.from_numpy(np.array([0.0, 2.0]), "SparseList(Element(0.0))")
    out, err = capsys.readouterr()
    assert out == display_text(tensor) + "\n" and err == ""
    pixels = inside(read_png((tmp_path / "A.png").read_bytes()))
    assert (pixels[:, : pixels.shape[1] // 2] == 255).all()
    assert (pixels[:, pixels.shape[1] // 2 :] == 0).all()
    assert main(["show", file, "n"]) == 0 and capsys.readouterr().out == "3\n"


def test_finch_show_goes_wrong(file: str, tmp_path: Path, capsys) -> None:
    assert main(["show", file, "B"]) == 1
    assert "unknown name error" in capsys.readouterr().err
    assert main(["show", file, "n", "--png", str(tmp_path / "n.png")]) == 1
    out, err = capsys.readouterr()
    assert out == "" and "is no tensor" in err
    assert main(["show", file]) == 2 and "NAME" in capsys.readouterr().err
    assert main(["show", str(tmp_path / "absent.finch"), "A"]) == 1
    assert not (tmp_path / "n.png").exists()
