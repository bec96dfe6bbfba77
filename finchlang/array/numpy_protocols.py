"""The protocols of Python, NumPy and SciPy that tensors and arrays implement: conversions, functions and
ufuncs of NumPy, linear operators, DLPack, and methods as other libraries have them."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from operator import index
from string import ascii_letters
from typing import Any

import numpy as np

import finchlang.array as namespace
from finchlang.array.compute import bytes_of, compute, dense_array, todense
from finchlang.array.elementwise import ALIASES, by_ufunc
from finchlang.array.expression import Array, Leaf, nodes_of
from finchlang.array.indexing import NOT_CHANGED, getitem, setitem  # noqa: F401
from finchlang.array.linalg import dense_operands
from finchlang.array.operands import as_expression, expression_of
from finchlang.tensors.adopt import as_tensor
from finchlang.tensors.array_base import ArrayMethods, NotAnArray
from finchlang.tensors.storage_report import measure
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor, coo_array

#: reductions and scans by ufuncs
_REDUCTIONS = {
    **{"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"},
    **{"logical_or": "any", "logical_and": "all"},
}
_SCANS = {"add": "cumsum", "multiply": "cumprod"}
#: where NumPy has its functions, and where ours of the same names are
_ROOMS = {"numpy": namespace, "numpy.linalg": namespace.linalg, "numpy.fft": namespace.fft}


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
    """Whether `S @ x` or `S * x` of a SciPy array asks. It leaves the operation to `x` only if that is no
    array to NumPy: it looks at no priority and no protocol, and of a dense array it would make a dense
    product. So this looks for the code of these operators of its public classes among the callers."""
    sparse, frame = sys.modules.get("scipy.sparse"), sys._getframe(2).f_back
    while sparse and frame and frame.f_globals.get("__name__", "").startswith("scipy.sparse."):
        if frame.f_code in _operators_of(sparse):
            return True
        frame = frame.f_back
    return False


@cache
def _operators_of(sparse: Any) -> set[Any]:
    given = product((sparse.csr_array, sparse.csr_matrix), ("__matmul__", "__mul__"))
    return {getattr(kind, name).__code__ for kind, name in given}


def dlpack(x: Any, **keywords: Any) -> Any:
    return dense_array(x).__dlpack__(**keywords)


def dlpack_device(x: Any) -> tuple[int, int]:
    return np.empty(0).__dlpack_device__()


def array_ufunc(x: Any, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
    """`__array_ufunc__`: the function of the ufunc's name, a reduction, scan or outer product by it, or
    what NumPy makes of dense arrays; NotImplemented for operands that are no arrays here."""
    out = keywords.pop("out", None)
    if method == "at":  # whose first operand is changed, and the second are indices
        if isinstance(inputs[0], ArrayMethods):
            raise TypeError(NOT_CHANGED)
        return _by_numpy("at", ufunc.at, inputs, keywords)
    inputs = tuple([np.asarray(x) if type(x) in (list, tuple) else x for x in inputs])
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
    if name == "divmod" and not given:
        return namespace.divmod(*inputs)
    function = by_ufunc(name)
    if given.keys() - {"dtype"} or ufunc.nout > 1 or function is None:
        return NotImplemented
    result = function(*inputs)
    if "dtype" not in given:
        return result
    dtype = np.dtype(given["dtype"])
    if not np.can_cast(result.dtype, dtype, "same_kind"):
        raise TypeError(f"a result of {result.dtype} is not cast to {dtype}: `astype` converts it")
    if not {types[-1] for types in ufunc.types} <= {*"?O"}:  # no test: it is computed in that type
        result = function(*[namespace.astype(x, dtype) for x in inputs])
    return namespace.astype(result, dtype)


def _given(keywords: dict[str, Any]) -> dict[str, Any]:
    """Keywords without those that have NumPy's defaults."""
    none = {"initial": np._NoValue, "where": True, "dtype": None, "optimize": None, "casting": None}
    none |= {"keepdims": np._NoValue}
    return {k: v for k, v in keywords.items() if not (k in none and v is none[k])}


_signature = cache(inspect.signature)


def _called(function: Callable[..., Any] | None, args: Any, keywords: dict[str, Any]) -> Any:
    """What our function gives; NotImplemented if there is none that takes these arguments, of which a list
    is an array to NumPy alone."""
    if function is None:
        return NotImplemented
    try:
        _signature(function).bind(*args, **keywords)
    except TypeError:
        return NotImplemented
    try:
        return function(*args, **keywords)
    except NotAnArray:
        return NotImplemented


