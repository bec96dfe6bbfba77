"""Expressions of scripts with tensors as lazy arrays: what operators and functions of elements or of whole
arrays make of them, by one table with Julia's names that `@array` shares, and the kernel that computes an
expression at its end. Modes count from 1."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, reduce
from itertools import zip_longest
from typing import Any

import numpy as np

import finchlang.array as namespace
from finchlang.algebra.laws import identity_of
from finchlang.array.compute import computed as compute
from finchlang.array.expression import Array, Constant, Expression, View, apply, converted
from finchlang.array.inferred_values import op_node, result_of
from finchlang.array.operands import as_expression
from finchlang.array.reductions import reduced
from finchlang.base.errors import FinchError
from finchlang.base.locks import keep
from finchlang.calls.environment import Environment
from finchlang.operators.operator_table import operator
from finchlang.script import values as data
from finchlang.script.as_operator import CALLED, KNOWN, operation
from finchlang.script.containers import axes_of
from finchlang.script.lazy_values import Pending, is_array, is_row
from finchlang.script.linear_algebra import OVER
from finchlang.script.make_tensors import element_type, tensor_of
from finchlang.script.shape_functions import check_stacked
from finchlang.script.show import kind_of
from finchlang.script.subscripts import ALL, index_of
from finchlang.script.whole_arrays import REDUCTIONS, along, check_product, check_some, no_match
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.syntax.types import TYPES, Type, can_store, promote
from finchlang.tensors.adopt import list_format
from finchlang.tensors.formats import nest_of
from finchlang.tensors.tensor import Scalar, Tensor, body_of

_TRANSPOSES = ("adjoint", "transpose")
_OF_FUNCTIONS = ("map", "broadcast", "reduce", "mapreduce")


@contextmanager
def told(node: Any) -> Iterator[None]:
    """Turns Python's exceptions about operands into FinchErrors at this node."""
    span = getattr(node, "span", None)
    try:
        yield
    except FinchError as error:
        raise error.at(span) from None
    except IndexError as error:
        raise FinchError("bounds", str(error), span) from None
    except ValueError as error:
        raise FinchError("dimension", str(error), span) from None
    except (TypeError, ArithmeticError) as error:
        raise FinchError("type", str(error), span) from None


def operand(value: Any) -> Expression:
    """A value of the script as an expression. Raises FinchError "type" for what is no array or number."""
    try:
        is_list = isinstance(value, (list, data.FinchRange))
        return as_expression(np.asarray(data.as_array(value)) if is_list else value)
    except TypeError:
        raise FinchError("type", f"{kind_of(value)} is no array") from None


def operator_of(value: Any, name: str = "this") -> Any:
    """The operator that a value is for elements: its name in the table, or the Operation made of a script's
    function. Raises FinchError "type" for other values."""
    found = operation(value)
    if found is None:
        hint = "`@einsum` sums up by `+=` what the result has no index for"
        message = f"`{name}` is no operator of elements"
        raise FinchError("type", message, hint=hint if name == "sum" else None)
    if isinstance(found, ast.Variable):
        return found.name
    found = trees.replace(found, span=None)  # messages are to have its name
    keep(CALLED, found, value, KNOWN)
    return found


def elementwise(op: Any, args: list[Expression]) -> Expression:
    """An operator applied to elements. Arrays of fewer modes get new ones at the end; associative operators
    take more than two arguments, as in kernels. Raises FinchError "dimension" if sizes do not match."""
    order = max([len(arg.shape) for arg in args], default=0)
    for sizes in zip_longest(*[arg.shape for arg in args], fillvalue=1):
        if len({*sizes} - {1}) > 1:
            raise no_match(*[arg.shape for arg in args if arg.shape])
    parts = [widened(arg, order) if arg.shape else arg for arg in args]
    if isinstance(op, str) and len(parts) > 2 and op in ("+", "*", "&&", "||", "min", "max"):
        return reduce(lambda a, b: apply(op, a, b), parts)
    return apply(op, *parts)


def widened(array: Expression, order: int) -> Expression:
    """An array with modes of size 1 after its own, so that it has `order` of them."""
    new = order - len(array.shape)
    return View(array, tuple(range(order - new)), array.shape + (1,) * new) if new else array


def summed(op: Any, arg: Expression, axes: tuple[int, ...], keepdims: bool = False) -> Any:
    """A reduction in the type that the operator has for two elements: Int64 for the sum of Bools. Over no
    axes it combines the start and the one element."""
    type = result_of(op, arg.values, arg.values).type
    arg = converted(arg, type)
    if axes:
        return reduced(op, arg, axes, keepdims)
    row = operator(op_node(op))
    if row is not None and row.commutative:
        return arg
    return apply(op, Constant(identity_of(op, type)), arg)


def matrix_product(a: Expression, b: Expression) -> Expression:
    """The product of matrices, or a matrix and a vector, or a column and a row. Raises FinchError."""
    if check_product(a.shape, b.shape):
        return elementwise("*", [a, b])
    shape = (a.shape[0], *b.shape[1:], a.shape[1])
    last = len(shape) - 1
    second = View(b, (last, *range(1, last)), shape)
    return summed("+", apply("*", View(a, (0, last), shape), second), (last,))


