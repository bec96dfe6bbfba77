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
from typing import Any

from finchlang.host.fold import compare, const, op
from finchlang.host.ir import (
    Cell,
    Code,
    Expr,
    For,
    Get,
    If,
    Let,
    Load,
    Residual,
    Set,
    Stmt,
    Store,
    Var,
)
from finchlang.host.passes.accumulation import NEUTRAL, Accumulation, accumulations
from finchlang.host.passes.groups import in_groups
from finchlang.host.walk import indirect, instance, rebuild, touches

#: How many steps are taken at a time.
LANES = 8


def take_lanes(residual: Residual) -> Residual:
    """The program with lanes in its innermost counted loops that gather and do nothing but
    accumulate."""
    return replace(residual, body=rebuild(residual.body, _with_lanes))


def _with_lanes(statements: tuple[Stmt, ...]) -> list[Stmt]:
    result: list[Stmt] = []
    for statement in statements:
        found = _gathered(statement) if isinstance(statement, For) else []
        if found:
            assert isinstance(statement, For)
            result += _in_cells(statement, found, result)
        else:
            result.append(statement)
    return result


def _gathered(loop: For) -> list[Accumulation]:
    """What `loop` accumulates (in one array at most), if it does nothing else, and loads at positions
    that it has loaded."""
    statements = loop.body.statements
    if loop.is_plain or not all(isinstance(s, (Let, Load, Store, Get, Set)) for s in statements):
        return []
    if not any(isinstance(s, Load) for s in indirect(loop.body)):
        return []
    found = list(accumulations(loop))
    writes = sum(isinstance(s, (Store, Set)) for s in statements)
    in_arrays = sum(isinstance(f.before, Load) for f in found)
    return found if len(found) == writes and in_arrays <= 1 else []


def _in_cells(loop: For, found: list[Accumulation], before: list[Stmt]) -> list[Stmt]:
    """`loop` with all that it accumulates kept in cells, and in lanes. If the last use of the array
    entry among the statements `before` is to set it, that is not done: it is stored once."""
    cells = [f.before.cell if isinstance(f.before, Get) else Cell("sum", f.type) for f in found]
    statements = _in_lanes(loop, list(zip(found, cells, strict=True)))
    of_array = next((k for k, f in enumerate(found) if isinstance(f.before, Load)), None)
    if of_array is None:
        return statements
    read, write, sum = found[of_array].before, found[of_array].after, cells[of_array]
    assert isinstance(read, Load) and isinstance(write, Store)
    result = Var("sum", sum.type)
    store = [Get(result, sum), Store(write.buffer, write.index, result)]
    uses = [s for s in before if touches(s, read.buffer)]
    last = uses[-1] if uses else None
    if isinstance(last, Store) and last.index is write.index:
        before[:] = [s for s in before if s is not last]
        return [Set(sum, last.value), *statements, *store]
    entry = Var("entry", sum.type)
    load = [Load(entry, read.buffer, read.index), Set(sum, entry)]
    is_entered = compare("le", loop.start, loop.stop)
    return [If(is_entered, Code((*load, *statements, *store)), Code(()))]


#: accumulations, each with the cell that it is to be in
Sums = Sequence[tuple[Accumulation, Cell]]


def _in_lanes(loop: For, sums: Sums) -> list[Stmt]:
    """`loop`, which accumulates in cells, with LANES steps at a time. What is slow to accumulate has
    a part in each lane."""
    parts = {
        cell: [Cell(f"{cell}_{lane}", cell.type) for lane in range(LANES)]
        for found, cell in sums
        if not found.is_quick
    }
    begin: list[Stmt] = []
    end: list[Stmt] = []
    for found, cell in sums:
        if cell in parts:
            neutral = const(NEUTRAL[found.operator], cell.type)
            begin += [Set(part, neutral) for part in parts[cell]]
            end += _combined(found.operator, cell, parts[cell])

    def step(lane: int, i: Expr) -> list[Stmt]:
        own = [(found, parts[cell][lane] if cell in parts else cell) for found, cell in sums]
        return _step(loop, own, {loop.variable: i})

    return in_groups(loop, LANES, step, _step(loop, sums, {}), begin, end)


def _step(loop: For, sums: Sums, values: dict[Any, Any]) -> list[Stmt]:
    """A step of `loop` that accumulates in these cells, with `values` in place of variables."""
    changes: dict[int, Stmt] = {}
    for found, cell in sums:
        changes[id(found.before)] = Get(found.variable, cell)
        changes[id(found.after)] = Set(cell, found.after.value)
    return instance((changes.get(id(s), s) for s in loop.body.statements), values)


def _combined(operator: str, cell: Cell, parts: Sequence[Cell]) -> list[Stmt]:
    """`cell` with its parts."""
    before, totals = Var("before", cell.type), [Var("part", cell.type) for _ in parts]
    total = op(operator, before, _pairwise(operator, totals))
    gets = [Get(total, part) for total, part in zip(totals, parts, strict=True)]
    return [*gets, Get(before, cell), Set(cell, total)]


def _pairwise(operator: str, exprs: Sequence[Expr]) -> Expr:
    """All of `exprs` combined, so that none waits for many others."""
    if len(exprs) == 1:
        return exprs[0]
    half = len(exprs) // 2
    return op(operator, _pairwise(operator, exprs[:half]), _pairwise(operator, exprs[half:]))
