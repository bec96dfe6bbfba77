"""Each looplet's rule, by its name (Finch'25 Table 2 and Fig 15, Looplets'23 section 6), on hand-made
nests, under both hosts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from looplet_nests import (
    Handmade,
    LookupNest,
    Memory,
    Nest,
    Payload,
    RunNest,
    SequenceNest,
    ShiftNest,
    SpikeNest,
    StepsNest,
    SwitchNest,
    ThunkNest,
    loop_copy,
    loop_sum,
    pieces_of,
    run_both,
    vector,
)

from finchlang.host.build import ONE, ZERO, add, const
from finchlang.host.ir import For, While
from finchlang.looplets import (
    AcceptRun,
    Jumper,
    Lookup,
    Looplet,
    Phase,
    Run,
    Sequence,
    Shift,
    Spike,
    Stepper,
    Switch,
    Thunk,
    set_end,
)
from finchlang.rules.table import RULES, rules
from finchlang.syntax import Literal, Value
from finchlang.tensors.bind import bind
from finchlang.tensors.formats import parse_format
from finchlang.tensors.level import UPDATE, Fiber
from finchlang.types import Bool, Float64

ZERO_FILL = Literal(0.0)
BOTH_TABLES = pytest.mark.parametrize("which", ["all", "paper"])


@pytest.fixture
def memory() -> Memory:
    return Memory()


def run_nest(memory: Memory, size: int, value: float, static: bool = False) -> Nest:
    return RunNest(memory, [(1, size)], Payload(memory, [value], static))


def lookup_nest(memory: Memory, values: list[float], first: int = 1) -> Nest:
    return LookupNest(memory, [(first, first + len(values) - 1)], [values])


def spikes(
    memory: Memory, ends: list[int], values: list[float], kind: Any = Stepper, fill: float = 0.0
) -> StepsNest:
    """A stepper over spikes that end at `ends`, over 1:ends[-1]."""
    regions = pieces_of([(1, ends[-1])], [ends])
    body = Payload(memory, [fill] * len(ends), True)
    child = SpikeNest(memory, regions, body, Payload(memory, values, False), False)
    return StepsNest(memory, [(1, ends[-1])], kind, [ends], child)


def runs(memory: Memory, ends: list[int], values: list[float], kind: Any = Stepper) -> StepsNest:
    """A stepper over runs that end at `ends`."""
    regions = pieces_of([(1, ends[-1])], [ends])
    child = RunNest(memory, regions, Payload(memory, values, False))
    return StepsNest(memory, [(1, ends[-1])], kind, [ends], child)


def assert_copies(nest: Nest, memory: Memory, which: str = "all") -> Any:
    """`y[i] = nest[i]` over every part of the nest's region that starts anywhere."""
    expected, size = nest.dense(0), len(nest.dense(0))
    outcomes = []
    for start in sorted({1, 2, size // 2 + 1, size, size + 1} - {0}):
        found = loop_copy(nest.tensor("a"), memory, size, start, which)
        outcomes.append(found)
        np.testing.assert_array_equal(found["y"][start - 1 :], expected[start - 1 :])
        assert not found["y"][: start - 1].any()
    return outcomes[0]


def assert_sums(nests: list[Nest], memory: Memory, which: str = "all") -> Any:
    """The product of the nests, summed over windows of their region; gives what the last one gave,
    which is over the whole of it."""
    tensors = [nest.tensor(name) for nest, name in zip(nests, "abcde", strict=False)]
    dense = np.prod([nest.dense(0) for nest in nests], axis=0)
    size = len(dense)
    text = (
        "begin\ns .= 0.0\nfor i = lo:hi\n"
        f"s[] += {' * '.join(f'{t.name}[i]' for t in tensors)}\nend\nend"
    )
    windows = [(start, stop) for start in (2, 4, size) for stop in (start, size - 1, size)]
    for start, stop in [*windows, (3, 2), (size + 1, size), (1, size - 1), (1, size)]:
        numbers = {"lo": memory.number(start), "hi": memory.number(stop)}
        found = run_both(text, tensors, {"s": "Scalar(0.0)"}, memory, numbers, which)
        assert found["s"] == dense[start - 1 : stop].sum()
    return found


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
    nest = StepsNest(memory, [(1, 9)], Stepper, outer, StepsNest(memory, regions, Stepper, inner, leaf))
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
@pytest.mark.parametrize(
    "others", [[], [[3, 6, 9]], [[2, 4, 8, 9]], [[9]], [[1, 5, 9], [2, 3, 9]]]
)
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
    long, short = list(range(1, 2001)), [1000, 2000]
    a = spikes(memory, long, [1.0] * len(long), Jumper)
    b = spikes(memory, short, [2.0, 3.0], Jumper)
    found = loop_sum([a.tensor("a"), b.tensor("b")], memory, n=memory.number(2000))
    assert found["s"] == 5.0
    assert found.steps.total() < 400
    c, d = (
        spikes(memory, ends, [1.0] * len(ends), Stepper) for ends in (long, short)
    )
    walked = loop_sum([c.tensor("a"), d.tensor("b")], memory, n=memory.number(2000))
    assert walked.steps.total() > 4000


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


# ------------------------------------------------------------------------------------ accept run


def run_writer(memory: Memory) -> tuple[Handmade, Any, Any]:
    """A writer that keeps each run it is given: values in a Dense vector, ends in an array."""
    bound = bind("runs", parse_format("Dense(Element(0.0))"), True)
    (values,) = bound.buffers
    memory.arrays[values] = np.zeros(32)
    ends, number = memory.array([0] * 32, name="ends"), memory.array([0], name="number")
    fiber = Fiber(bound.fiber.store, (const(32),), ZERO, None, UPDATE)

    def make(host: Any, stop: Any, mode: str) -> Any:
        assert mode == UPDATE

        def accept(host: Any, start: Any, stop: Any) -> Any:
            q = host.load(number, ZERO, "q")
            host.store(number, ZERO, add(q, 1))
            host.store(ends, q, stop)
            return fiber.child(q)

        return AcceptRun(accept)

    return Handmade("w", (const(32),), make), (number, ends), values


def written(found: Any, writer: Any) -> list[tuple[int, float]]:
    _, (number, ends), values = writer
    count = int(found.arrays[number][0])
    arrays = found.arrays
    return list(zip(arrays[ends][:count].tolist(), arrays[values][:count].tolist(), strict=True))


@BOTH_TABLES
def test_accept_run(memory: Memory, which: str) -> None:
    """A writer that takes runs gets each region at once; a coordinate at a time otherwise."""
    writer = run_writer(memory)
    source = runs(memory, [3, 8], [2.0, 4.0])
    text = "for i = 1:8\nw[i] = a[i]\nend"
    found = run_both(text, [writer[0], source.tensor("a")], {}, memory, which=which)
    assert written(found, writer) == [(3, 2.0), (8, 4.0)]
    assert found.staged["AcceptRun"] == 1


def test_accept_run_of_what_depends_on_the_index(memory: Memory) -> None:
    writer = run_writer(memory)
    text = "for i = 1:3\nw[i] = a[i] * i\nend"
    found = run_both(text, [writer[0], run_nest(memory, 3, 2.0).tensor("a")], {}, memory)
    assert written(found, writer) == [(1, 2.0), (2, 4.0), (3, 6.0)]


def test_accept_run_of_lookups_and_spikes(memory: Memory) -> None:
    writer = run_writer(memory)
    text = "for i = 1:3\nw[i] = a[i]\nend"
    found = run_both(text, [writer[0], lookup_nest(memory, [7.0, 8.0, 9.0]).tensor("a")], {}, memory)
    assert written(found, writer) == [(1, 7.0), (2, 8.0), (3, 9.0)]
    memory = Memory()
    writer = run_writer(memory)
    nest = spikes(memory, [2, 5], [1.0, 2.0], fill=4.0)
    text = "for i = 1:5\nw[i] = a[i]\nend"
    found = run_both(text, [writer[0], nest.tensor("a")], {}, memory)
    assert written(found, writer) == [(1, 4.0), (2, 1.0), (4, 4.0), (5, 2.0)]


def test_accept_run_of_nothing(memory: Memory) -> None:
    writer = run_writer(memory)
    text = "for i = 1:n\nw[i] = 1.0\nend"
    found = run_both(text, [writer[0]], {}, memory, {"n": memory.number(0)})
    assert written(found, writer) == []


# ----------------------------------------------------------------------------------------- shift


def shiftable(memory: Memory, delta: int) -> dict[str, Nest]:
    """A nest of each kind over what is 1:6 once it is moved by `delta`."""
    low, high = 1 - delta, 6 - delta
    region, middle = (low, high), low + 2
    payload = Payload(memory, [2.0], False)
    ends = [[middle, high]]
    pieces = pieces_of([region], ends)
    zero = Payload(memory, [0.0, 0.0], True)
    spike = SpikeNest(memory, pieces, zero, Payload(memory, [3.0, 4.0], False), False)
    run_pieces = RunNest(memory, pieces, Payload(memory, [3.0, 4.0], False))
    lookup = lookup_nest(memory, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], low)
    parts: list[Nest] = [
        RunNest(memory, [(low, middle)], payload),
        lookup_nest(memory, [7.0, 8.0, 9.0], middle + 1),
    ]
    switch = SwitchNest(memory, [region], [True], lookup, RunNest(memory, [region], payload))
    return {
        "run": RunNest(memory, [region], payload),
        "lookup": lookup,
        "spike": SpikeNest(memory, [region], zero, Payload(memory, [3.0], False), True),
        "open spike": SpikeNest(memory, [region], zero, Payload(memory, [3.0], False), False),
        "sequence": SequenceNest(memory, [region], parts, True, False),
        "switch": switch,
        "thunk": ThunkNest(memory, [region], lookup, None),
        "stepper": StepsNest(memory, [region], Stepper, ends, run_pieces),
        "stepper of spikes": StepsNest(memory, [region], Stepper, ends, spike, True),
        "jumper": StepsNest(memory, [region], Jumper, ends, spike),
        "shift": ShiftNest(
            memory, [region], lookup_nest(memory, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], low - 2), 2, True
        ),
    }


