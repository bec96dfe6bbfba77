"""A checker of Finch Normal Form (Finch'25 section 5.1), run after the last pass: what it finds is
our fault, never the user's."""

from __future__ import annotations

from finchlang.normalize.context import RESERVED, Context, is_call, root
from finchlang.source import Bug
from finchlang.syntax import (
    Access,
    Assign,
    Block,
    Declare,
    Define,
    Extent,
    Freeze,
    Index,
    Loop,
    Node,
    Sieve,
    Thaw,
    Variable,
)
from finchlang.tensors.level import READ, UPDATE
from finchlang.text.print import pretty
from finchlang.walk import walk


def check_normal_form(program: Node, context: Context) -> None:
    """Raise Bug with all that keeps `program` from being in normal form: an index that is not bare,
    bound, or concordant; an extent that is no extent or cannot be evaluated; a declaration without
    its dimensions; a tensor in the wrong mode, or changing it outside of its scope."""
    check = _Check(context)
    check.scope(program, {}, check.readable(program), {})
    if check.faults:
        raise Bug("not in Finch Normal Form: " + "; ".join(check.faults))


class _Check:
    """`bound` has the depth of every name bound around a place, `modes` every visible tensor's
    mode; `own` are the tensors whose scope it is."""

    def __init__(self, context: Context):
        self.context = context
        self.faults: list[str] = []

    def readable(self, program: Node) -> dict[str, str]:
        """The tensors the whole program is the scope of, which start in read mode."""
        used = {root(n.tensor) for n in walk(program) if isinstance(n, Access)}
        used |= {n.tensor.name for n in walk(program) if isinstance(n, (Freeze, Thaw))}
        inner = {n.tensor.name for n in walk(program) if isinstance(n, Declare)}
        while isinstance(program, Define):
            program = program.body
        for s in program.statements if isinstance(program, Block) else (program,):
            if isinstance(s, Declare):
                inner.discard(s.tensor.name)
        return {name: READ for name in used if name is not None and name not in inner}

    def fault(self, message: str, node: Node) -> None:
        self.faults.append(f"{message} in `{pretty(node)}`")

    def scope(
        self, node: Node, bound: dict[str, int], own: dict[str, str], outer: dict[str, str]
    ) -> None:
        if isinstance(node, Define):
            self.define(node, bound, {**outer, **own})
            inner = {**bound, node.variable.name: len(bound)}
            self.scope(node.body, inner, own, outer)
            return
        own = dict(own)
        for s in node.statements if isinstance(node, Block) else (node,):
            if isinstance(s, (Declare, Freeze, Thaw)):
                self.change(s, bound, own, outer)
            else:
                self.statement(s, bound, {**outer, **own})
        for name, mode in own.items():
            if mode == UPDATE:
                self.fault(f"{name} is not frozen", node)

    def change(
        self,
        node: Declare | Freeze | Thaw,
        bound: dict[str, int],
        own: dict[str, str],
        outer: dict[str, str],
    ) -> None:
        name = node.tensor.name
        if name in outer:
            self.fault(f"{name} changes its mode outside of its scope", node)
        if isinstance(node, Declare):
            self.expression(node.init, bound, {**outer, **own})
            if len(node.dims) != self.context.level(name).order:
                self.fault("dimensions are missing", node)
            for dim in node.dims:
                self.extent(dim, bound, {**outer, **own})
        wanted = UPDATE if isinstance(node, Freeze) else READ
        if own.get(name, READ) != wanted:
            self.fault(f"{name} is not in {wanted} mode", node)
        own[name] = READ if isinstance(node, Freeze) else UPDATE

    def statement(self, node: Node, bound: dict[str, int], modes: dict[str, str]) -> None:
        match node:
            case Loop(index, extent, body):
                self.extent(extent, bound, modes)
                if index.name in bound:
                    self.fault(f"{index.name} is bound twice", node)
                self.scope(body, {**bound, index.name: len(bound)}, {}, modes)
            case Define(variable, _, body):
                self.define(node, bound, modes)
                self.scope(body, {**bound, variable.name: len(bound)}, {}, modes)
            case Sieve(condition, body):
                self.expression(condition, bound, modes)
                self.scope(body, bound, {}, modes)
            case Assign(target, _, value):
                self.access(target, bound, modes, UPDATE)
                self.expression(value, bound, modes)
            case _:
                self.fault("no statement", node)

    def define(self, node: Define, bound: dict[str, int], modes: dict[str, str]) -> None:
        value = node.value
        if is_call(value, "meet"):
            for part in value.args:  # type: ignore[attr-defined]
                self.extent(part, bound, modes)
        else:
            self.expression(value, bound, modes)

    def extent(self, node: Node, bound: dict[str, int], modes: dict[str, str]) -> None:
        if isinstance(node, Extent):
            self.expression(node.start, bound, modes)
            self.expression(node.stop, bound, modes)
        elif not (isinstance(node, Variable) and node.name in bound):
            self.fault("no extent", node)

    def expression(self, node: Node, bound: dict[str, int], modes: dict[str, str]) -> None:
        for n in walk(node):
            if isinstance(n, Access):
                self.access(n, bound, modes, READ)
            elif isinstance(n, Index) and n.name not in bound:
                self.fault(f"{n.name} is not bound", node)
            elif isinstance(n, Variable) and not self.is_known(n.name, bound):
                self.fault(f"{n.name} means nothing", node)

    def is_known(self, name: str, bound: dict[str, int]) -> bool:
        return name in bound or name in self.context.formats or name in RESERVED

    def access(self, node: Access, bound: dict[str, int], modes: dict[str, str], mode: str) -> None:
        name = root(node.tensor)
        if name is not None and modes.get(name) != mode:
            self.fault(f"{name} is not in {mode} mode", node)
        depth = -1
        for index in reversed(node.indices):
            if not isinstance(index, Index) or index.name not in bound:
                self.fault("an index is not bare or not bound", node)
                return
            if bound[index.name] <= depth:
                self.fault("not concordant", node)
            depth = bound[index.name]
