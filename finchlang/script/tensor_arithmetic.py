"""Arithmetic of arrays in expressions of scripts. With a tensor among the operands it is lazy, as `@array`
is: a `Pending` value collects what the expression does, and one kernel computes it at its end. Arrays of
NumPy alone are computed by NumPy."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import Any, ClassVar

import numpy as np

from finchlang.base.errors import FinchError
from finchlang.base.records import record
from finchlang.operators.operator_table import OPERATORS, Operator
from finchlang.script import values as data
from finchlang.script.make_tensors import sparse_of
from finchlang.script.show import kind_of, text
from finchlang.script.subscripts import ALL, index_of, set_subscript
from finchlang.syntax import nodes as ast
from finchlang.tensors.array_base import size_text
from finchlang.tensors.tensor import Scalar, body_of

#: the operators without a dot that take arrays
SIGNS = frozenset(("+", "-", "*", "/", "^"))


class Pending:
    """An array that is not computed yet: its `node`, and the script's functions in it by the operators made
    of them. `is_row` if it is the transpose of a vector; `has_numpy` if a NumPy array is among its operands.
    One that `is_kept` stays lazy until `compute`."""

    __slots__ = ("functions", "has_numpy", "is_kept", "is_row", "node")
    kind: ClassVar[str] = "a lazy array"

    def __init__(self, node: Any, functions: dict[ast.Node, Any], has_numpy: bool, is_kept: bool):
        self.node, self.functions, self.is_row = node, functions, False
        self.has_numpy, self.is_kept = has_numpy, is_kept

    @property
    def shape(self) -> tuple[int, ...]:
        return self.node.shape

    def __str__(self) -> str:
        return f"{'x'.join(map(str, self.shape)) or '0-d'} lazy array: `compute` gives its values"


@record
class Identity:
    """`scale` times the identity matrix of any size."""

    scale: Any = 1

    kind: ClassVar[str] = "an identity matrix of any size"

    def __str__(self) -> str:
        return "I" if self.scale == 1 else f"{text(self.scale)} * I"

    def of_size(self, n: Any) -> Any:
        """As a sparse matrix."""
        places = np.arange(1, data.whole(n, "a size") + 1)
        return sparse_of(places, places, np.full(len(places), self.scale), (len(places),) * 2)


class Row(np.ndarray):
    """A vector of NumPy that is transposed, within an expression."""


def is_array(value: Any) -> bool:
    """Whether a value is an array, also one that is not computed yet."""
    return type(value) is Pending and bool(value.node.shape) or data.is_array(value)


def is_number(value: Any) -> bool:
    return type(value) is Pending and not value.node.shape or data.is_number(value)


def takes(name: str, args: list[Any]) -> bool:
    """Whether `combined` is what applies an operator to these arguments."""
    return name in SIGNS and any(is_array(a) or type(a) in (Pending, Identity) for a in args)


def is_lazy(value: Any) -> bool:
    """Whether an operation on this value is put off: an array that NumPy has not, or a part of such."""
    return type(value) is Pending or data.is_array(value) and not isinstance(value, np.ndarray)


def pending(args: list[Any], make: Callable[..., Any], functions: Any = None) -> Pending:
    """What `make` makes of the expressions of the arguments. Raises FinchError."""
    from finchlang.script.array_functions import operand
    from finchlang.script.array_statements import told

    functions, given, has_numpy, is_kept = dict(functions or {}), [], False, False
    with told(None):
        for arg in args:
            if type(arg) is Pending:
                functions |= arg.functions
                is_kept |= arg.is_kept
            is_dense = isinstance(arg, (np.ndarray, list, data.FinchRange))
            has_numpy |= arg.has_numpy if type(arg) is Pending else is_dense
            given.append(arg.node if type(arg) is Pending else operand(arg))
        return Pending(make(*given), functions, has_numpy, is_kept)


def forced(value: Any, run: Any) -> Any:
    """A value at the end of an expression: what is lazy is computed, unless it is kept so. A result that is
    dense is a NumPy array if one is among its operands."""
    if type(value) is Pending and not value.is_kept:
        return computed([value], run)[0]
    return value.view(np.ndarray) if type(value) is Row else value


def computed(values: list[Pending], run: Any, **how: Any) -> list[Any]:
    """The values of lazy arrays, by one kernel; `how` as in `array.compute.computed`."""
    from finchlang.script.array_statements import results, told

    functions = {key: f for value in values for key, f in value.functions.items()}
    roots = tuple(value.node for value in values)
    with told(None):
        found = results(roots, functions, run, **how)
    return [_held(one, value.has_numpy) for one, value in zip(found, values, strict=True)]


def _held(found: Any, has_numpy: bool) -> Any:
    if isinstance(found, Scalar):
        return data.held(found)
    is_dense = has_numpy and getattr(body_of(found).format, "is_all_dense", False)
    return np.asarray(data.dense(found)) if is_dense else found


# ------------------------------------------------------------------------------ without a dot


def combined(name: str, args: list[Any]) -> Any:
    """An operator without a dot, of which one argument is an array, with Julia's meaning. Raises FinchError
    "type" or "dimension"."""
    args = [data.held(arg) if isinstance(arg, Scalar) else arg for arg in args]
    if len(args) == 1 and name in ("+", "-"):
        return _by_elements(name, args)
    if any(type(arg) is Identity for arg in args):
        return _with_identity(name, args)
    if len(args) != 2 or not all(is_array(a) or is_number(a) for a in args):
        others = " and ".join(map(kind_of, args))
        raise FinchError("type", f"`{name}` does not take {others}", hint=data.WITH_DOT)
    a, b = args
    are_arrays = [is_array(a), is_array(b)]
    if name in ("+", "-") and all(are_arrays):
        if a.shape != b.shape:
            sizes = " and ".join(size_text(x.shape) for x in args)
            raise FinchError("dimension", f"arrays of sizes {sizes} do not match")
        return _by_elements(name, args)
    if not any(are_arrays):
        return _by_elements(name, args)
    if name == "*":
        return _multiplied(a, b)
    if name == "/" and are_arrays == [True, False]:
        return _as_row(_by_elements("/", args), is_row(a))
    if name == "^" and are_arrays == [True, False]:
        return _power(a, data.whole(b, "the power of a matrix"))
    raise FinchError(
        "type", f"`{name}` does not take {kind_of(a)} and {kind_of(b)}", hint=data.WITH_DOT
    )


def _with_identity(name: str, args: list[Any]) -> Any:
    """Arithmetic with an identity matrix, which has the size of the array beside it."""
    scales = [arg.scale if type(arg) is Identity else arg for arg in args]
    arrays = [arg for arg in args if is_array(arg)]
    if name == "*" or name == "/" and type(args[1]) is not Identity:
        found = combined(name, scales) if arrays else data.binary(name)(*scales)
        return found if arrays else Identity(found)
    if (
        name not in ("+", "-")
        or len(args) == 2
        and any(type(a) is not Identity and not is_array(a) for a in args)
    ):
        others = " and ".join(map(kind_of, args))
        raise FinchError("type", f"`{name}` does not take {others}")
    if not arrays:
        return Identity(data.operate(OPERATORS[name], scales))
    (array,) = arrays
    if len(array.shape) != 2 or array.shape[0] != array.shape[1]:
        message = f"an array of size {size_text(array.shape)} is no square matrix, as `I` is"
        raise FinchError("dimension", message)
    n = array.shape[0]
    is_dense = not is_lazy(array)
    ones = [
        arg
        if type(arg) is not Identity
        else np.eye(n, dtype=type(arg.scale)) * arg.scale
        if is_dense
        else arg.of_size(n)
        for arg in args
    ]
    return combined(name, ones)


def is_row(value: Any) -> bool:
    return type(value) is Row or type(value) is Pending and value.is_row


def _as_row(value: Any, holds: bool = True) -> Any:
    if type(value) is Pending:
        value.is_row = holds
    elif isinstance(value, np.ndarray):
        return value.view(Row if holds else np.ndarray)
    return value


def _by_elements(name: str, args: list[Any]) -> Any:
    """Arithmetic of the elements of arrays of one size, or of an array and a number."""
    if any(map(is_lazy, args)):
        from finchlang.script.array_functions import elementwise as applied

        return pending(args, lambda *parts: applied(name, [*parts]))
    parts = [as_integers(arg) if data.is_array(arg) else arg for arg in args]
    with np.errstate(all="ignore"):
        return -parts[0] if len(parts) == 1 else data.ARITHMETIC[name](*parts)


def _multiplied(a: Any, b: Any) -> Any:
    if not (is_array(a) and is_array(b)):
        return _as_row(_by_elements("*", [a, b]), is_row(a) or is_row(b))
    if is_row(a) and len(b.shape) == 1:
        return _dot(a, b)
    if is_lazy(a) or is_lazy(b):
        from finchlang.script.array_functions import product

        return _as_row(pending([a, b], product), is_row(a))
    column = len(a.shape) == 1 and len(b.shape) == 2 and b.shape[0] == 1
    first = a[:, None] if column else a
    if len(first.shape) != 2 or len(b.shape) not in (1, 2) or first.shape[1] != b.shape[0]:
        from finchlang.script.array_functions import no_product

        raise no_product(a.shape, b.shape)
    with np.errstate(all="ignore"):
        return _as_row(np.asfortranarray(as_integers(first) @ as_integers(b)), is_row(a))


def as_integers(array: np.ndarray) -> np.ndarray:
    """An array of numbers: Bools as integers, as arithmetic has them."""
    return array.astype(np.int64) if array.dtype == bool else np.asarray(array)


def _dot(a: Any, b: Any) -> Any:
    """The product of a row and a vector, a number."""
    if a.shape[1] != b.shape[0]:
        sizes = f"{size_text(a.shape)} and {size_text(b.shape)}"
        raise FinchError("dimension", f"arrays of sizes {sizes} have no product")
    if is_lazy(a) or is_lazy(b):
        from finchlang.array.indexing import getitem
        from finchlang.array.expression import Array
        from finchlang.script.array_functions import product

        return pending([a, b], lambda x, y: getitem(Array(product(x, y)), (0,)).node)
    return data.plain((np.asarray(a) @ np.asarray(b))[0])


def _power(a: Any, count: int) -> Any:
    if len(a.shape) != 2 or a.shape[0] != a.shape[1]:
        message = f"an array of size {size_text(a.shape)} has no power: it is no square matrix"
        raise FinchError("dimension", message, hint=data.WITH_DOT)
    if count < 0:
        hint = "write `inv(A)`"
        raise FinchError("type", "a matrix has no negative powers here", hint=hint)
    if isinstance(a, np.ndarray) or count == 0:
        base = np.asarray(a) if isinstance(a, np.ndarray) else np.eye(a.shape[0])
        return np.asfortranarray(np.linalg.matrix_power(base, count))
    if count == 1:
        return a
    half = _power(a, count // 2)
    return _multiplied(_multiplied(half, half), a) if count % 2 else _multiplied(half, half)


# ------------------------------------------------------------------------------ with a dot


def elementwise(function: Any, args: list[Any], apply: Callable[..., Any]) -> Any:
    """`function.(args...)`. With tensors it is lazy; else `apply` calls the function for each element, in
    column-major order. Dimensions are matched from the first on, and those of size 1 are repeated. Raises
    FinchError "dimension" if sizes do not match."""
    if any(map(is_lazy, args)):
        from finchlang.script.array_functions import elementwise as applied, operator_of

        op, functions = operator_of(function, getattr(function, "name", "this"))
        return pending(args, lambda *parts: applied(op, [*parts]), functions)
    args = [a.view(np.ndarray) if type(a) is Row else a for a in args]
    shapes = [None if isinstance(a, Scalar) else data.shape_of(a) for a in args]
    known = [s for s in shapes if s is not None]
    if not known:
        return apply(*args)
    try:
        shape = np.broadcast_shapes(*[s[::-1] for s in known])[::-1]
    except ValueError:
        told = " and ".join(size_text(s) for s in known if s)
        raise FinchError("dimension", f"arrays of sizes {told} do not match") from None
    are_floats = all(type(a) is float or getattr(a, "dtype", None) == np.float64 for a in args)
    parts = [a if s is None else _spread(a, shape) for a, s in zip(args, shapes, strict=True)]
    if isinstance(function, Operator) and function.name in data.ARITHMETIC and are_floats:
        with np.errstate(all="ignore"):
            return np.asfortranarray(data.ARITHMETIC[function.name](*parts))
    each = [data.entries(p) if isinstance(p, np.ndarray) else repeat(p) for p in parts]
    return data.shaped([apply(*xs) for xs in zip(*each, strict=False)], shape)


def _spread(value: Any, shape: tuple[int, ...]) -> np.ndarray:
    if data.is_array(value):
        array = data.dense(value)
    else:
        array = np.empty(len(value), object)
        array[:] = list(value)
    return np.broadcast_to(array.T, shape[::-1]).T


# ------------------------------------------------------------------------------ parts


def stacked(rows: list[list[Any]]) -> Any:
    """`[A B; C D]`: arrays and numbers side by side in rows, one below the other. Raises FinchError
    "dimension"."""
    whole = [row[0] if len(row) == 1 else _joined(1, row) for row in rows]
    return whole[0] if len(whole) == 1 else _joined(0, whole)


def _joined(axis: int, parts: list[Any]) -> Any:
    if any(map(is_lazy, parts)):
        from finchlang.array.expression import Array
        from finchlang.script.array_functions import stacked as joined

        return pending(parts, lambda *nodes: joined(axis, *map(Array, nodes)).node)
    arrays = [
        np.asarray(data.shaped([*data.entries(p)]) if data.is_vector(p) else p) for p in parts
    ]
    order = max(axis + 1, *[array.ndim for array in arrays])
    wide = [array.reshape(array.shape + (1,) * (order - array.ndim)) for array in arrays]
    if len({(*array.shape[:axis], *array.shape[axis + 1 :]) for array in wide}) > 1:
        raise not_stacked(axis, [array.shape for array in arrays])
    return np.asfortranarray(np.concatenate(wide, axis))


def not_stacked(axis: int, shapes: list[tuple[int, ...]]) -> FinchError:
    way = "side by side" if axis else "one below the other"
    sizes = " and ".join(size_text(shape) for shape in shapes)
    return FinchError("dimension", f"arrays of sizes {sizes} do not stand {way}")


def part_of(value: Any, indices: list[Any]) -> Pending | None:
    """The part of an array, lazily; None for another index than integers, ranges and `:`, or of a tensor
    if all are integers. Raises FinchError "bounds"."""
    is_plain = all(i is ALL or isinstance(i, (int, data.FinchRange)) for i in indices)
    is_entry = all(isinstance(i, int) for i in indices)
    if len(indices) != len(value.shape) or not is_plain or is_entry and type(value) is not Pending:
        return None
    keys = tuple([index_of(i, size) for i, size in zip(indices, value.shape, strict=True)])

    def part(node: Any) -> Any:
        from finchlang.array.expression import Array

        return Array(node)[keys].node

    return pending([value], part)


def set_all(target: Any, value: Any, run: Any) -> None:
    """`target .= value`. Raises FinchError "dimension" if the value does not broadcast to it, "type" for
    what has no elements."""
    if isinstance(target, Scalar) or not is_lazy(target):
        indices = [] if isinstance(target, Scalar) else [ALL] * len(data.shape_of(target) or ())
        if type(target) in (tuple, data.FinchRange) or data.shape_of(target) is None:
            raise FinchError("type", f"the elements of {kind_of(target)} cannot be set")
        set_subscript(target, indices, forced(value, run), True)
        return

    def spread(node: Any) -> Any:
        from finchlang.array.expression import Constant, View, apply

        if not node.shape:
            return apply("+", Constant(node.values.fill, target.shape), node)
        new = len(target.shape) - len(node.shape)
        shape = (*node.shape, *[1] * new)
        if new < 0 or any(n not in (1, size) for n, size in zip(shape, target.shape, strict=True)):
            sizes = f"{size_text(node.shape)} and {size_text(target.shape)}"
            raise FinchError("dimension", f"arrays of sizes {sizes} do not broadcast")
        return (
            node
            if node.shape == target.shape
            else View(node, tuple(range(len(node.shape))), target.shape)
        )

    found = pending([value], spread)
    if found.node.values.is_fill and found.node.values.fill.value != target.fill:
        found = pending(computed([found], run, is_dense=True), lambda node: node)
    computed([found], run, outs=(target,))


# ------------------------------------------------------------------------------ functions


_OF_FUNCTIONS = ("map", "broadcast", "reduce", "mapreduce")


def _of_function(name: str, args: list[Any], dims: Any = None, init: Any = None) -> Any:
    """`map` and the like of tensors, lazily. Raises FinchError if a function is no operator, or has no
    identity by which to reduce."""
    from finchlang.array.expression import apply
    from finchlang.script.array_functions import axes_of, operand, operator_of, summed

    function, *arrays = args
    if is_array(function):
        raise FinchError("type", "this is no function")  # `broadcast(A, p, n)`
    if name == "mapreduce":
        function, arrays = arrays[0], [elementwise(function, arrays[1:], lambda *xs: None)]
    elif name != "reduce":
        return elementwise(function, arrays, lambda *xs: None)
    op, functions = operator_of(function)

    def reduced(node: Any) -> Any:
        axes = axes_of(node, dims)
        every = tuple(range(len(node.shape)))
        found = summed(op, node, every if axes is None else axes, axes is not None)
        return found if init is None else apply(op, operand(init), found)

    return pending(arrays, reduced, functions)


def called(name: str, args: list[Any], keywords: dict[str, Any], keeps: bool) -> Any:
    """A function of whole arrays, lazily, if one of the arguments is lazy; else NotImplemented, as for a
    function of the script that is no operator of elements."""
    from finchlang.array.expression import Array
    from finchlang.script import array_functions as table

    first, function = args[0] if args else None, None
    if name in ("adjoint", "transpose") and is_row(first):
        if type(first) is Row:
            return np.asarray(first)[0]
        return pending([first], lambda node: Array(node)[0, :].node)
    is_known = any(type(arg) is Pending for arg in args)
    if name in ("adjoint", "transpose", "hcat", "vcat") and not (is_known or keeps):
        return NotImplemented  # a view
    if not any(map(is_lazy, args)):
        is_vector = len(args) == 1 and data.is_vector(first)
        if name not in ("adjoint", "transpose") or not is_vector:
            return NotImplemented
        return np.array(list(data.entries(first)))[None, :].view(Row)
    if name in _OF_FUNCTIONS:
        try:
            return _of_function(name, args, **keywords)
        except FinchError:
            if is_known:
                raise
            return NotImplemented
    if name in table.OF_ELEMENTS and len(args) == 2:
        function, *args = args
        try:
            args = [elementwise(function, args, lambda *xs: None)]
        except FinchError:
            if is_known:
                raise
            return NotImplemented
    elif not is_known and not keywords and name in ("sum", "maximum", "minimum"):
        return NotImplemented  # what is stored is enough
    count = table.ARRAYS.get(name, 1)
    arrays, others = args[:count], args[count:]

    def make(*nodes: Any) -> Any:
        return table.FUNCTIONS[name](*map(Array, nodes), *others, **keywords).node

    found = pending(arrays, make)
    found.is_row = name in ("adjoint", "transpose") and len(arrays[0].shape) == 1
    return found
