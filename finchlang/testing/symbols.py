"""Symbols for values: terms are in Float64 arrays as NaNs that carry their number, and in Int64 arrays as
integers far from all others. Levels, rules and storage move them as they move numbers; only operations know
what they are.

A term is a polynomial over atoms with rational coefficients: sums and products are associative and
commutative and distribute, constants are exact, and powers of an atom may be negative. An atom is a symbol,
which stands for any finite real number or integer; `min` or `max` of a set of terms (associative,
commutative, idempotent); the inverse of a sum; or another operation on terms, of which nothing is known.
Two terms that are the same are equal over the reals wherever no divisor is 0; floats are equal up to the
order of operations and their rounding. Comparisons of terms are decided by the `Path`.
"""

from __future__ import annotations

import math
import random
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

import numpy as np

from finchlang.denote.numpy_operators import MEANINGS
from finchlang.denote.typed_values import Number
from finchlang.host import ir, primitives
from finchlang.host.executing import ExecutingHost, RememberingHost
from finchlang.syntax.nodes import MISSING, Call, Node, Script, Variable
from finchlang.syntax.types import Bool, Float64, Int64
from finchlang.syntax.user_function import Operation
from finchlang.tensors.memory import Memory
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor, swizzled
from finchlang.testing.looking import Looking

#: the atoms of a product with their powers; the products of a term with their coefficients
Monomial = tuple[tuple[int, int], ...]
Term = tuple[tuple[Monomial, Any], ...]
_TAG, _BITS = 0x7FFC << 48, 0xFFFC << 48
_WHOLE = 0x2BAD << 48
_by_number: list[Term] = []
_by_atom: list[tuple[Any, ...]] = []
#: the symbols among the atoms, with the types of their values
_symbols: list[tuple[int, Callable[[float], Any]]] = []
#: for each comparison the signs of the difference for which it holds
SIGNS = {"lt": {-1}, "le": {-1, 0}, "gt": {1}, "ge": {0, 1}, "eq": {0}, "ne": {-1, 1}}
#: operations of the host, by the operators of the denotation
_NAMES = {
    **{("+", 2): "add", ("-", 2): "sub", ("-", 1): "neg", ("*", 2): "mul", ("/", 2): "fdiv"},
    **{("<", 2): "lt", ("<=", 2): "le", (">", 2): "gt", (">=", 2): "ge", ("^", 2): "fpow"},
    **{("==", 2): "eq", ("!=", 2): "ne", ("%", 2): "fmod"},
}
_UNKNOWN = frozenset(
    ("abs", "floor", "ceil", "trunc", "round", "sqrt", "exp", "log", "log2", "log10", "sin", "cos")
) | {"tan", "tanh", "fpow", "fmod", "hypot", "atan2", "expm1", "log1p"}


class Unsupported(Exception):
    """Raised for an operation that cannot be done on symbols."""


# ------------------------------------------------------------------------------------------ terms


def atom(*what: Any) -> Term:
    """The term of one atom: ("symbol", name, a number to try it with) or (operation, *terms)."""
    return ((((_number_of_atom(what), 1),), 1),)


@cache
def _number_of_atom(what: tuple[Any, ...]) -> int:
    if what[0] == "symbol":
        _symbols.append((len(_by_atom), type(what[2])))
    _by_atom.append(what)
    return len(_by_atom) - 1


def constant(value: Any) -> Term:
    return (((), Fraction(value)),) if value else ()


def constant_of(term: Term) -> Any:
    """The number that a term is; None if there are symbols in it."""
    if not term:
        return 0
    return term[0][1] if len(term) == 1 and not term[0][0] else None


def _collected(parts: Iterable[tuple[Monomial, Any]]) -> Term:
    found: dict[Monomial, Any] = {}
    for monomial, factor in parts:
        found[monomial] = found.get(monomial, 0) + factor
    return tuple(sorted((m, c) for m, c in found.items() if c))


def scaled(term: Term, factor: Any) -> Term:
    return _collected((m, c * factor) for m, c in term)


def difference(a: Term, b: Term) -> Term:
    return _collected([*a, *((m, -c) for m, c in b)])


def product(a: Term, b: Term) -> Term:
    def joined(one: Monomial, other: Monomial) -> Monomial:
        powers = dict(one)
        for k, power in other:
            powers[k] = powers.get(k, 0) + power
        return tuple(sorted((k, p) for k, p in powers.items() if p))

    return _collected((joined(m, n), c * d) for m, c in a for n, d in b)


