"""Writing a tensor that can only be written in order through a workspace, which can be written in any
order: updates in place (the life cycle pass), and others out of order (the workspaces pass)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from finchlang.algebra.expression_types import annotate
from finchlang.algebra.program_context import INIT, ProgramContext, root, size_extent
from finchlang.base.errors import Span
from finchlang.levels.dense import Dense
from finchlang.levels.element import Element
from finchlang.levels.interleaved import Interleaved
from finchlang.levels.level import Level
from finchlang.levels.packed import Packed
from finchlang.levels.sparse_bytemap import SparseByteMap
from finchlang.levels.sparse_hash import SparseHash
from finchlang.levels.workspace.workspace import Workspace
from finchlang.normalize.write_order.check_order import ordered_modes
from finchlang.syntax import nodes as ast
from finchlang.syntax.traversal import map_children, replace
from finchlang.syntax.types import Int32, Type


class Detour:
    """A workspace `name` that takes the updates of `tensor` in any order (`redirect`) and is then copied
    to it in order. It has the modes of `tensor` without the outermost ones that are fixed where it stands,
    by the indices `outer`; its k-th mode is the tensor's mode `modes[k]`, from 0."""

    def __init__(
        self, context: ProgramContext, tensor: str, name: str, outer: tuple[ast.Node, ...] = ()
    ) -> None:
        self.context, self.tensor, self.name, self.outer = context, tensor, name, outer
        self.fill = context.level(tensor).fill
        self.order = context.level(tensor).order - len(outer)
        self.modes = tuple(range(self.order))

    @classmethod
    def of(
        cls, context: ProgramContext, tensor: str, levels: Sequence[Level], *outer: ast.Node
    ) -> Any:
        """A new one, of the first of the formats `levels`, or of the second if `exchanged` has its name."""
        name = context.fresh(f"{tensor}_work")
        level = levels[len(levels) > 1 and name in context.exchanged]
        context.formats[name] = context.workspaces[name] = level
        if len(levels) > 1:
            context.choices.add(name)
        return cls(context, tensor, name, outer)

    @classmethod
    def in_place(cls, context: ProgramContext, tensor: str) -> Detour:
        """The one for updates in place of a tensor, which they share."""
        if tensor not in context.workspace_of:
            made = cls.of(context, tensor, workspace_levels(context, tensor)[-1])
            context.workspace_of[tensor] = made.name
        return cls(context, tensor, context.workspace_of[tensor])

    def enter(self, span: Span | None) -> tuple[ast.Node, ...]:
        """The statements that declare the workspace and fill it from the tensor."""
        return self.declare(self.name, span), self.copy(self.name, self.tensor, span)

    def leave(self, span: Span | None) -> tuple[ast.Node, ...]:
        """The statements that write the tensor anew from the workspace, up to its freeze."""
        frozen = ast.Freeze(ast.Variable(self.name, span=span), span=span)
        declared = self.declare(self.tensor, span)
        return frozen, declared, self.copy(self.tensor, self.name, span)

    def around(self, statements: Iterable[ast.Node], span: Span | None) -> tuple[ast.Node, ...]:
        """`statements` with their updates of the tensor going to the workspace, and from there to it."""
        frozen, _, copied = self.leave(span)
        return self.declare(self.name, span), *map(self.redirect, statements), frozen, copied

    def redirect(self, node: ast.Node) -> Any:
        """A statement with its updates of the tensor, and its mode, those of the workspace."""
        if isinstance(node, ast.Mode) and node.tensor.name == self.tensor:
            return replace(node, tensor=ast.Variable(self.name, span=node.tensor.span))
        if isinstance(node, ast.Assign) and root(node.target.tensor) == self.tensor:
            tensor = self._renamed(node.target.tensor)
            indices = node.target.indices[: len(node.target.indices) - len(self.outer)]
            return replace(node, target=replace(node.target, tensor=tensor, indices=indices))
        return map_children(self.redirect, node)

    def _renamed(self, tensor: ast.Node) -> ast.Node:
        if isinstance(tensor, ast.Call):
            return replace(tensor, args=(self._renamed(tensor.args[0]), *tensor.args[1:]))
        return ast.Variable(self.name, span=tensor.span)

    def declare(self, name: str, span: Span | None) -> ast.Declare:
        modes = self.modes if name == self.name else range(self.order)
        dims = tuple(size_extent(self.tensor, k + 1, span) for k in modes)
        fill = ast.Literal(self.fill.value, self.fill.type, span=span)
        return ast.Declare(ast.Variable(name, span=span), fill, dims, span=span)

    def copy(self, target: str, source: str, span: Span | None) -> ast.Node:
        """Loops, the last mode's outermost, that assign every element of `source` to `target`."""
        indices = self.context.fresh_indices(self.order, span)
        to, value = (self.access(name, indices, span) for name in (target, source))
        body: ast.Node = ast.Assign(to, ast.Variable(INIT, span=span), value, span=span)
        for condition in self.conditions(indices):
            body = ast.Sieve(condition, body, span=span)
        for k, index in enumerate(indices):
            body = ast.Loop(index, size_extent(self.tensor, k + 1, span), body, span=span)
        return annotate(body, {name: self.context.level(name) for name in (target, source)})

    def access(self, name: str, indices: tuple[ast.Node, ...], span: Span | None) -> ast.Access:
        own = (*indices, *self.outer)
        if name == self.name:
            own = tuple(indices[mode] for mode in self.modes)
        return ast.Access(ast.Variable(name, span=span), own, span=span)

    def conditions(self, indices: tuple[ast.Index, ...]) -> Iterator[ast.Node]:
        """The conditions of where to write, of the levels whose modes are all in the workspace."""
        modes = self.order + len(self.outer)
        for level in self.context.level(self.tensor).levels():
            own = indices[modes - level.modes : modes]
            modes -= level.modes
            condition = level.where_written(own) if len(own) == level.modes else None
            if condition is not None:
                yield condition


