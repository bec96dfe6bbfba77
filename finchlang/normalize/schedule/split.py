"""`split(i, i0, i1, 4)`: a loop as a loop over blocks and one within the block."""

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
from finchlang.syntax import EMPTY, Extent, Literal, Loop, Node, Schedule, Sieve


def split(program: Node, command: Schedule, context: Context) -> Node:
    """`program` with the loop over i divided: i0 counts blocks, i1 counts within one, and the last
    block ends where the extent does; no block is longer than that."""
    check_count(command.args, 4, "split(i, i0, i1, 4)", command.span)
    name, outer, inner, by = command.args
    if not isinstance(by, Literal) or type(by.value) is not int or by.value < 1:
        message = "a loop is split by a whole number of at least 1"
        raise FinchError("type", message, by.span)

    def rewrite(nest: Nest, wanted: tuple[Loop, ...]) -> Node:
        (loop,) = wanted
        extent = bounds(loop.extent, program)
        i0, i1 = new_index(outer, program, context), new_index(inner, program, context)
        blocks = Extent(ONE, call("cld", length(extent), by), span=loop.extent.span)
        within = Extent(ONE, call("min", by, length(extent)), span=by.span)
        divided = (
            Loop(i0, blocks, EMPTY, span=loop.span),
            Loop(i1, within, EMPTY, span=loop.span),
        )
        i = nth(extent, call("+", call("*", call("-", i0, ONE), by), i1))
        guard = Sieve(call("<=", i, extent.stop), EMPTY, span=loop.span)
        context.derived.append(((i0.name, i1.name), (loop.index.name,)))
        context.ranges[loop.index.name] = extent
        loops = [new for old in nest.loops for new in (divided if old is loop else (old,))]
        return nest.built(loops, guard, single(loop.index, i))

    return rewrite_nest(program, (name,), context, rewrite)
