"""What is known of Int64 expressions without running anything: bounds for the rules to go by."""

from __future__ import annotations

from finchlang.host.build import add, const, maximum, minimum, split_sum
from finchlang.host.ir import Expr, Op, Var

_DEPTH = 6


def at_most(a: Expr, b: Expr, depth: int = _DEPTH) -> bool:
    """Whether a <= b is certain, from constants, min and max, and the bounds of variables.

    Index arithmetic is taken not to overflow: coordinates and positions stay far below 2^63.
    """
    base_a, shift_a = split_sum(a)
    base_b, shift_b = split_sum(b)
    if base_a is base_b:
        return shift_a <= shift_b
    if depth == 0:
        return False

    def shifted(expr: Expr, shift: int) -> Expr:
        return add(expr, const(shift))

    if base_a is not None:
        options, every = _above(base_a)
        checks = (at_most(shifted(o, shift_a), b, depth - 1) for o in options)
        if options and (all(checks) if every else any(checks)):
            return True
    if base_b is not None:
        options, every = _below(base_b)
        checks = (at_most(a, shifted(o, shift_b), depth - 1) for o in options)
        if options and (all(checks) if every else any(checks)):
            return True
    return False


def _above(expr: Expr) -> tuple[list[Expr], bool]:
    """Expressions that `expr` is at most: any one will do, or (True) all must."""
    if isinstance(expr, Op) and expr.name in ("min", "max"):
        return list(expr.args), expr.name == "max"
    if isinstance(expr, Var):
        return [e for e in (expr.upper, expr.definition) if e is not None], False
    return [], False


def _below(expr: Expr) -> tuple[list[Expr], bool]:
    """Expressions that `expr` is at least: any one will do, or (True) all must."""
    if isinstance(expr, Op) and expr.name in ("min", "max"):
        return list(expr.args), expr.name == "min"
    if isinstance(expr, Var):
        return [e for e in (expr.lower, expr.definition) if e is not None], False
    return [], False


def less_than(a: Expr, b: Expr) -> bool:
    """Whether a < b is certain."""
    return at_most(add(a, const(1)), b)


def lesser(a: Expr, b: Expr) -> Expr:
    """min(a, b), as short as can be proved."""
    if at_most(a, b):
        return a
    return b if at_most(b, a) else minimum(a, b)


def greater(a: Expr, b: Expr) -> Expr:
    """max(a, b), as short as can be proved."""
    if at_most(b, a):
        return a
    return b if at_most(a, b) else maximum(a, b)

