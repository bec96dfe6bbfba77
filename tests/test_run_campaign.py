"""Reductions of floats over runs are what their steps give: a part of `python -m tests.run_campaign`, and
the operators that take many steps at once."""

from __future__ import annotations

import numpy as np
import pytest
from run_campaign import SEMANTICS, STEPS, is_right, number, run_case, steps

from finchlang.algebra import OPERATORS
from finchlang.denote.operators import apply
from finchlang.denote.values import Number
from finchlang.host.fold import const
from finchlang.host.ir import Const
from finchlang.syntax import Variable
from finchlang.types import TYPES, Int64


@pytest.mark.parametrize("seed", range(40))
def test_runs_natively(seed: int) -> None:
    assert not run_case(seed)


@pytest.mark.parametrize("seed", range(1000, 1012))
def test_runs_on_all_engines(seed: int) -> None:
    assert not run_case(seed, SEMANTICS)


@pytest.mark.parametrize("op", ["+", "-", "*", "/"])
@pytest.mark.filterwarnings("ignore")
def test_many_steps_are_so_many(op: str) -> None:
    """In the table of operators, of which constants are steps taken one by one, and in the denotation."""
    name = OPERATORS[op].stepped
    assert name is not None
    rng = np.random.default_rng(0)
    for dtype in (np.float64, np.float32) * 100:
        x, a, count = number(rng, dtype), number(rng, dtype), int(rng.choice((0, 1, 2, 7, 3000)))
        given = np.full(count + 1, a, dtype)
        given[0] = x
        expected, type = steps(op, x, given[1:]), TYPES[np.dtype(dtype).name.capitalize()]
        folded = OPERATORS[name].folded(
            [const(float(x), type), const(float(a), type), const(count)]
        )
        meant = apply(
            Variable(name), [Number(x), Number(a), Number(np.int64(count))], Variable(name)
        )
        assert isinstance(folded, Const) and folded.type == type
        for found in (folded.value, meant.value):
            assert is_right(found, expected, given, op), (x, a, count, found, expected)


def test_constants_do_not_take_very_many_steps() -> None:
    row = OPERATORS["add_times"]
    assert row.folded([const(0.0), const(1.0), const(1 << 60, Int64)]) is None
    assert set(STEPS) - {"own"} == {name for name, row in OPERATORS.items() if row.stepped}
