"""Every row of the operator table: what it computes, against NumPy, and that its properties hold."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernels import kernel

from finchlang.algebra import OPERATORS, Operator, operator
from finchlang.denote.operators import MEANINGS, apply
from finchlang.denote.values import Failed, number
from finchlang.host.execute import ExecutingHost
from finchlang.host.fold import const
from finchlang.host.ir import Const, Expr, Var
from finchlang.session import Session
from finchlang.source import FinchError
from finchlang.syntax import Call, Literal, Variable
from finchlang.types import (
    TYPES,
    Bool,
    Float32,
    Float64,
    Int8,
    Int64,
    Type,
    UInt8,
    promote,
    type_of_dtype,
)

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
        is_negative = (a < 0) != (b < 0)
        return -np.floor_divide(-a, b) if is_negative else np.floor_divide(a, b)
    quotient = abs(int(a)) // abs(int(b))
    return quotient if (a < 0) == (b < 0) else -quotient


def rounded_quotient(how: Any) -> Callable[..., Any]:
    """Exact for integers of any size."""

    def reference(a: Any, b: Any) -> Any:
        if isinstance(a, np.floating):
            return np.floor_divide(a, b) if how is np.floor else -np.floor_divide(-a, b)
        return int(a) // int(b) if how is np.floor else -(-int(a) // int(b))

    return reference


def truncated_remainder(a: Any, b: Any) -> Any:
    if isinstance(a, np.floating):
        return np.fmod(a, b)
    return int(a) - int(b) * truncated_quotient(a, b)


def is_undefined(row: Operator, *values: tuple[Any, Type]) -> bool:
    """Whether the row says that there is no result: of a division of an integer by 0, and of a float
    as a type that does not have it."""
    if row.undefined is None:
        return False
    found = row.undefined(*(const(v, t) for v, t in values))
    if row.name in TYPES:
        ((value, _),) = values
        expected = not TYPES[row.name].lowest <= value <= TYPES[row.name].highest or value % 1 != 0
        expected &= isinstance(value, float)  # integers wrap around
    else:
        expected = not any(t.is_float for _, t in values) and values[1][0] == 0
    assert isinstance(found, Const) and found.value == expected
    return found.value


def power(a: Any, b: Any) -> Any:
    if isinstance(a, np.floating):
        return np.power(a, b)
    return 0 if b < 0 else pow(int(a), int(b))


def sign(a: Any) -> Any:
    return (a > 0) - (a < 0)


def shifted(left: bool) -> Callable[..., Any]:
    def reference(a: tuple[Any, Type], b: tuple[Any, Type]) -> Any:
        type = a[1] if a[1] != Bool else Int64
        count = int(b[0])
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
    "fld": (promoted(rounded_quotient(np.floor)), SAMPLE_TYPES),
    "cld": (promoted(rounded_quotient(np.ceil)), SAMPLE_TYPES),
    "mod": (promoted(np.mod), SAMPLE_TYPES),
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
    **{
        name: (floats(getattr(np, name)), SAMPLE_TYPES)
        for name in ("asinh", "acosh", "atanh", "exp2", "cbrt", "atan2", "copysign", "hypot")
    },
    "nextafter": (floats(np.nextafter), SAMPLE_TYPES),
}
#: what makes, takes apart and compares pairs (`test_pairs.py`)
PAIRED = {"=>", "first", "last", "minby", "maxby"}
#: rows that are tested one by one below
APART = {"^", "ldexp", "ifelse", "coalesce", *TYPES}
APART |= {f"cut_{type.name}" for type in TYPES.values() if type.is_integer}
#: those of many steps (`test_steps_of_floats.py`)
OF_STEPS = {"add_times", "sub_times", "mul_times", "div_times"}


def rows() -> list[Operator]:
    return list(dict.fromkeys(OPERATORS.values()))


def test_every_row_is_tested() -> None:
    assert {row.name for row in rows()} == set(REFERENCES) | APART | PAIRED | OF_STEPS
    assert OPERATORS["and"] is OPERATORS["&&"] and OPERATORS["or"] is OPERATORS["||"]
    assert OPERATORS["rem"] is OPERATORS["%"]


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
        if is_undefined(row, *values):
            continue
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
        if exponent < 0:  # the whole part of the fraction
            exact_power = int(a[0]) ** (-exponent % 2) if abs(a[0]) == 1 else 0
        else:
            exact_power = pow(int(a[0]), exponent, 1 << 64)
        assert found.type == kind and found.value == kind.wrap(exact_power), (a, b)


@pytest.mark.filterwarnings("ignore")
def test_ldexp() -> None:
    row = OPERATORS["ldexp"]
    for a, b in operands(2, SAMPLE_TYPES):
        if b[1].is_float:
            with pytest.raises(FinchError):
                build(row, a, b)
            continue
        kind = a[1] if a[1].is_float else Float64
        exponent = max(-(1 << 16), min(1 << 16, int(b[0])))
        assert same(build(row, a, b).value, kind.wrap(np.ldexp(scalar(a[0], kind), exponent)), 1e-6)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("type", [Float32, Float64])
def test_functions_of_floats_natively(type: Type) -> None:
    names = ("atan2", "copysign", "hypot", "nextafter", "asinh", "acosh", "atanh", "exp2", "cbrt")
    pairs = list(itertools.product([*samples(type), 1.5, -0.25], repeat=2))
    session = Session("native")
    session["a"] = np.array([a for a, _ in pairs], type.dtype)
    session["b"] = np.array([b for _, b in pairs], type.dtype)
    session["k"] = np.array([k % 300 - 150 for k in range(len(pairs))], np.int32)
    calls = [f"{n}(a[i], b[i])" if OPERATORS[n].arity[0] == 2 else f"{n}(a[i])" for n in names]
    calls.append("ldexp(a[i], k[i])")
    for n, call in enumerate(calls):
        session["y"] = np.zeros(len(pairs), type.dtype)
        session.run(kernel(f"for i = _\ny[i] := {call}\nend"))
        name = call.split("(")[0]
        args = [session["a"], session["k" if name == "ldexp" else "b"]]
        expected = getattr(np, name)(*args[: OPERATORS[name].arity[0]])
        np.testing.assert_allclose(session["y"], expected, rtol=1e-6, err_msg=f"{n} {call}")


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
    initwrite = operator(Call(Variable("initwrite"), (Literal(0.0),)))
    assert initwrite is not None and not initwrite.keeps_old
    assert build(initwrite, (2.0, Float64), (5.0, Float64)).value == 5.0
    with pytest.raises(FinchError):
        operator(Call(Variable("choose"), (Variable("x"),)))


# ------------------------------------------------------------------------------ the denotation's own


def test_the_denotation_has_every_operator() -> None:
    lazy, families = {"coalesce", "ifelse"}, {row.name for row in rows()}
    assert {name for name, _ in MEANINGS} == families - lazy
    assert all(OPERATORS[name].arity[0] <= n <= OPERATORS[name].arity[1] for name, n in MEANINGS)


@pytest.mark.parametrize(("name", "count"), [m for m in MEANINGS if m[0] not in OF_STEPS])
@pytest.mark.filterwarnings("ignore")
def test_the_denotation_computes_the_same(name: str, count: int) -> None:
    """Two tables that share nothing agree on every pair of samples, types and errors included."""
    variable, row = Variable(name), OPERATORS[name]
    for values in operands(count, SAMPLE_TYPES):
        args = [number(v, t) for v, t in values]
        try:
            found = apply(variable, args, variable)
        except FinchError as error:
            with pytest.raises(FinchError, match=error.kind):
                build(row, *values)
            continue
        if row.undefined is not None and is_undefined(row, *values):
            assert isinstance(found, Failed) and found.error.kind == "bounds"
            continue
        expected = build(row, *values)
        assert type_of_dtype(found.value.dtype) == expected.type, (name, values)
        assert same(found.value.item(), expected.value, 1e-6), (name, values, found, expected)


# ------------------------------------------------------------------------------------- native code

NATIVE = (
    "+",
    "-",
    "*",
    "/",
    "div",
    "fld",
    "cld",
    "%",
    "mod",
    "min",
    "max",
    "<",
    "==",
    "xor",
    "<<",
    ">>",
    "^",
)


@pytest.mark.parametrize(
    "types", [(Int64, Int64), (Float64, Float64), (Int8, Int64), (UInt8, Int8)]
)
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
        needs = "if b[i] != 0\n{}\nend" if OPERATORS[name].undefined else "{}"
        lines.append(needs.format(f"y{k}[i] := {value}"))
    session.run(kernel("for i = _\n" + "\n".join(lines) + "\nend"))
    for k, name in enumerate(names):
        for (a, b), found in zip(pairs, session[f"y{k}"].tolist(), strict=True):
            if b == 0 and OPERATORS[name].undefined:
                continue
            expected = build(OPERATORS[name], (a, types[0]), (b, types[1])).value
            assert same(found, expected, 1e-12), (name, a, b, found, expected)
