"""Partial sums: a loop that accumulates gathered values takes LANES steps at a time, each into a sum of its
own, as long as there are that many; the remaining steps, and short loops, are taken one by one, or padded.

Most time goes into loads of `x[idx[p]]`. LLVM would gather eight at a time with lanes masked out, which
takes as long for one entry as for eight, and rows of a sparse matrix often have few. In a long row, on the
other hand, a single sum would wait for each addition before the next.

Step by step is quickest where the processor predicts the number of steps. If it does not, each row costs a
mispredicted branch, 4 ns. So a nest that has met many rows, mostly of another length than the one before,
pads the short ones: the last step is repeated, without effect, until a group is full.

Times for y = A x by rows, relative to an expert's C, on a Zen 5: with LLVM's masked gathers, with lanes but
no padding, and as it is here.

    100,000 rows of 1 entry    5.8  1.07  1.11      100,000 rows of about 3     0.68  1.08  0.73
                   3 in band   3.1  1.01  1.15       30,000         about 3     0.56  1.06  0.77
                   5 in band   2.1  0.86  0.97       50,000         1 to 8      0.60  1.08  0.88
                  30 in band   5.8  0.92  0.90       10,000         about 100   1.9   1.00  1.00
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from finchlang.host import ir, rewrite as rewriting
from finchlang.host.construct import ZERO, add, compare, const, op, sub
from finchlang.optimize import accumulation
from finchlang.optimize.accumulation import Moved, Reduction, read, write
from finchlang.syntax.types import Int64

#: how many steps are taken at a time
LANES = 4

#: how many steps a loop has at most that is padded
PADDED = 8

#: By how many more loops must differ in length from the one before than agree with it, until short ones are
#: padded: a processor remembers about that many lengths from one call to the next.
PATIENCE = 8192


def take_lanes(residual: ir.Residual) -> ir.Residual:
    """The program with lanes in its innermost counted loops that gather and do nothing but accumulate."""
    setup: list[ir.Stmt] = []
    body = rewriting.rebuild(residual.body, partial(_with_lanes, setup))
    return replace(residual, body=ir.Code((*setup, *body.statements)))


def _with_lanes(setup: list[ir.Stmt], statements: tuple[ir.Stmt, ...]) -> list[ir.Stmt]:
    """Statements, with lanes in the loops among them. `setup` is extended by statements for the beginning
    of the program: they set the cells that loops keep between their runs."""
    result: list[ir.Stmt] = []
    for statement in statements:
        if isinstance(statement, ir.ForLoop) and (found := _gathered(statement)):
            result += _in_cells(statement, found, result, setup)
        else:
            result.append(statement)
    return result


def _gathered(loop: ir.ForLoop) -> list[Reduction]:
    """The reductions of `loop` (in one array at most), if it does nothing else, and loads at positions that
    it has loaded; else none."""
    if loop.is_plain or not rewriting.is_straight(loop.body):
        return []
    if not any(isinstance(s, ir.Load) for s in rewriting.indirect(loop.body)):
        return []
    found = list(accumulation.directly_in(loop))
    writes = sum(isinstance(s, (ir.Store, ir.Set)) for s in loop.body.statements)
    in_arrays = sum(isinstance(f.before, ir.Load) for f in found)
    return found if len(found) == writes and in_arrays <= 1 else []


def _in_cells(
    loop: ir.ForLoop, found: list[Reduction], before: list[ir.Stmt], setup: list[ir.Stmt]
) -> list[ir.Stmt]:
    """`loop` in lanes, with all its sums in cells. Where the last of the statements `before` that uses the
    array entry sets it, that store is left out: the entry is stored once, afterwards."""
    cells = [f.place if isinstance(f.place, ir.Cell) else ir.Cell("sum", f.type) for f in found]
    statements = _in_lanes(loop, list(zip(found, cells, strict=True)), setup)
    for reduction, sum in zip(found, cells, strict=True):
        if isinstance(place := reduction.place, ir.Cell):
            continue
        result, entry = read(sum, "sum"), read(place, "entry")
        store = [result, write(place, result.variable)]
        uses = [s for s in before if rewriting.touches(s, place[0])]
        last = uses[-1] if uses else None
        if isinstance(last, ir.Store) and last.index is place[1]:
            before[:] = [s for s in before if s is not last]
            return [ir.Set(sum, last.value), *statements, *store]
        whole = ir.Code((entry, ir.Set(sum, entry.variable), *statements, *store))
        return [ir.Branch(compare("le", loop.start, loop.stop), whole)]
    return statements


def _in_lanes(loop: ir.ForLoop, sums: Moved, setup: list[ir.Stmt]) -> list[ir.Stmt]:
    """`loop`, which accumulates in cells, with LANES steps at a time; the rest one by one or padded.

    Padding pays where the length varies, since the processor then cannot predict the exit: `credit`
    gains one for a length equal to the last and loses one for another."""
    last_length, credit = ir.Cell("last_length", Int64), ir.Cell("credit", Int64)
    setup += ir.Set(last_length, ZERO), ir.Set(credit, const(PATIENCE, Int64))
    length = sub(add(loop.stop, 1), loop.start)
    seen, balance = ir.Var("last_length", Int64), ir.Var("credit", Int64)
    vote = op("select", compare("eq", length, seen), const(1, Int64), const(-1, Int64))
    record = ir.Set(credit, add(balance, vote))

    def in_lanes() -> tuple[ir.Set, ir.Branch, ir.Get, ir.ForLoop]:
        begin, lanes, end = _lanes(sums)
        step, single = lambda k, i: _step(loop, lanes[k], i), _step(loop, sums, loop.variable)
        return accumulation.in_groups(loop, LANES, step, single, begin, end)

    start, groups, first, singly = in_lanes()
    # a loop of one step has no exit to predict
    groups = ir.Branch(compare("gt", length, 1), ir.Code((record, groups)))
    one_by_one = ir.Code((start, groups, first, singly))
    start, groups, first, _ = in_lanes()
    groups = replace(groups, condition=compare("gt", length, PADDED))
    padded = ir.Code((record, start, groups, first, *_padded(loop, first.variable, sums)))
    return [
        ir.Get(balance, credit),
        ir.Get(seen, last_length),
        ir.Set(last_length, length),
        ir.Branch(compare("lt", balance, ZERO), padded, one_by_one),
    ]


def _step(
    loop: ir.ForLoop, sums: Moved, i: ir.Expr, condition: ir.Expr | None = None
) -> list[ir.Stmt]:
    """The step of `loop` at `i`, accumulating in these cells; with `condition` only where that holds."""
    statements = accumulation.moved(loop.body.statements, sums, condition)
    return rewriting.instance(statements, {loop.variable: i})


def _padded(loop: ir.ForLoop, first: ir.Expr, sums: Moved) -> tuple[ir.Stmt, ...]:
    """The steps of `loop` from `first` on, PADDED at most, in groups. The last group is filled up by
    repeating the last step without effect."""
    statements: tuple[ir.Stmt, ...] = ()
    for group in reversed(range(0, PADDED, LANES)):
        begin, lanes, end = _lanes(sums)
        start = add(first, group)
        steps = _step(loop, lanes[0], start)
        for k, own in enumerate(lanes[1:], 1):
            is_there = compare("le", add(start, k), loop.stop)
            steps += _step(loop, own, op("select", is_there, add(start, k), loop.stop), is_there)
        whole = ir.Code((*begin, *steps, *end, *statements))
        statements = (ir.Branch(compare("le", start, loop.stop), whole),)
    return statements


def _lanes(sums: Moved) -> tuple[list[ir.Stmt], list[Moved], list[ir.Stmt]]:
    """For each lane its sums, in cells of its own if they are slow to accumulate; and the statements before
    and after the lanes."""
    begin: list[ir.Stmt] = []
    end: list[ir.Stmt] = []
    lanes: list[list[tuple[Reduction, ir.Cell]]] = [[] for _ in range(LANES)]
    for found, cell in sums:
        parts = [cell] * LANES
        if not found.is_quick:
            parts = [ir.Cell(f"{cell}_{lane}", cell.type) for lane in range(LANES)]
            neutral = const(accumulation.NEUTRAL[found.operator], cell.type)
            begin += [ir.Set(part, neutral) for part in parts]
            end += accumulation.combined(found.operator, cell, parts)
        for own, part in zip(lanes, parts, strict=True):
            own.append((found, part))
    return begin, list(lanes), end
