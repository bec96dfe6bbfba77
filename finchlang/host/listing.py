"""A residual program as a text to read: deterministic, and complete but for errors' spans."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from finchlang.base.errors import Bug
from finchlang.host import ir


def text(residual: ir.Residual) -> str:
    """The listing of `residual`.

    Variables and cells are bound with their types (`p: Int64 = ...`; `cell c: Int64 := ...` where a
    cell is first set). Equal names are told apart by numbers in the order of first appearance, so
    the listing does not depend on how a residual came about, and equal listings mean the same.
    """
    return Listing().text(residual)


#: statements that are listed as calls of their operands, with their names
_CALLED = (
    *(ir.Grow, ir.Room, ir.Clock, ir.Exchange, ir.Fill, ir.Search, ir.Disjoint),
    *(ir.Sort, ir.SortBits),
)
_CALLS = {kind: re.sub("(?<=.)(?=[A-Z])", "_", kind.__name__).lower() for kind in _CALLED}


class Listing:
    """The lines listed so far, and the names used in them."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[Any, str] = {}
        self.used: set[str] = set()
        self.numbers: dict[str, int] = {}  # the last one of each repeated name

    def text(self, residual: ir.Residual) -> str:
        buffers = ", ".join(f"{self.name(b)}: {b.type}[]" for b in residual.buffers)
        head = f"kernel {residual.name}({buffers}; {self.typed(residual.inputs)})"
        for procedure in residual.procedures:
            self.procedure(procedure)
        self.code(residual.body, 1)
        if residual.outputs:
            self.line(1, f"return {self.typed(residual.outputs)}")
        return "\n".join([head, *self.lines, "end", ""])

    def procedure(self, procedure: ir.Procedure) -> None:
        given = f"{self.typed(procedure.inputs)}; {self.typed(procedure.cells)}"
        self.line(1, f"procedure {procedure.name}({given})")
        self.code(procedure.body, 2)
        self.line(1, "end")

    def name(self, thing: ir.Var | ir.Cell | ir.Buffer) -> str:
        """The name under which a thing is listed: its own, without the number that its host gave it."""
        found = self.names.get(thing)
        if found is None:
            base = re.sub(r"_\d+$", "", thing.name) or thing.name
            found, number = base, self.numbers.get(base, 1)
            while found in self.used:
                number += 1
                found = f"{base}_{number}"
            self.numbers[base] = number
            self.used.add(found)
            self.names[thing] = found
        return found

    def typed(self, things: Iterable[ir.Var | ir.Cell]) -> str:
        return ", ".join(f"{self.name(thing)}: {thing.type}" for thing in things)

    # ------------------------------------------------------------------------------- expressions

    def expr(self, expr: ir.Expr, inside: bool = False) -> str:
        """`expr` as text; with `inside` an operation is put in parentheses."""
        return ir.written(expr, self.name, inside)

    # -------------------------------------------------------------------------------- statements

    def code(self, code: ir.Code, depth: int) -> None:
        for statement in code.statements:
            self.statement(statement, depth)

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def bind(self, depth: int, variable: ir.Var, value: str) -> None:
        self.line(depth, f"{self.name(variable)}: {variable.type} = {value}")

    def statement(self, statement: ir.Stmt, depth: int) -> None:
        match statement:
            case ir.Bind(variable, expr):
                self.bind(depth, variable, self.expr(expr))
            case ir.Load(variable, buffer, index):
                self.bind(depth, variable, f"{self.name(buffer)}[{self.expr(index)}]")
            case ir.Store(buffer, index, value):
                target = f"{self.name(buffer)}[{self.expr(index)}]"
                self.line(depth, f"{target} = {self.expr(value)}")
            case ir.Get(variable, cell):
                self.bind(depth, variable, self.name(cell))
            case ir.Set(cell, value):
                content = self.expr(value)
                target = self.name(cell) if cell in self.names else self.new_cell(cell)
                self.line(depth, f"{target} := {content}")
            case ir.Branch(condition, then, otherwise):
                self.line(depth, self.head(statement))
                self.code(then, depth + 1)
                if otherwise.statements:
                    self.line(depth, "else")
                    self.code(otherwise, depth + 1)
                self.line(depth, "end")
            case ir.Give(_, value):
                self.line(depth, self.expr(value))
            case ir.WhileLoop(test, condition, body):
                self.loop(test, condition, body, depth)
            case ir.ForLoop(variable, start, stop, body):
                span = f"{self.expr(start, True)}:{self.expr(stop, True)}"
                how = "  # step by step" if statement.is_plain else ""
                self.line(depth, f"for {self.name(variable)} = {span}{how}")
                self.code(body, depth + 1)
                self.line(depth, "end")
            case _:
                self.line(depth, self.simple(statement))

    def head(self, branch: ir.Branch) -> str:
        name = "" if branch.variable is None else f"{self.typed([branch.variable])} = "
        return f"{name}if {self.expr(branch.condition)}{'  # rarely' * branch.is_rare}"

    def new_cell(self, cell: ir.Cell) -> str:
        return f"cell {self.name(cell)}: {cell.type}"

    def loop(self, test: ir.Code, condition: ir.Expr, body: ir.Code, depth: int) -> None:
        if not test.statements:
            self.line(depth, f"while {self.expr(condition)}")
        else:
            self.line(depth, "while begin")
            self.code(test, depth + 2)
            self.line(depth + 2, self.expr(condition))
            self.line(depth + 1, "end")
        self.code(body, depth + 1)
        self.line(depth, "end")

    def simple(self, statement: Any) -> str:
        match statement:
            case ir.CallProcedure(name, values, cells):
                numbers = ", ".join(self.expr(v) for v in values)
                return f"call {name}({numbers}; {', '.join(map(self.name, cells))})"
            case ir.Fail(kind, message, values, note=note):
                extra = "".join(f", {self.expr(v)}" for v in (*values, *note))
                return f"fail({kind!r}, {message!r}{extra})"
        if type(statement) not in _CALLS:
            raise Bug(f"no listing of the statement {statement!r}")
        parts = [getattr(statement, f.name) for f in fields(statement) if f.name != "variable"]
        args = [self.name(p) if isinstance(p, ir.Buffer) else self.expr(p) for p in parts]
        call = f"{_CALLS[type(statement)]}({', '.join(args)})"
        variable = getattr(statement, "variable", None)
        return call if variable is None else f"{self.name(variable)}: {variable.type} = {call}"
