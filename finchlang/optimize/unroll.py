"""Groups of steps: a counted loop that takes several steps at a time, and what is left one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from finchlang.host.construct import ZERO, add, compare, mul, op, sub
from finchlang.host.ir import Bind, Branch, Cell, Code, Expr, ForLoop, Get, Set, Stmt, Var
from finchlang.syntax.types import Int64


def in_groups(
    loop: ForLoop,
    size: int,
    step: Callable[[int, Expr], Sequence[Stmt]],
    single: Sequence[Stmt],
    begin: Sequence[Stmt] = (),
    end: Sequence[Stmt] = (),
) -> tuple[Set, Branch, Get, ForLoop]:
    """`loop` in groups of `size` steps (a power of 2), of which the k-th at i is `step(k, i)`, with
    `begin` and `end` around them if there are any; then the rest, each of whose steps is `single`."""
    rest, first = Cell("rest", Int64), Var("first", Int64)
    groups, group = Var("groups", Int64), Var("group", Int64)
    count = sub(add(loop.stop, 1), loop.start)
    low = add(loop.start, mul(group, size))
    steps = Code(tuple(s for k in range(size) for s in step(k, add(low, k))))
    whole = (
        *begin,
        Bind(groups, op("shr", count, size.bit_length() - 1)),
        ForLoop(group, ZERO, sub(groups, 1), steps, is_plain=True),
        *end,
        Set(rest, add(loop.start, mul(groups, size))),
    )
    return (
        Set(rest, loop.start),
        Branch(compare("ge", count, size), Code(whole), Code(())),
        Get(first, rest),
        replace(loop, start=first, body=Code(tuple(single)), is_plain=True),
    )
