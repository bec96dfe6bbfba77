"""What is known of Int64 expressions without running anything, and the bounds of a loop."""

from __future__ import annotations

from functools import lru_cache
from math import inf
from typing import Any

from finchlang.host.construct import const, maximum, minimum, split_sum
from finchlang.host.ir import Const, Expr, Op, Var
from finchlang.syntax import nodes as ast, types
from finchlang.syntax.traversal import FORGETTING, memo

#: how many facts deep a proof may go: in the interpreter they lead back through every round of a loop
_DEPTH = 8
#: Int64 expressions as (base, constant): their sum; the base of a constant is None
Sums = tuple[tuple[Expr | None, int], ...]
#: of each pair (a, b) of bases, and how deep a proof may go: the greatest c for which a <= b + c could not
#: be proved, and the least for which it could; both stay true, since expressions do not change
_known: dict[tuple[Expr | None, Expr | None, int], tuple[float, float]] = memo()
_NOTHING = -inf, inf
_REMEMBERED = 100_000


def at_most(a: Expr, b: Expr, slack: int = 0) -> bool:
    """Whether a <= b + slack is certain, from constants, min and max, and the bounds of variables.
    Coordinates and positions are taken to stay far below 2^63."""
    (one, more), (other, less) = split_sum(a), split_sum(b)
    return _at_most(one, other, less - more + slack, _DEPTH)


def _at_most(a: Expr | None, b: Expr | None, slack: int, depth: int) -> bool:
    """Whether a <= b + slack, for the bases of sums."""
    if a is b or not depth:
        return a is b and slack >= 0
    failed, proved = _known.get((a, b, depth), _NOTHING)
    if failed < slack < proved:
        if len(_known) >= _REMEMBERED:
            _known.clear()
        if _is_proved(a, b, slack, depth - 1):
            proved = slack
        else:
            failed = slack
        _known[a, b, depth] = failed, proved
    return slack >= proved


def _is_proved(a: Expr | None, b: Expr | None, slack: int, depth: int) -> bool:
    """Whether a <= b + slack follows from a fact: plain loops, since nothing in staging runs as often."""
    # a maximum is at most b if all its operands are, and b at most a minimum likewise
    largest, above = _facts(a, "max", "min")
    smallest, below = _facts(b, "min", "max")
    for other, more in above:
        if other is b and slack >= more:
            return True
    for other, more in below:
        if other is a and slack + more >= 0:
            return True
    if largest:
        for other, more in largest:
            if not _at_most(other, b, slack - more, depth):
                break
        else:
            return True
    if smallest:
        for other, more in smallest:
            if not _at_most(a, other, slack + more, depth):
                break
        else:
            return True
    for other, more in above:
        if _at_most(other, b, slack - more, depth):
            return True
    for (one, more), (other, less), factor in _beside_the_same(a, b):
        if factor is None:
            if _at_most(one, other, slack + less - more, depth):
                return True
        else:
            is_positive = slack >= 0 and _at_most(None, *split_sum(factor), depth)
            if is_positive and _at_most(one, other, less - more, depth):
                return True
    for (one, more), (other, less) in _parts(b):  # one + other >= one if other >= 0
        if _at_most(None, other, less, depth) and _at_most(a, one, slack + more, depth):
            return True
    return any(_at_most(a, other, slack + more, depth) for other, more in below)


def _parts(expr: Expr | None) -> list[Any]:
    """The two terms of a sum, in both orders."""
    if not (isinstance(expr, Op) and expr.name == "add"):
        return []
    one, other = _sums(expr.args)
    return [(one, other), (other, one)]


