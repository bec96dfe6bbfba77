"""Matrix Market files (`.mtx`): matrices as lists of coordinates, or as dense arrays."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from finchlang.script.paths import check_memory
from finchlang.source import FinchError
from finchlang.tensors.dense import Dense
from finchlang.tensors.element import Element, typed_literal
from finchlang.tensors.level import Level
from finchlang.tensors.pattern import Pattern
from finchlang.tensors.sparse_list import SparseList
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor
from finchlang.types import Bool, type_of_dtype


def read_mtx(file: Path) -> Tensor:
    """A matrix: Dense(SparseList(...)) of a coordinate file, Dense(Dense(...)) of an array file.

    Raises FinchError "type" for complex numbers, "resource", ValueError for a damaged file.
    """
    import scipy.io
    import scipy.sparse

    rows, columns, entries, layout, field, symmetry = scipy.io.mminfo(file)
    if field == "complex":
        raise FinchError("type", f"{file} holds complex numbers, which are no element type")
    if symmetry != "general" and rows != columns:
        raise ValueError(f"a {symmetry} matrix is square, not {rows} x {columns}")
    # numbers take two bytes at least; this is seen before memory is asked for
    numbers = 2 * entries if layout == "coordinate" else rows * columns // 2
    if 2 * numbers > file.stat().st_size + 1:
        raise ValueError("it is cut short")
    check_memory(file, columns * 8 * 4 if layout == "coordinate" else 0)
    matrix = scipy.io.mmread(_safe(file), spmatrix=False)
    if not scipy.sparse.issparse(matrix):
        return Tensor.from_numpy(np.asfortranarray(matrix))
    leaf: Level = (
        Pattern() if field == "pattern" else Element(typed_literal(0, type_of_dtype(matrix.dtype)))
    )
    matrix.sum_duplicates()
    values = matrix.data.astype(bool) if field == "pattern" else matrix.data
    coordinates = [np.asarray(c, np.int64) for c in matrix.coords]
    return Tensor.from_coo(Dense(SparseList(leaf)), matrix.shape, coordinates, values)


def _safe(file: Path) -> Path | BytesIO:
    """What SciPy may read. Its reader takes the process down where a number is followed by something
    else in a line that has no end: the last one, or one with a NUL (scipy issue 19949)."""
    last = b""
    with open(file, "rb") as content:
        while block := content.read(1 << 20):
            if b"\0" in block:
                raise ValueError("there is a NUL in it")
            last = block
    return file if last.endswith(b"\n") else BytesIO(file.read_bytes() + b"\n")


def mtx_matrix(tensor: Tensor | SwizzledTensor | Scalar) -> tuple[Any, str]:
    """A tensor as what SciPy writes, and the field of the file.

    Raises FinchError "dimension" for what is no matrix, "type" for a fill that is not 0.
    """
    if isinstance(tensor, Scalar) or tensor.order != 2:
        hint = ".ttx, .npy and .bsp.h5 files hold tensors of any number of dimensions"
        raise FinchError("dimension", "a .mtx file holds a matrix", hint=hint)
    check_fill(tensor, ".mtx")
    body = tensor.body if isinstance(tensor, SwizzledTensor) else tensor
    element = body.format.element_type
    is_dense = all(isinstance(level, Dense) for level in list(body.format.levels())[:-1])
    if is_dense and element != Bool:
        return tensor.to_numpy(), field_of(tensor)
    import scipy.sparse

    coordinates, values = tensor.entries()
    if element == Bool:
        coordinates, values = coordinates[:, values], values[values].astype(np.int8)
    return scipy.sparse.coo_array((values, tuple(coordinates)), tensor.shape), field_of(tensor)


def write_mtx(out: BinaryIO, tensor: Tensor | SwizzledTensor | Scalar) -> None:
    import scipy.io

    matrix, field = mtx_matrix(tensor)
    scipy.io.mmwrite(out, matrix, field=field, precision=17, symmetry="general")


def check_fill(tensor: Tensor | SwizzledTensor, suffix: str) -> None:
    """What text files leave out is 0. Raises FinchError "type" for another fill."""
    if tensor.fill != 0:
        hint = "a .bsp.h5 file holds any fill"
        raise FinchError("type", f"a {suffix} file holds a fill of 0, not {tensor.fill}", hint=hint)


def field_of(tensor: Tensor | SwizzledTensor) -> str:
    """What Matrix Market calls the element type."""
    kind = tensor.dtype.kind
    if tensor.dtype == np.uint64:
        return "unsigned-integer"
    return {"b": "pattern", "f": "real"}.get(kind, "integer")
