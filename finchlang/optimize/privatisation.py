"""Array privatisation: where a loop adds to entries of a small array at positions that depend on data,
neighbouring steps often meet at the same entry, and each would wait for the one before.

Four steps at a time then add to an array each: the array itself, and three of their own that are added
to it behind the loops. Where the array turns out to be large, the loops are left as they are.

Microseconds for a histogram with 16 bins of the 970,000 bytes in a disk of a photograph: 865 with one
array, 490 with two, 480 with four; an expert's C with four 440.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce

from finchlang.host import ir
from finchlang.host.construct import ZERO, compare, conjunction, const, op, sub
from finchlang.host.rewrite import indirect, instance, is_heavy, nested, rewrite, walk
from finchlang.host.rewrite import uses as uses_array
from finchlang.optimize.accumulation import uses
from finchlang.optimize.unroll import in_groups
from finchlang.syntax.types import Int64

#: How many steps are taken at a time, and arrays of how many entries are privatised.
STEPS, SMALL = 4, 256
#: the private arrays for each array, for all steps but the first of a group
Private = dict[ir.Buffer, list[ir.Buffer]]


def privatise(residual: ir.Residual) -> ir.Residual:
    """The program with private arrays for the `sums` of its outermost loops."""
    scratch: list[tuple[ir.Buffer, int]] = []

    def outermost(code: ir.Code) -> ir.Code:
        return ir.Code(tuple(new for s in code.statements for new in changed(s)))

    def changed(statement: ir.Stmt) -> list[ir.Stmt]:
        match statement:
            case ir.Branch(condition, then, otherwise):
                return [ir.Branch(condition, outermost(then), outermost(otherwise))]
            case ir.ForLoop() | ir.WhileLoop() if found := sums(statement):
                own = {b: [ir.Buffer(f"{b}_{k}", b.type) for k in range(1, STEPS)] for b in found}
                scratch.extend((part, SMALL) for parts in own.values() for part in parts)
                return _privatised(statement, set().union(*found.values()), own)
        return [statement]

    body = outermost(residual.body)
    return replace(residual, body=body, scratch=tuple(scratch)) if scratch else residual


def sums(loop: ir.Stmt) -> dict[ir.Buffer, set[int]]:
    """The arrays of integers of which `loop` uses an entry only to add to it, with those of its
    innermost counted loops (by id) that do so at positions which they have read."""
    statements = tuple(walk(ir.Code((loop,))))
    innermost = [s for s in statements if isinstance(s, ir.ForLoop) and not is_heavy(s.body)]
    scattered = {id(s): {a.buffer for a in indirect(s.body)} for s in innermost}
    stored = dict.fromkeys(s.buffer for s in statements if isinstance(s, ir.Store))
    found = {b: {k for k, own in scattered.items() if b in own} for b in stored}
    return {
        buffer: loops
        for buffer, loops in found.items()
        if loops and buffer.type.is_integer and _is_only_summed(loop, buffer)
    }


def _is_only_summed(loop: ir.Stmt, buffer: ir.Buffer) -> bool:
    """Whether all that `loop` does with `buffer` is `v = buffer[i]; t = v + e; buffer[i] = t`."""
    outer = ir.Code((loop,))
    codes = [code for s in walk(outer) for code in nested(s)]
    pairs = [pair for code in codes for pair in _pairs(code, buffer)]
    count = sum(uses_array(s, buffer) for s in walk(outer))
    return count == 2 * len(pairs) and all(_is_sum(outer, *pair) for pair in pairs)


def _pairs(code: ir.Code, buffer: ir.Buffer) -> Iterator[tuple[ir.Stmt, ir.Stmt]]:
    own = [s for s in code.statements if uses_array(s, buffer)]
    return zip(own[::2], own[1::2], strict=False)


def _is_sum(code: ir.Code, load: ir.Stmt, store: ir.Stmt) -> bool:
    match load, store:
        case ir.Load(entry, _, at), ir.Store(
            _, index, ir.Var(definition=ir.Op(name="add", args=args) as sum) as total
        ):
            is_once = uses(code, entry) == [sum] and uses(code, total) == [total]
            return index is at and entry in args and is_once
    return False


def _privatised(loop: ir.Stmt, innermost: set[int], own: Private) -> list[ir.Stmt]:
    """`loop`, with private arrays where all that it adds to turn out to be small."""
    rooms = {buffer: ir.Var("room", Int64) for buffer in own}
    is_small = conjunction(*(compare("le", room, SMALL) for room in rooms.values()))
    empty = [
        ir.Fill(part, ZERO, room, const(0, part.type))
        for buffer, room in rooms.items()
        for part in own[buffer]
    ]

    def grouped(statement: ir.Stmt) -> list[ir.Stmt]:
        if id(statement) not in innermost:
            return [statement]
        assert isinstance(statement, ir.ForLoop)
        variable, body = statement.variable, statement.body.statements

        def step(k: int, i: ir.Expr) -> list[ir.Stmt]:
            private = {buffer: parts[k - 1] for buffer, parts in own.items()} if k else {}
            return instance(body, {variable: i, **private})

        return list(in_groups(statement, STEPS, step, body))

    by_groups = instance(rewrite(ir.Code((loop,)), grouped).statements, {})
    added = [_added(buffer, own[buffer], room) for buffer, room in rooms.items()]
    return [
        *(ir.Room(room, buffer) for buffer, room in rooms.items()),
        ir.Branch(is_small, ir.Code((*empty, *by_groups, *added)), ir.Code((loop,))),
    ]


def _added(buffer: ir.Buffer, parts: list[ir.Buffer], room: ir.Expr) -> ir.ForLoop:
    """The entries of `parts` added to those of `buffer`."""
    i = ir.Var("i", Int64)
    loads = [ir.Load(ir.Var("entry", buffer.type), b, i) for b in (buffer, *parts)]
    entries: list[ir.Expr] = [load.variable for load in loads]
    total = reduce(lambda sum, entry: op("add", sum, entry), entries)
    return ir.ForLoop(i, ZERO, sub(room, 1), ir.Code((*loads, ir.Store(buffer, i, total))))
