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
    """Whether an operator has tensors to work on; with an array of NumPy's all is dense anyway."""
    arrays = [a for a in args if is_array(a)]
    is_dense = any(isinstance(a, np.ndarray) for a in arrays)
    return bool(arrays) and not is_dense and op.name in ARITHMETIC


def compute(op: Operator, args: list[Any], run: Callable[[KernelNode, Environment], Any]) -> Any:
    """`op` of two tensors of one size, or of one and perhaps a number, as a tensor; `run` runs its
    kernel. What is stored in none of the operands is not stored in the result.

    The modes of the result are stored in the order that those of the first tensor are. If the operands
    have the same format, and it can hold any entries, so has the result; else modes that are dense in
    all operands are dense, others lists. Raises FinchError "dimension", "type".
    """
    check_arrays(op.name, args)
    from finchlang.array.compute import computed, sized_tensor
    from finchlang.script.array_statements import elementwise, operand

    operands = [operand(arg) for arg in args]
    root = elementwise(op.name, operands)
    formats = [arg.static.format for arg in operands if arg.shape]
    first = formats[0]
    permutation = _order(first)
    # those whose modes are in another order are read in that of the first
    alike = [f.level if permutation else f for f in formats if _order(f) == permutation]
    # a dense tensor and a number have a dense result, whatever its fill
    is_known = root.values.is_fill or all(arg.shape for arg in operands)
    type, fill = root.values.type, root.values.fill.value if is_known else 0
    level: Any = _common(alike, Element(typed_literal(type.wrap(fill or 0), type)))  # 0.0 for -0.0
    format = Swizzled(level, permutation) if permutation else level

    def run_kernel(kernel: KernelNode, values: dict[str, Any]) -> Any:
        return run(kernel, Environment(values=values))

    return computed((root,), outs=(sized_tensor(format, root.shape),), run_kernel=run_kernel)[0]


def _order(format: Level | Swizzled) -> tuple[int, ...] | None:
    return format.permutation if isinstance(format, Swizzled) else None


def _common(formats: list[Level], leaf: Level) -> Level:
    """The format over `leaf` of what is computed from tensors of `formats`."""
    from finchlang.array.plan import nest_of

    found = [format.with_leaf(leaf) for format in formats]
    if found.count(found[0]) == len(found) and all(p.holds_any for p in found[0].levels()):
        return found[0]
    dense = [[p.is_dense for p in f.levels() for _ in range(p.modes)] for f in found]
    return nest_of([*map(all, zip(*dense, strict=True))], leaf)
