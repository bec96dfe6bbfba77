"""The rule table: the order of Fig 15, and rules that state themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from both_hosts import Memory, loop_sum, vector
from kernels import kernel, run_congruent

from finchlang.looplets import (
    Lookup,
    Looplet,
    Run,
)
from finchlang.rules.table import RULES, rules
from finchlang.source import FinchError
from finchlang.syntax import Literal
from finchlang.tensors.formats import parse_format
from finchlang.tensors.tensor import Scalar
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
    rest = (
        "Break Choice Block Define Sieve Assign Declare Freeze Thaw Variable Extent Shift Jumper "
    )
    rest += "Repetition Terms Union Overlap Pieces Together Located Sought Leapfrog Positions "
    rest += "Regions Rest "
    rest += "Initialisation CommonSize DeadWorkspace Copy CopyFibers Missing"
    assert set(names) - set(PRIORITY) == set(rest.split())


def test_the_paper_table_has_no_derived_rules() -> None:
    assert [r.name for r in rules("all") if r not in rules("paper")] == [
        *(
            "Repetition",
            "DeadWorkspace",
            "Terms",
            "Union",
            "Overlap",
            "Pieces",
            "Together",
            "Located",
            "Sought",
            "Leapfrog",
            "Positions",
            "Regions",
            "Rest",
            "CopyFibers",
            "Initialisation",
            "Copy",
        ),
        "CommonSize",
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


# ---------------------------------------------------------------------------------- leaving rules out


def test_rules_are_left_out_by_name() -> None:
    names = {rule.name for rule in rules("all-Break-Positions")}
    assert {rule.name for rule in RULES} - names == {"Break", "Positions"}
    assert "Break" in {rule.name for rule in rules("paper")}
    for wrong in ("some", "all-Nothing", "all-Loop", "all-"):
        with pytest.raises(FinchError) as fault:
            rules(wrong)
        assert fault.value.kind == "unknown name"


@pytest.mark.parametrize("scalars", [1, 3])
def test_without_break_a_loop_goes_on_to_its_end(scalars: int) -> None:
    """The same result, in as many steps as there are entries."""
    values: dict[str, Any] = {"x": np.arange(100.0)}
    values |= {f"p{k}": Scalar(parse_format("ShortCircuitScalar{1.0}()")) for k in range(scalars)}
    body = [f"p{k} .= 1.0" for k in range(scalars)]
    body += ["for i = _", *(f"p{k}[] *= x[i]" for k in range(scalars)), "end"]
    totals = {}
    for which in ("all", "all-Break", "paper", "paper-Break"):
        found = run_congruent(kernel("\n".join(body)), values, which)
        assert all(found[f"p{k}"] == 0.0 for k in range(scalars))
        totals[which] = found.total
        assert bool(found.rules["Break"]) == ("Break" not in which)
        assert found.rules["Loop"] == (100 if "Break" in which else 1)
    assert totals["all"] * 10 < totals["all-Break"]
    assert totals["paper"] * 10 < totals["paper-Break"]
