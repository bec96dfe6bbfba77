"""What `display` prints: a tensor's levels and their memory (Finch'25 Fig 6), its entries or a picture; the
same as HTML for notebooks; and the picture as a PNG file.

A picture shows where a tensor has entries in its first two dimensions; entries that differ in others alone
fall on the same square. A vector is one row.
"""

from __future__ import annotations

import math
import struct
import zlib
from base64 import b64encode
from html import escape
from itertools import count
from typing import Any

import numpy as np

from finchlang.base.errors import FinchError, number_of
from finchlang.base.paths import checked_path, replace_file
from finchlang.base.records import record
from finchlang.levels.element import differs
from finchlang.script.show import SMALL, entry, kind_of, show, table
from finchlang.tensors.adopt import as_tensor
from finchlang.tensors.array_base import size_text
from finchlang.tensors.storage_report import LevelUse, measure
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor

#: arrays of a level of at most this many entries are listed
LISTED = 24
#: the most dots of a picture in a terminal (4 x 2 in a character), the pixels of the longer side of a PNG
#: file and of one in HTML, and the most values of a tensor that is drawn there
TEXT_ROWS, TEXT_COLUMNS = 96, 144
PIXELS, IN_HTML, MOST = 1024, 256, 20_000_000
#: the first Braille code point, and the bit of each dot, by row and column
BRAILLE, DOTS = 0x2800, np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
SHADES = " ░▒▓█"
MARGIN, LARGEST_CELL, LEAST_SIDE = 8, 32, 16
HEADINGS = ("level", "dimension", "size", "positions", "bytes")


def display_text(value: Any) -> str:
    """What `display` prints: of a tensor, an array or a SciPy matrix a summary, a line for each level with
    its arrays if they are short, and the entries, or a picture of a large one; of others as `println`."""
    tensor = as_tensor(value)
    if tensor is None or isinstance(tensor, Scalar) or tensor.order == 0:
        return show(value if tensor is None else tensor)
    levels = measure(tensor)
    lines = [summary(tensor, levels), *_rows(levels)]
    for position, use in enumerate(levels):
        if use.arrays and max(map(len, use.arrays.values())) <= LISTED:
            arrays = ((name, ", ".join(map(entry, array))) for name, array in use.arrays.items())
            lines[position + 2] += "".join(f"  {name} = [{listed}]" for name, listed in arrays)
    is_small = math.prod(tensor.shape) <= SMALL
    dense = show(tensor).partition("\n")[2] if is_small else spy_text(tensor)
    return "\n".join([*lines, *([dense] if dense else [])])


def summary(tensor: Any, levels: list[LevelUse]) -> str:
    """A line with a tensor's element type, size, fill, number of stored entries and bytes."""
    leaf, total = levels[-1].level, sum(use.bytes for use in levels)
    stored = number_of(tensor.countstored(), "entry", "entries")
    return (
        f"{leaf.element_type} tensor of size {size_text(tensor.shape)}, "
        f"fill {show(leaf.fill.value)}: {stored} stored, {number_of(total, 'byte')}"
    )


def _rows(levels: list[LevelUse]) -> list[str]:
    """The lines of the table of levels, with its headings."""
    return table([HEADINGS, *map(_row, count(), levels)]).split("\n")


def _row(depth: int, use: LevelUse) -> tuple[str, ...]:
    level, indent = use.level, "   " * (depth - 1) + "└─ " if depth else ""
    label = str(level) if level.is_leaf else str(level).removesuffix(f"({level.child})")
    modes = ", ".join(map(str, use.modes))
    size = size_text(use.sizes) if use.sizes else ""
    return (indent + label, modes, size, str(use.fibers), str(use.bytes))


def html(value: Any) -> str | None:
    """The result of `_repr_html_`: for a tensor the lines for its levels and a picture of its first two
    dimensions; None for a value without dimensions or a lazy one, which notebooks then show as text."""
    if not isinstance(value, (Tensor, SwizzledTensor)) or value.order == 0:
        return None
    levels, drawn = measure(value), ""
    lines = [summary(value, levels), str(value.format), *_rows(levels)]
    if levels[-1].fibers <= MOST:
        content = b64encode(png(value, IN_HTML)).decode()
        drawn = f'<img alt="where it has entries" src="data:image/png;base64,{content}">'
    return (
        '<div class="finch-tensor" style="display: flex; flex-wrap: wrap; gap: 1.5em">'
        f'<pre style="overflow-x: auto">{escape(chr(10).join(lines))}</pre>{drawn}</div>'
    )


# ------------------------------------------------------------------------------ pictures


@record
class Picture:
    """A grid of squares. `counts` are the numbers of entries on each that differ from the fill; `cell` is
    how many coordinates of each dimension a square stands for at most."""

    counts: np.ndarray
    cell: tuple[int, ...]

    @property
    def is_exact(self) -> bool:
        """Whether a square is one entry."""
        return max(self.cell) <= 1


