"""What is known of Int64 expressions without running anything: bounds for the rules to go by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from finchlang.host.build import maximum, minimum, split_sum
from finchlang.host.ir import Expr, Op, Var

_DEPTH = 8
#: an Int64 expression as (base, constant): their sum; the base of a constant is None
_Sum = tuple[Expr | None, int]
#: what was asked before: facts about expressions never change
_known: dict[tuple[Expr, Expr, int], bool] = {}
_REMEMBERED = 20_000


def at_most(a: Expr, b: Expr, slack: int = 0) -> bool:
    """Whether a <= b + slack is certain, from constants, min and max, and the bounds of variables.

    Index arithmetic is taken not to overflow: coordinates and positions stay far below 2^63.
    """
    if a is b:
        return slack >= 0
    question = (a, b, slack)
    answer = _known.get(question)
    if answer is None:
        base, shift = split_sum(b)
        answer = _at_most(split_sum(a), (base, shift + slack), _DEPTH, {})
        if len(_known) > _REMEMBERED:
            _known.clear()
        _known[question] = answer
    return answer


def _at_most(a: _Sum, b: _Sum, depth: int, failed: dict[tuple[_Sum, _Sum], int]) -> bool:
    """`failed` says to which depth a pair was looked at in vain."""
    if a[0] is b[0]:
        return a[1] <= b[1]
    if depth <= failed.get((a, b), 0):
        return False
    failed[a, b] = depth

    def lower(options: Iterable[Expr]) -> Iterator[bool]:
        return (_at_most(_plus(o, a[1]), b, depth - 1, failed) for o in options)

    def upper(options: Iterable[Expr]) -> Iterator[bool]:
        return (_at_most(a, _plus(o, b[1]), depth - 1, failed) for o in options)

    # a maximum is at most b if all its operands are, and b at most a minimum likewise
    largest, smallest = _operands(a[0], "max"), _operands(b[0], "min")
    if (largest and all(lower(largest))) or (smallest and all(upper(smallest))):
        return True
    return any(lower(_above(a[0]))) or any(upper(_below(b[0])))


def _plus(expr: Expr, shift: int) -> _Sum:
    base, more = split_sum(expr)
    return base, more + shift


def _operands(expr: Expr | None, name: str) -> tuple[Expr, ...]:
    """The operands of a minimum or maximum, also where a variable is bound to it."""
    if isinstance(expr, Var):
        expr = expr.definition
    return expr.args if isinstance(expr, Op) and expr.name == name else ()


def _above(expr: Expr | None) -> tuple[Expr, ...]:
    """Expressions that `expr` is at most, each for itself."""
    if isinstance(expr, Var):
        return tuple(e for e in (expr.upper, expr.definition) if e is not None)
    return _operands(expr, "min")


def _below(expr: Expr | None) -> tuple[Expr, ...]:
    """Expressions that `expr` is at least, each for itself."""
    if isinstance(expr, Var):
        return tuple(e for e in (expr.lower, expr.definition) if e is not None)
    return _operands(expr, "max")


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
