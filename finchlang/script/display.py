"""What `display` prints: a tensor's levels and their memory (Finch'25 Fig 6), its entries or a picture."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from finchlang.base.errors import FinchError
from finchlang.base.paths import checked_path, replace_file
from finchlang.levels.level import Level
from finchlang.script.picture import spy_text, write_spy
from finchlang.script.show import SMALL, kind_of, show
from finchlang.tensors.adopt import as_tensor
from finchlang.tensors.array_base import size_text
from finchlang.tensors.storage_report import LevelUse, measure
from finchlang.tensors.tensor import Scalar

#: arrays of a level of at most this many entries are listed
LISTED = 24
HEADINGS = ("level", "dimension", "size", "positions", "bytes")


def display_text(value: Any) -> str:
    """What `display` prints. For a tensor, an array or a SciPy matrix: a line with its size, fill and
    number of stored entries; a line for each level, with its dimensions, the number of its positions
    (fibers; for the leaf, values), the bytes of its arrays, and the arrays if they are short; then the
    entries of a small tensor, or a picture of where a large one has entries. Other values print as with
    `println`."""
    tensor = as_tensor(value)
    if tensor is None or isinstance(tensor, Scalar) or tensor.order == 0:
        return show(value if tensor is None else tensor)
    levels = measure(tensor)
    lines = [summary(tensor, levels), *_table([HEADINGS, *rows(levels)])]
    for position, use in enumerate(levels):
        if use.arrays and max(map(len, use.arrays.values())) <= LISTED:
            lines[position + 2] += "".join(f"  {n} = {_entries(a)}" for n, a in use.arrays.items())
    is_small = math.prod(tensor.shape) <= SMALL
    dense = show(tensor).partition("\n")[2] if is_small else spy_text(tensor)
    return "\n".join([*lines, *([dense] if dense else [])])


def summary(tensor: Any, levels: list[LevelUse]) -> str:
    """A line with a tensor's element type, size, fill, number of stored entries and bytes."""
    leaf, total = levels[-1].level, sum(use.bytes for use in levels)
    stored = _count(tensor.countstored(), "entry", "entries")
    return (
        f"{leaf.element_type} tensor of size {size_text(tensor.shape)}, "
        f"fill {show(leaf.fill.value)}: {stored} stored, {_count(total, 'byte')}"
    )


def rows(levels: list[LevelUse]) -> list[tuple[str, ...]]:
    return [_row(depth, use) for depth, use in enumerate(levels)]


def save_picture(path: str, value: Any) -> None:
    """Write a picture of where a tensor has entries as a PNG file. Raises FinchError "type" for a value
    without dimensions, "I/O" if the file cannot be written."""
    file = checked_path(path, (".png",))
    tensor = as_tensor(value)
    if tensor is None or isinstance(tensor, Scalar) or tensor.order == 0:
        raise FinchError("type", f"{kind_of(value)} is no tensor, and has no picture")
    replace_file(file, path, lambda out: write_spy(out, tensor))


def level_label(level: Level) -> str:
    """The text of a level without the level below it."""
    return str(level) if level.is_leaf else str(level).removesuffix(f"({level.child})")


def _row(depth: int, use: LevelUse) -> tuple[str, ...]:
    indent = "   " * (depth - 1) + "└─ " if depth else ""
    modes = ", ".join(map(str, use.modes))
    size = size_text(use.sizes) if use.sizes else ""
    return (indent + level_label(use.level), modes, size, str(use.fibers), str(use.bytes))


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            word.ljust(width) if k == 0 else word.rjust(width)
            for k, (word, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def _entries(array: np.ndarray) -> str:
    return f"[{', '.join(map(show, array.tolist()))}]"


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
