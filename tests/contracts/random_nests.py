"""Random looplet nests, drawn with Hypothesis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from both_hosts import Memory
from hypothesis import strategies as st
from looplet_nests import (
    LookupNest,
    Nest,
    Payload,
    Region,
    RunNest,
    SequenceNest,
    ShiftNest,
    SpikeNest,
    StepsNest,
    SwitchNest,
    ThunkNest,
    pieces_of,
)

from finchlang import looplets as lp

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
