"""Facts about the statements of a residual program that native code depends on."""

from __future__ import annotations

from finchlang.host import ir
from finchlang.host.rewrite import changing, parts, variables

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
