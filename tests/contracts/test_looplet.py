"""The contract of looplets: each kind, alone, moved and with each other kind, reads the same at every index
as the array it stands for, under both hosts, by all rules and by those of the paper; what has structure
takes steps by that, not by coordinates. A new kind is tested by being listed in `looplet_nests.kinds`."""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest
from both_hosts import Handmade, Memory, Outcome, loop_sum, run_both, vector
from looplet_nests import (
    LookupNest,
    Nest,
    Payload,
    RunNest,
    ShiftNest,
    SpikeNest,
    StepsNest,
    ThunkNest,
    kinds,
    pieces_of,
)

from finchlang.host.construct import ZERO, add, const
from finchlang.host.executing import ExecutingHost
from finchlang.levels import looplets as lp
from finchlang.levels.level import UPDATE, Fiber
from finchlang.syntax.nodes import Literal
from finchlang.tensors.bind import bind
from finchlang.tensors.formats import parse_format

KINDS, SIZE = tuple(kinds(Memory())), 6
RULES = pytest.mark.parametrize("rules", ["all", "paper"])
WINDOWS = ((1, 6), (2, 5), (3, 3), (5, 4))
TOGETHER = """begin
s .= 0.0
for i = lo:hi
s[] += a[i] * b[i]
end
t .= 0.0
for i = lo:hi
t[] += a[i] + b[i]
end
@declare(y, 0.0, 1:6)
for i = lo:hi
y[i] = max(a[i], 2 * b[i])
end
end"""
OUTPUTS = {"s": "Scalar(0.0)", "t": "Scalar(0.0)", "y": "Dense(Element(0.0))"}


def looked_at(a: Nest, b: Nest, memory: Memory, rules: str, windows: Any = WINDOWS) -> None:
    """Both nests read together over parts of their region."""
    x, y = a.dense(0), b.dense(0)
    for lo, hi in windows:
        bounds = {"lo": memory.number(lo), "hi": memory.number(hi)}
        given = TOGETHER, [a.tensor("a"), b.tensor("b")], OUTPUTS, memory, bounds, rules
        found = run_both(*given, is_again=(lo, hi) != windows[0])
        part = np.s_[lo - 1 : hi]
        assert found["s"] == (x * y)[part].sum() and found["t"] == (x + y)[part].sum()
        copied = np.zeros(SIZE)
        copied[part] = np.maximum(x, 2 * y)[part]
        np.testing.assert_array_equal(found["y"], copied)


@pytest.mark.parametrize(("one", "other"), [*combinations_with_replacement(KINDS, 2)])
@RULES
def test_each_with_each(one: str, other: str, rules: str) -> None:
    memory = Memory()
    looked_at(
        kinds(memory)[one], kinds(memory)[other], memory, rules, WINDOWS[: 4 if one == other else 2]
    )


