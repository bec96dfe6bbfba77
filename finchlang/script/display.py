"""What `display` prints: a tensor's levels and their memory (Finch'25 Fig 6), its entries or a picture; and
the same as HTML for notebooks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape
from itertools import count
from typing import Any

import numpy as np

from finchlang.base.errors import FinchError, number_of
from finchlang.base.paths import checked_path, replace_file
from finchlang.script.picture import darkness, picture, spy_text, write_spy
from finchlang.script.show import SMALL, entry, kind_of, show, table
from finchlang.tensors.adopt import as_tensor
from finchlang.tensors.array_base import size_text
from finchlang.tensors.storage_report import LevelUse, measure
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor

#: arrays of a level of at most this many entries are listed
LISTED = 24
#: of pictures in HTML: squares of a side, pixels of it, and the most values of a tensor that is drawn
SQUARES, PIXELS, MOST = 80, 160, 20_000_000
#: with at most so many entries on a side they stand apart
APART = 40
#: opacities of squares, for few to many entries
SHADES = (0.35, 0.6, 0.8, 1.0)
HEADINGS = ("level", "dimension", "size", "positions", "bytes")


def display_text(value: Any) -> str:
    """What `display` prints: of a tensor, an array or a SciPy matrix a summary, a line for each level with
    its arrays if they are short, and the entries, or a picture of a large one; of others as `println`."""
    tensor = as_tensor(value)
    if tensor is None or isinstance(tensor, Scalar) or tensor.order == 0:
        return show(value if tensor is None else tensor)
    levels = measure(tensor)
    rows = table([HEADINGS, *map(_row, count(), levels)])
    lines = [summary(tensor, levels), *rows.split("\n")]
    for position, use in enumerate(levels):
        if use.arrays and max(map(len, use.arrays.values())) <= LISTED:
            lines[position + 2] += "".join(f"  {n} = {_entries(a)}" for n, a in use.arrays.items())
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


def save_picture(path: str, value: Any) -> None:
    """Write a picture of where a tensor has entries as a PNG file. Raises FinchError "type" for a value
    without dimensions, "I/O" if the file cannot be written."""
    file = checked_path(path, (".png",))
    tensor = as_tensor(value)
    if tensor is None or isinstance(tensor, Scalar) or tensor.order == 0:
        raise FinchError("type", f"{kind_of(value)} is no tensor, and has no picture")
    replace_file(file, path, lambda out: write_spy(out, tensor))


def _row(depth: int, use: LevelUse) -> tuple[str, ...]:
    level, indent = use.level, "   " * (depth - 1) + "└─ " if depth else ""
    label = str(level) if level.is_leaf else str(level).removesuffix(f"({level.child})")
    modes = ", ".join(map(str, use.modes))
    size = size_text(use.sizes) if use.sizes else ""
    return (indent + label, modes, size, str(use.fibers), str(use.bytes))


def _entries(array: np.ndarray) -> str:
    return f"[{', '.join(map(entry, array))}]"


# ------------------------------------------------------------------------------ HTML


def html(value: Any) -> str | None:
    """The result of `_repr_html_`: for a tensor a table of its levels and a picture of its first two
    dimensions; None for a value without dimensions or a lazy one, which notebooks then show as text."""
    if not isinstance(value, (Tensor, SwizzledTensor)) or value.order == 0:
        return None
    levels = measure(value)
    head = _cells("th", HEADINGS)
    body = "".join(_cells("td", row) for row in map(_row, count(), levels))
    drawn = spy_svg(value) if levels[-1].fibers <= MOST else ""
    return (
        '<div class="finch-tensor" style="display: flex; flex-wrap: wrap; gap: 1.5em">'
        f'<div style="overflow-x: auto"><div><b>{escape(summary(value, levels))}</b></div>'
        f"<div><code>{escape(str(value.format))}</code></div>"
        f'<table style="font-size: 80%"><thead>{head}</thead><tbody>{body}</tbody></table></div>'
        f"{drawn}</div>"
    )


def _cells(tag: str, words: Iterable[str]) -> str:
    """A row of the table: the first cell to the left with its spaces, others to the right."""
    look = "white-space: pre; padding: 0 .4em; text-align:"
    cells = [
        f'<{tag} style="{look} {"right" if k else "left"}">{escape(word)}</{tag}>'
        for k, word in enumerate(words)
    ]
    return f"<tr>{''.join(cells)}</tr>"


def spy_svg(tensor: Any) -> str:
    """The picture of a tensor as SVG, in the colour of the surrounding text: the more entries on a square
    the darker it is. Neighbours in a row with one shade are one rectangle; few entries stand apart."""
    found = picture(tensor, SQUARES, SQUARES)
    (height, width), last = found.counts.shape, len(SHADES) - 1
    shade = last if found.is_exact else np.ceil(darkness(found.counts) * last).astype(int)
    shade = np.where(found.counts > 0, shade, -1)
    is_apart = found.is_exact and max(height, width) <= APART
    paths = [
        f'<path opacity="{SHADES[k]}" d="{path}"/>'
        for k in range(last + 1)
        if (path := "".join(_rectangles(shade == k, is_apart)))
    ]
    scale = PIXELS / max(height, width, 1)
    sizes = " x ".join(map(str, found.cell))
    label = f"a square is {'an entry' if found.is_exact else f'{sizes} entries'}"
    return (
        f'<svg role="img" viewBox="0 0 {max(width, 1)} {max(height, 1)}" style="overflow: visible" '
        f'width="{max(width * scale, 16):.0f}" height="{max(height * scale, 16):.0f}" '
        f'preserveAspectRatio="none" fill="currentColor"><title>{label}</title>'
        f'<rect width="{width}" height="{height}" fill="none" stroke="currentColor" '
        f'vector-effect="non-scaling-stroke"/>{"".join(paths)}</svg>'
    )


def _rectangles(is_set: np.ndarray, is_apart: bool) -> Iterable[str]:
    """SVG paths of rectangles, one for each run of squares in a row, or for each square, with gaps."""
    if is_apart:
        yield from (f"M{j + 0.06:g} {i + 0.06:g}h.88v.88h-.88z" for i, j in np.argwhere(is_set))
        return
    edges = np.diff(np.pad(is_set.astype(np.int8), ((0, 0), (1, 1))), axis=1)
    (rows, starts), (_, stops) = np.nonzero(edges > 0), np.nonzero(edges < 0)
    for row, start, stop in zip(rows, starts, stops, strict=True):
        yield f"M{start} {row}h{stop - start}v1H{start}z"
