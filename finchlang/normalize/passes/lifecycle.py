"""The life cycle pass (Finch'25 section 5.5): inserts `@freeze` and `@thaw`, and says what `=` is.

A tensor belongs to the scope its declaration stands in (the program, or the body of a loop, sieve
or let), one without a declaration to the program. It changes between reading and updating there
only, so what one statement of that scope does to it, however deeply, is the one or the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from finchlang.algebra import program_context as ctx
from finchlang.base.errors import FinchError, Span, write
from finchlang.levels.level import READ, UPDATE
from finchlang.normalize.write_order.detour import Detour
from finchlang.operators.operator_table import operator
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.text.literals import ASSIGNMENTS
from finchlang.text.print import pretty


def lifecycle(program: ast.Node, context: ctx.ProgramContext) -> ast.Node:
    """`program`, as wrapperise gives it, with all changes of mode, and updates in place of formats that are
    written in order through a workspace. Raises FinchError "life cycle"."""
    context.reserve(program)
    return _Lifecycle(context).program(program)


#: updates with the loops around them; statements, each with whether it came from the program
Updates = list[tuple[ast.Assign, tuple[ast.Loop, ...]]]
Steps = Iterator[tuple[ast.Node, bool]]


@dataclass
class _Uses:
    """What one statement does to one tensor: its reads, and its updates with the loops around."""

    reads: list[ast.Access] = field(default_factory=list)
    updates: Updates = field(default_factory=list)


@dataclass
class _Tensor:
    """A tensor within the scope it belongs to."""

    name: str
    mode: str | None  # None: not to be used before its declaration
    declared: ast.Declare | None = None  # what began the update phase, unless a thaw did
    is_updated: bool = False  # since then
    workspace: Detour | None = None


Tensors = dict[str, _Tensor]


class _Lifecycle:
    def __init__(self, context: ctx.ProgramContext):
        self.context = context
        self.declared: dict[str, ast.Declare] = {}  # the first declaration of each tensor
        self.initial: set[int] = set()  # ids of `=` that surely find the fill

    def program(self, program: ast.Node) -> ast.Node:
        used: dict[str, None] = {}
        for node in trees.walk(program):
            if isinstance(node, ast.Declare):
                self.declared.setdefault(node.tensor.name, node)
            elif isinstance(node, (ast.Freeze, ast.Thaw)):
                used[node.tensor.name] = None
            elif isinstance(node, (ast.Access, ast.Mode)) and (name := ctx.root(node.tensor)):
                used[name] = None
        tensors = {n: _Tensor(n, READ) for n in used if n not in self.declared}
        return self.scope(program, tensors, frozenset(tensors), READ)

    def scope(
        self, node: ast.Node, tensors: Tensors, visible: frozenset[str], start: str | None
    ) -> ast.Node:
        """The scope `node`. `tensors` belong to it already; `visible` are those and the enclosing
        scopes'; what is declared here has mode `start` before its declaration."""
        if isinstance(node, ast.Define):  # the scope goes on in a `let` that is all of it
            self.check_visible(node.value, visible)
            return trees.replace(node, body=self.scope(node.body, tensors, visible, start))
        own = ctx.statements_of(node)
        tensors = dict(tensors)
        for s in own:
            if isinstance(s, ast.Declare) and (name := s.tensor.name) not in tensors:
                if name in visible:
                    raise self.outside(name, s.span, visible)
                tensors[name] = _Tensor(name, start)
        visible = visible | frozenset(tensors)
        done: list[tuple[ast.Node, bool]] = []  # with whether it came from the program
        for s in own:
            done += self.step(s, tensors, visible)
        for tensor in tensors.values():
            if tensor.mode == UPDATE:
                done += self.freeze(tensor, None, "at the end of its scope")
        result = trees.block(*(self.inside(s, visible) if given else s for s, given in done))
        return trees.replace(result, span=node.span) if isinstance(result, ast.Block) else result

    def step(self, node: ast.Node, tensors: Tensors, visible: frozenset[str]) -> Steps:
        """One statement of a scope, after the changes of mode it needs."""
        if isinstance(node, (ast.Declare, ast.Freeze, ast.Thaw)):
            for name in _uses(node):  # what a declaration reads
                if (read := tensors.get(name)) is not None and read.mode == UPDATE:
                    why = f"before it is read at {ctx.place(node.span)}"
                    yield from self.freeze(read, node.span, why)
            tensor = tensors.get(node.tensor.name)
            if tensor is None:
                raise self.outside(node.tensor.name, node.span, visible)
            yield from self.step_mode(node, tensor, visible)
            return
        uses = _uses(node) if tensors else {}  # most scopes have none: then nests are walked once
        for name, use in uses.items():
            tensor = tensors.get(name)
            if tensor is None:
                continue
            self.check_uses(name, use, tensor)
            if use.reads and tensor.mode == UPDATE:
                why = f"before it is read at {ctx.place(use.reads[0].span)}"
                yield from self.freeze(tensor, node.span, why)
            if use.updates and tensor.mode == READ:
                yield from self.thaw(tensor, None, ctx.place(use.updates[0][0].span))
            if use.updates:
                if self.is_initial(tensor, use.updates):
                    self.initial.add(id(use.updates[0][0]))
                tensor.is_updated = True
            if tensor.workspace is not None:
                node = tensor.workspace.redirect(node)
        yield node, True

    def step_mode(
        self, node: ast.Declare | ast.Freeze | ast.Thaw, tensor: _Tensor, visible: frozenset[str]
    ) -> Steps:
        name = self.context.written(tensor.name)
        if isinstance(node, ast.Declare):
            self.check_visible(node, visible)
            if tensor.mode == UPDATE:
                why = f"before it is declared again at {ctx.place(node.span)}"
                yield from self.freeze(tensor, node.span, why)
            tensor.mode, tensor.declared, tensor.is_updated = UPDATE, node, False
            yield node, True
        elif isinstance(node, ast.Freeze):
            if tensor.mode != UPDATE:
                raise FinchError("life cycle", f"`{name}` is not being updated here", node.span)
            yield from self.freeze(tensor, node.span)
        else:
            if tensor.mode != READ:
                raise FinchError("life cycle", f"`{name}` is being updated already", node.span)
            yield from self.thaw(tensor, node.span)

    def freeze(self, tensor: _Tensor, span: Span | None, why: str = "") -> Steps:
        if why:
            what = f"`{self.context.written(tensor.name)}` is frozen {why}"
            self.context.decide("lifecycle", what)
        if tensor.workspace is not None:
            yield from ((s, False) for s in tensor.workspace.leave(span))
        yield ast.Freeze(ast.Variable(tensor.name, span=span), span=span), False
        tensor.mode, tensor.declared, tensor.workspace = READ, None, None

    def thaw(self, tensor: _Tensor, span: Span | None, where: str = "") -> Steps:
        """Begin updates in place: of a thaw in the program, or of an update at `where` without one."""
        tensor.mode, format = UPDATE, self.context.level(tensor.name)
        how = "it is thawed"
        if any(level.is_sequential for level in format.levels()):
            tensor.workspace = Detour.in_place(self.context, tensor.name)
            yield from ((s, False) for s in tensor.workspace.enter(span))
            work = tensor.workspace.name
            how = f"by way of `{work}`, {self.context.level(work)}, since {format} takes one order only"
        else:
            yield ast.Thaw(ast.Variable(tensor.name, span=span), span=span), False
        if where:
            what = f"`{self.context.written(tensor.name)}` is updated in place at {where}: {how}"
            self.context.decide("lifecycle", what)

    def is_initial(self, tensor: _Tensor, updates: Updates) -> bool:
        """Whether `updates` are one assignment, the first since the declaration, that comes to each
        place at most once: it finds the fill, so that `=` is `initwrite`, else `overwrite`."""
        declared = tensor.declared
        # the parts of a stored concatenation are disjoint: each is the first in its places
        is_first = not tensor.is_updated or tensor.name in self.context.stored
        if declared is None or not is_first or len(updates) != 1:
            return False
        ((assign, loops),) = updates
        own, fill = assign.target.indices, self.context.level(tensor.name).fill
        is_filled = isinstance(declared.init, ast.Literal) and declared.init.value == fill.value
        return is_filled and all(n.index in own or ctx.is_single(n.extent) for n in loops)

    def inside(self, node: ast.Node, visible: frozenset[str]) -> Any:
        """A statement of a scope, with the scopes inside of it done."""
        match node:
            case ast.Assign(target, op, value):
                self.check_visible(target, visible)
                self.check_visible(value, visible)
                if op == ast.Variable(ctx.INIT) and id(node) not in self.initial:
                    return trees.replace(node, op=ast.Variable(ctx.OVERWRITE, span=op.span))
                return node
            case ast.Loop(_, header, body) | ast.Sieve(header, body) | ast.Define(_, header, body):
                self.check_visible(header, visible)
                return trees.replace(node, body=self.scope(body, {}, visible, None))
        return node

    def check_uses(self, name: str, use: _Uses, tensor: _Tensor) -> None:
        shown = self.context.written(name)
        if tensor.mode is None:
            first = use.reads[0] if use.reads else use.updates[0][0]
            message = f"`{shown}` is used before its declaration in this scope"
            raise FinchError("life cycle", message, first.span)
        if use.reads and use.updates:
            read, update = use.reads[0].span, use.updates[0][0].span
            second = max((read, update), key=lambda s: (s.line, s.column) if s else (0, 0))
            both = f"is read ({ctx.place(read)}) and updated ({ctx.place(update)}) in one statement"
            message = f"`{shown}` {both} of the scope it belongs to"
            hint = f"use another tensor for one of the two, declare `{shown}` inside of the loop"
            assign = use.updates[0][0]
            hint += ", or write an update such as `+=`" if assign.op in ctx.PLAIN else ""
            if (code := _as_update(assign)) is not None:
                raise FinchError("life cycle", message, assign.span, write(code))
            raise FinchError("life cycle", message, second, hint)
        reductions = [a for a, _ in use.updates if a.op not in ctx.PLAIN]
        others = [a for a in reductions if a.op != reductions[0].op]
        if others:
            pair = (f"`{pretty(a.op)}` ({ctx.place(a.span)})" for a in (reductions[0], others[0]))
            message = f"`{shown}` is updated by two operators, {' and '.join(pair)}"
            hint = "update it in two statements, one after the other"
            raise FinchError("life cycle", message, others[0].span, hint)

    def check_visible(self, node: ast.Node, visible: frozenset[str]) -> None:
        for n in trees.walk(node):
            name = ctx.root(n.tensor) if isinstance(n, (ast.Access, ast.Mode)) else None
            if name and name not in visible and name not in self.context.workspaces:
                raise self.outside(name, n.span, visible)

    def outside(self, name: str, span: Span | None, visible: frozenset[str]) -> FinchError:
        shown = self.context.written(name)
        if name in visible:
            message = f"`{shown}` changes its mode outside of the scope it belongs to"
            return FinchError("life cycle", message, span, "declare it in one scope only")
        declared = ctx.place(self.declared[name].span)
        message = f"`{shown}` is used outside of the scope that declares it ({declared})"
        return FinchError("life cycle", message, span, "declare it in the scope around both")


