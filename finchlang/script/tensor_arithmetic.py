"""Arithmetic of tensors in scripts: sums, differences, multiples and quotients as array expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from finchlang.calls.environment import Environment
from finchlang.levels.element import Element, typed_literal
from finchlang.levels.level import Level, Swizzled
from finchlang.operators.operator_table import Operator
from finchlang.script.values import ARITHMETIC, check_arrays, is_array
from finchlang.syntax.nodes import KernelNode


def is_by_kernel(op: Operator, args: list[Any]) -> bool:
    """Whether an operator of arithmetic is applied to tensors, none of them a NumPy array: with one of
    those the result is dense anyway, and NumPy computes it."""
    arrays = [a for a in args if is_array(a)]
    is_dense = any(isinstance(a, np.ndarray) for a in arrays)
    return bool(arrays) and not is_dense and op.name in ARITHMETIC


def compute(op: Operator, args: list[Any], run: Callable[[KernelNode, Environment], Any]) -> Any:
    """`op` of two tensors of one size, or of a tensor and perhaps a number, as a tensor; `run` runs its
    kernel. What none of the operands stores is not stored in the result.

    The modes of the result are stored in the same order as in the first tensor. The result has the
    format of the operands if that is one for all and can hold any entries; else a mode is dense if it is
    dense in all operands, and a list if not. Raises FinchError "dimension" or "type".
    """
    check_arrays(op.name, args)
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
    from finchlang.array.plan import nest_of

    found = [format.with_leaf(leaf) for format in formats]
    if found.count(found[0]) == len(found) and all(p.holds_any for p in found[0].levels()):
        return found[0]
    dense = [[p.is_dense for p in f.levels() for _ in range(p.modes)] for f in found]
    return nest_of([*map(all, zip(*dense, strict=True))], leaf)
