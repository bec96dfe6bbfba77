"""Partial sums: a loop that accumulates gathered values takes LANES steps at a time, each into a sum of its
own, as long as there are that many; the remaining steps, and short loops, are taken one by one.

Most time goes into loads of `x[idx[p]]`. LLVM would gather eight at a time with lanes masked out, which
takes as long for one entry as for eight, and rows of a sparse matrix often have few. In a long row, on the
other hand, a single sum would wait for each addition before the next.

Times for y = A x by rows, relative to an expert's C, on a Zen 5: with LLVM's masked gathers, with lanes.

    100,000 rows of 1 entry    5.8  1.07      100,000 rows of about 3     0.68  1.08
                   3 in band   3.1  1.01       30,000         about 3     0.56  1.06
                   5 in band   2.1  0.86       50,000         1 to 8      0.60  1.08
                  30 in band   5.8  0.92       10,000         about 100   1.9   1.00
"""

from __future__ import annotations

from dataclasses import replace

from finchlang.host import ir, rewrite as rewriting
from finchlang.host.construct import compare, const
from finchlang.optimize import accumulation
from finchlang.optimize.accumulation import Moved, Reduction, moved, read, write

#: how many steps are taken at a time
LANES = 4


def take_lanes(residual: ir.Residual) -> ir.Residual:
    """The program with lanes in its innermost counted loops that gather and do nothing but accumulate."""
    return replace(residual, body=rewriting.rewrite(residual.body, _with_lanes))


def _with_lanes(statement: ir.Stmt) -> list[ir.Stmt]:
    found = _gathered(statement) if isinstance(statement, ir.ForLoop) else []
    return _in_cells(statement, found) if found else [statement]  # type: ignore[arg-type]


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


def _in_cells(loop: ir.ForLoop, found: list[Reduction]) -> list[ir.Stmt]:
    """`loop` in lanes, with all its sums in cells; an array entry is stored once, afterwards."""
    cells = [f.place if isinstance(f.place, ir.Cell) else ir.Cell("sum", f.type) for f in found]
    statements = _in_lanes(loop, list(zip(found, cells, strict=True)))
    for reduction, sum in zip(found, cells, strict=True):
        if isinstance(place := reduction.place, ir.Cell):
            continue
        result, entry = read(sum, "sum"), read(place, "entry")
        store = [result, write(place, result.variable)]
        whole = ir.Code((entry, ir.Set(sum, entry.variable), *statements, *store))
        return [ir.Branch(compare("le", loop.start, loop.stop), whole)]
    return statements


def _in_lanes(loop: ir.ForLoop, sums: Moved) -> list[ir.Stmt]:
    """`loop`, which accumulates in cells, with LANES steps at a time; the rest one by one."""
    begin, lanes, end = _lanes(sums)

    def step(k: int, i: ir.Expr) -> list[ir.Stmt]:
        return rewriting.instance(moved(loop.body.statements, lanes[k]), {loop.variable: i})

    single = rewriting.instance(moved(loop.body.statements, sums), {})
    return list(accumulation.in_groups(loop, LANES, step, single, begin, end))


def _lanes(sums: Moved) -> tuple[list[ir.Stmt], list[Moved], list[ir.Stmt]]:
    """For each lane its sums, in cells of its own; and the statements before and after the lanes."""
    begin: list[ir.Stmt] = []
    end: list[ir.Stmt] = []
    lanes: list[list[tuple[Reduction, ir.Cell]]] = [[] for _ in range(LANES)]
    for found, cell in sums:
        parts = [ir.Cell(f"{cell}_{lane}", cell.type) for lane in range(LANES)]
        neutral = const(accumulation.NEUTRAL[found.operator], cell.type)
        begin += [ir.Set(part, neutral) for part in parts]
        end += accumulation.combined(found.operator, cell, parts)
        for own, part in zip(lanes, parts, strict=True):
            own.append((found, part))
    return begin, list(lanes), end
