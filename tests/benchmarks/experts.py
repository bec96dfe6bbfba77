"""The C functions of `expert/`, compiled when they are first asked for, and called by ctypes."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

SOURCES = Path(__file__).parent / "expert"
COMMAND = ("-O3", "-ffast-math", "-march=native", "-shared", "-fPIC")


@cache
def _library(name: str) -> ctypes.CDLL | None:
    """The functions of expert/NAME.c; None if there is no C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    folder = tempfile.mkdtemp(prefix="finch-experts-")
    try:
        target = Path(folder) / f"{name}.so"
        source = str(SOURCES / f"{name}.c")
        subprocess.run([compiler, *COMMAND, source, "-o", str(target), "-lm"], check=True)
        return ctypes.CDLL(str(target))
    finally:
        shutil.rmtree(folder)


def expert(library: str, name: str, *arguments: Any) -> Callable[[], int] | None:
    """A call, ready to go, of the function `name` of expert/LIBRARY.c; None without a C compiler.

    An array is passed as a pointer, an integer as int64_t, a float as double. What is passed is
    kept alive; the function returns int64_t or nothing.
    """
    loaded = _library(library)
    if loaded is None:
        return None
    function = loaded[name]
    function.restype = ctypes.c_int64
    given = [_argument(argument) for argument in arguments]

    def call(function: Any = function, given: Any = tuple(given), kept: Any = arguments) -> int:
        return function(*given)

    return call


def _argument(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    if isinstance(value, float):
        return ctypes.c_double(value)
    return ctypes.c_int64(int(value))
