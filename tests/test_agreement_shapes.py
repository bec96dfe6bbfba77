"""Random programs of shape operators under the four semantics, and that a broken operator is noticed.
(`python -m tests.campaign --shapes` runs any number of them.)"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from campaign import REFUSALS, campaign, report
from generate_shapes import generate_shapes

from finchlang.host.fold import ONE, add, mul, sub
from finchlang.host.ir import Expr
from finchlang.tensors import slices
from finchlang.tensors.products import Product
from finchlang.tensors.projections import Projection

pytestmark = pytest.mark.checked

STEP = 12


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FINCH_CACHE_DIR", "")


@pytest.mark.parametrize(("rules", "first"), [("all", 500_003)])
def test_all_semantics_agree(rules: str, first: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, first + STEP):
        native = rules == "all" and seed % 5 == 0
        ((_, case, outcome),) = campaign(range(seed, seed + 1), rules, native, shapes=True)
        assert not outcome.difference, report(seed, case, outcome, rules)
        if outcome.refused is not None:
            assert outcome.refused.kind in REFUSALS, f"seed {seed}: {outcome.refused}\n{case}"
            assert outcome.refused.span is not None, f"seed {seed}: {outcome.refused}\n{case}"
        counts["refused" if outcome.refused else "run"] += 1
    assert counts["refused"] < 0.3 * STEP, counts


def test_a_seed_gives_the_same_case_again() -> None:
    for seed in range(20):
        assert str(generate_shapes(seed)) == str(generate_shapes(seed))


# ------------------------------------------------------------------------- broken on purpose


def _products_shift_a_block_too_far(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Product, "before", lambda self, j: mul(j, self.size))


def _products_are_looked_up_in_the_next_place(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Product, "above", lambda self, k: add(k, ONE))


def _blocks_begin_one_later(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Projection, "before", lambda self, j: add(mul(self.size, sub(j, ONE)), ONE))


def _slices_begin_one_later(patch: pytest.MonkeyPatch) -> None:
    def at(self: slices.Slice, i: Expr) -> Any:
        return add(self.first, mul(i, self.step))

    patch.setattr(slices.Slice, "at", at)


BREAKAGES: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    function.__name__.strip("_").replace("_", " "): function
    for function in (
        _products_shift_a_block_too_far,
        _products_are_looked_up_in_the_next_place,
        _blocks_begin_one_later,
        _slices_begin_one_later,
    )
}


class _TooLong(BaseException):
    """What is broken may go on for long."""


def _stop(*_: object) -> None:
    raise _TooLong


def _differs(seed: int) -> bool:
    """Whether the semantics disagree about a case, if that is known in half a second."""
    before = signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, 0.5, 0.5)  # again, if it comes where nothing may be raised
    try:
        ((_, _, outcome),) = campaign(range(seed, seed + 1), native=False, shapes=True)
        return bool(outcome.difference)
    except _TooLong:
        return False
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", BREAKAGES)
def test_what_is_broken_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within 200 cases."""
    BREAKAGES[name](monkeypatch)
    assert any(map(_differs, range(200)))
