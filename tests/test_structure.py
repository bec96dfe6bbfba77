"""What a fill, a stored value, a literal and a pattern do in an operator, NaN and Inf among them: the
four semantics give the same, and what is not stored is what structure decides."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from finchlang.denote.denotation import denote
from finchlang.run.kernel import Kernel
from finchlang.tensors.tensor import Tensor
from finchlang.text.parse import parse_kernel

FLOATS = (0.0, 1.0, 2.0, -1.0, math.inf, -math.inf, math.nan)
INTEGERS = (0, 1, 2, -1, -(1 << 63), (1 << 63) - 1)
ON_FLOATS = ("+", "-", "*", "/", "^", "min", "max", "<", ">", "fld", "mod")
DIVISIONS = ("div", "fld", "cld", "%", "mod")
ON_INTEGERS = (*("+", "-", "*", "^", "min", "max", "<", "<<", ">>", "&", "|", "xor"), *DIVISIONS)


def text(value: Any) -> str:
    return repr(value).replace("inf", "Inf").replace("nan", "NaN").replace("False", "false")


def call(op: str, a: str, b: str) -> str:
    return f"{op}({a}, {b})" if op.isalpha() else f"{a} {op} {b}"


def operands(
    fills: tuple[Any, Any], values: tuple[Any, ...], without: tuple[Any, ...] = ()
) -> dict[str, Tensor]:
    """Vectors A and B with every pair of values, of what is stored and what is not."""
    rest = tuple(v for v in values if v not in without)
    pairs = list(itertools.product((*values, None), (*rest, None)))
    return {name: vector([p[k] for p in pairs], fills[k]) for k, name in enumerate(("A", "B"))}


def vector(values: list[Any], fill: Any) -> Tensor:
    """A vector of these values, that stores nothing where there is None."""
    places = [np.array([k for k, v in enumerate(values) if v is not None])]
    stored = np.array([v for v in values if v is not None], type(fill))
    return Tensor.from_coo(f"SparseList(Element({text(fill)}))", (len(values),), places, stored)


def agree(expression: str, tensors: dict[str, Tensor], output: str, native: bool = False) -> None:
    """Denotation, interpreter, residual and native code, under all and the paper's rules, give the
    same values and store the same entries."""
    program = parse_kernel(f"begin\nC .= 0\nfor i = _\nC[i] = {expression}\nend\nend")

    def fresh() -> dict[str, Any]:
        return {**tensors, "C": Tensor(f"SparseList(Element({output}))", 0)}

    expected, stored = np.asarray(denote(program, fresh())["C"]), set()
    for rules in ("all", "paper"):
        kernel = Kernel(program, {n: t.format for n, t in fresh().items()}, rules)
        runs = [kernel.interpret if rules == "all" else kernel.run_residual]
        for run in [*runs, kernel.run_native][: 1 + native]:
            bound = fresh()
            run([bound[n] for n in kernel.tensors], [])
            message = f"{expression}, {rules} rules, of {tensors}"
            np.testing.assert_array_equal(bound["C"].to_numpy(), expected, message)
            stored.add(bound["C"].countstored())
    assert len(stored) == 1, (expression, tensors, stored)


@pytest.mark.parametrize("op", ON_FLOATS)
def test_floats_at_fills(op: str) -> None:
    output = "false" if op in ("<", ">") else "0.0"
    # not Inf twice: which of two that decide `-` differently is known first depends on the loops
    for fills in ((0.0, 0.0), (0.0, math.inf), (math.inf, 1.0), (1.0, 0.0), (0.0, math.nan)):
        native = fills == (0.0, math.inf)
        agree(call(op, "A[i]", "B[i]"), operands(fills, FLOATS), output, native)


@pytest.mark.parametrize("op", ON_FLOATS)
def test_floats_beside_literals(op: str) -> None:
    output = "false" if op in ("<", ">") else "0.0"
    for literal in (0.0, math.inf, -math.inf, math.nan):
        for a, b in (("A[i]", f"({text(literal)})"), (f"({text(literal)})", "A[i]")):
            agree(call(op, a, b), {"A": vector([*FLOATS, None], 0.0)}, output)


@pytest.mark.parametrize("op", ON_INTEGERS)
def test_integers_at_fills(op: str) -> None:
    """With no divisor 0, which is an error."""
    fills = itertools.product((0, 1), (1, 2) if op in DIVISIONS else (0, 1))
    for pair in fills:
        without = (0,) if op in DIVISIONS else ()
        found = operands(pair, INTEGERS, without)
        agree(call(op, "A[i]", "B[i]"), found, "false" if op == "<" else "0", pair == (0, 1))


@pytest.mark.parametrize("op", ["&&", "||", "*", "==", "<"])
def test_patterns(op: str) -> None:
    """A pattern is true where it stores something and false elsewhere, both as structure."""
    pairs = list(itertools.product((True, False), (True, False, None)))
    places = [np.array([k for k, (stored, _) in enumerate(pairs) if stored])]
    every = np.ones(len(places[0]), bool)
    pattern = Tensor.from_coo("SparseList(Pattern())", (len(pairs),), places, every)
    bools = {"P": pattern, "B": vector([b for _, b in pairs], False)}
    agree(call(op, "P[i]", "B[i]"), bools, "false", native=True)


def test_a_pattern_beside_what_is_not_finite() -> None:
    values = vector([*FLOATS, None, *FLOATS, None], 0.0)
    places = [np.arange(0, 8)]
    pattern = Tensor.from_coo("SparseList(Pattern())", (16,), places, np.ones(8, bool))
    agree("P[i] * A[i]", {"P": pattern, "A": values}, "0.0", native=True)
    agree("A[i] / P[i]", {"P": pattern, "A": values}, "0.0", native=True)


def test_two_infinities_of_one_sign_decide() -> None:
    agree("A[i] - B[i]", operands((math.inf, -math.inf), FLOATS), "0.0")
    agree("A[i] + B[i]", operands((-math.inf, -math.inf), FLOATS), "0.0")
