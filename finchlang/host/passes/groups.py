"""Groups of steps: a counted loop that takes several steps at a time, and what is left one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from finchlang.host.fold import ZERO, add, compare, mul, op, sub
from finchlang.host.ir import Cell, Code, Expr, For, Get, If, Let, Set, Stmt, Var
from finchlang.types import Int64


def in_groups(
    loop: For,
    size: int,
    step: Callable[[int, Expr], Sequence[Stmt]],
    single: Sequence[Stmt],
    begin: Sequence[Stmt] = (),
    end: Sequence[Stmt] = (),
) -> tuple[Set, If, Get, For]:
    """`loop` in groups of `size` steps (a power of 2), of which the k-th at i is `step(k, i)`, with
    `begin` and `end` around them if there are any; then the rest, each of whose steps is `single`."""
    rest, first = Cell("rest", Int64), Var("first", Int64)
    groups, group = Var("groups", Int64), Var("group", Int64)
    count = sub(add(loop.stop, 1), loop.start)
    low = add(loop.start, mul(group, size))
    steps = Code(tuple(s for k in range(size) for s in step(k, add(low, k))))
    whole = (
        *begin,
        Let(groups, op("shr", count, size.bit_length() - 1)),
        For(group, ZERO, sub(groups, 1), steps, is_plain=True),
        *end,
        Set(rest, add(loop.start, mul(groups, size))),
    )
    return (
        Set(rest, loop.start),
        If(compare("ge", count, size), Code(whole), Code(())),
        Get(first, rest),
        replace(loop, start=first, body=Code(tuple(single)), is_plain=True),
    )
