"""Journals: where a kernel may visit few entries of an array, each store notes what it overwrites, so
that a call that fails can put that back, and the array need not be saved whole before each call.

For a buffer with a journal a kernel has two more: `at`, whose entry 0 says for how many stores there
is room (less than 0: nothing is noted), and `was`. A store puts its place and what was there into
the entries of that number, which then becomes one less. Once there is no room the kernel fails with
FULL, and is to be called again with the array saved whole.
"""

from __future__ import annotations

from dataclasses import replace

from finchlang.host.fold import ZERO, compare, sub
from finchlang.host.ir import (
    Buffer,
    Code,
    Const,
    Expr,
    Fail,
    Fill,
    For,
    Grow,
    If,
    Load,
    Op,
    Residual,
    Sort,
    Stmt,
    Store,
    Var,
    While,
)
from finchlang.host.walk import walk
from finchlang.types import Int64

#: the message of the failure that only says that a journal has no room left
FULL = "a journal is full"

#: the buffers `at` and `was`
Journal = tuple[Buffer, Buffer]


def with_journals(residual: Residual) -> tuple[Residual, dict[int, int]]:
    """The program with journals, and for each buffer that has one (by its number) the number of its
    `at`, right behind which is its `was`."""
    chosen = scattered(residual)
    journals = {b: (Buffer(f"{b}_at", Int64), Buffer(f"{b}_was", b.type)) for b in chosen}
    if not journals:
        return residual, {}
    places: dict[int, int] = {}
    buffers = list(residual.buffers)
    for buffer, journal in journals.items():
        places[residual.buffers.index(buffer)] = len(buffers)
        buffers += journal
    body = _noting(residual.body, journals)
    return replace(residual, buffers=tuple(buffers), body=body), places


def scattered(residual: Residual) -> list[Buffer]:
    """The buffers that a journal is for: those stored to in loops, neither appended to nor sorted nor
    filled, of a program that goes over no whole dimension. One that does has as much to do anyway
    as to save arrays whole, and much to do again if a journal turns out to be full."""
    if any(isinstance(s, For) and _is_dimension(s, residual) for s in walk(residual.body)):
        return []
    stored: set[Buffer] = set()
    others: set[Buffer] = set()

    def visit(code: Code, in_loop: bool = False, in_branch: bool = False) -> None:
        for statement in code.statements:
            match statement:
                case Store(buffer) if in_loop:
                    stored.add(buffer)
                case Grow(buffer) if in_loop:
                    others.add(buffer)
                case Sort(buffer):
                    others.add(buffer)
                case Fill(buffer) if in_loop or not in_branch:  # else it is for memory that is new
                    others.add(buffer)
                case If(_, then, otherwise):
                    visit(then, in_loop, True)
                    visit(otherwise, in_loop, True)
                case While(_, _, body):
                    visit(body, True, in_branch)
                case For(_, _, _, body):
                    visit(body, in_loop or not _is_constant(statement), in_branch)

    visit(residual.body)
    return [buffer for buffer in residual.buffers if buffer in stored - others]


def _is_dimension(loop: For, residual: Residual) -> bool:
    """Whether the loop's range depends on nothing but what the program is given."""

    def is_given(expr: Expr) -> bool:
        if isinstance(expr, Op):
            return all(map(is_given, expr.args))
        if isinstance(expr, Var) and expr.definition is not None:
            return is_given(expr.definition)
        return isinstance(expr, Const) or expr in residual.inputs

    return not _is_constant(loop) and is_given(loop.start) and is_given(loop.stop)


def _is_constant(loop: For) -> bool:
    return isinstance(loop.start, Const) and isinstance(loop.stop, Const)


def _noting(code: Code, journals: dict[Buffer, Journal]) -> Code:
    statements: list[Stmt] = []
    for statement in code.statements:
        match statement:
            case Store(buffer, index) if buffer in journals:
                statements += _note(buffer, index, *journals[buffer])
            case Fill(buffer) if buffer in journals:
                statements += _refuse(journals[buffer][0])
            case If(condition, then, otherwise):
                parts = _noting(then, journals), _noting(otherwise, journals)
                statement = If(condition, *parts)
            case While(test, condition, body):
                statement = While(test, condition, _noting(body, journals))
            case For(variable, start, stop, body):
                statement = For(variable, start, stop, _noting(body, journals))
        statements.append(statement)
    return Code(tuple(statements))


def _note(buffer: Buffer, index: Expr, at: Buffer, was: Buffer) -> list[Stmt]:
    """Note what is at `index`, or fail if there is no room."""
    room, old = Var("room", Int64), Var("old", buffer.type)
    note = Code(
        (
            Load(old, buffer, index),
            Store(was, room, old),
            Store(at, room, index),
            Store(at, ZERO, sub(room, 1)),
        )
    )
    is_full = If(compare("eq", room, 0), Code((Fail("resource", FULL, ()),)), Code(()))
    return [Load(room, at, ZERO), If(compare("gt", room, 0), note, Code((is_full,)))]


def _refuse(at: Buffer) -> list[Stmt]:
    """Fail if anything is to be noted: this is more than a journal is for."""
    room = Var("room", Int64)
    fail = Code((Fail("resource", FULL, ()),))
    return [Load(room, at, ZERO), If(compare("ge", room, 0), fail, Code(()))]
