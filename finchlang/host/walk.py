"""Going through the statements of recorded code, and making code anew from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from finchlang.host.ir import Code, For, If, Stmt, While


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


def rebuild(code: Code, change: Callable[[Stmt], Iterable[Stmt]]) -> Code:
    """`code` with each statement replaced by those that `change` gives for it, what is nested in it
    having been replaced before."""
    statements: list[Stmt] = []
    for statement in code.statements:
        match statement:
            case If(condition, then, otherwise):
                statement = If(condition, rebuild(then, change), rebuild(otherwise, change))
            case While(test, condition, body):
                statement = While(rebuild(test, change), condition, rebuild(body, change))
            case For(variable, start, stop, body):
                statement = For(variable, start, stop, rebuild(body, change))
        statements += change(statement)
    return Code(tuple(statements))
