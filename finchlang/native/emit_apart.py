"""Statements that are seldom run, as the merging of a workspace: they are in functions of their own, not
among what is run often, nor compiled as part of its loops. A product through a workspace of two
modes takes 25 ms to compile in place of 240 ms more than one without merging."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from finchlang.host import ir
from finchlang.host.ir import Cell, Code
from finchlang.host.print import Listing
from finchlang.host.walk import arrays, free_variables, walk
from finchlang.native.abi import OK
from finchlang.native.emit_ops import llvm_type
from finchlang.native.emit_polling import CHUNK, Polling
from finchlang.native.module import TBAA_SLOTS
from finchlang.types import PairType


class Apart(Polling):
    """A function being written that may have parts of it in others."""

    #: whether it has what is seldom run, which is compiled quickly
    is_apart = False

    @abstractmethod
    def emit_code(self, code: Code) -> None:
        """The statements of `code`; what they bind is forgotten behind them."""

    def emit_apart(self, statement: ir.If) -> bool:
        """A rare branch as a call of a function that has its statements, so that they are not among
        what is run often, nor compiled as part of its loops. It is given what they use: variables,
        and in a frame cells, which the statements may change, as they may buffers, by the slots. False
        if that cannot be done."""
        code = statement.then
        changed = (s.cell for s in walk(code) if isinstance(s, (ir.Get, ir.Set)))
        cells = {cell: n for n, cell in enumerate(dict.fromkeys(changed)) if cell in self.cells}
        given, used = free_variables(code), {b for s in walk(code) for b in arrays(s)}
        has_pairs = any(isinstance(x.type, PairType) for x in given) or any(
            isinstance(cell.type, PairType) for cell in cells
        )
        if has_pairs or not used <= set(self.residual.buffers):
            return False

        def make(name: str) -> str:
            return type(self)(self.module, self.residual).apart(name, code, given, cells)

        values = [f"{llvm_type(v.type)} {self.value(v)}" for v in given]
        frame = self.local(f"[{1 + max(cells.values(), default=0)} x i64]")
        condition = self.value(statement.condition)
        name = self.module.apart(_content(code, (*given, *cells, *used)), make)
        rare, failed, done, end = self.labels("rare", "failed", "done", "end")
        self.choose(condition, rare, end, cold=True)
        self.start(rare)
        self.through_frame(cells, frame, to_frame=True)
        arguments = ", ".join(["ptr %slots", f"ptr {frame}", *values])
        status = self.new(f"call preserve_mostcc i32 @{name}({arguments})")
        self.choose(self.new(f"icmp ne i32 {status}, {OK}"), failed, done, cold=True)
        self.start(failed)
        self.do(f"ret i32 {status}")
        self.start(done)
        self.through_frame(cells, frame, to_frame=False)
        for buffer in dict.fromkeys(s.buffer for s in walk(code) if isinstance(s, ir.Grow)):
            array = self.arrays[buffer]
            data = self.new(f"load ptr, ptr {array.slot}, !tbaa {TBAA_SLOTS}")
            self.do(f"store ptr {data}, ptr {array.data}")
            self.read_capacity(array)
        self.jump(end)
        self.start(end)
        return True

    def through_frame(self, cells: dict[Cell, int], frame: str, to_frame: bool) -> None:
        """Cells into a frame, or out of it."""
        for cell, number in cells.items():
            kind, own = llvm_type(cell.type), self.cell(cell)
            at = self.new(f"getelementptr i64, ptr {frame}, i64 {number}")
            source, target = (own, at) if to_frame else (at, own)
            self.do(f"store {kind} {self.new(f'load {kind}, ptr {source}')}, ptr {target}")

    def apart(self, name: str, code: Code, given: list[ir.Var], cells: dict[Cell, int]) -> str:
        """The whole function that `emit_apart` calls."""
        self.is_procedure = self.is_apart = True
        arguments = ["ptr noalias %slots", "ptr noalias %frame"]
        for number, variable in enumerate(given):
            arguments.append(f"{llvm_type(variable.type)} %input{number}")
            self.bind(variable, f"%input{number}")
        used = {b for inner in walk(code) for b in arrays(inner)}
        for number, buffer in enumerate(self.residual.buffers):
            if buffer in used:
                self.open_array(number, buffer)
        self.through_frame(cells, "%frame", to_frame=False)
        if self.polls:
            self.do(f"store i64 {CHUNK}, ptr {self.budget}")
        self.emit_code(code)
        self.through_frame(cells, "%frame", to_frame=True)
        head = f"define internal preserve_mostcc i32 @{name}({', '.join(arguments)})"
        return self.finish(f"{head} noinline cold nounwind", f"ret i32 {OK}")


def _content(code: Code, outside: tuple[Any, ...]) -> Any:
    """What tells code from other code: its text, what the names in it are outside of it, and where it
    fails."""
    listing, things = Listing(), sorted(outside, key=str)
    names = tuple([listing.name(thing) for thing in things])
    listing.code(code, 0)
    fails = tuple([id(s) for s in walk(code) if isinstance(s, ir.Fail)])
    return "\n".join(listing.lines), tuple(things), names, fails
