"""The rules AcceptRun (Finch'25 Fig 15) and Shift (Looplets'23 section 8), under both hosts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from both_hosts import Handmade, Memory, loop_sum, run_both
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
    lookup_nest,
    pieces_of,
    run_nest,
    runs,
    spikes,
)

from finchlang.host.fold import ZERO, add, const
from finchlang.looplets import (
    AcceptRun,
    Jumper,
    Shift,
    Stepper,
)
from finchlang.tensors.bind import bind
from finchlang.tensors.formats import parse_format
from finchlang.tensors.level import UPDATE, Fiber

BOTH_TABLES = pytest.mark.parametrize("which", ["all", "paper"])


@pytest.fixture
def memory() -> Memory:
    return Memory()


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

    return Handmade("w", (const(32),), make, UPDATE), (number, ends), values


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
    found = run_both(
        text, [writer[0], lookup_nest(memory, [7.0, 8.0, 9.0]).tensor("a")], {}, memory
    )
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
        "v",
        (const(32),),
        lambda host, stop, mode: Shift(writer.make(host, stop, mode), const(2)),
        UPDATE,
    )
    text = "for i = 4:8\nv[i] = a[i]\nend"
    found = run_both(text, [moved, runs(memory, [5, 8], [1.0, 2.0]).tensor("a")], {}, memory)
    assert written(found, (moved, kept, values)) == [(3, 1.0), (6, 2.0)]
