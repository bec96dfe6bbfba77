"""Initialisation fusion: a loop that visits each entry of an array once, in order, right after it was
filled, fills its own entry in each step, where it stays in a register."""

from __future__ import annotations

from dataclasses import replace

from finchlang.host.fold import ONE, ZERO, split_sum, sub
from finchlang.host.ir import Code, Expr, Fill, For, Load, Residual, Stmt, Store, Var
from finchlang.host.walk import rebuild, touches, walk


def fuse_initialisation(residual: Residual) -> Residual:
    """The program with fills moved into the loops behind them that visit each entry."""
    return replace(residual, body=rebuild(residual.body, _fused))


def _fused(statements: tuple[Stmt, ...]) -> list[Stmt]:
    result: list[Stmt | None] = list(statements)
    for number, fill in enumerate(statements):
        if isinstance(fill, Fill) and fill.start is ZERO:
            behind = range(number + 1, len(statements))
            place = next((k for k in behind if touches(statements[k], fill.buffer)), None)
            loop = None if place is None else result[place]
            if place is not None and isinstance(loop, For) and _visits_each(loop, fill):
                first = Store(fill.buffer, sub(loop.variable, ONE), fill.value)
                result[number] = None
                result[place] = replace(loop, body=Code((first, *loop.body.statements)))
    return [statement for statement in result if statement is not None]


def _visits_each(loop: For, fill: Fill) -> bool:
    """Whether step i of `loop`, from 1 to the number of entries filled, uses entry i - 1 only."""
    if loop.start is not ONE or _resolved(loop.stop) != _resolved(fill.stop):
        return False
    place = sub(loop.variable, ONE)
    uses = [s for s in walk(loop.body) if getattr(s, "buffer", None) is fill.buffer]
    return all(isinstance(s, (Load, Store)) and s.index is place for s in uses)


def _resolved(expr: Expr) -> tuple[Expr | None, int]:
    """`expr` as a sum of an expression that no variable stands for, and a constant."""
    base, constant = split_sum(expr)
    while isinstance(base, Var) and base.definition is not None:
        base, more = split_sum(base.definition)
        constant += more
    return base, constant
