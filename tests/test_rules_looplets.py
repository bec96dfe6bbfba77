"""The rules of the looplets that need no steps, by name (Finch'25 Table 2 and Fig 15), on hand-made
nests, under both hosts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from both_hosts import Handmade, Memory, loop_sum, run_both, vector
from looplet_nests import (
    Nest,
    Payload,
    RunNest,
    SequenceNest,
    ShiftNest,
    SpikeNest,
    StepsNest,
    SwitchNest,
    ThunkNest,
    assert_copies,
    assert_sums,
    lookup_nest,
    run_nest,
    runs,
    spikes,
)

from finchlang.host.fold import ONE, ZERO, add, const
from finchlang.host.ir import For, While
from finchlang.looplets import (
    Lookup,
    Phase,
    Run,
    Shift,
    Spike,
    Stepper,
    Switch,
    Thunk,
    set_end,
)
from finchlang.syntax import Literal, Value
from finchlang.types import Bool

ZERO_FILL = Literal(0.0)
BOTH_TABLES = pytest.mark.parametrize("which", ["all", "paper"])


@pytest.fixture
def memory() -> Memory:
    return Memory()


# ----------------------------------------------------------------------------------------- thunk


def test_thunk(memory: Memory) -> None:
    """The preamble runs before the body, the epilogue after it, each once a loop."""
    log = memory.array([0, 0, 0], name="log")
    order = memory.array([0], name="order")

    def make(host: Any) -> Any:
        def note(place: int) -> None:
            now = host.let(add(host.load(order, ZERO), 1))
            host.store(order, ZERO, now)
            host.store(log, const(place), now)

        def preamble(host: Any) -> Any:
            note(0)

            def body(host: Any, i: Any) -> Any:
                note(1)
                return Literal(1.0)

            return Lookup(body), lambda host: note(2)

        return Thunk(preamble)

    found = loop_sum([vector("a", 3, make)], memory, n=3)
    assert found["s"] == 3.0
    before, during, after = found.arrays[log]
    assert (before, during, after) == (1, 4, 5)  # three lookups between; the last one is noted
    assert found.interpreted["Thunk"] == found.staged["Thunk"] == 1


def test_thunks_leave_in_the_opposite_order(memory: Memory) -> None:
    log = memory.array([0] * 4, name="log")
    clock = memory.array([0], name="clock")

    def noting(place: int, body: Any) -> Any:
        def note(host: Any, where: int) -> None:
            now = host.let(add(host.load(clock, ZERO), 1))
            host.store(clock, ZERO, now)
            host.store(log, const(where), now)

        def preamble(host: Any) -> Any:
            note(host, place)
            return body(host), lambda host: note(host, 3 - place)

        return Thunk(preamble)

    def make(host: Any) -> Any:
        return noting(0, lambda host: noting(1, lambda host: Run(Literal(2.0))))

    found = loop_sum([vector("a", 4, make)], memory, n=4)
    assert found["s"] == 8.0
    assert list(found.arrays[log]) == [1, 2, 3, 4]


def test_thunk_in_an_empty_loop(memory: Memory) -> None:
    """A preamble without a loop to follow still has its epilogue."""
    log = memory.array([0, 0], name="log")
    nest = ThunkNest(memory, [(1, 5)], run_nest(memory, 5, 1.0), log)
    found = loop_sum([nest.tensor("a")], memory, 4, "n", n=memory.number(3))
    assert found["s"] == 0.0
    assert found.arrays[log][0] == found.arrays[log][1]


# ----------------------------------------------------------------------------------------- phase


@pytest.mark.parametrize(
    "start, stop, bounds, expected",
    [
        (None, None, (1, 9), 9),
        (3, None, (1, 9), 7),
        (None, 4, (1, 9), 4),
        (3, 5, (1, 9), 3),
        (3, 5, (4, 4), 1),
        (3, 5, (6, 9), 0),
        (3, 5, (1, 2), 0),
        (5, 4, (1, 9), 0),
        (1, 9, (9, 9), 1),
    ],
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_phase(
    memory: Memory, start: Any, stop: Any, bounds: Any, expected: int, dynamic: bool
) -> None:
    """The loop goes over what its extent and the phase's have in common."""

    def expr(value: int | None) -> Any:
        if value is None:
            return None
        return memory.number(value) if dynamic else const(value)

    phase = Phase(Run(Literal(1.0)), expr(start), expr(stop))
    numbers = (memory.number(bounds[0]), memory.number(bounds[1]))
    found = run_both(
        "begin\ns .= 0.0\nfor i = lo:hi\ns[] += a[i]\nend\nend",
        [vector("a", 9, lambda host: phase)],
        {"s": "Scalar(0.0)"},
        memory,
        dict(zip(("lo", "hi"), numbers, strict=True)),
    )
    assert found["s"] == expected
    assert found.interpreted["Phase"] == found.staged["Phase"] == 1


