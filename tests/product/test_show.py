"""Pictures of where a tensor has entries: in characters, as `display` prints them, and as those that
`finch show --png` writes; levels and errors are in `transcripts/look.txt`."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from finchlang import Session, Tensor
from finchlang.repl.__main__ import main

CSC = "Dense(SparseList(Element(0.0)))"
ROWS, COLUMNS, PIXELS = 96, 144, 1024


def shown(value: Any) -> str:
    """What `display` prints of a value, or of an expression."""
    printed: list[str] = []
    session = Session(output=printed.append)
    session["A"] = value
    session.run(value if isinstance(value, str) else "display(A)")
    return "".join(printed).rstrip("\n")


def dots(text: str) -> np.ndarray:
    """Which dots of a picture in characters are set (a character has 4 rows and 2 columns)."""
    lines = [line[1:-1] for line in text[text.index("┌") :].splitlines()[1:-1]]
    bits = [[0, 3], [1, 4], [2, 5], [6, 7]]
    rows = [
        [ord(c) - 0x2800 >> bit & 1 for c in line for bit in row] for line in lines for row in bits
    ]
    return np.array(rows)


@pytest.mark.parametrize("shape", [(ROWS, 50), (61, 33)])
def test_a_dot_for_each_entry_of_a_matrix_that_fits(shape: tuple[int, int]) -> None:
    array = np.random.default_rng(1).random(shape) < 0.2
    text = shown(Tensor(CSC, array.astype(float)))
    found = dots(text)
    np.testing.assert_array_equal(found[: shape[0], : shape[1]], array)
    assert found.sum() == array.sum() and text.endswith("a dot is an entry")


def test_larger_matrices_are_scaled_down_in_proportion() -> None:
    text = shown(f"display(fsparse(1:{10 * ROWS}, 1:{10 * ROWS}, ones({10 * ROWS})))")
    np.testing.assert_array_equal(dots(text), np.eye(ROWS))
    assert text.endswith("a dot is 10 x 10 entries")
    rows, columns = dots(shown(f"display(fsparse([1, 100], [1, {100 * COLUMNS}], [1, 1]))")).shape
    assert rows == 4 and columns == COLUMNS
    assert dots(shown(f"display(fsparse([1, {100 * ROWS}], [1, 3], [1, 1]))")).shape == (ROWS, 4)


def test_what_is_counted_differs_from_the_fill() -> None:
    stored = np.zeros((40, 40), bool)
    stored[:20, 5:] = True
    array = np.where(stored, 2.0, np.nan)
    found = dots(shown(Tensor("Dense(Dense(Element(NaN)))", array)))
    np.testing.assert_array_equal(found, stored)


def test_crowded_pictures_are_shaded() -> None:
    array = np.zeros((960, 960))
    array[::8, ::8] = 1
    array[480:, 480:] = 1
    lines = shown(array)[shown(array).index("┌") :].splitlines()
    assert lines[-1].endswith("a character is 40 x 20 entries")
    assert set(lines[1][1:-1]) == {"░"} and lines[-2][1:-1] == "░" * 24 + "█" * 24


def test_vectors_are_a_row_and_other_dimensions_fall_together() -> None:
    vector = np.zeros(10 * COLUMNS)
    vector[[0, 77, 999]] = 1
    np.testing.assert_array_equal(np.flatnonzero(dots(shown(vector))[0]), [0, 7, 99])
    cube = np.zeros((40, 40, 3))
    cube[1, 2, 0] = cube[1, 2, 2] = cube[30, 4, 1] = 1
    np.testing.assert_array_equal(dots(shown(cube)), cube.any(axis=2))


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("count", [0, 1])
def test_enormous_tensors(order: int, count: int) -> None:
    shape, last = (2**62,) * order, [[2**62 - 1] * count] * order
    format = f"SparseCOO{{{order}}}(Element(0.0))"
    text = shown(Tensor.from_coo(format, shape, np.array(last, int), np.ones(count)))
    assert dots(text).sum() == count


def test_other_values_print_as_always() -> None:
    for text in ("3", '"a"', "Scalar(2.0)", "nothing"):
        assert shown(f"display({text})") == text


# --------------------------------------------------------------------------------------- PNG


def written(folder: Path, definition: str, array: Any = None) -> np.ndarray:
    """The pixels of the picture of A."""
    if array is not None:
        np.save(folder / "a.npy", array)
    (folder / "a.finch").write_text(f"A = {definition}\n", "utf-8")
    picture = folder / "a.png"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["show", "a.finch", "A", "--png", "a.png"]) == 0
    return read_png(picture.read_bytes())


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
    pixels = inside(written(tmp_path, 'fread("a.npy")', array))
    side = PIXELS // 50
    np.testing.assert_array_equal(np.kron(~array, np.ones((side, side))) * 255, pixels)


def test_a_pixel_is_darker_the_more_it_stands_for(tmp_path: Path) -> None:
    size = 4 * PIXELS
    places = f"[1, 2, 3, 4, 1, {size}], [1, 1, 1, 1, 2, {size}]"
    pixels = inside(written(tmp_path, f"fsparse({places}, ones(6))"))
    assert pixels.shape == (PIXELS, PIXELS)
    assert pixels[0, 0] == 0 and 0 < pixels[-1, -1] < 128 and pixels[0, 1] == 255
    assert np.count_nonzero(pixels < 255) == 2


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (1, 1), (1, 5000), (5000, 1)])
def test_pictures_of_odd_shapes(tmp_path: Path, shape: tuple[int, int]) -> None:
    pixels = written(tmp_path, 'fread("a.npy")', np.ones(shape))
    assert min(pixels.shape) >= 18 and max(pixels.shape) <= PIXELS + 18
