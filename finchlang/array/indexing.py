"""Indexing by integers, slices, new axes, masks and lists of coordinates, also to assign to parts, which
makes another array; and the coordinates of the least and the greatest elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from finchlang.algebra.index_arithmetic import plus
from finchlang.algebra.index_map import Wrapped, value
from finchlang.algebra.program_context import ONE
from finchlang.array import expression as lazy
from finchlang.array.compute import compute, dense_array, todense
from finchlang.array.creation import asarray
from finchlang.array.elementwise import astype, bitwise_and, named, where
from finchlang.array.inferred_values import unknown_values
from finchlang.array.operands import as_expression, operands
from finchlang.array.plan import levels_at
from finchlang.array.promotion import broadcast_shapes, normalized_axes, normalized_axis
from finchlang.array.reshaping import broadcast_to, raveled, reshape, reshaped, with_axes
from finchlang.levels.level import level_of
from finchlang.syntax import nodes as ast, types
from finchlang.tensors.adopt import as_tensor
from finchlang.tensors.array_base import ArrayMethods, is_whole
from finchlang.tensors.convert import taken
from finchlang.tensors.tensor import SwizzledTensor, Tensor

__all__ = ["argmax", "argmin", "flip", "take"]

NOT_CHANGED = "arrays are not changed in place: `where` makes others"
ALL, AT, SLICE, LISTED, TAKEN = "all", "at", "slice", "listed", "taken"


class ModeIndex(NamedTuple):
    """How a mode is indexed: AT a coordinate, by a list, or by a slice, whose `kind` is its step. Its
    bounds, from 1, are numbers of the part, by their places, with what is added; `size` is that of a
    slice, and comes from a mode of a node."""

    kind: Any
    bounds: tuple[tuple[int, int], ...]
    size: int
    origin: Any = None


#: of each mode; None for one that stays whole
Windows = Sequence[ModeIndex | None]


class IndexedPart(lazy.Expression):
    """A part of the first argument. For each of its modes, `windows` says how it is indexed, and `places`
    which mode of the result it becomes, None for an integer. The other arguments are the lists of
    coordinates, in order of modes."""

    def __init__(
        self,
        args: tuple[lazy.Expression, ...],
        windows: Windows,
        places: tuple[int | None, ...],
        numbers: tuple[int, ...],
        shape: tuple[int, ...],
    ):
        self.args, self.windows, self.places, self.numbers = args, windows, places, numbers
        self.shape, self.values = shape, args[0].values
        self.static = IndexedPart, tuple([w and w[:2] for w in windows]), places, len(shape)

    def inwards(self, planner: Any) -> lazy.Expression:
        """The part taken inside of reductions that are for it alone; of slices and integers, since lists
        may take an element again and again."""
        (arg, *lists), pairs = self.args, zip(self.windows, self.places, strict=True)
        windows = [window and window._replace(origin=(self, place)) for window, place in pairs]
        if lists or any([w is not None and w.kind != AT and w.kind < 0 for w in windows]):
            return self
        found = self._inside(arg, windows, planner)
        if isinstance(found, IndexedPart) and found.args == self.args:
            return self
        own = tuple([place for place in self.places if place is not None])
        if own == tuple(range(len(self.shape))):
            return found
        return lazy.View(found, own, self.shape, planner.places_of(self))

    def _inside(self, node: lazy.Expression, windows: Windows, planner: Any) -> lazy.Expression:
        """The part of a node, taken inside of reductions that are for it alone."""
        part = windowed(node, windows, self, planner)
        if part is node or planner.is_whole(node):
            return part
        if isinstance(node, lazy.Map):
            args = [self._inside(arg, windows, planner) if arg.shape else arg for arg in node.args]
            new = copy(node)
            new.args, new.shape = tuple(args), part.shape
            return new
        if isinstance(node, lazy.Reduce):
            rest = iter(windows)
            own = [None if k in node.axes else next(rest) for k in range(len(node.args[0].shape))]
            arg, kept = self._inside(node.args[0], own, planner), kept_modes(own)
            found = lazy.Reduce(node.op, arg, tuple([kept.index(k) for k in node.axes]))
            return found if found.values is node.values else part
        if type(node) is lazy.View:
            own = [None if place is None else windows[place] for place in node.places]
            arg, kept = self._inside(node.args[0], own, planner), kept_modes(windows)
            places = [p if p is None else kept.index(p) for p in node.places if p in (None, *kept)]
            return lazy.View(arg, tuple(places), part.shape, part.origins)
        return part

    def lower(self, to: Any, indices: tuple[ast.Node, ...]) -> ast.Node:
        arg, *lists = self.args
        others, own = iter(lists), list[ast.Node]()
        for window, place in zip(self.windows, self.places, strict=True):
            index = ONE if place is None else indices[place]
            if window is not None and window.kind == LISTED:
                index = to.value(next(others), (index,))
            elif window is not None:
                first, *last = [plus(to.number(self, k), ast.Literal(n)) for k, n in window.bounds]
                step = None if window.kind == 1 else ast.Literal(window.kind)
                slices = [Wrapped("window", ast.Extent(first, end, step), index) for end in last]
                index = slices[0] if slices else first
            own.append(index)
        return to.value(arg, tuple(own))


def kept_modes(windows: Windows) -> list[int]:
    """The modes that are left."""
    return [k for k, window in enumerate(windows) if window is None or window.kind != AT]


def windowed(
    node: lazy.Expression, windows: Windows, source: lazy.Expression, planner: Any
) -> lazy.Expression:
    """The part of a node in windows whose bounds are numbers of a source."""
    if not any(windows):
        return node
    kept = kept_modes(windows)
    places = tuple([kept.index(k) if k in kept else None for k in range(len(windows))])
    own = [windows[k] or ModeIndex(1, (), node.shape[k], (node, k)) for k in kept]
    shape = tuple([window.size for window in own])
    part = IndexedPart((node,), windows, places, source.numbers, shape)
    part.origins = [planner.place(*window.origin) for window in own]
    planner.sources[planner.number(part)] = planner.source(source)
    return part


def getitem(x: Any, key: Any) -> lazy.Array:
    """`x[key]` as NumPy has it: integers, slices, `...`, None for a new axis, masks, and lists or arrays of
    integers, which broadcast; a Bool alone for a new axis of size 1 or 0. Masks and lists are computed at
    once, and so is a sparse array at lists that do not go together. Raises IndexError for an index out of
    range, too many indices, lists that do not broadcast or a mask of another shape, TypeError for another
    kind of index."""
    arg = as_expression(x)
    if is_mask(key) and not np.ndim(key):
        whole = lazy.Array(with_axes(arg, (0,), len(arg.shape) + 1))
        return along(whole, {0: slice(0, int(bool(key)))})
    return lazy.Array(_parted(arg, in_each_axis(key, len(arg.shape))))


def in_each_axis(key: Any, order: int) -> list[Any]:
    """The indices of `x[key]` for an array of `order` dimensions, with `:` where `...` stands and at the
    end; `...` itself is left if it stands for no axes. Raises IndexError for too many, TypeError for a
    Bool."""
    keys = list(key) if isinstance(key, tuple) else [key]
    for one in keys:
        if is_mask(one) and not np.ndim(one):
            raise _no_index(one)
    orders = [np.ndim(k) if is_mask(k) else int(k is not None and k is not Ellipsis) for k in keys]
    named, dots = sum(orders), [n for n, k in enumerate(keys) if k is Ellipsis]
    if len(dots) > 1 or named > order:
        raise IndexError(f"{named} indices of an array of {order} dimensions, or `...` twice")
    at = dots[0] if dots else len(keys)
    whole: list[Any] = [slice(None)] * (order - named)
    keys[at : at + 1] = whole or [Ellipsis] * len(dots)
    return keys


def _parted(arg: lazy.Expression, keys: list[Any]) -> lazy.Expression:
    """`arg` indexed in each axis; `...` only divides lists from each other."""
    given: list[tuple[Any, Any]] = []  # each axis: the kind of its index, and that
    for key in keys:
        axis = sum([kind is not None for kind, _ in given])
        if key is None or key is Ellipsis:
            given.append((None, key))
        elif isinstance(key, slice):
            given.append((SLICE, _slice(key, arg.shape[axis])))
        elif hasattr(key, "__index__") and not getattr(key, "shape", ()):
            given.append((AT, _coordinate(key, arg.shape[axis], axis) + 1))
        elif is_mask(key):
            found = _where(key, arg.shape, axis)
            given += [(LISTED, coordinates + 1) for coordinates in found]
        else:
            given.append((LISTED, _coordinates(key, arg.shape[axis], axis)))
    lists = [index for kind, index in given if kind == LISTED]
    try:
        common = broadcast_shapes(*[index.shape for index in lists])
    except ValueError:
        told = ", ".join([str(index.shape) for index in lists])
        raise IndexError(f"lists of indices of shapes {told} do not broadcast") from None
    return _joined(arg, given, common)


def _joined(
    arg: lazy.Expression, given: list[tuple[Any, Any]], common: tuple[int, ...]
) -> lazy.Expression:
    """The part for indices whose lists broadcast to a `common` shape. Lists of which each has an axis of
    its own (`np.ix_`) are modes of their own, others are one mode that they go through together."""
    lists = [index for kind, index in given if kind == LISTED]
    numbered = [enumerate(index.shape, len(common) - index.ndim) for index in lists]
    own = [[k for k, n in axes if n != 1] for axes in numbered]
    is_apart = sum(map(len, own)) == len({*sum(own, [])}) and max(map(len, own), default=0) <= 1
    own = own if is_apart or len(lists) > 1 else [[0]]
    if (is_apart or len(lists) == 1) and (left := _taken(arg, given, own)) is not None:
        arg, given = left
    block = [*common] if is_apart else [math.prod(common)]
    # where the axes of lists are: at the first if they (and integers) stand together, else in front
    marks = [n for n, (kind, _) in enumerate(given) if kind in (LISTED, TAKEN, AT)] * bool(lists)
    is_together = bool(marks) and marks[-1] - marks[0] + 1 == len(marks)
    before = given[: marks[0]] if is_together else []
    start = sum([index is not Ellipsis for _, index in before])
    modes: list[Any] = []  # the window and place of each
    numbers = list[int]()
    turned: list[int] = []  # the modes of slices that go down
    args = [arg]
    shape: list[int] = [*block] if lists and not start else []
    for kind, index in given:
        if lists and start and len(shape) == start:
            shape += block
        if kind is None:
            shape += [1] if index is None else []
            continue
        if kind in (LISTED, TAKEN):
            axes = own.pop(0)
            if kind == TAKEN:
                kind, place, bounds = ALL, start + axes[0], []
            elif is_apart and not axes:  # one coordinate
                kind, place, bounds = AT, None, [int(index.reshape(-1)[0])]
            else:
                place, bounds = start + (axes[0] if is_apart else 0), []
                index = index if is_apart else np.broadcast_to(index, common)
                args.append(as_expression(np.ascontiguousarray(index.reshape(-1))))
        elif kind == AT:
            place, bounds = None, [index]
        else:
            (kind, bounds, length), place = index, len(shape)
            shape.append(length)
            if kind != ALL and kind < 0 and _is_listed(arg, len(modes)):
                kind, bounds = -kind, bounds[::-1]
                turned.append(place)
        at = tuple([(len(numbers) + k, 0) for k in range(len(bounds))])
        window = None if kind == ALL else ModeIndex(kind, at, [1, *shape][-1])
        modes.append((window, place))
        numbers += bounds
    shape += block if lists and start and len(shape) == start else []
    windows, places = (tuple([mode[k] for mode in modes]) for k in (0, 1))
    part = arg
    if any(windows):
        part = IndexedPart(tuple(args), windows, places, tuple(numbers), tuple(shape))
    elif places != tuple(range(len(shape))):  # which the planner sees through
        part = lazy.View(arg, places, tuple(shape))
    part = lazy.Reversed(part, tuple(turned)) if turned else part
    if not lists or is_apart or len(common) == 1:
        return part
    return reshaped(part, (*shape[:start], *common, *shape[start + 1 :]))


def _is_listed(arg: lazy.Expression, mode: int) -> bool:
    """Whether a mode may be one that lists entries, where those at coordinates that go down would each be
    searched for."""
    if not arg.values.is_fill or not isinstance(arg, lazy.Leaf):
        return arg.values.is_fill
    levels = levels_at(arg.static.format, range(len(arg.shape)))
    return not all([level.is_dense for own, level in levels if own == mode])


def _taken(arg: lazy.Expression, given: list[Any], own: list[list[int]]) -> Any:
    """A sparse operand with its parts at lists that are modes of their own, and the indices that are left,
    where these are TAKEN; None for a dense one. What is not computed yet is so now."""
    if not (arg.values.is_fill and any(own)):
        return None
    tensor: Any = as_tensor(arg.value) if isinstance(arg, lazy.Leaf) else compute(lazy.Array(arg))
    if not isinstance(tensor, (Tensor, SwizzledTensor)) or is_whole(level_of(tensor.format)):
        return None
    axes, left, lists = iter(own), list[Any](), dict[int, np.ndarray]()
    for kind, index in given:
        is_taken = kind == LISTED and bool(next(axes))
        if is_taken:
            lists[sum([k is not None for k, _ in left])] = index.reshape(-1) - 1
        left.append((TAKEN, index) if is_taken else (kind, index))
    return as_expression(taken(tensor, lists)), left


def _slice(key: slice, size: int) -> tuple[Any, list[int], int]:
    """The step of a slice, or ALL, its first and last coordinates from 1, and its length."""
    start, stop, step = key.indices(size)
    length = len(range(start, stop, step))
    step = step if length > 1 else 1  # steps are in the program: fewer programs
    if (start, step, length) == (0, 1, size):
        return ALL, [], length
    last = start + (length - 1) * step
    return step, [start + 1, last + 1], length


def _coordinate(key: Any, size: int, axis: int) -> int:
    number = key.__index__()
    if not -size <= number < size:
        raise IndexError(f"index {number} is out of range of axis {axis} of size {size}")
    return number % size


def _coordinates(key: Any, size: int, axis: int) -> np.ndarray:
    """Integers as coordinates, counted from 1. Raises IndexError if one is out of range."""
    found = np.asarray(todense(key) if isinstance(key, ArrayMethods) else key)
    if found.dtype.kind not in "iu" and found.size:
        raise _no_index(key)
    found = found.astype(np.int64)
    if found.size and not (found.min() >= -size and found.max() < size):
        raise IndexError(f"an index is out of range of axis {axis} of size {size}")
    return np.where(found < 0, found + size, found) + 1


def _no_index(key: Any) -> TypeError:
    what = "an integer, a slice, a mask or a list of integers"
    return TypeError(f"an axis is indexed by {what}, not {key!r}")


def _where(mask: Any, shape: tuple[int, ...], axis: int) -> tuple[np.ndarray, ...]:
    """The coordinates where a mask of some axes, from `axis` on, is true, in row-major order. The mask is
    computed at once, by what it stores if its fill is False."""
    given = np.asarray(mask) if isinstance(mask, (list, bool)) else mask
    wanted = shape[axis : axis + len(given.shape)]
    if any([m not in (n, 0) for m, n in zip(given.shape, wanted, strict=True)]):
        of = "an array" if wanted == shape else f"axes from {axis} on"
        raise IndexError(f"a mask of shape {given.shape} of {of} of shape {wanted}")
    if isinstance(given, np.ndarray):
        return np.nonzero(given)
    found: Any = compute(lazy.Array(as_expression(given)))
    if found.fill:
        return np.nonzero(todense(found))
    coordinates, values = found.entries()
    rows = coordinates[:, values]
    return tuple(rows[:, np.lexsort(rows[::-1])])


def is_mask(key: Any) -> bool:
    """Whether an index is a Bool or an array or list of these."""
    if isinstance(key, (list, bool)):
        key = np.asarray(key)
    return getattr(key, "dtype", None) == np.bool_


def take(x: Any, indices: Any, /, *, axis: int | None = None) -> lazy.Array:
    """The parts of `x` at these coordinates of an axis, from 0, or of all elements in row-major order.
    Raises IndexError for a coordinate out of range."""
    arg = as_expression(x)
    if axis is None:
        arg, axis = raveled(arg), 0
    coordinates = np.asarray(todense(indices) if isinstance(indices, ArrayMethods) else indices)
    return along(lazy.Array(arg), {normalized_axis(axis, len(arg.shape)): coordinates})


def along(x: Any, keys: dict[int, Any]) -> lazy.Array:
    """`x` indexed in some axes, from 0, and whole in the others."""
    arg = as_expression(x)
    return lazy.Array(_parted(arg, [keys.get(k, slice(None)) for k in range(len(arg.shape))]))


def flip(x: Any, /, *, axis: Any = None) -> lazy.Array:
    """The elements along some axes, or all if none is given, in reverse order."""
    axes = normalized_axes(axis, len(as_expression(x).shape))
    return along(x, dict.fromkeys(axes, slice(None, None, -1)))


# ------------------------------------------------------------------------------------ assignment


def setitem(x: Any, key: Any, value: Any) -> None:
    """`x[key] = value` of a lazy array, which is computed at once: its operands, and expressions that were
    made of it before, do not change. The key has integers, slices, `...` and at most one list or mask of
    an axis, or it is a mask of the shape of `x`; the value broadcasts to the part. Raises TypeError for
    other keys, for other arrays than lazy ones, and for a value that is not cast to the type of `x`;
    ValueError for a value of another shape; IndexError as `x[key]`."""
    if type(x) is not lazy.Array:
        raise TypeError(NOT_CHANGED)
    given = _cast(value, x)
    if is_mask(key) and np.shape(key) == x.shape:
        inside, spread = key, given if not given.shape else _in_order(given, key)
    else:
        inside, spread = _spread(given, in_each_axis(key, len(x.shape)), x.shape)
    if spread is not None:
        changed = spread if inside is None else where(inside, spread, x)
        x.node = as_expression(compute(changed))


def _in_order(given: lazy.Array, mask: Any) -> lazy.Array | None:
    """An array that has the values given where a mask is true, in row-major order; None if that is
    nowhere."""
    counts = np.cumsum(dense_array(mask))
    values = broadcast_to(given, (counts[-1:].sum(),))
    places = np.maximum(counts - 1, 0)
    return reshape(along(values, {0: places}), np.shape(mask)) if values.shape[0] else None


def _cast(value: Any, x: lazy.Array) -> lazy.Array:
    """A number or array in the type of `x`."""
    try:
        given = lazy.Array(operands(value, x)[0])
    except TypeError:  # a list
        given = asarray(value)
    if x.dtype != np.bool_ and not np.can_cast(given.dtype, x.dtype, "same_kind"):
        raise TypeError(f"a value of {given.dtype} is not cast to {x.dtype}: `astype` converts it")
    return astype(given, x.dtype)


def _spread(given: lazy.Array, keys: list[Any], shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Where the part of an array of this shape is, None if it is all of it; and an array that has in the
    part the values given, None if the part has no elements."""
    keys = [key for key in keys if key is not Ellipsis]
    at_once = [axis for axis, key in enumerate(keys) if not isinstance(key, slice)]
    lists = [axis for axis in at_once if keys[axis] is None or np.ndim(keys[axis])]
    is_apart = bool(lists) and at_once[-1] - at_once[0] >= len(at_once)
    if len(lists) > 1 or is_apart or any([np.ndim(keys[axis]) != 1 for axis in lists]):
        what = "integers, slices, `...`, and a list or mask of an axis next to the integers"
        raise TypeError(f"a part is assigned at {what}: `where` takes any mask")
    order, masks, places = len(shape), list[Any](), dict[int, Any]()
    part, integers = list[int](), list[int]()
    for axis, (key, size) in enumerate(zip(keys, shape, strict=True)):
        at = np.arange(size)[key.todense() if isinstance(key, lazy.Array) else key]
        place = np.full(size, -1)
        place[at] = np.arange(at.size).reshape(at.shape)
        if not at.ndim:
            integers.append(axis)
        else:
            part.append(at.size)
            if np.array_equal(at, np.arange(size)):
                continue
            places[axis] = np.maximum(place, 0)
        flags = as_expression(asarray(place >= 0, fill_value=False))
        others = tuple([k for k in range(order) if k != axis])
        masks.append(lazy.Array(with_axes(flags, others, order)))
    values = broadcast_to(given, part).node
    if 0 in part:
        return None, None
    spread = lazy.Array(with_axes(values, tuple(integers), order))
    for axis, place in places.items():
        spread = along(spread, {axis: place})
    return reduce(bitwise_and, masks) if masks else None, spread


