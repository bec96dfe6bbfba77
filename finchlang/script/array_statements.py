"""The statements `@array` and `@einsum` of scripts as lazy arrays. Operators are those of kernels, applied
to elements with the types they have there; modes count from 1, and broadcast from the first on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from finchlang.array import expression as lazy
from finchlang.array.indexing import getitem
from finchlang.array.operands import as_expression
from finchlang.base.errors import FinchError, number_of
from finchlang.calls.environment import Environment
from finchlang.levels.element import typed_literal
from finchlang.operators.operator_table import literal_type
from finchlang.script import array_expressions as table
from finchlang.script.array_expressions import results, told
from finchlang.script.subscripts import ALL, index_of
from finchlang.script.values import held
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.tensors.array_base import size_text
from finchlang.tensors.tensor import Scalar
from finchlang.text.literals import SPELLINGS

#: the operators that are refused between arrays without a dot
_SIGNS = {"/", "div", "%", "^", "&", "|", "xor", "<<", ">>", "==", "!=", "<", "<=", ">", ">="}

_NONE: Mapping[str, Any] = {}
Value = Callable[[ast.Node], Any]
RunKernel = Callable[[ast.KernelNode, Environment], Any]


def made(node: ast.Macro, environment: Environment, value: Value, run_kernel: RunKernel) -> Any:
    """The tensor that a statement makes, by one kernel; `@array` without modes gives a number. Raises
    FinchError of kind "dimension", "bounds" or "type", at the node at fault."""

    is_einsum = node.name == "einsum"
    elements = (_Einsum if is_einsum else _Elements)(environment, value)
    with told(node):
        root, is_dense = elements.statement(*node.args)
        (found,) = results((root,), run_kernel, is_dense=is_dense)
    return held(found) if isinstance(found, Scalar) and not is_einsum else found


class _Elements:
    """Builds the expression of `@array`. `value` evaluates nodes, `environment` has what names mean."""

    def __init__(self, environment: Environment, value: Value):
        self.environment, self.value = environment, value

    def statement(self, node: ast.Node) -> tuple[lazy.Expression, bool]:
        """The expression to compute, and whether in a dense format (`todense(...)`)."""
        match node:
            case ast.Call(ast.Variable("todense"), (array,)):
                return self.node(array), True
        return self.node(node), False

    def node(self, node: ast.Node) -> lazy.Expression:
        with told(node):
            return self._node(node)

    def _node(self, node: ast.Node) -> lazy.Expression:
        match node:
            case ast.Literal(value):
                if (type := literal_type(node)) is None:
                    raise FinchError("type", "this is no number")
                return lazy.Constant(typed_literal(type.wrap(value), type))
            case ast.Call(ast.Variable(name), args):
                return self.call(name, node.op, args)
            case ast.KeywordCall(ast.Variable(name), args, (("dims", dims),)):
                return self.call(name, node.op, args, {"dims": self.value(dims)})
            case ast.Access(array, indices) if indices:
                found = self.node(array)
                if len(indices) != len(found.shape):
                    given = number_of(len(indices), "index", "indices")
                    message = f"{given} of an array of size {size_text(found.shape)}"
                    hint = "give one for each mode; a mask is an index outside of `@array`"
                    raise FinchError("dimension", message, None, hint)
                keys = zip(indices, found.shape, strict=True)
                return getitem(lazy.Array(found), tuple([self.index(*key) for key in keys])).node
            case ast.Access(array):
                return self.node(array)
            case _:
                return table.operand(self.value(node))

    def call(
        self, name: str, op: ast.Node, args: tuple[ast.Node, ...], named: Mapping[str, Any] = _NONE
    ) -> lazy.Expression:
        if name in table.FUNCTIONS and args and not self.environment.has(name):
            count = table.ARRAYS.get(name, 1)
            arrays = [lazy.Array(self.node(arg)) for arg in args[:count]]
            return table.FUNCTIONS[name](*arrays, *map(self.value, args[count:]), **named).node
        if named:
            hint = f"with `dims` of one array: {', '.join(table.FUNCTIONS)}"
            raise FinchError("type", f"this is not how `{name}` is called here", hint=hint)
        parts = [self.node(arg) for arg in args]
        if name[0] == ".":
            return table.elementwise(SPELLINGS.get(name[1:], name[1:]), parts)
        are_arrays = [bool(part.shape) for part in parts]
        if name == "*" and are_arrays == [True, True]:
            return table.matrix_product(*parts)
        if name in _SIGNS and are_arrays == [True, True]:
            hint = f"write `.{name}` between their elements"
            raise FinchError("type", f"`{name}` is not defined between arrays", hint=hint)
        return table.elementwise(self.operator(op), parts)

    def operator(self, node: ast.Node) -> Any:
        """The operator of a name: its name in the table, or the Operation made of a script's function."""
        with told(node):
            return table.operator_of(self.value(node), getattr(node, "name", "this"))

    def index(self, node: ast.Node, size: int) -> Any:
        """The index as Python's: from 0, a range as a slice. Raises FinchError "bounds"."""
        with told(node):
            return index_of(self.value(node), size)


