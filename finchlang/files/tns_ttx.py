"""Tensors of any order as text, a line for each entry: FROSTT's `.tns`, and `.ttx` with a header."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from finchlang.base.errors import FinchError
from finchlang.files.matrix_market import (
    FIELDS,
    check_fill,
    content,
    field_of,
    leaf_of,
    read_counted,
    read_entries,
    read_header,
    read_sizes,
)
from finchlang.levels.sparse_coo import SparseCOO
from finchlang.syntax.types import Int64
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor

#: the header of a .ttx file, up to the field and the symmetry
HEADER = "%%MatrixMarket tensor coordinate"


def read_tns(file: Path) -> Tensor:
    """FROSTT: the coordinates of an entry, from 1, and its value in each line; `#` begins a comment.

    A SparseCOO of Float64 whose sizes are the greatest coordinates, for the file tells no others.
    Raises ValueError for a damaged file.
    """
    with open(file, encoding="utf-8") as lines:
        first = next(content(lines, "#"), None)
        if first is None:
            raise ValueError("it has no entries, which alone tell its sizes")
        if len(first) < 2:
            raise ValueError("a line needs a coordinate and a value")
        lines.seek(0)
        coordinates, values = read_entries(lines, len(first) - 1, np.dtype(float), "#")
    return _tensor(tuple(map(int, coordinates.max(axis=1))), coordinates, values)


def read_ttx(file: Path) -> Tensor:
    """Matrix Market's header with `tensor` for `matrix`, comments after `%`, the sizes and the number
    of entries in a line, then the entries as in a .tns file. A SparseCOO, of Element(0.0), Element(0)
    or Pattern() leaves as the field says.

    Raises FinchError "type" for complex numbers, ValueError for a damaged file.
    """
    with open(file, encoding="utf-8") as lines:
        layout, field, symmetry = read_header(lines, file, ("tensor", "matrix"))
        if (layout, symmetry) != ("coordinate", "general"):
            raise ValueError(f"it does not begin with `{HEADER} real general` or the like")
        *shape, stored = read_sizes(lines)
        if not shape:
            raise ValueError("it does not tell its sizes and its number of entries")
        dtype = np.dtype(FIELDS[field])
        coordinates, values = read_counted(file, lines, tuple(shape), dtype, stored)
    return _tensor(tuple(shape), coordinates, values)


def write_tns(out: BinaryIO, tensor: Tensor | SwizzledTensor | Scalar) -> None:
    """What is stored, a line for each entry. Raises FinchError "dimension" for a tensor whose sizes
    could not be read back for want of dimensions or entries, "type" for a fill that is not 0."""
    coordinates, values = _stored(tensor, ".tns")
    if not len(values):
        hint = "a .ttx file tells its sizes"
        message = "a .tns file cannot hold a tensor without entries: they alone tell its sizes"
        raise FinchError("dimension", message, hint=hint)
    numbers = values.astype(np.int8) if values.dtype == np.bool_ else values
    _write_lines(out, [*coordinates, numbers])


def write_ttx(out: BinaryIO, tensor: Tensor | SwizzledTensor | Scalar) -> None:
    """What is stored, after a header. Raises FinchError as `write_tns`, but for missing entries."""
    coordinates, values = _stored(tensor, ".ttx")
    assert not isinstance(tensor, Scalar)
    sizes = " ".join(map(str, (*tensor.shape, len(values))))
    out.write(f"{HEADER} {field_of(tensor)} general\n{sizes}\n".encode())
    _write_lines(out, [*coordinates, *([] if values.dtype == np.bool_ else [values])])


def _stored(tensor: Any, suffix: str) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates from 1 and values of what is stored; of a Bool tensor, of what is true."""
    if tensor.order == 0:
        raise FinchError("dimension", f"a {suffix} file holds tensors of one dimension or more")
    check_fill(tensor, suffix)
    coordinates, values = tensor.entries()
    if values.dtype == np.bool_:
        coordinates, values = coordinates[:, values], values[values]
    return coordinates + 1, values


def _write_lines(out: BinaryIO, columns: list[np.ndarray]) -> None:
    """Numbers print as Python writes them, so that they are read back exactly."""
    step = 100_000
    for start in range(0, len(columns[0]), step):
        # a float32 prints its own shortest digits, not those of the float64 it becomes
        texts = [map(str, column[start : start + step].tolist()) for column in columns[:-1]]
        last = columns[-1][start : start + step]
        texts.append(map(str, last if last.dtype == np.float32 else last.tolist()))
        lines = "\n".join(map(" ".join, zip(*texts, strict=True)))
        out.write(lines.encode() + b"\n")


def _tensor(shape: tuple[int, ...], coordinates: np.ndarray, values: np.ndarray) -> Tensor:
    """A SparseCOO of entries at coordinates from 1; repeated ones are summed."""
    format = SparseCOO(leaf_of(values.dtype), Int64, len(shape))
    return Tensor.from_coo(format, shape, list(coordinates - 1), values)
