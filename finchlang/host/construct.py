"""Constructors of host expressions, which check the types of operands and fold constants and
identities; nothing else folds."""

from __future__ import annotations

from functools import partial, reduce
from typing import Any

from finchlang.base.errors import Bug, FinchError
from finchlang.host.ir import COMPARISONS, OPS, Const, Expr, Op, Var
from finchlang.host.primitives import MOST_STEPS, STEPS, function_of
from finchlang.syntax.types import Bool, Int64, PairType, Type, pair_of, type_of_value

#: operations whose last argument is a count (of steps or of places) with a type of its own
OF_A_COUNT = ("ipow", "shl", "shr", "ldexp", *STEPS)
TRUE, FALSE = Const(True, Bool), Const(False, Bool)
ZERO, ONE = Const(0, Int64), Const(1, Int64)


def const(value: Any, type: Type | None = None) -> Const:
    """A constant of type `type`, by default the type of its Python value."""
    return Const(value, type or type_of_value(value) or Int64)


def op(name: str, *args: Expr | float, type: Type | None = None) -> Expr:
    """The operation `name` on `args`, folded if all are constants or an identity makes it trivial.

    `type` is the result's type where the arguments do not give it (`cast`). Numbers are of the type of the
    last argument that is none, but counts are Int64.
    """
    exprs: Any = _typed(name, args) if [a for a in args if not isinstance(a, Expr)] else args
    if len(exprs) != OPS[name][0]:
        raise Bug(f"{name} takes {OPS[name][0]} arguments, not {len(exprs)}")
    first, last = exprs[0], exprs[-1]
    if name == "pair":
        result: Type = pair_of(first.type, last.type)
    elif name in ("first", "second"):
        pair = first.type
        if not isinstance(pair, PairType):
            raise FinchError("type", f"{pair} is no pair")
        result = pair.first if name == "first" else pair.second
    elif isinstance(last.type, PairType) or isinstance(first.type, PairType):
        return _of_pairs(name, exprs, type)
    elif name in ("cast", "reinterpret"):
        assert type is not None
        result = type
    else:
        operand = exprs[1] if name == "select" else first
        if operand.type is not last.type and name not in OF_A_COUNT:
            raise Bug(f"{name} on {', '.join(str(e.type) for e in exprs)}")
        result = Bool if name in COMPARISONS else operand.type
    if isinstance(last, Const):
        values = [e.value for e in exprs if isinstance(e, Const)]
        if len(values) == len(exprs) and not (name in STEPS and last.value > MOST_STEPS):
            return Const(function_of(name, result, first.type)(*values), result)
    return _trivial(name, exprs, result) or Op(name, exprs, result)


def _typed(name: str, args: tuple[Expr | float, ...]) -> tuple[Expr, ...]:
    kinds = [a.type for a in args[name == "select" :] if isinstance(a, Expr)]
    kind = kinds[-1] if kinds and name not in OF_A_COUNT else Int64
    return tuple([a if isinstance(a, Expr) else const(a, kind) for a in args])


#: what `exact` is about
_ROUNDED = ("add", "sub", "mul", "fdiv")


def exactly(expr: Expr) -> Expr:
    """`expr` with each sum, difference, product and quotient of floats in it rounded by itself."""
    if not isinstance(expr, Op) or expr.name == "exact":
        return expr
    new = op(expr.name, *map(exactly, expr.args), type=expr.type)
    is_rounded = isinstance(new, Op) and new.name in _ROUNDED and new.type.is_float
    return op("exact", new) if is_rounded else new


def _of_pairs(name: str, exprs: tuple[Expr, ...], type: Type | None) -> Expr:
    """An operation on pairs, as operations on their two parts. Raises FinchError of kind type where pairs
    are not numbers."""
    if name == "cast" and isinstance(type, PairType):
        (pair,) = exprs
        if pair.type == type:
            return pair
        first, second = op("first", pair), op("second", pair)
        return op("pair", cast(first, type.first), cast(second, type.second))
    names = ("first", "second")
    parts = [[e if e.type == Bool else op(which, e) for e in exprs] for which in names]
    if name == "select":
        return op("pair", *(op(name, *part) for part in parts))
    if name not in ("eq", "ne") or not exprs[0].type == exprs[1].type:
        raise FinchError("type", "a pair is no number")
    return op("and" if name == "eq" else "or", *(op(name, *part) for part in parts))


