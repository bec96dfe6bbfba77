"""Arithmetic of tensors in scripts as array expressions, and functions with a dot, applied to elements."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import Any

import numpy as np

from finchlang.base.errors import FinchError
from finchlang.calls.environment import Environment
from finchlang.levels.element import Element, typed_literal
from finchlang.levels.level import Level, Swizzled
from finchlang.operators.operator_table import Operator
from finchlang.script import values as data
from finchlang.syntax.nodes import Call, KernelNode, Macro, Variable
from finchlang.tensors.array_base import size_text
from finchlang.tensors.formats import nest_of

Apply = Callable[..., Any]


def is_by_kernel(op: Operator, args: list[Any]) -> bool:
    """Whether an operator of arithmetic is applied to tensors, none of them a NumPy array: with one of
    those the result is dense anyway, and NumPy computes it."""
    arrays = [a for a in args if data.is_array(a)]
    is_dense = any(isinstance(a, np.ndarray) for a in arrays)
    return bool(arrays) and not is_dense and op.name in data.ARITHMETIC


def compute(op: Operator, args: list[Any], run: Callable[[KernelNode, Environment], Any]) -> Any:
    """`op` of two tensors of one size, or of a tensor and perhaps a number, as a tensor; `run` runs its
    kernel. What none of the operands stores is not stored in the result.

    The modes of the result are stored in the same order as in the first tensor. The result has the
    format of the operands if that is one for all and can hold any entries; else a mode is dense if it is
    dense in all operands, and a list if not. Raises FinchError "dimension" or "type".
    """
    data.check_arrays(op.name, args)
    from finchlang.array.compute import computed, sized_tensor
    from finchlang.script.array_statements import elementwise, operand

    operands = [operand(arg) for arg in args]
    root = elementwise(op.name, operands)
    formats = [arg.static.format for arg in operands if arg.shape]
    first = formats[0]
    permutation = _order(first)
    # operands stored in another order do not count: they are copied to that of the first
    alike = [f.level if permutation else f for f in formats if _order(f) == permutation]
    # for a dense tensor and a number the result is dense, and its fill does not matter
    is_known = root.values.is_fill or all(arg.shape for arg in operands)
    type, fill = root.values.type, root.values.fill.value if is_known else 0
    level: Any = _common(alike, Element(typed_literal(type.wrap(fill or 0), type)))  # 0.0 if -0.0
    format = Swizzled(level, permutation) if permutation else level

    def run_kernel(kernel: KernelNode, values: dict[str, Any]) -> Any:
        return run(kernel, Environment(values=values))

    return computed((root,), outs=(sized_tensor(format, root.shape),), run_kernel=run_kernel)[0]


def _order(format: Level | Swizzled) -> tuple[int, ...] | None:
    return format.permutation if isinstance(format, Swizzled) else None


def _common(formats: list[Level], leaf: Level) -> Level:
    """The format over `leaf` of a result of tensors of these formats."""
    found = [format.with_leaf(leaf) for format in formats]
    if found.count(found[0]) == len(found) and all(p.holds_any for p in found[0].levels()):
        return found[0]
    dense = [[p.is_dense for p in f.levels() for _ in range(p.modes)] for f in found]
    return nest_of([*map(all, zip(*dense, strict=True))], leaf)


# ------------------------------------------------------------------------------ with a dot


def elementwise(function: Any, args: list[Any], apply: Apply, arrays: Apply) -> Any:
    """`function.(args...)`. With tensors it is computed by a kernel, as `@array` does (`arrays`); else
    `apply` calls the function for each element, in column-major order. Dimensions are matched from the
    first on, and those of size 1 are repeated. Raises FinchError "dimension" if sizes do not match."""
    if any(data.is_array(a) and not isinstance(a, np.ndarray) for a in args):
        return _of_tensors(function, args, arrays)
    shapes = [_shape(a) for a in args]
    if not any(s is not None for s in shapes):
        return apply(*args)
    sizes = [*zip_longest(*[s or () for s in shapes], fillvalue=1)]
    shape = tuple(next((n for n in each if n != 1), 1) for each in sizes)
    if any(n not in (1, size) for each, size in zip(sizes, shape, strict=True) for n in each):
        told = " and ".join(size_text(s) for s in shapes if s)
        raise FinchError("dimension", f"arrays of sizes {told} do not match")
    are_floats = all(type(a) is float or getattr(a, "dtype", None) == np.float64 for a in args)
    parts = [_spread(a, s, shape) for a, s in zip(args, shapes, strict=True)]
    if isinstance(function, Operator) and function.name in data.ARITHMETIC and are_floats:
        with np.errstate(all="ignore"):
            return np.asfortranarray(data.ARITHMETIC[function.name](*parts))
    flat = [p.flatten(order="F") if isinstance(p, np.ndarray) else [p] for p in parts]
    count = int(np.prod(shape))
    each = [list(map(data.plain, f)) if len(f) == count else [*f] * count for f in flat]
    return data.shaped([apply(*xs) for xs in zip(*each, strict=True)], shape)


def _shape(value: Any) -> tuple[int, ...] | None:
    """The sizes of a value that has elements; None for one that counts as a single element, as a string."""
    if data.is_array(value):
        return tuple(value.shape)
    return (len(value),) if isinstance(value, (list, tuple, data.FinchRange)) else None


def _spread(value: Any, own: tuple[int, ...] | None, shape: tuple[int, ...]) -> Any:
    if own is None:
        return value
    if data.is_array(value):
        array = data.dense(value)
    else:
        array = np.empty(len(value), object)
        array[:] = list(value)
    return np.broadcast_to(array.reshape(own + (1,) * (len(shape) - len(own))), shape)


def _of_tensors(function: Any, args: list[Any], arrays: Callable[..., Any]) -> Any:
    values = {f"x{k}": arg for k, arg in enumerate(args)} | {"f": function}
    op = f".{function.name}" if isinstance(function, Operator) else "f"
    names = tuple(Variable(name) for name in values if name != "f")
    node = Macro("array", (Call(Variable(op), names),))
    return arrays(node, Environment(values=values), lambda n: values[n.name])