@pytest.mark.parametrize("kind", list(shiftable(Memory(), 0)))
@pytest.mark.parametrize("delta", [-3, 0, 2])
@pytest.mark.parametrize("static", [True, False])
def test_shift(memory: Memory, kind: str, delta: int, static: bool) -> None:
    child = shiftable(memory, delta)[kind]
    nest = ShiftNest(memory, [(1, 6)], child, delta, static)
    assert_copies(nest, memory)
    found = loop_sum([nest.tensor("a")], memory, 2, 5)
    assert found["s"] == child.dense(0)[1:5].sum()
    assert found.staged["Shift"] >= 1


def test_shift_of_a_writer(memory: Memory) -> None:
    """A shifted AcceptRun is told its own coordinates."""
    writer, kept, values = run_writer(memory)
    moved = Handmade(
        "v", (const(32),), lambda host, stop, mode: Shift(writer.make(host, stop, mode), const(2))
    )
    text = "for i = 4:8\nv[i] = a[i]\nend"
    found = run_both(text, [moved, runs(memory, [5, 8], [1.0, 2.0]).tensor("a")], {}, memory)
    assert written(found, (moved, kept, values)) == [(3, 1.0), (6, 2.0)]


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
    found = loop_sum([nest.tensor("a")], memory, value="a[i] + 1.0", n=memory.number(5))
    assert found["s"] == 8.0
    assert found.staged["Positions"] == 0


