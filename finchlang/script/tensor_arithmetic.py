"""Arithmetic of arrays in expressions of scripts. With a tensor among the operands it is lazy, as `@array`
is: a `Pending` value collects what the expression does (`array_expressions.py`), and one kernel computes it
at its end. Arrays of NumPy alone are computed by NumPy at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import repeat
from typing import Any

import numpy as np

from finchlang.base.errors import FinchError
from finchlang.operators.operator_table import OPERATORS, Operator
from finchlang.script import lazy_values as lazy, values as data
from finchlang.script.containers import joined_vectors
from finchlang.script.linear_algebra import identity_matrix
from finchlang.script.shape_functions import concatenated
from finchlang.script.show import kind_of
from finchlang.script.subscripts import ALL, dense_view, set_subscript
from finchlang.script.whole_arrays import check_product, grid, no_match
from finchlang.syntax.types import Type
from finchlang.tensors.array_base import size_text
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor

#: the operators without a dot that take arrays
SIGNS = frozenset(("+", "-", "*", "/", "^"))
#: of arrays of NumPy with so many entries functions of elements are computed by kernels
LARGE = 1024
#: runs a kernel on the values of its names
Run = Callable[..., Any]


def lazily() -> Any:
    """The module of expressions with lazy arrays, which is imported where the first of these is met."""
    from finchlang.script import array_expressions as table

    return table


def takes(name: str, args: list[Any]) -> bool:
    """Whether `combined` is what applies an operator to these arguments."""
    kinds = (lazy.Pending, lazy.Identity)
    return name in SIGNS and any(lazy.is_array(a) or type(a) in kinds for a in args)


def forced(value: Any, run: Run) -> Any:
    """A value at the end of an expression: what is lazy is computed, unless it is kept so."""
    if type(value) is lazy.Pending and not value.is_kept:
        return lazily().computed([value], run)[0]
    return value.view(np.ndarray) if type(value) is lazy.RowVector else value


def settled(value: lazy.Pending, run: Run) -> Any:
    """As `forced`, within an expression: a row is marked as one still."""
    found = forced(value, run)
    if not value.is_row or found is value:
        return found
    is_numpy = isinstance(found, np.ndarray)
    return _as_row(found if is_numpy else lazily().pending([found], lambda node: node), True)


# ------------------------------------------------------------------------------ without a dot


def combined(name: str, args: list[Any]) -> Any:
    """An operator without a dot, as of Julia, with an array. Raises FinchError "type" or "dimension"."""
    args = [data.held(arg) if isinstance(arg, Scalar) else arg for arg in args]
    if any(type(arg) is lazy.Identity for arg in args):
        return _with_identity(name, args)
    if any(map(lazy.is_array, args)):  # beside which a range is a vector
        vectors = [a.numbers if type(a) is data.FinchRange else None for a in args]
        args = [arg if own is None else own for arg, own in zip(args, vectors, strict=True)]
    are_arrays = [lazy.is_array(arg) for arg in args]
    if all(lazy.is_array(arg) or lazy.is_number(arg) for arg in args):
        match name, are_arrays:
            case "+" | "-", [True, True]:
                if args[0].shape == args[1].shape:
                    return _by_elements(name, args)
                raise no_match(args[0].shape, args[1].shape)
            case "*", [True, True]:
                return _product(*args)
            case "+" | "-", [True]:
                return _by_elements(name, args)
            case ("*", [_, _]) | ("/", [True, False]):
                return _as_row(_by_elements(name, args), any(map(lazy.is_row, args)))
            case "/", [True, True] if len(args[1].shape) == 2:
                hint = "`A * inv(B)` solves, `B \\ A` does from the left"
                hint = f"{hint}; by elements it is `A ./ B`"
                raise FinchError("type", "matrices are not divided by each other", hint=hint)
            case "^", [True, False]:
                return _power(args[0], data.whole(args[1], "the power of a matrix"))
            case _, [False, False]:
                return _by_elements(name, args)
    others = " and ".join(map(kind_of, args))
    raise FinchError("type", f"`{name}` does not take {others}", hint=data.WITH_DOT)


def _with_identity(name: str, args: list[Any]) -> Any:
    """Arithmetic with an identity matrix, which has the size of the array beside it."""
    scales = [arg.scale if type(arg) is lazy.Identity else arg for arg in args]
    arrays = [arg for arg in args if lazy.is_array(arg)]
    others = [arg for arg in args if type(arg) is not lazy.Identity and not lazy.is_array(arg)]
    if name == "*" or name == "/" and type(args[1]) is not lazy.Identity:
        return combined(name, scales) if arrays else lazy.Identity(data.binary(name)(*scales))
    if name not in ("+", "-") or others:
        what = " and ".join(map(kind_of, args))
        raise FinchError("type", f"`{name}` does not take {what}")
    if not arrays:
        return lazy.Identity(data.operate(OPERATORS[name], scales))
    (array,) = arrays
    if len(array.shape) != 2 or array.shape[0] != array.shape[1]:
        message = f"an array of size {size_text(array.shape)} is no square matrix, as `I` is"
        raise FinchError("dimension", message)

    def sized(arg: Any) -> Any:
        if type(arg) is not lazy.Identity:
            return arg
        found = identity_matrix(arg, array.shape[0])
        return found if lazy.is_lazy(array) else data.dense(found)

    return combined(name, [*map(sized, args)])


def _as_row(value: Any, holds: bool) -> Any:
    if type(value) is lazy.Pending:
        value.is_row = holds
    elif isinstance(value, np.ndarray):
        return value.view(lazy.RowVector if holds else np.ndarray)
    return value


def _by_elements(name: str, args: list[Any]) -> Any:
    """Arithmetic of the elements of arrays of one size, or of an array and a number."""
    if any(map(lazy.is_lazy, args)):
        return lazily().by_elements(name, args)
    parts = lazy.alike(name, *args)
    with np.errstate(all="ignore"):
        return -parts[0] if len(parts) == 1 else data.ARITHMETIC[name](*parts)


def _product(a: Any, b: Any) -> Any:
    is_column = check_product(a.shape, b.shape)
    if lazy.is_lazy(a) or lazy.is_lazy(b):
        return lazily().product(a, b)
    first, second = lazy.alike("*" if is_column else "+", a[:, None] if is_column else a, b)
    with np.errstate(all="ignore"):
        found = first @ second
    if lazy.is_row(a):
        return data.plain(found[0]) if found.ndim == 1 else found.view(lazy.RowVector)
    return np.asfortranarray(found)


def _power(a: Any, count: int) -> Any:
    if len(a.shape) != 2 or a.shape[0] != a.shape[1]:
        message = f"an array of size {size_text(a.shape)} has no power: it is no square matrix"
        raise FinchError("dimension", message, hint=data.WITH_DOT)
    if count < 0:
        hint = f"write `inv(A){f'^{-count}' if count < -1 else ''}`"
        raise FinchError("type", "a matrix has no negative power", hint=hint)
    if count == 0 or isinstance(a, np.ndarray):
        base = np.asarray(a) if isinstance(a, np.ndarray) else np.eye(a.shape[0])
        return np.asfortranarray(np.linalg.matrix_power(lazy.alike("+", base)[0], count))
    if count == 1:
        return a
    half = _power(a, count // 2)
    return _product(_product(half, half), a) if count % 2 else _product(half, half)


# ------------------------------------------------------------------------------ with a dot


#: the types of arrays in which NumPy's arithmetic is that of scripts
_PLAIN = frozenset((np.dtype(np.float64), np.dtype(np.int64)))


def elementwise(function: Any, args: list[Any], apply: Callable[..., Any], run: Run) -> Any:
    """`function.(args...)`. With tensors or large arrays an operator is lazy; else `apply` calls the
    function for each element, in column-major order. Dimensions are matched from the first on, and those of
    size 1 are repeated. Raises FinchError "dimension" if sizes do not match."""
    if any(map(lazy.is_lazy, args)):
        try:
            return lazily().by_elements(function, args)
        except FinchError as error:
            args = [forced(arg, run) for arg in args]
            found = lazily().by_entries(args, apply) if error.kind == "type" else None
            if found is None:
                error.hint = error.hint or "any function takes the entries of `collect(A)`"
                raise
            return found
    args = [a.view(np.ndarray) if type(a) is lazy.RowVector else a for a in args]
    if (found := _rounded(function, args)) is not None:
        return found
    shapes = [None if isinstance(a, (Scalar, str, dict)) else data.shape_of(a) for a in args]
    known = [s for s in shapes if s is not None]
    if not known:
        return apply(*args)
    try:
        shape = np.broadcast_shapes(*[s[::-1] for s in known])[::-1]
    except ValueError:
        raise no_match(*filter(None, known)) from None
    except RuntimeError:
        raise FinchError("resource", "an operator takes arrays of at most 32 modes") from None
    kinds = [None if isinstance(a, Type) else getattr(a, "dtype", None) for a in args]
    pairs = zip(args, kinds, strict=True)
    are_plain = all(type(a) in (int, float) or k in _PLAIN for a, k in pairs)
    parts = [a if s is None else _spread(a, shape) for a, s in zip(args, shapes, strict=True)]
    by_numpy = data.BY_NUMPY.get(function.name) if isinstance(function, Operator) else None
    if by_numpy is not None and are_plain and len(parts) == 2:
        with np.errstate(all="ignore"):
            return np.asfortranarray(by_numpy(*parts))
    is_empty = 0 in shape and any(isinstance(a, np.ndarray) for a in args)
    if is_empty or are_plain and math.prod(shape) >= LARGE:
        try:
            return lazily().by_elements(function, args)
        except FinchError:
            pass  # it is no operator of elements
    each = [data.entries(p) if isinstance(p, np.ndarray) else repeat(p) for p in parts]
    return data.shaped([apply(*xs) for xs in zip(*each, strict=False)], shape)


def _rounded(function: Any, args: list[Any]) -> np.ndarray | None:
    """`floor.(x)` and `floor.(Int64, x)` of Float64s; None for others, or if a number does not fit."""
    round = data.ROUNDING.get(function.name) if isinstance(function, data.Builtin) else None
    *type, x = args or [None]
    if round is None or not isinstance(x, np.ndarray) or x.dtype != np.float64 or len(type) > 1:
        return None
    found = np.asfortranarray(round(x))
    if not type:
        return found
    if not isinstance(type[0], Type) or type[0].is_float:
        return None
    fits = (found >= float(type[0].lowest)) & (found < float(type[0].highest) + 1)
    return found.astype(type[0].dtype) if fits.all() else None


def _spread(value: Any, shape: tuple[int, ...]) -> np.ndarray:
    if data.is_array(value):
        array = data.dense(value)
    else:
        array = np.empty(len(value), object)
        array[:] = list(value)
    return np.broadcast_to(array.T, shape[::-1]).T


def set_all(target: Any, value: Any, run: Run) -> None:
    """`target .= value`. Raises FinchError "dimension" for other sizes, "type" for what cannot be set."""
    is_fixed = type(target) in (tuple, data.FinchRange, str, dict, lazy.Pending)
    shape = None if is_fixed else data.shape_of(target)
    if shape is None:
        raise FinchError("type", f"the elements of {kind_of(target)} cannot be set")
    if isinstance(target, (Tensor, SwizzledTensor)) and dense_view(target) is None:
        lazily().set_tensor(target, value, run)
    else:
        set_subscript(target, [ALL] * len(shape), forced(value, run), True)


# ------------------------------------------------------------------------------ put together


def stacked(rows: list[list[Any]]) -> Any:
    """`[A B; C D]`: arrays side by side in rows, one below the other. Raises FinchError "dimension"."""
    whole = [row[0] if len(row) == 1 else _joined(1, row) for row in rows]
    return whole[0] if len(whole) == 1 else _joined(0, whole)


def _joined(axis: int, parts: list[Any]) -> Any:
    vector = joined_vectors(axis, parts)
    if vector is not None:
        return vector
    if any(map(lazy.is_lazy, parts)):
        return lazily().stacked(axis, parts)
    arrays = [grid([part] if data.is_number(part) else part) for part in parts]
    return concatenated(axis, arrays)
