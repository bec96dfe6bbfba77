"""The executing host: each operation is performed at once on NumPy arrays; and the plain evaluator
of residual programs, which performs recorded operations on the same host.

What is stored stays an expression here too (DESIGN, law 2): a load gives a variable, and only this
host knows what the variable holds. One *host step* is one operation performed; a loop takes a step
for each time its condition is looked at or its body entered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from finchlang.base.errors import Bug, FinchError, Span, failure
from finchlang.host import interrupts, ir
from finchlang.host.construct import cast, key_among
from finchlang.host.primitives import apply
from finchlang.syntax.types import Bool, Int64, Type


class ExecutingHost:
    """Performs operations. `arrays` maps each Buffer to its NumPy array; what a variable holds
    is kept in the variable; `steps` counts what was done, by operation. An array has as
    many entries as it had, or as were asked for (`sizes`), whatever room there is; `unwritten` says of
    those of arrays that have grown, and of scratch memory, whether nothing was written there.

    Raises Bug for what is read or written where no entry is, or read where none was written."""

    def __init__(self, arrays: dict[ir.Buffer, np.ndarray] | None = None):
        self.arrays = arrays if arrays is not None else {}
        self.cells: dict[ir.Cell, Any] = {}
        self.procedures: dict[str, ir.Procedure] = {}
        self.sizes: dict[ir.Buffer, int] = {}
        self.unwritten: dict[ir.Buffer, np.ndarray] = {}
        self.steps: Counter[str] = Counter()
        self._names: Counter[str] = Counter()

    def fresh(self, name: str) -> str:
        self._names[name] += 1
        return f"{name}_{self._names[name]}"

    def evaluate(self, expr: ir.Expr) -> Any:
        """The value of a pure expression."""
        if isinstance(expr, ir.Const):
            return expr.value
        if isinstance(expr, ir.Var):
            return expr.held
        assert isinstance(expr, ir.Op)
        if expr.name == "select":
            chosen = expr.args[1] if self.evaluate(expr.args[0]) else expr.args[2]
            return self.evaluate(chosen)
        return self.compute(expr, [self.evaluate(a) for a in expr.args])

    def compute(self, operation: ir.Op, args: list[Any]) -> Any:
        """The value of an operation on these values."""
        return apply(operation.name, operation.type, operation.args[0].type, args)

    def bind(self, variable: ir.Var, value: Any) -> ir.Var:
        variable.held = value
        return variable

    def variable(
        self,
        name: str,
        type: Type,
        lower: ir.Expr | None = None,
        upper: ir.Expr | None = None,
        value: Any = None,
    ) -> ir.Var:
        """A variable bound from outside (an input of the kernel)."""
        return self.bind(ir.Var(self.fresh(name), type, lower, upper), value)

    # ------------------------------------------------------------------ operations of interface.py

    def let(
        self,
        expr: ir.Expr,
        name: str = "t",
        lower: ir.Expr | None = None,
        upper: ir.Expr | None = None,
    ) -> ir.Expr:
        if isinstance(expr, (ir.Const, ir.Var)):
            return expr
        variable = ir.Var(self.fresh(name), expr.type, lower, upper, expr)
        self.perform_let(variable, expr)
        return variable

    def perform_let(self, variable: ir.Var, expr: ir.Expr) -> None:
        self.steps["let"] += 1
        variable.held = self.evaluate(expr)

    def load(
        self,
        buffer: ir.Buffer,
        index: ir.Expr,
        name: str = "v",
        type: Type | None = None,
        lower: ir.Expr | None = None,
        upper: ir.Expr | None = None,
    ) -> ir.Expr:
        plain = type is None or type == buffer.type
        variable = ir.Var(
            self.fresh(name), buffer.type, lower if plain else None, upper if plain else None
        )
        self.perform_load(variable, buffer, index)
        if plain:
            return variable
        assert type is not None
        return self.let(cast(variable, type), name, lower, upper)

    def perform_load(self, variable: ir.Var, buffer: ir.Buffer, index: ir.Expr) -> None:
        self.steps["load"] += 1
        position = self.evaluate(index)
        variable.held = self._entries(buffer, position, position + 1)[0].item()

    def _entries(self, buffer: ir.Buffer, low: int, high: int, is_read: bool = True) -> np.ndarray:
        """buffer[low .. high - 1], which are there and, if they are read, were written."""
        array, unwritten = self.arrays[buffer], self.unwritten.get(buffer)
        if high <= low:
            return array[:0]
        size = self.sizes.get(buffer, len(array))
        if low < 0 or high > size:
            raise Bug(f"{buffer.name}[{low}:{high - 1}] of {size}")
        if unwritten is not None:
            if not is_read:
                unwritten[low:high] = False
            elif not buffer.is_anything and unwritten[low:high].any():
                raise Bug(f"{buffer.name}[{low}:{high - 1}] was never written")
        return array[low:high]

    def store(self, buffer: ir.Buffer, index: ir.Expr, value: ir.Expr) -> None:
        self.steps["store"] += 1
        position = self.evaluate(index)
        entry = self._entries(buffer, position, position + 1, False)
        entry[0] = self.evaluate(cast(value, buffer.type))

    def cell(self, init: ir.Expr, name: str = "c") -> ir.Cell:
        cell = ir.Cell(self.fresh(name), init.type)
        self.set(cell, init)
        return cell

    def get(
        self, cell: ir.Cell, lower: ir.Expr | None = None, upper: ir.Expr | None = None
    ) -> ir.Expr:
        variable = ir.Var(self.fresh(cell.name.rsplit("_", 1)[0]), cell.type, lower, upper)
        self.perform_get(variable, cell)
        return variable

    def perform_get(self, variable: ir.Var, cell: ir.Cell) -> None:
        self.steps["get"] += 1
        variable.held = self.cells[cell]

    def set(self, cell: ir.Cell, value: ir.Expr) -> None:
        self.steps["set"] += 1
        self.cells[cell] = self.evaluate(cast(value, cell.type))

    def branch(
        self,
        condition: ir.Expr,
        then: Callable[[], None],
        otherwise: Callable[[], None] | None = None,
        is_rare: bool = False,
    ) -> None:
        if not isinstance(condition, ir.Const):
            self.steps["branch"] += 1
        if self.evaluate(condition):
            then()
        elif otherwise is not None:
            otherwise()

    def loop(
        self, condition: Callable[[], ir.Expr], body: Callable[[], None], is_endless: bool = False
    ) -> None:
        while True:
            interrupts.check()
            test = condition()
            if isinstance(test, ir.Const) and not test.value:
                return
            self.steps["loop"] += 1
            if not self.evaluate(test):
                return
            body()

    def count(
        self, start: ir.Expr, stop: ir.Expr, body: Callable[[ir.Expr], None], name: str = "i"
    ) -> None:
        self.perform_count(ir.Var(self.fresh(name), Int64, start, stop), start, stop, body)

    def perform_count(
        self, variable: ir.Var, start: ir.Expr, stop: ir.Expr, body: Callable[[ir.Expr], None]
    ) -> None:
        for i in range(self.evaluate(start), self.evaluate(stop) + 1):
            interrupts.check()
            self.steps["count"] += 1
            variable.held = i
            body(variable)

    def grow(self, buffer: ir.Buffer, size: ir.Expr) -> None:
        self.steps["grow"] += 1
        wanted, array = self.evaluate(size), self.arrays[buffer]
        self.sizes[buffer] = max(wanted, self.sizes.get(buffer, len(array)))
        if wanted > len(array):
            try:
                new = np.zeros(max(wanted, 2 * len(array), 4), array.dtype)
            except (MemoryError, ValueError, OverflowError):
                raise FinchError("resource", f"no memory for {wanted} entries") from None
            new[: len(array)] = array
            self.arrays[buffer] = new
            unwritten = np.ones(len(new), bool)
            unwritten[: len(array)] = self.unwritten.get(buffer, False)
            self.unwritten[buffer] = unwritten

    def fill(self, buffer: ir.Buffer, start: ir.Expr, stop: ir.Expr, value: ir.Expr) -> None:
        self.steps["fill"] += 1
        entries = self._entries(buffer, self.evaluate(start), self.evaluate(stop), False)
        entries[:] = self.evaluate(cast(value, buffer.type))

    def search(
        self, buffer: ir.Buffer, start: ir.Expr, stop: ir.Expr, key: ir.Expr, name: str = "q"
    ) -> ir.Var:
        variable = ir.Var(self.fresh(name), Int64, start, stop)
        self.perform_search(variable, buffer, start, stop, key)
        return variable

    def perform_search(
        self, variable: ir.Var, buffer: ir.Buffer, start: ir.Expr, stop: ir.Expr, key: ir.Expr
    ) -> None:
        low, high = self.evaluate(start), self.evaluate(stop)
        part = self._entries(buffer, low, high)
        found = int(np.searchsorted(part, self.evaluate(key_among(key, buffer.type)), "left"))
        self.steps["search"] += 1 + found.bit_length()  # an exponential, then a binary search
        variable.held = low + found

    def disjoint(
        self, buffer: ir.Buffer, index: ir.Expr, shift: ir.Expr, other: ir.Buffer, place: ir.Expr
    ) -> ir.Expr:
        variable = ir.Var(self.fresh("disjoint"), Bool)
        self.perform_disjoint(variable, buffer, index, shift, other, place)
        return variable

    def perform_disjoint(
        self,
        variable: ir.Var,
        buffer: ir.Buffer,
        index: ir.Expr,
        shift: ir.Expr,
        other: ir.Buffer,
        place: ir.Expr,
    ) -> None:
        self.steps["disjoint"] += 1
        modulus = 1 << min(buffer.type.bits, other.type.bits)

        def block(buffer: ir.Buffer, first: ir.Expr, shift: int) -> set[int]:
            start = self.evaluate(first)
            entries = self._entries(buffer, start, start + ir.BLOCK)
            return {(i + shift) % modulus for i in entries.tolist()}

        first = block(buffer, index, self.evaluate(shift))
        variable.held = first.isdisjoint(block(other, place, 0))

    def sort(self, buffer: ir.Buffer, start: ir.Expr, stop: ir.Expr) -> None:
        low, high = self.evaluate(start), self.evaluate(stop)
        self.steps["sort"] += 1 + max(0, high - low)
        self._entries(buffer, low, high).sort()

    def sort_by(
        self,
        numbers: ir.Buffer,
        scratch: ir.Buffer,
        start: ir.Expr,
        stop: ir.Expr,
        keys: ir.Buffer,
        bound: ir.Expr,
    ) -> None:
        table, above = self.arrays[keys], self.evaluate(bound)

        def key(part: np.ndarray) -> np.ndarray:
            if part.min() < 0 or part.max() >= len(table):
                raise Bug(f"{numbers.name} are not all below {len(table)}")
            if keys in self.unwritten and self.unwritten[keys][part].any():
                raise Bug(f"keys in {keys.name} were never written")
            own = table[part]
            if own.min() < 0 or own.max() >= above:
                raise Bug(f"keys in {keys.name} are not all in 0..{above - 1}")
            return own

        self._sort_stably("sort_by", numbers, scratch, start, stop, key)

    def sort_bits(
        self,
        words: ir.Buffer,
        scratch: ir.Buffer,
        start: ir.Expr,
        stop: ir.Expr,
        low: ir.Expr,
        high: ir.Expr,
    ) -> None:
        first, behind = self.evaluate(low), self.evaluate(high)

        def key(part: np.ndarray) -> np.ndarray:
            if not 0 <= first <= behind <= 63:
                raise Bug(f"a sort by the bits {first} to {behind}")
            return (part >> first) & ((1 << (behind - first)) - 1)

        self._sort_stably("sort_bits", words, scratch, start, stop, key)

    def _sort_stably(
        self,
        step: str,
        buffer: ir.Buffer,
        scratch: ir.Buffer,
        start: ir.Expr,
        stop: ir.Expr,
        key: Callable[[np.ndarray], np.ndarray],
    ) -> None:
        low, high = self.evaluate(start), self.evaluate(stop)
        self.steps[step] += 1 + max(0, high - low)
        if low >= high:
            return
        entries = self._entries(buffer, low, high)
        entries[:] = entries[np.argsort(key(entries), kind="stable")]
        self._entries(scratch, low, high, False)[:] = 0  # it is undefined
        if scratch in self.unwritten:
            self.unwritten[scratch][low:high] = True

    def share(
        self,
        key: Hashable,
        values: tuple[ir.Expr, ...],
        cells: tuple[ir.Cell, ...],
        body: Callable[[tuple[ir.Expr, ...], tuple[ir.Cell, ...]], None],
    ) -> None:
        body(tuple([self.bind(ir.Var("p", v.type), self.evaluate(v)) for v in values]), cells)

    def perform_call(self, procedure: ir.Procedure, statement: ir.CallProcedure) -> None:
        """What is bound to the procedure's own names, whose code may be that of a caller, stays so."""
        values = [self.evaluate(value) for value in statement.values]
        contents = [self.cells.get(cell) for cell in statement.cells]
        before = [getattr(variable, "held", None) for variable in procedure.inputs]
        around = [self.cells.get(cell) for cell in procedure.cells]
        for variable, value in zip(procedure.inputs, values, strict=True):
            variable.held = value
        self.cells.update(zip(procedure.cells, contents, strict=True))
        run_code(procedure.body, self)
        contents = [self.cells[cell] for cell in procedure.cells]
        for variable, value in zip(procedure.inputs, before, strict=True):
            variable.held = value
        self.cells.update(zip(procedure.cells, around, strict=True))
        self.cells.update(zip(statement.cells, contents, strict=True))

    def fail(
        self, kind: str, message: str, values: tuple[ir.Expr, ...] = (), span: Span | None = None
    ) -> None:
        raise failure(kind, message.format(*(self.evaluate(v) for v in values)), span)