def test_phases_of_two_tensors_intersect(memory: Memory) -> None:
    a = vector("a", 9, lambda host: Phase(Run(Literal(1.0)), ONE, const(6)))
    b = vector("b", 9, lambda host: Phase(Run(Literal(1.0)), const(4), const(9)))
    found = loop_sum([a, b], memory, n=9)
    assert found["s"] == 3.0
    assert found.staged["Phase"] == 2


# ---------------------------------------------------------------------------------------- switch


def switch(memory: Memory, condition: bool) -> Nest:
    head, tail = run_nest(memory, 4, 2.0), lookup_nest(memory, [1.0, 2.0, 3.0, 4.0])
    return SwitchNest(memory, [(1, 4)], [condition], head, tail)


def test_switch_true(memory: Memory) -> None:
    assert_copies(switch(memory, True), memory)
    found = loop_sum([switch(memory, True).tensor("a")], memory, n=4)
    assert found["s"] == 8.0
    assert found.interpreted["SwitchTrue"] == 1 and "SwitchFalse" not in found.interpreted
    assert found.staged["SwitchTrue"] == found.staged["SwitchFalse"] == 1  # both arms are staged


def test_switch_false(memory: Memory) -> None:
    assert_copies(switch(memory, False), memory)
    found = loop_sum([switch(memory, False).tensor("a")], memory, n=4)
    assert found["s"] == 10.0
    assert found.interpreted["SwitchFalse"] == 1 and "SwitchTrue" not in found.interpreted


@pytest.mark.parametrize("condition", [True, False])
def test_switch_on_a_constant_has_one_arm(memory: Memory, condition: bool) -> None:
    looplet = Switch(const(condition, Bool), Run(Literal(2.0)), Run(Literal(3.0)))
    found = loop_sum([vector("a", 4, lambda host: looplet)], memory, n=4)
    assert found["s"] == (8.0 if condition else 12.0)
    assert found.interpreted == found.staged
    assert found.steps["branch"] == 0


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("second", [True, False])
def test_switch_arms_with_cells(memory: Memory, first: bool, second: bool) -> None:
    """Each arm has steppers with cells of their own; no arm sees what another did."""
    arms = [spikes(memory, [2, 4, 6], [1.0, 2.0, 3.0]), runs(memory, [3, 6], [4.0, 5.0])]
    more = [runs(memory, [1, 6], [1.0, 3.0]), spikes(memory, [1, 6], [2.0, 7.0])]
    a = SwitchNest(memory, [(1, 6)], [first], arms[0], arms[1])
    b = SwitchNest(memory, [(1, 6)], [second], more[0], more[1])
    found = assert_sums([a, b], memory)
    assert found.staged["SwitchTrue"] == 3  # one, and one in each of its arms


# ---------------------------------------------------------------------------------- run, simplify


@BOTH_TABLES
def test_run(memory: Memory, which: str) -> None:
    found = assert_copies(run_nest(memory, 5, 3.0), memory, which)
    assert found.staged["Run"] == 1


def test_run_is_summed_at_once(memory: Memory) -> None:
    million = 1_000_000
    found = loop_sum([run_nest(memory, million, 3.0).tensor("a")], memory, n=million)
    assert found["s"] == 3e6
    assert found.steps.total() < 20
    assert not any(isinstance(s, (For, While)) for s in found.code.statements)


