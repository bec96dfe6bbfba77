"""Scalar expansion: where several loops add to one entry, each innermost loop adds up its own part from
zero, so that one part need not wait for the one before.

Where blocks or runs of a row add to one entry, the processor would otherwise finish each short
loop, vector lanes and all, before the next could begin. The order of a sum is left to native code
anyway (`reassoc`).
"""

from __future__ import annotations

from dataclasses import replace

from finchlang.host.fold import compare, const, op
from finchlang.host.ir import (
    Cell,
    Code,
    For,
    Get,
    If,
    Load,
    Residual,
    Set,
    Stmt,
    Store,
    Var,
    While,
)
from finchlang.host.passes.accumulation import NEUTRAL, Accumulation, accumulations, changing
from finchlang.host.walk import is_heavy, nested, rewrite, variables


def expand_scalars(residual: Residual) -> Residual:
    """The program with a sum of its own in each innermost loop that accumulates in one array entry,
    if the entry is the same all along the loop around it."""
    apart = {id(loop): found for loop, found in _found(residual.body, None)}

    def change(statement: Stmt) -> list[Stmt]:
        if id(statement) not in apart:
            return [statement]
        assert isinstance(statement, For)
        return _apart(statement, apart[id(statement)])

    return replace(residual, body=rewrite(residual.body, change)) if apart else residual


def _found(code: Code, around: For | While | None) -> list[tuple[For, Accumulation]]:
    result = []
    for statement in code.statements:
        if isinstance(statement, For) and around is not None:
            result += [(statement, found) for found in _expandable(statement, around)][:1]
        inner = statement if isinstance(statement, (For, While)) else around
        for code in nested(statement):
            result += _found(code, inner)
    return result


def _expandable(loop: For, around: For | While) -> list[Accumulation]:
    if is_heavy(loop.body):
        return []
    changed = changing(around)
    return [
        found
        for found in accumulations(loop)
        if isinstance(found.before, Load) and changed.isdisjoint(variables(found.before.index))
    ]


def _apart(loop: For, found: Accumulation) -> list[Stmt]:
    before, after = found.before, found.after
    assert isinstance(before, Load) and isinstance(after, Store)
    part = Cell("part", before.variable.type)
    changes = {id(before): Get(before.variable, part), id(after): Set(part, after.value)}
    body = Code(tuple(changes.get(id(s), s) for s in loop.body.statements))
    total, sum = Var("total", part.type), Var("part", part.type)
    add_part = (
        Load(total, before.buffer, before.index),
        Get(sum, part),
        Store(after.buffer, after.index, op(found.operator, total, sum)),
    )
    return [
        Set(part, const(NEUTRAL[found.operator], part.type)),
        replace(loop, body=body),
        If(compare("le", loop.start, loop.stop), Code(add_part), Code(())),
    ]
