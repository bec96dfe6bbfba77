"""Lazy expressions: the nodes that array functions make, each with its shape, type and fill, and the
Array that holds one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from finchlang.array import inferred_values
from finchlang.array.promotion import broadcast_shapes
from finchlang.base.late import late
from finchlang.levels.element import typed_literal
from finchlang.syntax.nodes import Literal
from finchlang.syntax.types import Bool, Float64, Int64, Type
from finchlang.tensors.array_base import ArrayMethods


class Expression:
    """A node with its `shape`, `values` and `args`. `static` is all that its program depends on, `numbers`
    are what the program gets at each call (as it does sizes). A node that `has_cases` splits the loops
    it is read in: if used twice it is stored, since cases would multiply."""

    __slots__ = ("args", "shape", "static", "values")
    has_cases = False
    shape: tuple[int, ...]
    values: inferred_values.Values
    args: tuple[Expression, ...]
    static: Any
    numbers: tuple[Any, ...] = ()

    @property
    def identity(self) -> Any:
        """What nodes with the same `static` and arguments need to have in common to be one."""
        return id(self) if self.numbers else self.shape


class Leaf(Expression):
    """An operand: a tensor, a scalar, a NumPy array or a SciPy matrix, which is read in its own memory."""

    __slots__ = ("value",)

    def __init__(self, value: Any, stored: inferred_values.StoredValues):
        self.value, self.static = value, stored
        self.shape, self.values, self.args = value.shape, stored.values, ()


class NumberOperand(Expression):
    """A number that is an argument of the program, so that the same program serves other numbers."""

    __slots__ = ("value",)

    def __init__(self, value: Any, type: Type):
        self.value = type.wrap(value)
        self.values, self.static = inferred_values.values_of_number(type), type
        self.shape, self.args = (), ()

    @property
    def literal(self) -> Literal:
        return typed_literal(self.value, self.values.type)

    @property
    def numbers(self) -> tuple[Any, ...]:  # type: ignore[override]
        type = self.values.type  # a Python number has one of these three
        return (self.value if type in (Bool, Int64, Float64) else type.dtype.type(self.value),)


class Count(NumberOperand):
    """A number of elements: equal ones are one."""

    __slots__ = ()

    @property
    def identity(self) -> Any:
        return self.value


class Size(Expression):
    """The size of a mode of a node: its number, and which mode."""

    __slots__ = ("place",)

    def __init__(self, place: tuple[int, int]):
        self.place, self.shape, self.args = place, (), ()
        self.values, self.static = inferred_values.unknown_values(Int64), (Size, place)


class Constant(Expression):
    """One literal everywhere; that of the argument, if there is one, which is a number."""

    __slots__ = ()

    def __init__(self, literal: Literal, shape: tuple[int, ...] = (), *args: NumberOperand):
        self.values, self.shape, self.args = inferred_values.values_of(literal, True), shape, args
        self.static = (self.values, len(shape)) if shape else self.values


class Map(Expression):
    """An operator, by its name in the table or a user's, of the elements of its arguments. These have one
    shape, or are numbers. With `has_limits` the fill of the result holds only for some numbers."""

    __slots__ = ("has_limits", "op")

    def __init__(
        self,
        op: Any,
        args: tuple[Expression, ...],
        values: inferred_values.Values,
        has_limits: bool = False,
    ):
        shapes = [arg.shape for arg in args if arg.shape]
        shape = shapes[0] if shapes else ()
        if shapes.count(shape) < len(shapes):
            shape = broadcast_shapes(*shapes)
            args = tuple([broadcast(arg, shape) if arg.shape else arg for arg in args])
        self.op, self.args, self.shape = op, args, shape
        self.values, self.has_limits = values, has_limits
        self.static = (op, values) if has_limits else op


class Reduce(Expression):
    """A reduction by an operator over some axes, which the result does not have. With `has_fill` the result
    has one, whatever that of the argument is."""

    __slots__ = ("axes", "op")

    def __init__(self, op: Any, arg: Expression, axes: tuple[int, ...], has_fill: bool = False):
        self.op, self.args, self.axes, self.static = op, (arg,), axes, (Reduce, op, axes)
        self.shape = tuple([size for k, size in enumerate(arg.shape) if k not in axes])
        self.values = inferred_values.reduced(op, arg.values)
        if has_fill and arg.values.is_fill and not self.values.is_fill:
            count = prod([arg.shape[axis] for axis in axes])
            self.values = inferred_values.reduced(op, arg.values, count)
            self.static = (Reduce, op, axes, self.values)


class View(Expression):
    """The argument over other modes: its mode k is mode `places[k]` of the result. That is None for a mode
    of size 1 that is repeated, or that the result does not have. The argument does not depend on the other
    modes of `shape`. Two modes with the same place give the diagonal. `origins` say for the planner where
    the sizes of the result come from."""

    __slots__ = ("origins", "places")

    def __init__(
        self,
        arg: Expression,
        places: tuple[int | None, ...],
        shape: tuple[int, ...],
        origins: Sequence[tuple[int, int]] = (),
    ):
        self.origins = origins
        sizes = zip(places, arg.shape, strict=True)
        self.places = tuple([None if p is None or n != shape[p] else p for p, n in sizes])
        self.args, self.shape, self.values = (arg,), shape, arg.values
        self.static = View, self.places, len(shape)

    def read_at(self, indices: Sequence[Any], one: Any) -> tuple[Any, ...]:
        """Where the argument is read for indices, or labels, of the result; `one` in modes of size 1."""
        return tuple([one if p is None else indices[p] for p in self.places])


def broadcast(arg: Expression, shape: tuple[int, ...]) -> Expression:
    """`arg` repeated along axes of size 1 and new axes in front, to have this shape."""
    new = len(shape) - len(arg.shape)
    return arg if arg.shape == shape else View(arg, tuple(range(new, len(shape))), shape)


class Reversed(Expression):
    """The argument with the order of its elements reversed along some axes: stored in a nest of its own,
    which goes over the entries of the argument."""

    __slots__ = ("axes",)

    def __init__(self, arg: Expression, axes: tuple[int, ...]):
        self.args, self.axes, self.static = (arg,), axes, (Reversed, axes)
        self.shape, self.values = arg.shape, arg.values


#: modes of the argument, and the modes of the result with the same elements in row-major order
Group = tuple[tuple[int, ...], tuple[int, ...]]


class Reshape(Expression):
    """The argument's elements in row-major order in another shape. Each `Group` is reshaped by itself; a
    mode of size 1 is in none."""

    __slots__ = ("groups",)

    def __init__(self, arg: Expression, groups: tuple[Group, ...], shape: tuple[int, ...]):
        self.args, self.groups, self.shape, self.values = (arg,), groups, shape, arg.values
        self.static = Reshape, groups, len(shape)


@lru_cache(4096)
def _usual_result(op: Any, *args: inferred_values.Values) -> inferred_values.Values | None:
    """As `result_of`; None where the result may have a fill if a number is known."""
    found = inferred_values.result_of(op, *args)
    has_fill = any([values.is_fill for values in args])
    if has_fill and not found.is_fill and any([values.is_number for values in args]):
        return None
    return found


def apply(op: Any, *args: Expression, is_dense: bool = False) -> Expression:
    """`op` of the elements of the arguments, without conversion. A number becomes a literal in the program
    if it changes the fill of the result (as in `a + n`), unless the result `is_dense` anyway. Otherwise it
    stays an argument, and the program serves other numbers, too: of `a > n` all with the same fill."""
    found = _usual_result(op, *[arg.values for arg in args])
    if found is None and not is_dense:
        literals = tuple(
            [
                Constant(arg.literal, (), arg) if isinstance(arg, NumberOperand) else arg
                for arg in args
            ]
        )
        given = tuple([arg.values for arg in literals])
        found = inferred_values.result_of(op, *given)
        if found.is_fill:
            numbers = [k for k, arg in enumerate(args) if arg is not literals[k]]
            if not any([arg.shape for arg in args]):
                return Map(op, literals, found)
            stay = [k for k in numbers if inferred_values.is_kept(op, given, k, found)]
            chosen = [arg if k in stay else literals[k] for k, arg in enumerate(args)]
            return Map(op, tuple(chosen), found, bool(stay))
    return Map(op, args, found or inferred_values.result_of(op, *[arg.values for arg in args]))


def converted(arg: Expression, to: Type) -> Expression:
    """`arg` with its elements converted to another type; floats are truncated to integers, which wrap."""
    if arg.values.type is to:
        return arg
    if isinstance(arg, NumberOperand):
        return NumberOperand(to.wrap(arg.value), to)
    return apply(to.cut, arg)  # as by NumPy


# ----------------------------------------------------------------------------------------- Array


class Array(ArrayMethods):
    """A lazy array with a `shape`, `dtype` and `fill`. It is computed by `compute`, or when its values are
    asked for as in `float(x)` or `np.asarray(x)`; operands have the values that they have at that time."""

    __slots__ = ("node",)

    def __init__(self, node: Expression):
        self.node = node

    @property
    def shape(self) -> tuple[int, ...]:
        return self.node.shape

    @property
    def ndim(self) -> int:
        return len(self.node.shape)

    @property
    def dtype(self) -> np.dtype:
        return self.node.values.type.dtype

    @property
    def fill(self) -> Any:
        """The value of all elements that a sparse result does not store; `fill_value` is the same."""
        return self.node.values.fill.value

    fill_value = fill

    def __repr__(self) -> str:
        return late("preview")(self)

    def __reduce__(self) -> Any:
        """Copied and pickled as the expression, each operand once."""
        return Array, (self.node,)
