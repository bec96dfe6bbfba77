"""Functions that give the modes of an array another order or new ones: views, of which nothing is
computed."""

from __future__ import annotations

from typing import Any

from finchlang.array.expression import Array, Expression, View
from finchlang.array.operands import as_expression
from finchlang.array.promotion import broadcast_shapes, normalized_axes, normalized_axis


def permute_dims(x: Any, /, axes: Any = None) -> Array:
    """The axes in another order; in the reverse one if none is given."""
    arg = as_expression(x)
    order = len(arg.shape)
    given = range(order)[::-1] if axes is None else axes
    found = tuple([normalized_axis(axis, order) for axis in given])
    if sorted(found) != list(range(order)):
        raise ValueError(f"{tuple(given)} are not the axes of {order} dimensions in some order")
    return Array(View(arg, found, tuple([arg.shape[axis] for axis in found])))


def transpose(x: Any, /, axes: Any = None) -> Array:
    """`permute_dims`, and what `x.T` is."""
    return permute_dims(x, axes)


def matrix_transpose(x: Any, /) -> Array:
    """The last two axes exchanged."""
    order = len(x.shape)
    if order < 2:
        raise ValueError("a matrix has at least two dimensions")
    return permute_dims(x, (*range(order - 2), order - 1, order - 2))


def moveaxis(x: Any, source: Any, destination: Any, /) -> Array:
    """Some axes at other places."""
    order = len(x.shape)
    sources, places = (
        [
            normalized_axis(a, order)
            for a in (given if isinstance(given, (tuple, list)) else [given])
        ]
        for given in (source, destination)
    )
    if len(sources) != len(places) or len({*sources}) + len({*places}) < 2 * len(sources):
        raise ValueError("moveaxis takes as many different places as different axes")
    axes = [axis for axis in range(order) if axis not in sources]
    for place, axis in sorted(zip(places, sources, strict=True)):
        axes.insert(place, axis)
    return permute_dims(x, axes)


def expand_dims(x: Any, /, axis: Any = 0) -> Array:
    """New axes of size 1 at these places of the result."""
    arg = as_expression(x)
    many = len(axis) if isinstance(axis, (tuple, list)) else 1
    return Array(
        with_axes(arg, normalized_axes(axis, len(arg.shape) + many), len(arg.shape) + many)
    )


def with_axes(arg: Expression, axes: tuple[int, ...], order: int) -> Expression:
    """`arg` with these axes of size 1 put in, in all `order`."""
    kept = iter(range(order))
    places = tuple([None if k in axes else next(kept) for k in range(order)])
    return View(arg, places, tuple([1 if p is None else arg.shape[p] for p in places]))


def squeeze(x: Any, /, axis: Any = None) -> Array:
    """Without these axes, which must be of size 1; without all of that size if none is given."""
    arg = as_expression(x)
    order = len(arg.shape)
    ones = tuple([k for k, size in enumerate(arg.shape) if size == 1])
    gone = ones if axis is None else normalized_axes(axis, order)
    if not set(gone) <= set(ones):
        raise ValueError(f"an array of shape {arg.shape} has no axes {gone} of size 1")
    kept = tuple([k for k in range(order) if k not in gone])
    return Array(View(arg, kept, tuple([arg.shape[k] for k in kept])))


def broadcast_to(x: Any, /, shape: Any) -> Array:
    """`x` repeated along axes of size 1, and new ones in front, up to a shape."""
    arg = as_expression(x)
    wanted = (shape,) if isinstance(shape, int) else tuple(shape)
    if broadcast_shapes(arg.shape, wanted) != wanted:
        raise ValueError(f"{arg.shape} does not broadcast to {wanted}")
    new = len(wanted) - len(arg.shape)
    return Array(View(arg, (*[None] * new, *range(len(arg.shape))), wanted))


def broadcast_arrays(*arrays: Any) -> list[Array]:
    """Arrays of the shape that all of them broadcast to."""
    shape = broadcast_shapes(*[as_expression(x).shape for x in arrays])
    return [broadcast_to(x, shape) for x in arrays]


def reshape(x: Any, /, shape: Any, *, copy: bool | None = None) -> Array:
    """Not supported but where axes of size 1 come and go. Raises TypeError."""
    arg = as_expression(x)
    wanted = (shape,) if isinstance(shape, int) else tuple(shape)
    longer = [size for size in arg.shape if size != 1]
    if -1 in wanted and [s for s in wanted if s not in (1, -1)] + [-1] in (
        longer[:-1] + [-1],
        [-1],
    ):
        wanted = tuple([longer[-1] if s == -1 and longer else abs(s) for s in wanted])
    if [size for size in wanted if size != 1] != longer:
        raise TypeError(f"reshape of {arg.shape} to {wanted} is not supported")
    axes = iter([k for k, size in enumerate(arg.shape) if size != 1])
    return Array(View(arg, tuple([None if size == 1 else next(axes) for size in wanted]), wanted))
