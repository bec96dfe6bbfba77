"""The properties the operator table states are true, and a row that states too much would be found."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from test_operators import APART, NUMBERS, PAIRED, SAMPLE_TYPES, WHOLE, build, rows, samples

from finchlang.algebra import OPERATORS, Law, Operator, law, operator
from finchlang.source import FinchError
from finchlang.syntax import MISSING, Call, Literal, Variable
from finchlang.types import Bool, Float32, Float64, Int8, Int32, Int64, Type, UInt8

#: the types an operator's properties are stated for: those it takes without changing them
LIMITED = {
    **dict.fromkeys(("&&", "||", "!"), (Bool,)),
    **dict.fromkeys(("&", "|", "xor", "~"), WHOLE),
    **dict.fromkeys(("<<", ">>"), tuple(t for t in WHOLE if t != Bool)),
    **dict.fromkeys(("+", "-", "^"), NUMBERS),
    **dict.fromkeys(("/", "inv"), (Float32, Float64)),
    "ldexp": (Int8, Int32, UInt8),
}
DIVISIONS = ("/", "div", "fld", "cld", "%", "mod")


def values_of(type: Type) -> list[Any]:
    """Fewer samples, so that triples of them are few, and sums and products of them exact."""
    if type.is_float:
        return [-2.0, -0.5, 0.0, 1.0, 4.0]
    return samples(type) if type == Bool else [*samples(type)[::3], samples(type)[-1]]


def apply(row: Operator, type: Type, *values: Any) -> Any:
    """What a row gives for values of one type."""
    return build(row, *((v, type) for v in values)).value


def check_properties(row: Operator, types: tuple[Type, ...]) -> None:
    """That everything the row says of itself is true."""

    for type in types:
        f = partial(apply, row, type)
        values = values_of(type)
        pairs = list(itertools.product(values, repeat=2))
        if row.commutative:
            assert all(f(a, b) == f(b, a) for a, b in pairs), (row.name, type)
        if row.associative and row.arity[1] >= 2:
            for a, b, c in itertools.product(values, repeat=3):
                assert f(f(a, b), c) == f(a, f(b, c)), (row.name, type, a, b, c)
        if row.idempotent:
            assert all(f(a, a) == a for a in values), (row.name, type)
        if row.right_idempotent:
            undefined = row.name in DIVISIONS
            pairs = [(a, b) for a, b in pairs if b != 0 or not undefined]
            assert all(f(f(a, b), b) == f(a, b) for a, b in pairs), (row.name, type)
        check_units(row, type, f)
        check_repetition(row, type, f)


def check_units(row: Operator, type: Type, f: Callable[..., Any]) -> None:
    values = values_of(type)
    unit = row.identity.value(type) if row.identity is not None else None
    if row.identity is not None and unit not in (None, MISSING):
        unit = type.wrap(unit)
        if not row.keeps_old:  # a reduction that may leave out the unit where the unit is there
            assert f(unit, unit) == unit
        elif row.identity.is_about(2):
            assert all(f(a, unit) == a for a in values), (row.name, type)
        assert not row.identity.is_about(1) or all(f(unit, a) == a for a in values)
    for annihilator in row.annihilators:
        check_annihilator(row, annihilator, type, f)
    if row.overrides and unit is not MISSING:
        for a, b in itertools.product(values, repeat=2):
            assert a == unit or f(a, b) == a, (row.name, type)
    if row.involution:
        assert all(f(f(a)) == a for a in values if a or row.group is None), (row.name, type)
    if row.inverse is not None and (row.inverse != "inv" or type.is_float):
        inverse, undo = OPERATORS[row.inverse], OPERATORS[row.undone_by or ""]
        for a, b in itertools.product(values, repeat=2):
            if row.inverse != "inv" or b != 0:
                less = build(inverse, (b, type)).value
                assert f(b, less) == unit, (row.name, type, b)
                assert f(a, less) == build(undo, (a, type), (b, type)).value, (row.name, type)


def check_annihilator(row: Operator, known: Law, type: Type, f: Callable[..., Any]) -> None:
    """Of finite values; a division of nothing, of divisors that are none."""
    value = known.value(type)
    if value is None:
        return
    value = type.wrap(value)
    result = type.wrap((known.result or known.value)(type))
    for a in values_of(type):
        if known.is_about(1) and not (a == 0 and row.name in DIVISIONS):
            assert f(value, a) == result, (row.name, type, value, a)
        if known.is_about(2):
            assert f(a, value) == result, (row.name, type, a, value)


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


@pytest.mark.parametrize("row", [r for r in rows() if r.name not in PAIRED], ids=lambda r: r.name)
def test_properties(row: Operator) -> None:
    if row.name in APART - {"^", "ldexp", "coalesce"}:
        assert row.identity is None and not row.annihilators and row.repeated is None
        return
    check_properties(row, LIMITED.get(row.name, SAMPLE_TYPES))


@pytest.mark.parametrize("row", [r for r in rows() if r.distributes_over], ids=lambda r: r.name)
def test_distribution(row: Operator) -> None:
    for name, at in row.distributes_over.items():
        other = OPERATORS[name]
        for type in LIMITED.get(row.name, NUMBERS):
            for place in (1, 2) if at is None else (at,):
                for a, b, c in itertools.product(values_of(type), repeat=3):
                    if a != 0 or row.name not in DIVISIONS:
                        check_distribution(row, other, place, [(v, type) for v in (a, b, c)])


def check_distribution(row: Operator, other: Operator, place: int, pairs: list[Any]) -> None:
    """f(a, g(b, c)) = g(f(a, b), f(a, c)), or with the arguments of f exchanged."""

    def f(x: Any, y: Any) -> Any:
        found = build(row, *((x, y) if place == 2 else (y, x)))
        return found.value, found.type

    a, b, c = pairs
    inner = build(other, b, c)
    whole = f(a, (inner.value, inner.type))
    parts = build(other, f(a, b), f(a, c))
    assert whole[0] == parts.value, (row.name, other.name, place, pairs)


@pytest.mark.parametrize(
    "row, properties",
    [
        ("-", {"associative": True}),
        ("-", {"commutative": True}),
        ("-", {"identity": law(0)}),
        ("+", {"idempotent": True}),
        ("-", {"right_idempotent": True}),
        ("%", {"idempotent": True}),
        ("+", {"annihilators": (law(0),)}),
        ("+", {"repeated": "^"}),
        ("*", {"identity": law(0)}),
        ("min", {"identity": law(0)}),
        ("max", {"annihilators": (law(lambda t: t.lowest),)}),
        ("xor", {"idempotent": True}),
        ("^", {"associative": True}),
        ("overwrite", {"commutative": True}),
        ("/", {"annihilators": (law(0, at=2),)}),
        ("-", {"annihilators": (law(0, at=1),)}),
        ("<<", {"annihilators": (law(0),)}),
        ("%", {"annihilators": (law(1, at=2, result=1),)}),
        ("%", {"involution": True}),
        ("+", {"undone_by": "+"}),
        ("*", {"inverse": "-"}),
    ],
)
def test_a_wrong_row_fails(row: str, properties: dict[str, Any]) -> None:
    """The tests above can fail: they do for rows that claim too much."""
    from dataclasses import replace

    wrong = replace(OPERATORS[row], **properties)
    with pytest.raises((AssertionError, FinchError, TypeError)):
        check_properties(wrong, LIMITED.get(row, (Int64, Float64)))


def test_members_of_families() -> None:
    for literal in (Literal(0.0), Literal(2.0), Literal(float("inf"))):
        for family in ("choose", "initwrite"):
            row = operator(Call(Variable(family), (literal,)))
            assert row is not None
            check_properties(row, (Float64,))
