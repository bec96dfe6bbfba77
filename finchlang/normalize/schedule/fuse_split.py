"""`fuse(i, k, f)`: two loops, one directly in the other, as one."""

from __future__ import annotations

from finchlang.algebra.program_context import ONE, ProgramContext, call
from finchlang.base.errors import FinchError
from finchlang.normalize.schedule import nest_headers as nests
from finchlang.syntax.nodes import EMPTY, Extent, Literal, Loop, Node, Schedule, Sieve


def fuse(program: Node, command: Schedule, context: ProgramContext) -> Node:
    """`program` with one loop over f in place of those over i and k, in the same order."""
    *names, fused = command.args

    def rewrite(nest: nests.NestHeaders, wanted: tuple[Loop, ...]) -> Node:
        outer, inner = wanted
        at = nest.loops.index(outer)
        if nest.loops[at + 1 : at + 2] != (inner,):
            i, k = (context.written(loop.index.name) for loop in wanted)
            message = f"the loop over `{k}` does not stand directly in the one over `{i}`"
            raise FinchError("type", message, command.span, "reorder them before")
        f = nests.new_index(fused, program, context)
        extents = [nests.bounds(loop.extent, program) for loop in wanted]
        rows, columns = map(nests.length, extents)
        both = Loop(f, Extent(ONE, call("*", rows, columns), span=f.span), EMPTY, span=outer.span)
        before = call("-", f, ONE)
        counts = [call("+", call(op, before, columns), ONE) for op in ("div", "%")]
        triples = zip(wanted, extents, counts, strict=True)
        values = [nests.single(loop.index, nests.nth(e, n)) for loop, e, n in triples]
        context.derived.append(((f.name,), (outer.index.name, inner.index.name)))
        for loop, extent in zip(wanted, extents, strict=True):
            context.ranges[loop.index.name] = extent
        loops = [both if old is outer else old for old in nest.loops if old is not inner]
        return nest.built(loops, *values)

    return nests.rewrite_nest(program, names, context, rewrite)


def split(program: Node, command: Schedule, context: ProgramContext) -> Node:
    """`program` with the loop over i divided: i0 counts blocks, i1 within a block of `by` indices (or of
    the whole extent, if that is shorter), and a sieve ends the last block where the extent ends."""
    name, outer, inner, by = command.args
    if not isinstance(by, Literal) or type(by.value) is not int or by.value < 1:
        raise FinchError("type", "a loop is split by a whole number of at least 1", by.span)

    def rewrite(nest: nests.NestHeaders, wanted: tuple[Loop, ...]) -> Node:
        (loop,) = wanted
        extent = nests.bounds(loop.extent, program)
        i0, i1 = (nests.new_index(name, program, context) for name in (outer, inner))
        blocks = Extent(ONE, call("cld", nests.length(extent), by), span=loop.extent.span)
        within = Extent(ONE, call("min", by, nests.length(extent)), span=by.span)
        divided = [Loop(*pair, EMPTY, span=loop.span) for pair in ((i0, blocks), (i1, within))]
        i = nests.nth(extent, call("+", call("*", call("-", i0, ONE), by), i1))
        guard = Sieve(call("<=", i, extent.stop), EMPTY, span=loop.span)
        context.derived.append(((i0.name, i1.name), (loop.index.name,)))
        context.ranges[loop.index.name] = extent
        loops = [new for old in nest.loops for new in (divided if old is loop else (old,))]
        return nest.built(loops, guard, nests.single(loop.index, i))

    return nests.rewrite_nest(program, (name,), context, rewrite)
