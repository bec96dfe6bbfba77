"""Tensors in files: which module reads and writes what, by the suffix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import Any

from finchlang.base.errors import FinchError
from finchlang.files.binsparse import read_binsparse, write_binsparse
from finchlang.files.matrix_market import read_mtx, write_mtx
from finchlang.files.npy import read_npy, write_npy
from finchlang.files.paths import (
    check_folder,
    check_regular,
    checked_path,
    failure,
    replace_file,
    replace_folder,
    told,
)
from finchlang.files.tns_ttx import read_tns, read_ttx, write_tns, write_ttx
from finchlang.tensors.adopt import as_tensor


@dataclass(frozen=True)
class FileFormat:
    """How files of a suffix are read, and written from a tensor and the value it stands for."""

    read: Callable[[Path], Any]
    write: Callable[[Any, Any, Any], None]
    is_folder: bool = False


def _binsparse(suffix: str) -> FileFormat:
    return FileFormat(
        read_binsparse,
        lambda out, tensor, value: write_binsparse(out, tensor, suffix),
        is_folder=suffix == ".zarr",
    )


#: by suffix
FORMATS: dict[str, FileFormat] = {
    ".mtx": FileFormat(read_mtx, lambda out, tensor, value: write_mtx(out, tensor)),
    ".tns": FileFormat(read_tns, lambda out, tensor, value: write_tns(out, tensor)),
    ".ttx": FileFormat(read_ttx, lambda out, tensor, value: write_ttx(out, tensor)),
    ".npy": FileFormat(read_npy, write_npy),
    ".bsp.h5": _binsparse(".h5"),
    ".bsp.hdf5": _binsparse(".h5"),
    ".bsp.npz": _binsparse(".npz"),
    ".bsp.zarr": _binsparse(".zarr"),
}


def fread(path: Any) -> Any:
    """The tensor in a file; relative paths start at the current folder.

    `.mtx` (Matrix Market): a coordinate matrix is Dense(SparseList(...)) with Element(0.0),
    Element(0) or Pattern() leaves as its field says; symmetric and skew-symmetric ones are expanded,
    repeated entries summed. An array matrix is Dense(Dense(...)). `.tns` (FROSTT) and `.ttx` are
    SparseCOO of all modes, repeated entries summed. `.npy`: a NumPy array. `.bsp.h5`, `.bsp.npz`,
    `.bsp.zarr` (Binsparse 0.1): the levels the file names.
    Raises FinchError "I/O" that names the path; "type" for complex numbers; "resource".
    """
    file = checked_path(path, FORMATS)
    format = _format(file)
    try:
        with told("read", path):
            if format.is_folder:
                check_folder(file)
            else:
                check_regular(file.stat().st_mode)
                with open(file, "rb"):  # whatever keeps us from reading is said in the same words
                    pass
            return format.read(file)
    except (ValueError, OverflowError, EOFError, TypeError, SyntaxError, TokenError) as error:
        raise failure("read", path, f"it is damaged: {error}") from None


def fwrite(path: Any, value: Any) -> None:
    """Write a tensor to a file, all of it or nothing: a failure leaves what was there before.

    `.mtx`, `.tns` and `.ttx` take tensors of fill 0: what is stored is written, Bool tensors as the
    field `pattern`, a `.mtx` of tensors that are dense in both modes as an array. `.npy` takes any
    tensor, densely. `.bsp.h5`, `.bsp.npz` and the folder `.bsp.zarr` (Binsparse 0.1) take any tensor,
    level by level: levels the standard has no name for become the sparse or dense level that stores
    the same entries.
    Raises FinchError "I/O" that names the path, "type" or "dimension" for what a file cannot hold.
    """
    file = checked_path(path, FORMATS)
    tensor = as_tensor(value)
    if tensor is None:
        raise FinchError("type", "only tensors and arrays are written to files")
    format = _format(file)
    replace = replace_folder if format.is_folder else replace_file
    replace(file, path, lambda out: format.write(out, tensor, value))


def _format(file: Path) -> FileFormat:
    return next(format for suffix, format in FORMATS.items() if file.name.endswith(suffix))
