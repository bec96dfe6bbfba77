"""The peers: each is None where it is not installed, and computes with one thread where it is."""

from __future__ import annotations

from types import ModuleType
from typing import Any


def _graphblas() -> ModuleType | None:
    try:
        import graphblas  # type: ignore[import-untyped]
    except ImportError:
        return None
    graphblas.init("suitesparse", blocking=True)
    graphblas.ss.config["nthreads"] = 1
    return graphblas


def _opencv() -> ModuleType | None:
    try:
        import cv2
    except ImportError:
        return None
    cv2.setNumThreads(1)
    return cv2


def _pydata_sparse() -> ModuleType | None:
    try:
        import sparse  # type: ignore[import-untyped]
    except ImportError:
        return None
    return sparse


def _finch_tensor() -> ModuleType | None:
    """Compiled by Numba; the interpreter is the default."""
    try:
        import finch  # type: ignore[import-untyped]
    except ImportError:
        return None
    finch.set_default_scheduler(ctx=finch.COMPILE_NUMBA)
    return finch


def _duckdb() -> ModuleType | None:
    try:
        import duckdb  # type: ignore[import-untyped]
    except ImportError:
        return None
    duckdb.sql("SET threads = 1")
    return duckdb


def _numba() -> ModuleType | None:
    try:
        import numba  # type: ignore[import-untyped]
    except ImportError:
        return None
    return numba


graphblas: Any = _graphblas()
opencv: Any = _opencv()
pydata_sparse: Any = _pydata_sparse()
finch_tensor: Any = _finch_tensor()
duckdb: Any = _duckdb()
numba: Any = _numba()
