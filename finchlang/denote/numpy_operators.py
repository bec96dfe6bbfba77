"""The operators for the denotation: written with NumPy, apart from the operator table, so that a fault
there is seen.

A value is a NumPy scalar. It is structural if it is a literal, or the value of a tensor's element that is
not stored: for some operators such a value decides the result, whatever the others are (`0 * NaN` is 0).
"""

from __future__ import annotations

import math
import operator as py
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cache, reduce
from typing import Any

import numpy as np

from finchlang.base.errors import FinchError
from finchlang.denote.typed_values import Failed, Number, convert, pair, pair_of, type_error, wrap
from finchlang.syntax.nodes import MISSING, Call, Literal, Node, Variable
from finchlang.syntax.types import ALIASES, TYPES

# ------------------------------------------------------------------------------- types of operands


@cache
def common(*types: np.dtype) -> np.dtype:
    """The common type of operands: floats win, then width, then unsigned, Bool last. Of pairs by parts."""
    if all(t.names for t in types):
        return pair_of(*(common(*(t[name] for t in types)) for name in ("first", "second")))
    if any(t.names for t in types):
        raise type_error("a pair is no number")
    return max(
        types, key=lambda t: ("biuf".index(t.kind) // 3, t.itemsize * (t.kind != "b"), t.kind)
    )


def _together(args: Sequence[Any], bools: bool = False) -> list[Any]:
    """The operands in their common type; Bools become Int64 unless `bools`."""
    dtype = common(*(a.dtype for a in args))
    if dtype.kind == "b" and not bools:
        dtype = np.dtype(np.int64)
    return [a if a.dtype == dtype else convert(a, dtype) for a in args]


def _floats(args: Sequence[Any]) -> list[Any]:
    if common(*(a.dtype for a in args)).kind == "f":
        return _together(args)
    return [np.float64(a) for a in args]


# ------------------------------------------------------------------------------------ the meanings

Meaning = Callable[..., Any]


def _promoted(function: Meaning, bools: bool = False) -> Meaning:
    return lambda *args: function(*_together(args, bools))


def _on_floats(function: Meaning) -> Meaning:
    return lambda *args: function(*_floats(args))


def _whole(function: Callable[[int, int], int], floating: Meaning) -> Meaning:
    """A division: `function` on Python integers, `floating` on floats."""

    def divide(*args: Any) -> Any:
        a, b = _together(args)
        if a.dtype.kind == "f":
            return floating(a, b)
        return wrap(function(int(a), int(b)), a.dtype)

    return divide


def _exactly(rounded: Callable[[Fraction], int]) -> Meaning:
    """The exact quotient of two floats, rounded to a whole number."""

    def divide(a: Any, b: Any) -> Any:
        if np.isnan(a) or np.isnan(b) or b == 0:
            return a / b
        if np.isinf(a):
            return a.dtype.type(np.nan)
        one = Fraction(float(a))
        if np.isinf(b):  # the quotient is closer to 0 than any number, but not 0
            return a.dtype.type(rounded(Fraction(int(np.sign(a) * np.sign(b)), 2)))
        try:
            return a.dtype.type(float(rounded(one / Fraction(float(b)))))
        except OverflowError:
            return a / b

    return divide


def _towards_zero(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _power(a: Any, b: Any) -> Any:
    if "f" in (a.dtype.kind, b.dtype.kind):
        return np.power(*_floats((a, b)))
    (a,) = _together((a,))
    base, exponent = int(a), int(b)
    if exponent < 0:  # the whole part of the fraction
        return a.dtype.type(base ** (-exponent % 2) if abs(base) == 1 else 0)
    return wrap(pow(base, exponent, 1 << 64), a.dtype)


_STEPS = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide}


def _stepped(step: Meaning) -> Meaning:
    def run(x: Any, a: Any, n: Any) -> Any:
        x, a = _floats((x, a))
        return reduce(lambda x, _: step(x, a), range(int(n)), x)

    return run


def _compared(function: Callable[[Any, Any], bool]) -> Meaning:
    """Integers are compared by value, whatever their types."""

    def compare(a: Any, b: Any) -> Any:
        if "f" in (a.dtype.kind, b.dtype.kind):
            return np.bool_(function(*_together((a, b))))
        return np.bool_(function(int(a), int(b)))

    return compare


def _of_kinds(kinds: str, message: str, function: Meaning) -> Meaning:
    """A function of operands of these kinds only."""

    def checked(*args: Any) -> Any:
        if any(a.dtype.kind not in kinds for a in args):
            raise type_error(message)
        return function(*args)

    return checked


def _logical(function: Meaning) -> Meaning:
    return _of_kinds("b", "a condition must be a Bool", function)


def _bits(function: Meaning) -> Meaning:
    message = "bit operations need integers or Bools"
    return _of_kinds("biu", message, _promoted(function, bools=True))


def _shifted(sign: int) -> Meaning:
    """A shift by a count of any size; a negative one shifts the other way."""

    def shift(a: Any, b: Any) -> Any:
        (a,), count = _together((a,)), sign * int(b)
        value = int(a)
        return wrap(value << min(count, 64) if count >= 0 else value >> min(-count, 64), a.dtype)

    return _of_kinds("biu", "a shift needs integers", shift)


def _scaled(a: Any, b: Any) -> Any:
    if b.dtype.kind == "f":
        raise type_error("the exponent of ldexp is an integer")
    exponent = min(max(int(b), -(1 << 16)), 1 << 16)
    return np.ldexp(_floats((a,))[0], exponent)


def _rounded(function: Meaning) -> Meaning:
    return lambda a: function(a) if a.dtype.kind == "f" else a


def _part(name: str) -> Meaning:
    def part(pair: Any) -> Any:
        if not pair.dtype.names:
            raise type_error(f"{pair.dtype} is no pair")
        return pair[name]

    return part


def _by_first(is_worse: Callable[[Any, Any], bool]) -> Meaning:
    """The first pair, unless its first part is worse than that of the second pair."""

    def chosen(a: Any, b: Any) -> Any:
        if not (a.dtype.names and b.dtype.names):
            raise type_error("these are no pairs")
        return convert(b if is_worse(a["first"], b["first"]) else a, common(a.dtype, b.dtype))

    return chosen


_OF_FLOATS = (
    *("sqrt", "exp", "exp2", "log", "log2", "log10", "expm1", "log1p", "sin", "cos", "tan", "asin"),
    *("acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "cbrt"),
)
_OF_TWO_FLOATS = ("atan2", "copysign", "hypot", "nextafter")
#: what each operator computes, by name and number of operands
MEANINGS: dict[tuple[str, int], Meaning] = {
    ("+", 1): _promoted(lambda a: a),
    ("-", 1): _promoted(np.negative),
    ("+", 2): _promoted(np.add),
    ("-", 2): _promoted(np.subtract),
    ("*", 2): _promoted(np.multiply, bools=True),
    ("/", 2): _on_floats(np.true_divide),
    ("div", 2): _whole(_towards_zero, _exactly(math.trunc)),
    ("%", 2): _whole(lambda a, b: a - b * _towards_zero(a, b), np.fmod),
    ("fld", 2): _whole(lambda a, b: a // b, _exactly(math.floor)),
    ("cld", 2): _whole(lambda a, b: -(-a // b), _exactly(math.ceil)),
    ("mod", 2): _whole(lambda a, b: a % b, np.mod),
    ("^", 2): _power,
    **{(f"{name}_times", 3): _stepped(step) for name, step in _STEPS.items()},
    ("min", 2): _promoted(np.minimum, bools=True),
    ("max", 2): _promoted(np.maximum, bools=True),
    **{(sign, 2): _compared(f) for sign, f in (("==", py.eq), ("!=", py.ne), ("<", py.lt))},
    **{(sign, 2): _compared(f) for sign, f in (("<=", py.le), (">", py.gt), (">=", py.ge))},
    ("&&", 2): _logical(np.logical_and),
    ("||", 2): _logical(np.logical_or),
    ("!", 1): _logical(np.logical_not),
    ("&", 2): _bits(np.bitwise_and),
    ("|", 2): _bits(np.bitwise_or),
    ("xor", 2): _bits(np.bitwise_xor),
    ("~", 1): _bits(np.invert),
    ("<<", 2): _shifted(1),
    (">>", 2): _shifted(-1),
    ("identity", 1): lambda a: a,
    ("inv", 1): _on_floats(np.reciprocal),
    ("sign", 1): _promoted(np.sign),
    ("isnan", 1): lambda a: np.isnan(a) if a.dtype.kind == "f" else np.bool_(False),
    **{(name, 1): getattr(np, name) for name in ("isfinite", "isinf")},
    ("iszero", 1): lambda a: a == 0,
    ("abs", 1): lambda a: a if a.dtype.kind == "b" else np.abs(a),
    ("abs2", 1): _promoted(np.square),
    ("iseven", 1): _bits(lambda a: np.bool_(not int(a) % 2)),
    ("isodd", 1): _bits(lambda a: np.bool_(int(a) % 2)),
    ("clamp", 3): _promoted(lambda a, low, high: np.minimum(np.maximum(a, low), high), bools=True),
    **{(name, 1): _rounded(getattr(np, name)) for name in ("floor", "ceil", "trunc")},
    ("round", 1): _rounded(np.rint),
    **{(name, 1): _on_floats(getattr(np, name)) for name in _OF_FLOATS},
    **{(name, 2): _on_floats(getattr(np, name)) for name in _OF_TWO_FLOATS},
    ("ldexp", 2): _scaled,
    ("=>", 2): pair,
    ("first", 1): _part("first"),
    ("last", 1): _part("second"),
    ("minby", 2): _by_first(py.gt),
    ("maxby", 2): _by_first(py.lt),
    **{(name, 2): lambda a, b: b for name in ("initwrite", "overwrite")},
    **{(t.name, 1): lambda a, dtype=t.dtype: convert(a, dtype) for t in TYPES.values()},
}
_INTEGERS = [t.name for t in TYPES.values() if t.is_integer]
MEANINGS |= {(f"cut_{name}", 1): MEANINGS[name, 1] for name in _INTEGERS}
SPELLINGS = {"and": "&&", "or": "||", "rem": "%"} | {a: type.name for a, type in ALIASES.items()}
_LAZY = ("coalesce", "ifelse")
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
#: operators that take any number of operands, applied from left to right
OF_MANY = ("+", "*", "min", "max", "&&", "||", "&", "|", "xor")


# ------------------------------------------------------------------------------------- structure


def _is_extreme(x: Any, dtype: np.dtype, sign: int) -> bool:
    """Whether no value of the type lies beyond x, below (sign -1) or above."""
    if dtype.kind == "f":
        return bool(x == sign * np.inf)
    limits = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return int(x) == limits[sign > 0]


def _at_end(x: Any, dtype: np.dtype, sign: int, result: bool) -> bool | None:
    """A comparison with NaN, or with the least (sign -1) or greatest value of a type, if it is `result`
    then. An unsigned integer may be compared with a signed one; NaN is not `<=` an infinity."""
    is_end = _is_extreme(x, dtype, sign) and dtype.kind not in ("uf" if result else "u")
    return False if x != x else result if is_end else None


def _zero_if(k: int, x: Any, by: Any) -> Any:
    """0 if a first operand is 0, or for the second one `by` holds."""
    return 0 if (x == 0 if k == 1 else by) else None


#: The result that a structural k-th operand x alone decides, whatever the others are, else None; operands
#: have been brought to the common type t, but for those of comparisons.
DECIDING: dict[str, Callable[[int, Any, np.dtype], Any]] = {
    "*": lambda k, x, t: 0 if x == 0 else None,
    **dict.fromkeys(("/", "div"), lambda k, x, t: _zero_if(k, x, np.isinf(x))),
    **dict.fromkeys(("fld", "cld", "<<", ">>", "ldexp"), lambda k, x, t: _zero_if(k, x, False)),
    **dict.fromkeys(("%", "mod"), lambda k, x, t: _zero_if(k, x, abs(x) == 1 and t.kind in "iu")),
    "+": lambda k, x, t: x if np.isinf(x) else None,
    "-": lambda k, x, t: (x if k == 1 else -x) if np.isinf(x) else None,
    "^": lambda k, x, t: 1 if (x == 1 if k == 1 else x == 0) else None,
    "min": lambda k, x, t: x if _is_extreme(x, t, -1) else None,
    "max": lambda k, x, t: x if _is_extreme(x, t, 1) else None,
    "==": lambda k, x, t: False if x != x else None,
    "!=": lambda k, x, t: True if x != x else None,
    "<": lambda k, x, t: _at_end(x, t, 1 if k == 1 else -1, False),
    ">": lambda k, x, t: _at_end(x, t, -1 if k == 1 else 1, False),
    "<=": lambda k, x, t: _at_end(x, t, -1 if k == 1 else 1, True),
    ">=": lambda k, x, t: _at_end(x, t, 1 if k == 1 else -1, True),
    "&&": lambda k, x, t: None if x else False,
    "||": lambda k, x, t: True if x else None,
    "&": lambda k, x, t: 0 if x == 0 else None,
    "|": lambda k, x, t: x if x == (1 if t.kind == "b" else wrap(-1, t)) else None,
}


def name_of(op: Node) -> str:
    """The name of an operator, one for all spellings; "" for what is no name."""
    return SPELLINGS.get(op.name, op.name) if isinstance(op, Variable) else ""


def choice(op: Node) -> str:
    """The operator, if its first operand tells which others are needed; else an empty name."""
    return name if (name := name_of(op)) in ("ifelse", "&&", "||") else ""


def is_kept(op: Node, value: Any, dtype: np.dtype) -> bool:
    """Whether `op` gives its first operand `value` back, whatever the second is."""
    if isinstance(op, Call):  # choose(z)
        return op.op == Variable("choose") and len(op.args) == 1 and value != op.args[0].value  # type: ignore
    name = name_of(op)
    return name in DECIDING and bool(DECIDING[name](1, value, dtype) == value)


# ------------------------------------------------------------------------------------ application


def apply(
    op: Node, args: list[Any], node: Node, meanings: Mapping[tuple[str, int], Meaning] = MEANINGS
) -> Any:
    """An operator, as `meanings` say, on values (Number, Failed, `missing`): a value, or `missing`.

    Raises FinchError of kind type or unknown name, with the place of `node`."""
    try:
        result = _apply(op, args, meanings)
    except FinchError as error:
        raise error.at(node.span) from None
    if isinstance(result, Failed):
        return Failed(result.error.at(node.span), result.value)
    return result


def _apply(op: Node, args: list[Any], meanings: Mapping[tuple[str, int], Meaning]) -> Any:
    if isinstance(op, Call) and op.op == Variable("choose"):
        return _choose(op, args)
    name = name_of(op)
    if name == "coalesce" and args:
        return next((a for a in args if a is not MISSING), MISSING)
    if name in OF_MANY and len(args) > 2:
        return reduce(lambda a, b: _apply(op, [a, b], meanings), args)
    if name == "ifelse" and len(args) == 3:
        return _ifelse(*args)
    meaning = meanings.get((name, len(args)))
    if meaning is None:
        if name in _LAZY or any(known == name for known, _ in MEANINGS):
            raise type_error(f"{name} does not take {len(args)} arguments")
        raise FinchError("unknown name", f"{name or 'this'} is not an operator")
    if MISSING in args:
        return MISSING
    if not all(isinstance(a, (Number, Failed)) for a in args):
        raise type_error(f"{name} takes numbers")
    return _of_numbers(name, meaning, args)


def _of_numbers(name: str, meaning: Meaning, args: list[Any]) -> Any:
    values = [a.value for a in args]
    if name not in OF_PAIRS and any(value.dtype.names for value in values):
        raise type_error("a pair is no number")
    with np.errstate(all="ignore"):
        decided = _decided(name, args)
        if name in ("&&", "||") and values[0].dtype.kind == "b" and values[0] == (name == "||"):
            args = args[:1]  # the second operand is not needed
        failed = next((a.error for a in args if isinstance(a, Failed)), None)
        is_whole = all(value.dtype.kind != "f" for value in values)
        if name in DIVISIONS and is_whole and values[1] == 0:
            failed = failed or FinchError("bounds", "an integer is divided by 0")
            values[1] = values[1].dtype.type(1)
        result = meaning(*values)
        if name in _INTEGERS and int(result) != (int if is_whole else float)(values[0]):
            failed = failed or FinchError("bounds", f"{name} cannot hold {values[0]}")
        if decided is not None:
            return Number(convert(np.asarray(decided)[()], result.dtype), True)
    if failed is not None:
        return Failed(failed, result)
    return Number(result, all(a.is_structural for a in args))


#: operators that take pairs
OF_PAIRS = ("minby", "maxby", "first", "last", "identity", "initwrite", "overwrite")
#: operators that fail for an integer divisor 0
DIVISIONS = ("div", "fld", "cld", "%", "mod")


def _decided(name: str, args: list[Any]) -> Any:
    """The result that structural operands decide, if all that decide agree."""
    if name not in DECIDING or len(args) != 2:
        return None
    dtype = common(*(a.value.dtype for a in args))
    # comparisons are of the numbers that operands are
    given = [(k, a.value) for k, a in enumerate(args, 1) if _is_structural(a)]
    known = given if name in COMPARISONS else [(k, convert(v, dtype)) for k, v in given]
    found = [r for k, x in known if (r := DECIDING[name](k, x, dtype)) is not None]
    return found[0] if found and all(r == found[0] for r in found) else None


def _is_structural(value: Any) -> bool:
    return isinstance(value, Number) and value.is_structural


def _ifelse(condition: Any, then: Any, otherwise: Any) -> Any:
    if condition is MISSING:
        return condition
    if not isinstance(condition, (Number, Failed)) or condition.value.dtype.kind != "b":
        raise type_error("a condition must be a Bool")
    if _is_structural(then) and _is_structural(otherwise):
        one, other = then.value, otherwise.value
        if one.dtype == other.dtype and one == other:
            return then
    chosen, other = (then, otherwise) if condition.value else (otherwise, then)
    return _chosen(chosen, other, condition)


def _chosen(chosen: Any, other: Any, by: Any) -> Any:
    """One of two operands in their common type, chosen `by` another value."""
    failed = next((a.error for a in (by, chosen) if isinstance(a, Failed)), None)
    if chosen is MISSING or other is MISSING:
        return chosen if failed is None or chosen is MISSING else Failed(failed, chosen.value)
    value = convert(chosen.value, common(chosen.value.dtype, other.value.dtype))
    if failed is not None:
        return Failed(failed, value)
    return Number(value, by.is_structural and chosen.is_structural)


def _choose(op: Call, args: list[Any]) -> Any:
    """choose(z)(a, b) is a if a is not z, else b."""
    (z,) = op.args if len(op.args) == 1 else (None,)
    if not isinstance(z, Literal) or len(args) != 2:
        raise type_error("choose takes one literal, and then two arguments")
    if MISSING in args:
        return MISSING
    a, b = args
    found = a.value.item() if a.value.dtype.names else a.value
    chosen, other = (a, b) if found != z.value else (b, a)
    return _chosen(chosen, other, a)
