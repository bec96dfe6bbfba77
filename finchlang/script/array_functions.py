"""Functions of whole arrays by Julia's names, as lazy arrays: one table, which `@array` and the expressions
of scripts share. Modes count from 1."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from itertools import zip_longest
from typing import Any

import numpy as np

import finchlang.array as namespace
from finchlang.algebra.laws import identity_of
from finchlang.array import expression as lazy
from finchlang.array.inferred_values import op_node, result_of
from finchlang.array.operands import as_expression
from finchlang.array.reductions import reduced
from finchlang.base.errors import FinchError
from finchlang.base.locks import keep
from finchlang.operators.operator_table import operator
from finchlang.script.as_operator import CALLED, KNOWN, operation
from finchlang.script.containers import axes_of
from finchlang.script.linear_algebra import OVER
from finchlang.script.shape_functions import check_stacked
from finchlang.script.show import kind_of
from finchlang.script.values import FinchRange
from finchlang.script.whole_arrays import REDUCTIONS, along, check_product, no_match
from finchlang.syntax import nodes as ast, traversal as trees, types


def operand(value: Any) -> lazy.Expression:
    """A value of the script as an expression. Raises FinchError "type" for what is no array or number."""
    try:
        if isinstance(value, (list, FinchRange)):
            value = np.array(list(value))
        return as_expression(value)
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


def elementwise(op: Any, args: list[lazy.Expression]) -> lazy.Expression:
    """An operator applied to elements. Arrays of fewer modes get new ones at the end; associative operators
    take more than two arguments, as in kernels. Raises FinchError "dimension" if sizes do not match."""
    order = max([len(arg.shape) for arg in args], default=0)
    for sizes in zip_longest(*[arg.shape for arg in args], fillvalue=1):
        if len({*sizes} - {1}) > 1:
            raise no_match(*[arg.shape for arg in args if arg.shape])
    parts = [widened(arg, order) if arg.shape else arg for arg in args]
    if isinstance(op, str) and len(parts) > 2 and op in ("+", "*", "&&", "||", "min", "max"):
        return reduce(lambda a, b: lazy.apply(op, a, b), parts)
    return lazy.apply(op, *parts)


def widened(array: lazy.Expression, order: int) -> lazy.Expression:
    """An array with modes of size 1 after its own, so that it has `order` of them."""
    new = order - len(array.shape)
    return lazy.View(array, tuple(range(order - new)), array.shape + (1,) * new) if new else array


def summed(op: Any, arg: lazy.Expression, axes: tuple[int, ...], keepdims: bool = False) -> Any:
    """A reduction in the type that the operator has for two elements: Int64 for the sum of Bools. Over no
    axes it combines the start and the one element."""
    type = result_of(op, arg.values, arg.values).type
    arg = lazy.converted(arg, type)
    if axes:
        return reduced(op, arg, axes, keepdims)
    row = operator(op_node(op))
    if row is not None and row.commutative:
        return arg
    return lazy.apply(op, lazy.Constant(identity_of(op, type)), arg)


def product(a: lazy.Expression, b: lazy.Expression) -> lazy.Expression:
    """The product of a matrix and a matrix or vector, or of a column and a row. Raises FinchError
    "dimension" for other arrays."""
    if check_product(a.shape, b.shape):
        return elementwise("*", [a, b])
    shape = (a.shape[0], *b.shape[1:], a.shape[1])
    last = len(shape) - 1
    second = lazy.View(b, (last, *range(1, last)), shape)
    return summed("+", lazy.apply("*", lazy.View(a, (0, last), shape), second), (last,))


def _transposed(array: lazy.Array) -> lazy.Array:
    if len(array.shape) not in (1, 2):
        raise FinchError("dimension", f"an array of {len(array.shape)} modes has no transpose")
    is_row = len(array.shape) == 1
    return namespace.expand_dims(array, axis=0) if is_row else namespace.permute_dims(array)


def _alike(arrays: tuple[lazy.Array, ...], least: int = 0) -> list[lazy.Array]:
    """Arrays with as many modes, and with their common type: NumPy has others."""
    order = max(least, *[len(array.shape) for array in arrays])
    type = reduce(types.promote, [array.node.values.type for array in arrays])
    return [lazy.Array(lazy.converted(widened(array.node, order), type)) for array in arrays]


def stacked(axis: int, *arrays: lazy.Array) -> lazy.Array:
    """Arrays side by side (axis 1) or one below the other (0); numbers and vectors get the modes of the
    others, vectors as columns. Raises FinchError "dimension"."""
    parts = _alike(arrays, axis + 1)
    check_stacked(axis, arrays)
    return namespace.concat(parts, axis=axis)


#: functions of whole arrays, by Julia's names: each takes lazy arrays, then its other arguments
FUNCTIONS: dict[str, Callable[..., lazy.Array]] = {
    **{name: partial(function, namespace) for name, (function, _) in OVER.items()},
    **{name: partial(along, namespace, name) for name in REDUCTIONS},
    **dict.fromkeys(("transpose", "adjoint"), _transposed),
    "permutedims": lambda array, order=None: namespace.permute_dims(array, axes_of(array, order)),
    "kron": lambda *arrays: namespace.kron(*_alike(arrays)),
    "hcat": partial(stacked, 1),
    "vcat": partial(stacked, 0),
}
#: how many of the arguments are arrays, if it is not the first alone
ARRAYS = {name: count for name, (_, count) in OVER.items()}
ARRAYS |= {"kron": 2, "hcat": 1 << 30, "vcat": 1 << 30}

assert all(name not in types.TYPES for name in FUNCTIONS)