def _trivial(name: str, exprs: tuple[Expr, ...], result: Type) -> Expr | None:
    """A shorter expression that equals `name(exprs)` for all values, or None."""
    first, last = exprs[0], exprs[-1]
    if name in ("first", "second") and isinstance(first, Op) and first.name == "pair":
        return first.args[name == "second"]
    if name == "cast" or (name == "abs" and result.kind == "uint"):
        return first if first.type == result else None
    if name == "not":
        return first.args[0] if isinstance(first, Op) and first.name == "not" else None
    if name == "select":
        if isinstance(first, Const):
            return exprs[1] if first.value else exprs[2]
        return exprs[1] if exprs[1] is exprs[2] else None
    if name in ("eq", "le", "ge", "min", "max", "and", "or") and first is last:
        if first.type.is_float:
            return first if name in ("min", "max") else None
        return TRUE if name in ("eq", "le", "ge") else first
    if name in ("ne", "lt", "gt") and first is last and not first.type.is_float:
        return FALSE
    if result == Bool and name in ("and", "or"):
        return _logical(name, first, last)
    if result == Int64:
        return _index_arithmetic(name, exprs)
    return None


def _logical(name: str, first: Expr, last: Expr) -> Expr | None:
    absorbing = name == "or"
    for one, other in ((first, last), (last, first)):
        if isinstance(one, Const):
            return one if one.value == absorbing else other
    return None


def _index_arithmetic(name: str, exprs: tuple[Expr, ...]) -> Expr | None:
    """Keep Int64 sums in the form `x + c`, so that equal indices become the same expression."""
    first, last = exprs[0], exprs[-1]
    if name == "sub":
        if isinstance(last, Const):
            return op("add", first, Const(-last.value, Int64))
        (base, shift), (other, less) = split_sum(first), split_sum(last)
        if base is other and base is not None:
            return Const(shift - less, Int64)
        if isinstance(last, Op) and last.name == "sub" and last.args[0] is first:
            return last.args[1]  # a - (a - b)
        if isinstance(last, Op) and last.name == "sub" and isinstance(last.args[0], Const):
            return op("sub", op("add", first, last.args[1]), last.args[0])  # a - (c - b)
        if shift != less and base is not None and other is not None:
            return op("add", op("sub", base, other), Const(shift - less, Int64))
    if name == "add":
        if isinstance(first, Const):
            return op("add", last, first)
        if isinstance(last, Const):
            if last.value == 0:
                return first
            if isinstance(first, Op) and first.name == "add" and isinstance(first.args[1], Const):
                return op("add", first.args[0], op("add", first.args[1], last))
            if isinstance(first, Op) and first.name == "sub" and isinstance(first.args[0], Const):
                return op("sub", op("add", first.args[0], last), first.args[1])
        (base, shift), (other, more) = split_sum(first), split_sum(last)
        if (shift or more) and base is not None and other is not None:  # (x + c) + y
            return op("add", op("add", base, other), Const(shift + more, Int64))
        if (whole := _dividend(first, last)) is not None:
            return whole
        for one, behind in ((first, last), (last, first)):  # (a - b) + b
            if isinstance(one, Op) and one.name == "sub" and one.args[1] is behind:
                return one.args[0]
            if isinstance(last, Const) or not isinstance(one, Op) or one.name != "sub":
                continue
            if isinstance(one.args[0], Const):
                return op("add", op("sub", behind, one.args[1]), one.args[0])  # (c - b) + a
    if name == "mul":
        for one, other in ((first, last), (last, first)):
            if isinstance(one, Const) and one.value in (0, 1):
                return one if one.value == 0 else other
    return _quotient(first, last) if name == "idiv" else None


