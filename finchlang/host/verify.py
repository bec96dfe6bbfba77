"""The rules of the host language: what a residual program must satisfy before it becomes machine code."""

from __future__ import annotations

import os
from collections.abc import Iterable
from string import Formatter
from typing import Any, NoReturn
from weakref import WeakSet

from finchlang.base.errors import BUG, ERROR_KINDS, Bug
from finchlang.host import ir, rewrite as rewriting
from finchlang.host.construct import OF_A_COUNT
from finchlang.syntax.types import Bool, Int64, PairType, Type, pair_of

_RANGE: dict[str, Type | str] = {"start": Int64, "stop": Int64}
#: The types of the operands of each kind of statement, and of the variable that it binds. In place of a
#: type there may be the name of a field that has the same type.
OPERANDS: dict[type, dict[str, Type | str]] = {
    ir.Bind: {"variable": "expr"},
    ir.Load: {"index": Int64, "variable": "buffer"},
    ir.Store: {"index": Int64, "value": "buffer"},
    ir.Get: {"variable": "cell"},
    ir.Set: {"value": "cell"},
    ir.Branch: {"condition": Bool},
    ir.Give: {"value": "target"},
    ir.WhileLoop: {},  # its condition may use what its test binds
    ir.ForLoop: _RANGE,  # its variable is visible in its body only
    ir.Room: {"variable": Int64},
    ir.Clock: {"variable": Int64},
    ir.Grow: {"size": Int64},
    ir.Exchange: {},
    ir.Fill: {**_RANGE, "value": "buffer"},
    ir.Search: {**_RANGE, "key": "buffer", "variable": Int64},
    ir.Disjoint: {"index": Int64, "shift": Int64, "place": Int64, "variable": Bool},
    ir.Sort: _RANGE,
    ir.SortBits: {**_RANGE, "low": Int64, "high": Int64},
    ir.CallProcedure: {},
    ir.Fail: {},
}
_OF_INTEGERS = (ir.Search, ir.Disjoint, ir.Sort, ir.SortBits)


def check(residual: ir.Residual) -> None:
    """Raise Bug, with a message that says what is wrong and where, unless

    - every variable is bound exactly once, before it is used, and used only in its scope;
    - the arguments and results of operations have the types that OPS says;
    - conditions are Bool; indices, sizes and bounds are Int64; what is stored or set has the type
      of the buffer or cell; Search and sorts are on integers;
    - every buffer is one of `residual.buffers`; a cell is set on every way to where it is read,
      output cells on every way to the end;
    - a Fail is of a known kind, with a `{}` for each value;
    - the same holds for procedures, which use only what they are given, and calls fit them.
    """
    checker = _Checker(residual)
    for procedure in residual.procedures:
        checker.body(procedure.inputs, procedure.cells, procedure.body)
    checker.check()


#: the programs that have been checked
_VERIFIED: WeakSet[ir.Residual] = WeakSet()


def verified(residual: ir.Residual) -> ir.Residual:
    """`residual`, checked once if FINCH_CHECK is 1 in the environment."""
    if os.environ.get("FINCH_CHECK") == "1" and residual not in _VERIFIED:
        check(residual)
        _VERIFIED.add(residual)
    return residual


