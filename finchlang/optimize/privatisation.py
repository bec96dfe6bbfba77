"""Array privatisation: where a loop adds to entries of a small array at positions that depend on data,
neighbouring steps often meet at the same entry, and each would wait for the one before.

Four steps at a time then add to an array each: the array itself and three private ones, which are added to
it after the loops. Where the array turns out to be large at run time, the loops are left as they are.

Microseconds for a histogram with 16 bins of the 970,000 bytes in a disk of a photograph: 865 with one
array, 490 with two, 480 with four; an expert's C with four 440.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from finchlang.host import ir, rewrite as rewriting
from finchlang.host.construct import ZERO, add, compare, conjunction, const, mul, op, sub
from finchlang.optimize.accumulation import NEUTRAL, Uses, combined
from finchlang.syntax.types import Int64

#: how many steps are taken at a time (a power of 2), and up to how many entries an array is privatised
STEPS, SMALL = 4, 256
#: the operator whose reductions are privatised
OPERATOR = "add"
#: the private arrays for each array, for all steps but the first of a group
Private = dict[ir.Buffer, list[ir.Buffer]]


def privatise(residual: ir.Residual) -> ir.Residual:
    """The program with private arrays for what `sums` finds in its outermost loops."""
    scratch: list[tuple[ir.Buffer, int]] = []

    def outermost(code: ir.Code) -> ir.Code:
        return ir.Code(tuple(new for s in code.statements for new in changed(s)))

    def changed(statement: ir.Stmt) -> list[ir.Stmt]:
        match statement:
            case ir.Branch(_, then, otherwise):
                return [replace(statement, then=outermost(then), otherwise=outermost(otherwise))]
            case ir.ForLoop() | ir.WhileLoop() if found := sums(statement):
                own = {b: [ir.Buffer(f"{b}_{k}", b.type) for k in range(1, STEPS)] for b in found}
                scratch.extend((part, SMALL) for parts in own.values() for part in parts)
                return _privatised(statement, set().union(*found.values()), own)
        return [statement]

    body = outermost(residual.body)
    return replace(residual, body=body, scratch=tuple(scratch)) if scratch else residual


def sums(loop: ir.Stmt) -> dict[ir.Buffer, set[int]]:
    """The arrays of integers that `loop` uses for nothing but adding to an entry, each with the innermost
    counted loops (by id) that do so at positions which they have read."""
    innermost = [s for s in rewriting.walk(ir.Code((loop,))) if isinstance(s, ir.ForLoop)]
    innermost = [s for s in innermost if not rewriting.is_heavy(s.body)]
    scattered = {id(s): {a.buffer for a in rewriting.indirect(s.body)} for s in innermost}
    found: dict[ir.Buffer, set[int]] = {}
    if not any(scattered.values()):
        return found
    uses = Uses(loop)
    for buffer in uses.users:
        loops = {k for k, own in scattered.items() if buffer in own}
        if loops and buffer.type.is_integer:
            own = uses.reductions(buffer) or []
            # Counters of levels are left out, which bind no variable for the sum: their loops are compiled
            # far more often than they take long.
            are_sums = [r.operator == OPERATOR and isinstance(r.after.value, ir.Var) for r in own]
            if own and all(are_sums):
                found[buffer] = loops
    return found


def _privatised(loop: ir.Stmt, innermost: set[int], own: Private) -> list[ir.Stmt]:
    """`loop`, with private arrays if all arrays that it adds to are small at run time."""
    rooms = {buffer: ir.Var("room", Int64) for buffer in own}
    is_small = conjunction(*(compare("le", room, SMALL) for room in rooms.values()))
    parts = [(part, room) for buffer, room in rooms.items() for part in own[buffer]]
    empty = [ir.Fill(p, ZERO, room, const(NEUTRAL[OPERATOR], p.type)) for p, room in parts]

    def grouped(statement: ir.Stmt) -> list[ir.Stmt]:
        return _in_groups(statement, own) if id(statement) in innermost else [statement]

    by_groups = rewriting.instance(rewriting.rewrite(ir.Code((loop,)), grouped).statements, {})
    added = [_added(buffer, own[buffer], room) for buffer, room in rooms.items()]
    return [
        *(ir.Room(room, buffer) for buffer, room in rooms.items()),
        ir.Branch(is_small, ir.Code((*empty, *by_groups, *added)), ir.Code((loop,))),
    ]


def _added(buffer: ir.Buffer, parts: list[ir.Buffer], room: ir.Expr) -> ir.ForLoop:
    i = ir.Var("i", Int64)
    reads = [ir.Load(ir.Var("part", part.type), part, i) for part in parts]
    body = combined(OPERATOR, (buffer, i), reads)
    return ir.ForLoop(i, ZERO, sub(room, 1), ir.Code(tuple(body)))


def _in_groups(loop: Any, own: Private) -> list[ir.Stmt]:
    """A counted loop in groups of STEPS steps, each with its private arrays; the rest one by one."""
    rest, first = ir.Cell("rest", Int64), ir.Var("first", Int64)
    groups, group = ir.Var("groups", Int64), ir.Var("group", Int64)
    count = sub(add(loop.stop, 1), loop.start)
    low, body = add(loop.start, mul(group, STEPS)), loop.body.statements
    steps: list[ir.Stmt] = []
    for k in range(STEPS):
        private = {buffer: parts[k - 1] for buffer, parts in own.items()} if k else {}
        steps += rewriting.instance(body, {loop.variable: add(low, k), **private})
    whole = (
        ir.Bind(groups, op("shr", count, STEPS.bit_length() - 1)),
        ir.ForLoop(group, ZERO, sub(groups, 1), ir.Code(tuple(steps)), is_plain=True),
        ir.Set(rest, add(loop.start, mul(groups, STEPS))),
    )
    return [
        ir.Set(rest, loop.start),
        ir.Branch(compare("ge", count, STEPS), ir.Code(whole)),
        ir.Get(first, rest),
        replace(loop, start=first, body=ir.Code(tuple(body)), is_plain=True),
    ]
