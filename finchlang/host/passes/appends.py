"""Appends: a counted loop that appends at most one entry in each step makes room for all of them before it.
If it appends always, it stores at positions that are known, so that what is copied is copied several
entries at a time; if under a condition, it stores always and counts only what is wanted, as nobody could
guess the condition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from finchlang.host.fold import TRUE, add, cast, compare, sub
from finchlang.host.ir import (
    COMPARISONS,
    Buffer,
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
    Op,
    Residual,
    Set,
    Stmt,
    Store,
    Var,
)
from finchlang.host.walk import rewrite, walk
from finchlang.types import Int64


def make_room(residual: Residual) -> Residual:
    """The program with room made before its innermost counted loops that append."""
    return replace(residual, body=rewrite(residual.body, _with_room))


def _with_room(statement: Stmt) -> list[Stmt]:
    if not isinstance(statement, For) or statement.is_plain:
        return [statement]
    inside = list(walk(statement.body))
    sizes = [s for s in inside if isinstance(s, Grow)]
    counters = [s for s in inside if isinstance(s, Set) and not isinstance(s.value, Const)]
    if not sizes or len(counters) != 1:
        return [statement]
    (counter,) = counters
    reads = [s for s in inside if isinstance(s, Get) and s.cell is counter.cell]
    if len(reads) != 1 or not all(s.size is counter.value for s in sizes):
        return [statement]
    at = reads[0].variable
    steps = list(_straight(statement.body.statements, at, {s.buffer for s in sizes}))
    if counter.value is not add(at, 1) or not all(isinstance(s, _STEPS) for s in steps):
        return [statement]
    counts = [s for s in steps if isinstance(s, Set) and s.cell is counter.cell]
    if len(counts) != 1 or steps.index(reads[0]) > steps.index(counts[0]):
        return [statement]
    first = Var("first", Int64)
    end = add(first, sub(add(statement.stop, 1), statement.start))
    kept = [s for s in _last_stores(steps) if not isinstance(s, Grow)]
    rooms = {s.buffer: Grow(s.buffer, end) for s in sizes}
    before: list[Stmt] = [Get(first, counter.cell), *rooms.values()]
    if counts[0].value is counter.value:  # always
        number = Let(at, add(first, sub(statement.variable, statement.start)))
        body = Code(tuple([number if s is reads[0] else s for s in kept if s is not counts[0]]))
        after = [replace(statement, body=body, is_append=True), Set(counter.cell, end)]
    else:
        after = [replace(statement, body=Code(tuple(kept)))]
    whole = Code((*before, *after))
    return [If(compare("le", statement.start, statement.stop), whole, Code(()))]


_STEPS = (Load, Let, Store, Get, Set, Grow)

#: what takes less time than to guess wrong whether it is wanted
_CHEAP = COMPARISONS.union(
    ("add", "sub", "mul", "min", "max", "and", "or", "xor", "neg", "not", "abs", "select", "cast")
)


def _last_stores(statements: list[Stmt]) -> Iterator[Stmt]:
    """Statements without stores that others replace before anything is loaded from there."""
    last = {(s.buffer, s.index): s for s in statements if isinstance(s, Store)}
    loaded = {s.buffer for s in statements if isinstance(s, Load)}
    for s in statements:
        if not isinstance(s, Store) or s.buffer in loaded or last[s.buffer, s.index] is s:
            yield s


def _straight(statements: tuple[Stmt, ...], at: Var, grown: set[Buffer]) -> Iterator[Stmt]:
    """Statements with those of branches in their place: of such as are always run, and of such as append
    to the buffers that grow, at `at`, of which then only the count depends on the condition. What must
    not be done without that stays a branch."""
    cells: dict[Cell, Expr] = {}
    values: dict[Expr, Expr] = {}
    loaded: dict[tuple[Buffer, Expr], Var] = {}
    left: list[tuple[Stmt, Expr]] = [(s, TRUE) for s in reversed(statements)]
    while left:
        statement, when = left.pop()
        is_sure, is_possible = _is(True, when), True
        match statement:
            case If(condition, then, otherwise) if is_sure or not otherwise.statements:
                condition = values.get(condition, condition)
                if _is(True, condition) or condition is when:
                    condition = when
                elif not is_sure or otherwise.statements:
                    yield statement
                    continue
                left += [(s, condition) for s in reversed(then.statements)]
                continue
            case Set(cell, value):
                if not is_sure and value is add(at, 1):
                    value = add(at, cast(when, Int64))
                elif not is_sure:
                    is_possible = _is(True, value) and _is(False, cells.get(cell))
                    value = when
                statement, cells[cell] = Set(cell, value), value
            case Get(variable, cell) if cell in cells:
                values[variable] = cells[cell]
            case Load(variable, buffer, index):
                if is_sure:
                    loaded[buffer, index] = variable
                elif (buffer, index) in loaded:
                    statement = Let(variable, loaded[buffer, index])
                else:
                    is_possible = False
            case Store(buffer, index, value):
                is_possible = is_sure or (buffer in grown and index is at and _is_cheap(value))
                loaded = {key: found for key, found in loaded.items() if key[0] is not buffer}
            case Let(_, value):
                is_possible = is_sure or _is_cheap(value)
        yield statement if is_possible else If(when, Code((statement,)), Code(()))


def _is(truth: bool, value: Expr | None) -> bool:
    return isinstance(value, Const) and value.value is truth


def _is_cheap(expr: Expr) -> bool:
    return not isinstance(expr, Op) or (expr.name in _CHEAP and all(map(_is_cheap, expr.args)))
