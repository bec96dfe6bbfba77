"""Arrays made of parts of others: joined, stacked, repeated, rolled; diagonals and triangles."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Any

import numpy as np

from finchlang.algebra.index_arithmetic import ZERO, plus
from finchlang.algebra.index_map import HalfIndex, Wrapped, moved, value
from finchlang.algebra.program_context import ONE
from finchlang.array import expression as lazy, reshaping
from finchlang.array.compute import todense
from finchlang.array.elementwise import named, number
from finchlang.array.expression import Array, plain
from finchlang.array.indexing import IndexedPart, ModeIndex, along, take, windowed
from finchlang.array.inferred_values import Values, op_node, unknown_values, values_of
from finchlang.array.logical.form import Factor
from finchlang.array.operands import as_expression, operands
from finchlang.array.plan import loops_of
from finchlang.array.products import tensordot
from finchlang.array.promotion import integer, listed, normalized_axis
from finchlang.syntax.nodes import Access, Call, Extent, Index, Literal, Node, call
from finchlang.syntax.types import Bool, foreign
from finchlang.tensors.formats import MODES

__all__ = ["block", "column_stack", "concat", "diagonal", "dstack", "hstack", "kron", "repeat"]
__all__ += ["roll", "stack", "tile", "tril", "triu", "unstack", "vstack"]


class Concat(lazy.Expression):
    """Arrays one after the other along an axis. `numbers` are the offsets of the parts, then the total
    size."""

    joined: int

    def __init__(self, parts: list[lazy.Expression], axis: int):
        sizes = [part.shape[axis] for part in parts]
        self.joined, self.numbers = axis, (0, *accumulate(sizes))
        first = parts[0].shape
        self.shape = (*first[:axis], self.numbers[-1], *first[axis + 1 :])
        self.args, self.values, self.static = (*parts,), _values_of_parts(parts), (Concat, axis)

    def piece(self, k: int, factor: Factor, label: int, own: int, planner: Any) -> Factor:
        """What a factor has along a label where the k-th array is, at a label of its own."""
        (node, labels), part = factor, self.args[k]
        at = [mode for mode, one in enumerate(labels) if one == label]
        if isinstance(node, Concat) and node.numbers == self.numbers and at == [node.joined]:
            node = node.args[k]
        else:
            size = part.shape[self.joined]
            window = ModeIndex(1, ((k, 1), (k + 1, 0)), size, (part, self.joined))
            node = windowed(node, [window if n == label else None for n in labels], self, planner)
        return Factor(node, tuple([own if n == label else n for n in labels]))

    def lower(self, to: Any, indices: tuple[Node, ...]) -> Node:
        index, last = indices[self.joined], len(self.args) - 1
        if len(loops_of(index)) > 1 or isinstance(_first(index), HalfIndex):
            # where several loops go over the axis, or a part of one, cases would multiply: it is stored
            return super().lower(to, indices)
        # comparing a loop's own index splits the loop: rows of two CSR matrices are stacked in 5 ms, not 34
        place, shift = moved(index) or (value(index), ZERO)
        total = to.number(self, last + 1)
        found: Node = plain(self.values.fill)
        for k in reversed(range(last + 1)):
            part = self.args[k]
            read = [n for n in lazy.nodes_of(part, lazy.Reduce) if isinstance(n, IndexedPart)]
            if any([len(node.args) > 1 for node in read]):  # listed coordinates must not be missing
                to.tensor(part)
            own = _beyond(index, to.number(self, k) if k else Literal(0), total)
            element = to.value(part, (*indices[: self.joined], own, *indices[self.joined + 1 :]))
            if k < last:
                is_here = call("<=", place, plus(to.number(self, k + 1), shift, -1))
                element = call("ifelse", is_here, element, found)
            found = element
        return found


def _values_of_parts(parts: list[lazy.Expression]) -> Values:
    """The whole has the fill of the parts if all but constants have the same one."""
    sparse = [part for part in parts if type(part) is not lazy.Constant] or parts
    fills = [part.values.fill for part in sparse if part.values.is_fill]
    if fills and fills.count(fills[0]) == len(fills):
        return values_of(fills[0], True)
    return unknown_values(parts[0].values.type)


def _beyond(index: Node, shift: Node, size: Node) -> Node:
    """index - shift, for an index from 1 to `size`; out of the operand's range the read is `missing`."""
    if isinstance(index, Index):
        inner = Wrapped("offset", plus(ZERO, shift, -1), index)
    else:
        inner = Wrapped("window", Extent(plus(ONE, shift, -1), plus(size, shift, -1)), index)
    return Wrapped("permissive", Literal(True), inner)


