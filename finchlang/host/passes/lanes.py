"""Lanes: a loop that accumulates what it gathers takes LANES steps at a time, each into a sum of its
own, as long as there are so many; what is left, or a short loop, it takes step by step, or padded.

`x[idx[p]]` is what a processor takes longest for. LLVM would gather eight at a time with lanes left
out, which takes as long for one entry as for eight, and rows of a sparse matrix often have few. In a
long row, on the other hand, one sum would wait for each addition before the next.

Step by step is quickest where the processor foresees how many steps there are. If not, each row costs
a branch taken wrongly, 4 ns. So a nest that has met many rows, mostly of another length than the one
before, pads the short ones: the last step is taken again, without effect, until a group is full.

Times for y = A x by rows, as parts of what an expert's C takes, on a Zen 5: with LLVM's masked
gathers, with lanes but no padding, and as it is here.

    100,000 rows of 1 entry    5.8  1.07  1.11      100,000 rows of about 3     0.68  1.08  0.73
                   3 in band   3.1  1.01  1.15       30,000         about 3     0.56  1.06  0.77
                   5 in band   2.1  0.86  0.97       50,000         1 to 8      0.60  1.08  0.88
                  30 in band   5.8  0.92  0.90       10,000         about 100   1.9   1.00  1.00
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from finchlang.host.fold import ZERO, add, compare, const, op, sub
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
from finchlang.types import Int64

#: how many steps are taken at a time
LANES = 4

#: how many steps a loop has at most that is padded
PADDED = 8

#: By how much loops of another length than before must outnumber those of the same until short ones
#: are padded: so many lengths a processor remembers from one call to the next.
PATIENCE = 8192


def take_lanes(residual: Residual) -> Residual:
    """The program with lanes in its innermost counted loops that gather and do nothing but
    accumulate."""
    kept: list[Stmt] = []
    body = rebuild(residual.body, partial(_with_lanes, kept))
    return replace(residual, body=Code((*kept, *body.statements)))


def _with_lanes(kept: list[Stmt], statements: tuple[Stmt, ...]) -> list[Stmt]:
    """Statements, with lanes in the loops among them; `kept` takes what must be done at the beginning:
    the cells are set that loops keep from one time to the next."""
    result: list[Stmt] = []
    for statement in statements:
        found = _gathered(statement) if isinstance(statement, For) else []
        if found:
            assert isinstance(statement, For)
            result += _in_cells(statement, found, result, kept)
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


def _in_cells(
    loop: For, found: list[Accumulation], before: list[Stmt], kept: list[Stmt]
) -> list[Stmt]:
    """`loop` with all that it accumulates kept in cells, and in lanes. If the last use of the array
    entry among the statements `before` is to set it, that is not done: it is stored once."""
    cells = [f.before.cell if isinstance(f.before, Get) else Cell("sum", f.type) for f in found]
    statements = _in_lanes(loop, list(zip(found, cells, strict=True)), kept)
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


def _in_lanes(loop: For, sums: Sums, kept: list[Stmt]) -> list[Stmt]:
    """`loop`, which accumulates in cells, with LANES steps at a time; the rest one by one or padded."""
    before, patience = Cell("before", Int64), Cell("patience", Int64)
    kept += Set(before, ZERO), Set(patience, const(PATIENCE, Int64))
    count = sub(add(loop.stop, 1), loop.start)
    usual, left = Var("before", Int64), Var("patience", Int64)
    change = op("select", compare("eq", count, usual), const(1, Int64), const(-1, Int64))
    noted = Set(patience, add(left, change))

    def in_lanes() -> tuple[Set, If, Get, For]:
        begin, lanes, end = _apart(sums)
        step = lambda k, i: _step(loop, lanes[k], {loop.variable: i})  # noqa: E731
        return in_groups(loop, LANES, step, _step(loop, sums, {}), begin, end)

    start, groups, first, singly = in_lanes()
    # a loop of one step is over at once, and left out of the account
    groups = If(compare("gt", count, 1), Code((noted, groups)), Code(()))
    other, long, last, _ = in_lanes()
    long = replace(long, condition=compare("gt", count, PADDED))
    padded = (noted, other, long, last, *_padded(loop, last.variable, sums))
    return [
        Get(left, patience),
        Get(usual, before),
        Set(before, count),
        If(compare("lt", left, ZERO), Code(padded), Code((start, groups, first, singly))),
    ]


def _step(
    loop: For, sums: Sums, values: dict[Any, Any], condition: Expr | None = None
) -> list[Stmt]:
    """A step of `loop` that accumulates in these cells, with `values` in place of variables; without
    effect unless `condition`."""
    changes: dict[int, Stmt] = {}
    for found, cell in sums:
        value = found.after.value
        if condition is not None:
            value = op("select", condition, value, found.variable)
        changes[id(found.before)] = Get(found.variable, cell)
        changes[id(found.after)] = Set(cell, value)
    return instance((changes.get(id(s), s) for s in loop.body.statements), values)


def _padded(loop: For, first: Expr, sums: Sums) -> tuple[Stmt, ...]:
    """The steps of `loop` from `first` on, PADDED at most, in groups: in the last one the last step is
    taken again, without effect, as often as steps lack."""
    statements: tuple[Stmt, ...] = ()
    for group in reversed(range(0, PADDED, LANES)):
        begin, lanes, end = _apart(sums)
        start = add(first, group)
        steps = _step(loop, lanes[0], {loop.variable: start})
        for k, own in enumerate(lanes[1:], 1):
            is_there = compare("le", add(start, k), loop.stop)
            at = op("select", is_there, add(start, k), loop.stop)
            steps += _step(loop, own, {loop.variable: at}, is_there)
        whole = Code((*begin, *steps, *end, *statements))
        statements = (If(compare("le", start, loop.stop), whole, Code(())),)
    return statements


def _apart(sums: Sums) -> tuple[list[Stmt], list[Sums], list[Stmt]]:
    """For each lane the sums, those that are slow to accumulate in cells of its own; what is done
    before, and what is done afterwards."""
    begin: list[Stmt] = []
    end: list[Stmt] = []
    lanes: list[list[tuple[Accumulation, Cell]]] = [[] for _ in range(LANES)]
    for found, cell in sums:
        parts = [cell] * LANES
        if not found.is_quick:
            parts = [Cell(f"{cell}_{lane}", cell.type) for lane in range(LANES)]
            neutral = const(NEUTRAL[found.operator], cell.type)
            begin += [Set(part, neutral) for part in parts]
            end += _combined(found.operator, cell, parts)
        for own, part in zip(lanes, parts, strict=True):
            own.append((found, part))
    return begin, list(lanes), end


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
