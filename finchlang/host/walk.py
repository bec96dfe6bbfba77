"""Going through recorded code and its expressions, and making code anew from them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace
from functools import cache
from typing import Any

from finchlang.host.fold import op
from finchlang.host.ir import (
    Buffer,
    Call,
    Cell,
    Code,
    Disjoint,
    Expr,
    Fill,
    For,
    Get,
    Grow,
    If,
    Let,
    Load,
    Op,
    Residual,
    Set,
    Sort,
    SortBits,
    SortBy,
    Stmt,
    Store,
    Var,
    While,
)


def walk(code: Code) -> Iterator[Stmt]:
    """Every statement in `code`, each before those nested in it, in textual order."""
    stack = [*reversed(code.statements)]
    while stack:
        yield (statement := stack.pop())
        for inner in reversed(nested(statement)):
            stack += reversed(inner.statements)


def nested(statement: Stmt) -> tuple[Code, ...]:
    """The pieces of code that stand directly in `statement`."""
    match statement:
        case If(_, then, otherwise):
            return then, otherwise
        case While(test, _, body):
            return test, body
        case For(_, _, _, body):
            return (body,)
    return ()


def rebuild(code: Code, change: Callable[[tuple[Stmt, ...]], Iterable[Stmt]]) -> Code:
    """`code` with the statements that `change` makes of each piece of code in it, of what is nested
    before what is around it. What does not change stays the same object."""

    def inside(statement: Stmt) -> Stmt:
        old = nested(statement)
        new = [rebuild(code, change) for code in old]
        if all(map(operator.is_, old, new)):
            return statement
        names = [f.name for f in fields(statement) if isinstance(getattr(statement, f.name), Code)]
        return replace(statement, **dict(zip(names, new, strict=True)))

    statements = tuple(change(tuple(map(inside, code.statements))))
    is_same = len(statements) == len(code.statements)
    if is_same and all(map(operator.is_, statements, code.statements)):
        return code
    return Code(statements)


def rewrite(code: Code, change: Callable[[Stmt], Iterable[Stmt]]) -> Code:
    """`code` with each statement replaced by those that `change` gives for it, what is nested in it
    having been replaced before."""
    return rebuild(code, lambda statements: [new for s in statements for new in change(s)])


def everything(residual: Residual) -> Iterator[Stmt]:
    """Every statement of a program, those of its procedures after its own."""
    for code in (residual.body, *(procedure.body for procedure in residual.procedures)):
        yield from walk(code)


def is_heavy(code: Code) -> bool:
    """Whether one run of `code` may take long: it has a loop, or works on a range."""
    return any(isinstance(s, (While, For, Fill, Sort, SortBy, SortBits, Call)) for s in walk(code))


def touches(statement: Stmt, buffer: Buffer) -> bool:
    """Whether `statement`, or one nested in it, uses `buffer`."""
    return any(uses(s, buffer) for s in walk(Code((statement,))))


def uses(statement: Stmt, buffer: Buffer) -> bool:
    """Whether `statement` itself uses `buffer`."""
    return any(used is buffer for used in arrays(statement))


def written(statement: Stmt) -> tuple[Buffer, ...]:
    """The buffers whose entries `statement` itself changes."""
    match statement:
        case Store(buffer) | Fill(buffer) | Sort(buffer):
            return (buffer,)
        case SortBy(buffer, scratch) | SortBits(buffer, scratch):
            return buffer, scratch
        case Call():
            return statement.changed
    return ()


def changes(statement: Stmt) -> tuple[Buffer, ...]:
    """The buffers that `statement` itself writes to or lets grow."""
    return (statement.buffer,) if isinstance(statement, Grow) else written(statement)


def cells_of(code: Code) -> list[Cell]:
    """The cells that `code` uses, in order."""
    found: dict[Cell, None] = {}
    for statement in walk(code):
        if isinstance(statement, (Get, Set)):
            found[statement.cell] = None
        elif isinstance(statement, Call):
            found |= dict.fromkeys(statement.cells)
    return list(found)


def arrays(statement: Stmt) -> tuple[Buffer, ...]:
    """The buffers that `statement` itself uses."""
    if isinstance(statement, SortBy):
        return statement.buffer, statement.scratch, statement.keys
    if isinstance(statement, SortBits):
        return statement.buffer, statement.scratch
    if isinstance(statement, Disjoint):
        return statement.buffer, statement.other
    if isinstance(statement, Call):
        return statement.used
    buffer = getattr(statement, "buffer", None)
    return () if buffer is None else (buffer,)


def variables(expr: Expr) -> set[Var]:
    """The variables in `expr`."""
    seen, stack = {expr}, [expr]
    while stack:
        top = stack.pop()
        if isinstance(top, Op):
            stack += (new := [arg for arg in top.args if arg not in seen])
            seen.update(new)
    return {part for part in seen if isinstance(part, Var)}


def free_variables(code: Code) -> list[Var]:
    """The variables that `code` uses and does not bind, by their names."""
    bound: set[Var] = set()
    seen: set[Expr] = set()
    stack: list[Expr] = []
    for statement in walk(code):
        kind: Any = type(statement)
        for name in _parts(kind):
            part = getattr(statement, name)
            if name == "variable":
                bound.add(part)
            elif isinstance(part, Expr):
                stack.append(part)
            elif isinstance(part, tuple):
                stack += [expr for expr in part if isinstance(expr, Expr)]
        while stack:
            expr = stack.pop()
            if expr not in seen:
                seen.add(expr)
                stack += expr.args if isinstance(expr, Op) else ()
    used = {expr for expr in seen if isinstance(expr, Var)}
    return sorted(used - bound, key=lambda variable: variable.name)


@cache
def _parts(kind: Any) -> tuple[str, ...]:
    """The fields of a kind of statement that may have expressions."""
    return tuple(f.name for f in fields(kind) if "Code" not in f.type)


def indirect(code: Code) -> Iterator[Load | Store]:
    """What reads or writes an array at an index that `code` has itself read from one."""
    read: set[Expr] = set()

    def depends(expr: Expr) -> bool:
        return expr in read or (isinstance(expr, Op) and any(map(depends, expr.args)))

    for statement in walk(code):
        if isinstance(statement, (Load, Store)) and depends(statement.index):
            yield statement
        if isinstance(statement, Load) or (isinstance(statement, Let) and depends(statement.expr)):
            read.add(statement.variable)


def substituted(code: Code, values: dict[Any, Any]) -> Code:
    """`code` with other expressions and cells in place of the variables and cells in `values`, to which
    this adds what it has found out about expressions. The variables that it binds are told."""

    def new(part: Any) -> Any:
        if isinstance(part, Op):
            if part not in values:
                args = [new(arg) for arg in part.args]
                is_same = all(map(operator.is_, args, part.args))
                values[part] = part if is_same else op(part.name, *args, type=part.type)
            return values[part]
        match part:
            case Var() | Cell():
                return values.get(part, part)
            case Code():
                return Code(tuple(map(again, part.statements)))
            case tuple():
                return tuple(map(new, part))
        return part

    def again(statement: Stmt) -> Stmt:
        changed = {
            f.name: new(old)
            for f in fields(statement)
            if isinstance(old := getattr(statement, f.name), (Expr, Cell, Code, tuple))
        }
        if isinstance(statement, Let) and statement.variable.definition is not None:
            statement.variable.definition = changed["expr"]
        return replace(statement, **changed)

    return new(code)


def instance(statements: Iterable[Stmt], values: dict[Any, Any]) -> list[Stmt]:
    """Statements once more, with variables of their own, and with `values` in place of other
    variables and of buffers; `values` tells afterwards what stands for which variable."""

    def new(part: Any) -> Any:
        match part:
            case Op():
                return op(part.name, *map(new, part.args), type=part.type)
            case Var() | Buffer():
                return values.get(part, part)
            case Code():
                return Code(tuple(instance(part.statements, values)))
            case tuple():
                return tuple(map(new, part))
        return part

    def again(statement: Any) -> Stmt:
        if variable := getattr(statement, "variable", None):
            definition = new(statement.expr) if isinstance(statement, Let) else None
            values[variable] = Var(variable.name, variable.type, definition=definition)
        return replace(
            statement, **{f.name: new(getattr(statement, f.name)) for f in fields(statement)}
        )

    return [again(statement) for statement in statements]
