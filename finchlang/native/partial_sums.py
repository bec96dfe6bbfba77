"""Sums that several loops add to: each innermost loop adds up its own part from zero, so that one part
need not wait for the one before.

Where blocks or runs of a row add to one entry, the processor would otherwise finish each short
loop, vector lanes and all, before the next could begin. The order of a sum is left to native code
anyway (`reassoc`).
"""

from __future__ import annotations

from finchlang.host.fold import const, op
from finchlang.host.ir import (
    Cell,
    Code,
    Expr,
    For,
    Get,
    Let,
    Load,
    Op,
    Search,
    Set,
    Stmt,
    Store,
    Var,
    While,
)
from finchlang.host.walk import walk
from finchlang.native.analysis import is_heavy

#: what a part of an accumulation begins with; it may be added in any order
_NEUTRAL = {"add": 0, "mul": 1}


def partial_sum(loop: For, around: For | While) -> tuple[Stmt, ...] | None:
    """What to do instead of `loop`, which stands directly in the loop `around`: None unless it is an
    innermost loop, and accumulates into one array entry that is the same all along `around`."""
    if is_heavy(loop.body):
        return None
    for before in loop.body.statements:
        if isinstance(before, Load):
            after = _accumulation(loop, before)
            if after is not None and not _changes(before.index, around):
                return _apart(loop, before, *after)
    return None


def _accumulation(loop: For, before: Load) -> tuple[Store, Op] | None:
    """The statement of `loop` that stores what `before` loads, increased; and the operation."""
    uses = [s for s in walk(loop.body) if getattr(s, "buffer", None) is before.buffer]
    if len(uses) != 2 or uses[0] is not before or uses[1] not in loop.body.statements:
        return None
    after = uses[1]
    if not isinstance(after, Store) or after.index is not before.index:
        return None
    sum = _definition(after.value)
    if not isinstance(sum, Op) or sum.name not in _NEUTRAL:
        return None
    if before.variable not in sum.args or _uses(loop.body, before.variable) != [sum]:
        return None
    if isinstance(after.value, Var) and _uses(loop.body, after.value) != [after.value]:
        return None
    return after, sum


def _apart(loop: For, before: Load, after: Store, sum: Op) -> tuple[Stmt, ...]:
    part = Cell("part", before.variable.type)
    changes = {id(before): Get(before.variable, part), id(after): Set(part, after.value)}
    body = Code(tuple(changes.get(id(s), s) for s in loop.body.statements))
    total, found = Var("total", part.type), Var("part", part.type)
    return (
        Set(part, const(_NEUTRAL[sum.name], part.type)),
        For(loop.variable, loop.start, loop.stop, body),
        Load(total, before.buffer, before.index),
        Get(found, part),
        Store(after.buffer, after.index, op(sum.name, total, found)),
    )


def _changes(expr: Expr, around: For | While) -> bool:
    """Whether `expr` may have another value at each step of `around`."""
    statements = list(walk(Code((around,))))
    bound = {s.variable for s in statements if isinstance(s, (Let, Load, Get, Search, For))}
    return any(_mentions(expr, variable) for variable in bound)


def _definition(expr: Expr) -> Expr:
    return expr.definition or expr if isinstance(expr, Var) else expr


def _mentions(expr: Expr, variable: Var) -> bool:
    if isinstance(expr, Op):
        return any(_mentions(arg, variable) for arg in expr.args)
    return expr is variable


def _uses(code: Code, variable: Var) -> list[Expr]:
    """The expressions in `code` in which `variable` is used, as often as they stand there."""
    names = ("expr", "index", "value", "condition", "start", "stop", "key", "size")
    parts = [getattr(s, name, None) for s in walk(code) for name in names]
    parts += [value for s in walk(code) for value in getattr(s, "values", ())]
    return [e for e in parts if isinstance(e, Expr) and _mentions(e, variable)]