def _transpose(array: Array) -> Array:
    if len(array.shape) not in (1, 2):
        raise FinchError("dimension", f"an array of {len(array.shape)} modes has no transpose")
    is_row = len(array.shape) == 1
    return namespace.expand_dims(array, axis=0) if is_row else namespace.permute_dims(array)


def _alike(arrays: tuple[Array, ...], least: int = 0) -> list[Array]:
    """Arrays with as many modes, and with their common type: NumPy has others."""
    order = max(least, *[len(array.shape) for array in arrays])
    type = reduce(promote, [array.node.values.type for array in arrays])
    return [Array(converted(widened(array.node, order), type)) for array in arrays]


def stacked_arrays(axis: int, *arrays: Array) -> Array:
    """Arrays side by side (axis 1) or one below the other (0); numbers and vectors get the modes of the
    others, vectors as columns. Raises FinchError "dimension"."""
    parts = _alike(arrays, axis + 1)
    check_stacked(axis, arrays)
    return namespace.concat(parts, axis=axis)


#: functions of whole arrays, by Julia's names: each takes lazy arrays, then its other arguments
FUNCTIONS: dict[str, Callable[..., Array]] = {
    **{name: partial(function, namespace) for name, (function, _) in OVER.items()},
    **{name: partial(along, namespace, name) for name in REDUCTIONS},
    **dict.fromkeys(_TRANSPOSES, _transpose),
    "permutedims": lambda array, order=None: namespace.permute_dims(array, axes_of(array, order)),
    "kron": lambda *arrays: namespace.kron(*_alike(arrays)),
    "hcat": partial(stacked_arrays, 1),
    "vcat": partial(stacked_arrays, 0),
}
#: how many of the arguments are arrays, if it is not the first alone
ARRAYS = {name: count for name, (_, count) in OVER.items()}
ARRAYS |= {"kron": 2, "hcat": 1 << 30, "vcat": 1 << 30}

assert all(name not in TYPES for name in FUNCTIONS)


# ------------------------------------------------------------------------------ values that wait


def results(roots: tuple[Expression, ...], run_kernel: Any, **how: Any) -> list[Any]:
    """The values of expressions by one kernel (`how` as in `array.compute.computed`)."""

    def run(kernel: Any, values: Any) -> Any:
        return run_kernel(kernel, Environment(values=values))

    return compute(roots, run_kernel=run, **how)


def pending(args: list[Any], make: Callable[..., Expression]) -> Pending:
    """What `make` makes of the expressions of the arguments. Raises FinchError."""
    found, nodes = Pending(None), []
    with told(None):
        for arg in args:
            if type(arg) is Pending:
                found.is_kept |= arg.is_kept
                found.has_numpy |= arg.has_numpy
                nodes.append(arg.node)
            else:
                found.has_numpy |= isinstance(arg, (np.ndarray, list, data.FinchRange))
                nodes.append(operand(arg))
        found.node = make(*nodes)
    return found


def computed(values: list[Pending], run_kernel: Any, **how: Any) -> list[Any]:
    """The values of lazy arrays, by one kernel; `how` as in `array.compute.computed`. A dense result is a
    NumPy array if one is among its operands."""
    roots = tuple([value.node for value in values])
    with told(None):
        found = results(roots, run_kernel, **how)
    return [_held(one, value.has_numpy) for one, value in zip(found, values, strict=True)]


def _held(found: Any, has_numpy: bool) -> Any:
    if isinstance(found, Scalar):
        return data.held(found)
    is_dense = has_numpy and getattr(body_of(found).format, "is_all_dense", False)
    return np.asarray(data.dense(found)) if is_dense else found


def by_elements(function: Any, args: list[Any]) -> Pending:
    """An operator, by its name or as a value of the script, of the elements of arrays."""
    op = function
    if not isinstance(function, str):
        op = operator_of(function, getattr(function, "name", "this"))
    if op in data.ROUNDING and isinstance(args[0], Type):  # as in `round.(Int64, A)`
        return by_elements(args[0].name, [by_elements(op, args[1:])])
    return pending(args, lambda *nodes: elementwise(op, [*nodes]))


def by_entries(args: list[Any], apply: Callable[..., Any]) -> Tensor | None:
    """What `apply` makes of the fill and of each stored entry of a tensor with the other arguments; None if
    there are several arrays, one that is not computed, or results that are no numbers."""
    k, *others = [k for k, arg in enumerate(args) if is_array(arg)]
    if others or type(args[k]) is Pending:
        return None
    tensor = tensor_of(args[k])
    coordinates, values = tensor.entries()
    each = [tensor.fill, *values]
    found = data.shaped([apply(*args[:k], data.plain(v), *args[k + 1 :]) for v in each])
    if not isinstance(found, np.ndarray):
        return None
    fill, values = found[0], found[1:]
    format = list_format(element_type(found), tensor.ndim, fill)
    return Tensor.from_coo(format, tensor.shape, coordinates, values)


