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

from finchlang.host.fold import ZERO, compare, conjunction, const, op, sub
from finchlang.host.ir import (
    Buffer,
    Code,
    Expr,
    Fill,
    For,
    If,
    Load,
    Op,
    Residual,
    Room,
    Stmt,
    Store,
    Var,
    While,
)
from finchlang.host.passes.accumulation import uses
from finchlang.host.passes.groups import in_groups
from finchlang.host.walk import indirect, instance, is_heavy, nested, rewrite, walk
from finchlang.host.walk import uses as uses_array
from finchlang.types import Int64

#: How many steps are taken at a time, and arrays of how many entries are privatised.
STEPS, SMALL = 4, 256
#: the private arrays for each array, for all steps but the first of a group
Private = dict[Buffer, list[Buffer]]


def privatise(residual: Residual) -> Residual:
    """The program with private arrays for the `sums` of its outermost loops."""
    scratch: list[tuple[Buffer, int]] = []

    def outermost(code: Code) -> Code:
        return Code(tuple(new for s in code.statements for new in changed(s)))

    def changed(statement: Stmt) -> list[Stmt]:
        match statement:
            case If(condition, then, otherwise):
                return [If(condition, outermost(then), outermost(otherwise))]
            case For() | While() if found := sums(statement):
                own = {b: [Buffer(f"{b}_{k}", b.type) for k in range(1, STEPS)] for b in found}
                scratch.extend((part, SMALL) for parts in own.values() for part in parts)
                return _privatised(statement, set().union(*found.values()), own)
        return [statement]

    body = outermost(residual.body)
    return replace(residual, body=body, scratch=tuple(scratch)) if scratch else residual


def sums(loop: Stmt) -> dict[Buffer, set[int]]:
    """The arrays of integers of which `loop` uses an entry only to add to it, with those of its
    innermost counted loops (by id) that do so at positions which they have read."""
    statements = tuple(walk(Code((loop,))))
    innermost = [s for s in statements if isinstance(s, For) and not is_heavy(s.body)]
    scattered = {id(s): {a.buffer for a in indirect(s.body)} for s in innermost}
    stored = dict.fromkeys(s.buffer for s in statements if isinstance(s, Store))
    found = {b: {k for k, own in scattered.items() if b in own} for b in stored}
    return {
        buffer: loops
        for buffer, loops in found.items()
        if loops and buffer.type.is_integer and _is_only_summed(loop, buffer)
    }


def _is_only_summed(loop: Stmt, buffer: Buffer) -> bool:
    """Whether all that `loop` does with `buffer` is `v = buffer[i]; t = v + e; buffer[i] = t`."""
    outer = Code((loop,))
    codes = [code for s in walk(outer) for code in nested(s)]
    pairs = [pair for code in codes for pair in _pairs(code, buffer)]
    count = sum(uses_array(s, buffer) for s in walk(outer))
    return count == 2 * len(pairs) and all(_is_sum(outer, *pair) for pair in pairs)


def _pairs(code: Code, buffer: Buffer) -> Iterator[tuple[Stmt, Stmt]]:
    own = [s for s in code.statements if uses_array(s, buffer)]
    return zip(own[::2], own[1::2], strict=False)


def _is_sum(code: Code, load: Stmt, store: Stmt) -> bool:
    match load, store:
        case Load(entry, _, at), Store(
            _, index, Var(definition=Op(name="add", args=args) as sum) as total
        ):
            is_once = uses(code, entry) == [sum] and uses(code, total) == [total]
            return index is at and entry in args and is_once
    return False


def _privatised(loop: Stmt, innermost: set[int], own: Private) -> list[Stmt]:
    """`loop`, with private arrays where all that it adds to turn out to be small."""
    rooms = {buffer: Var("room", Int64) for buffer in own}
    is_small = conjunction(*(compare("le", room, SMALL) for room in rooms.values()))
    empty = [
        Fill(part, ZERO, room, const(0, part.type))
        for buffer, room in rooms.items()
        for part in own[buffer]
    ]

    def grouped(statement: Stmt) -> list[Stmt]:
        if id(statement) not in innermost:
            return [statement]
        assert isinstance(statement, For)
        variable, body = statement.variable, statement.body.statements

        def step(k: int, i: Expr) -> list[Stmt]:
            private = {buffer: parts[k - 1] for buffer, parts in own.items()} if k else {}
            return instance(body, {variable: i, **private})

        return list(in_groups(statement, STEPS, step, body))

    by_groups = instance(rewrite(Code((loop,)), grouped).statements, {})
    added = [_added(buffer, own[buffer], room) for buffer, room in rooms.items()]
    return [
        *(Room(room, buffer) for buffer, room in rooms.items()),
        If(is_small, Code((*empty, *by_groups, *added)), Code((loop,))),
    ]


def _added(buffer: Buffer, parts: list[Buffer], room: Expr) -> For:
    """The entries of `parts` added to those of `buffer`."""
    i = Var("i", Int64)
    loads = [Load(Var("entry", buffer.type), b, i) for b in (buffer, *parts)]
    entries: list[Expr] = [load.variable for load in loads]
    total = reduce(lambda sum, entry: op("add", sum, entry), entries)
    return For(i, ZERO, sub(room, 1), Code((*loads, Store(buffer, i, total))))
