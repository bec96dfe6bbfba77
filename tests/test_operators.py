"""Every row of the operator table: what it computes, against NumPy, and that its properties hold."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernels import kernel

from finchlang.algebra import OPERATORS, Operator, operator
from finchlang.driver import Session
from finchlang.host.build import const
from finchlang.host.execute import ExecutingHost
from finchlang.host.ir import Const, Expr, Var
from finchlang.source import FinchError
from finchlang.syntax import MISSING, Call, Literal, Variable
from finchlang.types import TYPES, Bool, Float32, Float64, Int8, Int64, Type, UInt8, promote

FLOATS = [-2.5, -1.0, -0.5, 0.0, 0.25, 1.0, 2.0, 3.5, 100.0]
INTEGERS = [-128, -100, -3, -1, 0, 1, 2, 7, 63, 127]
UNSIGNED = [0, 1, 2, 3, 7, 64, 128, 255]


def samples(type: Type) -> list[Any]:
    """Values of a type, with its extremes."""
    if type == Bool:
        return [False, True]
    if type.is_float:
        return FLOATS
    values = INTEGERS if type.kind == "int" else UNSIGNED
    return sorted({*values, type.lowest, type.highest})


SAMPLE_TYPES = (Bool, Int8, Int64, UInt8, TYPES["UInt64"], Float32, Float64)
NUMBERS = tuple(t for t in SAMPLE_TYPES if t != Bool)
WHOLE = tuple(t for t in SAMPLE_TYPES if not t.is_float)


def build(row: Operator, *values: tuple[Any, Type]) -> Any:
    """What a row computes on constants, in Python."""
    result = row.build(*(const(v, t) for v, t in values))
    assert isinstance(result, Const)
    return result


def run(row: Operator, *values: tuple[Any, Type]) -> tuple[Any, Type]:
    """The same with the values known only when it runs."""
    variables: list[Expr] = []
    for value, type in values:
        variable = Var("x", type)
        variable.held = type.wrap(value)
        variables.append(variable)
    result = row.build(*variables)
    return ExecutingHost().evaluate(result), result.type


def same(a: Any, b: Any, tolerance: float = 0.0) -> bool:
    if a != a or b != b:
        return a != a and b != b
    return a == b or bool(np.isclose(a, b, rtol=tolerance, atol=0.0))


def scalar(value: Any, type: Type) -> Any:
    return type.dtype.type(type.wrap(value))


# --------------------------------------------------------------------------- what NumPy would give


def promoted(function: Callable[..., Any], bools: Any = None) -> Callable[..., Any]:
    """A NumPy function on operands brought to their common type; Bools are numbers unless told."""

    def reference(*values: tuple[Any, Type]) -> Any:
        type = values[0][1]
        for _, other in values[1:]:
            type = promote(type, other)
        if type == Bool:
            if bools is not None:
                return bools(*(v for v, _ in values))
            type = Int64
        return function(*(scalar(v, type) for v, _ in values))

    return reference


def floats(function: Callable[..., Any]) -> Callable[..., Any]:
    """A NumPy function on Float64, or on Float32 if that is what the operands promote to."""

    def reference(*values: tuple[Any, Type]) -> Any:
        type = values[0][1]
        for _, other in values[1:]:
            type = promote(type, other)
        type = type if type.is_float else Float64
        return function(*(scalar(v, type) for v, _ in values))

    return reference


def exact(function: Callable[..., Any]) -> Callable[..., Any]:
    """A Python function on the values as they are."""
    return lambda *values: function(*(v for v, _ in values))


def truncated_quotient(a: Any, b: Any) -> Any:
    if isinstance(a, np.floating):
        return np.trunc(a / b)
    if b == 0:
        return 0
    quotient = abs(int(a)) // abs(int(b))
    return quotient if (a < 0) == (b < 0) else -quotient


def truncated_remainder(a: Any, b: Any) -> Any:
    if isinstance(a, np.floating):
        return np.fmod(a, b)
    return int(a) - int(b) * truncated_quotient(a, b) if b != 0 else 0


def power(a: Any, b: Any) -> Any:
    if isinstance(a, np.floating):
        return np.power(a, b)
    return 0 if b < 0 else pow(int(a), int(b))


def sign(a: Any) -> Any:
    return (a > 0) - (a < 0)


def shifted(left: bool) -> Callable[..., Any]:
    def reference(a: tuple[Any, Type], b: tuple[Any, Type]) -> Any:
        type = a[1] if a[1] != Bool else Int64
        count = Int64.wrap(b[0])
        is_left = left if count >= 0 else not left
        count = abs(count)
        value = int(a[0])
        if count >= type.bits:
            return 0 if is_left or value >= 0 else -1
        return value << count if is_left else value >> count

    return reference


REFERENCES: dict[str, tuple[Callable[..., Any], tuple[Type, ...]]] = {
    "+": (promoted(np.add), SAMPLE_TYPES),
    "-": (promoted(np.subtract), SAMPLE_TYPES),
    "*": (promoted(np.multiply, bools=lambda a, b: a and b), SAMPLE_TYPES),
    "/": (floats(np.divide), SAMPLE_TYPES),
    "div": (promoted(truncated_quotient), SAMPLE_TYPES),
    "%": (promoted(truncated_remainder), SAMPLE_TYPES),
    "min": (promoted(np.minimum, bools=min), SAMPLE_TYPES),
    "max": (promoted(np.maximum, bools=max), SAMPLE_TYPES),
    "==": (exact(lambda a, b: a == b), WHOLE),
    "!=": (exact(lambda a, b: a != b), WHOLE),
    "<": (exact(lambda a, b: a < b), WHOLE),
    "<=": (exact(lambda a, b: a <= b), WHOLE),
    ">": (exact(lambda a, b: a > b), WHOLE),
    ">=": (exact(lambda a, b: a >= b), WHOLE),
    "&&": (exact(lambda a, b: a and b), (Bool,)),
    "||": (exact(lambda a, b: a or b), (Bool,)),
    "&": (promoted(np.bitwise_and, bools=lambda a, b: a and b), WHOLE),
    "|": (promoted(np.bitwise_or, bools=lambda a, b: a or b), WHOLE),
    "xor": (promoted(np.bitwise_xor, bools=lambda a, b: a != b), WHOLE),
    "!": (exact(lambda a: not a), (Bool,)),
    "~": (promoted(np.invert, bools=lambda a: not a), WHOLE),
    "<<": (shifted(True), WHOLE),
    ">>": (shifted(False), WHOLE),
    "identity": (exact(lambda a: a), SAMPLE_TYPES),
    "inv": (floats(lambda a: type(a)(1) / a), SAMPLE_TYPES),
    "sign": (exact(sign), SAMPLE_TYPES),
    "isnan": (exact(lambda a: a != a), SAMPLE_TYPES),
    "abs": (promoted(np.abs, bools=lambda a: a), SAMPLE_TYPES),
    "floor": (exact(np.floor), SAMPLE_TYPES),
    "ceil": (exact(np.ceil), SAMPLE_TYPES),
    "trunc": (exact(np.trunc), SAMPLE_TYPES),
    "round": (exact(np.round), SAMPLE_TYPES),
    "initwrite": (exact(lambda a, b: b), SAMPLE_TYPES),
    "overwrite": (exact(lambda a, b: b), SAMPLE_TYPES),
    **{
        name: (floats(getattr(np, name)), SAMPLE_TYPES)
        for name in ("sqrt", "exp", "log", "log2", "log10", "expm1", "log1p")
    },
    **{
        name: (floats(getattr(np, name)), SAMPLE_TYPES)
        for name in ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh")
    },
}
#: rows that are tested one by one below
APART = {"^", "ifelse", "coalesce", *TYPES}


def rows() -> list[Operator]:
    return list(dict.fromkeys(OPERATORS.values()))


def test_every_row_is_tested() -> None:
    assert {row.name for row in rows()} == set(REFERENCES) | APART
    assert OPERATORS["and"] is OPERATORS["&&"] and OPERATORS["or"] is OPERATORS["||"]


def operands(arity: int, types: tuple[Type, ...]) -> list[tuple[tuple[Any, Type], ...]]:
    """Values of every pair of types; the product of a few values each."""
    found: list[tuple[tuple[Any, Type], ...]] = []
    for kinds in itertools.product(types, repeat=arity):
        lists = [[(v, t) for v in samples(t)] for t in kinds]
        if arity == 2 and kinds[0] != kinds[1]:
            lists = [values[::2] + values[-1:] for values in lists]
        found.extend(itertools.product(*lists))
    return found


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.filterwarnings("ignore")
def test_against_numpy(name: str) -> None:
    row = OPERATORS[name]
    reference, types = REFERENCES[name]
    tolerance = 1e-6  # Float32 functions differ in their last bit
    for values in operands(row.arity[1], types):
        with np.errstate(all="ignore"):
            wanted = reference(*values)
        folded = build(row, *values)
        held, type = run(row, *values)
        assert type == folded.type, (name, values)
        expected = folded.type.wrap(wanted)
        assert same(folded.value, expected, tolerance), (name, values, folded, wanted)
        assert same(held, folded.value), (name, values, "folding and running differ")


@pytest.mark.filterwarnings("ignore")
def test_power() -> None:
    row = OPERATORS["^"]
    for a, b in operands(2, SAMPLE_TYPES):
        found = build(row, a, b)
        whole = not a[1].is_float and not b[1].is_float
        if not whole:
            kind = promote(a[1], b[1])
            with np.errstate(all="ignore"):
                expected = kind.wrap(np.power(scalar(a[0], kind), scalar(b[0], kind)))
            assert same(found.value, expected, 1e-6), (a, b)
            continue
        kind = a[1] if a[1] != Bool else Int64
        exponent = Int64.wrap(b[0])
        exact_power = 0 if exponent < 0 else pow(int(a[0]), exponent, 1 << 64)
        assert found.type == kind and found.value == kind.wrap(exact_power), (a, b)


def test_ifelse() -> None:
    row = OPERATORS["ifelse"]
    for a, b in operands(2, SAMPLE_TYPES):
        kind = promote(a[1], b[1])
        for condition in (True, False):
            found = build(row, (condition, Bool), a, b)
            assert found.type == kind
            assert found.value == kind.wrap(a[0] if condition else b[0])
    with pytest.raises(FinchError):
        build(row, (1, Int64), (1, Int64), (2, Int64))


@pytest.mark.parametrize("target", list(TYPES.values()), ids=str)
def test_conversions(target: Type) -> None:
    for type in SAMPLE_TYPES:
        for value in samples(type):
            found = build(OPERATORS[target.name], (value, type))
            assert found.type == target
            if target == Bool:
                assert found.value == (value != 0)
            elif type.is_float and target.is_integer:
                bounded = max(target.lowest, min(target.highest, int(value)))
                assert found.value == bounded
            else:
                assert found.value == target.wrap(type.wrap(value))


def test_families() -> None:
    choose = operator(Call(Variable("choose"), (Literal(0.0),)))
    assert choose is not None
    assert build(choose, (0.0, Float64), (5.0, Float64)).value == 5.0
    assert build(choose, (2.0, Float64), (5.0, Float64)).value == 2.0
    check_properties(choose, (Float64,))
    initwrite = operator(Call(Variable("initwrite"), (Literal(0.0),)))
    assert initwrite is not None and not initwrite.keeps_old
    assert build(initwrite, (2.0, Float64), (5.0, Float64)).value == 5.0
    with pytest.raises(FinchError):
        operator(Call(Variable("choose"), (Variable("x"),)))


# -------------------------------------------------------------------------------------- properties

#: the types an operator's properties are stated for: those it takes without changing them
LIMITED = {
    **dict.fromkeys(("&&", "||", "!"), (Bool,)),
    **dict.fromkeys(("&", "|", "xor", "~"), WHOLE),
    **dict.fromkeys(("<<", ">>"), tuple(t for t in WHOLE if t != Bool)),
    **dict.fromkeys(("+", "-", "^"), NUMBERS),
    **dict.fromkeys(("/", "inv"), (Float32, Float64)),
}


def values_of(type: Type) -> list[Any]:
    """Fewer samples, so that triples of them are few, and sums and products of them exact."""
    if type.is_float:
        return [-2.0, -0.5, 0.0, 1.0, 4.0]
    return samples(type) if type == Bool else [*samples(type)[::3], samples(type)[-1]]


def check_properties(row: Operator, types: tuple[Type, ...]) -> None:
    """That everything the row says of itself is true."""

    def f(*values: Any) -> Any:
        return build(row, *((v, type) for v in values)).value

    for type in types:
        values = values_of(type)
        pairs = list(itertools.product(values, repeat=2))
        if row.commutative:
            assert all(f(a, b) == f(b, a) for a, b in pairs), (row.name, type)
        if row.associative and row.arity[1] >= 2:
            for a, b, c in itertools.product(values, repeat=3):
                assert f(f(a, b), c) == f(a, f(b, c)), (row.name, type, a, b, c)
        if row.idempotent:
            assert all(f(f(a, b), b) == f(a, b) for a, b in pairs), (row.name, type)
            if row.keeps_old:
                assert all(f(a, a) == a for a in values), (row.name, type)
        check_units(row, type, f)
        check_repetition(row, type, f)


def check_units(row: Operator, type: Type, f: Callable[..., Any]) -> None:
    values = values_of(type)
    unit = row.identity(type) if row.identity is not None else MISSING
    if unit is not MISSING:
        unit = type.wrap(unit)
        if row.keeps_old:
            assert all(f(a, unit) == a for a in values), (row.name, type)
        else:  # a reduction that may leave out the unit where the unit is there already
            assert f(unit, unit) == unit
        assert row.right_only or all(f(unit, a) == a for a in values), (row.name, type)
    if row.annihilator is not None:
        zero = type.wrap(row.annihilator(type))
        assert all(f(a, zero) == f(zero, a) == zero for a in values), (row.name, type)
    if row.overrides is not None:
        for a, b in itertools.product(values, repeat=2):
            assert not row.overrides(a) or f(a, b) == a, (row.name, type)
    if row.inverse is not None:
        other = OPERATORS[row.inverse]
        if row.inverse == row.name:
            assert all(f(f(a)) == a for a in values), (row.name, type)
        elif other.name != "inv" or type.is_float:
            for a in values:
                if other.name != "inv" or a != 0:
                    assert f(a, build(other, (a, type)).value) == unit, (row.name, type, a)


def check_repetition(row: Operator, type: Type, f: Callable[..., Any]) -> None:
    """f(...f(f(x, a), a)..., a), n times, is f(x, repeated(a, n))."""
    if row.repeated is None:
        return
    for a, x, n in itertools.product(values_of(type), values_of(type), (1, 2, 5)):
        slowly = x
        for _ in range(n):
            slowly = f(slowly, a)
        product = build(OPERATORS[row.repeated], (a, type), (n, Int64))
        quickly = build(row, (x, type), (product.value, product.type))
        assert type.wrap(quickly.value) == slowly, (row.name, type, x, a, n)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.name)
def test_properties(row: Operator) -> None:
    if row.name in APART - {"^", "coalesce"}:
        assert row.identity is None and row.annihilator is None and row.repeated is None
        return
    check_properties(row, LIMITED.get(row.name, SAMPLE_TYPES))


@pytest.mark.parametrize("row", [r for r in rows() if r.distributes_over], ids=lambda r: r.name)
def test_distribution(row: Operator) -> None:
    for name in row.distributes_over:
        other = OPERATORS[name]
        for type in LIMITED.get(row.name, NUMBERS):
            for a, b, c in itertools.product(values_of(type), repeat=3):
                pairs = [(v, type) for v in (a, b, c)]
                inner = build(other, pairs[1], pairs[2])
                left, right = build(row, pairs[0], pairs[1]), build(row, pairs[0], pairs[2])
                whole = build(row, pairs[0], (inner.value, inner.type)).value
                parts = build(other, (left.value, left.type), (right.value, right.type)).value
                assert whole == parts, (row.name, name, type, a, b, c)


@pytest.mark.parametrize(
    "row, properties",
    [
        ("-", {"associative": True}),
        ("-", {"commutative": True}),
        ("-", {"right_only": False}),
        ("+", {"idempotent": True}),
        ("+", {"annihilator": lambda t: 0}),
        ("+", {"repeated": "^"}),
        ("*", {"identity": lambda t: 0}),
        ("min", {"identity": lambda t: 0}),
        ("max", {"annihilator": lambda t: t.lowest}),
        ("xor", {"idempotent": True}),
        ("^", {"associative": True}),
        ("overwrite", {"commutative": True}),
    ],
)
def test_a_wrong_row_fails(row: str, properties: dict[str, Any]) -> None:
    """The tests above can fail: they do for rows that claim too much."""
    from dataclasses import replace

    wrong = replace(OPERATORS[row], **properties)
    with pytest.raises((AssertionError, FinchError, TypeError)):
        check_properties(wrong, LIMITED.get(row, (Int64, Float64)))


# ------------------------------------------------------------------------------------- native code

NATIVE = ("+", "-", "*", "/", "div", "%", "min", "max", "<", "==", "xor", "<<", ">>", "^")


@pytest.mark.parametrize("types", [(Int64, Int64), (Float64, Float64), (Int8, Int64), (UInt8, Int8)])
def test_natively(types: tuple[Type, Type]) -> None:
    """One kernel applies many operators to all pairs of samples; each result is the row's."""
    names = [n for n in NATIVE if not (types[0].is_float and n in ("xor", "<<", ">>"))]
    if not types[0].is_float:
        names.remove("/")
    pairs = list(itertools.product(samples(types[0]), samples(types[1])))
    session = Session("native")
    session["a"] = np.array([a for a, _ in pairs], types[0].dtype)
    session["b"] = np.array([b for _, b in pairs], types[1].dtype)
    lines = []
    for k, name in enumerate(names):
        kind = OPERATORS[name].build(Var("a", types[0]), Var("b", types[1])).type
        session[f"y{k}"] = np.zeros(len(pairs), kind.dtype)
        infix = not name.isalpha()
        value = f"a[i] {name} b[i]" if infix else f"{name}(a[i], b[i])"
        lines.append(f"y{k}[i] := {value}")
    session.run(kernel("for i = _\n" + "\n".join(lines) + "\nend"))
    for k, name in enumerate(names):
        for (a, b), found in zip(pairs, session[f"y{k}"].tolist(), strict=True):
            expected = build(OPERATORS[name], (a, types[0]), (b, types[1])).value
            assert same(found, expected, 1e-12), (name, a, b, found, expected)