def test_simplify(memory: Memory) -> None:
    """A run of the annihilator makes the loop vanish, whatever else is in it."""
    zeros = run_nest(memory, 1000, 0.0, static=True)
    other = lookup_nest(memory, [1.0] * 1000)
    found = loop_sum([zeros.tensor("a"), other.tensor("b")], memory, n=1000)
    assert found["s"] == 0.0
    assert found.interpreted["Simplify"] >= 1 and found.staged["Simplify"] >= 1
    assert found.interpreted["Loop"] == 0 and found.steps["load"] <= 1  # b's offset


def test_stored_zeros_are_data(memory: Memory) -> None:
    """A zero that is only known when the program runs annihilates nothing (DESIGN, law 2)."""
    zeros = run_nest(memory, 10, 0.0)
    other = lookup_nest(memory, [float("inf")] * 10)
    found = loop_sum([zeros.tensor("a"), other.tensor("b")], memory, n=10)
    assert np.isnan(found["s"])
    assert found.steps["count"] == 10


# ----------------------------------------------------------------------------------------- spike


@BOTH_TABLES
@pytest.mark.parametrize("names_end", [True, False])
@pytest.mark.parametrize("static", [True, False])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_spike(memory: Memory, names_end: bool, static: bool, size: int, which: str) -> None:
    body, tail = Payload(memory, [7.0], static), Payload(memory, [3.0], False)
    nest = SpikeNest(memory, [(1, size)], body, tail, names_end)
    assert_copies(nest, memory, which)
    found = loop_sum([nest.tensor("a")], memory, n=size, which=which)
    assert found["s"] == 7.0 * (size - 1) + 3.0
    assert found.staged["Spike"] >= 1


@pytest.mark.parametrize("names_end", [True, False])
@pytest.mark.parametrize("stop", [1, 3, 4, 5])
def test_spike_cut_off(memory: Memory, names_end: bool, stop: int) -> None:
    """A loop that ends before the spike does sees its run only."""
    body, tail = Payload(memory, [0.0], True), Payload(memory, [3.0], False)
    nest = SpikeNest(memory, [(1, 5)], body, tail, names_end)
    found = loop_sum([nest.tensor("a")], memory, 1, stop)
    assert found["s"] == (3.0 if stop == 5 else 0.0)


@pytest.mark.parametrize("ends", [(4, 4), (2, 4), (4, 2)])
def test_two_spikes(memory: Memory, ends: tuple[int, int]) -> None:
    """Spikes that end together, and one cut off by the other."""
    nests = []
    for end, value in zip(ends, (2.0, 5.0), strict=True):
        first = SpikeNest(
            memory, [(1, end)], Payload(memory, [1.0], True), Payload(memory, [value], False), False
        )
        rest = lookup_nest(memory, [1.0] * (4 - end), end + 1)
        nests.append(SequenceNest(memory, [(1, 4)], [first, rest], False, True))
    assert_sums(nests, memory)


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_spike_without_an_end_gets_it_through_a_shift(memory: Memory, stop: int) -> None:
    """The stepper sets its spike's end, though a shift stands between, and the loop ends before."""
    child = SpikeNest(
        memory, [(1, 3)], Payload(memory, [0.0], True), Payload(memory, [1.0], False), False
    )
    shifted = ShiftNest(memory, [(1, 3)], child, 0, True)
    nest = StepsNest(memory, [(1, 3)], Stepper, [[3]], shifted)
    found = loop_sum([nest.tensor("a")], memory, 1, "n", n=memory.number(stop))
    assert found["s"] == (1.0 if stop == 3 else 0.0)


@pytest.mark.parametrize("stop", [2, 3])
def test_spike_without_an_end_gets_it_through_a_sequence(memory: Memory, stop: int) -> None:
    before = RunNest(memory, [(1, 1)], Payload(memory, [5.0], False))
    spike = SpikeNest(
        memory, [(2, 3)], Payload(memory, [0.0], True), Payload(memory, [1.0], False), False
    )
    sequence = SequenceNest(memory, [(1, 3)], [before, spike], False, False)
    nest = StepsNest(memory, [(1, 3)], Stepper, [[3]], sequence)
    found = loop_sum([nest.tensor("a")], memory, 1, "n", n=memory.number(stop))
    assert found["s"] == (6.0 if stop == 3 else 5.0)


