"""The protocols of Python and NumPy that arrays implement: conversions, NumPy's functions and ufuncs,
DLPack, and methods as NumPy arrays have them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import finchlang.array as namespace
from finchlang.array.compute import compute, dense_array, todense
from finchlang.array.elementwise import ALIASES, map_elements
from finchlang.array.operands import as_expression, expression_of

#: NumPy's names of functions that have another name here
_NUMPY = {
    **ALIASES,
    **{"amax": "max", "amin": "min", "round_": "round", "concatenate": "concat"},
    **{"transpose": "permute_dims", "newaxis": "expand_dims", "unique": "unique_values"},
}
_REDUCTIONS = {
    **{"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"},
    **{"logical_or": "any", "logical_and": "all"},
}


def array(x: Any, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    """`__array__`: a dense copy. Raises TypeError as `dense_array`, ValueError if it must not be a copy."""
    if copy is False:
        raise ValueError("a dense array of this is a copy")
    found = dense_array(x)
    return found if dtype is None else found.astype(dtype)


def dlpack(x: Any, **keywords: Any) -> Any:
    return array(x).__dlpack__(**keywords)


def dlpack_device(x: Any) -> tuple[int, int]:
    return np.empty(0).__dlpack_device__()


def array_ufunc(x: Any, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
    """`__array_ufunc__`: the function of the ufunc's name, or a reduction by it; else NotImplemented."""
    out = keywords.pop("out", None)
    if any(expression_of(value) is None for value in inputs):
        return NotImplemented
    name = ufunc.__name__
    if method == "reduce" and name in _REDUCTIONS:
        keywords.setdefault("axis", 0)
        result = getattr(namespace, _REDUCTIONS[name])(*inputs, **_given(keywords))
    elif method == "__call__" and ufunc.signature is not None:  # of whole axes, as `matmul`
        if name not in namespace.__all__ or keywords.keys() - {"axis"}:
            return NotImplemented
        result = getattr(namespace, name)(*inputs, **keywords)
    elif method == "__call__" and not keywords.keys() - {"dtype"} and ufunc.nout == 1:
        result = map_elements(ufunc, *inputs)
        if keywords.get("dtype") is not None:
            result = namespace.astype(result, keywords["dtype"])
    else:
        return NotImplemented
    return result if out is None else compute(result, out=out)


def _given(keywords: dict[str, Any]) -> dict[str, Any]:
    """Keywords without those that NumPy passes with their defaults."""
    silent = {"initial": np._NoValue, "where": True}
    return {k: v for k, v in keywords.items() if not (k in silent and v is silent[k])}


def array_function(x: Any, function: Any, types: Any, args: Any, keywords: Any) -> Any:
    """`__array_function__`: the function of the same name, or NotImplemented."""
    name = _NUMPY.get(function.__name__, function.__name__)
    found = getattr(namespace, name, None) if name in namespace.__all__ else None
    if found is None or not callable(found):
        return NotImplemented
    out = keywords.pop("out", None) if isinstance(keywords, dict) else None
    result = found(*args, **_given(keywords))
    return result if out is None else compute(result, out=out)


def array_namespace(x: Any, *, api_version: str | None = None) -> Any:
    if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        raise ValueError(f"the array API of {api_version} is not supported, that of 2024.12 is")
    return namespace


def to_device(x: Any, device: str, /, *, stream: Any = None) -> Any:
    if device != "cpu":
        raise ValueError(f"there is no device {device!r}")
    return x


def _number(x: Any) -> Any:
    if math.prod(x.shape) != 1:
        raise TypeError(f"an array of shape {x.shape} is no number")
    return todense(x).reshape(())[()]


def to_bool(x: Any) -> bool:
    if math.prod(x.shape) != 1:
        raise ValueError(f"an array of shape {x.shape} is neither true nor false: any() or all()")
    return bool(_number(x))


def _conversion(kind: type) -> Callable[[Any], Any]:
    return lambda x: kind(_number(x))


to_int, to_float, to_complex = map(_conversion, (int, float, complex))


def to_index(x: Any) -> int:
    if as_expression(x).values.type.is_integer and x.shape == ():
        return int(_number(x))
    raise TypeError("only an integer without dimensions is an index")


def length(x: Any) -> int:
    if not x.shape:
        raise TypeError("an array without dimensions has no length")
    return x.shape[0]


def iterate(x: Any) -> Iterator[Any]:
    return (x[k] for k in range(length(x)))


def setitem(x: Any, key: Any, value: Any) -> None:
    raise TypeError("arrays are not changed in place: `where` makes others")


def reshaped(x: Any, *shape: Any, **keywords: Any) -> Any:
    """`x.reshape(2, 3)` or `x.reshape((2, 3))`."""
    return namespace.reshape(x, shape[0] if len(shape) == 1 else shape, **keywords)


def flattened(x: Any, order: str = "C") -> Any:
    return namespace.ravel(x, order)


def transposed(x: Any, *axes: Any) -> Any:
    if len(axes) == 1 and isinstance(axes[0], (tuple, list)):
        (axes,) = axes
    return namespace.permute_dims(x, axes or tuple(range(len(x.shape)))[::-1])