def _quotient(dividend: Expr, size: Expr) -> Expr | None:
    """a * m, a * m + m or a * m + m - 1 divided by m, which is not 0, if they are sizes and positions; else
    None: quotients of negative numbers are cut towards 0, and products of data may overflow."""
    if isinstance(dividend, Var) and dividend.definition is not None:
        dividend = dividend.definition
    base, shift = split_sum(dividend)
    if isinstance(base, Op) and base.name == "add" and base.args[1] is size and shift in (0, -1):
        found = _quotient(base.args[0], size)
        return found if found is None or shift else op("add", found, 1)
    if isinstance(dividend, Op) and dividend.name == "mul" and size in dividend.args:
        factor = dividend.args[dividend.args[0] is size]
        return factor if is_natural(factor) and is_natural(size) else None
    return None


def _dividend(multiple: Expr, rest: Expr) -> Expr | None:
    """(x + a div m) * m + a rem m as x * m + a, where m is not 0; None of what does not look like it."""
    if not (isinstance(rest, Op) and isinstance(multiple, Op)):
        return None
    if rest.name != "irem" or multiple.name != "mul" or rest.args[1] not in multiple.args:
        return None
    size = rest.args[1]
    quotient = op("idiv", *rest.args)
    factor = multiple.args[multiple.args[0] is size]
    if factor is quotient:
        return rest.args[0]
    if isinstance(factor, Op) and factor.name == "add" and factor.args[1] is quotient:
        return op("add", op("mul", factor.args[0], size), rest.args[0])
    return None


def is_natural(expr: Expr | None) -> bool:
    """Whether an Int64 is known to be at least 0, as indices, positions and sizes are."""
    match expr:
        case Const(value=value):
            return bool(value >= 0)
        case Var(lower=lower, definition=definition):
            return is_natural(lower) or (definition is not None and is_natural(definition))
        case Op(name="add", args=(base, Const(value=shift))) if shift < 0:
            least = base.lower if isinstance(base, Var) else None
            return isinstance(least, Const) and least.value + shift >= 0
        case Op(name="add" | "mul" | "idiv" | "irem" | "min", args=args):
            return all(map(is_natural, args))
        case Op(name="max", args=args):
            return any(map(is_natural, args))
    return False


def split_sum(expr: Expr) -> tuple[Expr | None, int]:
    """An Int64 expression as (base, constant): `x + 3` is (x, 3), `5` is (None, 5)."""
    if isinstance(expr, Const):
        return None, expr.value
    if isinstance(expr, Op) and expr.name == "add" and isinstance(expr.args[1], Const):
        return expr.args[0], expr.args[1].value
    return expr, 0


def cast(expr: Expr, type: Type) -> Expr:
    return op("cast", expr, type=type)


def key_among(key: Expr, type: Type) -> Expr:
    """A key that finds the same position among sorted numbers of `type`: where `type` has no room for
    `key`, the least or greatest number of `type`."""
    if isinstance(key, Const) or key.type == type:
        return cast(key, type)
    low = op("max", key, const(0 if type.kind == "uint" else type.lowest))
    return cast(low if type.bits == 64 else op("min", low, const(type.highest)), type)


add, sub, mul = partial(op, "add"), partial(op, "sub"), partial(op, "mul")
minimum, maximum = partial(op, "min"), partial(op, "max")
#: `compare(name, a, b)`, the comparison of two expressions
compare = op


def conjunction(*conditions: Expr) -> Expr:
    return reduce(partial(op, "and"), (TRUE, *conditions))


def disjunction(*conditions: Expr) -> Expr:
    return reduce(partial(op, "or"), (FALSE, *conditions))


def below_64(bits: Expr) -> Expr:
    """`bits`, masked to less than 64: it is so already, but LLVM has to know, or a shift by it takes ten
    instructions."""
    return op("and", bits, 63)
