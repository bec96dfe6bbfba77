"""A checker of Finch Normal Form (Finch'25 section 5.1), run last: what it finds is our fault."""

from __future__ import annotations

from typing import NoReturn

from finchlang.algebra.program_context import RESERVED, ProgramContext, root
from finchlang.base.errors import Bug
from finchlang.levels.level import READ, UPDATE
from finchlang.syntax import nodes as ast
from finchlang.syntax.traversal import Header, binds, head, statements, walk
from finchlang.text.print import pretty

#: the headers around a place
Around = tuple[Header, ...]


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
    declarations; `bound` has how deep each name is bound, with the header that binds it."""

    def __init__(self, context: ProgramContext):
        self.context = context
        self.modes: dict[str, str] = {}
        self.scopes: dict[str, Around] = {}
        self.bound: dict[str, tuple[int, ast.Node]] = {}

    def statement(self, node: ast.Node, around: Around) -> None:
        match node:
            case ast.Loop(index, extent):
                self.extent(extent, around)
                if self.depth(index.name, around) is not None:
                    _fault(f"{index.name} is bound twice", node)
            case ast.Define(_, value) if ast.is_meet(value):
                for part in value.args:
                    self.extent(part, around)
            case ast.Define() | ast.Sieve():
                self.expression(head(node), around)
            case ast.Assign(target, _, value):
                self.access(target, around, UPDATE)
                self.expression(value, around)
            case ast.Declare(tensor, init, dims):
                self.expression(init, around)
                if len(dims) != self.context.level(tensor.name).order:
                    _fault("dimensions are missing", node)
                for dim in dims:
                    self.extent(dim, around)
                self.scopes[tensor.name] = around
                self.change(tensor.name, READ, UPDATE, node, around)
            case ast.Thaw(tensor):
                self.change(tensor.name, READ, UPDATE, node, around)
            case ast.Freeze(tensor):
                self.change(tensor.name, UPDATE, READ, node, around)
            case _:
                _fault("no statement", node)
        self.bound |= dict.fromkeys(binds(node), (len(around), node))

    def depth(self, name: str, around: Around) -> int | None:
        """How deep a name is bound around a place; None if it is not."""
        depth, header = self.bound.get(name) or (len(around), None)
        return depth if depth < len(around) and around[depth] is header else None

    def change(self, name: str, old: str, new: str, node: ast.Node, around: Around) -> None:
        """A scope goes on in a `let` within it."""
        scope = self.scopes.get(name, ())
        inside = around[len(scope) :]
        if around[: len(scope)] != scope or not all(isinstance(h, ast.Define) for h in inside):
            _fault(f"{name} changes its mode outside of its scope", node)
        if self.modes.get(name, READ) != old:
            _fault(f"{name} is not in {old} mode", node)
        self.modes[name] = new

    def extent(self, node: ast.Node, around: Around) -> None:
        if isinstance(node, ast.Extent):
            self.expression(node.start, around)
            self.expression(node.stop, around)
        elif not isinstance(node, ast.Variable) or self.depth(node.name, around) is None:
            _fault("no extent", node)

    def expression(self, node: ast.Node, around: Around) -> None:
        for n in walk(node):
            if isinstance(n, ast.Access):
                self.access(n, around, READ)
            elif isinstance(n, (ast.Index, ast.Variable)) and self.depth(n.name, around) is None:
                is_free = n.name in self.context.formats or n.name in RESERVED
                if isinstance(n, ast.Index) or not is_free:
                    _fault(f"{n.name} is not bound", node)

    def access(self, node: ast.Access, around: Around, mode: str) -> None:
        name = root(node.tensor)
        if name is not None and self.modes.get(name, READ) != mode:
            _fault(f"{name} is not in {mode} mode", node)
        depth = -1
        for index in reversed(node.indices):
            own = self.depth(index.name, around) if isinstance(index, ast.Index) else None
            if own is None:
                _fault("an index is not bare or not bound", node)
            if own <= depth:
                _fault("not concordant", node)
            depth = own
