"""Tensors in files: Matrix Market (`.mtx`) and NumPy (`.npy`)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from finchlang.source import FinchError
from finchlang.tensors.dense import Dense
from finchlang.tensors.element import Element, typed_literal
from finchlang.tensors.level import Level
from finchlang.tensors.pattern import Pattern
from finchlang.tensors.sparse_list import SparseList
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor, as_tensor
from finchlang.types import Bool, type_of_dtype

SUFFIXES = (".mtx", ".npy")


def fread(path: Any) -> Any:
    """The tensor in a file; relative paths start at the current folder.

    `.mtx`: a coordinate matrix is Dense(SparseList(...)) with Element(0.0), Element(0) or Pattern()
    leaves as its field says; symmetric and skew-symmetric ones are expanded, repeated entries
    summed. An array matrix is Dense(Dense(...)). `.npy`: a NumPy array.
    Raises FinchError "I/O" that names the path; "type" for complex numbers.
    """
    file = _checked_path(path)
    try:
        size = file.stat().st_size
        if file.is_dir():
            raise IsADirectoryError(21, "it is a directory")
        return _read_npy(file) if file.suffix == ".npy" else _read_mtx(file, size)
    except FinchError:
        raise
    except OSError as error:
        raise _failure("read", path, error.strerror or str(error)) from None
    except MemoryError:
        raise FinchError("resource", f"no memory to read {path}") from None
    except (ValueError, OverflowError, EOFError, TypeError, SyntaxError) as error:
        raise _failure("read", path, f"it is damaged: {error}") from None


def fwrite(path: Any, value: Any) -> None:
    """Write a tensor to a file, all of it or nothing: a failure leaves what was there before.

    `.mtx` takes matrices of fill 0: what is stored is written, Bool matrices as the field
    `pattern`, tensors that are dense in both modes as arrays. `.npy` takes any tensor, densely.
    Raises FinchError "I/O" that names the path, "type" or "dimension" for what a file cannot hold.
    """
    file = _checked_path(path)
    tensor = as_tensor(value)
    if tensor is None:
        raise FinchError("type", "only tensors and arrays are written to files")
    if file.suffix == ".npy":
        array = value if isinstance(value, np.ndarray) else tensor.to_numpy()
        _replace_file(file, path, lambda out: np.save(out, array, allow_pickle=False))
    else:
        matrix, field = _matrix(tensor)
        import scipy.io

        def write(out: BinaryIO) -> None:
            scipy.io.mmwrite(out, matrix, field=field, precision=17, symmetry="general")

        _replace_file(file, path, write)


# ---------------------------------------------------------------------------------------- helpers


def _checked_path(path: Any) -> Path:
    if not isinstance(path, str):
        raise FinchError("type", "the path of a file is a string")
    if "\0" in path:
        raise FinchError("I/O", f"{path!r} is no path: it has a NUL in it")
    file = Path(path)
    if file.suffix not in SUFFIXES:
        hint = f"the suffix tells the format: {' or '.join(SUFFIXES)}"
        raise FinchError("I/O", f"{path} has a suffix that is not known", hint=hint)
    return file


def _failure(what: str, path: str, why: str) -> FinchError:
    return FinchError("I/O", f"cannot {what} {path}: {why}")


def _replace_file(file: Path, path: str, write: Callable[[BinaryIO], None]) -> None:
    """Write a new file next to `file` and put it in its place once it is complete."""
    new = file.with_name(f".{file.name}.{os.getpid()}.new")
    try:
        if file.is_dir():
            raise IsADirectoryError(21, "it is a directory")
        try:
            with open(new, "xb") as out:
                write(out)
            os.replace(new, file)
        finally:
            new.unlink(missing_ok=True)
    except OSError as error:
        raise _failure("write", path, error.strerror or str(error)) from None
    except MemoryError:
        raise FinchError("resource", f"no memory to write {path}") from None


# ------------------------------------------------------------------------------------------- .npy


def _read_npy(file: Path) -> np.ndarray:
    with open(file, "rb") as text:
        version = np.lib.format.read_magic(text)
        read = {(1, 0): np.lib.format.read_array_header_1_0}.get(
            version, np.lib.format.read_array_header_2_0
        )
        shape, _, dtype = read(text)
        bytes_needed = dtype.itemsize
        for size in shape:
            bytes_needed *= size
        if dtype.kind == "c" or dtype.hasobject or type_of_dtype(dtype.newbyteorder("=")) is None:
            raise FinchError("type", f"{file} holds {dtype}, which is no element type")
        if file.stat().st_size - text.tell() < bytes_needed:
            raise ValueError("it is cut short")
    array = np.load(file, allow_pickle=False)
    return array.astype(dtype.newbyteorder("="), copy=False)


# ------------------------------------------------------------------------------------------- .mtx


def _read_mtx(file: Path, size: int) -> Tensor:
    import scipy.io
    import scipy.sparse

    rows, columns, entries, layout, field, symmetry = scipy.io.mminfo(file)
    if field == "complex":
        raise FinchError("type", f"{file} holds complex numbers, which are no element type")
    if symmetry != "general" and rows != columns:
        raise ValueError(f"a {symmetry} matrix is square, not {rows} x {columns}")
    # numbers take two bytes at least; this is seen before memory is asked for
    numbers = 2 * entries if layout == "coordinate" else rows * columns // 2
    if 2 * numbers > size + 1:
        raise ValueError("it is cut short")
    _check_memory(file, columns if layout == "coordinate" else 0)
    matrix = scipy.io.mmread(file, spmatrix=False)
    if not scipy.sparse.issparse(matrix):
        return Tensor.from_numpy(np.asfortranarray(matrix))
    leaf: Level = (
        Pattern() if field == "pattern" else Element(typed_literal(0, type_of_dtype(matrix.dtype)))
    )
    matrix.sum_duplicates()
    values = matrix.data.astype(bool) if field == "pattern" else matrix.data
    coordinates = [np.asarray(c, np.int64) for c in matrix.coords]
    return Tensor.from_coo(Dense(SparseList(leaf)), matrix.shape, coordinates, values)


def _check_memory(file: Path, columns: int) -> None:
    """A column takes room even if it is empty: do not ask for more than the machine has."""
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if columns * 8 * 4 > available:
        raise FinchError("resource", f"no memory for the {columns} columns of {file}")


def _matrix(tensor: Tensor | SwizzledTensor | Scalar) -> tuple[Any, str]:
    """A tensor as what SciPy writes, and the field of the file."""
    if isinstance(tensor, Scalar) or tensor.order != 2:
        hint = "a .npy file holds tensors of any number of dimensions"
        raise FinchError("dimension", "a .mtx file holds a matrix", hint=hint)
    if tensor.fill != 0:
        raise FinchError("type", f"a .mtx file holds a fill of 0, not {tensor.fill}")
    body = tensor.body if isinstance(tensor, SwizzledTensor) else tensor
    element = body.format.element_type
    is_dense = all(isinstance(level, Dense) for level in list(body.format.levels())[:-1])
    if is_dense and element != Bool:
        return tensor.to_numpy(), "real" if element.is_float else _integer_field(tensor)
    import scipy.sparse

    coordinates, values = tensor.entries()
    if element == Bool:
        coordinates, values = coordinates[:, values], values[values]
        field, values = "pattern", values.astype(np.int8)
    else:
        field = "real" if element.is_float else _integer_field(tensor)
    return scipy.sparse.coo_array((values, tuple(coordinates)), tensor.shape), field


def _integer_field(tensor: Any) -> str:
    return "unsigned-integer" if tensor.dtype == np.uint64 else "integer"
