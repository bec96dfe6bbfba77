"""Going through recorded code and its expressions, and making code anew from them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace

from finchlang.host.fold import op
from finchlang.host.ir import (
    Buffer,
    Code,
    Expr,
    Fill,
    For,
    Get,
    If,
    Let,
    Load,
    Op,
    Set,
    Sort,
    Stmt,
    Store,
    Var,
    While,
)
from finchlang.source import Bug


def walk(code: Code) -> Iterator[Stmt]:
    """Every statement in `code`, each before those nested in it, in textual order."""
    for statement in code.statements:
        yield statement
        for inner in nested(statement):
            yield from walk(inner)


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


def is_heavy(code: Code) -> bool:
    """Whether one run of `code` may take long: it has a loop, or works on a range."""
    return any(isinstance(s, (While, For, Fill, Sort)) for s in walk(code))


def touches(statement: Stmt, buffer: Buffer) -> bool:
    """Whether `statement`, or one nested in it, uses `buffer`."""
    return any(getattr(s, "buffer", None) is buffer for s in walk(Code((statement,))))


def mentions(expr: Expr, variable: Var) -> bool:
    """Whether `variable` occurs in `expr`."""
    if isinstance(expr, Op):
        return any(mentions(arg, variable) for arg in expr.args)
    return expr is variable


def instance(statements: Iterable[Stmt], values: dict[Expr, Expr]) -> list[Stmt]:
    """Statements without nested ones once more, with variables of their own, and with `values` in
    place of other variables; `values` tells afterwards what stands for which variable."""

    def new(expr: Expr) -> Expr:
        if isinstance(expr, Op):
            return op(expr.name, *map(new, expr.args), type=expr.type)
        return values.get(expr, expr)

    def bound(variable: Var, definition: Expr | None = None) -> Var:
        values[variable] = again = Var(variable.name, variable.type, definition=definition)
        return again

    result: list[Stmt] = []
    for statement in statements:
        match statement:
            case Let(variable, expr):
                result.append(Let(bound(variable, new(expr)), new(expr)))
            case Load(variable, buffer, index):
                result.append(Load(bound(variable), buffer, new(index)))
            case Store(buffer, index, value):
                result.append(Store(buffer, new(index), new(value)))
            case Get(variable, cell):
                result.append(Get(bound(variable), cell))
            case Set(cell, value):
                result.append(Set(cell, new(value)))
            case _:
                raise Bug(f"no instance of {statement!r}")
    return result
