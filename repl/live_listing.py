"""Hosts that tell: one gives out each line of the residual program's listing when it is recorded, the other
keeps the first values of each statement of a residual program that it runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from typing import Any

from finchlang.host import ir
from finchlang.host.executing import ExecutingHost
from finchlang.host.interface import Body, Cells, Exprs, Shared
from finchlang.host.listing import Listing
from finchlang.host.recording import ResidualHost

#: so many values of each statement are shown
FIRST = 8
#: what a line is about: its statement, or the variable of a counting loop
About = ir.Stmt | ir.Var | None


class GrowingHost(ResidualHost):
    """A ResidualHost that calls `told` with every line of the listing, in order. Variables have the names
    that terms show, not those of a listing of the whole. `about` is what the line is about: its statement,
    the variable of a counting loop, or None."""

    def __init__(self, told: Callable[[str], None]):
        super().__init__()
        self._told = told
        self.about: About = None
        self._listing = _OwnNames()
        self._depth = 0
        self._open: list[Hashable] = []  # what is shared, while it is recorded
        self._else: int | None = None  # the depth of an `else` that needs a line after it
        # lines held back: the statements that compute a loop's condition
        self._test: list[tuple[str, About]] | None = None

    def _line(self, text: str, about: About = None) -> None:
        if self._test is not None:
            self._test.append((text, about))
            return
        self.about = None
        if self._else is not None:
            self._told("    " * self._else + "else")
            self._else = None
        self.about = about
        self._told("    " * self._depth + text)

    def do(self, statement: ir.Stmt) -> None:
        super().do(statement)
        if not isinstance(statement, (ir.Branch, ir.WhileLoop, ir.ForLoop)):
            self._line(self._listing.statement(statement), statement)

    def share(
        self, key: Hashable, values: Exprs, cells: Cells, body: Shared, is_closed: bool = False
    ) -> None:
        """Records the body each time, so that its lines are given out each time, but not within itself."""
        if not (is_closed and key in self._open):
            self._open.append(key)
            self.knowing({}, lambda: body(values, cells))
            self._open.pop()

    def _inside(self, body: Body, end: str = "") -> None:
        self._depth += 1
        body()
        self._depth -= 1
        if end:
            self._line(end)

    def branch(
        self,
        condition: ir.Expr,
        then: Body,
        otherwise: Body | None = None,
        is_rare: bool = False,
        variable: ir.Var | None = None,
    ) -> None:
        condition = self.reduced(condition)
        if isinstance(condition, ir.Const):
            super().branch(condition, then, otherwise, is_rare)
            return

        def other() -> None:
            self._else = self._depth
            if otherwise is not None:
                self._inside(otherwise)
            self._else = None

        nothing = ir.Code(())
        head = ir.Branch(condition, nothing, nothing, is_rare, variable)
        self._line(self._listing.head(head), None if variable is None else head)
        super().branch(condition, lambda: self._inside(then), other, is_rare, variable)
        self._line("end")

    def loop(self, condition: Callable[[], ir.Expr], body: Body, is_endless: bool = False) -> None:
        def look() -> ir.Expr:
            outer, self._test = self._test, []
            found = condition()
            test, self._test = self._test, outer
            value = self._listing.expr(found)
            if isinstance(found, ir.Const) and not found.value:  # it is never entered
                self._lines(test)
            elif not test:
                self._line(f"while {value}")
            else:
                self._line("while begin")
                self._depth += 2
                self._lines([*test, (value, None)])
                self._depth -= 1
                self._line("end")
                self._depth -= 1
            return found

        super().loop(look, lambda: self._inside(body, "end"), is_endless)

    def _lines(self, lines: list[tuple[str, About]]) -> None:
        for text, about in lines:
            self._line(text, about)

    def count(
        self, start: ir.Expr, stop: ir.Expr, body: Callable[[ir.Expr], None], name: str = "i"
    ) -> None:
        def once(variable: ir.Expr) -> None:
            span = f"{self._listing.expr(start, True)}:{self._listing.expr(stop, True)}"
            assert isinstance(variable, ir.Var)
            self._line(f"for {self._listing.expr(variable)} = {span}", variable)
            self._inside(lambda: body(variable), "end")

        super().count(start, stop, once, name)


class _OwnNames(Listing):
    """A listing with the own names of variables, whose numbers make them unique."""

    def name(self, thing: ir.Var | ir.Cell | ir.Buffer) -> str:
        self.names[thing] = thing.name
        return thing.name


class Enough(Exception):
    """Raised when the limit of values is reached."""


class WatchingHost(ExecutingHost):
    """An ExecutingHost that keeps the values that each statement binds, sets or stores, in order; `reads`
    has for each buffer the places that were loaded, in order. After `limit` values it raises Enough."""

    def __init__(self, limit: int):
        super().__init__()
        self.limit = limit
        self.values = defaultdict[Any, list[Any]](list)
        self.changed: set[ir.Buffer] = set()
        self.reads: dict[ir.Buffer, list[int]] = {}
        self.is_whole = False

    def of(self, about: Any) -> tuple[list[Any], int]:
        key: Any = getattr(about, "variable", about)
        if isinstance(about, ir.Set):
            key = about.cell, about.value
        elif isinstance(about, ir.Store):
            key = about.buffer, about.index, about.value
        return self.values[key][:FIRST], len(self.values[key])

    def _see(self, key: Any, value: Any) -> None:
        self.limit -= 1
        if self.limit < 0:
            raise Enough
        self.values[key].append(value)

    def do(self, statement: Any) -> None:
        super().do(statement)
        match statement:
            case ir.Load(variable, buffer, index):
                self.reads.setdefault(buffer, []).append(int(self.evaluate(index)))
                self._see(variable, variable.held)
            case ir.Bind() | ir.Get() | ir.Search():
                self._see(statement.variable, statement.variable.held)
            case ir.Branch(variable=ir.Var() as variable):
                self._see(variable, variable.held)
            case ir.Set(cell, value):
                self._see((cell, value), self.cells[cell])
            case ir.Store(buffer, index, value):
                self.changed.add(buffer)
                self._see((buffer, index, value), self.evaluate(value))
            case ir.Fill(buffer):
                self.changed.add(buffer)

    def turn(self, variable: ir.Var, i: int) -> None:
        super().turn(variable, i)
        self._see(variable, i)
