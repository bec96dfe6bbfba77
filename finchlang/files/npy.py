"""NumPy's own files (`.npy`): any tensor, stored densely."""

from __future__ import annotations

import math
from pathlib import Path
from typing import BinaryIO

import numpy as np

from finchlang.base.errors import FinchError
from finchlang.syntax.types import type_of_dtype
from finchlang.tensors.tensor import AnyTensor


def read_npy(file: Path) -> np.ndarray:
    """An array in native byte order. Raises FinchError "type" if no element type, ValueError if cut."""
    # the header's sizes are checked against the file's length before `np.load` allocates memory
    with open(file, "rb") as text:
        version = np.lib.format.read_magic(text)
        first, second = np.lib.format.read_array_header_1_0, np.lib.format.read_array_header_2_0
        read = first if version == (1, 0) else second
        shape, _, dtype = read(text)
        if dtype.kind == "c" or dtype.hasobject or type_of_dtype(dtype) is None:
            raise FinchError("type", f"{file} holds {dtype}, which is no element type")
        if file.stat().st_size - text.tell() < math.prod(shape) * dtype.itemsize:
            raise ValueError("it is cut short")
    return np.load(file, allow_pickle=False).astype(dtype.newbyteorder("="), copy=False)


def write_npy(out: BinaryIO, given: AnyTensor | np.ndarray) -> None:
    """Write an array, or a tensor as a dense one."""
    array = given if isinstance(given, np.ndarray) else given.to_numpy()
    np.save(out, array, allow_pickle=False)
