"""MKL's sparse matrix times vector by its bare handle: made and analysed once, and called by ctypes."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

_NO_TRANSPOSE, _GENERAL, _MANY_CALLS = 10, 20, 1_000_000


class _Description(ctypes.Structure):
    """`struct matrix_descr`."""

    _fields_ = (("type", ctypes.c_int), ("mode", ctypes.c_int), ("diagonal", ctypes.c_int))


@cache
def _library() -> ctypes.CDLL | None:
    """The wheel of MKL has its library where the loader does not look, under a numbered name."""
    found = sorted((Path(sys.prefix) / "lib").glob("libmkl_rt.so*"))
    if not found:
        return None
    library = ctypes.CDLL(str(found[0]))
    library.MKL_Set_Num_Threads(1)
    return library


def product(A: Any, x: np.ndarray) -> Callable[[], int] | None:
    """A x for a CSC or CSR matrix of float64 and int32, in the layout it has, ready to go; None
    without MKL. The handle is told of many calls and optimised for them before the first."""
    library = _library()
    if library is None:
        return None
    y, handle = np.full(A.shape[0], np.nan), ctypes.c_void_p()
    ptr = A.indptr.ctypes.data
    arrays = (ptr, ptr + A.indptr.itemsize, A.indices.ctypes.data, A.data.ctypes.data)
    make = library[f"mkl_sparse_d_create_{A.format}"]
    sizes = (ctypes.c_int(n) for n in A.shape)
    _check(make(ctypes.byref(handle), 0, *sizes, *map(ctypes.c_void_p, arrays)))
    general = _Description(_GENERAL, 0, 0)
    _check(library.mkl_sparse_set_mv_hint(handle, _NO_TRANSPOSE, general, _MANY_CALLS))
    _check(library.mkl_sparse_optimize(handle))
    multiply = library.mkl_sparse_d_mv
    one, zero = ctypes.c_double(1.0), ctypes.c_double(0.0)
    vectors = (ctypes.c_void_p(v.ctypes.data) for v in (x, y))
    x_at, y_at = vectors

    def call(kept: Any = (A, x, y)) -> int:
        return multiply(_NO_TRANSPOSE, one, handle, general, x_at, zero, y_at)

    _check(call())
    assert np.allclose(y, A @ x)
    return call


def _check(status: int) -> None:
    assert status == 0, f"MKL's status is {status}"