def test_set_end_keeps_an_end_that_is_there() -> None:
    spike = Spike(ZERO_FILL, Literal(1.0), const(4))
    assert set_end(spike, const(9)) is spike
    moved = set_end(Shift(Spike(ZERO_FILL, Literal(1.0)), const(2)), const(9))
    assert moved.body.end is const(7)


# -------------------------------------------------------------------------------------- sequence


@BOTH_TABLES
@pytest.mark.parametrize("names_starts", [True, False])
def test_sequence(memory: Memory, names_starts: bool, which: str) -> None:
    parts: list[Nest] = [
        RunNest(memory, [(1, 3)], Payload(memory, [2.0], False)),
        RunNest(memory, [(4, 3)], Payload(memory, [9.0], False)),  # an empty phase
        lookup_nest(memory, [5.0, 6.0], 4),
        RunNest(memory, [(6, 8)], Payload(memory, [0.0], True)),
    ]
    nest = SequenceNest(memory, [(1, 8)], parts, names_starts, True)
    assert_copies(nest, memory, which)
    found = loop_sum([nest.tensor("a")], memory, n=8, which=which)
    assert found["s"] == 17.0
    assert found.staged["Sequence"] >= len(parts) - 1


def test_sequences_in_sequences(memory: Memory) -> None:
    inner = SequenceNest(
        memory,
        [(3, 6)],
        [lookup_nest(memory, [1.0, 2.0], 3), lookup_nest(memory, [3.0, 4.0], 5)],
        False,
        False,
    )
    outer = SequenceNest(
        memory,
        [(1, 7)],
        [lookup_nest(memory, [5.0, 5.0]), inner, lookup_nest(memory, [9.0], 7)],
        False,
        False,
    )
    assert_copies(outer, memory)


def test_two_sequences_meet_in_every_way(memory: Memory) -> None:
    for first in range(6):
        for second in range(6):
            memory = Memory()
            nests: list[Nest] = []
            for cut, value in ((first, 2.0), (second, 3.0)):
                before = RunNest(memory, [(1, cut)], Payload(memory, [value], False))
                after = RunNest(memory, [(cut + 1, 5)], Payload(memory, [value + 3], False))
                nests.append(SequenceNest(memory, [(1, 5)], [before, after], False, False))
            found = loop_sum(
                [n.tensor(x) for n, x in zip(nests, "ab", strict=True)],
                memory,
                n=memory.number(5),
            )
            assert found["s"] == (nests[0].dense(0) * nests[1].dense(0)).sum()


# ---------------------------------------------------------------------------------------- lookup


@BOTH_TABLES
@pytest.mark.parametrize("size", [0, 1, 4])
def test_lookup(memory: Memory, size: int, which: str) -> None:
    nest = lookup_nest(memory, [float(k + 1) for k in range(size)])
    assert_copies(nest, memory, which)
    found = loop_sum([nest.tensor("a")], memory, n=memory.number(size), which=which)
    assert found["s"] == size * (size + 1) / 2
    assert found.staged["Lookup"] == 1
    assert found.interpreted["Lookup"] == size
    assert found.steps["count"] == size


def test_lookup_of_a_subtensor(memory: Memory) -> None:
    """A lookup's payload may be a tensor of the dimensions that are left."""
    values = memory.array(np.arange(6.0), np.float64)

    def column(j: Any) -> Handmade:
        def make(host: Any) -> Any:
            at = host.let(add(add(j, j), j))
            return Lookup(lambda host, i: Value(host.load(values, add(add(at, i), -4), "v")))

        return vector("column", 3, make)

    matrix = Handmade(
        "a", (const(3), const(2)), lambda host, stop, mode: Lookup(lambda host, j: column(j))
    )
    text = "begin\ns .= 0.0\nfor j = 1:2\nfor i = 1:3\ns[] += a[i, j]\nend\nend\nend"
    found = run_both(text, [matrix], {"s": "Scalar(0.0)"}, memory)
    assert found["s"] == 15.0
    assert found.staged["Unfurl"] == 2
