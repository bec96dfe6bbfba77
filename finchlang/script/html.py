"""Tensors in notebooks, as HTML: a summary, a table of levels, and a picture of where entries are."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

import numpy as np

from finchlang.script.display import HEADINGS, rows, summary
from finchlang.script.picture import picture
from finchlang.tensors.storage_report import measure
from finchlang.tensors.tensor import SwizzledTensor, Tensor

#: squares of a picture's side, pixels of it, and the most values of a tensor that is drawn
SQUARES, PIXELS, MOST = 80, 160, 20_000_000
#: opacities of squares, for few to many entries
SHADES = (0.35, 0.6, 0.8, 1.0)


def html(value: Any) -> str | None:
    """The result of `_repr_html_`: for a tensor a table of its levels and a picture of its first two
    dimensions; None for a value without dimensions or a lazy one, which notebooks then show as text."""
    if not isinstance(value, (Tensor, SwizzledTensor)) or value.order == 0:
        return None
    levels = measure(value)
    head = _row("th", HEADINGS)
    body = "".join(_row("td", row) for row in rows(levels))
    drawn = spy_svg(value) if levels[-1].fibers <= MOST else ""
    return (
        '<div class="finch-tensor" style="display: flex; flex-wrap: wrap; gap: 1.5em">'
        f'<div style="overflow-x: auto"><div><b>{escape(summary(value, levels))}</b></div>'
        f"<div><code>{escape(str(value.format))}</code></div>"
        f'<table style="font-size: 90%"><thead>{head}</thead><tbody>{body}</tbody></table></div>'
        f"{drawn}</div>"
    )


def _row(tag: str, words: Iterable[str]) -> str:
    """A row of the table: the first cell to the left with its spaces, others to the right."""
    look = "white-space: pre; padding: 0 .4em; text-align:"
    cells = [
        f'<{tag} style="{look} {"right" if k else "left"}">{escape(word)}</{tag}>'
        for k, word in enumerate(words)
    ]
    return f"<tr>{''.join(cells)}</tr>"


def spy_svg(tensor: Any) -> str:
    """The picture of a tensor as SVG, in the colour of the surrounding text: the more entries on a square
    the darker it is. Neighbours in a row with one shade are one rectangle."""
    found = picture(tensor, SQUARES, SQUARES)
    (height, width), greatest = found.counts.shape, max(int(found.counts.max(initial=0)), 1)
    last = len(SHADES) - 1
    shade = np.ceil(np.sqrt(found.counts / greatest) * last).astype(int)
    shade = np.where(found.counts > 0, shade if max(found.cell) > 1 else last, -1)
    paths = [
        f'<path opacity="{SHADES[k]}" d="{path}"/>'
        for k in range(last + 1)
        if (path := "".join(_rectangles(shade == k)))
    ]
    scale = PIXELS / max(height, width, 1)
    sizes = " x ".join(map(str, found.cell))
    label = "a square is an entry" if max(found.cell) <= 1 else f"a square is {sizes} entries"
    return (
        f'<svg role="img" viewBox="0 0 {max(width, 1)} {max(height, 1)}" style="overflow: visible" '
        f'width="{max(width * scale, 16):.0f}" height="{max(height * scale, 16):.0f}" '
        f'preserveAspectRatio="none" fill="currentColor"><title>{label}</title>'
        f'<rect width="{width}" height="{height}" fill="none" stroke="currentColor" '
        f'vector-effect="non-scaling-stroke"/>{"".join(paths)}</svg>'
    )


def _rectangles(is_set: np.ndarray) -> Iterable[str]:
    """SVG paths of rectangles, one for each run of squares in a row."""
    edges = np.diff(np.pad(is_set.astype(np.int8), ((0, 0), (1, 1))), axis=1)
    (rows, starts), (_, stops) = np.nonzero(edges > 0), np.nonzero(edges < 0)
    for row, start, stop in zip(rows, starts, stops, strict=True):
        yield f"M{start} {row}h{stop - start}v1H{start}z"
