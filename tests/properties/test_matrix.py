"""Every level over every level, each in some context with some operator: the semantics agree
(`python -m tests.campaigns.matrix` runs all combinations)."""

from __future__ import annotations

from itertools import groupby

import pytest

from finchlang.testing.grammar import LOWER
from tests.campaigns.matrix import ACTIONS, CONTEXTS, OPERATORS, Case, cases, run

#: of each nest one case, another one of the next nest
BY_NEST = [list(of) for _, of in groupby(cases(), key=lambda case: case.nest)]
SAMPLE = [of[29 * k % len(of)] for k, of in enumerate(BY_NEST) if len(of[0].nest) < 3]


@pytest.mark.parametrize("outer", LOWER)
def test_levels_over_each_other(outer: str) -> None:
    outcomes = []
    for case in (case for case in SAMPLE if case.nest[0] == outer):
        kind, said = run(case)
        assert not said, f"{case.name}\n{case.script}\n{said}"
        outcomes.append(kind)
    assert outcomes.count("run") > len(outcomes) / 2


def test_the_sample_has_each_choice() -> None:
    def chosen(of: list[Case]) -> set[str]:
        return {choice for c in of for choice in (c.action, c.context, c.operator)}

    assert chosen(SAMPLE) == {*ACTIONS, *CONTEXTS, *OPERATORS}
    assert {name for case in SAMPLE for name in case.nest} == {*LOWER}
