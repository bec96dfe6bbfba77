"""Looplet nests with a known dense meaning.

A *nest* describes one looplet over a list of regions at once: instance k covers `regions[k]`, and
what differs between instances (ends, values, conditions) stands in arrays, as it does in a level.
`looplet(host, k)` is the looplet of instance k, `dense(k)` the values it stands for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from both_hosts import Handmade, Memory, vector
from hypothesis import strategies as st

from finchlang.host.construct import ONE, ZERO, add, const
from finchlang.host.interface import Host
from finchlang.host.ir import Buffer, Expr
from finchlang.levels import looplets as lp
from finchlang.syntax.nodes import Literal, Node, Value
from finchlang.syntax.types import Bool

Region = tuple[int, int]  # first and last coordinate


@dataclass
class Payload:
    """A number for each instance: a literal, if it is static (and the same for all)."""

    memory: Memory
    values: list[float]
    static: bool

    def __post_init__(self) -> None:
        if self.static and self.values:
            self.values = [self.values[0]] * len(self.values)
        self.buffer = self.memory.array(self.values, np.float64, "val")

    def at(self, host: Host, k: Expr) -> Node:
        if self.static:
            return Literal(self.values[0] if self.values else 0.0)
        return Value(host.load(self.buffer, k, "val"))


@dataclass
class Nest:
    """What nests have in common."""

    memory: Memory
    regions: list[Region]

    def looplet(self, host: Host, k: Expr) -> Node:
        raise AssertionError("each nest has its own")

    def dense(self, k: int) -> np.ndarray:
        raise AssertionError("each nest has its own")

    def length(self, k: int) -> int:
        low, high = self.regions[k]
        return max(0, high - low + 1)

    def tensor(self, name: str) -> Handmade:
        """The nest as a tensor; it must have one instance, which starts at 1."""
        ((low, high),) = self.regions
        assert low == 1
        # its size is data: no rule may go by it
        size = self.memory.number(high, lower=ZERO)
        return vector(name, size, lambda host: lp.set_end(self.looplet(host, ZERO), size))


@dataclass
class RunNest(Nest):
    body: Payload

    def looplet(self, host: Host, k: Expr) -> Node:
        return lp.Run(self.body.at(host, k))

    def dense(self, k: int) -> np.ndarray:
        return np.full(self.length(k), self.body.values[k])


@dataclass
class LookupNest(Nest):
    values: list[list[float]]

    def __post_init__(self) -> None:
        starts = np.cumsum([0, *map(len, self.values)])[:-1]
        offsets = [s - low for s, (low, _) in zip(starts, self.regions, strict=True)]
        self.offset = self.memory.array(offsets, name="offset")
        self.flat = self.memory.array(np.concatenate([*self.values, []]), np.float64, "val")

    def looplet(self, host: Host, k: Expr) -> Node:
        offset = host.load(self.offset, k, "offset")
        return lp.Lookup(lambda host, i: Value(host.load(self.flat, add(offset, i), "val")))

    def dense(self, k: int) -> np.ndarray:
        return np.array(self.values[k], float)


@dataclass
class SpikeNest(Nest):
    body: Payload
    tail: Payload
    names_end: bool

    def __post_init__(self) -> None:
        self.ends = self.memory.array([high for _, high in self.regions], name="end")

    def looplet(self, host: Host, k: Expr) -> Node:
        end = host.load(self.ends, k, "end") if self.names_end else None
        return lp.Spike(self.body.at(host, k), self.tail.at(host, k), end)

    def dense(self, k: int) -> np.ndarray:
        values = np.full(self.length(k), self.body.values[k])
        values[-1:] = self.tail.values[k]
        return values


@dataclass
class SequenceNest(Nest):
    """Phases over consecutive regions, which may be empty; `parts[p].regions[k]` is phase p's."""

    parts: list[Nest]
    names_starts: bool
    names_last: bool

    def __post_init__(self) -> None:
        for part in self.parts:
            assert len(part.regions) == len(self.regions)
        array = self.memory.array
        self.starts = [array([low for low, _ in p.regions], name="start") for p in self.parts]
        self.stops = [array([high for _, high in p.regions], name="stop") for p in self.parts]

    def looplet(self, host: Host, k: Expr) -> Node:
        phases = []
        for number, part in enumerate(self.parts):
            start = host.load(self.starts[number], k, "start") if self.names_starts else None
            stop = None
            if self.names_last or number < len(self.parts) - 1:
                stop = host.load(self.stops[number], k, "stop")
            phases.append(lp.Phase(part.looplet(host, k), start, stop))
        return lp.Sequence(tuple(phases))

    def dense(self, k: int) -> np.ndarray:
        return np.concatenate([p.dense(k) for p in self.parts])


