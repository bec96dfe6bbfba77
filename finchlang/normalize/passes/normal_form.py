"""A checker of Finch Normal Form (Finch'25 section 5.1), run last: what it finds is our fault."""

from __future__ import annotations

from typing import Any

from finchlang.algebra.program_context import RESERVED, ProgramContext, root, statements_of
from finchlang.base.errors import Bug
from finchlang.levels.level import READ, UPDATE
from finchlang.syntax import nodes as ast
from finchlang.syntax.traversal import Header, binds, head, walk
from finchlang.text.print import pretty

#: of names, how deep they are bound; of tensors, their modes
Depths = dict[str, int]
Modes = dict[str, str]


def check_normal_form(program: ast.Node, context: ProgramContext) -> None:
    """Raise Bug for what keeps `program` from being in normal form: an index that is not bare,
    bound, or concordant; an extent that is no extent or cannot be evaluated; a declaration without
    its dimensions; a tensor in the wrong mode, or changing it outside of its scope."""
    _Check(context).scope(program, {}, _readable(program), {})


def _readable(program: ast.Node) -> dict[str, str]:
    """The tensors the whole program is the scope of, which start in read mode."""
    used = {root(n.tensor) for n in walk(program) if isinstance(n, ast.Access)}
    used |= {n.tensor.name for n in walk(program) if isinstance(n, (ast.Freeze, ast.Thaw))}
    declared = {n.tensor.name for n in walk(program) if isinstance(n, ast.Declare)}
    own: list[Any] = [*statements_of(program)]
    while own and isinstance(own[-1], ast.Define):  # the scope goes on in it
        own += statements_of(own.pop().body)
    declared -= {s.tensor.name for s in own if isinstance(s, ast.Declare)}
    return {n: READ for n in used if n is not None and n not in declared}


class _Check:
    """In its methods `bound` has the depth of every name bound around a place, `modes` the mode of every
    visible tensor, `own` that of the tensors whose scope this is."""

    def __init__(self, context: ProgramContext):
        self.context = context

    def fault(self, message: str, node: ast.Node) -> None:
        raise Bug(f"not in Finch Normal Form: {message} in `{pretty(node)}`")

    def scope(self, node: ast.Node, bound: Depths, own: Modes, outer: Modes) -> None:
        if isinstance(node, ast.Define):
            self.scope(node.body, self.entered(node, bound, {**outer, **own}), own, outer)
            return
        own = dict(own)
        statements = statements_of(node)
        for s in statements:
            if isinstance(s, (ast.Declare, ast.Freeze, ast.Thaw)):
                self.change(s, bound, own, outer)
            elif isinstance(s, ast.Define) and s is statements[-1]:
                return self.scope(s, bound, own, outer)
            else:
                self.statement(s, bound, {**outer, **own})
        for name, mode in own.items():
            if mode == UPDATE:
                self.fault(f"{name} is not frozen", node)

    def change(self, node: Any, bound: Depths, own: Modes, outer: Modes) -> None:
        name = node.tensor.name
        if name in outer:
            self.fault(f"{name} changes its mode outside of its scope", node)
        if isinstance(node, ast.Declare):
            self.expression(node.init, bound, {**outer, **own})
            if len(node.dims) != self.context.level(name).order:
                self.fault("dimensions are missing", node)
            for dim in node.dims:
                self.extent(dim, bound, {**outer, **own})
        wanted = UPDATE if isinstance(node, ast.Freeze) else READ
        if own.get(name, READ) != wanted:
            self.fault(f"{name} is not in {wanted} mode", node)
        own[name] = READ if isinstance(node, ast.Freeze) else UPDATE

    def statement(self, node: ast.Node, bound: Depths, modes: Modes) -> None:
        match node:
            case ast.Loop() | ast.Define() | ast.Sieve():
                self.scope(node.body, self.entered(node, bound, modes), {}, modes)
            case ast.Assign(target, _, value):
                self.access(target, bound, modes, UPDATE)
                self.expression(value, bound, modes)
            case _:
                self.fault("no statement", node)

    def entered(self, node: Header, bound: Depths, modes: Modes) -> Depths:
        """The names that are bound in the body of a header, whose head is checked."""
        if isinstance(node, ast.Define) and ast.is_meet(node.value):
            for part in node.value.args:
                self.extent(part, bound, modes)
        else:
            check = self.extent if isinstance(node, ast.Loop) else self.expression
            check(head(node), bound, modes)
        if isinstance(node, ast.Loop) and node.index.name in bound:
            self.fault(f"{node.index.name} is bound twice", node)
        return {**bound, **dict.fromkeys(binds(node), len(bound))}

    def extent(self, node: ast.Node, bound: Depths, modes: Modes) -> None:
        if isinstance(node, ast.Extent):
            self.expression(node.start, bound, modes)
            self.expression(node.stop, bound, modes)
        elif not (isinstance(node, ast.Variable) and node.name in bound):
            self.fault("no extent", node)

    def expression(self, node: ast.Node, bound: Depths, modes: Modes) -> None:
        known = (bound, self.context.formats, RESERVED)
        for n in walk(node):
            if isinstance(n, ast.Access):
                self.access(n, bound, modes, READ)
            elif isinstance(n, ast.Index) and n.name not in bound:
                self.fault(f"{n.name} is not bound", node)
            elif isinstance(n, ast.Variable) and not any(n.name in names for names in known):
                self.fault(f"{n.name} means nothing", node)

    def access(self, node: ast.Access, bound: Depths, modes: Modes, mode: str) -> None:
        name = root(node.tensor)
        if name is not None and modes.get(name) != mode:
            self.fault(f"{name} is not in {mode} mode", node)
        depth = -1
        for index in reversed(node.indices):
            if not isinstance(index, ast.Index) or index.name not in bound:
                self.fault("an index is not bare or not bound", node)
            elif bound[index.name] <= depth:
                self.fault("not concordant", node)
            depth = bound[index.name]  # type: ignore[attr-defined]
