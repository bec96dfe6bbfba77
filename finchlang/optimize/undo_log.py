"""The undo log: where a program stores to few entries of an array, each entry is noted before its first
change, so that a call that fails can put it back and the array need not be saved whole before.

An array with a log has three more buffers. `touched` has a byte for each entry, which says in which
call (`epoch`) the entry was last noted; so the next call has nothing to clear. `at` holds the number
of entries noted, then their positions, and `was` their old values. An entry is noted once, so a log as
long as the array cannot be full; and what is noted stands together, so few pages of it are used.

Microseconds for adding to 10,000 entries at random of an array of 10^7 (and to 10^6 at random of 256):
without a log 38 (640), with it 159 (910), with blocks of 8 and of 64 entries noted at a time 236 and
536 (990 and 1000), with the array saved before 4075 (600).
"""

from __future__ import annotations

from dataclasses import replace

from finchlang.host import ir, rewrite as rewriting
from finchlang.host.construct import ZERO, add, compare, minimum, sub
from finchlang.host.noted import Log, UndoLog
from finchlang.host.writing import WritingHost
from finchlang.syntax.types import Int64, UInt8


def with_undo_log(residual: ir.Residual) -> tuple[ir.Residual, UndoLog]:
    """The program with a log for each of the buffers that `scattered` finds, and where the logs are."""
    chosen = scattered(residual)
    if not chosen:
        return residual, UndoLog()
    grown = {s.buffer for s in rewriting.walk(residual.body) if isinstance(s, ir.Grow)}
    buffers, inputs = list(residual.buffers), list(residual.inputs)
    epoch = ir.Var("epoch", UInt8)
    inputs.append(epoch)
    writers: dict[ir.Buffer, _LogWriter] = {}
    logs = []
    for array in chosen:
        writer = writers[array] = _LogWriter(array, epoch, array in grown)
        number = len(buffers)
        buffers += [writer.touched, writer.at, writer.was]
        size = None
        if writer.size is not None:
            size = len(inputs)
            inputs.append(writer.size)
        numbers = number, number + 1, number + 2
        logs.append(Log(residual.buffers.index(array), *numbers, size))

    def noted(statement: ir.Stmt) -> list[ir.Stmt]:
        if isinstance(statement, (ir.Store, ir.Fill)) and statement.buffer in writers:
            return [*writers[statement.buffer].before(statement), statement]
        return [statement]

    empty: list[ir.Stmt] = [ir.Store(writer.at, ZERO, ZERO) for writer in writers.values()]
    body = ir.Code((*empty, *rewriting.rewrite(residual.body, noted).statements))
    result = replace(residual, buffers=tuple(buffers), inputs=tuple(inputs), body=body)
    return result, UndoLog(tuple(logs), len(residual.inputs))


class _LogWriter:
    def __init__(self, array: ir.Buffer, epoch: ir.Var, grows: bool):
        self.array, self.epoch = array, epoch
        self.touched = ir.Buffer(f"{array}_touched", UInt8)
        self.at, self.was = ir.Buffer(f"{array}_at", Int64), ir.Buffer(f"{array}_was", array.type)
        self.size = ir.Var(f"{array}_size", Int64) if grows else None

    def before(self, statement: ir.Store | ir.Fill) -> tuple[ir.Stmt, ...]:
        host = WritingHost()
        if isinstance(statement, ir.Fill):
            stop = statement.stop if self.size is None else minimum(statement.stop, self.size)
            with host.each(statement.start, sub(stop, 1), "position") as position:
                self._note(host, position)
        elif self.size is None:
            self._note(host, statement.index)
        else:
            with host.when(compare("lt", statement.index, self.size)):
                self._note(host, statement.index)
        return host.code().statements

    def _note(self, host: WritingHost, index: ir.Expr) -> None:
        epoch = host.load(self.touched, index, "touched")
        is_new = compare("ne", epoch, self.epoch)
        with host.when(is_new):
            host.store(self.touched, index, self.epoch)
            count = host.load(self.at, ZERO, "count")
            host.store(self.at, ZERO, add(count, 1))
            host.store(self.at, add(count, 1), index)
            host.store(self.was, count, host.load(self.array, index, "old"))


# --------------------------------------------------------------------------- which arrays have one


def scattered(residual: ir.Residual) -> list[ir.Buffer]:
    """The buffers that get a log: those stored to in loops, but not appended to, sorted or filled there;
    and only in a program without a loop over a whole dimension outside of branches. Such a loop takes as
    long as saving arrays whole."""
    scopes = list(rewriting.scoped(residual.body))
    for statement, around in scopes:
        is_certain = not any(isinstance(s, ir.Branch) for s in around)
        if is_certain and isinstance(statement, ir.ForLoop) and _is_dimension(statement, residual):
            return []
    stored: set[ir.Buffer] = set()
    others: set[ir.Buffer] = set()
    for statement, around in scopes:
        loops = [s for s in around if isinstance(s, (ir.WhileLoop, ir.ForLoop))]
        in_loop = not all(map(_is_constant, loops))
        match statement:
            case ir.Store(buffer) if in_loop:
                stored.add(buffer)
            case ir.Grow(buffer) if in_loop:
                others.add(buffer)
            case ir.Sort() | ir.SortBits() | ir.CallProcedure() | ir.Exchange():
                others.update(rewriting.written(statement))
            # a fill in a branch outside of loops is that of new memory
            case ir.Fill(buffer) if in_loop or len(loops) == len(around):
                others.add(buffer)
    return [buffer for buffer in residual.buffers if buffer in stored - others]


def _is_dimension(loop: ir.ForLoop, residual: ir.Residual) -> bool:
    """Whether the bounds of a loop depend only on the program's inputs."""

    def is_given(expr: ir.Expr) -> bool:
        if isinstance(expr, ir.Op):
            return all(map(is_given, expr.args))
        if isinstance(expr, ir.Var) and expr.definition is not None:
            return is_given(expr.definition)
        return isinstance(expr, ir.Const) or expr in residual.inputs

    return not _is_constant(loop) and is_given(loop.start) and is_given(loop.stop)


def _is_constant(loop: ir.Stmt) -> bool:
    bounds = (loop.start, loop.stop) if isinstance(loop, ir.ForLoop) else (None,)
    return all(isinstance(bound, ir.Const) for bound in bounds)