def _uses(node: ast.Node) -> dict[str, _Uses]:
    """What `node` does to each tensor, in order of first use."""
    found: dict[str, _Uses] = {}
    for s, around in trees.statements(node):
        for n in (n for expression in ctx.evaluated(s) for n in trees.walk(expression)):
            if isinstance(n, ast.Access) and (name := ctx.root(n.tensor)):
                found.setdefault(name, _Uses()).reads.append(n)
        if isinstance(s, ast.Assign):
            name = ctx.root(s.target.tensor)
            assert name is not None
            loops = tuple(h for h in around if isinstance(h, ast.Loop))
            found.setdefault(name, _Uses()).updates.append((s, loops))
    return found


def _as_update(node: ast.Node) -> str | None:
    """`s[] += x[i]` for `s[] = s[] + x[i]`, and so on for other operators; None for other statements."""
    if not isinstance(node, ast.Assign) or node.op not in ctx.PLAIN or node.target.span is None:
        return None
    rest = _without(node.target, node.value)
    op = getattr(getattr(node.value, "op", None), "name", "")
    sign = f"{op}=" if f"{op}=" in ASSIGNMENTS else f"<<{op}>>="
    return rest and f"{node.target.span.text} {sign} {rest}"


def _without(target: ast.Access, value: ast.Node) -> str | None:
    """The text of an operator's operand besides the target, or of several for one that is associative."""
    match value:
        case ast.Call(ast.Variable(name) as op, (left, right)) if (row := operator(op)) is not None:
            if left.span is None or right.span is None or op.span is None:
                return None
            if left == target:
                return right.span.text
            if right == target and row.commutative:
                return left.span.text
            if isinstance(left, ast.Call) and left.op == op and row.associative:
                rest = _without(target, left)
                return rest and (f"{rest} {name} {right.span.text}" if not name.isalpha() else None)
    return None
