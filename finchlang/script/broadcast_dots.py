"""Functions and operators with a dot, applied to the elements of arrays, vectors and ranges."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import Any

import numpy as np

from finchlang.base.errors import FinchError
from finchlang.calls.environment import Environment
from finchlang.operators.operator_table import Operator
from finchlang.script.values import ARITHMETIC, FinchRange, dense, is_array, plain, shaped
from finchlang.syntax.nodes import Call, Macro, Node, Variable
from finchlang.tensors.array_base import size_text


def elementwise(
    function: Any,
    args: list[Any],
    apply: Callable[..., Any],
    arrays: Callable[[Macro, Environment, Callable[[Node], Any]], Any],
) -> Any:
    """`function.(args...)`. With tensors it is computed by a kernel, as `@array` does (`arrays`); else
    `apply` calls the function for each element, in column-major order. Dimensions are matched from the
    first on, and those of size 1 are repeated. Raises FinchError "dimension" if sizes do not match."""
    if any(is_array(a) and not isinstance(a, np.ndarray) for a in args):
        return _of_tensors(function, args, arrays)
    shapes = [_shape(a) for a in args]
    if not any(s is not None for s in shapes):
        return apply(*args)
    sizes = [*zip_longest(*[s or () for s in shapes], fillvalue=1)]
    shape = tuple(next((n for n in each if n != 1), 1) for each in sizes)
    if any(n not in (1, size) for each, size in zip(sizes, shape, strict=True) for n in each):
        told = " and ".join(size_text(s) for s in shapes if s)
        raise FinchError("dimension", f"arrays of sizes {told} do not match")
    parts = [_spread(a, s, shape) for a, s in zip(args, shapes, strict=True)]
    if isinstance(function, Operator) and function.name in ARITHMETIC and _are_floats(args):
        with np.errstate(all="ignore"):
            return np.asfortranarray(ARITHMETIC[function.name](*parts))
    flat = [p.flatten(order="F") if isinstance(p, np.ndarray) else [p] for p in parts]
    count = int(np.prod(shape))
    each = [list(map(plain, f)) if len(f) == count else [*f] * count for f in flat]
    return shaped([apply(*xs) for xs in zip(*each, strict=True)], shape)


def _shape(value: Any) -> tuple[int, ...] | None:
    """The sizes of a value that has elements; None for one that counts as a single element, as a string."""
    if is_array(value):
        return tuple(value.shape)
    return (len(value),) if isinstance(value, (list, tuple, FinchRange)) else None


def _spread(value: Any, own: tuple[int, ...] | None, shape: tuple[int, ...]) -> Any:
    if own is None:
        return value
    if is_array(value):
        array = dense(value)
    else:
        array = np.empty(len(value), object)
        array[:] = list(value)
    return np.broadcast_to(array.reshape(own + (1,) * (len(shape) - len(own))), shape)


def _are_floats(args: list[Any]) -> bool:
    return all(
        a.dtype == np.float64 if isinstance(a, np.ndarray) else type(a) is float for a in args
    )


def _of_tensors(function: Any, args: list[Any], arrays: Callable[..., Any]) -> Any:
    values = {f"x{k}": arg for k, arg in enumerate(args)} | {"f": function}
    op = f".{function.name}" if isinstance(function, Operator) else "f"
    names = tuple(Variable(name) for name in values if name != "f")
    node = Macro("array", (Call(Variable(op), names),))
    return arrays(node, Environment(values=values), lambda n: values[n.name])
