"""The life cycle of tensors (Finch'25 section 4): a tensor changes between reading and updating only in the
scope that declares it, which is the program or the body of a loop, condition or `let`; each statement of
that scope either reads it or updates it."""

from __future__ import annotations

from collections.abc import Iterator

from finchlang.base.errors import FinchError, Span
from finchlang.denote.shape_arithmetic import tensors_of
from finchlang.syntax import nodes as ast, traversal as trees

READ, UPDATE = ast.MODES
#: by a tensor's name its mode, or None where it must not be used
Modes = dict[str, str | None]
#: operators that do not look at the old value
WRITES = ast.Variable("initwrite"), ast.Variable("overwrite")


def check_life_cycle(program: ast.Node) -> dict[int, str]:
    """The mode that each `@mode` in a program asks for, by the node's `id`.

    Raises FinchError of kind life cycle for a tensor that a statement of its scope reads and updates, or
    updates by two operators; that is used before it is declared, or declared outside of its scope; and for
    a freeze or thaw in the wrong mode."""
    declared = {n.tensor.name for n in trees.find_all(program, ast.Declare)}
    bound = {n.variable.name for n in trees.find_all(program, ast.Define)}
    used = {t.name for n in trees.walk(program) for t in _named(n)} - bound
    walk, given = _ScopeWalk(), Modes((name, READ) for name in used - declared)
    walk.scope(program, given, {**given}, READ)
    return walk.asked


def _named(node: ast.Node) -> Iterator[ast.Variable]:
    if isinstance(node, ast.Access):
        yield from tensors_of(node.tensor)
    elif isinstance(node, (ast.Declare, ast.Freeze, ast.Thaw, ast.Mode)):
        yield node.tensor


class _ScopeWalk:
    def __init__(self) -> None:
        self.asked: dict[int, str] = {}  # what `@mode` is, by its id
        self.formulas: dict[str, ast.Node] = {}  # what `let` binds as tensors
        # where a statement reads tensors, and where it updates them, by which operators
        self.reads: dict[str, Span | None] = {}
        self.updates: dict[str, list[tuple[ast.Node, Span | None]]] = {}

    def scope(self, node: ast.Node, own: Modes, visible: Modes, start: str | None = None) -> None:
        """A scope. `own` are the tensors that belong to it already, with their modes; those that it
        declares have the mode `start` before their declaration, or None if they must not be used there."""
        while isinstance(node, ast.Define):  # a `let` that is all of a scope opens none of its own
            self.check_visible(node.value, visible)
            self.bind(node)
            node = node.body
        statements = node.statements if isinstance(node, ast.Block) else (node,)
        for s in statements:
            if isinstance(s, ast.Declare) and s.tensor.name not in own:
                if s.tensor.name in visible:
                    raise _wrong(s.tensor.name, "changes its mode outside of its scope", s.span)
                own[s.tensor.name] = start
        for s in statements:
            self.statement(s, own)
            # its initial value is computed before a tensor is declared
            before = Modes({s.tensor.name: READ} if isinstance(s, ast.Declare) else {})
            self.inside(s, visible | own | before)

    def statement(self, node: ast.Node, own: Modes) -> None:
        """The effect of a statement on the tensors of the scope."""
        self.reads, self.updates = {}, {}
        self.note(node)
        for name in self.reads.keys() & own.keys():
            _check_is_declared(name, own, self.reads[name])
            if name in self.updates:
                raise _wrong(name, "is read and updated in one statement", self.reads[name])
            own[name] = READ
        for name in self.updates.keys() & own.keys():
            _check_is_declared(name, own, self.updates[name][0][1])
            reductions = [(op, span) for op, span in self.updates[name] if op not in WRITES]
            for op, span in reductions:
                if op != reductions[0][0]:
                    raise _wrong(name, "is updated by two operators in one statement", span)
            own[name] = UPDATE
        if isinstance(node, (ast.Declare, ast.Freeze, ast.Thaw)) and node.tensor.name in own:
            name = node.tensor.name
            if isinstance(node, ast.Freeze) and own[name] != UPDATE:
                raise _wrong(name, "is not being updated", node.span)
            if isinstance(node, ast.Thaw) and own[name] != READ:
                raise _wrong(name, "is updated already", node.span)
            own[name] = READ if isinstance(node, ast.Freeze) else UPDATE

    def inside(self, node: ast.Node, visible: Modes) -> None:
        if isinstance(node, (ast.Loop, ast.Sieve, ast.Define)):
            self.check_visible(trees.head(node), visible)
            if isinstance(node, ast.Define):
                self.bind(node)
            self.scope(node.body, {}, visible)
        elif isinstance(node, ast.Block):
            for s in node.statements:
                self.inside(s, visible)
        else:
            self.check_visible(node, visible)

    def bind(self, node: ast.Define) -> None:
        if isinstance(node.value, ast.Formula):
            self.formulas[node.variable.name] = node.value

    def check_visible(self, node: ast.Node, visible: Modes) -> None:
        for n in trees.walk(node):
            for tensor in _named(n):
                if tensor.name not in visible and tensor.name not in self.formulas:
                    what = "is used outside of the scope that declares it"
                    raise _wrong(tensor.name, what, n.span)
            if isinstance(n, ast.Mode):
                self.asked[id(n)] = visible.get(n.tensor.name) or READ

    def note(self, node: ast.Node) -> None:
        match node:
            case ast.Assign(target, op, value):
                for part in (*target.indices, value):
                    self.note(part)
                for tensor in tensors_of(target.tensor):
                    self.updates.setdefault(tensor.name, []).append((op, node.span))
            case ast.Define(_, ast.Formula(), body):
                self.bind(node)
                self.note(body)
            case _:
                for child in trees.children(node):
                    self.note(child)
                for found in tensors_of(node.tensor) if isinstance(node, ast.Access) else ():
                    if found.name in self.formulas:
                        self.note(self.formulas[found.name])
                    else:
                        self.reads.setdefault(found.name, node.span)


def _check_is_declared(name: str, own: Modes, span: Span | None) -> None:
    if own[name] is None:
        raise _wrong(name, "is used before its declaration in this scope", span)


def _wrong(name: str, what: str, span: Span | None) -> FinchError:
    return FinchError("life cycle", f"{name} {what}", span)
