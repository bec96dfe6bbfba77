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

from finchlang.host import ir
from finchlang.host.construct import ZERO, add, compare, const, op, sub
from finchlang.host.rewrite import indirect, instance, rebuild, touches
from finchlang.optimize.accumulation import NEUTRAL, Accumulation, accumulations
from finchlang.optimize.unroll import in_groups
from finchlang.syntax.types import Int64

#: how many steps are taken at a time
LANES = 4

#: how many steps a loop has at most that is padded
PADDED = 8

#: By how much loops of another length than before must outnumber those of the same until short ones
#: are padded: so many lengths a processor remembers from one call to the next.
PATIENCE = 8192


def take_lanes(residual: ir.Residual) -> ir.Residual:
    """The program with lanes in its innermost counted loops that gather and do nothing but
    accumulate."""
    kept: list[ir.Stmt] = []
    body = rebuild(residual.body, partial(_with_lanes, kept))
    return replace(residual, body=ir.Code((*kept, *body.statements)))


def _with_lanes(kept: list[ir.Stmt], statements: tuple[ir.Stmt, ...]) -> list[ir.Stmt]:
    """Statements, with lanes in the loops among them; `kept` takes what must be done at the beginning:
    the cells are set that loops keep from one time to the next."""
    result: list[ir.Stmt] = []
    for statement in statements:
        found = _gathered(statement) if isinstance(statement, ir.ForLoop) else []
        if found:
            assert isinstance(statement, ir.ForLoop)
            result += _in_cells(statement, found, result, kept)
        else:
            result.append(statement)
    return result


def _gathered(loop: ir.ForLoop) -> list[Accumulation]:
    """What `loop` accumulates (in one array at most), if it does nothing else, and loads at positions
    that it has loaded."""
    statements = loop.body.statements
    if loop.is_plain or not all(
        isinstance(s, (ir.Bind, ir.Load, ir.Store, ir.Get, ir.Set)) for s in statements
    ):
        return []
    if not any(isinstance(s, ir.Load) for s in indirect(loop.body)):
        return []
    found = list(accumulations(loop))
    writes = sum(isinstance(s, (ir.Store, ir.Set)) for s in statements)
    in_arrays = sum(isinstance(f.before, ir.Load) for f in found)
    return found if len(found) == writes and in_arrays <= 1 else []


def _in_cells(
    loop: ir.ForLoop, found: list[Accumulation], before: list[ir.Stmt], kept: list[ir.Stmt]
) -> list[ir.Stmt]:
    """`loop` with all that it accumulates kept in cells, and in lanes. If the last use of the array
    entry among the statements `before` is to set it, that is not done: it is stored once."""
    cells = [
        f.before.cell if isinstance(f.before, ir.Get) else ir.Cell("sum", f.type) for f in found
    ]
    statements = _in_lanes(loop, list(zip(found, cells, strict=True)), kept)
    of_array = next((k for k, f in enumerate(found) if isinstance(f.before, ir.Load)), None)
    if of_array is None:
        return statements
    read, write, sum = found[of_array].before, found[of_array].after, cells[of_array]
    assert isinstance(read, ir.Load) and isinstance(write, ir.Store)
    result = ir.Var("sum", sum.type)
    store = [ir.Get(result, sum), ir.Store(write.buffer, write.index, result)]
    uses = [s for s in before if touches(s, read.buffer)]
    last = uses[-1] if uses else None
    if isinstance(last, ir.Store) and last.index is write.index:
        before[:] = [s for s in before if s is not last]
        return [ir.Set(sum, last.value), *statements, *store]
    entry = ir.Var("entry", sum.type)
    load = [ir.Load(entry, read.buffer, read.index), ir.Set(sum, entry)]
    is_entered = compare("le", loop.start, loop.stop)
    return [ir.Branch(is_entered, ir.Code((*load, *statements, *store)), ir.Code(()))]


#: accumulations, each with the cell that it is to be in
Sums = Sequence[tuple[Accumulation, ir.Cell]]


