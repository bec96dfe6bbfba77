"""The rules of steppers and jumpers, and the rule derived from them, by name (Finch'25 Fig 15,
Looplets'23 section 6), under both hosts."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from both_hosts import Memory, loop_sum, run_both, vector
from looplet_nests import (
    LookupNest,
    Payload,
    RunNest,
    StepsNest,
    SwitchNest,
    assert_copies,
    assert_sums,
    lookup_nest,
    pieces_of,
    runs,
    spikes,
)

from finchlang.looplets import (
    Jumper,
    Phase,
    Run,
    Sequence,
    Stepper,
)
from finchlang.syntax import Literal

BOTH_TABLES = pytest.mark.parametrize("which", ["all", "paper"])


@pytest.fixture
def memory() -> Memory:
    return Memory()


# --------------------------------------------------------------------------------------- stepper


@BOTH_TABLES
@pytest.mark.parametrize("lo", [1, 2, 3, 5, 6, 9])
def test_stepper_seek(memory: Memory, lo: int, which: str) -> None:
    """A loop that starts in the middle seeks, and does not walk."""
    nest = runs(memory, [2, 5, 9], [1.0, 10.0, 100.0])
    start = memory.number(lo)
    found = run_both(
        "begin\ns .= 0.0\nfor i = lo:9\ns[] += a[i]\nend\nend",
        [nest.tensor("a")],
        {"s": "Scalar(0.0)"},
        memory,
        {"lo": start},
        which,
    )
    assert found["s"] == nest.dense(0)[lo - 1 :].sum()
    assert found.interpreted["StepperSeek"] == found.staged["StepperSeek"] == 1
    assert found.steps["search"] >= 1
    entered = sum(end >= lo for end in (2, 5, 9))
    # at a single coordinate, which is known to be one only when the program runs, there is a loop
    assert found.steps["loop"] == entered + 1


def test_stepper_does_not_seek_the_first_coordinate(memory: Memory) -> None:
    nest = runs(memory, [2, 5, 9], [1.0, 10.0, 100.0])
    found = loop_sum([nest.tensor("a")], memory, n=9)
    assert found.steps["search"] == 0


@BOTH_TABLES
def test_stepper_next(memory: Memory, which: str) -> None:
    nest = runs(memory, [2, 5, 9], [1.0, 10.0, 100.0])
    found = loop_sum([nest.tensor("a")], memory, n=memory.number(9), which=which)
    assert found["s"] == 2 + 30 + 400
    assert found.staged["StepperNext"] == 1
    assert found.steps["loop"] == 4  # three regions, and one look that finds no more


@BOTH_TABLES
@pytest.mark.parametrize("make", [runs, spikes])
def test_stepper_over_every_window(memory: Memory, make: Any, which: str) -> None:
    assert_sums([make(memory, [1, 2, 5, 9], [1.0, 2.0, 3.0, 4.0])], memory, which=which)


def test_stepper_cut_by_a_phase(memory: Memory) -> None:
    """What a phase cuts off is not stepped over."""
    ends = list(range(1, 101))
    steps = runs(memory, ends, [1.0] * 100)
    cut = memory.number(10)
    mask = vector(
        "m",
        100,
        lambda host: Sequence((Phase(Run(Literal(1.0)), stop=cut), Phase(Run(Literal(0.0))))),
    )
    found = loop_sum([mask, steps.tensor("a")], memory, n=100)
    assert found["s"] == 10.0
    assert found.steps["loop"] == 11


@BOTH_TABLES
@pytest.mark.parametrize(
    "others",
    [
        [[3, 6, 9]],  # equal strides
        [[2, 4, 8, 9]],  # different ones
        [[9]],
        [[1, 2, 3, 4, 5, 6, 7, 8, 9]],
        [[3, 6, 9], [3, 6, 9]],
        [[2, 6, 9], [1, 3, 9]],
    ],
)
@pytest.mark.parametrize("make", [runs, spikes])
def test_steppers_meet(memory: Memory, make: Any, others: list[list[int]], which: str) -> None:
    nests = [make(memory, [3, 6, 9], [1.0, 2.0, 3.0])]
    for ends in others:
        nests.append(make(memory, ends, [float(e) for e in ends]))
    assert_sums(list(nests), memory, which=which)


def test_steppers_advance_once_a_step(memory: Memory) -> None:
    """Two run lists make a region at each end of either, no more."""
    a, b = runs(memory, [3, 6, 9], [1.0, 2.0, 3.0]), runs(memory, [2, 6, 9], [1.0, 2.0, 3.0])
    found = loop_sum([a.tensor("a"), b.tensor("b")], memory, n=memory.number(9))
    assert found["s"] == (a.dense(0) * b.dense(0)).sum()
    assert found.steps["loop"] == len({3, 6, 9, 2}) + 1


def test_stepper_in_a_stepper(memory: Memory) -> None:
    """Blocks: the pieces of a stepper are steppers themselves."""
    outer, inner = [[4, 9]], [[2, 4], [5, 8, 9]]
    regions = pieces_of([(1, 9)], outer)
    leaf = RunNest(
        memory, pieces_of(regions, inner), Payload(memory, [1.0, 2.0, 3.0, 4.0, 5.0], False)
    )
    nest = StepsNest(
        memory, [(1, 9)], Stepper, outer, StepsNest(memory, regions, Stepper, inner, leaf)
    )
    assert_copies(nest, memory)


def test_stepper_of_lookups_and_of_switches(memory: Memory) -> None:
    ends = [[2, 5]]
    regions = pieces_of([(1, 5)], ends)
    lookups = LookupNest(memory, regions, [[1.0, 2.0], [3.0, 4.0, 5.0]])
    zeros = RunNest(memory, regions, Payload(memory, [0.0, 0.0], True))
    switches = SwitchNest(memory, regions, [False, True], lookups, zeros)
    for child in (lookups, switches):
        assert_copies(StepsNest(memory, [(1, 5)], Stepper, ends, child), memory)


# ---------------------------------------------------------------------------------------- jumper


@BOTH_TABLES
@pytest.mark.parametrize("make", [runs, spikes])
@pytest.mark.parametrize("others", [[], [[3, 6, 9]], [[2, 4, 8, 9]], [[9]], [[1, 5, 9], [2, 3, 9]]])
def test_jumper(memory: Memory, make: Any, others: list[list[int]], which: str) -> None:
    """Alone, with equal strides, and with strides that lead in turns."""
    nests = [make(memory, [3, 6, 9], [1.0, 2.0, 3.0], Jumper)]
    for ends in others:
        nests.append(make(memory, ends, [float(e) for e in ends], Jumper))
    found = assert_sums(list(nests), memory, which=which)
    assert found.staged["Jumper"] >= 1


@BOTH_TABLES
def test_jumper_stepper_and_lookup(memory: Memory, which: str) -> None:
    nests = [
        spikes(memory, [2, 7, 9], [1.0, 2.0, 3.0], Jumper),
        runs(memory, [1, 4, 8, 9], [1.0, 2.0, 3.0, 4.0]),
        lookup_nest(memory, [float(k) for k in range(1, 10)]),
    ]
    assert_sums(nests, memory, which=which)


def test_jumper_leads(memory: Memory) -> None:
    """Between the ends of the longest stride the others are not walked: few steps for a long list
    against a short one."""
    long, short = list(range(1, 501)), [250, 500]
    a = spikes(memory, long, [1.0] * len(long), Jumper)
    b = spikes(memory, short, [2.0, 3.0], Jumper)
    found = loop_sum([a.tensor("a"), b.tensor("b")], memory, n=memory.number(500))
    assert found["s"] == 5.0
    assert found.steps.total() < 400
    c, d = (spikes(memory, ends, [1.0] * len(ends), Stepper) for ends in (long, short))
    walked = loop_sum([c.tensor("a"), d.tensor("b")], memory, n=memory.number(500))
    assert walked.steps.total() > 2000


# --------------------------------------------------------------------------------- derived rules


@pytest.mark.parametrize("lo, hi", [(1, 9), (3, 9), (1, 5), (4, 6), (7, 3)])
def test_positions(memory: Memory, lo: int, hi: int) -> None:
    """Positions gives what the base rules give, in fewer steps, and only where gaps annihilate."""
    nest = spikes(memory, [2, 4, 5, 9], [1.0, 2.0, 3.0, 4.0])
    nest.has_positions = True
    other = lookup_nest(memory, [float(k) for k in range(9)])
    tensors = [nest.tensor("a"), other.tensor("b")]
    bounds = {"lo": memory.number(lo), "hi": memory.number(hi)}
    text = "begin\ns .= 0.0\nfor i = lo:hi\ns[] += a[i] * b[i]\nend\nend"
    found, base = (
        run_both(text, tensors, {"s": "Scalar(0.0)"}, memory, bounds, which)
        for which in ("all", "paper")
    )
    assert found["s"] == base["s"] == (nest.dense(0) * other.dense(0))[lo - 1 : hi].sum()
    assert found.staged["Positions"] == 1 and base.staged["Positions"] == 0
    if (lo, hi) == (1, 9):
        assert found.steps.total() < base.steps.total()


def test_positions_needs_gaps_that_annihilate(memory: Memory) -> None:
    nest = spikes(memory, [2, 5], [1.0, 2.0])
    nest.has_positions = True
    found = loop_sum([nest.tensor("a")], memory, value="max(a[i], 1.5)", n=memory.number(5))
    assert found["s"] == 8.0
    assert found.staged["Positions"] == 0


def test_positions_needs_a_single_stepper(memory: Memory) -> None:
    nests = [spikes(memory, [2, 5], [1.0, 2.0]), spikes(memory, [3, 5], [1.0, 2.0])]
    for nest in nests:
        nest.has_positions = True
    found = assert_sums(list(nests), memory)
    assert found.staged["Positions"] == 0


@pytest.mark.parametrize("lo, hi", [(1, 9), (3, 9), (4, 5), (2, 2), (7, 3)])
@pytest.mark.parametrize("operator", ["max", "min"])
def test_positions_take_in_gaps_once(memory: Memory, operator: str, lo: int, hi: int) -> None:
    nest = spikes(memory, [2, 4, 5, 9], [1.0, -2.0, 3.0, 4.0])
    nest.has_positions = True
    start = -inf if operator == "max" else inf
    bounds = {"lo": memory.number(lo), "hi": memory.number(hi)}
    text = f"begin\ns .= {start}\nfor i = lo:hi\ns[] <<{operator}>>= a[i]\nend\nend".replace(
        "inf", "Inf"
    )
    values = {"s": "Scalar(0.0)"}
    found, base = (
        run_both(text, [nest.tensor("a")], values, memory, bounds, which)
        for which in ("all", "paper")
    )
    expected = [start, *nest.dense(0)[lo - 1 : hi]]
    assert found["s"] == base["s"] == (max(expected) if operator == "max" else min(expected))
    assert found.staged["Positions"] >= 1 and found.steps.total() <= base.steps.total() + 2
