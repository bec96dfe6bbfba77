"""Lazy expressions: the nodes that array functions make, each with its shape, type and fill, and the
Array that holds one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from finchlang.algebra.program_context import ONE
from finchlang.array import inferred_values
from finchlang.array.inferred_values import op_node
from finchlang.array.promotion import broadcast_shapes
from finchlang.base.late import late
from finchlang.operators.operator_table import AND, DIFFERS, NOT, OR, SELECT
from finchlang.syntax.nodes import Call, Literal, Node, call
from finchlang.syntax.types import Bool, Float64, Int64, Type
from finchlang.tensors.array_base import ArrayMethods


class Expression:
    """A node with its `shape`, `values` and `args`. `static` is all that its program depends on, `numbers`
    are what the program gets at each call (as it does sizes). A node of several `joined` along an axis
    splits the loops it is read in: if used twice it is stored, since cases would multiply."""

    joined: int | None = None
    shape: tuple[int, ...]
    values: inferred_values.Values
    args: tuple[Expression, ...]
    static: Any
    numbers: tuple[Any, ...] = ()
    #: of a node that the planner has made, where the sizes of its modes come from
    origins: Sequence[tuple[int, int]] = ()

    @property
    def identity(self) -> Any:
        """What nodes with the same `static` and arguments need to have in common to be one."""
        return id(self) if self.numbers else self.shape

    def inwards(self, planner: Any) -> Expression:
        """An equal expression that makes less, as a reduction of a part in place of a part of it."""
        return self

    def lower(self, to: Any, indices: tuple[Node, ...]) -> Node:
        """The element at these indices as an expression of the program that is made (a `Lowering`): of a
        tensor with the node, unless a class has another way."""
        to.tensor(self)
        return to.value(self, indices)


def nodes_of(root: Expression, *ends: type[Expression]) -> Iterator[Expression]:
    """The nodes of an expression, each once, but for arguments of these classes of nodes."""
    seen, todo = set[Expression](), [root]
    while todo:
        node = todo.pop()
        if node not in seen:
            seen.add(node)
            yield node
            todo += () if isinstance(node, ends) else node.args


class Leaf(Expression):
    """An operand: a tensor, a scalar, a NumPy array or a SciPy matrix, which is read in its own memory."""

    def __init__(self, value: Any, stored: inferred_values.StoredValues):
        self.value, self.static, self.kind = value, stored, value.dtype.type
        self.shape, self.values, self.args = value.shape, stored.values, ()

    def lower(self, to: Any, indices: tuple[Node, ...]) -> Node:
        return to.operand(self, indices)


class NumberOperand(Expression):
    """A number that is an argument of the program, so that the same program serves other numbers."""

    def __init__(self, value: Any, type: Type):
        self.value = type.wrap(value)
        self.values, self.static = inferred_values.values_of_number(type), type
        self.shape, self.args = (), ()

    @property
    def numbers(self) -> tuple[Any, ...]:  # type: ignore[override]
        type = self.values.type  # a Python number has one of these three
        return (self.value if type in (Bool, Int64, Float64) else type.dtype.type(self.value),)

    def lower(self, to: Any, indices: tuple[Node, ...]) -> Node:
        return to.number(self)


class Count(NumberOperand):
    """A number of elements: equal ones are one."""

    @property
    def identity(self) -> Any:
        return self.value


class Size(Expression):
    """The size of a mode of a node: its number, and which mode."""

    def __init__(self, place: tuple[int, int]):
        self.place, self.shape, self.args = place, (), ()
        self.values, self.static = inferred_values.unknown_values(Int64), (Size, place)

    def lower(self, to: Any, indices: tuple[Node, ...]) -> Node:
        return to.size_at(self.place)


class Constant(Expression):
    """One literal everywhere; that of the argument, if there is one, which is a number."""

    def __init__(self, literal: Literal, shape: tuple[int, ...] = (), *args: NumberOperand):
        self.values, self.shape, self.args = inferred_values.values_of(literal, True), shape, args
        self.static = (self.values, len(shape)) if shape else self.values

    def lower(self, to: Any, indices: tuple[Node, ...]) -> Node:
        return plain(self.values.fill)


def constant(value: Any, type: Type) -> Constant:
    """A number as a literal of a type."""
    return Constant(inferred_values.literal_of(value, type))


def plain(literal: Literal) -> Literal:
    """A literal without its type where that is the type it has when written without."""
    own = literal.type in ("Bool", "Int64", "Float64")
    return Literal(literal.value) if own else literal


class Map(Expression):
    """An operator, by its name in the table or a user's, of the elements of its arguments. These have one
    shape, or are numbers. With `has_limits` the fill of the result holds only for some numbers."""

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

    def lower(self, to: Any, indices: tuple[Node, ...]) -> Node:
        """With limits, the result is its fill where all operands are, before any number is seen."""
        parts = [to.value(arg, indices if arg.shape else ()) for arg in self.args]
        value = Call(op_node(self.op), tuple(parts))
        pairs = zip(self.args, parts, strict=True)
        tests = [
            _differs(x, plain(a.values.fill)) for a, x in pairs if a.shape and a.values.is_fill
        ]
        if not self.has_limits or not tests:
            return value
        fill, condition = plain(self.values.fill), reduce(lambda a, b: Call(OR, (a, b)), tests)
        if fill.value is False:
            return Call(AND, (condition, value))
        return Call(SELECT, (condition, value, fill))


def _differs(value: Node, fill: Literal) -> Node:
    if fill.value != fill.value:
        return Call(NOT, (call("isnan", value),))
    return Call(DIFFERS, (value, fill))


class Reduce(Expression):
    """A reduction by an operator over some axes, which the result does not have. With `has_fill` the result
    has one, whatever that of the argument is."""

    def __init__(self, op: Any, arg: Expression, axes: tuple[int, ...], has_fill: bool = False):
        self.op, self.args, self.axes, self.static = op, (arg,), axes, (Reduce, op, axes)
        self.shape = tuple([size for k, size in enumerate(arg.shape) if k not in axes])
        self.values = inferred_values.reduced(op, arg.values)
        if has_fill and arg.values.is_fill and not self.values.is_fill:
            count = prod([arg.shape[axis] for axis in axes])
            self.values = inferred_values.reduced(op, arg.values, count)
            self.static = (Reduce, op, axes, self.values, count)


class View(Expression):
    """The argument over other modes: its mode k is mode `places[k]` of the result. That is None for a mode
    of size 1 that is repeated, or that the result does not have. The argument does not depend on the other
    modes of `shape`. Two modes with the same place give the diagonal."""

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

    def lower(self, to: Any, indices: tuple[Node, ...]) -> Node:
        return to.value(self.args[0], self.read_at(indices, ONE))


def broadcast(arg: Expression, shape: tuple[int, ...]) -> Expression:
    """`arg` repeated along axes of size 1 and new axes in front, to have this shape."""
    new = len(shape) - len(arg.shape)
    return arg if arg.shape == shape else View(arg, tuple(range(new, len(shape))), shape)


class Reversed(Expression):
    """The argument with the order of its elements reversed along some axes: stored in a nest of its own,
    which goes over the entries of the argument."""

    def __init__(self, arg: Expression, axes: tuple[int, ...]):
        self.args, self.axes, self.static = (arg,), axes, (Reversed, axes)
        self.shape, self.values = arg.shape, arg.values


def _as_literal(arg: Expression) -> Expression:
    if not isinstance(arg, NumberOperand):
        return arg
    return Constant(inferred_values.literal_of(arg.value, arg.values.type), (), arg)


def apply(op: Any, *args: Expression, is_dense: bool = False) -> Expression:
    """`op` of the elements of the arguments, without conversion. A number becomes a literal in the program
    if it changes the fill of the result (as in `a + n`), unless the result `is_dense` anyway. Otherwise it
    stays an argument, and the program serves other numbers, too: of `a > n` all with the same fill."""
    found = inferred_values.result_of(op, *[arg.values for arg in args])
    if is_dense or found.is_fill or not any([arg.values.is_fill for arg in args]):
        return Map(op, args, found)
    literals = tuple(map(_as_literal, args))
    given = tuple([arg.values for arg in literals])
    known = inferred_values.result_of(op, *given)
    if not known.is_fill:
        return Map(op, args, found)
    numbers = [k for k, arg in enumerate(args) if arg is not literals[k]]
    numbers = numbers if any([arg.shape for arg in args]) else []
    stay = [k for k in numbers if inferred_values.is_kept(op, given, k, known)]
    chosen = [args[k] if k in stay else arg for k, arg in enumerate(literals)]
    return Map(op, tuple(chosen), known, bool(stay))


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
