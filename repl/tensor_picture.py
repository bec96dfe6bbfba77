"""A tensor as an SVG: the grid of its places, and below it the arrays of its levels, with offsets as
brackets over what they lead to. Cells that belong to a position of the leaf carry it as `data-at`."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from typing import Any

import numpy as np

from finchlang.levels.layout import Coordinate, Offsets, arrays
from finchlang.script.show import show
from finchlang.tensors.storage_report import measure, stored_at
from finchlang.tensors.tensor import body_of

#: sizes in pixels: a cell of the grid, the height of an array's row, the room for names, of a character
WIDE, HIGH, ROW, NAME, LETTER = 34, 24, 26, 92, 7.3
#: the most entries of an array that are drawn
ENTRIES = 24


def tensor_svg(tensor: Any, names: Sequence[str] = ()) -> str:
    """The picture of a tensor of one or two dimensions. `names` are those of its arrays."""
    drawing = _Drawing()
    drawing.grid(tensor)
    drawing.levels(tensor, list(names))
    return drawing.text()


class _Drawing:
    def __init__(self) -> None:
        self.parts: list[str] = []
        self.width = self.y = 0.0

    def text(self) -> str:
        size = f'viewBox="0 0 {self.width + 4:.0f} {self.y + 4:.0f}" width="{self.width + 4:.0f}"'
        said = 'role="img" aria-label="a tensor with the arrays of its levels"'
        return f'<svg class="tensor" {said} {size}>{"".join(self.parts)}</svg>'

    def _cell(self, x: float, y: float, w: float, h: float, text: str, kind: str, at: int) -> None:
        place = f' data-at="{at}"' if at >= 0 else ""
        self.parts.append(
            f'<g class="{kind}"{place}><rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h}"/>'
            f'<text x="{x + w / 2:.1f}" y="{y + h / 2 + 4:.1f}" text-anchor="middle">'
            f"{escape(text)}</text></g>"
        )
        self.width = max(self.width, x + w)

    def _label(
        self, x: float, y: float, text: str, kind: str = "name", anchor: str = "start"
    ) -> None:
        self.parts.append(
            f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
        )

    def grid(self, tensor: Any) -> None:
        body = body_of(tensor)
        coordinates, positions = stored_at(tensor)
        values = body._values_at(positions)
        shape = body.shape if body.order == 2 else (1, *body.shape)
        fill = _short(body.fill)
        kept: dict[tuple[int, ...], tuple[str, int]] = {}
        for k, position in enumerate(positions.tolist()):
            at = tuple(int(c) for c in coordinates[:, k])
            kept[at if body.order == 2 else (0, *at)] = _short(values[k]), position
        left = 26
        for j in range(shape[1]):
            self._label(left + j * WIDE + WIDE / 2, 13, str(j + 1), "number", "middle")
        for i in range(shape[0]):
            y = 18 + i * HIGH
            if body.order == 2:
                self._label(18, y + 16, str(i + 1), "number", "end")
            for j in range(shape[1]):
                text, found = kept.get((i, j), (fill, -1))
                kind = "kept" if found >= 0 else "fill"
                self._cell(left + j * WIDE, y, WIDE, HIGH, text, kind, found)
        self.y = 18 + shape[0] * HIGH + 12

    def levels(self, tensor: Any, names: list[str]) -> None:
        """The arrays, level by level. Those that are as long as the leaf's have its positions."""
        rows: list[tuple[str, str, Any, np.ndarray]] = []
        for use in measure(tensor):
            roles = {part.name: part for part in arrays(use.level.layout)}
            label = str(use.level).partition("(")[0]
            for name, array in use.arrays.items():
                rows.append((label, name, roles.get(name), array))
        leaf = len(rows[-1][3]) if rows else 0
        shown = ""
        for k, (label, name, role, array) in enumerate(rows):
            after = rows[k + 1][3] if k + 1 < len(rows) else None
            if label != shown and not names:
                self._label(0, self.y + 12, label, "level")
                self.y += 18
            shown = label
            is_last = not isinstance(role, Offsets) and len(array) == leaf
            self._label(8, self.y + 17, names[k] if k < len(names) else name)
            self._row(array, is_last, isinstance(role, Coordinate))
            if isinstance(role, Offsets) and after is not None:
                self._brackets(array, after)

    def _size(self, array: np.ndarray) -> float:
        texts = [_short(v) for v in array[:ENTRIES].tolist()]
        return max([24.0, *(len(t) * LETTER + 8 for t in texts)])

    def _row(self, array: np.ndarray, is_leaf: bool, is_place: bool) -> None:
        wide = self._size(array)
        for k, value in enumerate(array[:ENTRIES].tolist()):
            kind = "place" if is_place else "value" if is_leaf else "offset"
            x, at = NAME + k * wide, k if is_leaf else -1
            self._cell(x, self.y, wide, ROW - 4, _short(value), kind, at)
        if len(array) > ENTRIES:
            self._label(NAME + ENTRIES * wide + 6, self.y + 16, f"… {len(array)} in all")
            self.width = max(self.width, NAME + ENTRIES * wide + 90)
        self.y += ROW

    def _brackets(self, offsets: np.ndarray, after: np.ndarray) -> None:
        """A bracket for each fiber over the entries that it has in the next array."""
        wide = self._size(after)
        for k, (start, stop) in enumerate(pairwise(offsets.tolist())):
            if stop > min(len(after), ENTRIES) or stop == start:
                continue
            x, w = NAME + start * wide + 2, (stop - start) * wide - 4
            path = f"M{x:.1f} {self.y + 17}v-5h{w:.1f}v5"
            self.parts.append(f'<path class="bracket" d="{path}" fill="none"/>')
            self._label(x + w / 2, self.y + 9, str(k + 1), "number", "middle")
        self.y += 20


def _short(value: Any) -> str:
    if isinstance(value, (float, np.floating)):
        text = f"{value:.3g}"
        return f"{text}.0" if text.lstrip("-").isdigit() else text
    return str(show(value))