def _first(index: Node) -> Node:
    """An index without the permissive wrappers around it."""
    while isinstance(index, Wrapped) and index.wrapper == "permissive":
        index = index.index.index  # type: ignore[attr-defined]
    return index


def _each(arrays: Any, name: str) -> list[Any]:
    if not isinstance(arrays, Iterable):
        raise TypeError(f"{name} takes a list of arrays, not {foreign(arrays)}")
    found = [*arrays]
    if not found:
        raise ValueError(f"{name} takes at least one array")
    return found


def concat(arrays: Any, /, axis: int | None = 0) -> Array:
    """Arrays one after the other along an axis; with `axis=None`, all their elements as a vector.
    Raises ValueError for no arrays, arrays without dimensions, or other axes of different sizes."""
    parts = operands(*_each(arrays, "concat"))
    if axis is None:
        parts, axis = [reshaping.raveled(part) for part in parts], 0
    order = len(parts[0].shape)
    if not order:
        raise ValueError("arrays without dimensions cannot be joined, but stacked")
    at = normalized_axis(axis, order)
    first = parts[0].shape
    for part in parts:
        own = part.shape
        if len(own) != order or (own[:at], own[at + 1 :]) != (first[:at], first[at + 1 :]):
            what = f"shapes {first} and {own}"
            raise ValueError(f"concat along axis {at} takes arrays of the same other sizes: {what}")
    some = [part for part in parts if part.shape[at]] or parts[:1]
    return Array(Concat(some, at) if len(some) > 1 else some[0])