def _by_numpy(name: str, function: Callable[..., Any], args: Any, keywords: dict[str, Any]) -> Any:
    """What NumPy makes of dense arrays, which it cannot change. Raises TypeError if one is much larger than
    its operand, or if it is to be changed."""
    named = {k: dense_operands(name, value) for k, value in keywords.items()}
    try:
        return function(*dense_operands(name, tuple(args)), **named)
    except ValueError as error:
        if "read-only" in str(error):
            raise TypeError(f"{name} changes an array, and {NOT_CHANGED}") from None
        raise


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
    if name == "einsum":
        args = args if isinstance(args[0], str) else _subscripted(*args)
        dtype = [given.pop(k, None) for k in ("optimize", "casting", "order", "dtype")][-1]
        args = args if dtype is None else (args[0], *[namespace.astype(x, dtype) for x in args[1:]])
    room, name = _ROOMS.get(function.__module__), ALIASES.get(name, name)
    ours = getattr(room, name) if room is not None and name in room.__all__ else None
    result = _called(ours if callable(ours) else None, args, given)
    if result is NotImplemented:
        return _by_numpy(name, function, args, keywords)
    return result if out is None else compute(result, out=out)


def _subscripted(*given: Any) -> tuple[Any, ...]:
    """The arguments of `einsum` with subscripts as a text, given as lists of integers behind the arrays."""
    *parts, kept = (
        "".join(["..." if k is Ellipsis else ascii_letters[index(k)] for k in own])
        for own in (*given[1::2], given[-1])
    )
    text = ",".join(parts) + (f"->{kept}" if len(given) % 2 else "")
    return text, *given[: len(given) // 2 * 2 : 2]


def array_namespace(x: Any, *, api_version: str | None = None) -> Any:
    if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        raise ValueError(f"the array API of {api_version} is not supported, that of 2024.12 is")
    return namespace


def _number(x: Any) -> Any:
    if math.prod(x.shape) != 1:
        raise TypeError(f"an array of shape {x.shape} is no number")
    return todense(x).reshape(())[()]


def to_bool(x: Any) -> bool:
    if math.prod(x.shape) != 1:
        raise ValueError(f"an array of shape {x.shape} is neither true nor false: any() or all()")
    return bool(_number(x))


to_int, to_float, to_complex = (
    lambda x, kind=kind: kind(_number(x)) for kind in (int, float, complex)
)


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


def contains(x: Any, value: Any) -> bool:
    """`value in x`: whether an element equals it."""
    return bool(namespace.any(namespace.equal(x, value)))


def to_round(x: Any, digits: int | None = None) -> Any:
    return round(_number(x).item(), digits)


def to_format(x: Any, form: str) -> str:
    """An array without dimensions as its number."""
    return format(str(x) if x.shape else _number(x).item(), form)


def times(x: Any, y: Any) -> Any:
    """`x * y`: the matrix product if one is a matrix of NumPy or SciPy, whose `*` that is."""
    sparse = sys.modules.get("scipy.sparse")
    matrices = (np.matrix, sparse.spmatrix) if sparse else (np.matrix,)
    is_product = isinstance(x, matrices) or isinstance(y, matrices)
    return (namespace.matmul if is_product else namespace.multiply)(x, y)


def copied(x: Any) -> Any:
    """A copy with memory of its own; what is not computed yet is computed."""
    return namespace.asarray(x, copy=True)


def tolist(x: Any) -> Any:
    """Its elements as nested lists. Raises TypeError as `dense_array`."""
    return dense_array(x).tolist()


def reshaped(x: Any, *shape: Any, **keywords: Any) -> Any:
    """`x.reshape(2, 3)` or `x.reshape((2, 3))`."""
    return namespace.reshape(x, shape[0] if len(shape) == 1 else shape, **keywords)


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


def _by_columns_or_rows(x: Any, kind: str) -> Any:
    node = as_expression(x)
    if isinstance(node, Leaf) and getattr(node.value, "format", None) == kind:  # a SciPy matrix
        return getattr(sys.modules["scipy.sparse"], f"{kind}_array")(node.value, copy=True)
    found = _tensor(x)
    is_sparse = isinstance(found, (Tensor, SwizzledTensor)) and as_expression(found).values.is_fill
    return found.to_scipy() if is_sparse else tocoo(found)


def tocsc(x: Any, copy: bool = False) -> Any:
    """A SciPy CSC matrix, as `tocoo`. Its values may share memory with a tensor of that format unless
    `copy` is true."""
    return _by_columns_or_rows(x, "csc").tocsc(copy=copy)


def tocsr(x: Any, copy: bool = False) -> Any:
    """A SciPy CSR matrix, as `tocsc`."""
    return _by_columns_or_rows(x, "csr").tocsr(copy=copy)


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


def size_of(x: Any) -> int:
    """The number of elements (`x.size`)."""
    return math.prod(x.shape)


def device_of(x: Any) -> str:
    """Always "cpu" (`x.device`)."""
    return "cpu"


def nbytes(x: Any) -> int:
    """The bytes of the operands of a lazy array, each counted once; it has no others before it is
    computed."""
    leaves = [node for node in nodes_of(as_expression(x)) if isinstance(node, Leaf)]
    return sum(map(bytes_of, {id(leaf.value): leaf.value for leaf in leaves}.values()))


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


def item(x: Any, *place: Any) -> Any:
    """The element at a place, in row-major order if one number is given, or the only one, as a Python
    number."""
    if len(place) == 1:
        x = x if isinstance(place[0], tuple) else namespace.ravel(x)
        (place,) = place
    return _number(x if isinstance(place, tuple) and not place else x[place]).item()