def run_code(code: ir.Code, host: ExecutingHost) -> None:
    """Perform recorded statements, one by one."""
    for statement in code.statements:
        _run(statement, host)


def _run(statement: ir.Stmt, host: ExecutingHost) -> None:
    match statement:
        case ir.Bind(variable, expr):
            host.perform_let(variable, expr)
        case ir.Load(variable, buffer, index):
            host.perform_load(variable, buffer, index)
        case ir.Store(buffer, index, value):
            host.store(buffer, index, value)
        case ir.Get(variable, cell):
            host.perform_get(variable, cell)
        case ir.Set(cell, value):
            host.set(cell, value)
        case ir.Branch(condition, then, otherwise):
            host.branch(condition, lambda: run_code(then, host), lambda: run_code(otherwise, host))
        case ir.WhileLoop(test, condition, body):

            def look() -> ir.Expr:
                run_code(test, host)
                return condition

            host.loop(look, lambda: run_code(body, host))
        case ir.ForLoop(variable, start, stop, body):
            host.perform_count(variable, start, stop, lambda _: run_code(body, host))
        case ir.Room(variable, buffer):
            host.bind(variable, host.sizes.get(buffer, len(host.arrays[buffer])))
        case ir.Grow(buffer, size):
            host.grow(buffer, size)
        case ir.Fill(buffer, start, stop, value):
            host.fill(buffer, start, stop, value)
        case ir.Search(variable, buffer, start, stop, key):
            host.perform_search(variable, buffer, start, stop, key)
        case ir.Disjoint(variable, buffer, index, shift, other, place):
            host.perform_disjoint(variable, buffer, index, shift, other, place)
        case ir.Sort(buffer, start, stop):
            host.sort(buffer, start, stop)
        case ir.SortBy(buffer, scratch, start, stop, keys, bound):
            host.sort_by(buffer, scratch, start, stop, keys, bound)
        case ir.SortBits(buffer, scratch, start, stop, low, high):
            host.sort_bits(buffer, scratch, start, stop, low, high)
        case ir.CallProcedure():
            host.perform_call(host.procedures[statement.name], statement)
        case ir.Fail(kind, message, values, span):
            host.fail(kind, message, values, span)
        case _:
            raise Bug(f"unknown statement {statement!r}")


def run_residual(
    residual: ir.Residual,
    arrays: Sequence[np.ndarray],
    inputs: Sequence[Any],
    host: ExecutingHost | None = None,
) -> tuple[ExecutingHost, list[np.ndarray], list[Any]]:
    """Run a residual program; gives the host (for its steps), the arrays and the outputs."""
    host = host or ExecutingHost()
    host.arrays |= dict(zip(residual.buffers, arrays, strict=True))
    host.arrays |= {b: np.empty(size, b.type.dtype) for b, size in residual.scratch}
    host.unwritten |= {b: np.ones(size, bool) for b, size in residual.scratch}
    for variable, value in zip(residual.inputs, inputs, strict=True):
        variable.held = value
    host.procedures = {procedure.name: procedure for procedure in residual.procedures}
    run_code(residual.body, host)
    outputs = [host.cells[cell] for cell in residual.outputs]
    return host, [host.arrays[b] for b in residual.buffers], outputs
