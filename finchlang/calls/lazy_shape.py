"""Views of tensors in another shape, as values of scripts: they are computed only where a tensor of its
own is needed, and a kernel that uses one has the shape operators in place of its name.

A view holds the call that a kernel would write for it, and is no array expression: a kernel may index it
in all ways of the language (a window, a shift, an index that may be out of range), where array
expressions are lowered for the loops of their own programs; and sizes and numbers are those at the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, reduce
from math import prod
from typing import Any

import numpy as np

from finchlang.algebra.program_context import ONE
from finchlang.base.errors import Bug, FinchError
from finchlang.base.late import late
from finchlang.base.records import record
from finchlang.host.construct import const
from finchlang.host.ir import Expr, Var
from finchlang.host.primitives import as_function
from finchlang.levels.dense import Dense
from finchlang.levels.element import Element, typed_literal
from finchlang.levels.level import Level, level_of
from finchlang.normalize.shapes.reader import Reader
from finchlang.normalize.shapes.shaped import Shaped
from finchlang.operators.build import LARGEST
from finchlang.operators.operator_table import OPERATORS
from finchlang.syntax import nodes as ast, traversal as trees, types
from finchlang.tensors.adopt import as_tensor, list_format
from finchlang.tensors.array_base import LazyTensor
from finchlang.tensors.tensor import Tensor


@record(eq=False)
class Template:
    """The part of a view that a kernel is compiled for: a call of shape operators on `names`, which stand
    for its tensors and numbers and occur nowhere else."""

    call: ast.Node
    names: tuple[str, ...]


#: equal templates are one object, as call sites compare them by identity
_template = lru_cache(1024)(Template)


class TensorView(LazyTensor):
    """A tensor made from others by shape operators. `values` are the tensors and numbers by the names of
    its template; they are not copied."""

    def __init__(self, call: ast.Node, values: Mapping[str, Any]):
        self.values = dict(values)
        self.template = _template(call, tuple(self.values))
        self.order = len(self.shape)  # this also checks the sizes

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes as they are now. Raises FinchError "dimension", "type", or "bounds" for a slice."""
        orders = tuple([len(getattr(v, "shape", ())) for v in self.values.values()])
        return _sizes(self.template, orders).of(self.values)

    @property
    def tensors(self) -> list[Any]:
        return [as_tensor(value) for value in self.values.values() if not isinstance(value, int)]

    @property
    def format(self) -> Level:
        """The format it is materialised in: dense if all its tensors are, else lists with the fill of the
        first tensor that is not dense."""
        found = [level_of(tensor.format) for tensor in self.tensors]
        sparse = [level for level in found if not level.is_all_dense]
        element = reduce(types.promote, [level.element_type for level in found])
        fill = element.wrap((sparse or found)[0].fill.value)
        if sparse:
            return list_format(element, self.order, fill)
        leaf: Level = Element(typed_literal(fill, element))
        return reduce(lambda level, _: Dense(level), range(self.order), leaf)

    ndim = property(lambda self: self.order)
    fill = property(lambda self: self.format.fill.value)
    dtype = property(lambda self: self.format.element_type.dtype)

    def materialized(self, format: Level | None = None) -> Tensor:
        """A tensor of the same elements, copied by a kernel that stores what is not the format's fill."""
        format = self.format if format is None else format
        result = Tensor(format, *self.shape)
        late("run_kernel")(_copying(self.order, format.fill), {"T": result, "V": self})
        return result

    def __repr__(self) -> str:
        return f"{'x'.join(map(str, self.shape))} view of {self.format}"

    def call_of(self, names: Mapping[str, ast.Node]) -> ast.Node:
        """The call with its names replaced."""
        return trees.substitute(self.template.call, {ast.Variable(k): v for k, v in names.items()})


_AGREE = "there are sizes of {} that must be equal"
#: each a compiled function of the sizes and numbers of a view's values
Sizes = tuple[Callable[..., int], ...]


