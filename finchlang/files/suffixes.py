"""Reading and writing tensors in files, by the module of the suffix."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np

from finchlang.base import paths
from finchlang.base.errors import FinchError
from finchlang.files.binsparse import read_binsparse, write_binsparse
from finchlang.files.matrix_market import read_mtx, write_mtx
from finchlang.files.npy import read_npy, write_npy
from finchlang.files.tns_ttx import read_tns, read_ttx, write_tns, write_ttx
from finchlang.tensors.adopt import as_tensor


def _compressed(write: Callable[[Any, Any], None], out: Any, tensor: Any) -> None:
    with gzip.GzipFile("", "wb", fileobj=out, mtime=0) as inner:
        write(inner, tensor)


#: what readers raise for a damaged file
_DAMAGE = (ValueError, OverflowError, EOFError, TypeError, SyntaxError, TokenError, zlib.error)
_TEXTS = (".mtx", read_mtx, write_mtx), (".tns", read_tns, write_tns), (".ttx", read_ttx, write_ttx)
#: how files are read, and an open file (or a folder) is written, by suffix
FORMATS: dict[str, tuple[Callable[[Path], Any], Callable[[Any, Any], None]]] = {
    **{suffix: (read, write) for suffix, read, write in _TEXTS},
    **{f"{suffix}.gz": (read, partial(_compressed, write)) for suffix, read, write in _TEXTS},
    ".npy": (read_npy, write_npy),
}
for _end, _kind in (("h5", ".h5"), ("hdf5", ".h5"), ("npz", ".npz"), ("zarr", ".zarr")):
    FORMATS[f".bsp.{_end}"] = read_binsparse, partial(write_binsparse, suffix=_kind)


def fread(path: Any) -> Any:
    """The tensor in a file; relative paths start at the current folder. `.mtx` (Matrix Market): a
    coordinate matrix is Dense(SparseList(...)) with Element(0.0), Element(0) or Pattern() leaves by its
    field; symmetric and skew-symmetric ones are completed, and repeated entries summed. An array matrix is
    Dense(Dense(...)). `.tns` (FROSTT) and `.ttx` are SparseCOO of all modes, with repeated entries summed.
    `.npy`: a NumPy array. `.bsp.h5`, `.bsp.npz`, `.bsp.zarr` (Binsparse 0.1): the levels in the file.
    Text files may be compressed: `.mtx.gz`.
    Raises FinchError "I/O", with the path, for a file that is damaged or cannot be read, "type" for complex
    numbers, "resource" for a tensor larger than the memory."""
    file = paths.checked_path(path, FORMATS)
    try:
        with paths.told("read", path):
            if file.suffix == ".zarr":
                paths.check_folder(file)
            else:
                paths.check_regular(file.stat().st_mode)
                with open(file, "rb"):  # one message for all formats if it cannot be read
                    pass
            return _format(file)[0](file)
    except _DAMAGE as error:
        raise paths.failure("read", path, f"it is damaged: {error}") from None


def fwrite(path: Any, value: Any) -> None:
    """Write a tensor to a file, all of it or nothing: a failure leaves the file that was there before.
    `.mtx`, `.tns` and `.ttx` take tensors of fill 0 and write their stored entries, Bools as the field
    `pattern`; a tensor that is dense in both modes is an array in `.mtx`. `.npy` takes any tensor, as a
    dense array. `.bsp.h5`, `.bsp.npz` and the folder `.bsp.zarr` (Binsparse 0.1) take any tensor, level by
    level: levels that the standard does not have become dense or sparse levels with the same entries.
    Raises FinchError "I/O", with the path, if it cannot be written, "type" or "dimension" for a tensor that
    the format cannot hold."""
    file = paths.checked_path(path, FORMATS)
    tensor = as_tensor(value)
    if tensor is None:
        raise FinchError("type", "only tensors and arrays are written to files")
    # an array is in a .npy file as it is
    given = value if file.suffix == ".npy" and isinstance(value, np.ndarray) else tensor
    replace = paths.replace_folder if file.suffix == ".zarr" else paths.replace_file
    replace(file, path, lambda out: _format(file)[1](out, given))


def _format(file: Path) -> Any:
    return next(format for suffix, format in FORMATS.items() if file.name.endswith(suffix))
