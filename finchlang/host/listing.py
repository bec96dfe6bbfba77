"""A residual program as a text to read: deterministic, and complete but for errors' spans."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from finchlang.host import ir


def text(residual: ir.Residual) -> str:
    """The listing of `residual`.

    Variables and cells are bound with their types (`p: Int64 = ...`; `cell c: Int64 := ...` where a
    cell is first set). Equal names are told apart by numbers in the order of first appearance, so
    the listing does not depend on how a residual came about, and equal listings mean the same.
    """
    return Listing().text(residual)


def _indented(text: str) -> str:
    return f"    {text}".replace("\n", "\n    ") + "\n"


class Listing:
    """The names used in what was listed so far."""

    def __init__(self) -> None:
        self.names: dict[Any, str] = {}
        self.used: set[str] = set()
        self.numbers: dict[str, int] = {}  # the last one of each repeated name

    def text(self, residual: ir.Residual) -> str:
        buffers = ", ".join(f"{self.name(b)}: {b.type}[]" for b in residual.buffers)
        head = f"kernel {residual.name}({buffers}; {self.typed(residual.inputs)})"
        procedures = "".join(map(self.procedure, residual.procedures))
        text = f"{head}\n{procedures}{self.code(residual.body)}"
        if residual.outputs:
            text += f"    return {self.typed(residual.outputs)}\n"
        return f"{text}end\n"

    def procedure(self, procedure: ir.Procedure) -> str:
        given = f"{self.typed(procedure.inputs)}; {self.typed(procedure.cells)}"
        return _indented(f"procedure {procedure.name}({given})\n{self.code(procedure.body)}end")

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

    def code(self, code: ir.Code) -> str:
        return "".join([_indented(self.statement(statement)) for statement in code.statements])

    def statement(self, statement: ir.Stmt) -> str:
        match statement:
            case ir.Bind(variable, expr):
                return self.bound(variable, self.expr(expr))
            case ir.Load(variable, buffer, index):
                return self.bound(variable, f"{self.name(buffer)}[{self.expr(index)}]")
            case ir.Store(buffer, index, value):
                return f"{self.name(buffer)}[{self.expr(index)}] = {self.expr(value)}"
            case ir.Get(variable, cell):
                return self.bound(variable, self.name(cell))
            case ir.Set(cell, value):
                content, is_new = self.expr(value), cell not in self.names
                return f"{f'cell {self.typed([cell])}' if is_new else self.name(cell)} := {content}"
            case ir.Branch(_, then, otherwise):
                text = f"{self.head(statement)}\n{self.code(then)}"
                if otherwise.statements:
                    text += f"else\n{self.code(otherwise)}"
                return f"{text}end"
            case ir.Give(_, value):
                return self.expr(value)
            case ir.WhileLoop(test, condition, body):
                before = self.code(test)
                head = self.expr(condition)
                if before:
                    head = f"begin\n{_indented(f'{before}    {head}')}    end"
                return f"while {head}\n{self.code(body)}end"
            case ir.ForLoop(variable, start, stop, body):
                span = f"{self.expr(start, True)}:{self.expr(stop, True)}"
                how = "  # step by step" if statement.is_plain else ""
                return f"for {self.name(variable)} = {span}{how}\n{self.code(body)}end"
            case ir.CallProcedure(name, values, cells):
                numbers = ", ".join(map(self.expr, values))
                return f"call {name}({numbers}; {', '.join(map(self.name, cells))})"
            case ir.Fail(kind, message, values, note=note):
                extra = "".join(f", {self.expr(v)}" for v in (*values, *note))
                return f"fail({kind!r}, {message!r}{extra})"
        parts = [getattr(statement, f.name) for f in fields(statement) if f.name != "variable"]
        args = [self.name(p) if isinstance(p, ir.Buffer) else self.expr(p) for p in parts]
        name = re.sub("(?<=.)(?=[A-Z])", "_", type(statement).__name__).lower()
        return self.bound(getattr(statement, "variable", None), f"{name}({', '.join(args)})")

    def bound(self, variable: ir.Var | None, value: str) -> str:
        return value if variable is None else f"{self.typed([variable])} = {value}"

    def head(self, branch: ir.Branch) -> str:
        name = "" if branch.variable is None else f"{self.typed([branch.variable])} = "
        return f"{name}if {self.expr(branch.condition)}{'  # rarely' * branch.is_rare}"
