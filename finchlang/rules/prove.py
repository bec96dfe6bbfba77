"""What is known of Int64 expressions without running anything: bounds for the rules to go by."""

from __future__ import annotations

from finchlang.host.build import maximum, minimum, split_sum
from finchlang.host.ir import Expr, Op, Var

_DEPTH = 6
#: an Int64 expression as (base, constant): their sum; the base of a constant is None
_Sum = tuple[Expr | None, int]


def at_most(a: Expr, b: Expr, slack: int = 0) -> bool:
    """Whether a <= b + slack is certain, from constants, min and max, and the bounds of variables.

    Index arithmetic is taken not to overflow: coordinates and positions stay far below 2^63.
    """
    if a is b:
        return slack >= 0
    base, shift = split_sum(b)
    return _at_most(split_sum(a), (base, shift + slack), _DEPTH, set())


def _at_most(a: _Sum, b: _Sum, depth: int, seen: set[tuple[_Sum, _Sum]]) -> bool:
    if a[0] is b[0]:
        return a[1] <= b[1]
    if depth == 0 or (a, b) in seen:
        return False
    seen.add((a, b))
    if a[0] is not None:
        options, every = _above(a[0])
        checks = (_at_most(_plus(o, a[1]), b, depth - 1, seen) for o in options)
        if options and (all(checks) if every else any(checks)):
            return True
    if b[0] is not None:
        options, every = _below(b[0])
        checks = (_at_most(a, _plus(o, b[1]), depth - 1, seen) for o in options)
        if options and (all(checks) if every else any(checks)):
            return True
    return False


def _plus(expr: Expr, shift: int) -> _Sum:
    base, more = split_sum(expr)
    return base, more + shift


def _above(expr: Expr) -> tuple[tuple[Expr, ...], bool]:
    """Expressions that `expr` is at most: any one will do, or (True) all must."""
    if isinstance(expr, Var):
        return tuple(e for e in (expr.upper, expr.definition) if e is not None), False
    if isinstance(expr, Op) and expr.name in ("min", "max"):
        return expr.args, expr.name == "max"
    return (), False


def _below(expr: Expr) -> tuple[tuple[Expr, ...], bool]:
    """Expressions that `expr` is at least: any one will do, or (True) all must."""
    if isinstance(expr, Var):
        return tuple(e for e in (expr.lower, expr.definition) if e is not None), False
    if isinstance(expr, Op) and expr.name in ("min", "max"):
        return expr.args, expr.name == "min"
    return (), False


def less_than(a: Expr, b: Expr) -> bool:
    """Whether a < b is certain."""
    return at_most(a, b, slack=-1)


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
