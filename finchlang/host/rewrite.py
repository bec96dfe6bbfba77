"""Walks over recorded code and its expressions, and code made anew from them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace
from functools import cache
from typing import Any

from finchlang.host import ir
from finchlang.host.construct import op

#: the fields with the code within a statement of each kind that has some
_NESTED: dict[type, tuple[str, ...]] = {
    ir.Branch: ("then", "otherwise"),
    ir.WhileLoop: ("test", "body"),
    ir.ForLoop: ("body",),
}


def walk(code: ir.Code) -> Iterator[ir.Stmt]:
    """Every statement in `code`, each before those nested in it, in textual order."""
    stack = [*reversed(code.statements)]
    while stack:
        yield (statement := stack.pop())
        if type(statement) in _NESTED:
            for inner in reversed(nested(statement)):
                stack += reversed(inner.statements)


def nested(statement: ir.Stmt) -> tuple[ir.Code, ...]:
    names = _NESTED.get(type(statement))
    return tuple([getattr(statement, name) for name in names]) if names else ()


def scoped(code: ir.Code) -> Iterator[tuple[ir.Stmt, tuple[ir.Stmt, ...]]]:
    """Every statement in `code`, as `walk`, with the statements around it, the outermost first."""
    stack: list[tuple[ir.Stmt, tuple[ir.Stmt, ...]]] = [(s, ()) for s in reversed(code.statements)]
    while stack:
        yield (top := stack.pop())
        statement, around = top
        if type(statement) in _NESTED:
            within = (*around, statement)
            for inner in reversed(nested(statement)):
                stack += [(s, within) for s in reversed(inner.statements)]


def rebuild(code: ir.Code, change: Callable[[tuple[ir.Stmt, ...]], Iterable[ir.Stmt]]) -> ir.Code:
    """`code` with the statements of each piece of code in it replaced by what `change` makes of them, inner
    pieces first. A piece that does not change stays the same object."""

    def inside(statement: ir.Stmt) -> ir.Stmt:
        if not (old := nested(statement)):
            return statement
        new = [rebuild(code, change) for code in old]
        if all(map(operator.is_, old, new)):
            return statement
        return replace(statement, **dict(zip(_NESTED[type(statement)], new, strict=True)))

    statements = tuple(change(tuple(map(inside, code.statements))))
    is_same = len(statements) == len(code.statements)
    if is_same and all(map(operator.is_, statements, code.statements)):
        return code
    return ir.Code(statements)


def rewrite(code: ir.Code, change: Callable[[ir.Stmt], Iterable[ir.Stmt]]) -> ir.Code:
    """`code` with each statement replaced by those that `change` gives for it, inner statements first."""
    return rebuild(code, lambda statements: [new for s in statements for new in change(s)])


def everything(residual: ir.Residual) -> Iterator[ir.Stmt]:
    """Every statement of a program, then those of its procedures."""
    for code in (residual.body, *(procedure.body for procedure in residual.procedures)):
        yield from walk(code)


_STRAIGHT = (ir.Bind, ir.Load, ir.Store, ir.Get, ir.Set)
_WRITING = (ir.Store, ir.Fill, ir.Sort, ir.SortBits, ir.Exchange)
_HEAVY = (ir.WhileLoop, ir.ForLoop, ir.Fill, ir.Sort, ir.SortBits, ir.CallProcedure)


def is_heavy(code: ir.Code) -> bool:
    """Whether one run of `code` may take long: it has a loop, a call, or works on a range."""
    return any(isinstance(s, _HEAVY) for s in walk(code))


def is_straight(code: ir.Code) -> bool:
    """Whether `code` only computes, loads and stores, without loops or branches."""
    return all(isinstance(s, _STRAIGHT) for s in walk(code))


def written(statement: ir.Stmt) -> tuple[ir.Buffer, ...]:
    """The buffers whose entries `statement` itself changes."""
    is_writing = isinstance(statement, _WRITING)
    return arrays(statement) if is_writing else getattr(statement, "changed", ())


def changes(statement: ir.Stmt) -> tuple[ir.Buffer, ...]:
    """The buffers that `statement` itself writes to or lets grow."""
    return arrays(statement) if isinstance(statement, ir.Grow) else written(statement)


def moved(statements: Iterable[ir.Stmt]) -> Iterator[ir.Buffer]:
    """The buffers whose memory `statements` let grow or exchange."""
    for statement in statements:
        if isinstance(statement, (ir.Grow, ir.Exchange)):
            yield from arrays(statement)


def exchanging(statements: Iterable[ir.Stmt]) -> dict[ir.Buffer, ir.Buffer]:
    """For each buffer that `statements` exchange one of those that may come to have its memory: the same
    one for all of these."""
    found: dict[ir.Buffer, ir.Buffer] = {}
    for statement in statements:
        if isinstance(statement, ir.Exchange):
            one, other = (found.setdefault(b, b) for b in arrays(statement))
            found = {b: one if first is other else first for b, first in found.items()}
    return found


def cells_of(code: ir.Code) -> list[ir.Cell]:
    """The cells that `code` uses, in order."""
    statements = list(walk(code))
    used = (
        [s.cell] if isinstance(s, (ir.Get, ir.Set)) else getattr(s, "cells", ()) for s in statements
    )
    return list(dict.fromkeys(cell for cells in used for cell in cells))


def arrays(statement: ir.Stmt) -> tuple[ir.Buffer, ...]:
    """The buffers that `statement` itself uses."""
    if isinstance(statement, ir.CallProcedure):
        return statement.used
    kind: Any = type(statement)
    return tuple([getattr(statement, name) for name in _buffers(kind)])


@cache
def _buffers(kind: Any) -> tuple[str, ...]:
    return tuple(f.name for f in fields(kind) if f.type == "Buffer")


def buffers_of(code: ir.Code) -> tuple[ir.Buffer, ...]:
    """The buffers that `code` uses, in order."""
    return tuple(dict.fromkeys(buffer for s in walk(code) for buffer in arrays(s)))


def parts(expr: ir.Expr) -> set[ir.Expr]:
    """`expr` and all that it is made of."""
    seen, stack = {expr}, [expr]
    while stack:
        top = stack.pop()
        if isinstance(top, ir.Op):
            stack += (new := [arg for arg in top.args if arg not in seen])
            seen.update(new)
    return seen


def variables(expr: ir.Expr) -> set[ir.Var]:
    return {part for part in parts(expr) if isinstance(part, ir.Var)}


def changing(loop: ir.ForLoop | ir.WhileLoop) -> set[ir.Var]:
    """The variables whose value may change from step to step of `loop`."""
    found = (getattr(s, "variable", None) for s in walk(ir.Code((loop,))))
    return {variable for variable in found if variable is not None}


def free_variables(code: ir.Code) -> list[ir.Var]:
    """The variables that `code` uses and does not bind, sorted by name."""
    bound, used = set(), set[ir.Expr]()
    for statement in walk(code):
        bound.add(getattr(statement, "variable", None))
        used.update(expressions(statement))
    found = {variable for expr in used for variable in variables(expr)}
    return sorted(found - bound, key=lambda variable: variable.name)


def expressions(statement: ir.Stmt) -> Iterator[ir.Expr]:
    """The expressions that `statement` itself uses, without those of code nested in it."""
    kind: Any = type(statement)
    for name in _parts(kind):
        part = getattr(statement, name)
        if isinstance(part, tuple):
            yield from (expr for expr in part if isinstance(expr, ir.Expr))
        elif isinstance(part, ir.Expr):
            yield part


@cache
def _parts(kind: Any) -> tuple[str, ...]:
    """The fields of a kind of statement in which there may be expressions that it uses."""
    names = (f.name for f in fields(kind) if "Code" not in f.type)
    return tuple(name for name in names if name not in ("variable", "target"))


def indirect(code: ir.Code) -> Iterator[ir.Load | ir.Store]:
    """The loads and stores at an index that depends on a value loaded by `code`."""
    read: set[ir.Var] = set()
    for statement in walk(code):
        match statement:
            case ir.Load(index=expr) | ir.Store(index=expr) | ir.Bind(expr=expr):
                depends = not read.isdisjoint(variables(expr))
            case _:
                continue
        if depends and not isinstance(statement, ir.Bind):
            yield statement
        if isinstance(statement, ir.Load) or (depends and isinstance(statement, ir.Bind)):
            read.add(statement.variable)


def substituted(code: ir.Code, values: dict[Any, Any]) -> ir.Code:
    """`code` with expressions and cells in place of the variables and cells in `values`, which also
    remembers the results for expressions. Definitions of the variables that `code` binds are changed in
    place, so that the old code must not be used any more."""
    return _Substitution(values, binds_anew=False).part(code)


def instance(statements: Iterable[ir.Stmt], values: dict[Any, Any]) -> list[ir.Stmt]:
    """A copy of statements that binds variables of its own, with `values` in place of other variables and
    of buffers; afterwards `values` has the new variable for each one that they bound."""
    return list(map(_Substitution(values, binds_anew=True).statement, statements))


class _Substitution:
    def __init__(self, values: dict[Any, Any], binds_anew: bool):
        self.values, self.binds_anew = values, binds_anew

    def part(self, part: Any) -> Any:
        if isinstance(part, ir.Op):
            if part not in self.values:
                args = [self.part(arg) for arg in part.args]
                is_same = all(map(operator.is_, args, part.args))
                self.values[part] = part if is_same else op(part.name, *args, type=part.type)
            return self.values[part]
        match part:
            case ir.Var() | ir.Cell() | ir.Buffer():
                return self.values.get(part, part)
            case ir.Code():
                return ir.Code(tuple(map(self.statement, part.statements)))
            case tuple():
                return tuple(map(self.part, part))
        return part

    def statement(self, statement: Any) -> ir.Stmt:
        if self.binds_anew and (variable := getattr(statement, "variable", None)):
            definition = self.part(statement.expr) if isinstance(statement, ir.Bind) else None
            self.values[variable] = ir.Var(variable.name, variable.type, definition=definition)
        elif isinstance(statement, ir.Bind) and statement.variable.definition is not None:
            statement.variable.definition = self.part(statement.expr)
        changed = {f.name: self.part(getattr(statement, f.name)) for f in fields(statement)}
        return replace(statement, **changed)