@pytest.mark.parametrize("delta", [-3, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_each_moved(kind: str, delta: int) -> None:
    memory = Memory()
    for is_static in (True, False):
        nest = ShiftNest(memory, [(1, SIZE)], kinds(memory, 1 - delta)[kind], delta, is_static)
        looked_at(nest, nest, memory, "all")


def test_every_kind_is_listed() -> None:
    memory, found = Memory(), {lp.AcceptRun, lp.Phase}
    for nest in kinds(memory).values():
        found.add(type(nest.looplet(ExecutingHost(memory.arrays), ZERO)))  # type: ignore[arg-type]
    every = {kind for kind in vars(lp).values() if isinstance(kind, type)}
    assert found == {kind for kind in every if issubclass(kind, lp.Looplet)} - {
        lp.Looplet,
        lp.Steps,
    }


@pytest.mark.parametrize(("lo", "hi"), [(0, 3), (1, 7), (7, 7), (-2, 9)])
def test_a_loop_beyond_the_dimension_fails(lo: int, hi: int) -> None:
    memory = Memory()
    nest = kinds(memory)["lookup"].tensor("a")
    numbers = {"lo": memory.number(lo), "hi": memory.number(hi)}
    text = "begin\ns .= 0.0\nfor i = lo:hi\ns[] += a[i]\nend\nend"
    for given in (numbers, {name: const(v.held) for name, v in numbers.items()}):
        found = run_both(text, [nest], {"s": "Scalar(0.0)"}, memory, given)
        assert found.error is not None and found.error.kind == "bounds"
        assert str(hi) in found.error.message


# ------------------------------------------------------------------------------ steps and structure


@pytest.fixture
def memory() -> Memory:
    return Memory()


def steps(memory: Memory, ends: list[int], values: list[float], kind: Any, spikes: bool) -> Any:
    regions, payload = pieces_of([(1, ends[-1])], [ends]), Payload(memory, values, False)
    zeros = Payload(memory, [0.0] * len(ends), True)
    child = (
        SpikeNest(memory, regions, zeros, payload, False)
        if spikes
        else RunNest(memory, regions, payload)
    )
    return StepsNest(memory, [(1, ends[-1])], kind, [ends], child)


def test_runs_are_taken_at_once(memory: Memory) -> None:
    run = RunNest(memory, [(1, 10**6)], Payload(memory, [3.0], False))
    found = loop_sum([run.tensor("a")], memory, n=10**6)
    assert found["s"] == 3e6 and found.steps.total() < 20


def test_a_literal_annihilates_and_a_stored_zero_does_not(memory: Memory) -> None:
    """Law 2 of the design: a zero that is known when the program runs is data."""
    infinite = LookupNest(memory, [(1, 10)], [[np.inf] * 10]).tensor("b")
    zeros = [RunNest(memory, [(1, 10)], Payload(memory, [0.0], known)) for known in (True, False)]
    found, data = (loop_sum([zero.tensor("a"), infinite], memory, n=10) for zero in zeros)
    assert found["s"] == 0.0 and found.steps["load"] <= 1  # the lookup's offset
    assert np.isnan(data["s"]) and data.steps["count"] == 10


@RULES
def test_steppers_go_from_end_to_end(memory: Memory, rules: str) -> None:
    a, b = (
        steps(memory, ends, [1.0, 10.0, 100.0], lp.Stepper, False)
        for ends in ([2, 5, 9], [3, 5, 9])
    )
    for lo in (1, 2, 3, 6, 9):
        found = loop_sum([a.tensor("a")], memory, "lo", 9, n=9, which=rules, lo=memory.number(lo))
        assert found["s"] == a.dense(0)[lo - 1 :].sum() and found.steps["search"] >= 1
        assert found.steps["loop"] == sum(end >= lo for end in (2, 5, 9)) + 1
    found = loop_sum([a.tensor("a")], memory, n=memory.number(9), which=rules)
    assert (
        found.steps["search"] == 0 and found.steps["loop"] == 4
    )  # and one look that finds no more
    found = loop_sum([a.tensor("a"), b.tensor("b")], memory, n=memory.number(9), which=rules)
    assert found.steps["loop"] == len({2, 3, 5, 9}) + 1


def test_what_a_phase_cuts_off_is_not_stepped_over(memory: Memory) -> None:
    nest = steps(memory, [*range(1, 101)], [1.0] * 100, lp.Stepper, False)
    phases = lp.Phase(lp.Run(Literal(1.0)), stop=memory.number(10)), lp.Phase(lp.Run(Literal(0.0)))
    mask = vector("m", 100, lambda host: lp.Sequence(phases))
    found = loop_sum([mask, nest.tensor("a")], memory, n=100)
    assert found["s"] == 10.0 and found.steps["loop"] == 11


@RULES
def test_jumpers_lead(memory: Memory, rules: str) -> None:
    """Few steps for a long list against a short one, whose entries are not walked between."""
    totals = []
    for kind in (lp.Jumper, lp.Stepper):
        long = steps(memory, [*range(1, 501)], [1.0] * 500, kind, True)
        short = steps(memory, [250, 500], [2.0, 3.0], kind, True)
        found = loop_sum(
            [long.tensor("a"), short.tensor("b")], memory, n=memory.number(500), which=rules
        )
        assert found["s"] == 5.0
        totals.append(found.steps.total())
    assert totals[0] < 400 and totals[1] > 2000


def test_thunks_leave_in_the_opposite_order(memory: Memory) -> None:
    """Each preamble runs once before the body, its epilogue after it, also around an empty loop."""
    log, clock = memory.array([0] * 4, name="log"), memory.array([0], name="clock")

    def noting(place: int, body: Any) -> Any:
        def note(host: Any, where: int) -> None:
            now = host.let(add(host.load(clock, ZERO), 1))
            host.store(clock, ZERO, now)
            host.store(log, const(where), now)

        def preamble(host: Any) -> Any:
            note(host, place)
            return body(host), lambda host: note(host, 3 - place)

        return lp.Thunk(preamble)

    inner = lambda host: noting(1, lambda host: lp.Run(Literal(2.0)))  # noqa: E731
    found = loop_sum([vector("a", 4, lambda host: noting(0, inner))], memory, n=4)
    assert found["s"] == 8.0 and list(found.arrays[log]) == [1, 2, 3, 4]
    counts = memory.array([0, 0], name="counts")
    run = RunNest(memory, [(1, 5)], Payload(memory, [1.0], False))
    nest = ThunkNest(memory, [(1, 5)], run, counts)
    found = loop_sum([nest.tensor("a")], memory, 4, "n", n=memory.number(3))
    assert found["s"] == 0.0 and found.arrays[counts][0] == found.arrays[counts][1]


@pytest.mark.parametrize(
    ("start", "stop", "bounds", "count"),
    [(None, None, (1, 9), 9), (3, None, (1, 9), 7), (None, 4, (1, 9), 4), (3, 5, (1, 9), 3),
     (3, 5, (4, 4), 1), (3, 5, (6, 9), 0), (3, 5, (1, 2), 0), (5, 4, (1, 9), 0), (1, 9, (9, 9), 1)],
)  # fmt: skip
def test_phases_meet_the_loop(
    memory: Memory, start: Any, stop: Any, bounds: Any, count: int
) -> None:
    for make in (const, memory.number):
        ends = [None if end is None else make(end) for end in (start, stop)]
        phase = lp.Phase(lp.Run(Literal(1.0)), *ends)
        lo, hi = map(memory.number, bounds)
        found = loop_sum(
            [vector("a", 9, lambda host, p=phase: p)], memory, "lo", "hi", lo=lo, hi=hi
        )
        assert found["s"] == count


def test_an_end_goes_through_what_stands_around() -> None:
    spike = lp.Spike(Literal(0.0), Literal(1.0), const(4))
    assert lp.set_end(spike, const(9)) is spike
    moved = lp.set_end(lp.Shift(lp.Spike(Literal(0.0), Literal(1.0)), const(2)), const(9))
    assert moved.body.end is const(7)


# ----------------------------------------------------------------------------------------- writers


def writer(memory: Memory, delta: int = 0) -> tuple[Handmade, Any]:
    """A writer that keeps each run it is given, and how to read from an outcome what was written."""
    bound = bind("runs", parse_format("Dense(Element(0.0))"), True)
    (values,) = bound.buffers
    memory.arrays[values] = np.zeros(32)
    ends, number = memory.array([0] * 32, name="ends"), memory.array([0], name="number")
    fiber = Fiber(bound.fiber.with_dims((const(32),)).store, ZERO, None, UPDATE)

    def accept(host: Any, start: Any, stop: Any) -> Any:
        q = host.load(number, ZERO, "q")
        host.store(number, ZERO, add(q, 1))
        host.store(ends, q, stop)
        return fiber.child(q)

    def make(host: Any, stop: Any) -> Any:
        run = lp.AcceptRun(accept)
        return lp.Shift(run, const(delta)) if delta else run

    def written(found: Outcome) -> list[tuple[int, float]]:
        count = int(found.arrays[number][0])
        return [
            *zip(
                found.arrays[ends][:count].tolist(),
                found.arrays[values][:count].tolist(),
                strict=True,
            )
        ]

    return Handmade("w", (const(32),), make, UPDATE), written


@RULES
@pytest.mark.parametrize(
    ("nest", "value", "delta", "expected"),
    [
        ("stepper of runs", "a[i]", 0, [(2, 3.0), (3, 4.0), (6, 5.0)]),
        ("spike without an end", "a[i]", 0, [(5, 7.0), (6, 3.0)]),
        ("run", "a[i] * i", 0, [(k, 2.0 * k) for k in range(1, 7)]),
        ("lookup", "a[i]", 0, [(k + 1, v) for k, v in enumerate((1.0, 2.0, 0.0, 4.0, 5.0, 6.0))]),
        ("stepper of runs", "a[i]", -2, [(4, 3.0), (5, 4.0), (8, 5.0)]),
    ],
)
def test_writers_get_runs(nest: str, value: str, delta: int, expected: Any, rules: str) -> None:
    """A writer that takes runs gets each region at once, told in its own coordinates."""
    memory = Memory()
    out, written = writer(memory, delta)
    tensors = [out, kinds(memory)[nest].tensor("a")]
    text = f"begin\nc .= 0\nfor i = 1:n\nw[i] = {value}\nc[] += 1\nend\nend"
    counts = {"c": "Scalar(0)"}
    found = run_both(text, tensors, counts, memory, {"n": memory.number(6)}, rules)
    assert found["c"] == 6
    assert written(found) == expected
    memory.arrays = {b: np.zeros_like(a) for b, a in memory.arrays.items()}
    found = run_both(
        "for i = 1:n\nw[i] = 1.0\nend", [out], {}, memory, {"n": memory.number(0)}, rules
    )
    assert written(found) == []
