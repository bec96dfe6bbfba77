"""Lazy expressions: the nodes that array functions make, each with its shape and what is known of its
values, and the Array that stands for one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np

from finchlang.algebra import operator
from finchlang.array.promotion import broadcast_shapes, promoted, type_of
from finchlang.host.fold import const
from finchlang.normalize.types import type_of as type_of_node
from finchlang.protocols import NotAnArray, join
from finchlang.rules.simplify import simplify
from finchlang.script.tensors import over
from finchlang.source import FinchError
from finchlang.syntax import Call, Literal, Node, Variable
from finchlang.tensors.adopted import as_tensor, is_scipy, layout_of_array, matrix_format
from finchlang.tensors.element import Element, typed_literal
from finchlang.tensors.level import Level, Swizzled
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor
from finchlang.types import TYPES, Bool, Float64, Int64, PairType, Type, foreign, type_of_value


@dataclass(frozen=True, eq=False, slots=True)
class Values:
    """What is known of an array's values: their type; the fill, which is the function of the operands'
    fills (SparseArray'21 section 5.2); whether they are surely that wherever no sparse operand
    stores anything (`is_fill`), as those of a dense operand are not; whether they are a number that
    programs are given. There is one object for each."""

    type: Type
    fill: Literal
    is_fill: bool
    is_number: bool = False


@lru_cache(4096)
def values_of(fill: Literal, is_fill: bool) -> Values:
    """The Values of the fill's type."""
    return Values(TYPES[fill.type or ""], fill, is_fill)


@cache
def values_of_number(type: Type) -> Values:
    """The Values of a number of a type, of which nothing is known before the program runs."""
    return Values(type, typed_literal(type.wrap(0), type), False, True)


@dataclass(frozen=True, eq=False, slots=True)
class Stored:
    """The format of operands, and what it says of their values. There is one object for each."""

    format: Level | Swizzled
    values: Values


class Expression:
    """A node: its `shape`, `values`, and `args`. `static` is all that a program for it depends on but
    sizes and numbers; those that a program is given anew each time are its `numbers`."""

    __slots__ = ("args", "shape", "static", "values")
    shape: tuple[int, ...]
    values: Values
    args: tuple[Expression, ...]
    static: Any
    numbers: tuple[Any, ...] = ()


class Leaf(Expression):
    """An operand: a tensor, a scalar, a NumPy array or a SciPy matrix, in its own memory."""

    __slots__ = ("value",)

    def __init__(self, value: Any, stored: Stored):
        self.value, self.static = value, stored
        self.shape, self.values, self.args = value.shape, stored.values, ()


class Refilled(Leaf):
    """A tensor in its memory as if what it does not store were something else."""

    __slots__ = ("source",)

    def __init__(self, source: Tensor | SwizzledTensor, fill: Literal):
        format = source.format
        level = over(format.level if isinstance(format, Swizzled) else format, Element(fill))
        format = Swizzled(level, format.permutation) if isinstance(format, Swizzled) else level
        self.source, self.static = source, stored_of(format)
        self.shape, self.values, self.args = source.shape, self.static.values, ()

    @property
    def value(self) -> Any:
        source = self.source
        source.validate()
        body = source.body if isinstance(source, SwizzledTensor) else source
        format = self.static.format
        level = format.level if isinstance(format, Swizzled) else format
        tensor = Tensor.over(level, body.memory, True)
        return SwizzledTensor(tensor, format.permutation) if tensor.format is not format else tensor


class Number(Expression):
    """A number that programs are given when they are run."""

    __slots__ = ("value",)

    def __init__(self, value: Any, type: Type):
        self.value = type.wrap(value)
        self.values, self.static = values_of_number(type), type
        self.shape, self.args = (), ()

    @property
    def numbers(self) -> tuple[Any, ...]:  # type: ignore[override]
        type = self.values.type  # of these a Python number is
        return (self.value if type in (Bool, Int64, Float64) else type.dtype.type(self.value),)


class Constant(Expression):
    """The same literal in every place."""

    __slots__ = ()

    def __init__(self, literal: Literal, shape: tuple[int, ...] = ()):
        self.values = self.static = values_of(literal, True)
        self.shape, self.args = shape, ()


class Map(Expression):
    """An operator of the table, by its name, or one of the user's own, of the elements of its arguments,
    which broadcast. `stretched` says of each mode of each argument whether it does; None of none."""

    __slots__ = ("op", "stretched")

    def __init__(self, op: Any, args: tuple[Expression, ...], values: Values):
        shape = args[0].shape
        stretched = None
        for arg in args:
            if arg.shape != shape:
                shape = broadcast_shapes(*[arg.shape for arg in args])
                stretched = tuple([stretched_modes(arg.shape, shape) for arg in args])
                break
        self.op, self.args, self.shape, self.values = op, args, shape, values
        self.stretched, self.static = stretched, (op, stretched)


class Reduce(Expression):
    """A reduction by an operator of the table, over some axes, which are no more."""

    __slots__ = ("axes", "op")

    def __init__(self, op: Any, arg: Expression, axes: tuple[int, ...]):
        self.op, self.args, self.axes, self.static = op, (arg,), axes, (Reduce, op, axes)
        self.shape = tuple([size for k, size in enumerate(arg.shape) if k not in axes])
        given = arg.values
        start = identity_of(op, given.type)
        self.values = values_of(start, given.is_fill and given.fill == start)


class View(Expression):
    """The argument with its modes elsewhere: mode k of this is mode `axes[k]` of it, or new, None; it is
    broadcast to `shape`. Modes of the argument that are not there any more have size 1."""

    __slots__ = ("axes", "stretched")

    def __init__(self, arg: Expression, axes: tuple[int | None, ...], shape: tuple[int, ...]):
        self.args, self.axes, self.shape, self.values = (arg,), axes, shape, arg.values
        sizes = [1 if a is None else arg.shape[a] for a in axes]
        self.stretched = tuple([own != size for own, size in zip(sizes, shape, strict=True)])
        self.static = View, axes, self.stretched, len(arg.shape)


def stretched_modes(own: tuple[int, ...], shape: tuple[int, ...]) -> tuple[bool, ...]:
    """Which modes of an argument are repeated where it broadcasts to a shape."""
    last = shape[len(shape) - len(own) :]
    return tuple([size != wanted for size, wanted in zip(own, last, strict=True)])


# ----------------------------------------------------------------------------------- operators


def op_node(op: Any) -> Node:
    """The node of an operator that a name of the table or a node stands for."""
    return Variable(op) if isinstance(op, str) else op


@lru_cache(None)
def identity_of(op: Any, type: Type) -> Literal:
    """What a reduction starts with. Raises TypeError for an operator without an identity."""
    row = operator(op_node(op))
    start = None if row is None or row.identity is None else row.identity.value(type)
    if start is None:
        raise TypeError(f"{op} cannot reduce arrays: it has no identity")
    return typed_literal(type.wrap(start), type)


#: what is known of the values of operators of arguments, None where that takes the value of a number
_results: dict[tuple[Any, ...], Values | None] = {}


def apply(op: Any, *args: Expression, is_dense: bool = False) -> Expression:
    """`op` of the elements of the arguments, whose types it takes as they are.

    A number is given to the program if what the operator gives for fills does not depend on it, as that
    of a product does not where a fill is 0, or if the result `is_dense` anyway; else a literal of it."""
    key = op, *[arg.values for arg in args]
    found: Any = _results.get(key, _results)
    if found is _results:
        found = _result(*key)
        given = [arg.values for arg in args]
        has_fill = any([values.is_fill for values in given])
        if has_fill and not found.is_fill and any([values.is_number for values in given]):
            found = None
        if len(_results) > 4096:
            _results.clear()
        _results[key] = found
    if found is None and not is_dense:
        literals = tuple([_as_constant(arg) for arg in args])
        found = _result(op, *[arg.values for arg in literals])
        if found.is_fill:
            return Map(op, literals, found)
    return Map(op, args, found or _result(*key))


def _as_constant(arg: Expression) -> Expression:
    if not isinstance(arg, Number):
        return arg
    return Constant(typed_literal(arg.values.type.wrap(arg.value), arg.values.type))


@lru_cache(4096)
def _result(op: Any, *args: Values) -> Values:
    """What is known of the values of `op` of arguments of which this is known."""
    fills = [v.fill if v.is_fill else Variable(f"x{k}", type=v.type) for k, v in enumerate(args)]
    call = Call(op_node(op), tuple(fills))
    try:
        result = type_of_node(call)
    except FinchError as error:
        raise TypeError(error.message) from None
    if result is None:
        raise TypeError(f"there is no operator {op} of {len(args)} arguments")
    decided = simplify(call)
    is_fill = all([v.is_fill for v in args]) or isinstance(decided, Literal)
    if not isinstance(decided, Literal):
        decided = _folded(call, [v.fill for v in args])
        is_fill = is_fill and decided is not None
    value = 0 if decided is None or decided.value is None else decided.value
    return values_of(typed_literal(result.wrap(value), result), is_fill)


def _folded(call: Call, fills: list[Literal]) -> Literal | None:
    """The operator of fills, if it is defined for them."""
    row = operator(call.op)
    assert row is not None
    found = row.folded([const(fill.value, TYPES[fill.type or ""]) for fill in fills])
    return None if found is None else Literal(found.value, found.type.name)


def converted(arg: Expression, to: Type) -> Expression:
    """The same with values of another type."""
    if arg.values.type is to:
        return arg
    if isinstance(arg, Number):
        return Number(to.wrap(arg.value), to)
    return apply(to.name, arg)


# ------------------------------------------------------------------------------------- operands

_formats: dict[int, tuple[Any, Stored]] = {}
_known: dict[Any, Stored] = {}


def stored_of(format: Level | Swizzled) -> Stored:
    """What a format says of operands."""
    found = _formats.get(id(format))
    if found is not None:
        return found[1]
    stored = _known.get(format)
    if stored is None:
        level = format.level if isinstance(format, Swizzled) else format
        if isinstance(level.element_type, PairType):
            raise TypeError("there are no arrays of pairs")
        is_sparse = not all([part.is_leaf or part.is_dense for part in level.levels()])
        stored = _known[format] = Stored(format, values_of(level.fill, is_sparse))
    if len(_formats) > 4096:
        _formats.clear()
    _formats[id(format)] = format, stored
    return stored


_swizzled: dict[tuple[int, tuple[int, ...]], tuple[Any, Stored]] = {}


def _leaf_of_swizzled(value: SwizzledTensor) -> Leaf:
    key = id(value.body.format), value.permutation
    found = _swizzled.get(key)
    if found is None:
        found = _swizzled[key] = value.body.format, stored_of(value.format)
    return Leaf(value, found[1])


def _leaf_of_array(value: np.ndarray) -> Expression:
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError("a masked array is no array here: what is masked has no value")
    type_of(value.dtype)
    if value.ndim == 0:
        return Number(value[()], type_of(value.dtype))
    return Leaf(value, stored_of(layout_of_array(value.dtype, value.shape, value.strides)[0]))


def _leaf_of_matrix(value: Any) -> Expression:
    type_of(value.dtype)
    if value.format in ("csc", "csr") and value.ndim == 2:
        by_rows = value.format == "csr"
        return Leaf(value, stored_of(matrix_format(value.dtype, value.indices.dtype, by_rows)))
    tensor: Any = as_tensor(value)
    return Leaf(tensor, stored_of(tensor.format))


_MAKERS: dict[type, Callable[[Any], Expression]] = {
    Tensor: lambda value: Leaf(value, stored_of(value.format)),
    Scalar: lambda value: Leaf(value, stored_of(value.format)),
    SwizzledTensor: _leaf_of_swizzled,
    np.ndarray: _leaf_of_array,
}


def as_expression(value: Any) -> Expression:
    """The expression that an array, an operand or a number stands for, a Python number of its own type.
    Raises TypeError."""
    found = expression_of(value)
    if found is None:
        raise NotAnArray(f"{foreign(value)} is no array")
    return found


def expression_of(value: Any) -> Expression | None:
    """As `as_expression`, None for what is no array nor number."""
    make = _MAKERS.get(type(value))
    if make is not None:
        try:
            return make(value)
        except FinchError as error:
            raise TypeError(error.message) from None
    if isinstance(value, np.ndarray):
        return _leaf_of_array(value)
    if is_scipy(value):
        return _leaf_of_matrix(value)
    own = type_of_value(value)
    if own is None or isinstance(own, PairType):
        return None
    return Number(value, own)


def operands(*values: Any) -> list[Expression]:
    """The expressions of operands, of one type: their common one, where Python numbers count by their
    kind alone. Raises TypeError, OverflowError for a Python number that the type does not hold."""
    args: list[Any] = [None if type(v) in _PYTHON else as_expression(v) for v in values]
    if None not in args:
        wanted = args[0].values.type
        types = [arg.values.type for arg in args]
        if types.count(wanted) == len(types):
            return args
        wanted = promoted(*types)
    elif args.count(None) == len(args):
        wanted = promoted(*map(type, values))
    else:
        kinds = [type(v) if a is None else a.values.type for a, v in zip(args, values, strict=True)]
        wanted = _promoted_with(tuple(kinds))
    return [
        _weak(value, wanted) if arg is None else converted(arg, wanted)
        for arg, value in zip(args, values, strict=True)
    ]


_PYTHON = frozenset((bool, int, float))


def _weak(value: Any, to: Type) -> Number:
    if to.is_integer and to.wrap(value) != value:
        raise OverflowError(f"{value} is out of bounds for {to.dtype}")
    return Number(to.wrap(value), to)


@lru_cache(1024)
def _promoted_with(kinds: tuple[Any, ...]) -> Type:
    return promoted(*kinds)


# ----------------------------------------------------------------------------------------- Array


class Array:
    """A lazy array: nothing is computed before `compute`, or one of `float(x)`, `np.asarray(x)` ..., asks
    for it. It refers to its operands, whose values are those at that time."""

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
        """The value of what is not stored."""
        return self.node.values.fill.value

    def __repr__(self) -> str:
        size = "x".join(map(str, self.shape))
        return f"{size or '0-d'} lazy array of {self.dtype}, fill {self.fill}"


_MAKERS[Array] = lambda value: value.node
join(Array)


def arrays_of(nodes: Sequence[Expression]) -> tuple[Array, ...]:
    return tuple(map(Array, nodes))
