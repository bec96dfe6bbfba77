"""Updating a tensor in place that can only be written in order: through a workspace that can be
written in any order (the life cycle pass uses it)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from finchlang.normalize.context import INIT, Context, root, size_extent
from finchlang.normalize.types import annotate
from finchlang.source import Span
from finchlang.syntax import (
    Access,
    Assign,
    Call,
    Declare,
    Freeze,
    Index,
    Literal,
    Loop,
    Mode,
    Node,
    Sieve,
    Variable,
)
from finchlang.walk import map_children, replace


class Workspace:
    """The workspace of one tensor: `enter` fills it from the tensor, `redirect` makes updates of
    the tensor go to it, `leave` writes the tensor anew from it, in order, up to the freeze."""

    def __init__(self, context: Context, name: str):
        self.context = context
        self.tensor = name
        level = context.level(name)
        self.order, self.fill = level.order, level.fill
        if name not in context.workspace_of:
            work = context.workspace_of[name] = context.fresh(f"{name}_work")
            context.formats[work] = context.workspaces[work] = level.random_access()
        self.name = context.workspace_of[name]

    def enter(self, span: Span | None) -> tuple[Node, ...]:
        return self.declare(self.name, span), self.copy(self.name, self.tensor, span)

    def leave(self, span: Span | None) -> tuple[Node, ...]:
        frozen = Freeze(Variable(self.name, span=span), span=span)
        declared = self.declare(self.tensor, span)
        return frozen, declared, self.copy(self.tensor, self.name, span)

    def redirect(self, node: Node) -> Any:
        """The statement `node` with its updates of the tensor going to the workspace, whose mode is the
        tensor's now."""
        if isinstance(node, Mode) and node.tensor.name == self.tensor:
            return replace(node, tensor=Variable(self.name, span=node.tensor.span))
        if isinstance(node, Assign) and root(node.target.tensor) == self.tensor:
            target = replace(node.target, tensor=self._renamed(node.target.tensor))
            return replace(node, target=target)
        return map_children(self.redirect, node)

    def _renamed(self, tensor: Node) -> Node:
        if isinstance(tensor, Call):
            return replace(tensor, args=(self._renamed(tensor.args[0]), *tensor.args[1:]))
        return Variable(self.name, span=tensor.span)

    def extent(self, mode: int, span: Span | None) -> Node:
        return size_extent(self.tensor, mode, span)

    def declare(self, name: str, span: Span | None) -> Declare:
        dims = tuple(self.extent(k + 1, span) for k in range(self.order))
        fill = Literal(self.fill.value, self.fill.type, span=span)
        return Declare(Variable(name, span=span), fill, dims, span=span)

    def copy(self, target: str, source: str, span: Span | None) -> Node:
        """Loops, the last mode's outermost, that assign every element of `source` to `target`."""
        names = [self.context.fresh("ijklmnpq"[k % 8]) for k in range(self.order)]
        indices = tuple(Index(n, span=span) for n in names)
        body: Node = Assign(
            Access(Variable(target, span=span), indices, span=span),
            Variable(INIT, span=span),
            Access(Variable(source, span=span), indices, span=span),
            span=span,
        )
        for condition in self.conditions(indices):
            body = Sieve(condition, body, span=span)
        for k, index in enumerate(indices):
            body = Loop(index, self.extent(k + 1, span), body, span=span)
        return annotate(body, {name: self.context.level(name) for name in (target, source)})

    def conditions(self, indices: tuple[Index, ...]) -> Iterator[Node]:
        """Where the levels of the tensor and of the workspace are to be written."""
        for level in self.context.level(self.tensor).levels():
            own = indices[len(indices) - level.modes :]
            indices = indices[: len(indices) - level.modes]
            condition = level.where_written(own)
            if condition is not None:
                yield condition
