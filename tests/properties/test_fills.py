"""What a fill, a stored value, a literal and a pattern do in an operator, NaN and Inf among them: the
semantics give the same and store the same, since what is not stored is what structure decides."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from finchlang import Session, Tensor
from finchlang.testing.compare_engines import compare, ways_of
from finchlang.testing.generate import LETTERS, Maker
from finchlang.testing.grammar import LEVELS, LOWER, PAIRS

FLOATS = (0.0, 1.0, 2.0, -1.0, math.inf, -math.inf, math.nan)
INTEGERS = (0, 1, 2, -1, -(1 << 63), (1 << 63) - 1)
ON_FLOATS = ("+", "-", "*", "/", "^", "min", "max", "<", ">", "fld", "mod")
DIVISIONS = ("div", "fld", "cld", "%", "mod")
ON_INTEGERS = (*("+", "-", "*", "^", "min", "max", "<", "<<", ">>", "&", "|", "xor"), *DIVISIONS)
#: not Inf twice: which of two that decide `-` differently is known first depends on the loops
FILLS = ((0.0, 0.0), (0.0, math.inf), (math.inf, 1.0), (1.0, 0.0), (0.0, math.nan))
WAYS = (("denote", "all"), ("interpret", "all"), ("residual", "paper"), ("native", "all"))


def text(value: Any) -> str:
    return repr(value).replace("inf", "Inf").replace("nan", "NaN").replace("False", "false")


def call(op: str, a: str, b: str) -> str:
    return f"{op}({a}, {b})" if op.isalpha() else f"{a} {op} {b}"


def vector(values: list[Any], fill: Any) -> Tensor:
    """A vector of these values, that stores nothing where there is None."""
    places = [np.array([k for k, v in enumerate(values) if v is not None])]
    stored = np.array([v for v in values if v is not None], type(fill))
    return Tensor.from_coo(f"SparseList(Element({text(fill)}))", (len(values),), places, stored)


def pattern(stored: list[bool]) -> Tensor:
    places = [np.flatnonzero(stored)]
    return Tensor.from_coo(
        "SparseList(Pattern())", (len(stored),), places, np.ones(sum(stored), bool)
    )


def pairs(
    fills: tuple[Any, Any], values: tuple[Any, ...], without: Any = None
) -> dict[str, Tensor]:
    """Vectors A and B with every pair of values, of what is stored and what is not."""
    rest = tuple(v for v in values if v != without)
    both = list(itertools.product((*values, None), (*rest, None)))
    return {name: vector([p[k] for p in both], fills[k]) for k, name in enumerate("AB")}


def agree(expression: str, tensors: dict[str, Tensor], output: str) -> None:
    results, counts = [], set()
    for engine, rules in WAYS:
        session = Session(engine, rules)
        for name, tensor in tensors.items():
            session[name] = tensor
        session.run(f"C = Tensor(SparseList(Element({output})), 0)")
        session.run(f"@finch begin C .= {output}; for i = _; C[i] = {expression} end end")
        results.append(np.asarray(session["C"].to_numpy()))
        counts |= {session["C"].countstored()} if engine != "denote" else set()
        np.testing.assert_array_equal(results[-1], results[0], f"{engine}, {rules}: {expression}")
    assert len(counts) == 1, (expression, tensors, counts)


def output(op: str, number: str) -> str:
    return "false" if op in ("<", ">") else number


@pytest.mark.parametrize("op", ON_FLOATS)
def test_floats_at_fills(op: str) -> None:
    for fills in FILLS:
        agree(call(op, "A[i]", "B[i]"), pairs(fills, FLOATS), output(op, "0.0"))


@pytest.mark.parametrize("op", ON_FLOATS)
def test_floats_beside_literals(op: str) -> None:
    given = {"A": vector([*FLOATS, None], 0.0)}
    for literal in (0.0, math.inf, -math.inf, math.nan):
        for a, b in (("A[i]", f"({text(literal)})"), (f"({text(literal)})", "A[i]")):
            agree(call(op, a, b), given, output(op, "0.0"))


@pytest.mark.parametrize("op", ON_INTEGERS)
def test_integers_at_fills(op: str) -> None:
    """With no divisor 0, which is an error."""
    is_division = op in DIVISIONS
    for fills in itertools.product((0, 1), (1, 2) if is_division else (0, 1)):
        given = pairs(fills, INTEGERS, 0 if is_division else None)
        agree(call(op, "A[i]", "B[i]"), given, output(op, "0"))


@pytest.mark.parametrize("op", ["&&", "||", "*", "==", "<"])
def test_patterns(op: str) -> None:
    """A pattern is true where it stores something and false elsewhere, both as structure."""
    both = list(itertools.product((True, False), (True, False, None)))
    given = {"P": pattern([p for p, _ in both]), "B": vector([b for _, b in both], False)}
    agree(call(op, "P[i]", "B[i]"), given, "false")


def test_a_pattern_beside_what_is_not_finite() -> None:
    given = {"P": pattern([True] * 8 + [False] * 8), "A": vector([*FLOATS, None] * 2, 0.0)}
    agree("P[i] * A[i]", given, "0.0")
    agree("A[i] / P[i]", given, "0.0")


def test_two_infinities_of_one_sign_decide() -> None:
    agree("A[i] - B[i]", pairs((math.inf, -math.inf), FLOATS), "0.0")
    agree("A[i] + B[i]", pairs((-math.inf, -math.inf), FLOATS), "0.0")


@pytest.mark.parametrize("outer", LOWER)
def test_the_denotation_knows_what_a_nest_stores(outer: str) -> None:
    """Of an input, of what the program has written, and of what the one before has: `0 * Inf` tells. Each
    third pair of levels is tried."""
    pairs = [pair for pair in PAIRS if pair[0] == outer]
    for seed, nest in enumerate([(outer,), *pairs[len(outer) % 3 :: 3]]):
        maker = Maker(seed, kind="float")
        levels = tuple((name, LEVELS[name].modes or 1) for name in nest)
        order, maker.sizes["m"] = sum(modes for _, modes in levels), 3
        tensor = maker.new(("m",) * order, True, levels, "0.0")
        at, condition = LETTERS[:order], tensor.half.format(*LETTERS)
        i, loops = ", ".join(at), ", ".join(f"{i} = _" for i in reversed(at))
        guard, end = (f"if {condition};", "end") if condition else ("", "")
        found = compare(
            "\n".join(
                [
                    *maker.before,
                    "W = Tensor(typeof(A), copy(A))",
                    *(f"{name} = zeros({', '.join('3' * order)})" for name in "rst"),
                    f"@finch for {loops}; r[{i}] = A[{i}] * Inf end",
                    f"@finch begin; W .= 0.0; for {loops}; {guard} W[{i}] = A[{i}] {end} end",
                    f"for {loops}; s[{i}] = W[{i}] * Inf end end",
                    f"@finch for {loops}; t[{i}] = W[{i}] * Inf end",
                ]
            ),
            ways=ways_of(("denote", "interpret")),
        )
        assert found.agrees and not found.errors, (nest, found.report)
