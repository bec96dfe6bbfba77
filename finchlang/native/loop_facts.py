"""Facts about the statements of a residual program that native code depends on."""

from __future__ import annotations

from finchlang.host import ir
from finchlang.host.construct import compare, conjunction
from finchlang.host.rewrite import changing, parts, variables

#: up to how many ends are compared with each other at once: the code grows as their square
FEW = 8


#: operators that cost no more than a branch does
_CHEAP = {"add", "sub", "min", "max", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not"}


def is_cheap(code: ir.Code) -> bool:
    """Whether `code` only changes a few cells, so that selections are quicker than a branch that may be
    mispredicted."""

    def is_simple(expr: ir.Expr) -> bool:
        operations = (part for part in parts(expr) if isinstance(part, ir.Op))
        return all(o.name in _CHEAP and not o.type.is_float for o in operations)

    def is_move(statement: ir.Stmt) -> bool:
        match statement:
            case ir.Get():
                return True
            case ir.Set(_, expr) | ir.Bind(_, expr):
                return is_simple(expr)
        return False

    return len(code.statements) <= 4 and all(map(is_move, code.statements))


def runs_along_array(loop: ir.ForLoop) -> bool:
    """Whether each step of `loop` accesses another entry of some array, so that it has at most as many
    steps as the array has entries."""
    inside = changing(loop)

    def is_fixed(expr: ir.Expr) -> bool:
        return inside.isdisjoint(variables(expr))

    def is_shifted(expr: ir.Expr) -> bool:
        """Whether `expr` is the loop's variable, or a multiple of it, plus something that does not
        change."""
        if not isinstance(expr, ir.Op) or expr.name not in ("add", "sub", "mul"):
            return expr is loop.variable
        left, right = expr.args
        if expr.name == "mul":
            return isinstance(right, ir.Const) and right.value > 0 and is_shifted(left)
        if is_shifted(left):
            return is_fixed(right)
        return expr.name == "add" and is_fixed(left) and is_shifted(right)

    return any(
        isinstance(s, (ir.Load, ir.Store)) and is_shifted(s.index) for s in loop.body.statements
    )


def compared_at_once(expr: ir.Op) -> ir.Expr:
    """`a == m` as `a <= b & a <= c`, where m is the least of the integers a, b and c. Where steppers meet
    the next step waits for this comparison, and so need not wait for m as well."""
    if expr.name == "eq" and not expr.args[0].type.is_float:
        for a, m in (expr.args, expr.args[::-1]):
            ends = _least_of(m.definition if isinstance(m, ir.Var) else m)
            if len(ends) > 1 and a in ends:
                return conjunction(*[compare("le", a, b) for b in ends if b is not a])
    return expr


def _least_of(expr: ir.Expr | None) -> list[ir.Expr]:
    """The operands of a minimum, through nested ones; none if there are more than FEW."""
    ends: list[ir.Expr] = []
    parts = [] if expr is None else [expr]
    while parts and len(ends) + len(parts) <= FEW:
        part = parts.pop()
        if isinstance(part, ir.Op) and part.name == "min":
            parts += part.args
        else:
            ends.append(part)
    return [] if parts else ends
