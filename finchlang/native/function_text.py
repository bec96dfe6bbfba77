"""The text of an LLVM function: instructions and labels, slots, expressions and memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from finchlang.base.errors import Bug
from finchlang.host import construct as code, ir, rewrite as rewriting
from finchlang.host.noted import UndoLog
from finchlang.native.abi import NO_LOG, Failure, Layout
from finchlang.native.emit_ops import Body, constant, emit_op, llvm_type, memory_type
from finchlang.native.library import procedure_name
from finchlang.native.module_text import INVARIANT, TBAA_SLOTS, UNLIKELY, Module
from finchlang.syntax.types import Bool, Int64, Type

#: statements that call a procedure of the library
_CALLING = (ir.Grow, ir.Search, ir.Sort, ir.SortBits)
#: where a value is: in a cell, or at an index of a buffer
Place = ir.Cell | tuple[ir.Buffer, ir.Expr]


def layout_of(residual: ir.Residual, undo_log: UndoLog = NO_LOG) -> Layout:
    """The layout of the kernel that `residual` becomes; the residual contains the undo log already."""
    statements = [s for s in rewriting.everything(residual) if not isinstance(s, ir.CallProcedure)]

    def numbers(found: Iterable[ir.Buffer]) -> tuple[int, ...]:
        chosen = set(found)
        return tuple(k for k, b in enumerate(residual.buffers) if b in chosen)

    def failure(s: ir.Fail) -> Failure:
        types = tuple(v.type for v in (*s.values, *s.note))
        return Failure(s.kind, s.message, types, s.span, noted=len(s.note))

    called = (s for s in statements if isinstance(s, _CALLING))
    return Layout(
        residual.name,
        tuple(b.type for b in residual.buffers),
        tuple(v.type for v in residual.inputs),
        tuple(c.type for c in residual.outputs),
        numbers(b for s in statements for b in rewriting.written(s)),
        numbers(rewriting.moved(statements)),
        tuple(failure(s) for s in statements if isinstance(s, ir.Fail)),
        tuple(dict.fromkeys(procedure_name(s) for s in called)),
        undo_log,
    )


def place_of(statement: ir.Store | ir.Set) -> Place:
    """Where `statement` writes a value."""
    return statement.cell if isinstance(statement, ir.Set) else (statement.buffer, statement.index)


@dataclass(slots=True)
class BufferAccess:
    """How a function reaches a buffer: its address, or, if it grows, the locals that hold address and
    capacity; and its slots. `load` and `store` are the metadata of accesses."""

    data: str
    capacity: str = ""
    slot: str = ""
    load: str = ""
    store: str = ""


class FunctionText(Body):
    """One LLVM function being written: instructions, slots, expressions and memory."""

    def __init__(self, module: Module, residual: ir.Residual, kernel: FunctionText | None = None):
        """`kernel` is the function on whose slots this one works, if that is another one."""
        self.module, self.residual = module, residual
        # what the function itself uses, which may be less than the procedures that it calls
        own = [s for s in rewriting.walk(residual.body) if not isinstance(s, ir.CallProcedure)]
        self.used = {buffer for s in own for buffer in rewriting.arrays(s)}
        self.own = {s.cell for s in own if isinstance(s, (ir.Get, ir.Set))}
        self.homes: dict[ir.Cell, str] = {}  # the memory of cells while other functions have them
        if kernel is None:
            everything = list(rewriting.everything(residual))
            fails = (s for s in everything if isinstance(s, ir.Fail))
            self.layout: Layout = layout_of(residual)
            self.exchanging = rewriting.exchanging(everything)
            self.failures = {id(fail): number for number, fail in enumerate(fails)}
        else:
            self.layout, self.exchanging = kernel.layout, kernel.exchanging
            self.failures = kernel.failures
        self.failure = self.layout.failure  # the first slot of the failure area
        self.lines: list[str] = []
        self.locals: list[str] = []
        self.is_exact = False  # LLVM may not change what is written now
        self.sums: set[ir.Op] = set()
        self.contents: dict[ir.Expr, Place] = {}  # what a variable was read from
        self.totals: dict[ir.Expr, Place] = {}  # where a variable will be written
        self.count = 0
        self.block = "start"  # the label of the block being written, "" behind the end of one
        self.given: dict[ir.Var, list[str]] = {}  # by arms that have ended, each with its label
        # around the current statement, the outermost first
        self.loops: list[ir.ForLoop | ir.WhileLoop] = []
        self.loaded: set[ir.Expr] = set()  # variables loaded in these loops
        self.exits: set[int] = set()
        self.values: dict[ir.Expr, str] = {}
        self.bound: list[ir.Expr] = []  # the keys of `values`, in order, for leaving scopes
        self.cells: dict[ir.Cell, str] = {}
        self.arrays: dict[ir.Buffer, BufferAccess] = {}
        for buffer, size in residual.scratch:
            self.arrays[buffer] = BufferAccess(self.local(f"[{size} x {memory_type(buffer.type)}]"))
        self.polls = rewriting.is_heavy(residual.body)
        self.budget = self.local("i64") if self.polls else ""
        self.counter = ir.Cell("budget", Int64)  # stands for the budget where cells are passed
        if self.polls:
            self.cells[self.counter] = self.budget
            self.own.add(self.counter)

    # ---------------------------------------------------------------------- writing instructions

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def new(self, instruction: str) -> str:
        name = self.name()
        self.do(f"{name} = {instruction}")
        return name

    def do(self, instruction: str) -> None:
        if self.block:
            self.lines.append("  " + instruction)

    def call(
        self, result: str, name: str, args: Sequence[str], how: str = "nounwind", flags: str = ""
    ) -> str:
        """Declare an external function, and call it with arguments, each with its type."""
        kinds = ", ".join(arg.rsplit(" ", 1)[0] for arg in args)
        self.module.declare(result, name, kinds, how)
        return self.new(f"call {flags}{result} @{name}({', '.join(args)})")

    def least(self, a: str, b: str) -> str:
        return self.call("i64", "llvm.smin.i64", [f"i64 {a}", f"i64 {b}"])

    def local(self, kind: str) -> str:
        """A new local variable: an alloca in the first block, which LLVM puts into a register."""
        self.count += 1
        self.locals.append(f"  %v{self.count} = alloca {kind}")
        return f"%v{self.count}"

    def labels(self, *names: str) -> list[str]:
        """New labels, which share a number."""
        self.count += 1
        return [f"{name}{self.count}" for name in names]

    def jump(self, label: str) -> None:
        self.do(f"br label %{label}")

    def choose(self, condition: str, then: str, otherwise: str, cold: bool = False) -> None:
        """Branch. `cold` says that `then` is unlikely."""
        weights = f", !prof {UNLIKELY}" if cold else ""
        self.do(f"br i1 {condition}, label %{then}, label %{otherwise}{weights}")

    @contextmanager
    def when(self, condition: str, cold: bool = False) -> Iterator[None]:
        """What is written here runs if `condition` holds."""
        then, end = self.labels("then", "end")
        self.choose(condition, then, end, cold)
        self.start(then)
        yield
        self.jump(end)
        self.start(end)

    def start(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.block = label

    def leave(self, status: int) -> str:
        """The label of the block that returns `status`, which `finish` writes."""
        self.exits.add(status)
        return f"status{status}"

    def finish(self, head: str, end: str) -> str:
        self.do(end)
        for status in sorted(self.exits):
            self.start(f"status{status}")
            self.do(f"ret i32 {status}")
        return "\n".join([head + " {", "start:", *self.locals, *self.lines, "}"])

    # ------------------------------------------------------------------------------------- slots

    def slot(self, number: int) -> str:
        return self.new(f"getelementptr i64, ptr %slots, i64 {number}")

    def open_array(self, number: int, buffer: ir.Buffer, slot: str) -> None:
        first = self.exchanging.get(buffer)  # one type for all that may have the same memory
        tag = self.module.tbaa(f"exchanging {first.name}" if first else f"buffer {number}")
        data = self.new(f"load ptr, ptr {slot}, !tbaa {TBAA_SLOTS}")
        load = f"{tag}, !invariant.load {INVARIANT}" if self.layout.is_frozen(number) else tag
        array = BufferAccess(data, slot=slot, load=load, store=tag)
        if number in self.layout.grown:
            array.data, array.capacity = self.local("ptr"), self.local("i64")
            self.do(f"store ptr {data}, ptr {array.data}")
            if first:  # it stays in memory, or loops that exchange would have too many locals
                array.capacity = self.new(f"getelementptr i64, ptr {slot}, i64 1")
            else:
                self.read_capacity(array)
        self.arrays[buffer] = array

    def read_capacity(self, array: BufferAccess) -> None:
        self.do(f"store i64 {self.stored_capacity(array)}, ptr {array.capacity}")

    def stored_capacity(self, array: BufferAccess) -> str:
        slot = self.new(f"getelementptr i64, ptr {array.slot}, i64 1")
        return self.new(f"load i64, ptr {slot}, !tbaa {TBAA_SLOTS}")

    def exchange(self, one: BufferAccess, other: BufferAccess) -> None:
        """Exchange the memory of two arrays: locals and slots."""
        first, second = (self.new(f"load ptr, ptr {array.data}") for array in (one, other))
        self.do(f"store ptr {second}, ptr {one.data}")
        self.do(f"store ptr {first}, ptr {other.data}")
        for k in range(3):
            a, b = (self.new(f"getelementptr i64, ptr {s.slot}, i64 {k}") for s in (one, other))
            first, second = (self.new(f"load i64, ptr {p}, !tbaa {TBAA_SLOTS}") for p in (a, b))
            self.do(f"store i64 {second}, ptr {a}, !tbaa {TBAA_SLOTS}")
            self.do(f"store i64 {first}, ptr {b}, !tbaa {TBAA_SLOTS}")

    def read_slot(self, number: int, type: Type) -> str:
        return self.read(type, self.slot(number), f", !tbaa {TBAA_SLOTS}")

    def write_slot(self, number: int, type: Type, value: str) -> None:
        kind, value, slot = memory_type(type), self.to_memory(type, value), self.slot(number)
        self.do(f"store {kind} {value}, ptr {slot}, !tbaa {TBAA_SLOTS}")

    def take_inputs(self) -> list[str]:
        """The parameters that the program's inputs are bound to."""
        for number, variable in enumerate(self.residual.inputs):
            self.bind(variable, f"%input{number}")
        return [f"{llvm_type(v.type)} %input{k}" for k, v in enumerate(self.residual.inputs)]

    # ------------------------------------------------------------------------------- expressions

    def bind(self, expr: ir.Expr, value: str) -> None:
        self.values[expr] = value
        self.bound.append(expr)

    def forget(self, known: int) -> None:
        for expr in self.bound[known:]:
            del self.values[expr]
        del self.bound[known:]

    def value(self, expr: ir.Expr) -> str:
        """The LLVM value of `expr`, computed here unless it is already in this scope."""
        if isinstance(expr, ir.Const):
            return constant(expr.value, expr.type)
        found = self.values.get(expr)
        if found is None:
            if not isinstance(expr, ir.Op):
                raise Bug(f"the variable {expr} is used where it is not bound")
            if expr.name == "exact":
                found = self.exact(expr.args[0])
            else:
                found = emit_op(self, expr, [self.value(arg) for arg in expr.args])
            self.bind(expr, found)
        return found

    def total(self, expr: ir.Expr, place: Place | None) -> str:
        """The value of `expr`, to be written at `place`. What is added to what is there may be added in any
        order."""
        if place and isinstance(expr, ir.Op) and expr.name in ("add", "sub"):
            added_to = expr.args if expr.name == "add" else expr.args[:1]
            if any(self.contents.get(arg) == place for arg in added_to):
                self.sums.add(expr)
        return self.value(expr)

    def exact(self, expr: ir.Expr) -> str:
        """The value of an operation on floats, which LLVM may not change."""
        if not isinstance(expr, ir.Op):
            return self.value(expr)
        args = [self.value(arg) for arg in expr.args]
        self.is_exact = True
        found = emit_op(self, expr, args)
        self.is_exact = False
        return found

    def is_stored(self, *exprs: ir.Expr) -> bool:
        """Whether any of `exprs` depends on what the loops around have loaded from an array."""
        for expr in exprs:
            if isinstance(expr, ir.Var) and expr.definition is not None:
                expr = expr.definition
            if expr in self.loaded or (isinstance(expr, ir.Op) and self.is_stored(*expr.args)):
                return True
        return False

    def read_cell(self, cell: ir.Cell) -> str:
        return self.new(f"load {llvm_type(cell.type)}, ptr {self.cell(cell)}")

    def cell(self, cell: ir.Cell) -> str:
        if cell not in self.cells:
            self.cells[cell] = self.local(llvm_type(cell.type))
        return self.cells[cell]

    def address(self, buffer: ir.Buffer, index: str) -> str:
        kind = memory_type(buffer.type)
        return self.new(f"getelementptr {kind}, ptr {self.data(buffer)}, i64 {index}")

    def data(self, buffer: ir.Buffer) -> str:
        array = self.arrays[buffer]
        return self.new(f"load ptr, ptr {array.data}") if array.capacity else array.data

    def room(self, buffer: ir.Buffer) -> str:
        """The capacity of an array in entries."""
        array = self.arrays[buffer]
        if array.capacity:
            return self.new(f"load i64, ptr {array.capacity}")
        return self.stored_capacity(array)

    def load(self, buffer: ir.Buffer, index: str) -> str:
        return self.read(buffer.type, self.address(buffer, index), self.arrays[buffer].load)

    def read(self, type: Type, address: str, tag: str) -> str:
        value = self.new(f"load {memory_type(type)}, ptr {address}{tag}")
        return self.new(f"icmp ne i8 {value}, 0") if type == Bool else value

    def disjoint(self, statement: ir.Disjoint) -> str:
        """Whether two blocks have nothing in common: one block, as a vector, is compared with each entry of
        the other."""
        buffer, other = statement.buffer, statement.other
        type = min(buffer.type, other.type, key=lambda type: type.bits)
        width, narrow = buffer.type.bits, type.bits
        wide, vector = f"<{ir.BLOCK} x i{width}>", f"<{ir.BLOCK} x i{narrow}>"
        address, tag = self.address(buffer, self.value(statement.index)), self.arrays[buffer].load
        ours = self.new(f"load {wide}, ptr {address}, align {width // 8}{tag}")
        ours = ours if wide == vector else self.new(f"trunc {wide} {ours} to {vector}")
        shift = self.value(code.cast(statement.shift, type))

        def all_of(entry: str) -> str:
            one = self.new(f"insertelement {vector} poison, i{narrow} {entry}, i64 0")
            both = f"{vector} {one}, {vector} poison"
            return self.new(f"shufflevector {both}, <{ir.BLOCK} x i32> zeroinitializer")

        ours, equal = self.new(f"add {vector} {ours}, {all_of(shift)}"), ""
        for k in range(ir.BLOCK):
            theirs = self.load(other, self.value(code.add(statement.place, k)))
            if other.type.bits != narrow:
                theirs = self.new(f"trunc i{other.type.bits} {theirs} to i{narrow}")
            same = self.new(f"icmp eq {vector} {ours}, {all_of(theirs)}")
            equal = self.new(f"or <{ir.BLOCK} x i1> {equal}, {same}") if equal else same
        bits = self.new(f"bitcast <{ir.BLOCK} x i1> {equal} to i{ir.BLOCK}")
        return self.new(f"icmp eq i{ir.BLOCK} {bits}, 0")

    def store(self, buffer: ir.Buffer, index: str, value: str) -> None:
        kind, tag = memory_type(buffer.type), self.arrays[buffer].store
        address = self.address(buffer, index)
        self.do(f"store {kind} {self.to_memory(buffer.type, value)}, ptr {address}{tag}")

    def to_memory(self, type: Type, value: str) -> str:
        return self.new(f"zext i1 {value} to i8") if type == Bool else value