def inverse(term: Term) -> Term:
    if len(term) == 1:
        ((monomial, factor),) = term
        return ((tuple((k, -p) for k, p in monomial), Fraction(1) / factor),)
    return atom("inverse", term)


def _extreme(name: str, a: Term, b: Term) -> Term:
    """`min` or `max` of two terms, with nested ones flattened, and their constants made one."""
    found: set[Term] = set()
    for term in (a, b):
        whole = _by_atom[term[0][0][0][0]] if len(term) == 1 and term[0][0] else ()
        is_one = bool(whole) and whole[0] == name and term == atom(*whole)
        found |= set(whole[1:]) if is_one else {term}
    known = {t: number for t in found if (number := constant_of(t)) is not None}
    if len(known) > 1:
        value = (min if name == "min" else max)(known.values())
        found = found.difference(known) | {constant(value)}
    return found.pop() if len(found) == 1 else atom(name, *sorted(found))


def value_at(
    term: Term, point: dict[int, float] | None, number: Callable[[Any], Any] = float
) -> Any:
    """The value of a term at a point, which gives values of atoms; other symbols have their own numbers."""

    def of(k: int) -> float:
        what = _by_atom[k]
        if point and k in point:
            return point[k]
        if what[0] == "symbol":
            return number(what[2])
        values = [value_at(t, point, number) for t in what[1:]]
        if what[0] == "inverse":
            return 1 / values[0] if values[0] else math.inf
        if what[0] in ("min", "max"):
            return min(values) if what[0] == "min" else max(values)
        return float(primitives.function_of(what[0], Float64, Float64)(*values))

    total = number(0)
    for monomial, factor in term:
        part = number(factor)
        for k, power in monomial:
            base = of(k)
            part *= base**power if base or power > 0 else math.inf
        total += part
    return total


def written(value: Any) -> str:
    if not is_symbolic(value):
        return repr(value)

    def name(k: int) -> str:
        what = _by_atom[k]
        return what[1] if what[0] == "symbol" else f"{what[0]}({', '.join(map(text, what[1:]))})"

    def text(term: Term) -> str:
        parts = []
        for monomial, factor in term:
            powers = [name(k) if p == 1 else f"{name(k)}^{p}" for k, p in monomial]
            parts.append("*".join([str(factor)] * (factor != 1 or not powers) + powers))
        return " + ".join(parts) or "0"

    return text(lifted(value))


# ----------------------------------------------------------------------------- terms among numbers


def boxed(term: Term, is_whole: bool = False) -> Any:
    """The number that stands for a term, an Int64 if `is_whole`; constants stand for themselves."""
    if (number := constant_of(term)) is not None:
        if is_whole:
            return Int64.wrap(int(number))
        if Fraction(float(number)) == number:
            return float(number)
    if is_whole:
        return _WHOLE | _number_of_term(term)
    return struct.unpack("<d", struct.pack("<Q", _TAG | (_number_of_term(term) + 1)))[0]


@cache
def _number_of_term(term: Term) -> int:
    _by_number.append(term)
    return len(_by_number) - 1


def _bits_of(value: float) -> int:
    return struct.unpack("<Q", struct.pack("<d", value))[0]


def is_symbolic(value: Any) -> bool:
    if isinstance(value, float):
        return value != value and _bits_of(value) & _BITS == _TAG != _bits_of(value)
    return isinstance(value, (int, np.int64)) and int(value) >> 48 == _WHOLE >> 48


def points(count: int) -> list[dict[int, float]]:
    """Values for all symbols: first the numbers of their own, then `count` random choices."""
    return _points(count, len(_symbols))


@lru_cache(4)
def _points(count: int, symbols: int) -> list[dict[int, float]]:
    draw, found = random.Random(1), list[dict[int, float]]([{}])
    kinds = [(-2.0, -1.0, 0.0, 1.0, 2.0), tuple(draw.uniform(-3, 3) for _ in range(50))]
    for k in range(count):
        found.append({at: number(draw.choice(kinds[k % 2])) for at, number in _symbols[:symbols]})
    return found


