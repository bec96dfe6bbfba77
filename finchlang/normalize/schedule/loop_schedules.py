"""The schedules that rewrite loops: `reorder(k, i, j)`, `fuse(i, k, f)`, `split(i, i0, i1, 4)`, and
`pos(f, p, B[i, k])`, a loop over the positions of a tensor's storage in place of its coordinates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from finchlang.algebra import program_context as ctx
from finchlang.algebra.absence import does_nothing
from finchlang.algebra.simplify import with_fills
from finchlang.base.errors import FinchError
from finchlang.levels.positions import is_positioned
from finchlang.normalize.schedule import nest_headers as nests
from finchlang.operators.operator_table import row_of
from finchlang.syntax import nodes as ast, traversal as trees, types
from finchlang.text.print import pretty


def reorder(program: ast.Node, command: ast.Schedule, context: ctx.ProgramContext) -> ast.Node:
    """`program` with the loops over the indices of `command` in their order. Raises FinchError "type"."""

    def rewrite(nest: nests.NestHeaders, wanted: tuple[ast.Loop, ...]) -> ast.Node:
        left = iter(wanted)
        loops = [next(left) if loop in wanted else loop for loop in nest.loops]
        before, after = ([loop.index.name for loop in order] for order in (nest.loops, loops))
        check_order_is_free(nest.body, (before, after), command, context)
        return nest.built(loops)

    return nests.rewrite_nest(program, command.args, context, rewrite)


def check_order_is_free(
    body: ast.Node, orders: Sequence[list[str]], command: ast.Node, context: ctx.ProgramContext
) -> None:
    """Check that `body` stores the same with its loops in both of two orders: each tensor is updated by
    an operator that takes its operands in any order, or the updates of each place come in the same order.
    (The life cycle checks that no tensor is read as well.) Raises FinchError "type"."""
    for name, updates in _updates(body).items():
        if all(_takes_any_order(a) and a.op == updates[0].op for a in updates):
            continue
        for assign in updates:
            own = determined(assign, context)
            first, second = ([n for n in order if n not in own] for order in orders)
            if first == second and assign.target == updates[0].target:
                continue
            sign = "=" if assign.op in ctx.PLAIN else f"<<{pretty(assign.op)}>>="
            pair = [updates[0], assign][assign is updates[0] :]
            at = ", ".join(ctx.place(a.span) for a in pair)
            why = f"its updates ({at}) by `{sign}` come to the same places more than once"
            message = f"in another order `{context.written(name)}` would hold other values: {why}"
            raise FinchError("type", message, command.span)


def _updates(body: ast.Node) -> dict[str, list[ast.Assign]]:
    """The updates of each tensor that is not declared in the body."""
    own = {n.tensor.name for n in trees.find_all(body, ast.Declare)}
    found: dict[str, list[ast.Assign]] = {}
    for node in trees.walk(body):
        if isinstance(node, ast.Assign) and (name := ctx.root(node.target.tensor) or "") not in own:
            found.setdefault(name, []).append(node)
    return found


def _takes_any_order(update: ast.Assign) -> bool:
    """Whether f(f(x, a), b) = f(f(x, b), a). (`initwrite` comes to each place once.)"""
    row, is_once = row_of(update), update.op == ast.Variable(ctx.INIT)
    return is_once or row.associative and row.commutative or row.group is not None


def determined(assign: ast.Assign, context: ctx.ProgramContext) -> set[str]:
    """The indices that have one value for each place that is written."""
    for wrapper in ctx.wrapped(assign.target.tensor)[0]:
        # `A[i + j]` is shifted by an index, `A[i + n]` by a number
        if ctx.is_call(wrapper, "toeplitz") or any(map(ctx.names_in, wrapper.args[1:])):
            return set()
    found = {i.name for i in assign.target.indices if isinstance(i, ast.Index)}
    for made, given in context.derived:
        found |= set(made) if found.issuperset(given) else set()
    return found


def fuse(program: ast.Node, command: ast.Schedule, context: ctx.ProgramContext) -> ast.Node:
    """`program` with one loop over f in place of those over i and k, in the same order."""
    *names, fused = command.args

    def rewrite(nest: nests.NestHeaders, wanted: tuple[ast.Loop, ...]) -> ast.Node:
        outer, inner = wanted
        at = nest.loops.index(outer)
        if nest.loops[at + 1 : at + 2] != (inner,):
            i, k = (context.written(loop.index.name) for loop in wanted)
            message = f"the loop over `{k}` does not stand directly in the one over `{i}`"
            raise FinchError("type", message, command.span, "reorder them before")
        f = nests.new_index(fused, program, context)
        extents = [nests.bounds(loop.extent, program) for loop in wanted]
        rows, columns = map(nests.length, extents)
        whole = ast.Extent(ctx.ONE, ast.call("*", rows, columns), span=f.span)
        both = ast.Loop(f, whole, ast.EMPTY, span=outer.span)
        before = ast.call("-", f, ctx.ONE)
        counts = [ast.call("+", ast.call(op, before, columns), ctx.ONE) for op in ("div", "%")]
        triples = zip(wanted, extents, counts, strict=True)
        values = [nests.single(loop.index, nests.nth(e, n)) for loop, e, n in triples]
        context.derived.append(((f.name,), (outer.index.name, inner.index.name)))
        for loop, extent in zip(wanted, extents, strict=True):
            context.ranges[loop.index.name] = extent
        loops = [both if old is outer else old for old in nest.loops if old is not inner]
        return nest.built(loops, *values)

    return nests.rewrite_nest(program, names, context, rewrite)


def split(program: ast.Node, command: ast.Schedule, context: ctx.ProgramContext) -> ast.Node:
    """`program` with the loop over i divided: i0 counts blocks, i1 within a block of `by` indices (or of
    the whole extent, if that is shorter), and a sieve ends the last block where the extent ends."""
    name, outer, inner, by = command.args
    if not isinstance(by, ast.Literal) or type(by.value) is not int or by.value < 1:
        raise FinchError("type", "a loop is split by a whole number of at least 1", by.span)

    def rewrite(nest: nests.NestHeaders, wanted: tuple[ast.Loop, ...]) -> ast.Node:
        (loop,) = wanted
        extent = nests.bounds(loop.extent, program)
        i0, i1 = (nests.new_index(name, program, context) for name in (outer, inner))
        count = ast.call("cld", nests.length(extent), by)
        blocks = ast.Extent(ctx.ONE, count, span=loop.extent.span)
        within = ast.Extent(ctx.ONE, ast.call("min", by, nests.length(extent)), span=by.span)
        pairs = (i0, blocks), (i1, within)
        divided = [ast.Loop(*pair, ast.EMPTY, span=loop.span) for pair in pairs]
        i = nests.nth(extent, ast.call("+", ast.call("*", ast.call("-", i0, ctx.ONE), by), i1))
        guard = ast.Sieve(ast.call("<=", i, extent.stop), ast.EMPTY, span=loop.span)
        context.derived.append(((i0.name, i1.name), (loop.index.name,)))
        context.ranges[loop.index.name] = extent
        loops = [new for old in nest.loops for new in (divided if old is loop else (old,))]
        return nest.built(loops, guard, nests.single(loop.index, i))

    return nests.rewrite_nest(program, (name,), context, rewrite)


def pos(program: ast.Node, command: ast.Schedule, context: ctx.ProgramContext) -> ast.Node:
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
            stored = f"`{context.written(tensor)}`, which is updated in place,"
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
            value = ast.call("coordinate", name, ast.Literal(mode), p)
            headers += ast.Define(at, value, ast.EMPTY), *_within(extent, at, name, mode)
            headers.append(nests.single(ast.Index(index, span=shown.span), at))
        gone = {f}
        for made, names in reversed(context.derived):
            gone |= set(names) if gone.issuperset(made) else set()
        kept = [h for h in nest.headers if gone.isdisjoint(trees.binds(h)) or h is loop]
        kept = [h for h in kept if (gone - set(modes)).isdisjoint(ctx.names_in(trees.head(h)))]
        context.derived.append(((p.name,), modes))
        all_positions = ast.Extent(ctx.ONE, ast.call("positions", name))
        over = ast.Loop(p, all_positions, ast.EMPTY, span=loop.span)
        loops = [over if at is loop else at for at in nest.loops]
        entry = ast.call("entry", name, p)

        def read(node: ast.Node) -> ast.Node:
            return trees.replace(node, tensor=entry, indices=()) if node == access else node

        whole = nests.NestHeaders(tuple(kept), nest.body).built(loops, *headers)
        return trees.rewrite_bottom_up(read, whole)

    return nests.rewrite_nest(program, (old,), context, rewrite)


def _within(extent: ast.Extent, at: ast.Node, name: ast.Node, mode: int) -> Iterator[ast.Sieve]:
    """Conditions for a coordinate to be in an extent, where that may not be all of the mode."""
    if extent.start != ctx.ONE:
        yield ast.Sieve(ast.call("<=", extent.start, at), ast.EMPTY)
    if extent.stop != ast.call("size", name, ast.Literal(mode)):
        yield ast.Sieve(ast.call("<=", at, extent.stop), ast.EMPTY)


def _is_idle(nest: nests.NestHeaders, access: ast.Access, context: ctx.ProgramContext) -> bool:
    """Whether a nest does nothing where `access` reads the fill."""
    inside = (ast.Declare, ast.Freeze)  # these store nothing by themselves
    whole = trees.rewrite_bottom_up(lambda n: ast.EMPTY if isinstance(n, inside) else n, nest.body)
    fill = context.level(access.tensor.name).fill  # type: ignore[attr-defined]
    whole = with_fills(nests.within(nest.headers, whole), context.formats)
    return does_nothing(whole, access, fill)
