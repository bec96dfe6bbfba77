"""A fill goes into the loops behind it that come to each of its entries once, in order, and meanwhile use
no other entry: LLVM drops it where the entry is stored anyway, and knows its value where it is read.

Logarithms of 1,000,000 numbers take .88 of the time, changes of their sign .8.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from finchlang.host import ir, rewrite as rewriting
from finchlang.host.construct import ONE, ZERO, add, mul, op, sub

Fills = dict[ir.Buffer, ir.Fill]


def put_fills_in_loops(residual: ir.Residual) -> ir.Residual:
    """The program with such fills moved into the innermost of their loops."""
    return replace(residual, body=rewriting.rebuild(residual.body, _moved))


def _moved(statements: tuple[ir.Stmt, ...]) -> list[ir.Stmt]:
    made: dict[int, ir.Stmt] = {}
    fills: dict[ir.Buffer, int] = {}  # the numbers of those whose arrays are not used since
    for number, statement in enumerate(statements):
        used = rewriting.buffers_of(ir.Code((statement,))) if fills else ()
        found = {b: fills.pop(b) for b in used if b in fills}
        left: Fills = {b: made[n] for b, n in found.items()}  # type: ignore[misc]
        made[number] = _holding(left, statement, ZERO, ONE)
        for buffer in found.keys() - left.keys():
            del made[found[buffer]]
        if isinstance(statement, ir.Fill) and statement.start is ZERO:
            fills[statement.buffer] = number
    return [*made.values()]


def _holding(fills: Fills, loop: ir.Stmt, at: ir.Expr, count: ir.Expr) -> ir.Stmt:
    """The loop, at position `at` of `count` by the loops around, with those of the fills in it that may be,
    which are taken out of the dictionary."""
    if not fills or not isinstance(loop, ir.ForLoop) or loop.start is not ONE:
        return loop
    size, parts = _known(loop.stop, {}), [*loop.body.statements]
    at, count = add(mul(at, size), sub(loop.variable, ONE)), mul(count, size)
    uses: dict[ir.Buffer, list[ir.Stmt]] = defaultdict(list)
    within: dict[ir.Buffer, set[int]] = defaultdict(set)
    for number, part in enumerate(parts):
        for statement in rewriting.walk(ir.Code((part,))):
            for buffer in rewriting.arrays(statement):
                uses[buffer].append(statement)
                within[buffer].add(number)
    stores, inner = list[ir.Stmt](), defaultdict[int, Fills](dict)
    for buffer, fill in [*fills.items()]:
        if not all(isinstance(s, (ir.Load, ir.Store)) and s.index is at for s in uses[buffer]):
            if len(within[buffer]) == 1:
                inner[min(within[buffer])][buffer] = fills.pop(buffer)
        elif count is _known(fill.stop, {}):
            stores.append(ir.Store(buffer, at, fills.pop(buffer).value))
    for number, own in inner.items():
        parts[number] = _holding(own, parts[number], at, count)
        fills |= own
    return replace(loop, body=ir.Code((*stores, *parts)))


def _known(expr: ir.Expr, known: dict[ir.Expr, ir.Expr]) -> ir.Expr:
    """The expression with the definitions of variables in their place."""
    if isinstance(expr, ir.Var) and expr.definition is not None:
        return _known(expr.definition, known)
    if isinstance(expr, ir.Op) and expr not in known:
        known[expr] = op(expr.name, *(_known(arg, known) for arg in expr.args), type=expr.type)
    return known.get(expr, expr)