class _Einsum(_Elements):
    """Builds the expression of `@einsum`, whose modes are the target's indices, then those reduced."""

    def statement(self, *parts: Any) -> tuple[lazy.Expression, bool]:
        target, op, value = parts
        assert isinstance(target, ast.Group)
        accesses = [*trees.find_all(value, ast.Access)]
        self.parts = {id(node): self._part(node) for node in accesses}
        known: dict[ast.Node, tuple[int, Any]] = {}  # sizes, and the accesses with them
        for access in accesses:
            array, names = self.parts[id(access)]
            for index, size in zip(names, array.shape, strict=True):
                other, first = known.setdefault(index, (size, access))
                if other != size:
                    both = f"{other} in {first.span.text}, {size} in {access.span.text}"  # type: ignore[union-attr]
                    message = f"`{index.name}` has size {both}"  # type: ignore[attr-defined]
                    raise FinchError("dimension", message, access.span)
        self.sizes = {index: size for index, (size, _) in known.items()}
        for index in target.items:
            if index not in self.sizes:
                message = f"no array has the index `{index.name}`"  # type: ignore[attr-defined]
                raise FinchError("dimension", message, index.span)
        kept = len(target.items)
        self.indices = [*target.items, *(i for i in self.sizes if i not in target.items)]
        result = self.node(value)
        shape = tuple([self.sizes[index] for index in self.indices])
        if result.shape != shape:  # it does not depend on all indices
            result = lazy.broadcast(result, shape)
        axes = tuple(range(kept, len(shape)))
        if op == ast.Variable("initwrite"):
            if axes:
                name = self.indices[kept].name  # type: ignore[attr-defined]
                message = f"`=` does not say how `{name}` is reduced"
                raise FinchError("type", message, value.span, "write `+=`, `max=` or `<<f>>=`")
            return result, False
        return table.summed(self.operator(op), result, axes), False

    def _node(self, node: ast.Node) -> lazy.Expression:
        if not isinstance(node, (ast.Index, ast.Access)):
            return super()._node(node)
        if isinstance(node, ast.Access):
            found, names = self.parts[id(node)]
        else:  # an index as a number: a vector of its values
            found, names = as_expression(np.arange(1, self.sizes[node] + 1)), (node,)
        places = tuple([self.indices.index(index) for index in names])
        shape = tuple([self.sizes[index] for index in self.indices])
        return lazy.View(found, places, shape) if shape else found

    def _part(self, access: ast.Access) -> tuple[lazy.Expression, tuple[ast.Node, ...]]:
        """What an access reads, without the modes indexed by a number, and the other modes' indices."""
        array = table.operand(self.value(access.tensor))
        if len(access.indices) != len(array.shape):
            message = f"{len(access.indices)} indices of an array of {len(array.shape)} modes"
            raise FinchError("dimension", message, access.span)
        ranges = [index.op if isinstance(index, ast.Call) else index for index in access.indices]
        if all(isinstance(index, ast.Index) for index in ranges):
            return array, access.indices
        for index in ranges:
            parts = trees.walk(index) if isinstance(index, ast.Extent) else ()
            if any(isinstance(part, ast.Index) for part in parts):
                message = "the ends of a window are numbers of the script"
                raise FinchError("type", message, index.span)
        pairs = zip(ranges, array.shape, strict=True)
        keys = tuple([ALL if isinstance(i, ast.Index) else self.index(i, n) for i, n in pairs])
        names = [i.args[0] if isinstance(i, ast.Call) else i for i in access.indices]
        kept = tuple([name for name in names if isinstance(name, ast.Index)])
        return getitem(lazy.Array(array), keys).node, kept

    def call(
        self, name: str, op: ast.Node, args: tuple[ast.Node, ...], named: Mapping[str, Any] = _NONE
    ) -> lazy.Expression:
        if named:
            return super().call(name, op, args, named)
        return table.elementwise(self.operator(op), list(map(self.node, args)))
