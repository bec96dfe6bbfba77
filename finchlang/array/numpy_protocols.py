"""The protocols of Python, NumPy and SciPy that tensors and arrays implement: conversions, functions and
ufuncs of NumPy, linear operators, DLPack, and methods as other libraries have them."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

import finchlang.array as namespace
from finchlang.array.compute import bytes_of, compute, dense_array, todense
from finchlang.array.elementwise import ALIASES, map_elements
from finchlang.array.expression import Array, Leaf, Refilled
from finchlang.array.indexing import getitem  # noqa: F401
from finchlang.array.linalg import dense_operands
from finchlang.array.operands import as_expression, expression_of
from finchlang.tensors.adopt import as_tensor
from finchlang.tensors.array_base import ArrayMethods
from finchlang.tensors.storage_report import measure
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor, coo_array

#: reductions and scans by ufuncs
_REDUCTIONS = {
    **{"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"},
    **{"logical_or": "any", "logical_and": "all"},
}
_SCANS = {"add": "cumsum", "multiply": "cumprod"}
#: where NumPy has its functions, and where ours of the same names are
_ROOMS = {
    **{"numpy": namespace, "numpy.linalg": namespace.linalg, "numpy.fft": namespace.fft},
}


def array(x: Any, dtype: Any = None, copy: bool | None = None) -> Any:
    """`__array__`: a dense copy. Raises TypeError as `dense_array`, ValueError if it must not be a copy."""
    if copy is False:
        raise ValueError("a dense array of this is a copy")
    if _is_operand_of_scipy():
        none = np.empty((), object)
        none[()] = x
        return none
    found = dense_array(x)
    return found if dtype is None else found.astype(dtype)


def _is_operand_of_scipy() -> bool:
    """Whether `S @ x` or `S * x` of a SciPy array asks. It calls the operator of `x` if that is no array to
    NumPy, and has no other way to tell; of a dense array it would make a dense product."""
    frame = sys._getframe(2).f_back
    while frame is not None and frame.f_globals.get("__name__", "").startswith("scipy.sparse._"):
        if frame.f_code.co_name in ("__matmul__", "__mul__"):
            return frame.f_globals["__name__"] == "scipy.sparse._base"
        frame = frame.f_back
    return False


def dlpack(x: Any, **keywords: Any) -> Any:
    return dense_array(x).__dlpack__(**keywords)


def dlpack_device(x: Any) -> tuple[int, int]:
    return np.empty(0).__dlpack_device__()


def array_ufunc(x: Any, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
    """`__array_ufunc__`: the function of the ufunc's name, a reduction, scan or outer product by it, or
    what NumPy makes of dense arrays; NotImplemented for operands that are no arrays here."""
    out = keywords.pop("out", None)
    arrays = inputs[:1] if method in ("reduce", "accumulate", "reduceat") else inputs
    if any(expression_of(value) is None for value in arrays):
        return NotImplemented
    result = _of_ufunc(ufunc, method, inputs, keywords)
    if result is NotImplemented:
        keywords |= {"out": out} if out else {}
        return _by_numpy(ufunc.__name__, getattr(ufunc, method), inputs, keywords)
    return result if out is None else compute(result, out=out)


def _of_ufunc(ufunc: np.ufunc, method: str, inputs: Any, keywords: dict[str, Any]) -> Any:
    """An array of ours for a call of a ufunc; NotImplemented if there is none."""
    name, given = ufunc.__name__, _given(keywords)
    if method in ("reduce", "accumulate"):
        found = (_REDUCTIONS if method == "reduce" else _SCANS).get(name)
        function = getattr(namespace, found or "", None)
        return _called(function, inputs, {"axis": 0, **given})
    if method == "outer" and len(inputs) == 2:
        x, y = map(as_expression, inputs)
        places = tuple(range(len(x.shape), len(x.shape) + len(y.shape)))
        inputs = namespace.expand_dims(Array(x), axis=places) if places else inputs[0], inputs[1]
    elif method != "__call__":
        return NotImplemented
    if ufunc.signature is not None:  # of whole axes, as `matmul`
        function = getattr(namespace, name) if name in namespace.__all__ else None
        return _called(function, inputs, given)
    if given.keys() - {"dtype"} or ufunc.nout > 1 or not _has(ufunc):
        return NotImplemented
    result = map_elements(ufunc, *inputs)
    return namespace.astype(result, given["dtype"]) if "dtype" in given else result


def _has(ufunc: np.ufunc) -> bool:
    name = ufunc.__name__
    return ALIASES.get(name, name) in namespace.__all__ or namespace.elementwise.is_operator(name)


def _given(keywords: dict[str, Any]) -> dict[str, Any]:
    """Keywords without those that have NumPy's defaults."""
    none = {"initial": np._NoValue, "where": True, "dtype": None, "optimize": None, "casting": None}
    none |= {"keepdims": np._NoValue}
    return {k: v for k, v in keywords.items() if not (k in none and v is none[k])}


@cache
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


