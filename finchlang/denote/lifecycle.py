"""What a program may do to a tensor where (Finch'25 section 4): it changes between reading and updating in
the scope that it is declared in, the program or the body of a loop, condition or `let`, and nowhere else; a
statement of that scope reads it or updates it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from finchlang.denote.shapes import tensors_of
from finchlang.source import FinchError, Span
from finchlang.syntax import (
    MODES,
    Access,
    Assign,
    Block,
    Declare,
    Define,
    Formula,
    Freeze,
    Loop,
    Mode,
    Node,
    Sieve,
    Thaw,
    Variable,
)
from finchlang.walk import children, walk

READ, UPDATE = MODES
#: what writes without looking at what was there
WRITES = Variable("initwrite"), Variable("overwrite")


def check_life_cycle(program: Node) -> None:
    """Raises FinchError "life cycle" for a tensor that a statement of its scope reads and updates, or
    updates by two operators; that is used before it is declared, or declared where it is not at home; and
    for a mode that it is asked to leave, or to take, in vain."""
    declared = {n.tensor.name for n in walk(program) if isinstance(n, Declare)}
    bound = {n.variable.name for n in walk(program) if isinstance(n, Define)}
    used = {t.name for n in walk(program) for t in _named(n)} - bound
    _Scopes().scope(program, dict.fromkeys(used - declared, READ), used - declared, READ)


def _named(node: Node) -> Iterator[Variable]:
    if isinstance(node, Access):
        yield from tensors_of(node.tensor)
    elif isinstance(node, (Declare, Freeze, Thaw, Mode)):
        yield node.tensor


@dataclass
class _Uses:
    """Where a statement reads tensors, and where it updates them, with what operators."""

    reads: dict[str, Span | None] = field(default_factory=dict)
    updates: dict[str, list[tuple[Node, Span | None]]] = field(default_factory=dict)


class _Scopes:
    """Goes through the scopes of a program."""

    def __init__(self) -> None:
        self.formulas: dict[str, Node] = {}  # what a `let` binds that is read as a tensor

    def scope(
        self, node: Node, own: dict[str, str | None], visible: set[str], start: str | None = None
    ) -> None:
        """A scope, to which `own` tensors belong already, with their modes; those that it declares have the
        mode `start` before: None where they are not to be used."""
        while isinstance(node, Define):  # a `let` that is all of a scope goes on with it
            self.check_visible(node.value, visible)
            self.bind(node)
            node = node.body
        statements = node.statements if isinstance(node, Block) else (node,)
        for s in statements:
            if isinstance(s, Declare) and s.tensor.name not in own:
                if s.tensor.name in visible:
                    raise _wrong(s.tensor.name, "changes its mode outside of its scope", s.span)
                own[s.tensor.name] = start
        visible = visible | own.keys()
        for s in statements:
            self.statement(s, own)
            self.inside(s, visible)

    def statement(self, node: Node, own: dict[str, str | None]) -> None:
        """What a statement does to the tensors of the scope."""
        uses = _Uses()
        self.note(node, uses)
        for name in uses.reads.keys() & own.keys():
            _check_is_declared(name, own, uses.reads[name])
            if name in uses.updates:
                raise _wrong(name, "is read and updated in one statement", uses.reads[name])
            own[name] = READ
        for name in uses.updates.keys() & own.keys():
            updates = uses.updates[name]
            _check_is_declared(name, own, updates[0][1])
            reductions = [(op, span) for op, span in updates if op not in WRITES]
            for op, span in reductions:
                if op != reductions[0][0]:
                    raise _wrong(name, "is updated by two operators in one statement", span)
            own[name] = UPDATE
        if isinstance(node, (Declare, Freeze, Thaw)) and node.tensor.name in own:
            name = node.tensor.name
            if isinstance(node, Freeze) and own[name] != UPDATE:
                raise _wrong(name, "is not being updated", node.span)
            if isinstance(node, Thaw) and own[name] != READ:
                raise _wrong(name, "is updated already", node.span)
            own[name] = READ if isinstance(node, Freeze) else UPDATE

    def inside(self, node: Node, visible: set[str]) -> None:
        """The scopes within a statement."""
        if isinstance(node, (Loop, Sieve, Define)):
            header = [child for child in children(node) if child is not node.body]
            for child in header:
                self.check_visible(child, visible)
            if isinstance(node, Define):
                self.bind(node)
            self.scope(node.body, {}, visible)
        elif isinstance(node, Block):
            for s in node.statements:
                self.inside(s, visible)
        else:
            self.check_visible(node, visible)

    def bind(self, node: Define) -> None:
        if isinstance(node.value, Formula):
            self.formulas[node.variable.name] = node.value

    def check_visible(self, node: Node, visible: set[str]) -> None:
        for n in walk(node):
            for tensor in _named(n):
                if tensor.name not in visible and tensor.name not in self.formulas:
                    raise _wrong(
                        tensor.name, "is used outside of the scope that declares it", n.span
                    )

    def note(self, node: Node, uses: _Uses) -> None:
        """Note what a statement reads and updates, however deep."""
        match node:
            case Assign(target, op, value):
                for part in (*target.indices, value):
                    self.note(part, uses)
                for tensor in tensors_of(target.tensor):
                    uses.updates.setdefault(tensor.name, []).append((op, node.span))
            case Access(tensor):
                for child in children(node):
                    self.note(child, uses)
                for found in tensors_of(tensor):
                    if found.name in self.formulas:
                        self.note(self.formulas[found.name], uses)
                    else:
                        uses.reads.setdefault(found.name, node.span)
            case Define(_, Formula(), body):
                self.bind(node)
                self.note(body, uses)
            case _:
                for child in children(node):
                    self.note(child, uses)


def _check_is_declared(name: str, own: dict[str, str | None], span: Span | None) -> None:
    if own[name] is None:
        raise _wrong(name, "is used before its declaration in this scope", span)


def _wrong(name: str, what: str, span: Span | None) -> FinchError:
    return FinchError("life cycle", f"{name} {what}", span)
