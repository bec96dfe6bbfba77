"""Where a statement does nothing: against Simplify, for all subsets of the operands at their fills."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import combinations
from typing import Any

from finchlang.algebra.absence import Absence, Where
from finchlang.algebra.expression_types import annotate
from finchlang.algebra.simplify import simplify
from finchlang.syntax.nodes import EMPTY, Access, Literal, Node, Variable
from finchlang.syntax.traversal import rewrite_bottom_up
from finchlang.tensors.formats import parse_format
from finchlang.text.parse import parse_kernel
from finchlang.text.print import pretty

FILLS = {"A": 0.0, "B": 0.0, "C": 0.0, "D": 1.0, "E": float("inf"), "F": False, "G": True}
BINARY = ("{} + {}", "{} - {}", "{} * {}", "min({}, {})", "max({}, {})")
STATEMENTS = (
    "s[] += {}",
    "s[] *= {}",
    "s[] <<max>>= {}",
    "if {} > 0; s[] += {} end",
    "let v = {}; s[] += v * {} end",
    "begin s[] += {}; t[] += {} end",
    "if {}; s[] += {} end",
)


def expression(rng: random.Random, depth: int) -> str:
    if depth == 0 or rng.random() < 0.15:
        return rng.choice(["A[i]", "B[i]", "C[i]", "D[i]", "E[i]", "x[i]", "2", "0"])
    if rng.random() < 0.15:
        parts = condition(rng, depth - 1), *(expression(rng, depth - 1) for _ in "ab")
        return "ifelse({}, {}, {})".format(*parts)
    return rng.choice(BINARY).format(*(f"({expression(rng, depth - 1)})" for _ in "ab"))


def condition(rng: random.Random, depth: int) -> str:
    if depth <= 0 or rng.random() < 0.3:
        return rng.choice(["F[i]", "G[i]", "A[i] > 0", "D[i] == 1", "!F[i]", "true"])
    return rng.choice(["({}) && ({})", "({}) || ({})"]).format(
        *(condition(rng, depth - 1) for _ in "ab")
    )


def holds(where: Where, known: set[int]) -> bool:
    if isinstance(where, int):
        return where in known
    return (all if where.is_and else any)(holds(part, known) for part in where.parts)


def shown(value: float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value).replace("inf", "Inf")


FORMATS: dict[str, Any] = {
    **{name: parse_format(f"SparseList(Element({shown(fill)}))") for name, fill in FILLS.items()},
    "x": parse_format("Dense(Element(0.0))"),
    **dict.fromkeys("st", parse_format("Scalar(0.0)")),
}
NUMBERS = {Variable(name): (k, Literal(fill)) for k, (name, fill) in enumerate(FILLS.items())}


def at_fills(term: Node, known: set[int]) -> Node:
    """A term where some operands are at their fill."""

    def fill(node: Node) -> Node:
        found = NUMBERS.get(node.tensor) if isinstance(node, Access) else None
        return found[1] if found is not None and found[0] in known else node

    return rewrite_bottom_up(fill, term)


def at_fills_of(term: Node) -> Iterator[tuple[set[int], Node]]:
    """Each set of operands that are at their fills, and what `simplify` then leaves of a term."""
    present = [k for k in range(len(FILLS)) if at_fills(term, {k}) != term]
    for number in range(len(present) + 1):
        for known in map(set, combinations(present, number)):
            yield known, simplify(at_fills(term, known))


def test_absence_is_where_simplify_leaves_nothing() -> None:
    """Never too much, and seldom too little (what cancels out)."""
    rng, missed, count = random.Random(0), 0, 0
    for _ in range(200):
        form = rng.choice(STATEMENTS)
        parts = [expression(rng, 3) for _ in range(form.count("{}"))]
        if form.startswith("if {};"):
            parts[0] = condition(rng, 2)
        term = simplify(annotate(parse_kernel(f"for i = _; {form.format(*parts)} end"), FORMATS))
        where = Absence(lambda a: filter(None, [NUMBERS.get(a.tensor)])).statement(term)
        for known, left in at_fills_of(term):
            assert left == EMPTY or not holds(where, known), (parts, known, where)
            missed += left == EMPTY and not holds(where, known)
            count += left == EMPTY
    assert count > 400
    assert missed <= count / 200


def test_values_are_the_literals_that_simplify_gives() -> None:
    """Of operands at their fills; `simplify` may know more, of what cancels out."""
    rng, missed, count = random.Random(1), 0, 0
    for _ in range(200):
        parsed = parse_kernel(f"for i = _; s[] += {expression(rng, 3)} end")
        value = simplify(annotate(parsed, FORMATS).body.value)  # type: ignore[attr-defined]
        found = Absence(lambda a: filter(None, [NUMBERS.get(a.tensor)])).value(value).values()
        for known, wanted in at_fills_of(value):
            literals = [case.literal for case, where in found if holds(where, known)]
            assert all(literal == wanted for literal in literals), (pretty(value), known)
            missed += isinstance(wanted, Literal) and not literals
            count += isinstance(wanted, Literal)
    assert count > 400
    assert missed <= count / 25
