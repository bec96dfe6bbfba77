"""`fuse(i, k, f)`: two loops, one directly in the other, as one."""

from __future__ import annotations

from finchlang.normalize.context import ONE, Context, call
from finchlang.normalize.schedule.nest import (
    Nest,
    bounds,
    check_count,
    length,
    new_index,
    nth,
    rewrite_nest,
    single,
)
from finchlang.source import FinchError
from finchlang.syntax import EMPTY, Extent, Loop, Node, Schedule


def fuse(program: Node, command: Schedule, context: Context) -> Node:
    """`program` with one loop over f in place of those over i and k, in the same order."""
    check_count(command.args, 3, "fuse(i, k, f)", command.span)
    *names, fused = command.args

    def rewrite(nest: Nest, wanted: tuple[Loop, ...]) -> Node:
        outer, inner = wanted
        at = nest.loops.index(outer)
        if nest.loops[at + 1 : at + 2] != (inner,):
            i, k = (context.written(loop.index.name) for loop in wanted)
            message = f"the loop over `{k}` does not stand directly in the one over `{i}`"
            raise FinchError("type", message, command.span, "reorder them before")
        f = new_index(fused, program, context)
        extents = [bounds(loop.extent, program) for loop in wanted]
        rows, columns = map(length, extents)
        both = Loop(f, Extent(ONE, call("*", rows, columns), span=f.span), EMPTY, span=outer.span)
        before = call("-", f, ONE)
        values = (
            single(outer.index, nth(extents[0], call("+", call("div", before, columns), ONE))),
            single(inner.index, nth(extents[1], call("+", call("%", before, columns), ONE))),
        )
        context.derived.append(((f.name,), (outer.index.name, inner.index.name)))
        for loop, extent in zip(wanted, extents, strict=True):
            context.ranges[loop.index.name] = extent
        loops = [both if old is outer else old for old in nest.loops if old is not inner]
        return nest.built(loops, *values)

    return rewrite_nest(program, names, context, rewrite)
