"""What factors store: for each, how many coordinates of its labels are not annihilated, by how operands are
stored and how many entries they have."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from finchlang.algebra.costs import distinct
from finchlang.algebra.laws import is_value
from finchlang.array import expression as lazy
from finchlang.array.cost import OperandEntries
from finchlang.array.expression import Expression
from finchlang.array.inferred_values import op_node, result_of, unknown_values
from finchlang.levels.level import level_of
from finchlang.operators.operator_table import operator
from finchlang.syntax.types import Type
from finchlang.tensors.formats import modes_of
from finchlang.tensors.tensor import SwizzledTensor, Tensor, body_of

Labels = tuple[int | None, ...]


def entries_of(value: Any) -> float:
    """The number of values that an operand stores, or of elements of a NumPy array."""
    if isinstance(value, np.ndarray):
        return float(value.size)
    if isinstance(value, (Tensor, SwizzledTensor)):
        arrays = body_of(value).memory.arrays
        return float(arrays[-1].size) if arrays else 1.0
    return float(getattr(value, "nnz", 1))


def annihilates(op: Any, type: Type, values: Any) -> bool:
    """Whether `op` of the fill of an argument and anything is one value."""
    row = operator(op_node(op))
    laws = row.annihilators if row is not None else ()
    return values.is_fill and any([is_value(values.fill, law.value(type), type) for law in laws])


class Statistics:
    """The OperandEntries of expressions at labels of these sizes."""

    def __init__(self, sizes: list[int]):
        self.sizes = sizes
        self.parts: dict[int, float] = {}  # by the id of a node

    def places(self, labels: tuple[int, ...] | set[int]) -> float:
        return prod([float(self.sizes[label]) for label in labels])

    def of_factor(self, expr: Expression, labels: Labels, times: Any) -> OperandEntries:
        """The OperandEntries of a factor of a product by `times`."""
        own = {label for label in labels if label is not None}
        mask = sum([1 << label for label in own])
        is_sparse = annihilates(times, expr.values.type, expr.values)
        part = self.part(expr) if is_sparse else 1.0
        order, dense = self.order(expr, labels)
        return OperandEntries(mask, self.places(own) * part, is_sparse, order, dense)

    def part(self, node: Expression) -> float:
        """The expected part of the places of a node that differ from its fill."""
        if id(node) not in self.parts:
            self.parts[id(node)] = self._part(node)
        return self.parts[id(node)]

    def _part(self, node: Expression) -> float:
        if not node.values.is_fill:
            return 1.0
        kind = type(node)
        if isinstance(node, lazy.Leaf):
            size = prod([float(size) for size in node.shape])
            return min(entries_of(node.value) / max(size, 1.0), 1.0)
        if kind is lazy.Constant:
            return 0.0
        if kind is lazy.View:
            return self.part(node.args[0])
        if kind is lazy.Reduce:
            inner, count = self.part(node.args[0]), prod(map(float, node.args[0].shape))
            places = prod(map(float, node.shape))
            return distinct(places, inner * count) / max(places, 1.0)
        parts = [self.part(arg) for arg in node.args]
        if isinstance(node, lazy.Map):
            alone = [p for k, p in enumerate(parts) if p < 1 and _decides(node, k)]
            return prod(alone) if alone else 1 - prod([1 - p for p in parts])
        return max(parts, default=1.0)

    def order(self, node: Expression, labels: Labels) -> tuple[tuple[int, ...], int]:
        """The labels in the order of the operand that a factor is, or is made of elementwise, and the set
        of those with dense levels; nothing if there is none."""
        kind = type(node)
        if isinstance(node, lazy.Leaf):
            format = level_of(node.static.format)
            parts = zip(format.levels(), format.sizes(modes_of(node.static.format)), strict=True)
            order, sparse, dense = [], 0, 0
            for level, modes in parts:
                for mode in modes[::-1]:
                    label = labels[mode - 1]
                    if label is not None:
                        order.append(label)
                        dense, sparse = (
                            (dense | 1 << label, sparse)
                            if level.is_dense
                            else (dense, sparse | 1 << label)
                        )
            return tuple(dict.fromkeys(order)), dense & ~sparse
        if kind is lazy.View:
            return self.order(node.args[0], node.read_at(labels, None))  # type: ignore[attr-defined]
        if kind is lazy.Map:
            args = [arg for arg in node.args if arg.shape]
            fills = [arg for arg in args if arg.values.is_fill] or args
            return self.order(fills[0], labels) if fills else ((), 0)
        return (), 0


def _decides(node: lazy.Map, k: int) -> bool:
    """Whether the fill of one argument of a call decides the result alone."""
    if not node.args[k].values.is_fill:
        return False
    args = [a.values if n == k else unknown_values(a.values.type) for n, a in enumerate(node.args)]
    return result_of(node.op, *args).is_fill
