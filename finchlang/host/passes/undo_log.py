"""The undo log: where a program stores to few entries of an array, each entry is noted before its first
change, so that a call that fails can put it back and the array need not be saved whole before.

An array with a log has three more buffers. `touched` has a byte for each entry, which says in which
call (`epoch`) the entry was last noted; so the next call has nothing to clear. `at` holds the number
of entries noted, then their positions, and `was` what was in them. An entry is noted once, so a log as
long as the array cannot be full; and what is noted stands together, so few pages of it are used.

Microseconds for adding to 10,000 entries at random of an array of 10^7 (and to 10^6 at random of 256):
without a log 38 (640), with it 159 (910), with blocks of 8 and of 64 entries noted at a time 236 and
536 (990 and 1000), with the array saved before 4075 (600).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from finchlang.host.fold import ZERO, add, compare, minimum, sub
from finchlang.host.ir import (
    Buffer,
    Call,
    Code,
    Const,
    Expr,
    Fill,
    For,
    Grow,
    If,
    Load,
    Op,
    Residual,
    Sort,
    SortBits,
    SortBy,
    Stmt,
    Store,
    Var,
    While,
)
from finchlang.host.noted import Log, UndoLog
from finchlang.host.walk import nested, rewrite, walk, written
from finchlang.types import Int64, UInt8


def with_undo_log(residual: Residual) -> tuple[Residual, UndoLog]:
    """The program with a log for each of its `scattered` buffers, and where the logs are."""
    chosen = scattered(residual)
    if not chosen:
        return residual, UndoLog()
    grown = {s.buffer for s in walk(residual.body) if isinstance(s, Grow)}
    buffers, inputs = list(residual.buffers), list(residual.inputs)
    epoch = Var("epoch", UInt8)
    inputs.append(epoch)
    writers: dict[Buffer, _Writer] = {}
    logs = []
    for array in chosen:
        writer = writers[array] = _Writer(array, epoch, array in grown)
        number = len(buffers)
        buffers += [writer.touched, writer.at, writer.was]
        size = None
        if writer.size is not None:
            size = len(inputs)
            inputs.append(writer.size)
        numbers = number, number + 1, number + 2
        logs.append(Log(residual.buffers.index(array), *numbers, size))

    def noted(statement: Stmt) -> list[Stmt]:
        if isinstance(statement, (Store, Fill)) and statement.buffer in writers:
            return [*writers[statement.buffer].before(statement), statement]
        return [statement]

    empty: list[Stmt] = [Store(writer.at, ZERO, ZERO) for writer in writers.values()]
    body = Code((*empty, *rewrite(residual.body, noted).statements))
    result = replace(residual, buffers=tuple(buffers), inputs=tuple(inputs), body=body)
    return result, UndoLog(tuple(logs), len(residual.inputs))


class _Writer:
    """What the log of `array` is written with."""

    def __init__(self, array: Buffer, epoch: Var, grows: bool):
        self.array, self.epoch = array, epoch
        self.touched = Buffer(f"{array}_touched", UInt8)
        self.at, self.was = Buffer(f"{array}_at", Int64), Buffer(f"{array}_was", array.type)
        self.size = Var(f"{array}_size", Int64) if grows else None

    def before(self, statement: Store | Fill) -> list[Stmt]:
        """Note what `statement` is about to change."""
        if isinstance(statement, Store):
            note = self._note(statement.index)
            if self.size is None:
                return note
            return [If(compare("lt", statement.index, self.size), Code(tuple(note)), Code(()))]
        stop = statement.stop if self.size is None else minimum(statement.stop, self.size)
        position = Var("position", Int64)
        return [For(position, statement.start, sub(stop, 1), Code(tuple(self._note(position))))]

    def _note(self, index: Expr) -> list[Stmt]:
        epoch, count = Var("touched", UInt8), Var("count", Int64)
        next_count, old = add(count, 1), Var("old", self.array.type)
        note = Code(
            (
                Store(self.touched, index, self.epoch),
                Load(count, self.at, ZERO),
                Store(self.at, ZERO, next_count),
                Store(self.at, next_count, index),
                Load(old, self.array, index),
                Store(self.was, count, old),
            )
        )
        is_new = compare("ne", epoch, self.epoch)
        return [Load(epoch, self.touched, index), If(is_new, note, Code(()))]


# --------------------------------------------------------------------------- which arrays have one


def scattered(residual: Residual) -> list[Buffer]:
    """The buffers that a log is for: those stored to in loops, neither appended to nor sorted nor
    filled there, of a program that goes over no whole dimension. One that does so in any case has as
    much to do anyway as to save arrays whole."""
    if any(isinstance(s, For) and _is_dimension(s, residual) for s in _certain(residual.body)):
        return []
    stored: set[Buffer] = set()
    others: set[Buffer] = set()

    def visit(code: Code, in_loop: bool, in_branch: bool) -> None:
        for statement in code.statements:
            match statement:
                case Store(buffer) if in_loop:
                    stored.add(buffer)
                case Grow(buffer) if in_loop:
                    others.add(buffer)
                case Sort() | SortBy() | SortBits() | Call():
                    others.update(written(statement))
                case Fill(buffer) if in_loop or not in_branch:  # else it is for memory that is new
                    others.add(buffer)
            is_loop = isinstance(statement, While) or (
                isinstance(statement, For) and not _is_constant(statement)
            )
            for inner in nested(statement):
                visit(inner, in_loop or is_loop, in_branch or isinstance(statement, If))

    visit(residual.body, False, False)
    return [buffer for buffer in residual.buffers if buffer in stored - others]


def _certain(code: Code) -> Iterator[Stmt]:
    """The statements of `code` that are in no branch."""
    for statement in code.statements:
        yield statement
        if not isinstance(statement, If):
            for inner in nested(statement):
                yield from _certain(inner)


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