class _Sizes:
    """The sizes of a template for tensors of these orders, and what kernels check of them, compiled."""

    def __init__(self, template: Template, orders: tuple[int, ...]):
        given = dict(zip(template.names, orders, strict=True))
        keys = [(name, k) for name, order in given.items() for k in range(1, order + 1) or (0,)]
        self.inputs = {key: Var(key[0], types.Int64) for key in keys}
        self.equal: list[tuple[str, Sizes]] = []  # with the message if they differ
        self.products: list[Sizes] = []
        self.slices: list[Sizes] = []
        self.reader = Reader(
            lambda node: Shaped(node, given[node.name]),
            extent=_range,
            agree=lambda a, b: self.equal.append((_AGREE, self.functions(a.stop, b.stop))),
        )
        found = self.reader.shaped(template.call)
        for part in [*trees.walk(found.node)][::-1]:
            if isinstance(part, ast.Call) and isinstance(part.op, ast.Variable):
                self.check(part.op.name, part.args)
        modes = range(1, found.order + 1)
        self.sizes = self.functions(*[Shaped(found.node, 0).size(k) for k in modes])

    def check(self, name: str, args: tuple[Any, ...]) -> None:
        def size(mode: int, place: int = 0) -> ast.Node:
            return Shaped(args[place], 0).size(mode)

        if name == "concat":
            for mode in range(1, self.reader.shaped(args[1]).order + 1):
                if mode != args[0].value:
                    message = f"tensors of sizes {{}} in dimension {mode} are not put together"
                    sizes = [size(mode, place) for place in range(1, len(args))]
                    self.equal.append((message, self.functions(*sizes)))
        elif name == "collapse":
            self.products.append(self.functions(*[size(p.value) for p in args[1:]]))
        elif name == "broadcast":
            self.products.append(self.functions(args[2]))
        elif name == "window":
            for mode, part in enumerate(args[1:], 1):
                if isinstance(part, ast.Extent):
                    step = part.step or ONE
                    self.slices.append(self.functions(part.start, part.stop, step, size(mode)))

    def functions(self, *nodes: ast.Node) -> Sizes:
        variables = list(self.inputs.values())
        return tuple([as_function(self.expression(node), variables) for node in nodes])

    def expression(self, node: ast.Node) -> Expr:
        match node:
            case ast.Literal(value):
                return const(value, types.Int64)
            case ast.Variable(name):
                return self.inputs[name, 0]
            case ast.Call(ast.Variable("size"), (ast.Variable(name), ast.Literal(mode))):
                return self.inputs[name, mode]
            case ast.Call(ast.Variable(name), args):
                return OPERATORS[name].build(*map(self.expression, args))
            case ast.Extent():
                raise FinchError("type", "a size is a number, not a range")
        raise Bug(f"{node!r} is no size")

    def of(self, values: Mapping[str, Any]) -> tuple[int, ...]:
        given = [n for v in values.values() for n in getattr(v, "shape", (v,))]

        def known(functions: Sizes) -> tuple[int, ...]:
            return tuple([function(*given) for function in functions])

        for start, stop, step, n in map(known, self.slices):
            if step == 0 or abs(step) >= LARGEST:
                message = f"the step of a slice is not 0 and within 2^62, and not {step}"
                raise FinchError("dimension", message)
            places = range(start, stop + (1 if step > 0 else -1), step)
            if places and not (1 <= places[0] <= n and 1 <= places[-1] <= n):
                raise FinchError("bounds", f"the slice {start}:{step}:{stop} is not within 1:{n}")
        for message, functions in self.equal:
            if len({*(found := known(functions))}) > 1:
                raise FinchError("dimension", message.format(" and ".join(map(str, found))))
        sizes = known(self.sizes)
        for size in (*map(prod, map(known, self.products)), *sizes):
            if size > LARGEST:
                raise FinchError("dimension", f"a mode cannot have the size {size}")
        return sizes


_sizes = lru_cache(1024)(_Sizes)


def _range(node: ast.Node) -> ast.Node:
    if isinstance(node, ast.Extent):
        return node
    raise FinchError("type", "a range is expected here", hint="write `a:b`")


@lru_cache(256)
def _copying(order: int, fill: ast.Literal) -> ast.KernelNode:
    """The kernel `T[...] = V[...]` where V is not the fill; of a NaN fill, which equals nothing, all."""
    indices = tuple([ast.Index(f"i{k + 1}") for k in range(order)])
    element, target = ast.Access(ast.Variable("V"), indices), ast.Access(ast.Variable("T"), indices)
    body: ast.Node = ast.Assign(target, ast.Variable("initwrite"), element)
    if fill.value == fill.value:
        body = ast.Sieve(ast.call("!=", element, fill), body)
    for index in indices:
        body = ast.Loop(index, ast.Dimensionless(), body)
    return ast.KernelNode(ast.Block((ast.Declare(ast.Variable("T"), fill), body)))


def numpy_view(name: str, value: Any, modes: list[int], shape: tuple[int, ...]) -> Any:
    """A NumPy array over the memory of `value`, column-major; None if its strides do not allow it."""
    if not isinstance(value, np.ndarray):
        return None
    if name in ("permute_dims", "permutedims"):
        return value.transpose([mode - 1 for mode in modes] or None)  # by default all, reversed
    if name not in ("reshape", "flatten", "vec", "expand_dims", "squeeze"):
        return None
    try:
        return np.reshape(value, shape, order="F", copy=False)
    except ValueError:
        return None
