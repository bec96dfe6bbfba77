"""Tensors in another shape as values of scripts: nothing is computed before one is needed as a tensor of
its own, and kernels have the shape operators in its name's place."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any

import numpy as np

from finchlang.denote.shapes import infer, size
from finchlang.protocols import ArrayMethods
from finchlang.syntax import (
    Access,
    Assign,
    Block,
    Call,
    Declare,
    Dimensionless,
    Extent,
    Index,
    KernelNode,
    Literal,
    Loop,
    Node,
    Sieve,
    Variable,
)
from finchlang.tensors.adopted import as_tensor
from finchlang.tensors.dense import Dense
from finchlang.tensors.element import Element, typed_literal
from finchlang.tensors.level import Level, Swizzled
from finchlang.tensors.sparse_coo import SparseCOO
from finchlang.tensors.sparse_list import SparseList
from finchlang.tensors.tensor import Tensor
from finchlang.types import Int64, promote
from finchlang.walk import substitute


@dataclass(frozen=True, eq=False)
class Template:
    """What a kernel depends on of a view: the call that it stands for, of tensors and numbers by names
    that only it has."""

    call: Node
    names: tuple[str, ...]


#: equal ones are the same
_template = lru_cache(1024)(Template)


class TensorView(ArrayMethods):
    """A tensor made of others by shape operators. `values` are those that the names of its template
    stand for, which it has no copies of."""

    def __init__(self, call: Node, values: Mapping[str, Any]):
        self.values = dict(values)
        self.template = _template(call, tuple(self.values))
        self.order = len(self.shape)  # and the sizes are right

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes as they are now. Raises FinchError "dimension"."""

        def leaf(node: Any) -> list[tuple[int, int]]:
            return [(1, n) for n in self.values[node.name].shape]

        def value(node: Any) -> Any:
            if isinstance(node, Extent):
                return value(node.start), value(node.stop), value(node.step or Literal(1))
            return node.value if isinstance(node, Literal) else self.values[node.name]

        def of(bounds: Any, *modes: Any, **_: Any) -> Any:
            return bounds(*modes)

        return tuple(map(size, infer(self.template.call, leaf, value, of)))

    @property
    def tensors(self) -> list[Any]:
        return [as_tensor(value) for value in self.values.values() if not isinstance(value, int)]

    @property
    def format(self) -> Level:
        """What it is materialised in: dense as its tensors are, else lists, of the fill of the first that
        is sparse."""
        found = [_level(tensor.format) for tensor in self.tensors]
        sparse = [level for level in found if not _is_dense(level)]
        element = reduce(promote, [level.element_type for level in found])
        fill = (sparse or found)[0].fill.value
        leaf: Level = Element(typed_literal(element.wrap(fill), element))
        if sparse and self.order > 2:
            return SparseCOO(leaf, Int64, self.order)
        for mode in range(self.order):
            leaf = SparseList(leaf) if sparse and not mode else Dense(leaf)
        return leaf

    ndim = property(lambda self: self.order)
    fill = property(lambda self: self.format.fill.value)
    dtype = property(lambda self: self.format.element_type.dtype)

    def materialized(self, format: Level | None = None) -> Tensor:
        """A tensor of the same elements, by a kernel that stores what is not the format's fill."""
        format = self.format if format is None else format
        result = Tensor(format, *self.shape)
        session = importlib.import_module("finchlang.session").own_session()
        session.run_kernel(_copying(self.order, format.fill), {"T": result, "V": self})
        return result

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.materialized(), name)

    def __repr__(self) -> str:
        return f"{'x'.join(map(str, self.shape))} view of {self.format}"

    def call_of(self, names: Mapping[str, Node]) -> Node:
        """The call with others in the places of its own names."""
        return substitute(self.template.call, {Variable(k): v for k, v in names.items()})


def _level(format: Any) -> Level:
    return format.level if isinstance(format, Swizzled) else format


def _is_dense(level: Level) -> bool:
    return all([part.is_leaf or part.is_dense for part in level.levels()])


@lru_cache(256)
def _copying(order: int, fill: Literal) -> KernelNode:
    """`T[...] = V[...]` where that is not the fill."""
    indices = tuple([Index(f"i{k + 1}") for k in range(order)])
    element, target = Access(Variable("V"), indices), Access(Variable("T"), indices)
    body: Node = Assign(target, Variable("initwrite"), element)
    if fill.value == fill.value:
        body = Sieve(Call(Variable("!="), (element, fill)), body)
    for index in indices:
        body = Loop(index, Dimensionless(), body)
    return KernelNode(Block((Declare(Variable("T"), fill), body)))


def numpy_view(name: str, value: Any, modes: list[int], shape: tuple[int, ...]) -> Any:
    """An array over the memory of another, column-major, if its strides allow it; else None."""
    if not isinstance(value, np.ndarray):
        return None
    if name in ("permute_dims", "permutedims"):
        return value.transpose([mode - 1 for mode in modes])
    if name not in ("reshape", "flatten", "vec", "expand_dims", "squeeze"):
        return None
    try:
        return np.reshape(value, shape, order="F", copy=False)
    except ValueError:
        return None
