"""Residual programs become LLVM IR, in one pass over the host language.

The module has one function to call, `i32 entry(ptr slots)` (see `abi.py`). What makes the
code fast:

- Buffers never overlap, so each has its own TBAA type: LLVM then knows that a store to one does
  not change what is loaded from another. Loads from frozen buffers are `!invariant.load`.
- Address and capacity of a growable buffer are locals (promoted to registers); whether there is
  room is one comparison, and moving to larger memory is a cold call.
- Whether there is an interrupt (Ctrl-C) is asked often enough to leave within a second, and so rarely
  that it costs nothing. An innermost counted loop runs in chunks of 2^20 iterations, with nothing but the
  body inside. An inner loop that reads or writes an array at each step, as over the entries of a row,
  cannot be very long and has no chunks: they would make SpMV with 10 entries in a row 1.2 times slower.
  (In procedures, which sort whole arrays, it has chunks.) Other loops take the work done inside them from
  a budget of 2^20 steps, and poll when it is used up.
"""

from __future__ import annotations

import platform

from finchlang.host import ir, rewrite as rewriting
from finchlang.host.construct import ONE, is_natural, sub
from finchlang.native import library
from finchlang.native.abi import FAILED, INTERRUPTED, NO_MEMORY, OK
from finchlang.native.emit_ops import comparison, llvm_type, memory_type
from finchlang.native.emit_procedures import CHUNK, SplitFunction
from finchlang.native.function_text import BufferAccess, place_of
from finchlang.native.module_text import Module
from finchlang.native.procedure_texts import TEXTS
from finchlang.syntax.types import Int64, Type

#: a clock that takes some 20 cycles to read; programs may not count cycles on ARM
IS_ARM = platform.machine().lower() in ("aarch64", "arm64")
CLOCK = "llvm.readsteadycounter" if IS_ARM else "llvm.readcyclecounter"


def emit(residual: ir.Residual) -> list[str]:
    """The texts of the LLVM modules for `residual`, which `host.verify` accepts: the kernel's, and one for
    each rare part (`emit_procedures.py`)."""
    module = Module()
    module.functions.append(_Function(module, residual).kernel())
    return [module.text(), *module.parts.values()]


def emit_procedure(name: str) -> str:
    """The text of a module that defines a procedure that kernels call."""
    if name in TEXTS:
        return TEXTS[name]()
    module = Module()
    module.declarations[name] = ""  # its calls of itself need no declaration
    module.functions.append(_Function(module, library.procedure(name)).procedure())
    return module.text()


