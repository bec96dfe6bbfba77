"""Linear algebra (`linalg` of the array API standard, and NumPy's names): products and norms are lazy and
of any format; what factorizes a matrix is done by NumPy on a dense one, and refused for a large sparse one
with the function of SciPy to call."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from inspect import signature
from operator import index
from typing import Any

import numpy as np

from finchlang.array import concatenation, elementwise, reductions
from finchlang.array.compute import dense_array
from finchlang.array.creation import asarray, eye
from finchlang.array.expression import Array
from finchlang.array.operands import as_expression
from finchlang.array.products import matmul, tensordot, vecdot
from finchlang.array.promotion import normalized_axes
from finchlang.array.reshaping import expand_dims, matrix_transpose, ravel
from finchlang.tensors.adopt import is_scipy
from finchlang.tensors.array_base import ArrayMethods, size_text

__all__ = ["cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul"]
__all__ += ["matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "multi_dot", "norm"]
__all__ += ["outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot", "trace"]
__all__ += ["vecdot", "vector_norm"]

_FACTORS, _SOLVER = "splu(x.tocsc())", "spsolve(x.tocsc(), b)"
#: functions of NumPy on dense matrices, with what `scipy.sparse.linalg` has for sparse ones
_DENSE = {
    **{"cholesky": _FACTORS, "cross": "", "det": _FACTORS, "inv": _FACTORS, "slogdet": _FACTORS},
    **{"eigh": "eigsh(x)", "eigvalsh": "eigsh(x)", "matrix_rank": "svds(x)", "svd": "svds(x)"},
    **{"svdvals": "svds(x)", "pinv": "lsqr(x, b)", "qr": "lsqr(x, b)", "solve": _SOLVER},
}


def dense_operands(name: str, given: Any, sparse: str = "") -> Any:
    """Arrays among the arguments of a function, in lists and tuples too, as dense NumPy arrays. Raises
    TypeError for one whose dense array is much larger than its own memory, with the function of SciPy for
    `sparse` ones."""
    if type(given) in (list, tuple):
        return type(given)([dense_operands(name, part, sparse) for part in given])
    if not (isinstance(given, ArrayMethods) or is_scipy(given)):
        return given
    try:
        found = dense_array(given)[...]
        found.flags.writeable = False  # or a function would change a copy
        return found
    except TypeError as error:
        way = f"; `scipy.sparse.linalg.{sparse}` takes sparse ones" if sparse else ""
        raise TypeError(f"{name} takes dense arrays: {error}{way}") from None


def _as_arrays(found: Any) -> Any:
    """What NumPy gave as arrays of ours; a complex array, which we have not, as it is."""
    if isinstance(found, tuple):
        return type(found)(*map(_as_arrays, found))
    return found if np.iscomplexobj(found) else asarray(found)


def by_numpy(room: Any, name: str, sparse: str = "") -> Callable[..., Any]:
    """A function of NumPy for arrays here, which are made dense. Complex results are NumPy's."""
    known = getattr(room, name)

    def function(*given: Any, **keywords: Any) -> Any:
        return _as_arrays(known(*dense_operands(name, given, sparse), **keywords))

    function.__signature__ = signature(known)  # type: ignore[attr-defined]
    function.__name__ = function.__qualname__ = name
    what = f"NumPy's `{name}` of dense arrays. Raises TypeError for a large sparse one"
    function.__doc__ = what + (f", where SciPy has `{sparse}`." if sparse else ".")
    return function


cholesky, cross, det, inv, slogdet, eigh, eigvalsh, matrix_rank, svd, svdvals, pinv, qr, solve = (
    by_numpy(np.linalg, *row) for row in _DENSE.items()
)


def outer(x1: Any, x2: Any, /) -> Array:
    """The products of all elements of one array with all of another, as a matrix."""
    return elementwise.multiply(expand_dims(ravel(x1), axis=1), ravel(x2))


def diagonal(x: Any, /, *, offset: int = 0) -> Array:
    """The diagonal of the last two axes, `offset` places above the main one."""
    return concatenation.diagonal(x, offset, -2, -1)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Array:
    """The sum over a diagonal of the last two axes."""
    return reductions.sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def matrix_power(x: Any, n: int, /) -> Array:
    """The product of `n` times the square matrix `x`; of the inverse of a dense one if `n` is negative.
    Raises ValueError if it is not square."""
    shape = as_expression(x).shape
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ValueError(f"only a square matrix has powers, no array of size {size_text(shape)}")
    factor, times = inv(x) if n < 0 else asarray(x), index(n) if n > 0 else -index(n)
    if not times:
        ones = elementwise.multiply(factor, 0) + 1
        return elementwise.multiply(ones, eye(shape[-1], dtype=factor.dtype))
    return reduce(matmul, [factor] * times)


def multi_dot(arrays: Any, /) -> Array:
    """The product of several matrices; the first and the last may be vectors."""
    return reduce(matmul, arrays)


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Array:
    """The norm of order `ord`, a number or an infinity, over some axes, or all."""
    floats = elementwise.astype(x, elementwise.sqrt(x).dtype)
    over: Any = {"axis": axis, "keepdims": keepdims}
    if ord == 2:
        return elementwise.sqrt(reductions.sum(elementwise.square(floats), **over))
    if ord == 0:
        return elementwise.astype(reductions.count_nonzero(floats, **over), floats.dtype)
    size = elementwise.abs(floats)
    if ord in (math.inf, -math.inf):
        return (reductions.max if ord > 0 else reductions.min)(size, **over)
    if ord == 1:
        return reductions.sum(size, **over)
    return elementwise.pow(reductions.sum(elementwise.pow(size, float(ord)), **over), 1 / ord)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """The norm of the matrices in the last two axes: "fro", of the sums of rows (inf, -inf) or of columns
    (1, -1), or of singular values ("nuc", 2, -2), for which they must be dense."""
    if ord in ("fro", None):
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    if ord in ("nuc", 2, -2):
        dense = dense_operands(f"a norm of order {ord!r}", x, "svds(x)")
        return asarray(np.linalg.matrix_norm(dense, keepdims=keepdims, ord=ord))
    if ord not in (1, -1, math.inf, -math.inf):
        raise ValueError(f"{ord!r} is no order of a norm of matrices")
    summed, other = (-2, -1) if ord in (1, -1) else (-1, -2)
    sums = vector_norm(x, axis=summed, keepdims=True, ord=1)
    found = (reductions.max if ord > 0 else reductions.min)(sums, axis=other, keepdims=True)
    return found if keepdims else found[..., 0, 0]


def norm(x: Any, /, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Array:
    """NumPy's `norm`: of vectors along one axis, of matrices in two, of all elements if neither `ord` nor
    `axis` is given."""
    order = len(as_expression(x).shape)
    if axis is None and ord is None:
        return vector_norm(x, keepdims=keepdims)
    axes = normalized_axes(axis, order)
    if len(axes) == 1:
        return vector_norm(x, axis=axes, keepdims=keepdims, ord=2 if ord is None else ord)
    if len(axes) != 2:
        raise ValueError(f"a norm is of one axis or of two, not of {len(axes)}")
    kept = [k for k in range(order) if k not in axes]
    rows_columns = axes if axis is None else axis  # in the order given
    found = matrix_norm(asarray(x).transpose(*kept, *rows_columns), ord=ord)
    return expand_dims(found, axis=axes) if keepdims else found