def number_of(value: Any, point: dict[int, float] | None = None) -> Any:
    """A number, or the value of a term at a point."""
    if not is_symbolic(value):
        return value
    is_whole = not isinstance(value, float)
    found = value_at(lifted(value), point, int if is_whole else float)
    return Int64.wrap(int(found)) if is_whole else found


def with_values(tensor: Any, function: Callable[[Any], Any]) -> Any:
    """A tensor with `function` applied to the values that it stores."""
    if isinstance(tensor, Scalar):
        return Scalar(tensor.format, function(tensor.value))
    if isinstance(tensor, SwizzledTensor):
        return swizzled(with_values(tensor.body, function), tensor.format)
    memory = tensor.memory
    if not memory.arrays:
        return tensor
    *others, last = memory.arrays
    last = np.array([function(v) for v in last.tolist()], last.dtype)
    own = Memory(memory.shape, [*others, last], memory.counters)
    return Tensor.over(tensor.format, own, True)


def lifted(value: Any) -> Term:
    """The term that a number stands for; a constant term for any other finite number."""
    if is_symbolic(value) and not isinstance(value, float):
        return _by_number[int(value) ^ _WHOLE]
    return _by_number[(_bits_of(value) ^ _TAG) - 1] if is_symbolic(value) else constant(value)


# --------------------------------------------------------------------------- cases of comparisons


class Path:
    """One case of the comparisons made in a run. A comparison asks whether the sign of a term is in a set.
    If all `points` (values of symbols) that are left agree, they decide it; if not, `given` does or, after
    that, the first point, and only the points on that side are left. `others` are the values of `given` for
    the ways not taken; each leads to a case in which some point lies."""

    def __init__(self, points: Sequence[dict[int, float]], given: Sequence[bool] = ()):
        self.points, self.given = list(points), given
        self.taken: list[bool] = []
        self.others: list[tuple[bool, ...]] = []

    def asks(self, term: Term, signs: set[int]) -> bool:
        if (number := constant_of(term)) is not None:
            return (number > 0) - (number < 0) in signs
        sides: tuple[list[dict[int, float]], list[dict[int, float]]] = ([], [])
        for point in self.points:
            value = value_at(term, point)
            sign = 0 if abs(value) < 1e-9 else 1 if value > 0 else -1
            sides[sign in signs].append(point)
        if not sides[0] or not sides[1]:
            return bool(sides[1])
        at = len(self.taken)
        answer = self.given[at] if at < len(self.given) else self.points[0] in sides[1]
        if at >= len(self.given):
            self.others.append((*self.taken, not answer))
        self.taken.append(answer)
        self.points = sides[answer]
        return answer

    def differ(self, a: Any, b: Any) -> dict[int, float] | None | bool:
        """False for the same value, a point at which two values differ, or None if none was found."""
        if a == b or (a != a and b != b and not (is_symbolic(a) or is_symbolic(b))):
            return False
        if any(not is_symbolic(x) and not math.isfinite(x) for x in (a, b)):
            return self.points[0]
        one, other = lifted(a), lifted(b)
        if one == other:
            return False
        for point in self.points:
            x, y = value_at(one, point), value_at(other, point)
            if not math.isclose(x, y, rel_tol=1e-9, abs_tol=1e-9) and x == x and y == y:
                return point
        return None

    def computed(self, name: str, args: Sequence[Any]) -> Any:
        """An operation of the host on values of which some are symbolic."""
        if any(a != a and not is_symbolic(a) for a in args):
            return name == "ne" if name in SIGNS else math.nan
        if any(not is_symbolic(a) and isinstance(a, float) and math.isinf(a) for a in args):
            return self._with_infinity(name, args)
        terms = [lifted(a) for a in args]
        if name in SIGNS:
            return self.asks(difference(*terms), SIGNS[name])
        if name == "isnan":
            return False
        is_whole = any(is_symbolic(a) and not isinstance(a, float) for a in args)
        return boxed(_made(name, terms, args), is_whole and name != "fdiv")

    def _with_infinity(self, name: str, args: Sequence[Any]) -> Any:
        if name not in (*SIGNS, "add", "sub", "min", "max", "mul", "fdiv"):
            raise Unsupported(f"{name} of an infinity")
        signed = name in ("mul", "fdiv")
        plain = [
            (self.sign(lifted(a)) if signed else 0.0) if is_symbolic(a) else float(a) for a in args
        ]
        found = primitives.function_of(name, Bool if name in SIGNS else Float64, Float64)(*plain)
        if name in ("min", "max") and not math.isinf(found):
            return next(a for a in args if is_symbolic(a))
        return found

    def sign(self, term: Term) -> float:
        return 1.0 if self.asks(term, {1}) else 0.0 if self.asks(term, {0}) else -1.0


