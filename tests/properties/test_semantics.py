"""Generated scripts mean the same in all ways (`finch fuzz` runs any number), and so do variants."""

from __future__ import annotations

import os

import pytest

from finchlang.testing.fuzz import Options, run_case
from finchlang.testing.scripts import generate

FIRST = int(os.environ.get("AGREEMENT_SEED", "0"))
CASES = int(os.environ.get("AGREEMENT_CASES", "30"))
STEP = 5


@pytest.mark.parametrize("first", range(FIRST, FIRST + CASES, STEP))
def test_all_semantics_agree(first: int) -> None:
    outcomes = []
    for seed in range(first, first + STEP):
        kind, said = run_case(seed, Options())
        assert kind in ("run", "refused"), f"seed {seed}: {said}\n{generate(seed)}"
        outcomes.append(kind)
    assert outcomes.count("run") > STEP / 2


@pytest.mark.parametrize("first", range(0, CASES, STEP))
def test_variants_of_scripts_agree(first: int) -> None:
    """In turn natively and on the interpreter."""
    kind, said = run_case(first, Options(metamorphic=True))
    assert kind in ("run", "refused"), said


@pytest.mark.parametrize("first", range(0, 10 * CASES, 10 * STEP))
def test_laws_are_taken_and_lies_are_told(first: int) -> None:
    for seed in range(first + 9, first + 10 * STEP, 10):
        kind, said = run_case(seed, Options())
        assert kind == "run", said


def test_a_seed_gives_the_same_script_again() -> None:
    assert generate(7) == generate(7)
    assert len({generate(seed) for seed in range(20)}) == 20
