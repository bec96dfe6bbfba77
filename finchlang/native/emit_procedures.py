"""Functions of their own: procedures, and rare branches.

A procedure is a function of the kernel's module and works on the kernel's slots. A rare branch, as the
merging of a workspace, is kept out of the hot code, and is not compiled as part of its loops. Its function
knows nothing of the kernel that calls it, so that it is compiled once for all kernels that have the same
one, in a module of its own.

Both get the addresses of cells. A function keeps the cells that it uses in registers, and writes them back
when it calls another function, and at its end.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace

from finchlang.host import ir, rewrite as rewriting
from finchlang.host.construct import TRUE
from finchlang.native.abi import INTERRUPTED, OK
from finchlang.native.emit_ops import llvm_type
from finchlang.native.function_text import FunctionText
from finchlang.native.module_text import TBAA_SLOTS, Module
from finchlang.syntax.types import Int64

_RESULT, _NAME = "preserve_mostcc i32", "part"


#: how many steps come between two polls for interrupts
CHUNK = 1 << 20


class SplitFunction(FunctionText):
    """A function being written that calls functions for parts of its code."""

    #: whether it is that of a rare branch, which is compiled briefly
    is_apart = False

    @abstractmethod
    def emit_code(self, code: ir.Code) -> None:
        """The statements of `code`; variables that they bind are out of scope afterwards."""

    def body(self) -> None:
        if self.polls:
            self.do(f"store i64 {CHUNK}, ptr {self.budget}")
        self.emit_code(self.residual.body)

    def spend(self, amount: str) -> None:
        if self.polls:
            budget = self.new(f"load i64, ptr {self.budget}")
            rest = self.new(f"sub i64 {budget}, {amount}")
            self.do(f"store i64 {rest}, ptr {self.budget}")

    def poll_if_spent(self, target: str) -> None:
        """Go on at `target`; poll first if the budget is used up."""
        if not self.polls:
            self.jump(target)
            return
        (look,) = self.labels("look")
        rest = self.new(f"load i64, ptr {self.budget}")
        self.choose(self.new(f"icmp slt i64 {rest}, 0"), look, target, cold=True)
        self.start(look)
        self.do(f"store i64 {CHUNK}, ptr {self.budget}")
        self.poll(target)

    def poll(self, target: str) -> None:
        """Ask Python whether a signal is pending, and leave the kernel if its handler raised."""
        self.module.use_look()
        signal = self.new("call preserve_mostcc i32 @look()")
        raised = self.new(f"icmp ne i32 {signal}, 0")
        self.choose(raised, self.leave(INTERRUPTED), target, cold=True)

    # -------------------------------------------------------------------------------- procedures

    def emit_CallProcedure(self, statement: ir.CallProcedure) -> None:
        """The budget of steps is passed like a cell: steps of the procedure count here."""
        name = statement.name
        if name not in self.module.procedures:
            self.module.procedures.add(name)
            [procedure] = [p for p in self.residual.procedures if p.name == name]
            body, inputs = procedure.body, procedure.inputs
            inside = replace(self.residual, inputs=inputs, outputs=(), body=body, scratch=())
            self.module.open.add(name)
            called = type(self)(self.module, inside, self).called(procedure)
            self.module.open.discard(name)
            self.module.functions.append(called)
        if name in self.module.open:  # it calls itself, perhaps in no loop
            (further,) = self.labels("further")
            self.spend("1")
            self.poll_if_spent(further)
            self.start(further)
        cells = (*statement.cells, self.counter)
        values = [f"{llvm_type(v.type)} {self.value(v)}" for v in statement.values]
        arguments = ", ".join(["ptr %slots", *values, *self.lend(cells)])
        status = self.new(f"call fastcc i32 @{name}({arguments})")
        self.go_on(status, ir.Code(()), cells)
        self.reload(statement.changed)

    def called(self, procedure: ir.Procedure) -> str:
        """The whole function of a procedure, as code within a `while` loop: most calls are in loops."""
        self.loops.append(ir.WhileLoop(ir.Code(()), TRUE, procedure.body))
        self.is_walking = True
        self.loaded.update(procedure.inputs)
        cells = (*procedure.cells, self.counter)
        arguments = ["ptr noalias %slots", *self.take_inputs(), *self.borrow(cells)]
        for number, buffer in enumerate(self.residual.buffers):
            if buffer in self.used:
                self.open_array(number, buffer, self.slot(3 * number))
        self.take_back(cells)
        self.emit_code(procedure.body)
        self.lend(cells)
        head = f"define internal fastcc i32 @{procedure.name}({', '.join(arguments)})"
        return self.finish(f"{head} noinline nounwind", f"ret i32 {OK}")

    def borrow(self, cells: Sequence[ir.Cell]) -> list[str]:
        """The parameters of a function that is given cells: their addresses."""
        self.homes.update({cell: f"%cell{number}" for number, cell in enumerate(cells)})
        return [f"ptr noalias {self.homes[cell]}" for cell in cells]

    def lend(self, cells: Sequence[ir.Cell]) -> list[str]:
        """Arguments for a function that is given cells: their addresses, to which their contents are
        written first."""
        for cell in cells:
            home = self.homes.setdefault(cell, "") or self.local(llvm_type(cell.type))
            self.homes[cell] = home
            if cell in self.own:
                kind = llvm_type(cell.type)
                self.do(f"store {kind} {self.read_cell(cell)}, ptr {home}")
        return [f"ptr {self.homes[cell]}" for cell in cells]

    def take_back(self, cells: Sequence[ir.Cell]) -> None:
        """Read what is now in cells that were lent or borrowed."""
        for cell in cells:
            if cell in self.own:
                kind = llvm_type(cell.type)
                content = self.new(f"load {kind}, ptr {self.homes[cell]}")
                self.do(f"store {kind} {content}, ptr {self.cell(cell)}")

    # ------------------------------------------------------------------------------- rare branches

    def emit_apart(self, statement: ir.Branch) -> bool:
        """A rare branch as a call of a function with its statements. Arguments are the failure area, the
        variables that they use, the slots of buffers and the addresses of cells; buffers and cells may
        change. False if that cannot be done."""
        code = statement.then
        if any(isinstance(s, ir.CallProcedure) for s in rewriting.walk(code)):
            return False  # it would need the kernel's procedures
        cells = [cell for cell in rewriting.cells_of(code) if cell in self.cells]
        given = rewriting.free_variables(code)
        used = rewriting.buffers_of(code)
        if not all(b in self.residual.buffers for b in used):
            return False
        module = Module()
        part = ir.Residual(_NAME, used, tuple(given), (), code)
        module.functions.append(type(self)(module, part).apart(cells))

        values = [f"{llvm_type(v.type)} {self.value(v)}" for v in given]
        condition = self.value(statement.condition)
        with self.when(condition, cold=True):
            slots = [f"ptr {self.arrays[buffer].slot}" for buffer in used]
            arguments = [f"ptr {self.slot(self.failure)}", *values, *slots, *self.lend(cells)]
            status = self.call(_RESULT, self.module.use_part(module, _NAME), arguments)
            self.go_on(status, code, cells)
            self.reload(s.buffer for s in rewriting.walk(code) if isinstance(s, ir.Grow))
        return True

    def go_on(self, status: str, part: ir.Code, cells: Sequence[ir.Cell]) -> None:
        """Go on after a function that was lent cells, or return its status if it failed. The number of the
        Fail statement of a `part` counts within the part; it is made that of the kernel."""
        done, failed = self.labels("done", "failed")
        self.choose(self.new(f"icmp ne i32 {status}, {OK}"), failed, done, cold=True)
        self.start(failed)
        fails = [s for s in rewriting.walk(part) if isinstance(s, ir.Fail)]
        if fails:
            first = self.failures[id(fails[-1])] - (len(fails) - 1)
            number = self.new(f"add i64 {self.read_slot(self.failure, Int64)}, {first}")
            self.write_slot(self.failure, Int64, number)
        self.do(f"ret i32 {status}")
        self.start(done)
        self.take_back(cells)

    def reload(self, buffers: Iterable[ir.Buffer]) -> None:
        """Read again the addresses and capacities of buffers that a function may have let grow."""
        for array in (self.arrays[b] for b in dict.fromkeys(buffers) if b in self.used):
            if array.capacity:
                data = self.new(f"load ptr, ptr {array.slot}, !tbaa {TBAA_SLOTS}")
                self.do(f"store ptr {data}, ptr {array.data}")
                self.read_capacity(array)

    def apart(self, cells: Sequence[ir.Cell]) -> str:
        """The whole function that `emit_apart` calls; its slots are only the failure area."""
        self.is_procedure = self.is_apart = True
        self.failure = 0
        arguments = ["ptr noalias %slots", *self.take_inputs()]
        for number, buffer in enumerate(self.residual.buffers):
            arguments.append(f"ptr %slot{number}")
            self.open_array(number, buffer, f"%slot{number}")
        arguments += self.borrow(cells)
        self.take_back(cells)
        self.body()
        self.lend(cells)
        head = f"define {_RESULT} @{_NAME}({', '.join(arguments)}) noinline cold nounwind"
        return self.finish(head, f"ret i32 {OK}")
