"""Arithmetic of tensors in scripts as array expressions, and functions with a dot, applied to elements."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import Any

import numpy as np

from finchlang.base.errors import FinchError
from finchlang.calls.environment import Environment
from finchlang.levels.element import Element, typed_literal
from finchlang.levels.level import Level, Swizzled, level_of
from finchlang.operators.operator_table import Operator
from finchlang.script import values as data
from finchlang.syntax.nodes import Call, KernelNode, Macro, Variable
from finchlang.tensors.array_base import size_text
from finchlang.tensors.formats import nest_of
from finchlang.tensors.tensor import Scalar

#: runs a kernel on the values of its names
Run = Callable[[KernelNode, Environment], Any]


def is_by_kernel(op: Operator, args: list[Any]) -> bool:
    """Whether an operator of arithmetic is applied to tensors, none of them a NumPy array: with one of
    those the result is dense anyway, and NumPy computes it."""
    arrays = [a for a in args if data.is_array(a)]
    is_dense = any(isinstance(a, np.ndarray) for a in arrays)
    return bool(arrays) and not is_dense and op.name in data.ARITHMETIC


def compute(op: Operator, args: list[Any], run: Run) -> Any:
    """`op` of two tensors of one size, or of a tensor and perhaps a number, as a tensor. What none of the
    operands stores is not stored in it; its modes are stored in the order of the first tensor. It has the
    format of the operands if that is one for all and can hold any entries; else a mode is dense if it is
    dense in all operands, and a list if not. Raises FinchError "dimension" or "type"."""
    data.check_arrays(op.name, args)
    from finchlang.array.compute import computed, sized_tensor
    from finchlang.script.array_statements import elementwise, operand

    operands = [operand(arg) for arg in args]
    root = elementwise(op.name, operands)
    formats = [arg.static.format for arg in operands if arg.shape]
    permutation = getattr(formats[0], "permutation", None)
    # operands stored in another order do not count: they are copied to that of the first
    alike = [level_of(f) for f in formats if getattr(f, "permutation", None) == permutation]
    # for a dense tensor and a number the result is dense, and its fill does not matter
    is_known = root.values.is_fill or all(arg.shape for arg in operands)
    type, fill = root.values.type, root.values.fill.value if is_known else 0
    level: Any = _common(alike, Element(typed_literal(type.wrap(fill or 0), type)))  # 0.0 if -0.0
    format = Swizzled(level, permutation) if permutation else level

    def run_kernel(kernel: KernelNode, values: dict[str, Any]) -> Any:
        return run(kernel, Environment(values=values))

    return computed((root,), outs=(sized_tensor(format, root.shape),), run_kernel=run_kernel)[0]


def _common(formats: list[Level], leaf: Level) -> Level:
    """The format over `leaf` of a result of tensors of these formats."""
    found = [format.with_leaf(leaf) for format in formats]
    if found.count(found[0]) == len(found) and all(p.holds_any for p in found[0].levels()):
        return found[0]
    dense = [[p.is_dense for p in f.levels() for _ in range(p.modes)] for f in found]
    return nest_of([*map(all, zip(*dense, strict=True))], leaf)


# ------------------------------------------------------------------------------ with a dot


def elementwise(function: Any, args: list[Any], apply: Callable[..., Any], run: Run) -> Any:
    """`function.(args...)`. With tensors it is computed by a kernel, as `@array` does; else
    `apply` calls the function for each element, in column-major order. Dimensions are matched from the
    first on, and those of size 1 are repeated. Raises FinchError "dimension" if sizes do not match."""
    if any(data.is_array(a) and not isinstance(a, np.ndarray) for a in args):
        return _of_tensors(function, args, run)
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


def _of_tensors(function: Any, args: list[Any], run: Run) -> Any:
    from finchlang.script.array_statements import made

    values = {f"x{k}": arg for k, arg in enumerate(args)} | {"f": function}
    op = f".{function.name}" if isinstance(function, Operator) else "f"
    names = tuple(Variable(name) for name in values if name != "f")
    node = Macro("array", (Call(Variable(op), names),))
    return made(node, Environment(values=values), lambda n: values[n.name], run)  # type: ignore[attr-defined]
