"""Random array expressions give what NumPy gives for them: values, types and shapes."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.array_expressions import check, expression


@settings(max_examples=30, deadline=None)
@given(
    st.randoms(use_true_random=False), st.lists(st.integers(1, 4), max_size=3), st.integers(1, 3)
)
def test_expressions_give_what_numpy_gives(
    rng: random.Random, shape: list[int], depth: int
) -> None:
    check(expression(rng, tuple(shape), depth))


@pytest.mark.parametrize("seed", range(30))
def test_expressions_of_fixed_seeds_give_what_numpy_gives(seed: int) -> None:
    rng = random.Random(seed)
    shape = tuple(rng.randint(0, 4) for _ in range(rng.randint(0, 3)))
    check(expression(rng, shape, 2))