class _Checker:
    """Walks a residual. `bound` are all variables met, `scope` those visible, in order, with
    operations on them, `known` the cells that are set by now (None after a Fail, where nothing runs)."""

    def __init__(self, residual: ir.Residual):
        self.residual = residual
        self.buffers = {*residual.buffers, *(buffer for buffer, _ in residual.scratch)}
        self.checked: set[ir.Op] = set()  # operations whose types have been checked
        self.procedures = {procedure.name: procedure for procedure in residual.procedures}
        if len(self.procedures) < len(residual.procedures):
            self.fail("there are two procedures of one name")

    def body(self, inputs: Iterable[ir.Var], cells: Iterable[ir.Cell], body: ir.Code) -> None:
        self.bound: set[ir.Var] = set()
        self.scope: dict[ir.Expr, None] = {}
        self.known: set[ir.Cell] | None = set(cells)
        for variable in inputs:
            self.bind(variable, variable.type)
        self.statements(body)

    def call(self, statement: ir.CallProcedure) -> None:
        found = self.procedures.get(statement.name)
        if found is None:
            self.fail(f"unknown procedure {statement.name}")
        counts = len(statement.values), len(statement.cells)
        if counts != (len(found.inputs), len(found.cells)):
            self.fail(f"{counts} values and cells are no arguments of {found.name}")
        for value, variable in zip(statement.values, found.inputs, strict=True):
            self.expr(value, variable.type, f"an input of {found.name}")
        for cell, own in zip(statement.cells, found.cells, strict=True):
            self.is_set(cell, f"a call of {found.name}")
            if cell.type is not own.type:
                self.fail(f"{cell} is {cell.type}, not {own.type}")
        used = set(rewriting.buffers_of(found.body))
        if not used <= set(statement.used) or not set(statement.changed) <= set(statement.used):
            self.fail(f"a call of {found.name} does not tell what it uses")

    def check(self) -> None:
        residual = self.residual
        if len(self.buffers) != len(residual.buffers) + len(residual.scratch):
            self.fail("a buffer is listed twice")
        self.body(residual.inputs, (), residual.body)
        for cell in residual.outputs:
            self.is_set(cell, "an output")

    def fail(self, message: str) -> NoReturn:
        raise Bug(f"residual {self.residual.name}: {message}")

    # ------------------------------------------------------------------------------- expressions

    def bind(self, variable: ir.Var, type: Type) -> None:
        if variable in self.bound:
            self.fail(f"{variable} is bound twice")
        if variable.type is not type:
            self.fail(f"{variable} is {variable.type} but bound to {type}")
        self.bound.add(variable)
        self.scope[variable] = None

    def expr(self, expr: ir.Expr, type: Type, what: str) -> None:
        self.visible(expr, what)
        if expr.type is not type:
            self.fail(f"{what} is {expr.type}, not {type}: {expr}")

    def visible(self, expr: ir.Expr, what: str) -> None:
        """Check that what `expr` is made of may be used here; what has been, once in a scope."""
        rest = [expr]
        while rest:
            part = rest.pop()
            if part in self.scope:
                continue
            if isinstance(part, ir.Op):
                if part not in self.checked:
                    self.op(part)
                    self.checked.add(part)
                self.scope[part] = None
                rest += part.args
            elif isinstance(part, ir.Var):
                self.fail(f"{what} uses {part} where it is not bound")
            elif not isinstance(part, ir.Const):
                self.fail(f"{what} is not an expression: {part!r}")

    def op(self, op: ir.Op) -> None:
        if op.name not in ir.OPS:
            self.fail(f"unknown operation {op.name}")
        types = [arg.type for arg in op.args]
        if len(types) != ir.OPS[op.name][0] or not _fits(op.name, types, op.type):
            self.fail(f"{op.name} takes {', '.join(map(str, types))} to {op.type}")

    # -------------------------------------------------------------------------- memory and cells

    def is_set(self, cell: ir.Cell, what: str) -> None:
        if self.known is not None and cell not in self.known:
            self.fail(f"{what} reads {cell}, which may not be set")

    # -------------------------------------------------------------------------------- statements

    def code(self, code: ir.Code) -> set[ir.Cell] | None:
        """Check `code` in a scope of its own; returns the cells that are set after it."""
        visible = len(self.scope)
        self.statements(code)
        self.leave(visible)
        return self.known

    def leave(self, visible: int) -> None:
        """Leave a scope: only so many variables, the first, are visible from now on."""
        for _ in range(len(self.scope) - visible):
            self.scope.popitem()

    def statements(self, code: ir.Code) -> None:
        for statement in code.statements:
            self.statement(statement)

    def statement(self, statement: Any) -> None:
        kind = type(statement)
        if kind not in OPERANDS:
            self.fail(f"unknown statement {statement!r}")
        for buffer in rewriting.arrays(statement):
            if buffer not in self.buffers:
                self.fail(f"unknown buffer {buffer}")
            if kind in _OF_INTEGERS and not buffer.type.is_integer:
                self.fail(f"{buffer} is searched or sorted but not of integers")
        self.special(statement)
        for name, of in OPERANDS[kind].items():
            operand = getattr(statement, name)
            type_: Type = getattr(statement, of).type if isinstance(of, str) else of
            if name == "variable":
                self.bind(operand, type_)
            else:
                self.expr(operand, type_, f"the {name} of {kind.__name__}")
        self.control(statement)

    def special(self, statement: ir.Stmt) -> None:
        """Check what the table does not say of a statement."""
        match statement:
            case ir.Bind(variable, expr):
                self.visible(expr, f"{variable}")
            case ir.Get(variable, cell):
                self.is_set(cell, f"{variable}")
            case ir.Set(cell):
                self.known = None if self.known is None else self.known | {cell}
            case ir.SortBits(buffer, scratch):
                if scratch.type is not buffer.type or scratch is buffer:
                    self.fail(f"{scratch} is no scratch to sort {buffer}")
                if buffer.type != Int64:
                    self.fail(f"{buffer} is sorted by bits, but not Int64")
            case ir.Exchange(buffer, other):
                if buffer is other or buffer.type is not other.type:
                    self.fail(f"{buffer} and {other} cannot be exchanged")
            case ir.CallProcedure():
                self.call(statement)
            case ir.Fail(kind, message, values):
                self.failure(kind, message, values)
                self.known = None

    def control(self, statement: ir.Stmt) -> None:
        before, visible = self.known, len(self.scope)
        match statement:
            case ir.Branch(_, then, otherwise):
                after = self.code(then)
                self.known = before
                other = self.code(otherwise)
                if after is None or other is None:
                    self.known = other if after is None else after
                else:
                    self.known = after & other
                if statement.variable is not None:
                    self.given(statement.variable, then, otherwise)
            case ir.WhileLoop(test, condition, body):
                self.statements(test)
                self.expr(condition, Bool, "the condition of WhileLoop")
                self.leave(visible)
                before = self.known
                self.code(body)
                self.known = before
            case ir.ForLoop(variable, body=body):
                self.bind(variable, Int64)
                self.code(body)
                self.leave(visible)
                self.known = before

    def given(self, variable: ir.Var, *arms: ir.Code) -> None:
        for last in (arm.statements[-1] if arm.statements else None for arm in arms):
            is_given = isinstance(last, ir.Give) and last.target is variable
            if not (is_given or isinstance(last, ir.Fail)):
                self.fail(f"an arm does not give {variable}")
        self.bind(variable, variable.type)

    def failure(self, kind: str, message: str, values: tuple[ir.Expr, ...]) -> None:
        if kind not in (*ERROR_KINDS, BUG):
            self.fail(f"unknown kind of error: {kind}")
        fields = sum(field is not None for _, field, _, _ in Formatter().parse(message))
        if fields != len(values):
            self.fail(f"{len(values)} values for the message {message!r}")
        for value in values:
            self.visible(value, "a message")


def _fits(name: str, types: list[Type], result: Type) -> bool:
    """Whether the operation `name` takes arguments of `types` to `result`, as OPS says."""
    first, last = types[0], types[-1]
    match name:
        case "cast":
            return True
        case "reinterpret":
            kinds = {first.kind, result.kind}
            return kinds == {"float", "uint"} and first.bits == result.bits
        case "pair":
            return result == pair_of(*types)
        case "first" | "second":
            return isinstance(first, PairType) and result == getattr(first, name)
        case "select":
            return first == Bool and types[1] == last == result
        case "isnan":
            return first.is_float and result == Bool
    if name in ir.COMPARISONS:
        return first == last and result == Bool
    if name in OF_A_COUNT:
        types = types[:-1]
        if last != Int64 and not (last.is_integer and name in ("shl", "shr")):
            return False
    return all(t == first for t in (*types, result)) and first.kind in ir.OPS[name][1]