def test_positions_needs_a_single_stepper(memory: Memory) -> None:
    nests = [spikes(memory, [2, 5], [1.0, 2.0]), spikes(memory, [3, 5], [1.0, 2.0])]
    for nest in nests:
        nest.has_positions = True
    found = assert_sums(list(nests), memory)
    assert found.staged["Positions"] == 0


# --------------------------------------------------------------------------------------- the table

#: Fig 15's order, in the paper's words
PRIORITY = ["Thunk", "Phase", "Switch", "Simplify", "Run", "Spike", "Sequence", "StepperSeek", "StepperNext", "Lookup", "AcceptRun", "Unfurl", "Loop", "Access"]


def test_the_table_is_in_the_order_of_figure_15() -> None:
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names)
    assert [n for n in names if n in PRIORITY] == PRIORITY
    assert names.index("Jumper") < names.index("StepperSeek")  # Looplets'23 section 6.2
    rest = "Block Define Sieve Assign Declare Freeze Thaw Extent Shift Jumper Positions"
    assert set(names) - set(PRIORITY) == set(rest.split())


def test_the_paper_table_has_no_derived_rules() -> None:
    assert [r.name for r in rules("all") if r not in rules("paper")] == ["Positions"]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_rules_state_themselves(rule: Any) -> None:
    """The docstring is the rule: from what, to what."""
    statement = rule.statement
    assert any(arrow in statement for arrow in ("→", "⟹", "⇒")), statement


def test_no_two_looplets_are_equal() -> None:
    """A looplet carries state of its own, so it is equal to itself alone."""
    for kind in (lambda: Run(Literal(0.0)), lambda: Lookup(lambda host, i: ZERO_FILL)):
        one, other = kind(), kind()
        assert isinstance(one, Looplet)
        assert one == one and one != other
        assert len({one, other}) == 2


def test_values_in_runs_keep_their_type(memory: Memory) -> None:
    found = loop_sum([vector("a", 3, lambda host: Run(Literal(2)))], memory, n=3)
    assert found["s"] == 6.0 and isinstance(found["s"], float)
    assert Float64.wrap(found["s"]) == 6.0
