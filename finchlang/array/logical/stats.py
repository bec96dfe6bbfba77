"""What factors store: for each, how many coordinates of its labels are not annihilated, by how operands are
stored and how many entries they have."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from finchlang.algebra.costs import distinct
from finchlang.algebra.laws import identity_of
from finchlang.array import expression as lazy
from finchlang.array.cost import OperandEntries, bits
from finchlang.array.inferred_values import Values, result_of, unknown_values
from finchlang.array.logical.form import Labels, SumProduct
from finchlang.array.plan import levels_at
from finchlang.tensors.tensor import SwizzledTensor, Tensor, body_of


def entries_of(value: Any) -> float:
    """The number of values that an operand stores, or of elements of a NumPy array."""
    if isinstance(value, np.ndarray):
        return float(value.size)
    if isinstance(value, (Tensor, SwizzledTensor)):
        arrays = body_of(value).memory.arrays
        return float(arrays[-1].size) if arrays else 1.0
    return float(getattr(value, "nnz", 1))


def decides(op: Any, k: int, *args: Values) -> bool:
    """Whether the fill of the k-th of these arguments of `op` decides the result alone."""
    others = [values if n == k else unknown_values(values.type) for n, values in enumerate(args)]
    return args[k].is_fill and result_of(op, *others).is_fill


def annihilates(times: Any, values: Values) -> bool:
    """Whether a product by `times`, if there is one, has one value where a factor is at its fill."""
    return times is not None and decides(times, 0, values, values)


class Statistics:
    """What expressions store."""

    def __init__(self) -> None:
        self.parts: dict[lazy.Expression, float] = {}

    def of_factor(self, expr: lazy.Expression, labels: Labels, form: SumProduct) -> OperandEntries:
        """The OperandEntries of a factor of a form at these labels. It is sparse where the form is reduced
        over what changes nothing: fills that annihilate the product, or that are the identity."""
        own, sizes = {label for label in labels if label is not None}, form.sizes
        is_sparse = annihilates(form.times, expr.values)
        if form.times is None and expr.values.is_fill:
            is_sparse = expr.values.fill == identity_of(form.total, form.type)
        part = self.part(expr) if is_sparse else 1.0
        order, dense = self.order(expr, labels)
        entries = part * prod([float(sizes[label]) for label in own])
        split = None if expr.joined is None else labels[expr.joined]
        cases = 0 if split is None else 1 << split
        return OperandEntries(bits(own), entries, is_sparse, order, dense, cases=cases)

    def part(self, node: lazy.Expression) -> float:
        """The expected part of the places of a node that differ from its fill."""
        if node not in self.parts:
            self.parts[node] = self._part(node)
        return self.parts[node]

    def _part(self, node: lazy.Expression) -> float:
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
        parts = [self.part(arg) if arg.shape else 0.0 for arg in node.args]
        if isinstance(node, lazy.Map):
            own = [arg.values for arg in node.args]
            alone = [p for k, p in enumerate(parts) if p < 1 and decides(node.op, k, *own)]
            return prod(alone) if alone else 1 - prod([1 - p for p in parts])
        return max(parts, default=1.0)

    def order(self, node: lazy.Expression, labels: Labels) -> tuple[tuple[int, ...], int]:
        """The labels in the order of the operand that a factor is, or is made of elementwise, and the set
        of those with dense levels; nothing if there is none."""
        kind = type(node)
        if isinstance(node, lazy.Leaf):
            places = levels_at(node.static.format, labels)
            levels = [(label, level) for label, level in places if label is not None]
            sparse = {label for label, level in levels if not level.is_dense}
            order = tuple(dict.fromkeys([label for label, _ in levels]))
            return order, bits(label for label in order if label not in sparse)
        if kind is lazy.View:
            return self.order(node.args[0], node.read_at(labels, None))  # type: ignore[attr-defined]
        if kind is lazy.Map:
            args = [arg for arg in node.args if arg.shape]
            fills = [arg for arg in args if arg.values.is_fill] or args
            return self.order(fills[0], labels) if fills else ((), 0)
        return (), 0