def _called(function: Callable[..., Any] | None, args: Any, keywords: dict[str, Any]) -> Any:
    """What our function gives; NotImplemented if there is none that takes these arguments."""
    if function is None:
        return NotImplemented
    try:
        _signature(function).bind(*args, **keywords)
    except TypeError:
        return NotImplemented
    return function(*args, **keywords)


def _by_numpy(name: str, function: Callable[..., Any], args: Any, keywords: dict[str, Any]) -> Any:
    """What NumPy makes of dense arrays. Raises TypeError if one is much larger than its operand."""
    named = {k: dense_operands(name, value) for k, value in keywords.items()}
    return function(*dense_operands(name, tuple(args)), **named)


def array_function(x: Any, function: Any, types: Any, args: Any, keywords: Any) -> Any:
    """`__array_function__`: the function of the same name here, an attribute, or what NumPy makes of dense
    arrays. NotImplemented where an argument is of another library."""
    if not all([issubclass(t, (np.ndarray, ArrayMethods)) for t in types]):
        return NotImplemented
    name = function.__name__
    if name in ("shape", "ndim", "size") and len(args) == 1:
        return getattr(args[0], name)
    if name in ("iscomplexobj", "isrealobj"):
        return name == "isrealobj"
    given = _given(keywords)
    out = given.pop("out", None)
    if name == "einsum" and isinstance(args[0], str):
        dtype = [given.pop(k, None) for k in ("optimize", "casting", "order", "dtype")][-1]
        args = args if dtype is None else (args[0], *[namespace.astype(x, dtype) for x in args[1:]])
    room, name = _ROOMS.get(function.__module__), ALIASES.get(name, name)
    ours = getattr(room, name) if room is not None and name in room.__all__ else None
    result = _called(ours if callable(ours) else None, args, given)
    if result is NotImplemented:
        return _by_numpy(name, function, args, keywords)
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


# ------------------------------------------------------------------------------------------- SciPy


def _tensor(x: Any) -> Any:
    """An operand as a tensor over its own memory, or what is computed of another array."""
    node = as_expression(x)
    return as_tensor(node.value) if isinstance(node, Leaf) else compute(x)


def tocoo(x: Any, copy: bool = False) -> Any:
    """A SciPy COO array, of any number of dimensions but 0, of what is stored, or of what is not 0 if that
    is dense. Raises FinchError "type" if the fill is not 0."""
    found = _tensor(x)
    if isinstance(found, Scalar) or as_expression(found).values.is_fill:
        return coo_array(found)
    import scipy.sparse

    return scipy.sparse.coo_array(todense(found))


def _by_columns_or_rows(x: Any) -> Any:
    found = _tensor(x)
    is_sparse = isinstance(found, (Tensor, SwizzledTensor)) and as_expression(found).values.is_fill
    return found.to_scipy() if is_sparse else tocoo(found)


def tocsc(x: Any, copy: bool = False) -> Any:
    """A SciPy CSC matrix, as `tocoo`. Its values may share memory with a tensor of that format unless
    `copy` is true."""
    return _by_columns_or_rows(x).tocsc(copy=copy)


def tocsr(x: Any, copy: bool = False) -> Any:
    """A SciPy CSR matrix, as `tocsc`."""
    return _by_columns_or_rows(x).tocsr(copy=copy)


def toarray(x: Any, order: Any = None) -> np.ndarray:
    """A dense NumPy array, as `todense`, by rows or by columns as `order` says."""
    return np.asarray(todense(x), order=order)


def matvec(x: Any, vector: Any) -> np.ndarray:
    """`x @ vector` as a NumPy array: what SciPy asks of a linear operator."""
    return todense(namespace.matmul(x, vector))


def rmatvec(x: Any, vector: Any) -> np.ndarray:
    """`x.T @ vector` as a NumPy array."""
    return todense(namespace.matmul(namespace.matrix_transpose(x), vector))


# ------------------------------------------------------------------------------------------ memory


def nbytes(x: Any) -> int:
    """The bytes of the operands of a lazy array, each counted once; it has no others before it is
    computed."""
    found: dict[int, Any] = {}
    todo = [as_expression(x)]
    while todo:
        node = todo.pop()
        if isinstance(node, Leaf):
            value = node.source if type(node) is Refilled else node.value
            found[id(value)] = value
        todo += node.args
    return sum(map(bytes_of, found.values()))


def sizeof(x: Any) -> int:
    """`sys.getsizeof`: the object, and `nbytes`."""
    return object.__sizeof__(x) + int(x.nbytes)


def dask_token(x: Any) -> Any:
    """What tells arrays of Dask apart: format, shape and what is in use of memory; of a lazy array that of
    its result."""
    from dask.base import normalize_token

    found = _tensor(x)
    if isinstance(found, Scalar):
        return normalize_token((str(found), str(found.dtype)))
    arrays = [array for use in measure(found) for array in use.arrays.values()]
    return normalize_token((str(found.format), found.shape, arrays))


def item(x: Any, *place: int) -> Any:
    """The element at a place, or the only one, as a Python number."""
    return _number(x[place] if place else x).item()
