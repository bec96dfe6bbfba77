"""Indexing by integers, slices, new axes, masks and lists of coordinates; and the coordinates of the
least and the greatest elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from finchlang.algebra.index_map import Wrapped, value
from finchlang.algebra.program_context import ONE
from finchlang.array.compute import compute, todense
from finchlang.array.expression import Array, Constant, Expression, Map, Reduce, apply
from finchlang.array.inferred_values import unknown_values
from finchlang.array.operands import as_expression
from finchlang.array.promotion import listed, normalized_axis
from finchlang.array.reshaping import with_axes
from finchlang.array.to_program import Lowering, lowers
from finchlang.levels.element import typed_literal
from finchlang.syntax import nodes as ast, types

ALL, AT, WINDOW, SLICE, LISTED = "all", "at", "window", "slice", "listed"


class IndexedPart(Expression):
    """A part of the first argument. For each of its modes, `kinds` is how it is indexed, `(SLICE, step)`
    for a slice with a step, and `places` which mode of the result it becomes, None for an integer. The
    other arguments are the lists of coordinates, in order of modes. `numbers` are the coordinates of
    integers, and the first and last ones of slices, from 1."""

    __slots__ = ("kinds", "numbers", "places")

    def __init__(
        self,
        args: tuple[Expression, ...],
        kinds: tuple[Any, ...],
        places: tuple[int | None, ...],
        numbers: tuple[int, ...],
        shape: tuple[int, ...],
    ):
        self.args, self.kinds, self.places, self.numbers = args, kinds, places, numbers
        self.shape, self.values = shape, args[0].values
        self.static = IndexedPart, kinds, places, len(shape)


@lowers(IndexedPart)
def _part(to: Lowering, node: IndexedPart, indices: tuple[ast.Node, ...]) -> ast.Node:
    arg, *lists = node.args
    numbers, others = (to.number(node, k) for k in range(len(node.numbers))), iter(lists)
    own: list[ast.Node] = []
    for kind, place in zip(node.kinds, node.places, strict=True):
        index = ONE if place is None else indices[place]
        if kind == AT:
            index = next(numbers)
        elif kind == LISTED:
            index = to.value(next(others), (index,))
        elif kind != ALL:
            step = None if kind == WINDOW else ast.Literal(kind[1])
            index = Wrapped("window", ast.Extent(next(numbers), next(numbers), step), index)
        own.append(index)
    return to.value(arg, tuple(own))


def getitem(x: Any, key: Any) -> Array:
    """`x[key]`: integers, slices, `...`, None for a new axis, a mask of the array's shape, and at most one
    list of integers or mask of one axis. Masks and lists are computed at once. Raises IndexError for an
    index out of range, too many indices or a mask of another shape, TypeError for another kind of index."""
    arg = as_expression(x)
    keys = list(key) if isinstance(key, tuple) else [key]
    for one in keys:
        if isinstance(one, (bool, np.bool_)):
            raise _no_index(one)
    if len(keys) == 1 and _is_mask(keys[0]) and (len(arg.shape) == 1 or _order(keys[0]) != 1):
        return masked(arg, keys[0])
    named = sum(k is not None and k is not Ellipsis for k in keys)
    dots = [n for n, k in enumerate(keys) if k is Ellipsis]
    if len(dots) > 1 or named > len(arg.shape):
        what = f"{named} indices of an array of {len(arg.shape)} dimensions"
        raise IndexError(f"{what}, or `...` twice")
    at = dots[0] if dots else len(keys)
    keys[at : at + 1] = [slice(None)] * (len(arg.shape) - named)
    return Array(_parted(arg, keys))


def _parted(arg: Expression, keys: list[Any]) -> Expression:
    kinds: list[Any] = []
    places: list[int | None] = []
    numbers: list[int] = []
    lists: list[Expression] = []
    shape: list[int] = []
    for key in keys:
        if key is None:
            shape.append(1)
            continue
        axis, size = len(kinds), arg.shape[len(kinds)]
        if isinstance(key, slice):
            kind, bounds, length = _slice(key, size)
        elif hasattr(key, "__index__") and not getattr(key, "shape", ()):
            kind, bounds, length = AT, [_coordinate(key, size, axis) + 1], None
        else:
            coordinates = _where(key, size, axis) if _is_mask(key) else key
            lists.append(_coordinates(coordinates, size, axis))
            kind, bounds, length = LISTED, [], lists[-1].shape[0]
        kinds.append(kind)
        places.append(None if length is None else len(shape))
        numbers += bounds
        shape += [] if length is None else [length]
    if len(lists) > 1:
        raise TypeError("at most one axis is indexed by a list")
    return IndexedPart((arg, *lists), tuple(kinds), tuple(places), tuple(numbers), tuple(shape))


def _slice(key: slice, size: int) -> tuple[Any, list[int], int]:
    """The kind of a slice, its first and last coordinates from 1, and its length."""
    start, stop, step = key.indices(size)
    length = len(range(start, stop, step))
    step = step if length > 1 else 1  # steps are in the program: fewer programs
    if (start, step, length) == (0, 1, size):
        return ALL, [], length
    last = start + (length - 1) * step
    return (WINDOW if step == 1 else (SLICE, step)), [start + 1, last + 1], length


def _coordinate(key: Any, size: int, axis: int) -> int:
    number = key.__index__()
    if not -size <= number < size:
        raise IndexError(f"index {number} is out of range of axis {axis} of size {size}")
    return number % size


def _coordinates(key: Any, size: int, axis: int) -> Expression:
    """A list of integers as an operand, counted from 1. Raises IndexError if one is out of range."""
    found = np.asarray(todense(key) if isinstance(key, Array) else key)
    if found.dtype.kind not in "iu" and found.size or found.ndim != 1:
        raise _no_index(key)
    found = found.astype(np.int64)
    if found.size and not (found.min() >= -size and found.max() < size):
        raise IndexError(f"an index is out of range of axis {axis} of size {size}")
    return as_expression(np.where(found < 0, found + size, found) + 1)


def _no_index(key: Any) -> TypeError:
    what = "an integer, a slice, a mask or a list of integers"
    return TypeError(f"an axis is indexed by {what}, not {key!r}")


def _where(mask: Any, size: int, axis: int) -> np.ndarray:
    found = todense(mask) if isinstance(mask, Array) else np.asarray(mask)
    if found.ndim != 1:
        raise TypeError("a mask is of the shape of the whole array or of one axis")
    if found.shape != (size,):
        raise IndexError(f"a mask of shape {found.shape} of axis {axis} of size {size}")
    return np.flatnonzero(found)


def _order(mask: Any) -> int:
    return len(mask.shape if hasattr(mask, "shape") else np.shape(mask))


def _is_mask(key: Any) -> bool:
    if isinstance(key, list):
        key = np.asarray(key)
    return getattr(key, "dtype", None) == np.bool_


def masked(arg: Expression, mask: Any) -> Array:
    """The elements where a mask of the same shape is true, in row-major order. The mask is computed at
    once, by what it stores if its fill is False. Raises IndexError for a mask of another shape."""
    given = as_expression(np.asarray(mask) if isinstance(mask, (list, bool)) else mask)
    if given.shape != arg.shape:
        raise IndexError(f"a mask of shape {given.shape} of an array of shape {arg.shape}")
    if not arg.shape:
        arg, given = (with_axes(part, (0,), 1) for part in (arg, given))
    found = compute(Array(given))
    coordinates, values = found.entries()
    coordinates = np.array(np.nonzero(todense(found))) if found.fill else coordinates[:, values]
    rows = coordinates[:, np.lexsort(coordinates[::-1])]
    lists = tuple([as_expression(np.ascontiguousarray(row) + 1) for row in rows])
    order, count = len(arg.shape), rows.shape[1]
    return Array(IndexedPart((arg, *lists), (LISTED,) * order, (0,) * order, (), (count,)))


def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Array:
    """The parts of `x` at these coordinates of an axis, from 0; a vector needs no axis. Raises IndexError
    for a coordinate out of range, ValueError if an axis is needed."""
    order = len(as_expression(x).shape)
    if axis is None and order != 1:
        raise ValueError("take needs an axis for an array that is no vector")
    coordinates = np.asarray(todense(indices) if isinstance(indices, Array) else indices)
    return along(x, {normalized_axis(axis or 0, order): coordinates})


def along(x: Any, keys: dict[int, Any]) -> Array:
    """`x` indexed in some axes, from 0, and whole in the others."""
    arg = as_expression(x)
    return Array(_parted(arg, [keys.get(k, slice(None)) for k in range(len(arg.shape))]))


def flip(x: Any, /, *, axis: Any = None) -> Array:
    """The elements along some axes, or all if none is given, in reverse order."""
    order = len(as_expression(x).shape)
    axes = range(order) if axis is None else [normalized_axis(a, order) for a in listed(axis)]
    return along(x, dict.fromkeys(axes, slice(None, None, -1)))


# ------------------------------------------------------------------------ the least, the greatest


class Position(Expression):
    """The coordinate of each element in one mode, from 0."""

    __slots__ = ("axis",)

    def __init__(self, shape: tuple[int, ...], axis: int):
        self.shape, self.axis, self.args = shape, axis, ()
        self.values, self.static = unknown_values(types.Int64), (Position, axis)


@lowers(Position)
def _position(to: Lowering, node: Position, indices: tuple[ast.Node, ...]) -> ast.Node:
    return ast.Call(ast.Variable("-"), (value(indices[node.axis]), ONE))


def argmin(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Array:
    """The coordinate, from 0, of the first least element along an axis, or its place in row-major order if
    no axis is given; NaN counts as least. Raises ValueError for no elements."""
    return _place("minby", x, axis, keepdims)


def argmax(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Array:
    """The coordinate, from 0, of the first greatest element along an axis, or its place in row-major order
    if no axis is given; NaN counts as greatest. Raises ValueError for no elements."""
    return _place("maxby", x, axis, keepdims)


def _place(op: str, x: Any, axis: Any, keepdims: bool) -> Array:
    arg = as_expression(x)
    order = len(arg.shape)
    axes = range(order) if axis is None else (normalized_axis(axis, order),)
    if not all([arg.shape[k] for k in axes]):
        raise ValueError(f"{'argmin' if op == 'minby' else 'argmax'} of no elements has no value")
    _, result = _least(op, arg, axes)
    if arg.values.type.is_float:  # NaN is neither less nor greater than another
        result = apply("ifelse", *_least("maxby", apply("isnan", arg), axes), result)
    return Array(with_axes(result, tuple(axes), order) if keepdims else result)


def _least(op: str, arg: Expression, axes: Sequence[int]) -> tuple[Expression, Expression]:
    """The first least element by `op` over these axes, and its place in row-major order."""
    values, stride = arg, 1
    places: Expression = Constant(typed_literal(0, types.Int64))
    for k in reversed(axes):
        own: Expression = Position(values.shape, k)
        if k != axes[-1]:
            own = apply("+", apply("*", own, Constant(typed_literal(stride, types.Int64))), places)
        stride *= arg.shape[k]
        pair = types.pair_of(values.values.type, types.Int64)
        found = Reduce(op, Map("=>", (values, own), unknown_values(pair)), (k,))
        values = Map("first", (found,), unknown_values(pair.first))
        places = Map("last", (found,), unknown_values(types.Int64))
    return values, places