def product(a: Any, b: Any) -> Pending:
    """The product of arrays; of a row and a vector a number."""
    is_number = is_row(a) and len(b.shape) == 1

    def make(x: Expression, y: Expression) -> Expression:
        found = matrix_product(x, y)
        return Array(found)[0].node if is_number else found

    found = pending([a, b], make)
    found.is_row = is_row(a) and not is_number
    return found


def stacked(axis: int, parts: list[Any]) -> Pending:
    """Arrays and numbers side by side (axis 1), or one below the other (0)."""
    return pending(parts, lambda *nodes: stacked_arrays(axis, *map(Array, nodes)).node)


def part_of(value: Any, indices: list[Any]) -> Pending | None:
    """The part of an array; None for another index than integers, ranges and `:`, or of a tensor if all are
    integers. Raises FinchError "bounds"."""
    is_plain = all(i is ALL or isinstance(i, (int, data.FinchRange)) for i in indices)
    is_entry = all(isinstance(i, int) for i in indices)
    if len(indices) != len(value.shape) or not is_plain or is_entry and type(value) is not Pending:
        return None
    keys = tuple([index_of(i, size) for i, size in zip(indices, value.shape, strict=True)])
    return pending([value], lambda node: Array(node)[keys].node)


def set_tensor(target: Any, value: Any, run_kernel: Any) -> None:
    """`target .= value` of a tensor that is not dense. Raises FinchError "dimension"."""

    def spread(node: Expression) -> Expression:
        if not node.shape:
            return apply("+", Constant(node.values.fill, target.shape), node)
        new = len(target.shape) - len(node.shape)
        shape = (*node.shape, *[1] * new)
        if new < 0 or any(n not in (1, size) for n, size in zip(shape, target.shape, strict=True)):
            raise no_match(node.shape, target.shape)
        is_whole = node.shape == target.shape
        return node if is_whole else View(node, tuple(range(len(node.shape))), target.shape)

    found, kept = pending([value], spread), body_of(target).format
    if not can_store(found.node.values.type, kept.element_type):
        told = f"{found.node.values.type} cannot be stored as {kept.element_type}"
        raise FinchError("type", told)
    if found.node.values.fill.value != target.fill:
        (whole,) = computed([found], run_kernel, is_dense=True)
        format = nest_of([True] * len(target.shape), kept.leaf)
        found = pending([Tensor.from_numpy(data.dense(whole), format)], lambda node: node)
    computed([found], run_kernel, outs=(target,))


# ------------------------------------------------------------------------------ functions


def called(name: str, args: list[Any], keywords: dict[str, Any], keeps: bool) -> Any:
    """A function of whole arrays with these arguments, lazily. NotImplemented if a function of the script
    is no operator of elements, or the value is a view of a tensor and the caller does not keep it lazy."""
    is_known = any(type(arg) is Pending for arg in args)
    if name in ("hcat", "vcat", *_TRANSPOSES) and not (is_known or keeps):
        return NotImplemented
    if name in _TRANSPOSES and len(args) == 1 and not keywords:
        return _transposed(name, args[0])
    try:
        if name in REDUCTIONS and "init" in keywords:
            return NotImplemented
        if name in _OF_FUNCTIONS:
            return _of_function(name, args, **keywords)
        if name in REDUCTIONS and len(args) == 2:
            args = [by_elements(args[0], args[1:])]
    except FinchError:
        if is_known:
            raise
        return NotImplemented
    if type(args[0]) is not Pending and not keywords and name in ("sum", "maximum", "minimum"):
        return NotImplemented  # what is stored is enough
    return _of_arrays(name, args, keywords)


def _of_arrays(name: str, args: list[Any], keywords: dict[str, Any]) -> Pending:
    count = ARRAYS.get(name, 1)

    def make(*nodes: Expression) -> Expression:
        return FUNCTIONS[name](*map(Array, nodes), *args[count:], **keywords).node

    return pending(args[:count], make)


def _transposed(name: str, value: Any) -> Pending:
    """The transpose, marked as a row if it is that of a vector, and of a row the vector."""
    if is_row(value):
        return pending([value], lambda node: Array(node)[0, :].node)
    found = _of_arrays(name, [value], {})
    found.is_row = len(value.shape) == 1
    return found


def _of_function(name: str, args: list[Any], dims: Any = None, init: Any = None) -> Pending:
    """`map` and the like. Raises FinchError for what is no operator, or has no identity to begin with."""
    function, *arrays = args
    if is_array(function):
        raise FinchError("type", "this is no function")  # `broadcast(A, p, n)`
    if name in ("map", "broadcast"):
        return by_elements(function, arrays)
    if name == "mapreduce":
        function, arrays = arrays[0], [by_elements(function, arrays[1:])]
    op = operator_of(function)

    def reduced(node: Expression) -> Expression:
        axes = axes_of(node, dims)
        every = tuple(range(len(node.shape)))
        sizes = [node.shape[axis] for axis in (every if axes is None else axes)]
        check_some(function, "reduce", init is not None or 0 not in sizes)
        found = summed(op, node, every if axes is None else axes, axes is not None)
        return found if init is None else apply(op, operand(init), found)

    return pending(arrays, reduced)