# ------------------------------------------------------------------------ the least, the greatest


class Position(lazy.Expression):
    """The coordinate of each element in one mode, from 0."""

    def __init__(self, shape: tuple[int, ...], axis: int):
        self.shape, self.axis, self.args = shape, axis, ()
        self.values, self.static = unknown_values(types.Int64), (Position, axis)

    def lower(self, to: Any, indices: tuple[ast.Node, ...]) -> ast.Node:
        return ast.call("-", value(indices[self.axis]), ONE)


def _place(name: str, op: str, which: str) -> Callable[..., lazy.Array]:
    def function(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> lazy.Array:
        arg = as_expression(x)
        order = len(arg.shape)
        axes = range(order) if axis is None else (normalized_axis(axis, order),)
        if not all([arg.shape[k] for k in axes]):
            raise ValueError(f"{name} of no elements has no value")
        over = axes
        if axis is None and isinstance(arg, lazy.Leaf) and arg.values.is_fill:
            # a run of fills is one step, whatever the order of the modes in storage
            arg, over = raveled(arg), (0,)
        _, result = _least(op, arg, over)
        if arg.values.type.is_float:  # NaN is neither less nor greater than another
            result = lazy.apply("ifelse", *_least("maxby", lazy.apply("isnan", arg), over), result)
        return lazy.Array(with_axes(result, tuple(axes), order) if keepdims else result)

    doc = f"""The coordinate, from 0, of the first {which} element along an axis, or its place in row-major
    order if no axis is given; NaN counts as {which}. Raises ValueError for no elements."""
    return named(function, name, doc)


argmin, argmax = _place("argmin", "minby", "least"), _place("argmax", "maxby", "greatest")


def _least(
    op: str, arg: lazy.Expression, axes: Sequence[int]
) -> tuple[lazy.Expression, lazy.Expression]:
    """The first least element by `op` over these axes, and its place in row-major order."""
    values, stride = arg, 1
    places: lazy.Expression = lazy.constant(0, types.Int64)
    for k in reversed(axes):
        own: lazy.Expression = Position(values.shape, k)
        if k != axes[-1]:
            scaled = lazy.apply("*", own, lazy.constant(stride, types.Int64))
            own = lazy.apply("+", scaled, places)
        stride *= arg.shape[k]
        pair = types.pair_of(values.values.type, types.Int64)
        found = lazy.Reduce(op, lazy.Map("=>", (values, own), unknown_values(pair)), (k,))
        values = lazy.Map("first", (found,), unknown_values(pair.first))
        places = lazy.Map("last", (found,), unknown_values(types.Int64))
    return values, places
