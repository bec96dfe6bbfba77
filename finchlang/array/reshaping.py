"""Transposing, adding and removing axes, broadcasting and reshaping: views, which compute nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from copy import deepcopy
from operator import index
from typing import Any

import numpy as np

from finchlang.algebra.index_map import HalfIndex, Joined
from finchlang.algebra.program_context import ONE
from finchlang.array import expression as lazy
from finchlang.array.operands import as_expression
from finchlang.array.promotion import broadcast_shapes, listed, normalized_axes, normalized_axis
from finchlang.syntax.nodes import Node, call

__all__ = ["broadcast_arrays", "broadcast_to", "expand_dims", "matrix_transpose", "moveaxis"]
__all__ += ["permute_dims", "ravel", "reshape", "squeeze", "swapaxes", "transpose"]


def permute_dims(x: Any, /, axes: Any = None) -> lazy.Array:
    """Axis k of the result is axis `axes[k]`, in reverse if None. Raises ValueError for no permutation."""
    arg = as_expression(x)
    order = len(arg.shape)
    given = range(order)[::-1] if axes is None else axes
    found = tuple([normalized_axis(axis, order) for axis in given])
    if sorted(found) != list(range(order)):
        raise ValueError(f"{tuple(given)} are not the axes of {order} dimensions in some order")
    places = tuple([found.index(axis) for axis in range(order)])
    return lazy.Array(lazy.View(arg, places, tuple([arg.shape[axis] for axis in found])))


transpose = permute_dims  # under NumPy's name


def matrix_transpose(x: Any, /) -> lazy.Array:
    """The last two axes exchanged. Raises ValueError for fewer than two dimensions."""
    if len(as_expression(x).shape) < 2:
        raise ValueError("a matrix has at least two dimensions")
    return swapaxes(x, -2, -1)


def moveaxis(x: Any, source: Any, destination: Any, /) -> lazy.Array:
    """The axes `source` moved to the places `destination`, the others in their order."""
    order = len(as_expression(x).shape)
    given = source, destination
    sources, places = ([normalized_axis(a, order) for a in listed(axes)] for axes in given)
    if len(sources) != len(places) or len({*sources}) + len({*places}) < 2 * len(sources):
        raise ValueError("moveaxis takes as many different places as different axes")
    axes = [axis for axis in range(order) if axis not in sources]
    for place, axis in sorted(zip(places, sources, strict=True)):
        axes.insert(place, axis)
    return permute_dims(x, axes)


def swapaxes(x: Any, axis1: int, axis2: int, /) -> lazy.Array:
    """Two axes exchanged."""
    axes = [*range(len(as_expression(x).shape))]
    first, second = normalized_axis(axis1, len(axes)), normalized_axis(axis2, len(axes))
    axes[first], axes[second] = second, first
    return permute_dims(x, axes)


def expand_dims(x: Any, /, axis: Any = 0) -> lazy.Array:
    """`x` with new axes of size 1 at these places of the result."""
    arg = as_expression(x)
    order = len(arg.shape) + len(listed(axis))
    return lazy.Array(with_axes(arg, normalized_axes(axis, order), order))


def with_axes(arg: lazy.Expression, axes: tuple[int, ...], order: int) -> lazy.Expression:
    """`arg` as an expression of `order` modes, with new ones of size 1 at `axes`."""
    sizes = iter(arg.shape)
    shape = tuple([1 if k in axes else next(sizes) for k in range(order)])
    return lazy.View(arg, tuple([k for k in range(order) if k not in axes]), shape)


def squeeze(x: Any, /, axis: Any = None) -> lazy.Array:
    """`x` without these axes of size 1, or all of them. Raises ValueError for an axis of another size."""
    arg = as_expression(x)
    order = len(arg.shape)
    ones = tuple([k for k, size in enumerate(arg.shape) if size == 1])
    gone = ones if axis is None else normalized_axes(axis, order)
    if not set(gone) <= set(ones):
        raise ValueError(f"an array of shape {arg.shape} has no axes {gone} of size 1")
    kept = [k for k in range(order) if k not in gone]
    places = tuple([kept.index(k) if k in kept else None for k in range(order)])
    return lazy.Array(lazy.View(arg, places, tuple([arg.shape[k] for k in kept])))


def broadcast_to(x: Any, /, shape: Any) -> lazy.Array:
    """`x` repeated along axes of size 1 and new ones in front. Raises ValueError if it does not fit."""
    arg = as_expression(x)
    wanted = sizes_of(shape, "broadcast to")
    if broadcast_shapes(arg.shape, wanted) != wanted:
        raise ValueError(f"{arg.shape} does not broadcast to {wanted}")
    return lazy.Array(lazy.broadcast(arg, wanted))


def broadcast_arrays(*arrays: Any) -> list[lazy.Array]:
    """The arrays, broadcast to a common shape."""
    shape = broadcast_shapes(*[as_expression(x).shape for x in arrays])
    return [broadcast_to(x, shape) for x in arrays]


# ----------------------------------------------------------------------------------------- reshape

#: the greatest size of an axis
MOST = 1 << 62


def joined(indices: Sequence[Node], sizes: Sequence[Node]) -> Node:
    """The index of the mode that joins modes of these sizes in row-major order."""
    found, *rest = indices
    for place, size in zip(rest, sizes[1:], strict=True):
        found = Joined(place, found, size)
    return found


def divided(index: Node, sizes: Sequence[Node]) -> list[Node]:
    """The indices of modes of these sizes, of the `index` of the mode that joins them."""
    found: list[Node] = []
    for k in range(len(sizes) - 1, 0, -1):
        parts = sizes[k], sizes[0] if k == 1 else call("*", *sizes[:k])
        found.append(HalfIndex(index, *parts, True))
        index = HalfIndex(index, *parts, False)
    return [index, *reversed(found)]


#: modes of the argument, and the modes of the result with the same elements in row-major order
Group = tuple[tuple[int, ...], tuple[int, ...]]


class Reshape(lazy.Expression):
    """The argument's elements in row-major order in another shape. Each `Group` is reshaped by itself; a
    mode of size 1 is in none."""

    def __init__(self, arg: lazy.Expression, groups: tuple[Group, ...], shape: tuple[int, ...]):
        self.args, self.groups, self.shape, self.values = (arg,), groups, shape, arg.values
        self.static = Reshape, groups, len(shape)

    def lower(self, to: Any, indices: tuple[Node, ...]) -> Node:
        (arg,) = self.args
        own: list[Node] = [ONE] * len(arg.shape)
        for modes, places in self.groups:
            flat = joined([indices[k] for k in places], [to.size(self, k) for k in places])
            parts = divided(flat, [to.size(arg, k) for k in modes])
            for mode, part in zip(modes, parts, strict=True):
                own[mode] = part
        return to.value(arg, tuple(own))


def reshaped(arg: lazy.Expression, shape: tuple[int, ...]) -> lazy.Expression:
    """`arg` in another shape with as many elements: a NumPy array by NumPy if that needs no copy, a View if
    only modes of size 1 change, else a Reshape. Raises ValueError for an axis that is too large."""
    if isinstance(arg, Reshape):
        (arg,) = arg.args
    if arg.shape == shape:
        return arg
    if 0 in shape:
        return lazy.Constant(arg.values.fill, shape)
    if max(shape, default=0) > MOST:
        raise ValueError(f"{arg.shape} is not reshaped to {shape}: an axis has 2^62 places at most")
    if isinstance(arg, lazy.Leaf) and isinstance(arg.value, np.ndarray):
        with suppress(ValueError):  # its strides do not allow it
            return as_expression(np.reshape(arg.value, shape, copy=False))
    groups = _groups(arg.shape, shape)
    if all([len(modes) == len(places) == 1 for modes, places in groups]):
        found = {mode: place for (mode,), (place,) in groups}
        return lazy.View(arg, tuple([found.get(k) for k in range(len(arg.shape))]), shape)
    return Reshape(arg, groups, shape)


def _groups(old: tuple[int, ...], new: tuple[int, ...]) -> tuple[Group, ...]:
    """The smallest groups of modes that are reshaped by themselves; modes of size 1 are in none."""
    modes, places = ([k for k, size in enumerate(s) if size != 1] for s in (old, new))
    found: list[Group] = []
    while modes:
        m, n = old[modes[0]], new[places[0]]
        first = second = 1
        while m != n:
            if m < n:
                m, first = m * old[modes[first]], first + 1
            else:
                n, second = n * new[places[second]], second + 1
        found.append((tuple(modes[:first]), tuple(places[:second])))
        modes, places = modes[first:], places[second:]
    return tuple(found)


def reshape(x: Any, /, shape: Any, *, order: str = "C", copy: bool | None = None) -> lazy.Array:
    """The elements in row-major order (column-major with `order="F"`) in another shape, where -1 is what is
    left. An operand is copied if `copy` is true. Raises ValueError for another number of elements."""
    arg = as_expression(x)
    if order not in ("C", "F", "A"):
        raise ValueError(f"the order of a reshape is 'C' or 'F', not {order!r}")
    wanted = _wanted(arg.shape, sizes_of(shape))
    if copy and isinstance(arg, lazy.Leaf):
        arg = as_expression(deepcopy(arg.value))
    if order == "F":
        return permute_dims(lazy.Array(reshaped(permute_dims(lazy.Array(arg)).node, wanted[::-1])))
    return lazy.Array(reshaped(arg, wanted))


def sizes_of(shape: Any, what: str = "") -> tuple[int, ...]:
    """A shape given as an integer or as several. Raises TypeError for a size that is no integer, ValueError
    for one that is too large, or if it is told `what` the shape is of, negative."""
    with suppress(TypeError):
        shape = (index(shape),)
    try:
        found = tuple([index(size) for size in shape])
    except TypeError:
        raise TypeError(f"sizes are integers, not {shape}") from None
    if max(found, default=0) > MOST:
        raise ValueError(f"shape {found}: an axis has 2^62 places at most")
    if what and min(found, default=0) < 0:
        raise ValueError(f"{what} {found}: a size is not negative")
    return found


def _wanted(old: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with -1 replaced by the size that is left. Raises ValueError for another size."""
    new = [*shape]
    if any([size < -1 for size in new]):
        raise ValueError(f"reshape to {shape}: a size is not negative")
    if new.count(-1) > 1:
        raise ValueError(f"reshape to {shape}: only one size can be -1")
    total = math.prod(old)
    if -1 in new:
        others = math.prod([size for size in new if size != -1])
        new[new.index(-1)] = total // others if others else -1
    if math.prod(new) != total or -1 in new:
        message = f"an array of shape {old} has {total} elements, and is not reshaped to {shape}"
        raise ValueError(message)
    return tuple(new)


def ravel(x: Any, /, order: str = "C") -> lazy.Array:
    """All elements as a vector, in row-major order (column-major with `order="F"`)."""
    return reshape(x, -1, order=order)


def raveled(arg: lazy.Expression) -> lazy.Expression:
    """All elements as a vector, in row-major order."""
    return reshaped(arg, (math.prod(arg.shape),))
