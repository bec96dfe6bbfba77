"""`pos(f, p, B[i, k])`: a loop over the positions of a tensor's storage, in their order, in place of one
over its coordinates."""

from __future__ import annotations

from collections.abc import Iterator

from finchlang.algebra import literal_type, operator
from finchlang.host.fold import const
from finchlang.host.ir import Const
from finchlang.normalize.context import INIT, ONE, Context, call, root
from finchlang.normalize.schedule.nest import (
    Nest,
    binds,
    bounds,
    check_count,
    new_index,
    occurrences,
    rewrite_nest,
    single,
    uses,
)
from finchlang.normalize.schedule.reorder import check_order_is_free
from finchlang.source import FinchError
from finchlang.syntax import (
    EMPTY,
    Access,
    Assign,
    Block,
    Call,
    Declare,
    Define,
    Extent,
    Freeze,
    Index,
    Literal,
    Loop,
    Node,
    Schedule,
    Sieve,
    Variable,
)
from finchlang.tensors.positioned import is_positioned
from finchlang.text.print import pretty
from finchlang.types import Int64
from finchlang.walk import replace, rewrite_bottom_up

FORM = "pos(f, p, B[i, k])"


def pos(program: Node, command: Schedule, context: Context) -> Node:
    """`program` with a loop over p, the positions of B, in place of that over f, which goes over the
    coordinates of B. Where B stores nothing, nothing may be done."""
    check_count(command.args, 3, FORM, command.span)
    old, new, shown = command.args
    access = occurrences(shown, program, context)[0] if isinstance(shown, Access) else shown
    name = access.tensor if isinstance(access, Access) else None
    if not isinstance(access, Access) or not isinstance(name, Variable):
        raise FinchError("type", "an element like `B[i, k]` is expected here", shown.span)
    level = context.level(name.name)
    if not is_positioned(level):
        stored = str(level)
        if tensor := next((t for t, w in context.workspace_of.items() if w == name.name), None):
            stored = f"`{context.shown(tensor)}`, which is updated in place,"
        message = f"the entries of {stored} have no positions that tell their coordinates"
        hint = "those of Dense, SparseList and SparseCOO over a leaf have"
        raise FinchError("type", message, shown.span, hint)

    def rewrite(nest: Nest, wanted: tuple[Loop, ...]) -> Node:
        (loop,) = wanted
        f = loop.index.name
        modes = tuple(i.name for i in reversed(access.indices) if isinstance(i, Index))
        given = context.original([f])
        if sorted(given) != sorted(modes) or len(modes) != level.order:
            listed = ", ".join(f"`{context.written(n)}`" for n in given)
            message = (
                f"the loop over `{context.written(f)}` goes over {listed}, not over the indices"
            )
            hint = "fuse the loops over all of them before"
            raise FinchError("type", f"{message} of `{pretty(shown)}`", command.span, hint)
        idle = _Idle(access, level.fill, context)
        if not (idle.statement(nest.body) or any(map(idle.is_never, nest.headers))):
            message = f"there is something to do where `{pretty(shown)}` is {level.fill.value}"
            raise FinchError("type", message, command.span)
        before, after = (
            [n for at in nest.loops for n in (own if at is loop else [at.index.name])]
            for own in (given, modes)
        )
        check_order_is_free(nest.body, before, after, command, context)
        p = new_index(new, program, context)
        headers: list[Node] = []
        for mode, index in zip(range(level.order, 0, -1), modes, strict=True):
            extent = context.ranges.setdefault(index, bounds(loop.extent, program))
            at = Variable(context.fresh(f"{index}_at"), type=Int64)
            value = call("coordinate", name, Literal(mode), p)
            headers += Define(at, value, EMPTY), *_within(extent, at, name, mode)
            headers.append(single(Index(index, span=shown.span), at))
        gone = {f}
        for made, names in reversed(context.derived):
            gone |= set(names) if gone.issuperset(made) else set()
        kept = [h for h in nest.headers if gone.isdisjoint(binds(h)) or h is loop]
        kept = [h for h in kept if (gone - set(modes)).isdisjoint(uses(h))]
        context.derived.append(((p.name,), modes))
        over = Loop(p, Extent(ONE, call("positions", name)), EMPTY, span=loop.span)
        loops = [over if at is loop else at for at in nest.loops]
        entry = call("entry", name, p)

        def read(node: Node) -> Node:
            return replace(node, tensor=entry, indices=()) if node == access else node

        return rewrite_bottom_up(read, Nest(tuple(kept), nest.body).built(loops, *headers))

    return rewrite_nest(program, (old,), context, rewrite)


def _within(extent: Extent, at: Node, name: Node, mode: int) -> Iterator[Sieve]:
    """Conditions for a coordinate to be in an extent, where that may not be all of the mode."""
    if extent.start != ONE:
        yield Sieve(call("<=", extent.start, at), EMPTY)
    if extent.stop != call("size", name, Literal(mode)):
        yield Sieve(call("<=", at, extent.stop), EMPTY)


class _Idle:
    """What is done where `access` reads the fill."""

    def __init__(self, access: Access, fill: Literal, context: Context):
        self.access, self.fill, self.context = access, fill, context

    def statement(self, node: Node) -> bool:
        """Whether a statement surely does nothing."""
        match node:
            case Block(statements):
                return all(map(self.statement, statements))
            case Loop(_, _, body) | Define(_, _, body):
                return self.statement(body)
            case Sieve(_, body):
                return self.is_never(node) or self.statement(body)
            case Assign(target, op, value):
                name, row, found = root(target.tensor), operator(op), self.value(value)
                if found is None or row is None or name is None:
                    return False
                if op == Variable(INIT):
                    return found.value == self.context.level(name).fill.value
                unit = row.identity
                type = literal_type(found)
                if unit is None or type is None:
                    return False
                return unit.is_about(2) and unit.value(type) == found.value
        return isinstance(node, (Declare, Freeze))

    def is_never(self, header: Node) -> bool:
        """Whether a header is a condition that does not hold."""
        return isinstance(header, Sieve) and self.value(header.condition) == Literal(False, "Bool")

    def value(self, node: Node) -> Literal | None:
        """The value of an expression, if that is decided."""
        if node == self.access:
            return self.fill
        if not isinstance(node, Call):
            return node if isinstance(node, Literal) else None
        row, exprs = operator(node.op), [self.expr(arg) for arg in node.args]
        for at, expr in enumerate(exprs, 1):
            if row is None or expr is None:
                continue
            for law in row.annihilators:
                if law.is_about(at) and law.value(expr.type) == expr.value:
                    return Literal((law.result or law.value)(expr.type), expr.type.name)
        known = [expr for expr in exprs if expr is not None]
        if row is None or row.undefined is not None or len(known) < len(exprs):
            return None
        result = row.folded(known)
        return None if result is None else Literal(result.value, result.type.name)

    def expr(self, node: Node) -> Const | None:
        literal = self.value(node)
        type = literal_type(literal) if literal is not None else None
        return const(literal.value, type) if literal is not None and type is not None else None