def _beside_the_same(a: Expr | None, b: Expr | None) -> list[Any]:
    """Pairs (x, y) of what a and b have beside the same terms, or the same factor or divisor, with that
    number (None for terms): a <= b if x <= y and the number is positive."""
    if _is_sum(a) or _is_sum(b):
        (own, more), (others, less) = _terms(a), _terms(b)
        if not own.keys().isdisjoint(others):
            rest = [(t, own.get(t, 0) - others.get(t, 0)) for t in {**own, **others}]
            left, right = ([t for t, n in rest if sign * n > 0] for sign in (1, -1))
            if len(left) < 2 and len(right) < 2 and all(-2 < n < 2 for _, n in rest):
                return [(_sum(left, more), _sum(right, less), None)]
    if not (isinstance(a, Op) and isinstance(b, Op) and a.name == b.name):
        return []
    if a.name == "idiv" and a.args[1] is b.args[1]:
        return [(*_sums((a.args[0], b.args[0])), a.args[1])]
    if a.name not in ("add", "mul"):
        return []
    return [
        (*_sums((a.args[1 - k], b.args[1 - n])), None if a.name == "add" else a.args[k])
        for k in (0, 1)
        for n in (0, 1)
        if a.args[k] is b.args[n]
    ]


def _is_sum(expr: Expr | None) -> bool:
    """Whether an expression is a sum or a difference, or a variable defined as one."""
    whole = expr.definition if isinstance(expr, Var) else expr
    return isinstance(whole, Op) and whole.name in ("add", "sub")


def _sum(terms: list[Expr], constant: int) -> tuple[Expr | None, int]:
    return (terms[0] if terms else None), constant


@lru_cache(maxsize=_REMEMBERED)
def _terms(expr: Expr | None) -> tuple[dict[Expr, int], int]:
    """The terms of a sum with their integer coefficients, and its constant."""
    if expr is None or isinstance(expr, Const):
        return {}, 0 if expr is None else expr.value
    if not _is_sum(expr):
        return {expr: 1}, 0
    whole: Any = expr.definition if isinstance(expr, Var) else expr
    (one, more), (other, less) = map(_terms, whole.args)
    found, sign = dict(one), 1 if whole.name == "add" else -1
    for term, count in other.items():
        found[term] = found.get(term, 0) + sign * count
    return found, more + sign * less


@lru_cache(maxsize=_REMEMBERED)
def _facts(expr: Expr | None, whole: str, part: str) -> tuple[Sums, Sums]:
    """For ("max", "min") the operands of `expr` as a maximum, and its upper bounds; for ("min", "max")
    its operands as a minimum, and its lower bounds."""
    if isinstance(expr, Var):
        bound, known = expr.upper if part == "min" else expr.lower, expr.definition
        beyond = (bound, *(_operands(known, part) or (known,)))
        return _sums(_operands(known, whole)), _sums(tuple(e for e in beyond if e is not None))
    return _sums(_operands(expr, whole)), _sums(_operands(expr, part))


FORGETTING += [_facts.cache_clear, _terms.cache_clear]


def _sums(exprs: tuple[Expr, ...]) -> Sums:
    return tuple(map(split_sum, exprs))


def _operands(expr: Expr | None, name: str) -> tuple[Expr, ...]:
    """The operands of nested minima or maxima in order, flattened: a proof goes no deeper than _DEPTH."""
    if not (isinstance(expr, Op) and expr.name == name):
        return ()
    found, stack = list[Expr](), [*reversed(expr.args)]
    while stack:
        top = stack.pop()
        if isinstance(top, Op) and top.name == name:
            stack += reversed(top.args)
        else:
            found.append(top)
    return tuple(found)


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


def bounds(loop: ast.Loop) -> tuple[Expr, Expr] | None:
    """The evaluated extent of a loop, or None as long as it is not evaluated."""
    extent = loop.extent
    if not isinstance(extent, ast.Extent):
        return None
    start, stop = _limit(extent.start), _limit(extent.stop)
    return None if start is None or stop is None else (start, stop)


def _limit(node: ast.Node) -> Expr | None:
    if isinstance(node, ast.Value):
        return node.expr if node.expr.type == types.Int64 else None
    if isinstance(node, ast.Literal) and type(node.value) is int and node.type != "UInt64":
        return const(node.value, types.Int64)
    return None


def as_node(expr: Expr) -> ast.Literal | ast.Value:
    """A host expression as a node, a constant as a Literal."""
    return ast.Literal(expr.value, expr.type.name) if isinstance(expr, Const) else ast.Value(expr)
