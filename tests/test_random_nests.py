"""Random looplet nests: a loop over them does what it would do over the dense arrays they mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from looplet_nests import Handmade, Memory, Nest, Outcome, RandomNests, run_both

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
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


class Case:
    """Nests of one size, and a part of 1:size to loop over."""

    def __init__(self, draw: Callable[[st.SearchStrategy], Any], number: int, depth: int):
        self.memory = Memory()
        self.size = draw(st.integers(0, 7))
        self.nests = RandomNests(draw, self.memory)
        self.parts: list[Nest] = [
            self.nests.nest([(1, self.size)], depth) for _ in range(number)
        ]
        self.start = draw(st.integers(1, max(1, self.size)))
        self.stop = draw(st.integers(self.start - 1, self.size)) if self.size else 0
        if draw(st.booleans()):
            self.start, self.stop = 1, self.size
        self.tensors: list[Handmade] = [
            part.tensor(name) for part, name in zip(self.parts, NAMES, strict=False)
        ]
        static = draw(st.booleans())
        bounds = (self.start, self.stop)
        self.numbers = {} if static else dict(
            zip(("lo", "hi"), map(self.memory.number, bounds), strict=True)
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
def test_sums(which: str, data: st.DataObject) -> None:
    expression = data.draw(st.sampled_from(list(EXPRESSIONS)))
    number, meaning = EXPRESSIONS[expression]
    case = Case(data.draw, number, depth=4 if number == 1 else 3)
    text = f"begin\ns .= 0.0\nfor i = {case.extent}\ns[] += {expression}\nend\nend"
    found = case.run(text, {"s": "Scalar(0.0)"}, which)
    assert found["s"] == meaning(*case.dense()).sum()


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
