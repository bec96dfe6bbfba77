"""Matrix Market files (`.mtx`): matrices as lists of coordinates or as dense arrays; and the header and
lines of numbers, which other text formats share."""

from __future__ import annotations

import gzip
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import numpy as np

from finchlang.base.errors import FinchError, clipped
from finchlang.base.paths import check_memory
from finchlang.levels.dense import Dense
from finchlang.levels.element import Element, typed_literal
from finchlang.levels.level import Level, level_of
from finchlang.levels.pattern import Pattern
from finchlang.levels.sparse_list import SparseList
from finchlang.syntax.types import type_of_dtype
from finchlang.tensors.array_base import MAX_DIMENSION
from finchlang.tensors.entries import Entries, mirrored
from finchlang.tensors.tensor import AnyTensor, Scalar, SwizzledTensor, Tensor

#: the types of values by the field of a header
FIELDS: dict[str, type] = {"real": np.float64, "double": np.float64, "pattern": np.bool_}
FIELDS |= {"integer": np.int64, "unsigned-integer": np.uint64}
#: by symmetry, the highest diagonal (counted downwards) that an array file stores; None for all entries.
#: A coordinate file may list any entries
SYMMETRIES = {"general": None, "symmetric": 0, "hermitian": 0, "skew-symmetric": 1}


def read_mtx(file: Path) -> Tensor:
    """A matrix: Dense(SparseList(...)) of a coordinate file, Dense(Dense(...)) of an array file. Symmetric
    and skew-symmetric matrices are completed. Each line must hold exactly one entry. Raises FinchError
    "type" for complex numbers, "resource" for more than the memory holds, ValueError for a damaged file."""
    with opened(file) as lines:
        layout, field, symmetry = read_header(lines, file, ("matrix",))
        sizes = read_sizes(lines)
        if layout not in ("coordinate", "array") or symmetry not in SYMMETRIES:
            raise ValueError(f"its layout `{layout} {symmetry}` is not known")
        if len(sizes) != (3 if layout == "coordinate" else 2):
            raise ValueError("it does not tell its sizes and its number of entries")
        rows, columns = sizes[:2]
        if symmetry != "general" and rows != columns:
            raise ValueError(f"a {symmetry} matrix is square, not {rows} x {columns}")
        dtype = np.dtype(FIELDS[field])
        if layout == "array":
            return Tensor.from_numpy(_array(file, lines, (rows, columns), dtype, symmetry))
        if max(rows, columns) > MAX_DIMENSION:
            raise ValueError(f"{rows} x {columns} is no size of a matrix")
        check_memory(f"what {file} holds", columns * 8 * 4)
        coordinates, values = read_counted(file, lines, (rows, columns), dtype, sizes[2])
    if symmetry != "general":
        coordinates, values = mirrored(coordinates, values, symmetry == "skew-symmetric")
    format = Dense(SparseList(leaf_of(values.dtype)))
    return Tensor.from_coo(format, (rows, columns), [row - 1 for row in coordinates], values)


def _array(
    file: Path, lines: TextIO, shape: tuple[int, int], dtype: np.dtype, symmetry: str
) -> np.ndarray:
    """The matrix of a column-major array file, of a symmetric one given on and below a diagonal."""
    if dtype == np.bool_:
        raise ValueError("a pattern is a list of coordinates, and no array")
    first, size = SYMMETRIES[symmetry], shape[0]
    count = shape[0] * shape[1] if first is None else size * (size + 1 - 2 * first) // 2
    values = read_counted(file, lines, (), dtype, count)[1]
    if first is None:
        return values.reshape(shape, order="F")
    array = np.zeros(shape, dtype, order="F")
    below = np.array(np.triu_indices(size, first))[::-1]
    coordinates, values = mirrored(below, values, symmetry == "skew-symmetric")
    array[tuple(coordinates)] = values
    return array


# ------------------------------------------------------------------------- headers and lines of text


def opened(file: Path) -> TextIO:
    """A file of text, which may begin with a byte order mark, or be compressed."""
    open_text: Any = gzip.open if file.suffix == ".gz" else open
    return open_text(file, "rt", encoding="utf-8-sig", errors="replace")


def read_header(lines: TextIO, file: Path, objects: tuple[str, ...]) -> tuple[str, str, str]:
    """Layout, field and symmetry of the first line, which may leave out `real general`. Raises FinchError
    "type" for complex numbers, ValueError for another header."""
    words = lines.readline().lower().split()
    words += ["real", "general"][len(words) - 3 :]
    if len(words) != 5 or words[0] != "%%matrixmarket" or words[1] not in objects:
        expected = f"%%MatrixMarket {objects[0]} coordinate real general"
        raise ValueError(f"it does not begin with `{expected}` or the like")
    layout, field, symmetry = words[2:]
    if field == "complex":
        raise FinchError("type", f"{file} holds complex numbers, which are no element type")
    if field not in FIELDS:
        raise ValueError(f"its field `{field}` is not known")
    return layout, field, symmetry


def read_sizes(lines: TextIO) -> list[int]:
    """The integers of the first line that is no comment. Raises ValueError if there are none."""
    words = next(content(lines, "%"), [])
    if not words or not all([word.isdecimal() for word in words]):
        raise ValueError("it does not tell its sizes and its number of entries")
    return list(map(int, words))