def _in_lanes(loop: ir.ForLoop, sums: Sums, kept: list[ir.Stmt]) -> list[ir.Stmt]:
    """`loop`, which accumulates in cells, with LANES steps at a time; the rest one by one or padded."""
    before, patience = ir.Cell("before", Int64), ir.Cell("patience", Int64)
    kept += ir.Set(before, ZERO), ir.Set(patience, const(PATIENCE, Int64))
    count = sub(add(loop.stop, 1), loop.start)
    usual, left = ir.Var("before", Int64), ir.Var("patience", Int64)
    change = op("select", compare("eq", count, usual), const(1, Int64), const(-1, Int64))
    noted = ir.Set(patience, add(left, change))

    def in_lanes() -> tuple[ir.Set, ir.Branch, ir.Get, ir.ForLoop]:
        begin, lanes, end = _apart(sums)
        step = lambda k, i: _step(loop, lanes[k], {loop.variable: i})  # noqa: E731
        return in_groups(loop, LANES, step, _step(loop, sums, {}), begin, end)

    start, groups, first, singly = in_lanes()
    # a loop of one step is over at once, and left out of the account
    groups = ir.Branch(compare("gt", count, 1), ir.Code((noted, groups)), ir.Code(()))
    other, long, last, _ = in_lanes()
    long = replace(long, condition=compare("gt", count, PADDED))
    padded = (noted, other, long, last, *_padded(loop, last.variable, sums))
    return [
        ir.Get(left, patience),
        ir.Get(usual, before),
        ir.Set(before, count),
        ir.Branch(
            compare("lt", left, ZERO), ir.Code(padded), ir.Code((start, groups, first, singly))
        ),
    ]


def _step(
    loop: ir.ForLoop, sums: Sums, values: dict[Any, Any], condition: ir.Expr | None = None
) -> list[ir.Stmt]:
    """A step of `loop` that accumulates in these cells, with `values` in place of variables; without
    effect unless `condition`."""
    changes: dict[int, ir.Stmt] = {}
    for found, cell in sums:
        value = found.after.value
        if condition is not None:
            value = op("select", condition, value, found.variable)
        changes[id(found.before)] = ir.Get(found.variable, cell)
        changes[id(found.after)] = ir.Set(cell, value)
    return instance((changes.get(id(s), s) for s in loop.body.statements), values)


def _padded(loop: ir.ForLoop, first: ir.Expr, sums: Sums) -> tuple[ir.Stmt, ...]:
    """The steps of `loop` from `first` on, PADDED at most, in groups: in the last one the last step is
    taken again, without effect, as often as steps lack."""
    statements: tuple[ir.Stmt, ...] = ()
    for group in reversed(range(0, PADDED, LANES)):
        begin, lanes, end = _apart(sums)
        start = add(first, group)
        steps = _step(loop, lanes[0], {loop.variable: start})
        for k, own in enumerate(lanes[1:], 1):
            is_there = compare("le", add(start, k), loop.stop)
            at = op("select", is_there, add(start, k), loop.stop)
            steps += _step(loop, own, {loop.variable: at}, is_there)
        whole = ir.Code((*begin, *steps, *end, *statements))
        statements = (ir.Branch(compare("le", start, loop.stop), whole, ir.Code(())),)
    return statements


def _apart(sums: Sums) -> tuple[list[ir.Stmt], list[Sums], list[ir.Stmt]]:
    """For each lane the sums, those that are slow to accumulate in cells of its own; what is done
    before, and what is done afterwards."""
    begin: list[ir.Stmt] = []
    end: list[ir.Stmt] = []
    lanes: list[list[tuple[Accumulation, ir.Cell]]] = [[] for _ in range(LANES)]
    for found, cell in sums:
        parts = [cell] * LANES
        if not found.is_quick:
            parts = [ir.Cell(f"{cell}_{lane}", cell.type) for lane in range(LANES)]
            neutral = const(NEUTRAL[found.operator], cell.type)
            begin += [ir.Set(part, neutral) for part in parts]
            end += _combined(found.operator, cell, parts)
        for own, part in zip(lanes, parts, strict=True):
            own.append((found, part))
    return begin, list(lanes), end


def _combined(operator: str, cell: ir.Cell, parts: Sequence[ir.Cell]) -> list[ir.Stmt]:
    """`cell` with its parts."""
    before, totals = ir.Var("before", cell.type), [ir.Var("part", cell.type) for _ in parts]
    total = op(operator, before, _pairwise(operator, totals))
    gets = [ir.Get(total, part) for total, part in zip(totals, parts, strict=True)]
    return [*gets, ir.Get(before, cell), ir.Set(cell, total)]


def _pairwise(operator: str, exprs: Sequence[ir.Expr]) -> ir.Expr:
    """All of `exprs` combined, so that none waits for many others."""
    if len(exprs) == 1:
        return exprs[0]
    half = len(exprs) // 2
    return op(operator, _pairwise(operator, exprs[:half]), _pairwise(operator, exprs[half:]))
