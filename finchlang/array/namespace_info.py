"""The inspection part of the array API standard: types, devices and capabilities of the namespace."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from finchlang.array.operands import as_expression
from finchlang.array.promotion import promoted, type_of

__all__ = ["can_cast", "finfo", "float32", "float64", "iinfo", "int16", "int32", "int64", "int8"]
__all__ += ["isdtype", "result_type", "uint16", "uint32", "uint64", "uint8"]

bool_ = np.dtype(np.bool_)
int8, int16, int32, int64 = (np.dtype(f"int{bits}") for bits in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64))
float32, float64 = np.dtype("float32"), np.dtype("float64")

_DTYPES = (bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float32, float64)


class Info:
    """The standard's inspection object. There are no complex and no half types; boolean indexing and shapes
    that depend on data are not announced."""

    def capabilities(self) -> dict[str, Any]:
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64}

    def default_device(self) -> str:
        return "cpu"

    def devices(self) -> list[str]:
        return ["cpu"]

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype]:
        return {"real floating": float64, "integral": int64, "indexing": int64}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, np.dtype]:
        return {d.name: d for d in _DTYPES if kind is None or isdtype(d, kind)}


def result_type(*arrays: Any) -> np.dtype:
    """The type that arrays, types and Python numbers promote to."""
    kinds: list[Any] = []
    for value in arrays:
        if type(value) in (bool, int, float):
            kinds.append(type(value))
        else:
            is_type = isinstance(value, (np.dtype, type))
            kinds.append(type_of(value) if is_type else as_expression(value).values.type)
    return promoted(*kinds).dtype


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether values of one type (or of an array's) can be cast to another by promotion."""
    return np.can_cast(type_of(getattr(from_, "dtype", from_)).dtype, type_of(to).dtype)


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind: a dtype, "integral" ..., or several. Raises ValueError for no kind."""
    return np.isdtype(np.dtype(dtype), kind)


def finfo(type: Any, /) -> Any:
    """NumPy's `finfo` of a float type, or of that of an array, with Python's floats."""
    known = np.finfo(getattr(type, "dtype", type))
    names = "eps", "max", "min", "resolution", "smallest_normal", "tiny"
    numbers = {name: float(getattr(known, name)) for name in names}
    return SimpleNamespace(dtype=known.dtype, bits=known.bits, **numbers)


def iinfo(type: Any, /) -> Any:
    """NumPy's `iinfo` of an integer type, or of that of an array."""
    return np.iinfo(getattr(type, "dtype", type))
