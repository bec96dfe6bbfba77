"""A sample of the random sequences of calls, and that what is wrong is noticed."""

from __future__ import annotations

import os
from typing import Any

import pytest
import sequence_programs
from call_sequences import DONE, generate, kind, play_all, shrink

from finchlang import Session

SEED = int(os.environ.get("AGREEMENT_SEED", "0"))
CASES = 60


def test_sequences_of_calls_do_what_numpy_does(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FINCH_CACHE_DIR", str(tmp_path))
    cases = [generate(seed) for seed in range(SEED, SEED + CASES)]
    ended = play_all(cases, seconds=60)
    seed = SEED + len(ended.said) - len(ended.said.lstrip(DONE))
    assert ended, f"{ended.fault}: `python -m tests.call_sequences --seed {seed}` shows it shorter"


def test_a_seed_gives_the_same_sequence_again() -> None:
    assert [generate(seed) for seed in range(20)] == [generate(seed) for seed in range(20)]


def test_a_call_that_does_nothing_is_noticed_and_the_sequence_made_shorter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = sequence_programs.run

    def lazy(session: Session, text: str) -> Any:
        return None if "2.5" in text else run(session, text)

    monkeypatch.setattr(sequence_programs, "run", lazy)
    cases = (generate(seed) for seed in range(100))
    found = next(c for c in cases if "array" in kind(play_all([c], seconds=20)))
    small = shrink(found, seconds=20)
    assert len(small.steps) < len(found.steps)
    assert "2.5" in play_all([small], seconds=60, told=True).said
