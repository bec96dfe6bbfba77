"""A checker of Finch Normal Form (Finch'25 section 5.1), run last: what it finds is our fault."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from finchlang.algebra.program_context import RESERVED, ProgramContext, root
from finchlang.base.errors import Bug
from finchlang.levels.level import READ, UPDATE
from finchlang.syntax import nodes as ast
from finchlang.syntax.traversal import Header, binds, head, statements, walk
from finchlang.text.print import pretty


def check_normal_form(program: ast.Node, context: ProgramContext) -> None:
    """Raise Bug for what keeps `program` from being in normal form: an index that is not bare,
    bound, or concordant; an extent that is no extent or cannot be evaluated; a declaration without
    its dimensions; a tensor in the wrong mode, or changing it outside of its scope."""
    check = _Check(context)
    for node, around in statements(program):
        check.statement(node, around)
    if UPDATE in check.modes.values():
        _fault("a tensor is not frozen", program)


def _fault(message: str, node: ast.Node) -> NoReturn:
    raise Bug(f"not in Finch Normal Form: {message} in `{pretty(node)}`")


class _Check:
    """`modes` are those of tensors so far, if not read mode, and `scopes` the headers around their
    declarations. In its methods `around` are the headers around a place."""

    def __init__(self, context: ProgramContext):
        self.context = context
        self.modes: dict[str, str] = {}
        self.scopes: dict[str, tuple[Header, ...]] = {}

    def statement(self, node: ast.Node, around: tuple[Header, ...]) -> None:
        bound = {name: depth for depth, header in enumerate(around) for name in binds(header)}
        match node:
            case ast.Loop(index, extent):
                self.extent(extent, bound)
                if index.name in bound:
                    _fault(f"{index.name} is bound twice", node)
            case ast.Define(_, value) if ast.is_meet(value):
                for part in value.args:
                    self.extent(part, bound)
            case ast.Define() | ast.Sieve():
                self.expression(head(node), bound)
            case ast.Assign(target, _, value):
                self.access(target, bound, UPDATE)
                self.expression(value, bound)
            case ast.Declare(tensor, init, dims):
                self.expression(init, bound)
                if len(dims) != self.context.level(tensor.name).order:
                    _fault("dimensions are missing", node)
                for dim in dims:
                    self.extent(dim, bound)
                self.scopes[tensor.name] = around
                self.change(tensor.name, READ, UPDATE, node, around)
            case ast.Thaw(tensor):
                self.change(tensor.name, READ, UPDATE, node, around)
            case ast.Freeze(tensor):
                self.change(tensor.name, UPDATE, READ, node, around)
            case _:
                _fault("no statement", node)

    def change(
        self, name: str, old: str, new: str, node: ast.Node, around: tuple[Header, ...]
    ) -> None:
        """A scope goes on in a `let` within it."""
        scope = self.scopes.get(name, ())
        inside = around[len(scope) :]
        if around[: len(scope)] != scope or not all(isinstance(h, ast.Define) for h in inside):
            _fault(f"{name} changes its mode outside of its scope", node)
        if self.modes.get(name, READ) != old:
            _fault(f"{name} is not in {old} mode", node)
        self.modes[name] = new

    def extent(self, node: ast.Node, bound: Mapping[str, int]) -> None:
        if isinstance(node, ast.Extent):
            self.expression(node.start, bound)
            self.expression(node.stop, bound)
        elif not (isinstance(node, ast.Variable) and node.name in bound):
            _fault("no extent", node)

    def expression(self, node: ast.Node, bound: Mapping[str, int]) -> None:
        known = (bound, self.context.formats, RESERVED)
        for n in walk(node):
            if isinstance(n, ast.Access):
                self.access(n, bound, READ)
            elif isinstance(n, ast.Index) and n.name not in bound:
                _fault(f"{n.name} is not bound", node)
            elif isinstance(n, ast.Variable) and not any(n.name in names for names in known):
                _fault(f"{n.name} means nothing", node)

    def access(self, node: ast.Access, bound: Mapping[str, int], mode: str) -> None:
        name = root(node.tensor)
        if name is not None and self.modes.get(name, READ) != mode:
            _fault(f"{name} is not in {mode} mode", node)
        depth = -1
        for index in reversed(node.indices):
            if not isinstance(index, ast.Index) or index.name not in bound:
                _fault("an index is not bare or not bound", node)
            if bound[index.name] <= depth:
                _fault("not concordant", node)
            depth = bound[index.name]