def content(lines: TextIO, comment: str) -> Iterator[list[str]]:
    """The words of each line besides comments; by `readline`, as iteration over lines prevents `seek`."""
    while line := lines.readline():
        words = line.partition(comment)[0].split()
        if words:
            yield words


def read_counted(
    file: Path, lines: TextIO, shape: tuple[int, ...], dtype: np.dtype, count: int
) -> Entries:
    """As `read_entries`; raises ValueError unless there are `count` entries with coordinates in `shape`."""
    # a number takes at least two bytes, or by gzip a thousandth of that; checked before memory is allocated
    most = file.stat().st_size * (1100 if file.suffix == ".gz" else 1)
    if 2 * count * (len(shape) + (dtype != np.bool_)) > most + 1:
        raise ValueError("it is cut short")
    coordinates, values = read_entries(lines, len(shape), dtype, "%")
    if len(values) != count:
        raise ValueError(f"it has {len(values)} entries instead of {count}")
    if count and np.any(coordinates.max(axis=1) > shape):
        raise ValueError("a coordinate is greater than the size")
    return coordinates, values


def read_entries(lines: TextIO, order: int, dtype: np.dtype, comment: str) -> Entries:
    """The coordinates of all entries, from 1 (a row for each mode), and their values; lines of Bools have
    coordinates alone. Raises ValueError unless each line has exactly these numbers."""
    fields: list[Any] = [("at", np.int64, (order,))] if order else []
    if dtype != np.bool_:
        fields.append(("value", dtype))
    start = lines.tell()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*input contained no data")
            warnings.simplefilter("error", DeprecationWarning)  # of a fraction as an integer
            table = np.loadtxt(lines, np.dtype(fields), comments=comment, ndmin=1)
    except ValueError:
        lines.seek(start)
        raise ValueError(_wrong_line(lines, order, dtype, comment)) from None
    coordinates = table["at"].T if order else np.empty((0, len(table)), np.int64)
    if coordinates.size and coordinates.min() < 1:
        raise ValueError("coordinates count from 1")
    return coordinates, np.ones(len(table), bool) if dtype == np.bool_ else table["value"]


def _wrong_line(lines: TextIO, order: int, dtype: np.dtype, comment: str) -> str:
    """What is wrong with the first line that `read_entries` cannot read."""
    types = [np.dtype(np.int64)] * order + [dtype] * (dtype != np.bool_)
    for words in content(lines, comment):
        try:
            for word, type in zip(words, types, strict=True):
                np.array(word).astype(type)
        except (ValueError, OverflowError):
            break
    wanted = ", ".join(str(type_of_dtype(type)) for type in types)
    return f"`{clipped(' '.join(words))}` stands where {wanted} is expected"


def leaf_of(dtype: np.dtype) -> Level:
    """The leaf for values of a file: Pattern for Bools, else an Element of fill 0."""
    return Pattern() if dtype == np.bool_ else Element(typed_literal(0, type_of_dtype(dtype)))


# ----------------------------------------------------------------------------------------- writing


def write_mtx(out: BinaryIO, tensor: AnyTensor) -> None:
    """Raises FinchError "dimension" for what is no matrix, "type" for a fill that is not 0."""
    import scipy.io
    import scipy.sparse

    if isinstance(tensor, Scalar) or tensor.order != 2:
        hint = ".ttx, .npy and .bsp.h5 files hold tensors of any number of dimensions"
        raise FinchError("dimension", "a .mtx file holds a matrix", hint=hint)
    check_fill(tensor, ".mtx")
    field, (rows, columns) = field_of(tensor), tensor.shape
    layout, count, is_bool = "array", "", field == "pattern"
    matrix: Any
    if level_of(tensor.format).is_all_dense and not is_bool:
        matrix = tensor.to_numpy()
    else:
        layout, count = "coordinate", " 0"
        coordinates, values = tensor.entries()
        if is_bool:
            coordinates, values = coordinates[:, values], values[values].astype(np.int8)
        matrix = scipy.sparse.coo_array((values, tuple(coordinates)), tensor.shape)
    if not matrix.size:  # SciPy would write the field `real`, whatever the type
        text = f"%%MatrixMarket matrix {layout} {field} general\n{rows} {columns}{count}\n"
        out.write(text.encode())
        return
    # from 17 digits each float64 is read back exactly
    scipy.io.mmwrite(out, matrix, field=field, precision=17, symmetry="general")


def check_fill(tensor: Tensor | SwizzledTensor, suffix: str) -> None:
    """Raises FinchError "type" for a fill that is not 0, which text files cannot hold."""
    if tensor.fill != 0:
        hint = "a .bsp.h5 file holds any fill"
        raise FinchError("type", f"a {suffix} file holds a fill of 0, not {tensor.fill}", hint=hint)


def field_of(tensor: Tensor | SwizzledTensor) -> str:
    kind = tensor.dtype.kind
    if tensor.dtype == np.uint64:
        return "unsigned-integer"
    return {"b": "pattern", "f": "real"}.get(kind, "integer")
