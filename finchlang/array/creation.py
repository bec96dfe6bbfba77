"""Making arrays from numbers, other arrays or a constant, with a given format and fill."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np

from finchlang.array.compute import compute, todense
from finchlang.array.elementwise import astype, named
from finchlang.array.expression import Array, Constant, Leaf, NumberOperand
from finchlang.array.operands import as_expression, expression_of
from finchlang.array.promotion import type_of
from finchlang.array.reshaping import sizes_of
from finchlang.base.errors import FinchError
from finchlang.levels.element import Element, typed_literal
from finchlang.levels.level import Level
from finchlang.syntax.types import Type, type_of_value
from finchlang.tensors.adopt import as_tensor
from finchlang.tensors.array_base import format_of
from finchlang.tensors.convert import convert
from finchlang.tensors.formats import nest_of
from finchlang.tensors.tensor import Scalar, Tensor

__all__ = ["arange", "asarray", "astensor", "empty", "empty_like", "eye", "full", "full_like"]
__all__ += ["linspace", "ones", "ones_like", "zeros", "zeros_like"]


def asarray(
    obj: Any,
    /,
    *,
    dtype: Any = None,
    device: Any = None,
    copy: bool | None = None,
    format: Any = None,
    fill_value: Any = None,
) -> Array:
    """A number, nested lists, a NumPy array, a SciPy matrix or a tensor as an array over its own memory,
    unless `copy` is true.
    With a `format` (a level, or its text) or a `fill_value` it is copied to a tensor that stores what
    differs from the fill; with a `fill_value` alone that has the levels of `astensor`. Raises TypeError
    for an element type that there is not, FinchError for a text that is no format, ValueError where `copy`
    is False and a copy is needed."""
    node = expression_of(obj)
    is_given = format is not None or fill_value is not None
    is_cast = dtype is not None and node is not None and type_of(dtype) != node.values.type
    if copy is False and (is_given or is_cast or node is None or type(node) is NumberOperand):
        raise ValueError("this is taken by a copy only; leave `copy` out to allow one")
    if node is None:
        node = as_expression(np.asarray(obj, None if dtype is None else type_of(dtype).dtype))
    elif copy and type(node) is not NumberOperand:  # what is not computed yet is so now
        node = as_expression(deepcopy(obj) if type(node) is Leaf else compute(Array(node)))
    if type(node) is NumberOperand and format is None:
        node = as_expression(Scalar(typed_literal(node.value, node.values.type)))
    result = Array(node) if dtype is None else astype(Array(node), dtype)
    return astensor(result, format, fill_value) if is_given else result


def astensor(x: Any, /, format: Any = None, fill_value: Any = None) -> Array:
    """`x`, computed at once, in a format: a level or its text. The fill is that of the format unless
    another is given. Without a format it is all lists (a matrix Dense over SparseList), of fill 0."""
    arg = as_expression(x)
    type, order = arg.values.type, len(arg.shape)
    level = _sparse_format(type, order) if format is None else format_of(format)
    if fill_value is not None:
        level = level.with_leaf(Element(typed_literal(fill_value, type)))
    tensor: Any = as_tensor(arg.value if isinstance(arg, Leaf) else compute(x))
    return Array(as_expression(convert(level, tensor)))


def _sparse_format(type: Type, order: int) -> Level:
    """SparseList in every mode, but Dense in the outer one of a matrix (its last mode)."""
    leaf = Element(typed_literal(type.wrap(0), type))
    return nest_of([True, False] if order == 2 else [False] * order, leaf)


def full(
    shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, format: Any = None
) -> Array:
    """An array of one value, which stores nothing; with a `format`, an empty tensor of that format with
    this fill. Raises ValueError for a negative size, TypeError for a value that is no number,
    OverflowError for a Python integer that the type does not hold."""
    sizes = sizes_of(shape, "an array of shape")
    if isinstance(fill_value, (Array, np.ndarray)):
        fill_value = todense(fill_value)[()]
    own = type_of_value(fill_value)
    if own is None:
        raise TypeError(f"{fill_value!r} is no number")
    type = own if dtype is None else type_of(dtype)
    literal = typed_literal(type.wrap(fill_value), type)
    if isinstance(fill_value, int) and type.is_integer and literal.value != fill_value:
        raise OverflowError(f"{fill_value} is out of bounds for {type.dtype}")
    if format is None:
        return Array(Constant(literal, sizes))
    level = format_of(format).with_leaf(Element(literal))
    return Array(as_expression(Tensor(level, *sizes)))


def full_like(
    x: Any, /, fill_value: Any, *, dtype: Any = None, device: Any = None, format: Any = None
) -> Array:
    """As `full`, with the shape, and unless one is given the type, of `x`."""
    arg = as_expression(x)
    type = arg.values.type.dtype if dtype is None else dtype
    return full(arg.shape, fill_value, dtype=type, format=format)


def _constant(name: str, value: int) -> tuple[Callable[..., Array], Callable[..., Array]]:
    """The function that makes an array of a value, and the one that makes it like another array."""

    def of_shape(shape: Any, *, dtype: Any = None, device: Any = None, format: Any = None) -> Array:
        return full(shape, value, dtype=np.float64 if dtype is None else dtype, format=format)

    def like(x: Any, /, *, dtype: Any = None, device: Any = None, format: Any = None) -> Array:
        return full_like(x, value, dtype=dtype, format=format)

    doc = f"As `full` with the value {value}; of float64 unless another type is given."
    own = f"As `full_like` with the value {value}."
    return named(of_shape, name, doc), named(like, f"{name}_like", own)


zeros, zeros_like = empty, empty_like = _constant("zeros", 0)
ones, ones_like = _constant("ones", 1)


def _made(function: Callable[..., np.ndarray], *args: Any, **keywords: Any) -> np.ndarray:
    """What NumPy makes. Raises FinchError "resource" where there is no memory for it."""
    try:
        return function(*args, **keywords)
    except MemoryError as error:
        raise FinchError("resource", str(error)) from None


def arange(
    start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None
) -> Array:
    """The numbers from `start` to before `stop` by `step`; from 0 if only one number is given."""
    return Array(as_expression(_made(np.arange, start, stop, step, dtype=dtype)))


def linspace(
    start: Any,
    stop: Any,
    /,
    num: int,
    *,
    dtype: Any = None,
    device: Any = None,
    endpoint: bool = True,
) -> Array:
    """`num` numbers at equal distances, from `start` to `stop`, which is the last one if `endpoint`."""
    return Array(as_expression(_made(np.linspace, start, stop, num, endpoint, dtype=dtype)))


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: Any = None,
    device: Any = None,
    format: Any = None,
) -> Array:
    """A matrix with ones on its k-th diagonal (above the main one if positive), else 0; Dense over
    SparseList unless a `format` is given."""
    shape = sizes_of((n_rows, n_rows if n_cols is None else n_cols), "an array of shape")
    type: Type = type_of(np.float64 if dtype is None else dtype)
    level = _sparse_format(type, 2) if format is None else format_of(format)
    rows = _made(np.arange, max(0, -k), max(0, min(shape[0], shape[1] - k)))
    values = _made(np.ones, len(rows), type.dtype)
    return Array(as_expression(Tensor.from_coo(level, shape, [rows, rows + k], values)))
