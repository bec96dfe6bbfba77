"""`pos(f, p, B[i, k])`: a loop over the positions of a tensor's storage in place of its coordinates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from finchlang.algebra.absence import does_nothing
from finchlang.algebra.expression_types import with_fills
from finchlang.algebra.program_context import ONE, ProgramContext, call, names_in
from finchlang.base.errors import FinchError
from finchlang.levels.positions import is_positioned
from finchlang.normalize.schedule import nest_headers as nests
from finchlang.normalize.schedule.reorder import check_order_is_free
from finchlang.syntax import nodes as ast, traversal as trees, types
from finchlang.text.print import pretty


def pos(program: ast.Node, command: ast.Schedule, context: ProgramContext) -> ast.Node:
    """`program` with a loop over p, the positions of B, in place of that over f, which goes over the
    coordinates of B. Raises FinchError "type" if something is done where B stores nothing, if f does not
    go over all indices of B, or if the positions of B do not tell their coordinates."""
    old, new, shown = command.args
    is_access = isinstance(shown, ast.Access)
    access: Any = nests.occurrences(shown, program, context)[0] if is_access else None
    name = is_access and access.tensor
    if not isinstance(name, ast.Variable):
        raise FinchError("type", "an element like `B[i, k]` is expected here", shown.span)
    level = context.level(name.name)
    if not is_positioned(level):
        stored = str(level)
        if tensor := next((t for t, w in context.workspace_of.items() if w == name.name), None):
            stored = f"`{context.shown(tensor)}`, which is updated in place,"
        message = f"the entries of {stored} have no positions that tell their coordinates"
        hint = "those of Dense, SparseList and SparseCOO over a leaf have"
        raise FinchError("type", message, shown.span, hint)

    def rewrite(nest: nests.NestHeaders, wanted: tuple[ast.Loop, ...]) -> ast.Node:
        (loop,) = wanted
        f = loop.index.name
        modes = tuple(i.name for i in reversed(access.indices) if isinstance(i, ast.Index))
        given = context.original([f])
        if sorted(given) != sorted(modes) or len(modes) != level.order:
            listed = ", ".join(f"`{context.written(n)}`" for n in given)
            what = f"the loop over `{context.written(f)}` goes over {listed}"
            message = f"{what}, not over the indices of `{pretty(shown)}`"
            hint = "fuse the loops over all of them before"
            raise FinchError("type", message, command.span, hint)
        if not _is_idle(nest, access, context):
            message = f"there is something to do where `{pretty(shown)}` is {level.fill.value}"
            raise FinchError("type", message, command.span)
        orders = [
            [n for at in nest.loops for n in (own if at is loop else [at.index.name])]
            for own in (given, modes)
        ]
        check_order_is_free(nest.body, orders, command, context)
        p = nests.new_index(new, program, context)
        headers: list[ast.Node] = []
        for mode, index in zip(range(level.order, 0, -1), modes, strict=True):
            extent = context.ranges.setdefault(index, nests.bounds(loop.extent, program))
            at = ast.Variable(context.fresh(f"{index}_at"), type=types.Int64)
            value = call("coordinate", name, ast.Literal(mode), p)
            headers += ast.Define(at, value, ast.EMPTY), *_within(extent, at, name, mode)
            headers.append(nests.single(ast.Index(index, span=shown.span), at))
        gone = {f}
        for made, names in reversed(context.derived):
            gone |= set(names) if gone.issuperset(made) else set()
        kept = [h for h in nest.headers if gone.isdisjoint(trees.binds(h)) or h is loop]
        kept = [h for h in kept if (gone - set(modes)).isdisjoint(names_in(trees.head(h)))]
        context.derived.append(((p.name,), modes))
        over = ast.Loop(p, ast.Extent(ONE, call("positions", name)), ast.EMPTY, span=loop.span)
        loops = [over if at is loop else at for at in nest.loops]
        entry = call("entry", name, p)

        def read(node: ast.Node) -> ast.Node:
            return trees.replace(node, tensor=entry, indices=()) if node == access else node

        whole = nests.NestHeaders(tuple(kept), nest.body).built(loops, *headers)
        return trees.rewrite_bottom_up(read, whole)

    return nests.rewrite_nest(program, (old,), context, rewrite)


def _within(extent: ast.Extent, at: ast.Node, name: ast.Node, mode: int) -> Iterator[ast.Sieve]:
    """Conditions for a coordinate to be in an extent, where that may not be all of the mode."""
    if extent.start != ONE:
        yield ast.Sieve(call("<=", extent.start, at), ast.EMPTY)
    if extent.stop != call("size", name, ast.Literal(mode)):
        yield ast.Sieve(call("<=", at, extent.stop), ast.EMPTY)


def _is_idle(nest: nests.NestHeaders, access: ast.Access, context: ProgramContext) -> bool:
    """Whether a nest does nothing where `access` reads the fill."""
    inside = (ast.Declare, ast.Freeze)  # these store nothing by themselves
    whole = trees.rewrite_bottom_up(lambda n: ast.EMPTY if isinstance(n, inside) else n, nest.body)
    fill = context.level(access.tensor.name).fill  # type: ignore[attr-defined]
    whole = with_fills(nests.within(nest.headers, whole), context.formats)
    return does_nothing(whole, access, fill)
