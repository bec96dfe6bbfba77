"""Every row of the operator table, by element type: it computes what the denotation's table, which is
written apart with NumPy, computes, folded, run and natively; and the laws that it states are true."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from finchlang import FinchError, Session
from finchlang.denote.numpy_operators import MEANINGS, apply
from finchlang.denote.typed_values import Failed, number
from finchlang.host.construct import const
from finchlang.host.executing import ExecutingHost
from finchlang.host.ir import Const, Var
from finchlang.operators.operator_table import OPERATORS, Law, Operator, law, operator
from finchlang.syntax.nodes import MISSING, Call, Literal, Variable
from finchlang.syntax.types import (
    TYPES,
    Bool,
    Float32,
    Float64,
    Int8,
    Int64,
    Pair,
    Type,
    UInt8,
    pair_of,
)

pytestmark = pytest.mark.filterwarnings("ignore")

INTEGERS = (-128, -100, -3, -1, 0, 1, 2, 7, 63, 127)
UNSIGNED = (0, 1, 2, 3, 7, 64, 128, 255)
FLOATS = (-2.5, -1.0, -0.5, 0.0, 0.25, 1.0, 2.0, 3.5, 100.0)
SAMPLE_TYPES = (Bool, Int8, Int64, UInt8, TYPES["UInt64"], Float32, Float64)
PAIRS = (pair_of(Float64, Int64), pair_of(Float32, Int8))
ROWS = list(dict.fromkeys(OPERATORS.values()))
#: those of many steps, which stand for `+`, `-`, `*` and `/` over runs of floats
OF_STEPS = {f"{name}_times" for name in ("add", "sub", "mul", "div")}
#: what makes and takes apart pairs, and what chooses between them
PAIRED, BY_FIRST = ("=>", "first", "last"), ("minby", "maxby")


def samples(type: Type) -> list[Any]:
    """Values of a type, with its extremes."""
    if type in PAIRS:
        parts = product((-1.5, 0.0, float("nan"), float("inf")), (1, 2))
        return [type.wrap(pair) for pair in parts]
    if type == Bool:
        return [False, True]
    if type.is_float:
        return [*FLOATS]
    values = INTEGERS if type.kind == "int" else UNSIGNED
    return sorted({*values, type.lowest, type.highest})


def operands(kinds: tuple[Type, ...]) -> Iterator[tuple[tuple[Any, Type], ...]]:
    """All values of these types together, every second of them if the types are mixed."""
    thin = 1 if len(set(kinds)) == 1 else 2
    yield from product(*([(v, t) for v in [*samples(t)[::thin], samples(t)[-1]]] for t in kinds))


def folded(row: Operator, *values: tuple[Any, Type]) -> Const:
    """What a row computes on constants."""
    result = row.build(*(const(v, t) for v, t in values))
    assert isinstance(result, Const)
    return result


def held(row: Operator, *values: tuple[Any, Type]) -> Any:
    """The same with the values known only when it runs."""
    variables = [Var("x", type) for _, type in values]
    for variable, (value, type) in zip(variables, values, strict=True):
        variable.held = type.wrap(value)
    return ExecutingHost().evaluate(row.build(*variables))


def same(a: Any, b: Any, tolerance: float = 0.0) -> bool:
    """Equal, NaN too; pairs part by part."""
    if isinstance(a, tuple):
        return all(same(x, y, tolerance) for x, y in zip(a, b, strict=True))
    if a != a or b != b:
        return bool(a != a and b != b)
    return a == b or bool(np.isclose(a, b, rtol=tolerance, atol=0.0))


# ------------------------------------------------------------------------------ what is computed


def test_every_row_has_a_meaning() -> None:
    assert {name for name, _ in MEANINGS} == {r.name for r in ROWS} - {"coalesce", "ifelse"}
    assert all(OPERATORS[name].arity[0] <= n <= OPERATORS[name].arity[1] for name, n in MEANINGS)
    for name, other in {"and": "&&", "or": "||", "rem": "%"}.items():
        assert OPERATORS[name] is OPERATORS[other]


def types_of(name: str, count: int) -> Iterator[tuple[Type, ...]]:
    if name in BY_FIRST:
        yield from product(PAIRS, repeat=2)
    elif name == "ifelse":
        yield from ((Int64, Int64, Int64), *((Bool, *t) for t in product(SAMPLE_TYPES, repeat=2)))
    else:
        yield from product(PAIRS if name in ("first", "last") else SAMPLE_TYPES, repeat=count)


@pytest.mark.parametrize(
    "name, count", [m for m in MEANINGS if m[0] not in OF_STEPS] + [("ifelse", 3)]
)
def test_a_row_computes_what_the_denotation_does(name: str, count: int) -> None:
    """Values, types and errors, of each samples together."""
    row, variable = OPERATORS[name], Variable(name)
    for values in (v for kinds in types_of(name, count) for v in operands(kinds)):
        try:
            found = apply(variable, [number(v, t) for v, t in values], variable)
        except FinchError as error:
            with pytest.raises(FinchError, match=error.kind):
                folded(row, *values)
            continue
        undefined = row.undefined and row.undefined(*(const(v, t) for v, t in values))
        assert bool(undefined and undefined.value) == isinstance(found, Failed), (name, values)
        if isinstance(found, Failed):
            assert found.error.kind == "bounds"
            continue
        result = folded(row, *values)
        assert found.value.dtype == result.type.dtype, (name, values)
        assert same(found.value.item(), result.value, 1e-6), (name, values, found, result)
        assert same(held(row, *values), result.value), (name, values, "folding and running differ")


def written(row: Operator, count: int) -> str:
    args = ("a[i]", "b[i]")[:count]
    if not row.name[0].isalpha() and count == 2:
        return f"{args[0]} {row.name} {args[1]}"
    return f"{row.name}({', '.join(args)})"


MIXED = ((Int8, Int64), (UInt8, Int8), (Int64, TYPES["UInt64"]), (Int64, Float32), (Bool, Float64))


@pytest.mark.parametrize(
    "kinds", [*((t, t) for t in SAMPLE_TYPES), *MIXED], ids=lambda t: f"{t[0]}-{t[1]}"
)
def test_natively(kinds: tuple[Type, Type]) -> None:
    """One kernel applies all rows that take two types to all samples of them."""
    pairs = [(a, b) for (a, _), (b, _) in operands(kinds)]
    session, lines, expected = Session("native"), [], dict[str, list[Any]]()
    for name, type, column in zip("ab", kinds, zip(*pairs, strict=True), strict=True):
        session[name] = np.array(column, type.dtype)
    for row in ROWS:
        count = row.arity[1]
        if row.name in (*PAIRED, "initwrite", "overwrite", *OF_STEPS, "coalesce") or count > 2:
            continue
        try:
            result = row.result_type(kinds[:count])
        except FinchError:  # of such types there is none
            continue
        if row.undefined and count == 1 and row.may_fail(kinds[:1]):
            continue  # a float as a type that may not have it
        y = f"y{len(lines)}"
        session[y] = np.zeros(len(pairs), result.dtype)
        needs = "if b[i] != 0\n{}\nend" if row.undefined and row.may_fail(kinds[:count]) else "{}"
        lines.append(needs.format(f"{y}[i] = {written(row, count)}"))
        values = [tuple(zip(pair, kinds, strict=True))[:count] for pair in pairs]
        is_defined = needs == "{}"
        expected[y] = [folded(row, *v).value if is_defined or v[1][0] != 0 else 0 for v in values]
    session.run("@finch begin\nfor i = _\n" + "\n".join(lines) + "\nend\nend")
    for y, line in zip(expected, lines, strict=True):
        for pair, found, wanted in zip(pairs, session[y].tolist(), expected[y], strict=True):
            assert same(found, wanted, 1e-6), (line, pair, found, wanted)


# --------------------------------------------------------------------------------------- the laws

NUMBERS = tuple(t for t in SAMPLE_TYPES if t != Bool)
WHOLE = tuple(t for t in SAMPLE_TYPES if not t.is_float)
#: the types that an operator's laws are stated for: those it takes without changing them
LIMITED: dict[str, tuple[Type, ...]] = {
    **dict.fromkeys(("&&", "||", "!"), (Bool,)),
    **dict.fromkeys(("&", "|", "xor", "~"), WHOLE),
    **dict.fromkeys(("<<", ">>"), tuple(t for t in WHOLE if t != Bool)),
    **dict.fromkeys(("+", "-", "^"), NUMBERS),
    **dict.fromkeys(("/", "inv"), (Float32, Float64)),
    **dict.fromkeys(BY_FIRST, PAIRS),
    "ldexp": (Int8, TYPES["Int32"], UInt8),
}
DIVISIONS = ("/", "div", "fld", "cld", "%", "mod")
#: whose result has a type of its own
CHANGING = {"ifelse", *PAIRED, *OF_STEPS, *TYPES, *(f"cut_{t.name}" for t in TYPES.values())}


def values_of(type: Type) -> list[Any]:
    """Fewer samples, so that triples of them are few, and sums and products of them exact."""
    if type in PAIRS or type == Bool:
        return samples(type)
    return (
        [-2.0, -0.5, 0.0, 1.0, 4.0] if type.is_float else [*samples(type)[::3], samples(type)[-1]]
    )


def check_laws(row: Operator, types: tuple[Type, ...]) -> None:
    """That everything the row says of itself is true."""
    for type in types:

        def f(*values: Any, row: Operator = row, type: Type = type) -> Any:
            return folded(row, *((v, type) for v in values)).value

        values = values_of(type)
        pairs, triples = list(product(values, repeat=2)), product(values, repeat=3)
        divided = [(a, b) for a, b in pairs if row.name not in DIVISIONS or b != 0]
        where = (row.name, type)
        if row.commutative:
            assert all(same(f(a, b), f(b, a)) for a, b in pairs), where
        if row.associative and row.arity[1] >= 2:
            assert all(same(f(f(a, b), c), f(a, f(b, c))) for a, b, c in triples), where
        if row.idempotent:
            assert all(same(f(a, a), a) for a in values), where
        if row.right_idempotent:
            assert all(same(f(f(a, b), b), f(a, b)) for a, b in divided), where
        if row.first_counts:
            for (a, b), place in product(pairs, (1, 7)):
                assert same(f(f(a, b), Pair(b[0], place)), f(a, b)), where
        if row.involution:
            assert all(f(f(a)) == a for a in values if a or row.group is None), where
        check_units(row, type, f)
        check_inverses(row, type, f)


def check_units(row: Operator, type: Type, f: Any) -> None:
    values, where = values_of(type), (row.name, type)
    unit = row.identity.value(type) if row.identity is not None else None
    if row.identity is not None and unit not in (None, MISSING):
        units = [Pair(unit[0], at) for at in (1, 7)] if type in PAIRS else [unit]
        for unit in map(type.wrap, units):
            if not row.keeps_old:  # a reduction that may leave out the unit where the unit is there
                assert f(unit, unit) == unit, where
            elif row.identity.is_about(2):
                assert all(same(f(a, unit), a) for a in values), where
            if row.identity.is_about(1):
                assert all(same(f(unit, a), a) for a in values), where
    if row.overrides and unit is not MISSING:
        assert all(a == unit or f(a, b) == a for a, b in product(values, repeat=2)), where
    for annihilator in row.annihilators:
        check_annihilator(row, annihilator, type, f)


def check_annihilator(row: Operator, known: Law, type: Type, f: Any) -> None:
    """Of finite values; a division of nothing, of divisors that are none."""
    value = known.value(type)
    if value is None:
        return
    value, result = type.wrap(value), type.wrap((known.result or known.value)(type))
    for a in values_of(type):
        if known.is_about(1) and not (a == 0 and row.name in DIVISIONS):
            assert f(value, a) == result, (row.name, type, value, a)
        if known.is_about(2):
            assert f(a, value) == result, (row.name, type, a, value)


def check_inverses(row: Operator, type: Type, f: Any) -> None:
    """What undoes it, and doing it n times: f(...f(f(x, a), a)..., a) = f(x, repeated(a, n))."""
    values, where = values_of(type), (row.name, type)
    if row.inverse is not None and (row.inverse != "inv" or type.is_float):
        inverse, undo = OPERATORS[row.inverse], OPERATORS[row.undone_by or ""]
        assert row.identity is not None
        for a, b in product(values, repeat=2):
            if row.inverse != "inv" or b != 0:
                less = folded(inverse, (b, type)).value
                assert f(b, less) == type.wrap(row.identity.value(type)), where
                assert f(a, less) == folded(undo, (a, type), (b, type)).value, where
    if row.repeated is not None:
        for a, x, n in product(values, values, (1, 2, 5)):
            slowly = x
            for _ in range(n):
                slowly = f(slowly, a)
            times = folded(OPERATORS[row.repeated], (a, type), (n, Int64))
            quickly = folded(row, (x, type), (times.value, times.type)).value
            assert type.wrap(quickly) == slowly, (*where, x, a, n)


@pytest.mark.parametrize("row", [r for r in ROWS if r.name not in CHANGING], ids=lambda r: r.name)
def test_laws(row: Operator) -> None:
    check_laws(row, LIMITED.get(row.name, SAMPLE_TYPES))


def test_rows_that_change_types_state_no_laws() -> None:
    for row in (r for r in ROWS if r.name in CHANGING):
        assert row.identity is None and not row.annihilators and row.repeated is None, row.name


@pytest.mark.parametrize("literal", [0.0, 2.0, float("inf")])
@pytest.mark.parametrize("family", ["choose", "initwrite"])
def test_members_of_families(family: str, literal: float) -> None:
    row = operator(Call(Variable(family), (Literal(literal),)))
    assert row is not None and row.keeps_old == (family == "choose")
    check_laws(row, (Float64,))
    kept, new = (folded(row, (a, Float64), (5.0, Float64)).value for a in (3.0, literal))
    assert (kept, new) == (3.0 if row.keeps_old else 5.0, 5.0)
    with pytest.raises(FinchError):
        operator(Call(Variable(family), (Variable("x"),)))


@pytest.mark.parametrize("row", [r for r in ROWS if r.distributes_over], ids=lambda r: r.name)
def test_distribution(row: Operator) -> None:
    """f(a, g(b, c)) = g(f(a, b), f(a, c)), or with the arguments of f exchanged."""
    for name, at in row.distributes_over.items():
        for type, place in product(LIMITED.get(row.name, NUMBERS), (1, 2) if at is None else (at,)):
            if type.is_integer and row.is_modular != OPERATORS[name].is_modular:
                continue  # a + b may wrap around, where the greater one of two does not

            def f(x: Any, y: Any, place: int = place) -> Any:
                found = folded(row, *((x, y) if place == 2 else (y, x)))
                return found.value, found.type

            for a, b, c in product([(v, type) for v in values_of(type)], repeat=3):
                if a[0] == 0 and row.name in DIVISIONS:
                    continue
                inner = folded(OPERATORS[name], b, c)
                parts = folded(OPERATORS[name], f(a, b), f(a, c))
                assert f(a, (inner.value, inner.type))[0] == parts.value, (row.name, name, a, b, c)


@pytest.mark.parametrize(
    "row, laws",
    [
        ("-", {"associative": True}),
        ("-", {"commutative": True}),
        ("-", {"identity": law(0)}),
        ("+", {"idempotent": True}),
        ("-", {"right_idempotent": True}),
        ("+", {"annihilators": (law(0),)}),
        ("+", {"repeated": "^"}),
        ("max", {"annihilators": (law(lambda t: t.lowest),)}),
        ("overwrite", {"commutative": True}),
        ("-", {"annihilators": (law(0, at=1),)}),
        ("%", {"annihilators": (law(1, at=2, result=1),)}),
        ("%", {"involution": True}),
        ("+", {"undone_by": "+"}),
        ("*", {"inverse": "-"}),
    ],
)
def test_a_wrong_row_fails(row: str, laws: dict[str, Any]) -> None:
    """What is above can fail: it does for rows that claim too much."""
    with pytest.raises((AssertionError, FinchError, TypeError)):
        check_laws(replace(OPERATORS[row], **laws), LIMITED.get(row, (Int64, Float64)))