@dataclass
class SwitchNest(Nest):
    conditions: list[bool]
    head: Nest
    tail: Nest

    def __post_init__(self) -> None:
        self.buffer = self.memory.array(self.conditions, np.bool_, "condition")

    def looplet(self, host: Host, k: Expr) -> Node:
        condition = host.load(self.buffer, k, "condition", Bool)
        return lp.Switch(condition, self.head.looplet(host, k), self.tail.looplet(host, k))

    def dense(self, k: int) -> np.ndarray:
        return (self.head if self.conditions[k] else self.tail).dense(k)


class ChoiceNest(SwitchNest):
    """The same by a Choice."""

    def looplet(self, host: Host, k: Expr) -> Node:
        condition = host.load(self.buffer, k, "condition", Bool)
        return lp.Choice(((condition, self.head.looplet(host, k)),), self.tail.looplet(host, k))


@dataclass
class ThunkNest(Nest):
    """Counts its preambles in `log[0]` and its epilogues, if it has one, in `log[1]`."""

    child: Nest
    log: Buffer | None

    def looplet(self, host: Host, k: Expr) -> Node:
        def preamble(host: Host) -> tuple[Node, Any]:
            if self.log is None:
                return self.child.looplet(host, k), None
            count(host, self.log, ZERO)
            return self.child.looplet(host, k), lambda host: count(host, self.log, ONE)

        return lp.Thunk(preamble)

    def dense(self, k: int) -> np.ndarray:
        return self.child.dense(k)


def count(host: Host, log: Buffer | None, place: Expr) -> None:
    """Add one to an entry of a log."""
    assert log is not None
    host.store(log, place, add(host.load(log, place, "n"), 1))


@dataclass
class ShiftNest(Nest):
    child: Nest
    delta: int
    static: bool

    def looplet(self, host: Host, k: Expr) -> Node:
        delta = const(self.delta) if self.static else self.memory.number(self.delta)
        return lp.Shift(self.child.looplet(host, k), delta)

    def dense(self, k: int) -> np.ndarray:
        return self.child.dense(k)


@dataclass
class StepsNest(Nest):
    """A stepper or jumper: `pieces[k]` are the ends of the child's instances in region k."""

    kind: type[lp.Stepper] | type[lp.Jumper]
    pieces: list[list[int]]
    child: Nest
    has_positions: bool = False  # the child is a spike with a static body

    def __post_init__(self) -> None:
        self.ptr = np.cumsum([0, *map(len, self.pieces)])
        flat = [end for ends in self.pieces for end in ends]
        self.starts = self.memory.array(self.ptr, name="ptr")
        self.ends = self.memory.array(flat, name="end")

    def looplet(self, host: Host, k: Expr) -> Node:
        first = host.load(self.starts, k, "first", lower=ZERO)
        end = host.load(self.starts, add(k, 1), "end", lower=first)
        cell = host.cell(first, "q")
        ends, child = self.ends, self.child
        positions = None
        if self.has_positions:
            assert isinstance(child, SpikeNest)

            def entry(host: Host, q: Expr) -> lp.Entry:
                i = host.load(ends, q, "i")
                return i, i, lambda host: child.tail.at(host, q)

            positions = lp.Stored(
                first,
                end,
                child.body.at(host, first),
                cell,
                lambda host, q, i: host.search(ends, q, end, i),
                entry,
                are_points=True,
            )
        return self.kind(
            seek=lambda host, i: host.set(cell, host.search(ends, host.get(cell), end, i)),
            stride=lambda host: host.load(ends, host.get(cell), "stride"),
            body=lambda host: child.looplet(host, host.get(cell)),
            next=lambda host: host.set(cell, add(host.get(cell), 1)),
            stored=positions,
        )

    def dense(self, k: int) -> np.ndarray:
        parts = [self.child.dense(q) for q in range(self.ptr[k], self.ptr[k + 1])]
        return np.concatenate([*parts, []])