def workspace_levels(
    context: ProgramContext, name: str, known: int = 0, are_bare: bool = False
) -> list[list[Level]]:
    """The formats that a workspace for the tensor `name`, whose `known` outermost modes are fixed where
    it stands, may have, the best first; each perhaps with a second one that may suit the sizes better
    (`calls/workspace_choice.py`). `are_bare`: the tensor is updated through no wrapper."""
    rest = context.level(name)
    if not context.insert_workspaces:
        return [[rest.random_access()]]
    count = ordered_modes(rest) - known
    while known >= rest.modes > 0:
        known, rest = known - rest.modes, rest.child
    parts = list(rest.levels())
    ordered = parts[: 1 + max(n for n, part in enumerate(parts) if part.is_sequential)]
    if any(isinstance(part, Packed) for part in ordered):  # which knows the half that it stores
        return [] if known else [[rest.random_access()]]
    below = ordered[-1].child
    if name in context.policies:
        index = index_type(parts[:-1])
        given = context.policies[name]
        return [[Workspace(Element(rest.fill), index, rest.order - known, *given)]]
    index = index_type(ordered)
    if not below.is_leaf:
        return [[SparseHash(below, index, count)]]
    listed, flags = (Workspace(Element(rest.fill), index, count, p) for p in ("", "flags"))
    if count == 1:
        return [[SparseByteMap(below, index), listed]]
    if not ordered[0].is_dense or not are_bare:
        return [[listed, flags]]
    # fibers that are written in turn: a transpose of 10^6 entries takes 0.6 of the time
    return [[Dense(Interleaved(Element(rest.fill), index, count - 1))], [listed, flags]]


def index_type(levels: Sequence[Level]) -> Type:
    """The widest type of coordinates among `levels`."""
    types = [part.index_type if hasattr(part, "index") else Int32 for part in levels]
    return max(types, key=lambda type: type.highest)
