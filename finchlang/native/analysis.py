"""What native code wants to know about the statements of a residual program."""

from __future__ import annotations

from collections.abc import Iterator

from finchlang.host.fold import ONE, ZERO, op, split_sum
from finchlang.host.ir import (
    Buffer,
    Code,
    Expr,
    Fill,
    For,
    Get,
    Let,
    Load,
    Op,
    Search,
    Set,
    Sort,
    Stmt,
    Store,
    Var,
    While,
)
from finchlang.host.walk import walk


def is_heavy(code: Code) -> bool:
    """Whether one run of `code` may take long: it has a loop, or works on a range."""
    return any(isinstance(s, (While, For, Fill, Sort)) for s in walk(code))


def is_straight(code: Code) -> bool:
    """Whether `code` has no loops or branches."""
    return all(isinstance(s, (Let, Load, Store, Get, Set)) for s in walk(code))


def is_indirect(code: Code) -> bool:
    """Whether `code` reads or writes an array at an index that it has itself read from one."""
    return any(True for _ in indirect(code))


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


def forwarded_fills(code: Code) -> dict[int, Fill]:
    """Loops that visit each entry of an array once, in order, right after it was filled: each step
    may then fill its own entry, which stays in a register. By the loop's id, the fill that this
    makes superfluous."""
    found: dict[int, Fill] = {}
    statements = code.statements
    for number, fill in enumerate(statements):
        if isinstance(fill, Fill) and fill.start is ZERO:
            rest = (s for s in statements[number + 1 :] if _touches(s, fill.buffer))
            loop = next(rest, None)
            if isinstance(loop, For) and id(loop) not in found and _visits_each(loop, fill):
                found[id(loop)] = fill
    return found


def _touches(statement: Stmt, buffer: Buffer) -> bool:
    return any(getattr(s, "buffer", None) is buffer for s in walk(Code((statement,))))


def _visits_each(loop: For, fill: Fill) -> bool:
    """Whether step i of `loop`, from 1 to the number of entries filled, uses entry i - 1 only."""
    if loop.start is not ONE or _resolved(loop.stop) != _resolved(fill.stop):
        return False
    place = op("sub", loop.variable, ONE)
    uses = [s for s in walk(loop.body) if getattr(s, "buffer", None) is fill.buffer]
    return all(isinstance(s, (Load, Store)) and s.index is place for s in uses)


def _resolved(expr: Expr) -> tuple[Expr | None, int]:
    """`expr` as a sum of an expression that no variable stands for, and a constant."""
    base, constant = split_sum(expr)
    while isinstance(base, Var) and base.definition is not None:
        base, more = split_sum(base.definition)
        constant += more
    return base, constant


#: operators that cost no more than a branch does
_CHEAP = {"add", "sub", "min", "max", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not"}


def is_cheap(code: Code) -> bool:
    """Whether `code` only changes a few cells, so that doing it and keeping what was there before
    is quicker than a branch that may be predicted wrongly."""

    def is_simple(expr: Expr) -> bool:
        return not isinstance(expr, Op) or (
            expr.name in _CHEAP and not expr.type.is_float and all(map(is_simple, expr.args))
        )

    def is_move(statement: Stmt) -> bool:
        match statement:
            case Get():
                return True
            case Set(_, expr) | Let(_, expr):
                return is_simple(expr)
        return False

    return len(code.statements) <= 4 and all(map(is_move, code.statements))


def runs_along_array(loop: For) -> bool:
    """Whether each step of `loop` reads or writes another entry of some array, so that there are
    not more steps than the array has entries."""
    inside = {s.variable for s in walk(loop.body) if isinstance(s, (Let, Load, Get, Search))}

    def is_fixed(expr: Expr) -> bool:
        if isinstance(expr, Op):
            return all(map(is_fixed, expr.args))
        return expr is not loop.variable and expr not in inside

    def is_shifted(expr: Expr) -> bool:
        """Whether `expr` is the loop's variable plus something that does not change."""
        if not isinstance(expr, Op) or expr.name not in ("add", "sub"):
            return expr is loop.variable
        left, right = expr.args
        if is_shifted(left):
            return is_fixed(right)
        return expr.name == "add" and is_fixed(left) and is_shifted(right)

    return any(isinstance(s, (Load, Store)) and is_shifted(s.index) for s in loop.body.statements)