def diagonal(x: Any, /, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The elements whose coordinate in `axis2` is that in `axis1` plus `offset`, along a new last axis.
    Raises ValueError if the two axes are the same."""
    arg = as_expression(x)
    order = len(arg.shape)
    first, second = normalized_axis(axis1, order), normalized_axis(axis2, order)
    if first == second:
        raise ValueError(f"axis {first} is there twice: a diagonal is of two")
    rows, columns = arg.shape[first], arg.shape[second]
    offset = integer(offset, "a diagonal")
    down, right = max(-offset, 0), max(offset, 0)
    length = max(min(rows - down, columns - right), 0)
    keys = {first: slice(down, down + length), second: slice(right, right + length)}
    kept = [k for k in range(order) if k not in (first, second)]
    places = tuple([kept.index(k) if k in kept else len(kept) for k in range(order)])
    part = along(x, keys).node
    return Array(lazy.View(part, places, (*[arg.shape[k] for k in kept], length)))


class Triangle(lazy.Expression):
    """Compares the coordinate in the last mode by `op` (">=", "<=") with that in the one before plus k."""

    def __init__(self, op: str, shape: tuple[int, ...], k: int):
        self.op, self.shape, self.args, self.numbers = op, shape, (), (k,)
        self.values, self.static = unknown_values(Bool), (Triangle, op, len(shape))

    def lower(self, to: Any, indices: tuple[Node, ...]) -> Node:
        row, column = indices[-2:]
        k = to.number(self)
        if isinstance(row, Index) and isinstance(column, Index):
            mask = call("UpTriMask" if self.op == ">=" else "LoTriMask")
            return Access(mask, (row, call("-", column, k)))
        shifted = call("+", value(row), k)
        return Call(op_node(self.op), (value(column), shifted))


def _within(name: str, op: str, where: str) -> Callable[..., Array]:
    def function(x: Any, /, k: int = 0) -> Array:
        arg = as_expression(x)
        if len(arg.shape) < 2:
            raise ValueError("a triangle is of an array of at least two dimensions")
        rows, columns = arg.shape[-2:]
        # a k beyond the array makes no difference, and a coordinate plus k must not overflow
        k = max(-rows, min(integer(k, "a diagonal"), columns))
        return Array(lazy.apply("ifelse", Triangle(op, arg.shape, k), arg, number(0, arg)))

    doc = f"""The elements on and {where} the k-th diagonal (above the main one if positive) of the last
    two axes, else 0. Raises ValueError for fewer than two dimensions."""
    return named(function, name, doc)


tril, triu = _within("tril", "<=", "below"), _within("triu", ">=", "above")


def stack(arrays: Any, /, axis: int = 0) -> Array:
    """Arrays of one shape one after the other along a new axis. Raises ValueError if shapes differ."""
    parts = operands(*_each(arrays, "stack"))
    order = len(parts[0].shape) + 1
    at = (normalized_axis(axis, order),)
    for part in parts:
        if part.shape != parts[0].shape:
            raise ValueError(f"stack takes arrays of one shape, not {parts[0].shape}, {part.shape}")
    return concat([Array(reshaping.with_axes(part, at, order)) for part in parts], axis=at[0])


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The parts of an array at each coordinate of an axis, without that axis."""
    arg = as_expression(x)
    at = normalized_axis(axis, len(arg.shape))
    return tuple([along(x, {at: k}) for k in range(arg.shape[at])])


def _stacking(name: str, order: int, more: int, axis: int, doc: str) -> Callable[[Any], Array]:
    """A function that joins arrays along an axis, which have this order at least by new axes in front, and
    the order `more` by one at the end."""

    def function(arrays: Any, /) -> Array:
        found = [_of_order(x, order) for x in _each(arrays, name)]
        found = [reshaping.expand_dims(x, axis=x.ndim) if x.ndim < more else x for x in found]
        return concat(found, axis=min(axis, max([x.ndim for x in found]) - 1))

    return named(function, name, doc)


vstack = _stacking("vstack", 2, 2, 0, "Arrays joined along the first axis; vectors are rows.")
hstack = _stacking("hstack", 1, 1, 1, "Arrays joined along the second axis, vectors along axis 0.")
dstack = _stacking("dstack", 2, 3, 2, "Arrays joined along the third axis; others get new axes.")
column_stack = _stacking(
    "column_stack", 1, 2, 1, "Matrices joined along the second axis; vectors are columns."
)


def _of_order(x: Any, order: int) -> Array:
    """`x` with new axes in front, so that it has at least `order`."""
    arg = as_expression(x)
    new = max(order - len(arg.shape), 0)
    return Array(reshaping.with_axes(arg, tuple(range(new)), len(arg.shape) + new) if new else arg)


def block(arrays: Any, /) -> Array:
    """An array of nested lists of blocks: those of the innermost lists are joined along the last axis.
    Raises ValueError for an empty list, or lists of different depths."""

    level, depth = [arrays], 0
    while any([isinstance(item, list) for item in level]):
        if depth > MODES or not all([isinstance(item, list) and item for item in level]):
            raise ValueError("block takes lists that are nested equally deep, none of them empty")
        level, depth = [part for item in level for part in item], depth + 1
    order = max([depth, *[len(as_expression(x).shape) for x in level]])

    def joined(item: Any, axis: int) -> Array:
        if not isinstance(item, list):
            return _of_order(item, order)
        return concat([joined(part, axis + 1) for part in item], axis=axis)

    return joined(arrays, order - depth)


def roll(x: Any, /, shift: Any, axis: Any = None) -> Array:
    """The elements moved by `shift` places towards higher coordinates along some axes, the last ones to the
    front; all elements in row-major order if no axis is given."""
    arg = as_expression(x)
    if axis is None:
        total = sum([integer(n, "a shift") for n in listed(shift)])
        moved = roll(Array(reshaping.raveled(arg)), total, axis=0)
        return Array(reshaping.reshaped(moved.node, arg.shape))
    shifts, axes = listed(shift), listed(axis)
    shifts = shifts * len(axes) if len(shifts) == 1 else shifts
    axes = axes * len(shifts) if len(axes) == 1 else axes
    if len(shifts) != len(axes):
        raise ValueError(f"roll takes a shift for each axis, not {len(shifts)} for {len(axes)}")
    found = Array(arg)
    for by, given in zip(shifts, axes, strict=True):
        at = normalized_axis(given, len(arg.shape))
        first = -integer(by, "a shift") % (arg.shape[at] or 1)
        if first:
            parts = slice(first, None), slice(0, first)
            found = concat([along(found, {at: part}) for part in parts], axis=at)
    return found


def repeat(x: Any, repeats: Any, /, axis: int | None = None) -> Array:
    """Each part along an axis repeated `repeats` times in place, or as often as a list with a number for
    each says (computed at once); all elements in row-major order if no axis is given."""
    arg = as_expression(x)
    if axis is None:
        arg, axis = reshaping.raveled(arg), 0
    order = len(arg.shape)
    at = normalized_axis(axis, order)
    counts = np.asarray(todense(repeats) if isinstance(repeats, Array) else repeats)
    counts = counts if counts.size else counts.astype(np.int64)
    if counts.dtype.kind not in "iu" or counts.ndim > 1 or (counts < 0).any():
        raise ValueError("repeat takes an integer, not negative, or a list of them")
    if counts.ndim and counts.size != 1:
        if counts.size != arg.shape[at]:
            what = f"{counts.size} numbers for the {arg.shape[at]} parts along axis {at}"
            raise ValueError(f"repeat is given {what}")
        return take(Array(arg), np.repeat(np.arange(counts.size), counts), axis=at)
    return Array(_times(arg, at, int(counts.reshape(())), False))


def _times(arg: lazy.Expression, axis: int, count: int, is_whole: bool) -> lazy.Expression:
    """Each part along an axis `count` times in place, or if `is_whole` all parts: a new mode, joined."""
    own, new = arg.shape, axis + (not is_whole)
    places = tuple([k + (k >= new) for k in range(len(own))])
    wider = lazy.View(arg, places, (*own[:new], count, *own[new:]))
    return reshaping.reshaped(wider, (*own[:axis], own[axis] * count, *own[axis + 1 :]))


def tile(x: Any, repetitions: Any, /) -> Array:
    """The whole array repeated along each axis; more repetitions than axes make new axes in front."""
    counts = [integer(n, "a number of repetitions") for n in listed(repetitions)]
    if any([n < 0 for n in counts]):
        raise ValueError(f"tile takes integers, not negative, and not {repetitions}")
    found = _of_order(x, len(counts)).node
    counts = [1] * (len(found.shape) - len(counts)) + counts
    for axis, count in enumerate(counts):
        found = found if count == 1 else _times(found, axis, count, True)
    return Array(found)


def kron(a: Any, b: Any, /) -> Array:
    """The Kronecker product: each element of `a` replaced by that element times all of `b`."""
    first, second = operands(a, b)
    order = max(len(first.shape), len(second.shape))
    one, other = (_of_order(Array(arg), order) for arg in (first, second))
    axes = [place for k in range(order) for place in (k, order + k)]
    product = reshaping.permute_dims(tensordot(one, other, axes=0), tuple(axes))
    shape = [m * n for m, n in zip(one.shape, other.shape, strict=True)]
    return reshaping.reshape(product, shape)
