"""Lanes: a loop that accumulates what it gathers takes LANES steps at a time, each into a sum of its
own, as long as there are so many; what is left, or a short loop, it takes step by step.

`x[idx[p]]` is what a processor takes longest for. LLVM would gather eight at a time with lanes left
out, which takes as long for one entry as for eight, and rows of a sparse matrix often have few. In a
long row, on the other hand, one sum would wait for each addition before the next.

Microseconds for y = A x by rows (Zen 5), with LLVM's masked gathers, with lanes, and with an expert's C
that takes short rows entry by entry and long ones two vectors at a time:

    100,000 rows of 1 entry     411   78   75       10,000 rows of about 10     82  102  112
                    3 in band   410  134  133                      about 100   486  386  382
                    5 in band   441  227  228                    100 in band   463  270  254

Rows of 3 at random are the exception: 10,000 take 43, 77 and 71, as their lengths are not foreseen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from finchlang.host.fold import ZERO, add, compare, const, mul, op, sub
from finchlang.host.ir import (
    Cell,
    Code,
    Expr,
    For,
    Get,
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
from finchlang.host.passes.accumulation import NEUTRAL, Accumulation, accumulations
from finchlang.host.walk import instance, rebuild, touches
from finchlang.types import Int64

#: How many steps are taken at a time.
LANES = 8


def take_lanes(residual: Residual) -> Residual:
    """The program with lanes in its innermost counted loops that gather and do nothing but
    accumulate."""
    return replace(residual, body=rebuild(residual.body, _with_lanes))


def _with_lanes(statements: tuple[Stmt, ...]) -> list[Stmt]:
    result: list[Stmt] = []
    for statement in statements:
        found = _gathered(statement) if isinstance(statement, For) else None
        if found is None:
            result.append(statement)
        else:
            assert isinstance(statement, For)
            result += _in_cell(statement, found, result)
    return result


def _gathered(loop: For) -> Accumulation | None:
    """What `loop` accumulates, if it does nothing else, and loads at places that it has loaded."""
    statements = loop.body.statements
    if loop.is_plain or not all(isinstance(s, (Let, Load, Store, Get, Set)) for s in statements):
        return None
    if sum(isinstance(s, (Store, Set)) for s in statements) != 1:
        return None
    loaded: set[Expr] = set()

    def depends(expr: Expr) -> bool:
        return expr in loaded or (isinstance(expr, Op) and any(map(depends, expr.args)))

    gathers = False
    for statement in statements:
        if isinstance(statement, Load):
            gathers |= depends(statement.index)
        if isinstance(statement, Load) or (isinstance(statement, Let) and depends(statement.expr)):
            loaded.add(statement.variable)
    return next(accumulations(loop), None) if gathers else None


def _in_cell(loop: For, found: Accumulation, before: list[Stmt]) -> list[Stmt]:
    """`loop` with what it accumulates kept in a cell, and in lanes. If the last use of the array
    entry among the statements `before` is to set it, that is not done: it is stored once."""
    read, write = found.before, found.after
    if isinstance(read, Get):
        return _in_lanes(loop, found, read.cell)
    assert isinstance(write, Store)
    sum, result = Cell("sum", found.variable.type), Var("sum", found.variable.type)
    uses = [s for s in before if touches(s, read.buffer)]
    last = uses[-1] if uses else None
    store = [Get(result, sum), Store(write.buffer, write.index, result)]
    if isinstance(last, Store) and last.index is write.index:
        before[:] = [s for s in before if s is not last]
        return [Set(sum, last.value), *_in_lanes(loop, found, sum), *store]
    entry = Var("entry", found.variable.type)
    load = [Load(entry, read.buffer, read.index), Set(sum, entry)]
    body = Code((*load, *_in_lanes(loop, found, sum), *store))
    return [If(compare("le", loop.start, loop.stop), body, Code(()))]


def _in_lanes(loop: For, found: Accumulation, sum: Cell) -> list[Stmt]:
    """`loop`, which accumulates in `sum`: as many steps as fill all lanes, and then the rest."""
    rest, first = Cell("rest", Int64), Var("first", Int64)
    count = sub(add(loop.stop, 1), loop.start)
    values: dict[Expr, Expr] = {}
    return [
        Set(rest, loop.start),
        If(compare("ge", count, LANES), _whole_groups(loop, found, sum, rest, count), Code(())),
        Get(first, rest),
        replace(loop, start=first, body=_step(loop, found, sum, values), is_plain=True),
    ]


def _step(loop: For, found: Accumulation, sum: Cell, values: dict[Expr, Expr]) -> Code:
    """A step of `loop` that accumulates in `sum`, with `values` in place of variables."""
    statements: list[Stmt] = []
    for statement in loop.body.statements:
        if statement is found.before:
            statement = Get(found.variable, sum)
        elif statement is found.after:
            statement = Set(sum, found.after.value)
        statements += instance((statement,), values)
    return Code(tuple(statements))


def _whole_groups(loop: For, found: Accumulation, sum: Cell, rest: Cell, count: Expr) -> Code:
    """As many groups of LANES steps as there are, from the first one on; `rest` is set to where they
    end."""
    type, operator = sum.type, found.operator
    parts = [Cell(f"part{lane}", type) for lane in range(LANES)]
    groups, group = Var("groups", Int64), Var("group", Int64)
    first = add(loop.start, mul(group, LANES))
    steps: list[Stmt] = []
    for lane, part in enumerate(parts):
        steps += _step(loop, found, part, {loop.variable: add(first, lane)}).statements
    totals = [Var(f"total{lane}", type) for lane in range(LANES)]
    before = Var("before", type)
    neutral = const(NEUTRAL[operator], type)
    return Code(
        (
            *(Set(part, neutral) for part in parts),
            Let(groups, op("shr", count, LANES.bit_length() - 1)),
            For(group, ZERO, sub(groups, 1), Code(tuple(steps)), is_plain=True),
            *(Get(total, part) for total, part in zip(totals, parts, strict=True)),
            Get(before, sum),
            Set(sum, op(operator, before, _pairwise(operator, totals))),
            Set(rest, add(loop.start, mul(groups, LANES))),
        )
    )


def _pairwise(operator: str, exprs: Sequence[Expr]) -> Expr:
    """All of `exprs` combined, so that none waits for many others."""
    if len(exprs) == 1:
        return exprs[0]
    half = len(exprs) // 2
    return op(operator, _pairwise(operator, exprs[:half]), _pairwise(operator, exprs[half:]))
