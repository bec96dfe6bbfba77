"""The rule table: the order of Fig 15, and rules that state themselves."""

from __future__ import annotations

from typing import Any

import pytest
from both_hosts import Memory, loop_sum, vector

from finchlang.looplets import (
    Lookup,
    Looplet,
    Run,
)
from finchlang.rules.table import RULES, rules
from finchlang.syntax import Literal
from finchlang.types import Float64

BOTH_TABLES = pytest.mark.parametrize("which", ["all", "paper"])


@pytest.fixture
def memory() -> Memory:
    return Memory()


#: Fig 15's order, in the paper's words
PRIORITY = (
    *("Thunk", "Phase", "Switch", "Simplify", "Run", "Spike", "Sequence"),
    *("StepperSeek", "StepperNext", "Lookup", "AcceptRun", "Unfurl", "Loop", "Access"),
)


def test_the_table_is_in_the_order_of_figure_15() -> None:
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names)
    assert [n for n in names if n in PRIORITY] == list(PRIORITY)
    assert names.index("Jumper") < names.index("StepperSeek")  # Looplets'23 section 6.2
    rest = "Block Define Sieve Assign Declare Freeze Thaw Variable Extent Shift Jumper "
    rest += "Terms Spikes Exhausted Leapfrog Positions Regions Overwritten"
    assert set(names) - set(PRIORITY) == set(rest.split())


def test_the_paper_table_has_no_derived_rules() -> None:
    assert [r.name for r in rules("all") if r not in rules("paper")] == [
        *("Terms", "Spikes", "Exhausted", "Leapfrog", "Positions", "Regions", "Overwritten")
    ]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_rules_state_themselves(rule: Any) -> None:
    """The docstring is the rule: from what, to what."""
    statement = rule.statement
    assert any(arrow in statement for arrow in ("→", "⟹", "⇒")), statement


def test_no_two_looplets_are_equal() -> None:
    """A looplet carries state of its own, so it is equal to itself alone."""
    for kind in (lambda: Run(Literal(0.0)), lambda: Lookup(lambda host, i: Literal(0.0))):
        one, other = kind(), kind()
        assert isinstance(one, Looplet)
        assert one == one and one != other
        assert len({one, other}) == 2


def test_values_in_runs_keep_their_type(memory: Memory) -> None:
    found = loop_sum([vector("a", 3, lambda host: Run(Literal(2)))], memory, n=3)
    assert found["s"] == 6.0 and isinstance(found["s"], float)
    assert Float64.wrap(found["s"]) == 6.0