def pieces_of(regions: list[Region], pieces: list[list[int]]) -> list[Region]:
    """The regions of all pieces, given the ends of those of each region."""
    found = []
    for (low, _), ends in zip(regions, pieces, strict=True):
        for end in ends:
            found.append((low, end))
            low = end + 1
    return found


# -------------------------------------------------------------------------------- one of each kind

ENDS = [2, 3, 6]


def kinds(memory: Memory, low: int = 1) -> dict[str, Nest]:
    """A nest of each kind over six coordinates from `low` on."""

    def numbers(*values: float, static: bool = False) -> Payload:
        return Payload(memory, list(values), static)

    def lookup(first: int, *values: float) -> Nest:
        return LookupNest(memory, [(first, first + len(values) - 1)], [list(values)])

    def steps(kind: Any, child: Nest, **more: Any) -> Nest:
        return StepsNest(memory, whole, kind, ends, child, **more)

    high, whole = low + 5, [(low, low + 5)]
    ends = [[low + end - 1 for end in ENDS]]
    pieces = pieces_of(whole, ends)
    run, three = RunNest(memory, whole, numbers(2.0)), numbers(3.0, 4.0, 5.0)
    every = lookup(low, 1.0, 2.0, 0.0, 4.0, 5.0, 6.0)
    spike = SpikeNest(memory, pieces, numbers(0.0, 0.0, 0.0, static=True), three, False)
    runs = RunNest(memory, pieces, three)
    blocks = LookupNest(memory, pieces, [[1.0, 2.0], [3.0], [4.0, 0.0, 6.0]])
    inner = StepsNest(
        memory,
        pieces,
        lp.Stepper,
        [[low, low + 1], [low + 2], [high - 1, high]],
        RunNest(
            memory,
            pieces_of(pieces, [[low, low + 1], [low + 2], [high - 1, high]]),
            numbers(1.0, 2.0, 3.0, 4.0, 5.0),
        ),
    )
    phases: list[Nest] = [
        RunNest(memory, [(low, low + 2)], numbers(2.0)),
        RunNest(memory, [(low + 3, low + 2)], numbers(9.0)),  # an empty phase
        lookup(low + 3, 7.0, 8.0, 9.0),
    ]
    return {
        "run": run,
        "run of fill": RunNest(memory, whole, numbers(0.0, static=True)),
        "lookup": every,
        "spike": SpikeNest(memory, whole, numbers(0.0, static=True), numbers(3.0), True),
        "spike without an end": SpikeNest(memory, whole, numbers(7.0), numbers(3.0), False),
        "sequence": SequenceNest(memory, whole, phases, True, True),
        "sequence without starts": SequenceNest(memory, whole, phases, False, False),
        "switch": SwitchNest(memory, whole, [True], every, run),
        "switch to another": SwitchNest(memory, whole, [False], run, steps(lp.Stepper, spike)),
        "choice": ChoiceNest(memory, whole, [True], steps(lp.Stepper, runs), every),
        "choice of none": ChoiceNest(memory, whole, [False], run, every),
        "thunk": ThunkNest(memory, whole, every, None),
        "stepper of runs": steps(lp.Stepper, runs),
        "stepper of spikes": steps(lp.Stepper, spike),
        "stepper of positions": steps(lp.Stepper, spike, has_positions=True),
        "stepper of lookups": steps(lp.Stepper, blocks),
        "stepper of steppers": steps(lp.Stepper, inner),
        "jumper of runs": steps(lp.Jumper, runs),
        "jumper of spikes": steps(lp.Jumper, spike),
        "jumper of positions": steps(lp.Jumper, spike, has_positions=True),
        "blocks": steps(lp.Blocks, blocks),
        "shift": ShiftNest(memory, whole, lookup(low - 2, 1.0, 0.0, 3.0, 4.0, 5.0, 6.0), 2, True),
    }


