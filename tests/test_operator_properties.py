"""The properties the operator table states are true, and a row that states too much would be found."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from test_operators import APART, NUMBERS, SAMPLE_TYPES, WHOLE, build, rows, samples

from finchlang.algebra import OPERATORS, Operator, operator
from finchlang.source import FinchError
from finchlang.syntax import MISSING, Call, Literal, Variable
from finchlang.types import Bool, Float32, Float64, Int64, Type

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
    if row.settled is not None and type.is_float:
        finite = [v for v in values if np.isfinite(v)]
        for a, b in itertools.product((np.inf, -np.inf), finite):
            for args, known in (((a, b), (a, None)), ((b, a), (None, a))):
                assert row.settled(*known) in (None, f(*args)), (row.name, args)
        assert row.settled(None, None) is row.settled(finite[0], None) is None
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


def test_members_of_families() -> None:
    for literal in (Literal(0.0), Literal(2.0), Literal(float("inf"))):
        for family in ("choose", "initwrite"):
            row = operator(Call(Variable(family), (literal,)))
            assert row is not None
            check_properties(row, (Float64,))
