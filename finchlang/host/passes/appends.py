"""Appends: a counted loop that appends one entry in each step makes room for all of them before it, and
then stores at positions that are known, so that what is copied is copied several entries at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from finchlang.host.fold import add, compare, sub
from finchlang.host.ir import (
    Cell,
    Code,
    Const,
    Expr,
    For,
    Get,
    Grow,
    If,
    Let,
    Load,
    Residual,
    Set,
    Stmt,
    Store,
    Var,
)
from finchlang.host.walk import rewrite
from finchlang.types import Int64


def make_room(residual: Residual) -> Residual:
    """The program with room made before its innermost counted loops that append, and do so always."""
    return replace(residual, body=rewrite(residual.body, _with_room))


def _with_room(statement: Stmt) -> list[Stmt]:
    if not isinstance(statement, For) or statement.is_plain:
        return [statement]
    steps = list(_straight(statement.body.statements))
    sizes = [s for s in steps if isinstance(s, Grow)]
    counters = [s for s in steps if isinstance(s, Set) and not isinstance(s.value, Const)]
    if not sizes or len(counters) != 1:
        return [statement]
    (counter,) = counters
    reads = [s for s in steps if isinstance(s, Get) and s.cell is counter.cell]
    if len(reads) != 1 or steps.index(reads[0]) > steps.index(counter):
        return [statement]
    at = reads[0].variable
    is_append = all(s.size is add(at, 1) for s in sizes) and counter.value is add(at, 1)
    if not is_append or not all(isinstance(s, (Load, Let, Store, Get, Set, Grow)) for s in steps):
        return [statement]
    first = Var("first", Int64)
    number = sub(statement.variable, statement.start)
    end = add(first, sub(add(statement.stop, 1), statement.start))
    moved = [Let(at, add(first, number)) if s is reads[0] else s for s in steps]
    kept = [s for s in _last_stores(moved) if s is not counter and not isinstance(s, Grow)]
    loop = replace(statement, body=Code(tuple(kept)), is_append=True)
    rooms = {s.buffer: Grow(s.buffer, end) for s in sizes}
    whole = Code((Get(first, counter.cell), *rooms.values(), loop, Set(counter.cell, end)))
    return [If(compare("le", statement.start, statement.stop), whole, Code(()))]


def _last_stores(statements: list[Stmt]) -> Iterator[Stmt]:
    """Statements without stores that others replace before anything is loaded from there."""
    last = {(s.buffer, s.index): s for s in statements if isinstance(s, Store)}
    loaded = {s.buffer for s in statements if isinstance(s, Load)}
    for s in statements:
        if not isinstance(s, Store) or s.buffer in loaded or last[s.buffer, s.index] is s:
            yield s


def _straight(statements: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Statements with what is always run of a branch on a cell in its place, as far as is seen here."""
    cells: dict[Cell, Expr] = {}
    values: dict[Expr, Expr] = {}
    left = [*reversed(statements)]
    while left:
        statement = left.pop()
        match statement:
            case Set(cell, value):
                cells[cell] = value
            case Get(variable, cell) if cell in cells:
                values[variable] = cells[cell]
            case If(condition, then, _) if _is_true(values.get(condition)):
                left += reversed(then.statements)
                continue
        yield statement


def _is_true(value: Expr | None) -> bool:
    return isinstance(value, Const) and value.value is True
