"""Random programs mean the same under all semantics, and a broken rule is noticed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from campaign import REFUSALS, campaign, report
from generate import generate

from finchlang.algebra import OPERATORS, law
from finchlang.host.fold import TRUE, sub
from finchlang.host.ir import Expr
from finchlang.host.residual import ResidualHost
from finchlang.looplets import Positions, Run, Sequence
from finchlang.native import emit_ops
from finchlang.rules import regions, simplify, steppers, table
from finchlang.rules.context import find, put
from finchlang.rules.engine import Machine, Rule, State, Step
from finchlang.syntax import EMPTY, Node
from finchlang.tensors import counted, sorted_positions

FIRST = int(os.environ.get("AGREEMENT_SEED", "0"))
#: how many cases for each set of rules, and how many of them each test takes
STEP = 40
CASES = {"all": int(os.environ.get("AGREEMENT_CASES", "120")), "paper": 80}
CASES["paper"] = min(CASES.values())


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Object code is made anew, and none that is broken on purpose is kept."""
    monkeypatch.setenv("FINCH_CACHE_DIR", "")


@pytest.mark.parametrize(
    ("rules", "first"),
    [(rules, first) for rules, cases in CASES.items() for first in range(0, cases, STEP)],
)
def test_all_semantics_agree(rules: str, first: int) -> None:
    """denote, interpret, residual and native: results, storage, and the steps taken. Machine code is
    made for every other case, and for none by the paper's rules, which leave residual programs of no
    other kind. (`python -m tests.campaign` does all of it, for any number of cases.)"""
    counts: Counter[str] = Counter()
    start = FIRST + first + (10_000 if rules == "paper" else 0)
    for seed in range(start, start + STEP):
        native = rules == "all" and seed % 2 == 0
        ((_, case, outcome),) = campaign(range(seed, seed + 1), rules, native)
        assert not outcome.difference, report(seed, case, outcome, rules)
        if outcome.refused is not None:
            assert outcome.refused.kind in REFUSALS, f"seed {seed}: {outcome.refused}\n{case}"
            assert outcome.refused.span is not None, f"seed {seed}: {outcome.refused}\n{case}"
        counts["refused" if outcome.refused else "run"] += 1
    assert counts["refused"] < 0.2 * STEP, counts


@pytest.mark.parametrize("first", range(0, CASES["all"], STEP))
def test_any_order_of_loops_into_any_format(first: int) -> None:
    """All run, by way of workspaces of each policy and several capacities."""
    for seed in range(FIRST + 50_000 + first, FIRST + 50_000 + first + STEP):
        native = seed % 4 == 0
        ((_, case, outcome),) = campaign(range(seed, seed + 1), "all", native, any_order=True)
        assert not outcome.difference, report(seed, case, outcome)
        if outcome.refused is not None:
            kind = outcome.refused.kind
            assert kind in REFUSALS and kind != "access order", (
                f"seed {seed}: {outcome.refused}\n{case}"
            )


@pytest.mark.parametrize("first", range(0, CASES["all"] // 2, STEP))
def test_programs_that_call_functions(first: int) -> None:
    """Random functions as operators: the denotation runs them by the script's evaluator."""
    for seed in range(FIRST + 80_000 + first, FIRST + 80_000 + first + STEP):
        seeds, native, any_order = range(seed, seed + 1), seed % 4 == 0, seed % 4 == 1
        ((_, case, outcome),) = campaign(seeds, "all", native, any_order, functions=True)
        assert not outcome.difference, report(seed, case, outcome)
        if outcome.refused is not None:
            assert outcome.refused.kind in REFUSALS, f"seed {seed}: {outcome.refused}\n{case}"


def test_a_seed_gives_the_same_case_again() -> None:
    for seed in range(20):
        assert str(generate(seed)) == str(generate(seed))
    assert len({generate(seed).text for seed in range(20)}) == 20


# ------------------------------------------------------------------------- broken on purpose


def _min_has_a_wrong_identity(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(OPERATORS, "min", replace(OPERATORS["min"], identity=law(0)))


def _steppers_always_move_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(steppers, "compare", lambda *_: TRUE)


def _spikes_ignore_their_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(regions, "compare", lambda *_: TRUE)


def _runs_are_dropped(patch: pytest.MonkeyPatch) -> None:
    def nothing(machine: Machine, term: Node, state: State) -> Step | None:
        return None if find(term, Run) is None else (EMPTY, state)

    _replace_rule(patch, "Run", nothing)


def _sequences_lose_their_rest(patch: pytest.MonkeyPatch) -> None:
    def head_only(machine: Machine, term: Node, state: State) -> Step | None:
        found = find(term, Sequence)
        return None if found is None else (put(term, {id(found): found.phases[0]}), state)

    _replace_rule(patch, "Sequence", head_only)


def _positions_miss_the_last(patch: pytest.MonkeyPatch) -> None:
    def one_less(start: Expr, stop: Expr, *rest: Any, **more: Any) -> Positions:
        return Positions(start, sub(stop, 1), *rest, **more)

    patch.setattr(sorted_positions, "Positions", one_less)


def _sparse_lists_do_not_sum_their_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(counted, "accumulate", lambda host, buffer, count: None)


def _bytemaps_are_not_sorted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ResidualHost, "sort", lambda host, buffer, start, stop: None)


def _native_max_is_min(patch: pytest.MonkeyPatch) -> None:
    def swapped(body: Any, op: Any, args: list[str]) -> str:
        return emit_ops._extremum(body, SimpleNamespace(name="min", type=op.type), args)

    patch.setitem(emit_ops._EMITTERS, "max", swapped)


def _replace_rule(patch: pytest.MonkeyPatch, name: str, function: Callable[..., Any]) -> None:
    broken = tuple(Rule(name, function) if r.name == name else r for r in table.RULES)
    assert broken != table.RULES
    patch.setattr(table, "RULES", broken)


BREAKAGES: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    function.__name__.strip("_").replace("_", " "): function
    for function in (
        _min_has_a_wrong_identity,
        _steppers_always_move_on,
        _spikes_ignore_their_end,
        _runs_are_dropped,
        _sequences_lose_their_rest,
        _positions_miss_the_last,
        _sparse_lists_do_not_sum_their_counts,
        _bytemaps_are_not_sorted,
        _native_max_is_min,
    )
}


@pytest.fixture
def forgetful() -> Iterator[None]:
    """Simplify remembers what is simple; not beyond a test that breaks it."""
    simplify._simple.clear()
    yield
    simplify._simple.clear()


@pytest.mark.parametrize("name", BREAKAGES)
def test_what_is_broken_is_noticed(
    name: str, monkeypatch: pytest.MonkeyPatch, forgetful: None
) -> None:
    """Within 200 cases; machine code is made only where it is what is broken."""
    BREAKAGES[name](monkeypatch)
    cases = campaign(range(200), native="native" in name)
    assert any(outcome.difference for _, _, outcome in cases)