def _made(name: str, terms: list[Term], args: Sequence[Any]) -> Term:
    first, last = terms[0], terms[-1]
    match name:
        case "add":
            return difference(first, scaled(last, -1))
        case "sub":
            return difference(first, last)
        case "neg":
            return scaled(first, -1)
        case "mul":
            return product(first, last)
        case "fdiv" if last:
            return product(first, inverse(last))
        case "min" | "max":
            return _extreme(name, first, last)
        case "add_times":
            return difference(first, scaled(product(terms[1], last), -1))
        case "mul_times" | "div_times":
            base = terms[1] if name == "mul_times" else inverse(terms[1])
            for _ in range(int(args[2])):
                first = product(first, base)
            return first
        case "fpow" | "ipow" if not is_symbolic(args[1]) and args[1] in range(1, 9):
            for _ in range(int(args[1]) - 1):
                first = product(first, terms[0])
            return first
    if name in _UNKNOWN:
        return atom(name, *terms)
    raise Unsupported(f"{name} of a symbol")


def converted(value: Any, is_whole: bool) -> Any:
    """The same term as a Float64 or Int64. Raises Unsupported if a symbol would be rounded."""
    if is_whole and isinstance(value, float):
        raise Unsupported("a symbol as an integer")
    return boxed(lifted(value), is_whole)


class SymbolicHost(ExecutingHost):
    """The executing host on values of which some are symbolic."""

    def __init__(self, path: Path):
        super().__init__()
        self.path = path

    def compute(self, operation: ir.Op, args: list[Any]) -> Any:
        for value in args:
            if is_symbolic(value):
                break
        else:
            return super().compute(operation, args)
        if operation.name == "cast" and operation.type in (Float64, Int64):
            return converted(args[0], operation.type is Int64)
        return self.path.computed(operation.name, args)


class SymbolicInterpreter(SymbolicHost, RememberingHost):
    """The same, for one program that is performed again and again: each piece of it is derived once."""

    def begin(self, path: Path) -> None:
        self.path, self.steps = path, Counter()
        self.sizes.clear()
        self.unwritten.clear()


def symbolic_denotation(path: Callable[[], Path]) -> Callable[..., Looking]:
    """The denotation on values of which some are symbolic; `path` gives the case that it is in."""

    def meaning(key: tuple[str, int]) -> Callable[..., Any]:
        def computed(*args: Any) -> Any:
            if not any(map(is_symbolic, args)):
                return MEANINGS[key](*args)
            if key[0] in ("identity", "initwrite", "overwrite"):
                return args[-1]
            if key[0] in ("Float64", "Int64"):
                made = converted(args[-1], key[0] == "Int64")
                return np.float64(made) if key[0] == "Float64" else np.int64(made)
            if key[0] == "sign":
                return type(args[0])(path().sign(lifted(args[0])))
            if key[0] == "inv":
                return np.float64(path().computed("fdiv", [1.0, args[0]]))
            found = path().computed(_NAMES.get(key, key[0]), [a.item() for a in args])
            if isinstance(found, bool):
                return np.bool_(found)
            return np.float64(found) if isinstance(found, float) else np.int64(found)

        return computed

    class Symbolic(Looking):
        meanings = {key: meaning(key) for key in MEANINGS}

        def apply(self, op: Node, args: list[Any], node: Node) -> Any:
            held = [a.value.item() for a in args if isinstance(a, Number)]
            if any(map(is_symbolic, held)):
                if isinstance(op, Operation) and MISSING not in args:
                    if isinstance(op.body, Script):
                        raise Unsupported(f"the statements of {op.name}")
                    # by its expression, in updates, too: the script's own functions know no symbols
                    return self.value(op.body, dict(zip(op.parameters, args, strict=True)))
                if isinstance(op, Call) and op.op == Variable("choose") and len(held) == 2:
                    z = op.args[0].value  # type: ignore[attr-defined]
                    is_other = path().computed("eq", [held[0], float(z)])
                    return Number(args[is_other].value)
            return super().apply(op, args, node)

    return Symbolic
