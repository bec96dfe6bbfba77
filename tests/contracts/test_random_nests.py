"""Random looplet nests: a loop over them does what it would do over the dense arrays they mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from both_hosts import Handmade, Memory, Outcome, run_both, vector
from hypothesis import HealthCheck, given, settings, strategies as st
from looplet_nests import Nest, RandomNests

from finchlang.host.construct import ZERO, cast, const
from finchlang.levels.looplets import map_payloads, set_end
from finchlang.syntax.nodes import Literal
from finchlang.syntax.types import Int64

#: expressions over a, b, c as a kernel writes them and as NumPy computes them
EXPRESSIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    "a[i]": (1, lambda a: a),
    "a[i] * b[i]": (2, lambda a, b: a * b),
    "a[i] + b[i]": (2, lambda a, b: a + b),
    "max(a[i], b[i])": (2, np.maximum),
    "ifelse(a[i] > b[i], a[i], 2 * b[i])": (2, lambda a, b: np.where(a > b, a, 2 * b)),
    "a[i] * b[i] * c[i]": (3, lambda a, b, c: a * b * c),
    "a[i] * (b[i] + c[i])": (3, lambda a, b, c: a * (b + c)),
    "a[i] * b[i] - c[i]": (3, lambda a, b, c: a * b - c),
}
NAMES = ("a", "b", "c")
SLOWLY = settings(
    max_examples=35, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


class Case:
    """Nests of one size, and a part of 1:size to loop over."""

    def __init__(self, draw: Callable[[st.SearchStrategy], Any], number: int, depth: int):
        self.memory = Memory()
        self.size = draw(st.integers(0, 7))
        self.nests = RandomNests(draw, self.memory)
        self.parts: list[Nest] = [self.nests.nest([(1, self.size)], depth) for _ in range(number)]
        self.start = draw(st.integers(1, max(1, self.size)))
        self.stop = draw(st.integers(self.start - 1, self.size)) if self.size else 0
        if draw(st.booleans()):
            self.start, self.stop = 1, self.size
        self.tensors: list[Handmade] = [
            part.tensor(name) for part, name in zip(self.parts, NAMES, strict=False)
        ]
        static = draw(st.booleans())
        bounds = (self.start, self.stop)
        self.numbers = (
            {} if static else dict(zip(("lo", "hi"), map(self.memory.number, bounds), strict=True))
        )
        self.extent = f"{self.start}:{self.stop}" if static else "lo:hi"

    def dense(self) -> list[np.ndarray]:
        """What the nests mean where the loop goes."""
        return [part.dense(0)[self.start - 1 : self.stop] for part in self.parts]

    def run(self, text: str, outputs: dict[str, Any], which: str) -> Outcome:
        found = run_both(text, self.tensors, outputs, self.memory, self.numbers, which)
        before, after = found.arrays[self.nests.log]
        assert before == after, "every thunk that was entered was left"
        return found


@pytest.mark.parametrize("which", ["all", "paper"])
@SLOWLY
@given(data=st.data())
def test_elementwise(which: str, data: st.DataObject) -> None:
    expression = data.draw(st.sampled_from(list(EXPRESSIONS)))
    number, meaning = EXPRESSIONS[expression]
    case = Case(data.draw, number, depth=4 if number == 1 else 3)
    text = (
        f"begin\n@declare(y, 0.0, 1:{case.size})\nfor i = {case.extent}\n"
        f"y[i] = {expression}\nend\nend"
    )
    found = case.run(text, {"y": "Dense(Element(0.0))"}, which)
    expected = np.zeros(case.size)
    expected[case.start - 1 : case.stop] = meaning(*case.dense())
    np.testing.assert_array_equal(found["y"], expected)


@pytest.mark.parametrize("op, unit, meaning", [("max", "-Inf", np.max), ("min", "Inf", np.min)])
@SLOWLY
@given(data=st.data())
def test_idempotent_reductions(op: str, unit: str, meaning: Any, data: st.DataObject) -> None:
    case = Case(data.draw, 2, depth=3)
    text = f"begin\ns .= {unit}\nfor i = {case.extent}\ns[] <<{op}>>= a[i] + b[i]\nend\nend"
    found = case.run(text, {"s": f"Scalar({unit})"}, "all")
    a, b = case.dense()
    initial = float(unit.replace("Inf", "inf"))
    assert found["s"] == meaning(a + b, initial=initial)


class Columns:
    """A matrix: an outer nest over its columns, whose payloads are the instances of an inner nest."""

    def __init__(self, draw: Callable[[st.SearchStrategy], Any], name: str, rows: int, width: int):
        self.memory, number = Memory(), 3
        ids = st.integers(0, number - 1).map(float)
        self.outer = RandomNests(draw, self.memory, ids).nest([(1, width)], 3)
        self.inner = RandomNests(draw, self.memory).nest([(1, rows)] * number, 2)
        self.rows = self.memory.number(rows, lower=ZERO)
        columns = self.memory.number(width, lower=ZERO)
        self.tensor = Handmade(
            name,
            (self.rows, columns),
            lambda host, stop: map_payloads(
                self.column, set_end(self.outer.looplet(host, ZERO), columns)
            ),
        )

    def column(self, payload: Any) -> Handmade:
        """The column that a payload of the outer nest names by its number."""
        known = isinstance(payload, Literal)
        k = const(int(payload.value)) if known else cast(payload.expr, Int64)
        return vector(
            "column", self.rows, lambda host: set_end(self.inner.looplet(host, k), self.rows)
        )

    def dense(self) -> np.ndarray:
        columns = [self.inner.dense(int(k)) for k in self.outer.dense(0)]
        return np.array(columns, float).reshape(len(columns), self.rows.held).T


#: kernels over two matrices, and what they mean
NESTED: dict[str, Callable[..., Any]] = {
    "s[] += a[i, j] * b[i, j]": lambda a, b: (a * b).sum(),
    "s[] += a[i, j] + b[i, j]": lambda a, b: (a + b).sum(),
    "s[] += 3 * a[i, j]": lambda a, b: 3 * a.sum(),
    "if uptrimask()[i, j]\ns[] += a[i, j]\nend": lambda a, b: np.triu(a).sum(),
    "s[] <<max>>= a[i, j]": lambda a, b: a.max(initial=0.0),
    "let v = a[i, j] + 1\ns[] += v * b[i, j]\nend": lambda a, b: ((a + 1) * b).sum(),
}


@pytest.mark.parametrize("which", ["all", "paper"])
@SLOWLY
@given(data=st.data())
def test_nests_of_nests(which: str, data: st.DataObject) -> None:
    rows, width = data.draw(st.integers(0, 4)), data.draw(st.integers(0, 4))
    a, b = (Columns(data.draw, name, rows, width) for name in "ab")
    memory = Memory()
    memory.arrays = {**a.memory.arrays, **b.memory.arrays}
    statement = data.draw(st.sampled_from(list(NESTED)))
    text = f"begin\ns .= 0.0\nfor j = 1:n\nfor i = 1:m\n{statement}\nend\nend\nend"
    numbers = {"m": memory.number(rows), "n": memory.number(width)}
    matrix = "Dense(Dense(Element(0.0)))"
    tensors = [a.tensor, b.tensor]
    found = run_both(text, tensors, {"s": "Scalar(0.0)"}, memory, numbers, which, matrix)
    assert found.error is None
    assert found["s"] == NESTED[statement](a.dense(), b.dense())


@SLOWLY
@given(data=st.data())
def test_two_statements_share_their_nests(data: st.DataObject) -> None:
    """A looplet that stands in several statements is lowered once for all of them."""
    case = Case(data.draw, 2, depth=3)
    text = (
        f"begin\ns .= 0.0\nt .= 0.0\nfor i = {case.extent}\n"
        "s[] += a[i] * b[i]\nt[] += a[i] + a[i]\nend\nend"
    )
    found = case.run(text, {"s": "Scalar(0.0)", "t": "Scalar(0.0)"}, "all")
    a, b = case.dense()
    assert found["s"] == (a * b).sum()
    assert found["t"] == (2 * a).sum()
