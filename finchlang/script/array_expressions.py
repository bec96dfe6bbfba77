"""Expressions of scripts with tensors as lazy arrays: what an operator, a function of elements or of whole
arrays makes of them, and the kernel that computes it at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from finchlang.array.expression import Array, Constant, Expression, View, apply
from finchlang.base.errors import FinchError
from finchlang.script import array_functions as table, values as data
from finchlang.script.array_statements import results, told
from finchlang.script.containers import axes_of
from finchlang.script.lazy_values import Pending, is_array, is_row
from finchlang.script.make_tensors import element_type, tensor_of
from finchlang.script.subscripts import ALL, index_of
from finchlang.script.whole_arrays import REDUCTIONS, check_some, no_match
from finchlang.syntax.types import Type, can_store
from finchlang.tensors.adopt import list_format
from finchlang.tensors.formats import nest_of
from finchlang.tensors.tensor import Scalar, Tensor, body_of

_TRANSPOSES = ("adjoint", "transpose")
_OF_FUNCTIONS = ("map", "broadcast", "reduce", "mapreduce")


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
                nodes.append(table.operand(arg))
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
        op = table.operator_of(function, getattr(function, "name", "this"))
    if op in data.ROUNDING and isinstance(args[0], Type):  # as in `round.(Int64, A)`
        return by_elements(args[0].name, [by_elements(op, args[1:])])
    return pending(args, lambda *nodes: table.elementwise(op, [*nodes]))


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
        found = table.product(x, y)
        return Array(found)[0].node if is_number else found

    found = pending([a, b], make)
    found.is_row = is_row(a) and not is_number
    return found


def stacked(axis: int, parts: list[Any]) -> Pending:
    """Arrays and numbers side by side (axis 1), or one below the other (0)."""
    return pending(parts, lambda *nodes: table.stacked(axis, *map(Array, nodes)).node)


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
    count = table.ARRAYS.get(name, 1)

    def make(*nodes: Expression) -> Expression:
        return table.FUNCTIONS[name](*map(Array, nodes), *args[count:], **keywords).node

    return pending(args[:count], make)


def _transposed(name: str, value: Any) -> Pending:
    """The transpose, marked as a row if it is that of a vector, and of a row the vector."""
    if is_row(value):
        return pending([value], lambda node: Array(node)[0, :].node)
    found = _of_arrays(name, [value], {})
    found.is_row = len(value.shape) == 1
    return found


def _of_function(name: str, args: list[Any], dims: Any = None, init: Any = None) -> Pending:
    """`map` and the like. Raises FinchError if a function is no operator, or has no identity by which to
    reduce."""
    function, *arrays = args
    if is_array(function):
        raise FinchError("type", "this is no function")  # `broadcast(A, p, n)`
    if name in ("map", "broadcast"):
        return by_elements(function, arrays)
    if name == "mapreduce":
        function, arrays = arrays[0], [by_elements(function, arrays[1:])]
    op = table.operator_of(function)

    def reduced(node: Expression) -> Expression:
        axes = axes_of(node, dims)
        every = tuple(range(len(node.shape)))
        sizes = [node.shape[axis] for axis in (every if axes is None else axes)]
        check_some(function, "reduce", init is not None or 0 not in sizes)
        found = table.summed(op, node, every if axes is None else axes, axes is not None)
        return found if init is None else apply(op, table.operand(init), found)

    return pending(arrays, reduced)