class _Function(SplitFunction):
    is_procedure = False
    #: whether the statement is in a `while` loop, which visits entries one after the other
    is_walking = False
    #: whether some loop reads scattered entries or has few steps: vectors of eight are then better than
    #: the usual four
    is_wide = False

    # -------------------------------------------------------------------------------- functions

    def kernel(self) -> str:
        """The whole function `entry`: reads slots, returns a status."""
        layout, residual = self.layout, self.residual
        for number, buffer in enumerate(residual.buffers):
            self.open_array(number, buffer, self.slot(3 * number))
        for number, variable in enumerate(residual.inputs):
            self.bind(variable, self.read_slot(layout.first_input + number, variable.type))
        self.body()
        for number, cell in enumerate(residual.outputs):
            self.write_slot(layout.first_output + number, cell.type, self.read_cell(cell))
        attributes = ' "prefer-vector-width"="512"' if self.is_wide else ""
        return self.finish(f"define i32 @entry(ptr noalias %slots){attributes}", f"ret i32 {OK}")

    def procedure(self, linkage: str = "") -> str:
        """A procedure of the library. Its buffers, which never overlap, and its inputs are arguments; it
        returns its output or, if it has none, a status."""
        residual = self.residual
        self.is_procedure = True
        arguments = []
        for number, buffer in enumerate(residual.buffers):
            self.arrays[buffer] = BufferAccess(f"%data{number}")
            arguments.append(f"ptr noalias %data{number}")
        arguments += self.take_inputs()
        result, value = "i32", str(OK)
        if residual.outputs:
            self.polls = False  # it is short, and could not return a status
            result = llvm_type(residual.outputs[0].type)
        self.body()
        if residual.outputs:
            value = self.read_cell(residual.outputs[0])
        inlined = "alwaysinline " if linkage and not rewriting.is_heavy(residual.body) else ""
        attributes = f'{inlined}nounwind "prefer-vector-width"="512"'
        head = f"define {linkage}{result} @{residual.name}({', '.join(arguments)}) {attributes}"
        return self.finish(head, f"ret {result} {value}")

    def use(self, name: str, type: Type) -> str:
        """The name of a small procedure of the library, which is emitted into this module, once."""
        procedure = library.OPERATIONS[name](type)
        if procedure.name not in self.module.declarations:
            self.module.declarations[procedure.name] = ""
            function = _Function(self.module, procedure).procedure("internal ")
            self.module.functions.append(function)
        self.is_wide |= not rewriting.is_heavy(procedure.body)
        return procedure.name

    def far(self, op: ir.Op, value: str) -> str:
        if not (self.is_procedure and not self.is_apart and op.name in self.residual.name):
            return ""
        return self.new(self.module.in_lanes(op.name, value))

    # -------------------------------------------------------------------------------- statements

    def emit_code(self, code: ir.Code) -> None:
        """The statements of `code`; variables that they bind are out of scope afterwards."""
        known = len(self.bound)
        self.emit_statements(code)
        self.forget(known)

    def emit_statements(self, code: ir.Code) -> None:
        """The statements of `code` up to a Fail."""
        written = (s for s in code.statements if isinstance(s, (ir.Store, ir.Set)))
        self.totals |= {s.value: place_of(s) for s in written}
        for statement in code.statements:
            if self.block:
                self.emit_statement(statement)

    def emit_statement(self, statement: ir.Stmt) -> None:
        match statement:
            case ir.Bind(variable, ir.Op(name="cast", args=(narrow,))) if (
                is_natural(variable) and narrow.type.kind == "int" and narrow.type.bits < 64
            ):
                kind = llvm_type(narrow.type)
                self.bind(variable, self.new(f"zext nneg {kind} {self.value(narrow)} to i64"))
            case ir.Bind(variable, expr):
                self.bind(variable, self.total(expr, self.totals.get(variable)))
            case ir.Load(variable, buffer, index):
                self.bind(variable, self.load(buffer, self.value(index)))
                self.contents[variable] = buffer, index
                if self.loops:
                    self.loaded.add(variable)
            case ir.Store(buffer, index, expr):
                self.store(buffer, self.value(index), self.total(expr, place_of(statement)))
                self.contents[expr] = place_of(statement)
            case ir.Get(variable, cell):
                self.bind(variable, self.read_cell(cell))
                self.contents[variable] = cell
            case ir.Set(cell, expr):
                value = self.total(expr, place_of(statement))
                self.do(f"store {llvm_type(cell.type)} {value}, ptr {self.cell(cell)}")
                self.contents[expr] = cell
            case ir.Give(target, expr):
                self.given.setdefault(target, []).append(f"[ {self.value(expr)}, %{self.block} ]")
            case ir.Room(variable, buffer):
                self.bind(variable, self.room(buffer))
            case ir.Clock(variable):
                self.module.declare("i64", CLOCK, "")
                self.bind(variable, self.new(f"call i64 @{CLOCK}()"))
            case ir.Exchange(buffer, other):
                self.exchange(self.arrays[buffer], self.arrays[other])
            case ir.Disjoint():
                self.bind(statement.variable, self.disjoint(statement))
            case _:
                getattr(self, f"emit_{type(statement).__name__}")(statement)

    def emit_Branch(self, statement: ir.Branch) -> None:
        then, otherwise, end = self.labels("then", "else", "end")
        has_else = bool(statement.otherwise.statements)
        if statement.is_rare and not has_else and self.emit_apart(statement):
            return
        self.choose(self.value(statement.condition), then, otherwise if has_else else end)
        self.start(then)
        self.emit_code(statement.then)
        self.jump(end)
        if has_else:
            self.start(otherwise)
            self.emit_code(statement.otherwise)
            self.jump(end)
        self.start(end)
        if (variable := statement.variable) is not None:
            ways = ", ".join(self.given.pop(variable))
            self.bind(variable, self.new(f"phi {llvm_type(variable.type)} {ways}"))

    def emit_WhileLoop(self, statement: ir.WhileLoop) -> None:
        test, body, end = self.labels("test", "body", "end")
        self.jump(test)
        self.start(test)
        known = len(self.bound)
        self.emit_statements(statement.test)
        self.choose(self.value(statement.condition), body, end)
        self.start(body)
        was_walking, self.is_walking = self.is_walking, True
        self.loops.append(statement)
        self.emit_code(statement.body)
        self.loops.pop()
        self.is_walking = was_walking
        self.forget(known)
        is_inner = bool(self.loops) and not (
            statement.is_endless or rewriting.is_heavy(statement.body)
        )
        self.spend("1")
        if is_inner:  # it counts its steps; the loop around it polls
            self.jump(test)
        else:
            self.poll_if_spent(test)
        self.start(end)

    def emit_ForLoop(self, statement: ir.ForLoop) -> None:
        first, last = self.value(statement.start), self.value(statement.stop)
        with self.when(self.new(f"icmp sle i64 {first}, {last}")):
            if not self.polls or rewriting.is_heavy(statement.body):
                self.count_up(statement, first, last, self.polls)
                return
            if self.loops:
                self.spend(self.new(f"sub i64 {last}, {first}"))
            if self.loops and runs_along_array(statement) and not self.is_procedure:
                self.count_up(statement, first, last, polls=False)
            else:
                self.count_in_chunks(statement, first, last)

    def count_up(self, statement: ir.ForLoop, first: str, last: str, polls: bool) -> None:
        """The loop from `first` to `last`, where first <= last; with `polls` each step is counted."""
        body, latch, done = self.labels("body", "latch", "done")
        before, i, next_i = self.block, self.name(), self.name()
        self.jump(body)
        self.start(body)
        self.do(f"{i} = phi i64 [ {first}, %{before} ], [ {next_i}, %{latch} ]")
        known = len(self.bound)
        self.bind(statement.variable, i)
        self.loops.append(statement)
        self.emit_code(statement.body)
        self.loops.pop()
        self.forget(known)
        if polls:
            self.spend("1")
            self.poll_if_spent(latch)
        else:
            self.jump(latch)
        self.start(latch)
        self.do(f"{next_i} = add nsw i64 {i}, 1")
        at_last = self.new(f"icmp eq i64 {i}, {last}")
        self.do(f"br i1 {at_last}, label %{done}, label %{body}{self.hint(statement)}")
        self.start(done)

    def count_in_chunks(self, statement: ir.ForLoop, first: str, last: str) -> None:
        """The loop in chunks with a poll after each."""
        chunk, more, end = self.labels("chunk", "more", "end")
        before, next_low = self.block, self.name()
        self.jump(chunk)
        self.start(chunk)
        low = self.new(f"phi i64 [ {first}, %{before} ], [ {next_low}, %{more} ]")
        left = self.new(f"sub i64 {last}, {low}")  # unsigned: `low` plus a chunk may be no Int64
        is_last = self.new(f"icmp ult i64 {left}, {CHUNK - 1}")
        size = self.new(f"select i1 {is_last}, i64 {left}, i64 {CHUNK - 1}")
        stop = self.new(f"add i64 {low}, {size}")
        self.count_up(statement, low, stop, polls=False)
        self.choose(self.new(f"icmp slt i64 {stop}, {last}"), more, end, cold=True)
        self.start(more)
        self.do(f"{next_low} = add nsw i64 {stop}, 1")
        self.poll(chunk)
        self.start(end)

    def hint(self, loop: ir.ForLoop) -> str:
        """Metadata for the length of `loop`: rows, runs and blocks are often short."""
        if loop.is_plain or self.is_apart:
            return self.module.loop_hint(vectorize_enable="i1 0", unroll_disable="i1 1")
        inside = rewriting.changing(loop)
        stores = [s for s in rewriting.walk(loop.body) if isinstance(s, ir.Store)]
        moving = any(not inside.isdisjoint(rewriting.variables(store.index)) for store in stores)
        is_simple = rewriting.is_straight(loop.body)
        if not self.is_procedure:
            is_short = self.is_walking or self.is_stored(loop.start, loop.stop)
            if not is_short and not any(rewriting.indirect(loop.body)):
                return ""
            self.is_wide |= not rewriting.is_heavy(loop.body)
            if not moving and is_simple and any(rewriting.indirect(loop.body)):
                # Most time goes into loads at positions that were loaded. Gathered eight at a time with
                # lanes masked out they take as long for one entry as for eight, and rows of a sparse matrix
                # often have few; in a long row, a single sum would wait for each addition before the next.
                # Four steps at a time, each into a sum of its own: rows of 30 and of about 100 take 0.77
                # and 0.72 of the time with one sum, rows of 5 and of 10 1.01.
                hints = {"vectorize_width": "i32 1", "interleave_count": "i32 4"}
                return self.module.loop_hint(**hints, unroll_disable="i1 1")
        scatters = any(isinstance(s, ir.Store) for s in rewriting.indirect(loop.body))
        return self.module.short_loop(is_simple, scatters, moving)

    def emit_Grow(self, statement: ir.Grow) -> None:
        array = self.arrays[statement.buffer]
        size = self.value(statement.size)
        capacity = self.new(f"load i64, ptr {array.capacity}")
        # unsigned, so that a negative size takes this branch, too, and is refused by `grow`
        with self.when(self.new(f"icmp ugt i64 {size}, {capacity}"), cold=True):
            [got] = self.labels("got")
            width = statement.buffer.type.bits // 8
            arguments = [f"ptr captures(none) {array.slot}", f"i64 {size}", f"i64 {width}"]
            data = self.call("preserve_mostcc noalias ptr", "grow", arguments, "cold nounwind")
            none = self.new(f"icmp eq ptr {data}, null")
            self.choose(none, self.leave(NO_MEMORY), got, cold=True)
            self.start(got)
            self.do(f"store ptr {data}, ptr {array.data}")
            self.read_capacity(array)

    def emit_Fill(self, statement: ir.Fill) -> None:
        buffer, value = statement.buffer, statement.value
        first, stop = self.value(statement.start), self.value(statement.stop)
        if sub(statement.stop, statement.start) is ONE:
            self.store(buffer, first, self.value(value))
            return
        content = self.to_memory(buffer.type, self.value(value))
        kind = memory_type(buffer.type)
        is_zero = isinstance(value, ir.Const) and repr(value.value) in ("0", "0.0")  # not "-0.0"
        with self.when(self.new(f"icmp slt i64 {first}, {stop}")):
            length = self.new(f"sub i64 {stop}, {first}")
            if self.polls:
                self.spend(self.new(f"lshr i64 {length}, 4"))
            if kind == "i8" or is_zero:
                self.module.declare("void", "llvm.memset.p0.i64", "ptr, i8, i64, i1")
                tag, at = self.arrays[buffer].store, self.address(buffer, first)
                size = self.new(f"mul i64 {length}, {buffer.type.bits // 8}")
                given = f"ptr {at}, i8 {content if kind == 'i8' else '0'}, i64 {size}, i1 0"
                self.do(f"call void @llvm.memset.p0.i64({given}){tag}")
            else:
                i, last = ir.Var("i", Int64), self.new(f"sub i64 {stop}, 1")
                body = ir.Code((ir.Store(buffer, i, value),))
                each = ir.ForLoop(i, statement.start, sub(statement.stop, 1), body)
                self.count_up(each, first, last, polls=False)

    def emit_Search(self, statement: ir.Search) -> None:
        """The first two entries are looked at in place, since one of them is often the answer; then the
        library is called. Searches in fibers of one entry take half the time so."""
        buffer, type = statement.buffer, statement.buffer.type
        start, stop = self.value(statement.start), self.value(statement.stop)
        key, kind, [end] = self.value(statement.key), llvm_type(type), self.labels("end")
        found, at = list[str](), start
        for _ in range(2):
            probe, on = self.labels("probe", "on")
            found.append(f"[ {at}, %{self.block} ]")
            self.choose(self.new(f"icmp slt i64 {at}, {stop}"), probe, end)
            self.start(probe)
            entry = self.load(buffer, at)
            here = self.new(f"{comparison('ge', type)} {kind} {entry}, {key}")
            found.append(f"[ {at}, %{self.block} ]")
            self.choose(here, end, on)
            self.start(on)
            before, at = at, self.new(f"add nsw i64 {at}, 1")
        name = library.procedure_name(statement)
        given = [f"ptr {self.data(buffer)}", f"i64 {before}", f"i64 {stop}", f"{kind} {key}"]
        far = self.call("i64", name, given, "nounwind memory(argmem: read)")
        found.append(f"[ {far}, %{self.block} ]")
        self.jump(end)
        self.start(end)
        self.bind(statement.variable, self.new(f"phi i64 {', '.join(found)}"))

    def emit_Sort(self, statement: ir.AnySort) -> None:
        first, stop = self.value(statement.start), self.value(statement.stop)
        sort, end = self.labels("sort", "end")
        length = self.new(f"sub i64 {stop}, {first}")
        self.choose(self.new(f"icmp sgt i64 {length}, 1"), sort, end)
        self.start(sort)
        self.spend(length)
        name = library.procedure_name(statement)
        effects = "memory(argmem: readwrite, inaccessiblemem: readwrite)"
        arguments = [f"ptr {self.data(buffer)}" for buffer in rewriting.arrays(statement)]
        arguments += [f"i64 {first}", f"i64 {stop}"]
        if isinstance(statement, ir.SortBits):
            arguments += [f"i64 {self.value(bit)}" for bit in (statement.low, statement.high)]
        status = self.call("i32", name, arguments, f"nounwind {effects}")
        raised = self.new(f"icmp ne i32 {status}, {OK}")
        self.choose(raised, self.leave(INTERRUPTED), end, cold=True)
        self.start(end)

    emit_SortBits = emit_Sort

    def emit_Fail(self, statement: ir.Fail) -> None:
        """Write to the failure area: the number of the statement, and the values of its message."""
        self.write_slot(self.failure, Int64, str(self.failures[id(statement)]))
        for k, e in enumerate((*statement.values, *statement.note), self.failure + 1):
            self.write_slot(k, e.type, self.value(e))
        self.jump(self.leave(FAILED))
        self.block = ""


def runs_along_array(loop: ir.ForLoop) -> bool:
    """Whether each step of `loop` accesses another entry of some array, so that it has at most as many
    steps as the array has entries."""
    inside = rewriting.changing(loop)

    def is_fixed(expr: ir.Expr) -> bool:
        return inside.isdisjoint(rewriting.variables(expr))

    def is_shifted(expr: ir.Expr) -> bool:
        """Whether `expr` is the loop's variable, or a multiple of it, plus something that does not
        change."""
        if not isinstance(expr, ir.Op) or expr.name not in ("add", "sub", "mul"):
            return expr is loop.variable
        left, right = expr.args
        if expr.name == "mul":
            return isinstance(right, ir.Const) and right.value > 0 and is_shifted(left)
        if is_shifted(left):
            return is_fixed(right)
        return expr.name == "add" and is_fixed(left) and is_shifted(right)

    used = [s for s in loop.body.statements if isinstance(s, (ir.Load, ir.Store))]
    return any(is_shifted(s.index) for s in used)
