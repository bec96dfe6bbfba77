"""The text of values at the prompt: literals of the language, shortened to fit the screen."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from finchlang.script.show import SMALL, entry, kind_of, show
from finchlang.syntax.types import Bool, Float64, Int64, Pair, type_of_dtype
from finchlang.tensors.adopt import as_tensor
from finchlang.tensors.array_base import LazyTensor, size_text
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor

#: lines of the screen that stay free for the input and the next prompt, and the most lines of a value
FREE, MOST = 4, 20
#: the types that can be seen from a literal
PLAIN = (Bool, Float64, Int64)


def screen() -> tuple[int, int]:
    size = shutil.get_terminal_size()
    return max(size.columns, 20), min(max(size.lines - FREE, 6), MOST)


def shown(value: Any, columns: int = 80, lines: int = 20) -> str:
    """A value in at most so many columns and lines; `⋮` and `…` stand for what is left out."""
    if isinstance(value, (Tensor, SwizzledTensor, LazyTensor)):
        if prod(value.shape) > SMALL:
            return f"{value!r} with {value.countstored()} stored entries"
        body = array(value.to_numpy(), columns, lines - 1, "")
        return f"{value!r}\n{body}" if body else repr(value)
    if isinstance(value, np.ndarray):
        type = type_of_dtype(value.dtype)
        head = "" if type in PLAIN and value.size else f"{type} array, "
        text = array(value, columns, lines - 1, head)
        return text or f"{head}{size_text(value.shape)}"
    if isinstance(value, list):
        return _wrapped([_word(v) for v in value[: columns * lines]], len(value), columns, lines)
    return _cut(_word(value) if isinstance(value, tuple) else _number(value), columns, lines)


def described(value: Any) -> str:
    """A short description of a variable's value: for a tensor its size and format."""
    if isinstance(value, (Tensor, SwizzledTensor, Scalar, LazyTensor)):
        return repr(value)
    if as_tensor(value) is not None:
        return f"{kind_of(value)}, {type_of_dtype(value.dtype)}"
    return str(value) if callable(value) or hasattr(value, "definition") else kind_of(value)


def array(value: np.ndarray, columns: int, lines: int, head: str) -> str:
    """An array as a literal, below its type and size if they cannot be seen from that."""
    if value.ndim == 0 or value.size == 0:
        return show(value) if value.ndim == 0 else ""
    lay = (_vector, _matrix)[value.ndim - 1] if value.ndim < 3 else _slices
    text, is_cut = lay(value, columns, lines)
    head = head or (f"{type_of_dtype(value.dtype)} array, " if is_cut else "")
    return f"{head}{size_text(value.shape)}\n{text}" if head else text


def _word(value: Any) -> str:
    """A value in one line, as an entry of an array or tuple."""
    if isinstance(value, tuple) and not isinstance(value, Pair):
        parts = [_word(v) if isinstance(v, (tuple, np.ndarray)) else show(v, 1) for v in value]
        return f"({', '.join(parts)}{',' * (len(parts) == 1)})"
    if isinstance(value, np.ndarray) and value.ndim in (1, 2) and value.size:
        lay = _vector if value.ndim == 1 else _matrix
        return lay(value, 60, 5)[0].replace("\n ", "; ")
    return entry(value)


def _number(value: Any) -> str:
    """A number as a literal of its type; other values as `show` has them."""
    if isinstance(value, np.generic) and not isinstance(value, np.bool_):
        type = type_of_dtype(value.dtype)
        if isinstance(value, np.float32):
            text = show(value)
            return f"{text}32" if text.strip("-") in ("Inf", "NaN") else _single(text)
        if type is not None and type not in PLAIN:
            return f"{type}({show(value)})"
    return show(value)


def _single(text: str) -> str:
    return text.replace("e", "f") if "e" in text else f"{text}f0"


def _vector(value: np.ndarray, columns: int, lines: int) -> tuple[str, bool]:
    room = columns * lines
    kept = _values(np.concatenate((value[:room], value[room:][-1:])))
    text = _wrapped([*map(_word, kept)], value.size, columns, lines)
    return text, "⋮" in text


def _wrapped(items: Sequence[str], total: int, columns: int, lines: int) -> str:
    """The items of a vector of `total` entries in lines, without those in the middle if they are many."""
    words = [f"{item}," for item in items[:-1]] + [f"{item}]" for item in items[-1:]]
    rows = ["["]
    for word in words:
        if len(rows[-1]) + len(word) + 1 > columns and rows[-1].strip(" ["):
            rows.append(" ")
        rows[-1] += word if rows[-1] in (" ", "[") else f" {word}"
    if not words:
        return "[]"
    rows = [row if len(row) <= columns else f"{row[: columns - 2]}…{row[-1]}" for row in rows]
    if len(rows) <= lines and len(items) == total:
        return "\n".join(rows)
    return "\n".join([*rows[: max(lines - 2, 1)], " ⋮", f" {rows[-1].lstrip()}"])


def _values(array: np.ndarray) -> Any:
    """The values of an array: a Float32 itself, as its Float64 has more digits; others as Python's."""
    return array if array.dtype.kind == "f" else array.tolist()


def _matrix(value: np.ndarray, columns: int, lines: int) -> tuple[str, bool]:
    """The rows of a matrix in aligned columns, as many as fit, and whether some are left out."""
    rows = _ends(value.shape[0], lines)
    count = min(value.shape[1], max(columns // 2, 1))
    while True:
        kept = _ends(value.shape[1], count)
        words = [[_cell(value, i, j) for j in kept] for i in rows]
        widths = [max(map(len, column)) for column in zip(*words, strict=True)]
        is_wide = sum(widths) + len(widths) + 1 > columns
        if count == 1 or not is_wide:
            break
        count -= 1
    lined = [" ".join(w.rjust(n) for w, n in zip(r, widths, strict=True)) for r in words]
    return "[" + "\n ".join(lined) + "]", is_wide or None in rows or None in kept


def _cell(value: np.ndarray, i: int | None, j: int | None) -> str:
    return "⋮" if i is None else "…" if j is None else _word(_values(value[i, j]))


def _ends(size: int, room: int) -> list[int | None]:
    """The places from 0 to size - 1; without room for all the first and last ones and None between them."""
    if size <= room:
        return [*range(size)]
    first = max(room // 2, 1)
    return [*range(first), None, *range(size - max(room - 1 - first, 0), size)]


def _slices(value: np.ndarray, columns: int, lines: int) -> tuple[str, bool]:
    """The matrices of an array of three or more modes, each below its indices, and whether some are cut."""
    texts: list[str] = []
    is_cut = False
    for at in product(*map(range, value.shape[:1:-1])):
        indices: tuple[Any, ...] = (slice(None), slice(None), *at[::-1])
        text, is_cut_here = _matrix(value[indices], columns, lines)
        is_cut |= is_cut_here
        title = f"[:, :, {', '.join(str(k + 1) for k in at[::-1])}]"
        if texts and sum(t.count("\n") + 1 for t in [*texts, title, text]) > lines:
            return "\n".join([*texts, "⋮"]), True
        texts += [title, text]
    return "\n".join(texts), is_cut


def _cut(text: str, columns: int, lines: int) -> str:
    """A text, without the middle if it is too long."""
    rows = text.split("\n")
    if len(rows) > lines:
        rows = [*rows[: lines - 2], "⋮", rows[-1]]
    most = columns * lines
    return "\n".join(f"{r[: most - columns]} … {r[-20:]}" if len(r) > most else r for r in rows)