# ----------------------------------------------------------------------------------------- at random

VALUES = st.sampled_from([0.0, 0.0, 1.0, 2.0, -1.0, 3.0])
Draw = Callable[[st.SearchStrategy], Any]


class RandomNests:
    """Draws nests; `log` counts the preambles and epilogues of thunks that have both."""

    def __init__(self, draw: Draw, memory: Memory, values: Any = VALUES):
        self.draw, self.memory, self.values = draw, memory, values
        self.log = memory.array([0, 0], name="log")

    def nest(self, regions: list[Region], depth: int) -> Nest:
        """A nest over `regions`, with at most `depth` looplets one inside the other."""
        leaves = [self.run, self.lookup, self.spike]
        if depth <= 1:
            return self.draw(st.sampled_from(leaves))(regions)
        others = [self.sequence, self.switch, self.thunk, self.shift, self.stepper, self.jumper]
        kind = self.draw(st.sampled_from([*others, self.stepper, *leaves]))
        return kind(regions) if kind in leaves else kind(regions, depth - 1)

    def payload(self, number: int) -> Payload:
        static = self.draw(st.booleans())
        values = self.draw(st.lists(self.values, min_size=number, max_size=number))
        return Payload(self.memory, values, static)

    def run(self, regions: list[Region]) -> Nest:
        return RunNest(self.memory, regions, self.payload(len(regions)))

    def lookup(self, regions: list[Region]) -> Nest:
        lengths = [max(0, high - low + 1) for low, high in regions]
        values = [self.draw(st.lists(self.values, min_size=n, max_size=n)) for n in lengths]
        return LookupNest(self.memory, regions, values)

    def spike(self, regions: list[Region]) -> Nest:
        count = len(regions)
        body, tail = self.payload(count), self.payload(count)
        return SpikeNest(self.memory, regions, body, tail, self.draw(st.booleans()))

    def sequence(self, regions: list[Region], depth: int) -> Nest:
        number = self.draw(st.integers(1, 3))
        cuts = [
            sorted(self.draw(st.integers(low - 1, max(high, low - 1))) for _ in range(number - 1))
            for low, high in regions
        ]
        ends = [[*c, high] for c, (_, high) in zip(cuts, regions, strict=True)]
        starts = [[low, *(c + 1 for c in cs)] for cs, (low, _) in zip(cuts, regions, strict=True)]
        parts = []
        for p in range(number):
            own = [(s[p], e[p]) for s, e in zip(starts, ends, strict=True)]
            parts.append(self.nest(own, depth))
        names = self.draw(st.booleans()), self.draw(st.booleans())
        return SequenceNest(self.memory, regions, parts, *names)

    def switch(self, regions: list[Region], depth: int) -> Nest:
        conditions = [self.draw(st.booleans()) for _ in regions]
        head, tail = self.nest(regions, depth), self.nest(regions, depth)
        return SwitchNest(self.memory, regions, conditions, head, tail)

    def thunk(self, regions: list[Region], depth: int) -> Nest:
        log = self.log if self.draw(st.booleans()) else None
        return ThunkNest(self.memory, regions, self.nest(regions, depth), log)

    def shift(self, regions: list[Region], depth: int) -> Nest:
        delta = self.draw(st.integers(-3, 3))
        moved = [(low - delta, high - delta) for low, high in regions]
        child = self.nest(moved, depth)
        return ShiftNest(self.memory, regions, child, delta, self.draw(st.booleans()))

    def stepper(self, regions: list[Region], depth: int, kind: Any = lp.Stepper) -> Nest:
        pieces = []
        for low, high in regions:
            inner = st.lists(st.integers(low, high), max_size=4) if low <= high else st.just([])
            pieces.append(sorted({*self.draw(inner), high} if low <= high else set()))
        child = self.nest(pieces_of(regions, pieces), depth)
        spikes = isinstance(child, SpikeNest) and child.body.static
        return StepsNest(self.memory, regions, kind, pieces, child, spikes)

    def jumper(self, regions: list[Region], depth: int) -> Nest:
        return self.stepper(regions, depth, lp.Jumper)
