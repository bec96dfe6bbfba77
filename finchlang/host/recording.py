"""The recording host: each operation is appended to the code being built."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from finchlang.base.errors import Span
from finchlang.host import ir
from finchlang.host.construct import cast, key_among
from finchlang.host.rewrite import (
    arrays,
    cells_of,
    changes,
    free_variables,
    rewrite,
    substituted,
    walk,
)
from finchlang.syntax.types import Bool, Int64, Type

#: Code of fewer statements is recorded again rather than called.
SHORT = 20
#: Code of more is called even if that is done once: LLVM takes more than twice the time for a function
#: that is twice as long.
LONG = 2_500


class ResidualHost:
    """Records what the rules do. `code()` is everything recorded so far at the outermost level."""

    def __init__(self) -> None:
        self._names: Counter[str] = Counter()
        self._blocks: list[list[ir.Stmt]] = [[]]
        self._passing: set[ir.Expr] = set()  # variables of loops and procedures
        self._own: list[set[ir.Cell]] = [set()]  # the cells made in each procedure being recorded
        self._shared: dict[Hashable, ir.CallProcedure] = {}
        self._procedures: dict[str, ir.Procedure] = {}  # those called before those that call them
        self._calls: Counter[str] = Counter()
        self._lengths: dict[str, int] = {}  # of procedures

    def code(self) -> ir.Code:
        """What is recorded as a procedure and called once stands where it is called, if all is not long."""
        return self._placed(ir.Code(tuple(self._blocks[0])))

    def procedures(self) -> tuple[ir.Procedure, ...]:
        """What is called several times; if code is long and has such, what is called once, too."""
        kept = (p for p in self._procedures.values() if self._is_called(p.name))
        return tuple([replace(p, body=self._placed(p.body)) for p in kept])

    def _is_called(self, name: str) -> bool:
        if self._lengths[name] < SHORT:
            return False
        is_long = sum(self._lengths.values()) > LONG
        return self._calls[name] > 1 or (is_long and max(self._calls.values()) > 1)

    def _placed(self, code: ir.Code) -> ir.Code:
        """`code` with procedures in place of their calls, but for those that are to be called."""

        def place(statement: ir.Stmt) -> tuple[ir.Stmt, ...]:
            if not isinstance(statement, ir.CallProcedure) or self._is_called(statement.name):
                return (statement,)
            procedure = self._procedures[statement.name]
            values = dict(zip(procedure.inputs, statement.values, strict=True))
            cells = dict(zip(procedure.cells, statement.cells, strict=True))
            return self._placed(substituted(procedure.body, {**values, **cells})).statements

        return rewrite(code, place) if self._calls else code

    def fresh(self, name: str) -> str:
        self._names[name] += 1
        return f"{name}_{self._names[name]}"

    def _emit(self, statement: ir.Stmt) -> None:
        self._blocks[-1].append(statement)

    def _record(self, body: Callable[[], object]) -> ir.Code:
        self._blocks.append([])
        body()
        return ir.Code(tuple(self._blocks.pop()))

    def variable(
        self, name: str, type: Type, lower: ir.Expr | None = None, upper: ir.Expr | None = None
    ) -> ir.Var:
        """A variable bound from outside (an input of the kernel)."""
        return ir.Var(self.fresh(name), type, lower, upper)

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
        self._emit(ir.Bind(variable, expr))
        return variable

    def load(
        self,
        buffer: ir.Buffer,
        index: ir.Expr,
        name: str = "v",
        type: Type | None = None,
        lower: ir.Expr | None = None,
        upper: ir.Expr | None = None,
    ) -> ir.Expr:
        # the facts are about the value as read, so they go on the cast variable if there is a cast
        plain = type is None or type == buffer.type
        variable = ir.Var(
            self.fresh(name), buffer.type, lower if plain else None, upper if plain else None
        )
        self._emit(ir.Load(variable, buffer, index))
        if plain:
            return variable
        assert type is not None
        return self.let(cast(variable, type), name, lower, upper)

    def store(self, buffer: ir.Buffer, index: ir.Expr, value: ir.Expr) -> None:
        self._emit(ir.Store(buffer, index, cast(value, buffer.type)))

    def cell(self, init: ir.Expr, name: str = "c") -> ir.Cell:
        cell = ir.Cell(self.fresh(name), init.type)
        self._own[-1].add(cell)
        self._emit(ir.Set(cell, init))
        return cell

    def get(
        self, cell: ir.Cell, lower: ir.Expr | None = None, upper: ir.Expr | None = None
    ) -> ir.Expr:
        variable = ir.Var(self.fresh(cell.name.rsplit("_", 1)[0]), cell.type, lower, upper)
        self._emit(ir.Get(variable, cell))
        return variable

    def set(self, cell: ir.Cell, value: ir.Expr) -> None:
        self._emit(ir.Set(cell, cast(value, cell.type)))

    def branch(
        self,
        condition: ir.Expr,
        then: Callable[[], None],
        otherwise: Callable[[], None] | None = None,
        is_rare: bool = False,
    ) -> None:
        if isinstance(condition, ir.Const):
            if condition.value:
                then()
            elif otherwise is not None:
                otherwise()
            return
        code = self._record(then)
        other = self._record(otherwise) if otherwise is not None else ir.Code(())
        self._emit(ir.Branch(condition, code, other, is_rare))

    def loop(
        self, condition: Callable[[], ir.Expr], body: Callable[[], None], is_endless: bool = False
    ) -> None:
        tests: list[ir.Expr] = []
        test = self._record(lambda: tests.append(condition()))
        if isinstance(tests[0], ir.Const) and not tests[0].value:
            for statement in test.statements:
                self._emit(statement)
            return
        self._emit(ir.WhileLoop(test, tests[0], self._record(body), is_endless))

    def count(
        self, start: ir.Expr, stop: ir.Expr, body: Callable[[ir.Expr], None], name: str = "i"
    ) -> None:
        variable = ir.Var(self.fresh(name), Int64, start, stop)
        self._passing.add(variable)
        self._emit(ir.ForLoop(variable, start, stop, self._record(lambda: body(variable))))

    def grow(self, buffer: ir.Buffer, size: ir.Expr) -> None:
        self._emit(ir.Grow(buffer, size))

    def fill(self, buffer: ir.Buffer, start: ir.Expr, stop: ir.Expr, value: ir.Expr) -> None:
        self._emit(ir.Fill(buffer, start, stop, cast(value, buffer.type)))

    def search(
        self, buffer: ir.Buffer, start: ir.Expr, stop: ir.Expr, key: ir.Expr, name: str = "q"
    ) -> ir.Var:
        variable = ir.Var(self.fresh(name), Int64, start, stop)
        self._emit(ir.Search(variable, buffer, start, stop, key_among(key, buffer.type)))
        return variable

    def disjoint(
        self, buffer: ir.Buffer, index: ir.Expr, shift: ir.Expr, other: ir.Buffer, place: ir.Expr
    ) -> ir.Expr:
        variable = ir.Var(self.fresh("disjoint"), Bool)
        self._emit(ir.Disjoint(variable, buffer, index, shift, other, place))
        return variable

    def sort(self, buffer: ir.Buffer, start: ir.Expr, stop: ir.Expr) -> None:
        self._emit(ir.Sort(buffer, start, stop))

    def sort_by(
        self,
        numbers: ir.Buffer,
        scratch: ir.Buffer,
        start: ir.Expr,
        stop: ir.Expr,
        keys: ir.Buffer,
        bound: ir.Expr,
    ) -> None:
        self._emit(ir.SortBy(numbers, scratch, start, stop, keys, bound))

    def sort_bits(
        self,
        words: ir.Buffer,
        scratch: ir.Buffer,
        start: ir.Expr,
        stop: ir.Expr,
        low: ir.Expr,
        high: ir.Expr,
    ) -> None:
        self._emit(ir.SortBits(words, scratch, start, stop, low, high))

    def share(
        self,
        key: Hashable,
        values: tuple[ir.Expr, ...],
        cells: tuple[ir.Cell, ...],
        body: Callable[[tuple[ir.Expr, ...], tuple[ir.Cell, ...]], None],
    ) -> None:
        found = self._shared.get(key)
        if found is None:
            found = self._procedure(key, values, cells, body)
        self._calls[found.name] += 1
        values += found.values[len(values) :]
        cells += found.cells[len(cells) :]
        self._emit(replace(found, values=values, cells=cells))

    def _procedure(
        self,
        key: Hashable,
        values: tuple[ir.Expr, ...],
        cells: tuple[ir.Cell, ...],
        body: Callable[[tuple[ir.Expr, ...], tuple[ir.Cell, ...]], None],
    ) -> ir.CallProcedure:
        """Record a procedure; gives its call in its own terms. Behind those that each call has others for,
        inputs and cells are what it uses of the code around. If that is not there wherever the
        procedure may be called, it is not shared."""
        inputs = tuple([ir.Var(self.fresh("p"), value.type) for value in values])
        self._passing.update(inputs)
        places = tuple(
            [ir.Cell(self.fresh(cell.name.rsplit("_", 1)[0]), cell.type) for cell in cells]
        )
        self._own.append(set(places))
        code = self._record(lambda: body(inputs, places))
        own = self._own.pop()
        free = tuple(v for v in free_variables(code) if v not in inputs)
        outer = tuple(c for c in cells_of(code) if c not in own)
        name = self.fresh("rest")
        procedure = ir.Procedure(name, inputs + free, places + outer, code)
        self._procedures[name] = procedure
        used = tuple(dict.fromkeys(b for s in walk(code) for b in arrays(s)))
        changed = tuple(dict.fromkeys(b for s in walk(code) for b in changes(s)))
        found = ir.CallProcedure(name, procedure.inputs, procedure.cells, used, changed)
        outermost, *inner = self._blocks
        passing = {getattr(s, "variable", None) for block in inner for s in block} | self._passing
        known = {s.cell for s in outermost if isinstance(s, ir.Set)}
        self._lengths[name] = sum(1 for _ in walk(code))
        if self._lengths[name] >= SHORT and passing.isdisjoint(free) and known.issuperset(outer):
            self._shared[key] = found
        return found

    def fail(
        self, kind: str, message: str, values: tuple[ir.Expr, ...] = (), span: Span | None = None
    ) -> None:
        self._emit(ir.Fail(kind, message, values, span))


@contextmanager
def no_collection() -> Iterator[None]:
    """Staging makes very many objects that all stay until it is done: Python would look for garbage
    among them again and again, in vain, which can take a fifth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
