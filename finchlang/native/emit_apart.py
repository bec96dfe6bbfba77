"""Statements that are seldom run, as the merging of a workspace: they are in functions of their own, not
among what is run often, nor compiled as part of its loops. Such a function knows nothing of the kernel
that calls it, so that it is compiled once for all that have the same, in a module of its own."""

from __future__ import annotations

from abc import abstractmethod

from finchlang.host import ir
from finchlang.host.ir import Cell, Code, Fail, Residual
from finchlang.host.walk import arrays, free_variables, walk
from finchlang.native.abi import OK
from finchlang.native.emit_ops import llvm_type
from finchlang.native.emit_polling import CHUNK, Polling
from finchlang.native.module import TBAA_SLOTS, Module
from finchlang.types import Int64, PairType

_RESULT, _NAME = "preserve_mostcc i32", "part"


class Apart(Polling):
    """A function being written that may have parts of it in others."""

    #: whether it has what is seldom run, which is compiled quickly
    is_apart = False

    @abstractmethod
    def emit_code(self, code: Code) -> None:
        """The statements of `code`; what they bind is forgotten behind them."""

    def emit_apart(self, statement: ir.If) -> bool:
        """A rare branch as a call of a function that has its statements. It is given what they use:
        where failures are told, in a frame cells, which the statements may change, variables, and the
        slots of buffers, which they may change too. False if that cannot be done."""
        code = statement.then
        changed = (s.cell for s in walk(code) if isinstance(s, (ir.Get, ir.Set)))
        cells = {cell: n for n, cell in enumerate(dict.fromkeys(changed)) if cell in self.cells}
        given = free_variables(code)
        used = tuple(dict.fromkeys(b for s in walk(code) for b in arrays(s)))
        types = {*(v.type for v in given), *(cell.type for cell in cells)}
        has_pairs = any(isinstance(type, PairType) for type in types)
        if has_pairs or not all(b in self.residual.buffers for b in used):
            return False
        module = Module()
        part = Residual(_NAME, used, tuple(given), (), code)
        module.functions.append(type(self)(module, part).apart(cells))

        kinds = [*(llvm_type(v.type) for v in given), *("ptr" for _ in used)]
        kinds = ["ptr captures(none)", "ptr captures(none)", *kinds]
        name = self.module.use_part(module, _RESULT, _NAME, ", ".join(kinds))
        values = [self.value(v) for v in given]
        frame = self.local(f"[{1 + max(cells.values(), default=0)} x i64]")
        condition = self.value(statement.condition)
        rare, failed, done, end = self.labels("rare", "failed", "done", "end")
        self.choose(condition, rare, end, cold=True)
        self.start(rare)
        self.through_frame(cells, frame, to_frame=True)
        slots = (self.arrays[buffer].slot for buffer in used)
        pointed = zip(kinds, (self.slot(self.failure), frame, *values, *slots), strict=True)
        arguments = ", ".join(f"{kind} {value}" for kind, value in pointed)
        status = self.new(f"call {_RESULT} @{name}({arguments})")
        self.choose(self.new(f"icmp ne i32 {status}, {OK}"), failed, done, cold=True)
        self.start(failed)
        self.pass_on(status, code)
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

    def pass_on(self, status: str, code: Code) -> None:
        """Return a part's status. Which of its Fail statements was reached is numbered among its own."""
        fails = [s for s in walk(code) if isinstance(s, Fail)]
        if fails:
            first = self.failures[id(fails[-1])] - (len(fails) - 1)
            number = self.new(f"add i64 {self.read_slot(self.failure, Int64)}, {first}")
            self.write_slot(self.failure, Int64, number)
        self.do(f"ret i32 {status}")

    def through_frame(self, cells: dict[Cell, int], frame: str, to_frame: bool) -> None:
        """Cells into a frame, or out of it."""
        for cell, number in cells.items():
            kind, own = llvm_type(cell.type), self.cell(cell)
            at = self.new(f"getelementptr i64, ptr {frame}, i64 {number}")
            source, target = (own, at) if to_frame else (at, own)
            self.do(f"store {kind} {self.new(f'load {kind}, ptr {source}')}, ptr {target}")

    def apart(self, cells: dict[Cell, int]) -> str:
        """The whole function that `emit_apart` calls; its slots are the failure area alone."""
        self.is_procedure = self.is_apart = True
        self.failure = 0
        arguments = ["ptr noalias %slots", "ptr noalias %frame"]
        for number, variable in enumerate(self.residual.inputs):
            arguments.append(f"{llvm_type(variable.type)} %input{number}")
            self.bind(variable, f"%input{number}")
        for number, buffer in enumerate(self.residual.buffers):
            arguments.append(f"ptr %slot{number}")
            self.open_array(number, buffer, f"%slot{number}")
        self.through_frame(cells, "%frame", to_frame=False)
        if self.polls:
            self.do(f"store i64 {CHUNK}, ptr {self.budget}")
        self.emit_code(self.residual.body)
        self.through_frame(cells, "%frame", to_frame=True)
        head = f"define {_RESULT} @{_NAME}({', '.join(arguments)}) noinline cold nounwind"
        return self.finish(head, f"ret i32 {OK}")
