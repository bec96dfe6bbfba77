"""Tensors of any order as text, a line for each entry: FROSTT's `.tns`, and `.ttx` with a header."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from finchlang.base.errors import FinchError
from finchlang.files import matrix_market
from finchlang.levels.sparse_coo import SparseCOO
from finchlang.syntax.types import Int64
from finchlang.tensors.entries import Entries
from finchlang.tensors.tensor import AnyTensor, Scalar, Tensor

#: the header of a .ttx file, up to the field and the symmetry
HEADER = "%%MatrixMarket tensor coordinate"


def read_tns(file: Path) -> Tensor:
    """A FROSTT file: each line has the coordinates of an entry, from 1, and its value; `#` begins a
    comment. The tensor is a SparseCOO of Float64, or of Int64 or UInt64 if all values are integers and one
    is 2^53 or more; its sizes are the greatest coordinates, as the file has no others. Raises ValueError
    for a damaged file, or one without entries."""
    with matrix_market.opened(file) as lines:
        first = next(matrix_market.content(lines, "#"), None)
        if first is None:
            raise ValueError("it has no entries, which alone tell its sizes")
        if len(first) < 2:
            raise ValueError("a line needs a coordinate and a value")

        def read(dtype: Any) -> Entries:
            lines.seek(0)
            return matrix_market.read_entries(lines, len(first) - 1, np.dtype(dtype), "#")

        coordinates, values = read(float)
        for dtype in (np.uint64, np.int64) if np.any(np.abs(values) >= 2**53) else ():
            with suppress(ValueError):
                coordinates, values = read(dtype)
    return _tensor(tuple(map(int, coordinates.max(axis=1))), coordinates, values)


def read_ttx(file: Path) -> Tensor:
    """A `.ttx` file: Matrix Market's header with `tensor` for `matrix`, comments after `%`, a line with the
    sizes and the number of entries, then entries as in a `.tns` file. The tensor is a SparseCOO with
    Element(0.0), Element(0) or Pattern() leaves by the field. Raises FinchError "type" for complex
    numbers, ValueError for a damaged file."""
    with matrix_market.opened(file) as lines:
        layout, field, symmetry = matrix_market.read_header(lines, file, ("tensor", "matrix"))
        if (layout, symmetry) != ("coordinate", "general"):
            raise ValueError(f"it does not begin with `{HEADER} real general` or the like")
        *shape, stored = matrix_market.read_sizes(lines)
        if not shape:
            raise ValueError("it does not tell its sizes and its number of entries")
        dtype = np.dtype(matrix_market.FIELDS[field])
        coordinates, values = matrix_market.read_counted(file, lines, tuple(shape), dtype, stored)
    return _tensor(tuple(shape), coordinates, values)


def write_tns(out: BinaryIO, tensor: AnyTensor) -> None:
    """Write the stored entries, one a line. Raises FinchError "dimension" for a tensor without dimensions
    or entries, whose sizes could not be read back, "type" for a fill that is not 0."""
    coordinates, values = _stored(tensor, ".tns")
    if not len(values):
        hint = "a .ttx file tells its sizes"
        message = "a .tns file cannot hold a tensor without entries: they alone tell its sizes"
        raise FinchError("dimension", message, hint=hint)
    numbers = values.astype(np.int8) if values.dtype == np.bool_ else values
    _write_lines(out, [*coordinates, numbers])


def write_ttx(out: BinaryIO, tensor: AnyTensor) -> None:
    """Write a header and the entries, of which there may be none. Raises FinchError as `write_tns`."""
    coordinates, values = _stored(tensor, ".ttx")
    assert not isinstance(tensor, Scalar)
    sizes = " ".join(map(str, (*tensor.shape, len(values))))
    out.write(f"{HEADER} {matrix_market.field_of(tensor)} general\n{sizes}\n".encode())
    _write_lines(out, [*coordinates, *([] if values.dtype == np.bool_ else [values])])


def _stored(tensor: Any, suffix: str) -> Entries:
    """Coordinates, from 1, and values of the stored entries; of a Bool tensor, of the true ones."""
    if tensor.order == 0:
        raise FinchError("dimension", f"a {suffix} file holds tensors of one dimension or more")
    matrix_market.check_fill(tensor, suffix)
    coordinates, values = tensor.entries()
    if values.dtype == np.bool_:
        coordinates, values = coordinates[:, values], values[values]
    return coordinates + 1, values


def _write_lines(out: BinaryIO, columns: list[np.ndarray]) -> None:
    """Numbers are written with the digits of Python's `str`, from which they are read back exactly."""
    step = 100_000
    for start in range(0, len(columns[0]), step):
        # not `tolist` for float32: it would print the digits of a float64
        texts = [map(str, column[start : start + step].tolist()) for column in columns[:-1]]
        last = columns[-1][start : start + step]
        texts.append(map(str, last if last.dtype == np.float32 else last.tolist()))
        lines = "\n".join(map(" ".join, zip(*texts, strict=True)))
        out.write(lines.encode() + b"\n")


def _tensor(shape: tuple[int, ...], coordinates: np.ndarray, values: np.ndarray) -> Tensor:
    """A SparseCOO of entries at coordinates from 1; repeated ones are summed."""
    format = SparseCOO(matrix_market.leaf_of(values.dtype), Int64, len(shape))
    return Tensor.from_coo(format, shape, list(coordinates - 1), values)
