"""What is in functions of its own: procedures, and statements that are seldom run.

A procedure is a function of the kernel's module and works on the kernel's slots. What is seldom run, as
the merging of a workspace, is not among what is run often, nor compiled as part of its loops. Its function
knows nothing of the kernel that calls it, so that it is compiled once for all that have the same, in a
module of its own.

Both get the addresses of cells. A function has the cells it uses in registers, and puts them back there
when it calls another, and in the end.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace

from finchlang.host import ir
from finchlang.host.construct import TRUE
from finchlang.host.rewrite import arrays, free_variables, walk
from finchlang.native.abi import OK
from finchlang.native.emit_ops import llvm_type
from finchlang.native.emit_polling import CHUNK, Polling
from finchlang.native.module_text import TBAA_SLOTS, Module
from finchlang.syntax.types import Int64

_RESULT, _NAME = "preserve_mostcc i32", "part"


class SplitFunction(Polling):
    """A function being written that may have parts of it in others."""

    #: whether it has what is seldom run, which is compiled quickly
    is_apart = False

    @abstractmethod
    def emit_code(self, code: ir.Code) -> None:
        """The statements of `code`; what they bind is forgotten behind them."""

    # -------------------------------------------------------------------------------- procedures

    def emit_call(self, statement: ir.CallProcedure) -> None:
        """The budget of steps goes with the cells: what is done there counts here."""
        name = statement.name
        if name not in self.module.procedures:
            self.module.procedures.add(name)
            [procedure] = [p for p in self.residual.procedures if p.name == name]
            body, inputs = procedure.body, procedure.inputs
            inside = replace(self.residual, inputs=inputs, outputs=(), body=body, scratch=())
            called = type(self)(self.module, inside, self).called(procedure)
            self.module.functions.append(called)
        cells = (*statement.cells, self.counter)
        values = [f"{llvm_type(v.type)} {self.value(v)}" for v in statement.values]
        arguments = ", ".join(["ptr %slots", *values, *self.lend(cells)])
        status = self.new(f"call fastcc i32 @{name}({arguments})")
        done, failed = self.labels("done", "failed")
        self.choose(self.new(f"icmp ne i32 {status}, {OK}"), failed, done, cold=True)
        self.start(failed)
        self.do(f"ret i32 {status}")
        self.start(done)
        self.take_back(cells)
        self.reload(statement.changed)

    def called(self, procedure: ir.Procedure) -> str:
        """The whole function that `emit_call` calls, for the most part from loops."""
        self.loops.append(ir.WhileLoop(ir.Code(()), TRUE, procedure.body))
        self.is_walking = True
        arguments = ["ptr noalias %slots"]
        for number, variable in enumerate(procedure.inputs):
            arguments.append(f"{llvm_type(variable.type)} %input{number}")
            self.bind(variable, f"%input{number}")
            self.read.add(variable)
        cells = (*procedure.cells, self.counter)
        arguments += self.borrow(cells)
        for number, buffer in enumerate(self.residual.buffers):
            if buffer in self.used:
                self.open_array(number, buffer, self.slot(3 * number))
        self.take_back(cells)
        self.emit_code(procedure.body)
        self.lend(cells)
        head = f"define internal fastcc i32 @{procedure.name}({', '.join(arguments)})"
        return self.finish(f"{head} noinline nounwind", f"ret i32 {OK}")

    def borrow(self, cells: Sequence[ir.Cell]) -> list[str]:
        """The parameters of a function that is given cells."""
        self.homes.update({cell: f"%cell{number}" for number, cell in enumerate(cells)})
        return [f"ptr noalias {self.homes[cell]}" for cell in cells]

    def lend(self, cells: Sequence[ir.Cell]) -> list[str]:
        """Arguments for a function that is given cells: their addresses, where what they hold is now."""
        for cell in cells:
            home = self.homes.setdefault(cell, "") or self.local(llvm_type(cell.type))
            self.homes[cell] = home
            if cell in self.own:
                kind = llvm_type(cell.type)
                self.do(f"store {kind} {self.read_cell(cell)}, ptr {home}")
        return [f"ptr {self.homes[cell]}" for cell in cells]

    def take_back(self, cells: Sequence[ir.Cell]) -> None:
        """What is now in cells that are lent or borrowed."""
        for cell in cells:
            if cell in self.own:
                kind = llvm_type(cell.type)
                content = self.new(f"load {kind}, ptr {self.homes[cell]}")
                self.do(f"store {kind} {content}, ptr {self.cell(cell)}")

    def reload(self, buffers: Iterable[ir.Buffer]) -> None:
        """See where buffers are now that a function may have let them grow."""
        for array in (self.arrays[b] for b in dict.fromkeys(buffers) if b in self.used):
            if array.capacity:
                data = self.new(f"load ptr, ptr {array.slot}, !tbaa {TBAA_SLOTS}")
                self.do(f"store ptr {data}, ptr {array.data}")
                self.read_capacity(array)

    # ------------------------------------------------------------------------------- rare branches

    def emit_apart(self, statement: ir.Branch) -> bool:
        """A rare branch as a call of a function that has its statements. It is given what they use:
        where failures are told, cells, which the statements may change, variables, and the slots of
        buffers, which they may change too. False if that cannot be done."""
        code = statement.then
        if any(isinstance(s, ir.CallProcedure) for s in walk(code)):
            return False  # it would need the kernel's procedures
        cells = [cell for cell in cells_used(walk(code)) if cell in self.cells]
        given = free_variables(code)
        used = tuple(dict.fromkeys(b for s in walk(code) for b in arrays(s)))
        if not all(b in self.residual.buffers for b in used):
            return False
        module = Module()
        part = ir.Residual(_NAME, used, tuple(given), (), code)
        module.functions.append(type(self)(module, part).apart(cells))

        values = [f"{llvm_type(v.type)} {self.value(v)}" for v in given]
        condition = self.value(statement.condition)
        rare, failed, done, end = self.labels("rare", "failed", "done", "end")
        self.choose(condition, rare, end, cold=True)
        self.start(rare)
        slots = [f"ptr {self.arrays[buffer].slot}" for buffer in used]
        given_all = [f"ptr {self.slot(self.failure)}", *values, *slots, *self.lend(cells)]
        kinds = ", ".join(argument.split(" %")[0] for argument in given_all)
        name = self.module.use_part(module, _RESULT, _NAME, kinds)
        status = self.new(f"call {_RESULT} @{name}({', '.join(given_all)})")
        self.choose(self.new(f"icmp ne i32 {status}, {OK}"), failed, done, cold=True)
        self.start(failed)
        self.pass_on(status, code)
        self.start(done)
        self.take_back(cells)
        self.reload(s.buffer for s in walk(code) if isinstance(s, ir.Grow))
        self.jump(end)
        self.start(end)
        return True

    def pass_on(self, status: str, code: ir.Code) -> None:
        """Return a part's status. Which of its Fail statements was reached is numbered among its own."""
        fails = [s for s in walk(code) if isinstance(s, ir.Fail)]
        if fails:
            first = self.failures[id(fails[-1])] - (len(fails) - 1)
            number = self.new(f"add i64 {self.read_slot(self.failure, Int64)}, {first}")
            self.write_slot(self.failure, Int64, number)
        self.do(f"ret i32 {status}")

    def apart(self, cells: Sequence[ir.Cell]) -> str:
        """The whole function that `emit_apart` calls; its slots are the failure area alone."""
        self.is_procedure = self.is_apart = True
        self.failure = 0
        arguments = ["ptr noalias %slots"]
        for number, variable in enumerate(self.residual.inputs):
            arguments.append(f"{llvm_type(variable.type)} %input{number}")
            self.bind(variable, f"%input{number}")
        for number, buffer in enumerate(self.residual.buffers):
            arguments.append(f"ptr %slot{number}")
            self.open_array(number, buffer, f"%slot{number}")
        arguments += self.borrow(cells)
        self.take_back(cells)
        if self.polls:
            self.do(f"store i64 {CHUNK}, ptr {self.budget}")
        self.emit_code(self.residual.body)
        self.lend(cells)
        head = f"define {_RESULT} @{_NAME}({', '.join(arguments)}) noinline cold nounwind"
        return self.finish(head, f"ret i32 {OK}")


def cells_used(statements: Iterable[ir.Stmt]) -> list[ir.Cell]:
    """The cells that statements use themselves, in order."""
    return list(dict.fromkeys(s.cell for s in statements if isinstance(s, (ir.Get, ir.Set))))
