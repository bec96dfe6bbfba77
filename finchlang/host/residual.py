"""The recording host: each operation is appended to the code being built."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from finchlang.host import ir
from finchlang.host.fold import cast
from finchlang.host.ir import Buffer, Cell, Code, Const, Expr, Stmt, Var
from finchlang.source import Span
from finchlang.types import Int64, Type


class ResidualHost:
    """Records what the rules do. `code()` is everything recorded so far at the outermost level."""

    def __init__(self) -> None:
        self._names: Counter[str] = Counter()
        self._blocks: list[list[Stmt]] = [[]]

    def code(self) -> Code:
        return Code(tuple(self._blocks[0]))

    def fresh(self, name: str) -> str:
        self._names[name] += 1
        return f"{name}_{self._names[name]}"

    def _emit(self, statement: Stmt) -> None:
        self._blocks[-1].append(statement)

    def _record(self, body: Callable[[], object]) -> Code:
        self._blocks.append([])
        body()
        return Code(tuple(self._blocks.pop()))

    def variable(
        self, name: str, type: Type, lower: Expr | None = None, upper: Expr | None = None
    ) -> Var:
        """A variable bound from outside (an input of the kernel)."""
        return Var(self.fresh(name), type, lower, upper)

    def let(
        self, expr: Expr, name: str = "t", lower: Expr | None = None, upper: Expr | None = None
    ) -> Expr:
        if isinstance(expr, (Const, Var)):
            return expr
        variable = Var(self.fresh(name), expr.type, lower, upper, expr)
        self._emit(ir.Let(variable, expr))
        return variable

    def load(
        self,
        buffer: Buffer,
        index: Expr,
        name: str = "v",
        type: Type | None = None,
        lower: Expr | None = None,
        upper: Expr | None = None,
    ) -> Expr:
        # the facts are about the value as read, so they go on the cast variable if there is a cast
        plain = type is None or type == buffer.type
        variable = Var(
            self.fresh(name), buffer.type, lower if plain else None, upper if plain else None
        )
        self._emit(ir.Load(variable, buffer, index))
        if plain:
            return variable
        assert type is not None
        return self.let(cast(variable, type), name, lower, upper)

    def store(self, buffer: Buffer, index: Expr, value: Expr) -> None:
        self._emit(ir.Store(buffer, index, cast(value, buffer.type)))

    def cell(self, init: Expr, name: str = "c") -> Cell:
        cell = Cell(self.fresh(name), init.type)
        self._emit(ir.Set(cell, init))
        return cell

    def get(self, cell: Cell, lower: Expr | None = None, upper: Expr | None = None) -> Expr:
        variable = Var(self.fresh(cell.name.rsplit("_", 1)[0]), cell.type, lower, upper)
        self._emit(ir.Get(variable, cell))
        return variable

    def set(self, cell: Cell, value: Expr) -> None:
        self._emit(ir.Set(cell, cast(value, cell.type)))

    def branch(
        self,
        condition: Expr,
        then: Callable[[], None],
        otherwise: Callable[[], None] | None = None,
        is_rare: bool = False,
    ) -> None:
        if isinstance(condition, Const):
            if condition.value:
                then()
            elif otherwise is not None:
                otherwise()
            return
        code = self._record(then)
        other = self._record(otherwise) if otherwise is not None else Code(())
        self._emit(ir.If(condition, code, other, is_rare))

    def loop(
        self, condition: Callable[[], Expr], body: Callable[[], None], is_endless: bool = False
    ) -> None:
        tests: list[Expr] = []
        test = self._record(lambda: tests.append(condition()))
        if isinstance(tests[0], Const) and not tests[0].value:
            for statement in test.statements:
                self._emit(statement)
            return
        self._emit(ir.While(test, tests[0], self._record(body), is_endless))

    def count(self, start: Expr, stop: Expr, body: Callable[[Expr], None], name: str = "i") -> None:
        variable = Var(self.fresh(name), Int64, start, stop)
        self._emit(ir.For(variable, start, stop, self._record(lambda: body(variable))))

    def grow(self, buffer: Buffer, size: Expr) -> None:
        self._emit(ir.Grow(buffer, size))

    def fill(self, buffer: Buffer, start: Expr, stop: Expr, value: Expr) -> None:
        self._emit(ir.Fill(buffer, start, stop, cast(value, buffer.type)))

    def search(self, buffer: Buffer, start: Expr, stop: Expr, key: Expr, name: str = "q") -> Var:
        variable = Var(self.fresh(name), Int64, start, stop)
        self._emit(ir.Search(variable, buffer, start, stop, cast(key, buffer.type)))
        return variable

    def sort(self, buffer: Buffer, start: Expr, stop: Expr) -> None:
        self._emit(ir.Sort(buffer, start, stop))

    def sort_by(
        self,
        numbers: Buffer,
        scratch: Buffer,
        start: Expr,
        stop: Expr,
        keys: Buffer,
        bound: Expr,
    ) -> None:
        self._emit(ir.SortBy(numbers, scratch, start, stop, keys, bound))

    def sort_bits(
        self, words: Buffer, scratch: Buffer, start: Expr, stop: Expr, low: Expr, high: Expr
    ) -> None:
        self._emit(ir.SortBits(words, scratch, start, stop, low, high))

    def fail(
        self, kind: str, message: str, values: tuple[Expr, ...] = (), span: Span | None = None
    ) -> None:
        self._emit(ir.Fail(kind, message, values, span))
