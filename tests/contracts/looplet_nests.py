"""Looplet nests with a known dense meaning.

A *nest* describes one looplet over a list of regions at once: instance k covers `regions[k]`, and
what differs between instances (ends, values, conditions) stands in arrays, as it does in a level.
`looplet(host, k)` is the looplet of instance k, `dense(k)` the values it stands for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from both_hosts import Handmade, Memory, loop_copy, run_both, vector

from finchlang import looplets as lp
from finchlang.host.fold import ONE, ZERO, add, const
from finchlang.host.interface import Host
from finchlang.host.ir import Buffer, Expr
from finchlang.syntax import Literal, Node, Value
from finchlang.types import Bool

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
            positions = lp.Positions(
                first,
                end,
                child.body.at(host, first),
                lambda host: host.get(cell),
                lambda host, q, i: host.search(ends, q, end, i),
                lambda host, q: host.load(ends, q, "i"),
                lambda host, q, i: child.tail.at(host, q),
                lambda host, q: host.set(cell, q),
            )
        return self.kind(
            seek=lambda host, i: host.set(cell, host.search(ends, host.get(cell), end, i)),
            stride=lambda host: host.load(ends, host.get(cell), "stride"),
            body=lambda host: child.looplet(host, host.get(cell)),
            next=lambda host: host.set(cell, add(host.get(cell), 1)),
            positions=positions,
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


# ------------------------------------------------------------------------- short ways to say them


def run_nest(memory: Memory, size: int, value: float, static: bool = False) -> Nest:
    return RunNest(memory, [(1, size)], Payload(memory, [value], static))


def lookup_nest(memory: Memory, values: list[float], first: int = 1) -> Nest:
    return LookupNest(memory, [(first, first + len(values) - 1)], [values])


def spikes(
    memory: Memory, ends: list[int], values: list[float], kind: Any = lp.Stepper, fill: float = 0.0
) -> StepsNest:
    """A stepper over spikes that end at `ends`, over 1:ends[-1]."""
    regions = pieces_of([(1, ends[-1])], [ends])
    body = Payload(memory, [fill] * len(ends), True)
    child = SpikeNest(memory, regions, body, Payload(memory, values, False), False)
    return StepsNest(memory, [(1, ends[-1])], kind, [ends], child)


def runs(memory: Memory, ends: list[int], values: list[float], kind: Any = lp.Stepper) -> StepsNest:
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


def assert_sums(nests: Sequence[Nest], memory: Memory, which: str = "all") -> Any:
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
