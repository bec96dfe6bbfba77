"""Generated scripts mean the same in all ways (`finch fuzz` runs any number), and so do variants."""

from __future__ import annotations

import os

import pytest

from finchlang.testing.fuzz import Options, run_case
from finchlang.testing.scripts import generate
from finchlang.testing.variants import differences

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


@pytest.mark.parametrize("seed", range(6))
def test_variants_of_einsums_agree(seed: int) -> None:
    assert not differences(seed)


def test_a_seed_gives_the_same_script_again() -> None:
    assert generate(7) == generate(7)
    assert len({generate(seed) for seed in range(20)}) == 20
