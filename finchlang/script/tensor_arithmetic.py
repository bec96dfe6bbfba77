"""Arithmetic of tensors in scripts: a kernel for each sum, difference, multiple and quotient."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from finchlang.calls.environment import Environment
from finchlang.levels.dense import Dense
from finchlang.levels.element import Element, typed_literal
from finchlang.levels.level import Level
from finchlang.levels.sparse_list import SparseList
from finchlang.operators.operator_table import Operator
from finchlang.script.make_tensors import element_type
from finchlang.script.values import ARITHMETIC, check_arrays, is_array, on_types, operate
from finchlang.syntax import nodes as ast
from finchlang.tensors.adopt import as_tensor
from finchlang.tensors.convert import over
from finchlang.tensors.tensor import SwizzledTensor, Tensor

RESULT = ast.Variable("result")


def is_by_kernel(op: Operator, args: list[Any]) -> bool:
    """Whether an operator has tensors to work on; with an array of NumPy's all is dense anyway."""
    arrays = [a for a in args if is_array(a)]
    is_dense = any(isinstance(a, np.ndarray) for a in arrays)
    return bool(arrays) and not is_dense and op.name in ARITHMETIC


def compute(
    op: Operator, args: list[Any], run: Callable[[ast.KernelNode, Environment], Any]
) -> Any:
    """`op` of two tensors of one size, or of one and perhaps a number, as a tensor; `run` runs its
    kernel. What is stored in none of the operands is not stored in the result.

    If the operands have the same format, and it can hold any entries, so has the result; else modes
    that are dense in all operands are dense, others lists. Raises FinchError "dimension", "type".
    """
    check_arrays(op.name, args)
    operands, permutation = _aligned([as_tensor(a) if is_array(a) else a for a in args])
    tensors = {f"x{k}": x for k, x in enumerate(operands) if isinstance(x, Tensor)}
    formats = [tensor.format for tensor in tensors.values()]
    fill, numbers = _fill(op, operands)
    shape = next(iter(tensors.values())).shape
    indices = tuple(ast.Index(f"i{k}") for k in range(len(shape)))
    nodes: list[ast.Node] = []
    for k, (operand, number) in enumerate(zip(operands, numbers, strict=True)):
        name = ast.Variable(f"x{k}")
        nodes.append(ast.Access(name, indices) if isinstance(operand, Tensor) else number or name)
    values = {f"x{k}": operand for k, operand in enumerate(operands)}
    values[RESULT.name] = Tensor(_common(formats, Element(fill)), *shape)
    environment = Environment(values=values)
    run(_kernel(ast.Call(ast.Variable(op.name), tuple(nodes)), indices, fill), environment)
    result = environment.values[RESULT.name]
    return result if permutation is None else SwizzledTensor(result, permutation)


@lru_cache(maxsize=256)  # a session knows a kernel again by its identity
def _kernel(value: ast.Node, indices: tuple[ast.Index, ...], fill: ast.Literal) -> ast.KernelNode:
    """`result .= fill; for i... = _  result[i...] = value  end`"""
    body: ast.Node = ast.Assign(ast.Access(RESULT, indices), ast.Variable("initwrite"), value)
    for index in indices:
        body = ast.Loop(index, ast.Dimensionless(), body)
    return ast.KernelNode(ast.Block((ast.Declare(RESULT, fill, ()), body)))


# ------------------------------------------------------------------------------------ what it is of


def _aligned(operands: list[Any]) -> tuple[list[Any], tuple[int, ...] | None]:
    """The operands, tensors as they are stored, and how their modes are permuted: as those of the
    first one are; others are put in that order."""
    first = next(x for x in operands if isinstance(x, (Tensor, SwizzledTensor)))
    permutation = first.permutation if isinstance(first, SwizzledTensor) else None
    format = first.body.format if isinstance(first, SwizzledTensor) else first.format

    def stored(tensor: Any) -> Any:
        own = tensor.permutation if isinstance(tensor, SwizzledTensor) else None
        if not isinstance(tensor, (Tensor, SwizzledTensor)):
            return tensor
        if own == permutation:
            return tensor.body if isinstance(tensor, SwizzledTensor) else tensor
        coordinates, values = tensor.entries()
        modes = [m - 1 for m in permutation or range(1, tensor.order + 1)]
        level = _common([format], Element(typed_literal(tensor.fill, element_type(tensor))))
        shape, coordinates = [tensor.shape[m] for m in modes], coordinates[modes]
        return Tensor.from_coo(level, shape, list(coordinates), values)

    return [stored(x) for x in operands], permutation


def _common(formats: list[Level], leaf: Level) -> Level:
    """The format over `leaf` of what is computed from tensors of `formats`."""
    found = [over(format, leaf) for format in formats]
    if found.count(found[0]) == len(found) and all(p.holds_any for p in found[0].levels()):
        return found[0]
    dense = [[p.is_dense for p in f.levels() for _ in range(p.modes)] for f in found]
    for are_dense in [*zip(*dense, strict=True)][::-1]:
        leaf = Dense(leaf) if all(are_dense) else SparseList(leaf)
    return leaf


def _fill(op: Operator, operands: list[Any]) -> tuple[ast.Literal, list[ast.Literal | None]]:
    """`op` of the fills, and the numbers that the kernel has to know so that it finds the same: none
    where the fills decide, as 0 does a product; then the kernel is the same for every number."""
    from finchlang.algebra.simplify import simplify

    fills = [x.format.fill if isinstance(x, Tensor) else None for x in operands]
    types = [element_type(x) for x in operands]
    parts = [f or ast.Variable("x", type=t) for f, t in zip(fills, types, strict=True)]
    found = simplify(ast.Call(ast.Variable(op.name), tuple(parts)))
    numbers: list[ast.Literal | None] = [None] * len(operands)
    if not isinstance(found, ast.Literal):
        numbers = [None if f else typed_literal(x) for f, x in zip(fills, operands, strict=True)]
        known = [(f or number).value for f, number in zip(fills, numbers, strict=True)]  # type: ignore[union-attr]
        found = ast.Literal(operate(op, known))
    element = on_types(op, tuple(types))[1]
    return typed_literal(element.wrap(found.value or 0), element), numbers