def darkness(counts: np.ndarray) -> np.ndarray:
    """How dark squares of so many entries are drawn, from 0 to 1."""
    return np.sqrt(counts / max(int(counts.max(initial=0)), 1))


def picture(tensor: Any, rows: int, columns: int) -> Picture:
    """The picture of a tensor of at least one dimension, of at most these sizes. It has the tensor's
    proportions, but at least 4 squares a side (or the tensor's size), so that a narrow one is seen."""
    coordinates, values = tensor.entries()
    stored = differs(values, tensor.fill)
    m, n = (1, *tensor.shape) if tensor.order == 1 else tensor.shape[:2]
    scale = max(m / rows, n / columns, 1.0)
    grid = tuple(max(math.ceil(s / scale), min(s, 4)) for s in (m, n))
    counts = np.zeros(grid, np.int64)
    if stored.any():
        j = coordinates[0 if tensor.order == 1 else 1, stored]
        i = np.zeros_like(j) if tensor.order == 1 else coordinates[0, stored]
        parts = [_part(c, s, g) for c, s, g in zip((i, j), (m, n), grid, strict=True)]
        flat = parts[0] * grid[1] + parts[1]
        counts = np.bincount(flat, minlength=grid[0] * grid[1]).reshape(grid)
    return Picture(counts, tuple(-(-s // g) if g else 0 for s, g in zip((m, n), grid, strict=True)))


def _part(coordinates: np.ndarray, size: int, parts: int) -> np.ndarray:
    """Which of `parts` equal parts of 0..size-1 each coordinate is in."""
    if size <= 1 << 31:  # the product cannot overflow
        return coordinates * parts // size
    return np.minimum((coordinates / size * parts).astype(np.int64), parts - 1)


def spy_text(tensor: Any) -> str:
    """The picture in a frame, with a Braille dot for each square that has an entry; if most have one and
    stand for several coordinates, characters are shaded by their numbers of entries instead."""
    found = picture(tensor, TEXT_ROWS, TEXT_COLUMNS)
    rows, columns = -(-found.counts.shape[0] // 4), -(-found.counts.shape[1] // 2)
    padded = np.zeros((rows * 4, columns * 2), np.int64)
    padded[: found.counts.shape[0], : found.counts.shape[1]] = found.counts
    blocks = padded.reshape(rows, 4, columns, 2)
    if not found.is_exact and np.count_nonzero(found.counts) * 2 > found.counts.size:
        shades = np.ceil(darkness(blocks.sum((1, 3))) * (len(SHADES) - 1)).astype(int)
        lines = ["".join(SHADES[shade] for shade in row) for row in shades]
        unit = f"a character is {4 * found.cell[0]} x {2 * found.cell[1]} entries"
    else:
        codes = BRAILLE + ((blocks > 0) * DOTS[None, :, None, :]).sum((1, 3))
        lines = ["".join(map(chr, row)) for row in codes]
        sizes = f"{found.cell[0]} x {found.cell[1]} entries"
        unit = f"a dot is {'an entry' if found.is_exact else sizes}"
    bar = "─" * columns
    return "\n".join([f"┌{bar}┐", *(f"│{line}│" for line in lines), f"└{bar}┘ {unit}"])


def save_picture(path: str, value: Any) -> None:
    """Write a picture of where a tensor has entries as a PNG file. Raises FinchError "type" for a value
    without dimensions, "I/O" if the file cannot be written."""
    file = checked_path(path, (".png",))
    tensor = as_tensor(value)
    if tensor is None or isinstance(tensor, Scalar) or tensor.order == 0:
        raise FinchError("type", f"{kind_of(value)} is no tensor, and has no picture")
    replace_file(file, path, lambda out: out.write(png(tensor)))


def png(tensor: Any, pixels: int = PIXELS) -> bytes:
    """The picture as a PNG of about so many pixels a side: entries are black on white in a grey frame; a
    pixel that stands for several coordinates is darker the more entries it has."""
    found = picture(tensor, pixels, pixels)
    light = 0 if found.is_exact else 190 * (1 - darkness(found.counts))
    shade = np.where(found.counts > 0, light, 255)
    cell = max(1, min(LARGEST_CELL, pixels // max(*found.counts.shape, 1)))
    sides = [max(cell, LEAST_SIDE // max(size, 1)) for size in found.counts.shape]
    squares = np.kron(shade.astype(np.uint8), np.ones(sides, np.uint8))
    framed = np.pad(np.pad(squares, 1, constant_values=128), MARGIN, constant_values=255)
    return grey_png(framed)


def grey_png(grey: np.ndarray) -> bytes:
    """A PNG file of these 8-bit grey pixels (PNG specification, chapters 5 and 11)."""

    def chunk(name: bytes, content: bytes) -> bytes:
        body = name + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    height, width = grey.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = np.hstack((np.zeros((height, 1), np.uint8), grey)).tobytes()  # no filter in any row
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks
