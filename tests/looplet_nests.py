"""Hand-made tensors: looplet nests with a known dense meaning, run under both hosts.

A *nest* describes one looplet over a list of regions at once: instance k covers `regions[k]`, and
what differs between instances (ends, values, conditions) stands in arrays, as it does in a level.
`looplet(host, k)` is the looplet of instance k, `dense(k)` the values it stands for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from hypothesis import strategies as st

from finchlang import looplets as lp
from finchlang.host.build import ONE, ZERO, add, const
from finchlang.host.execute import ExecutingHost, run_code
from finchlang.host.interface import Host
from finchlang.host.ir import Buffer, Code, Expr, Var
from finchlang.host.residual import ResidualHost
from finchlang.parse import parse_kernel
from finchlang.rewrite import substitute
from finchlang.rules.engine import Machine, State
from finchlang.rules.table import rules
from finchlang.rules.typing import annotate
from finchlang.source import FinchError
from finchlang.syntax import Literal, Node, Value, Variable
from finchlang.tensors.bind import Bound, bind, gather, scatter
from finchlang.tensors.formats import parse_format
from finchlang.tensors.level import Level, TensorLike
from finchlang.tensors.tensor import Scalar, Tensor
from finchlang.types import Bool, Int64, Type, type_of_dtype

Region = tuple[int, int]  # first and last coordinate


class Memory:
    """The arrays and numbers that nests refer to; they are the same under every host."""

    def __init__(self) -> None:
        self.arrays: dict[Buffer, np.ndarray] = {}

    def array(self, values: Any, dtype: Any = np.int64, name: str = "array") -> Buffer:
        data = np.array(values, dtype)
        type = type_of_dtype(data.dtype)
        assert type is not None
        buffer = Buffer(f"{name}{len(self.arrays)}", type)
        self.arrays[buffer] = data
        return buffer

    def number(self, value: Any, type: Type = Int64, lower: Expr | None = None) -> Var:
        """A variable bound from outside."""
        variable = Var("number", type, lower)
        variable.held = value
        return variable


@dataclass(frozen=True, slots=True)
class Handmade(TensorLike):
    """A tensor that unfurls to whatever `make(host, stop, mode)` gives."""

    name: str
    dims: tuple[Expr | None, ...]
    make: Callable[[Host, Expr | None, str], Node]

    def __str__(self) -> str:
        return self.name

    def sizes(self) -> tuple[Expr | None, ...]:
        return self.dims

    def unfurl(self, host: Host, stop: Expr | None, mode: str, protocol: str | None) -> Node:
        return self.make(host, stop, mode)


def vector(name: str, size: Expr | int, make: Callable[[Host], Node]) -> Handmade:
    """A tensor of one dimension that is only read."""
    length = size if isinstance(size, Expr) else const(size)
    return Handmade(name, (length,), lambda host, stop, mode: make(host))


# ---------------------------------------------------------------------------------- running kernels


_parsed = lru_cache(maxsize=512)(parse_kernel)


@dataclass
class Outcome:
    """What a kernel did: results by name, host steps, and how often which rule was applied while it
    was interpreted and while it was staged; `code` is the residual."""

    results: dict[str, Any]
    steps: Counter[str]
    interpreted: Counter[str]
    staged: Counter[str]
    code: Code
    arrays: dict[Buffer, np.ndarray]
    error: FinchError | None = None

    def __getitem__(self, name: str) -> Any:
        return self.results[name]


@dataclass
class Setup:
    """A kernel in normal form over hand-made tensors. `outputs` has the formats of the tensors the
    kernel declares, `shapes` their sizes before (a declaration changes them)."""

    text: str
    tensors: dict[str, TensorLike]
    outputs: dict[str, str | Level]
    memory: Memory
    numbers: dict[str, Expr] = field(default_factory=dict)
    which: str = "all"
    element: str = "Dense(Element(0.0))"

    def program(self) -> Node:
        names: dict[str, Level | Type | None] = {n: parse_format(self.element) for n in self.tensors}
        names |= {n: self.level(n) for n in self.outputs}
        names |= {n: e.type for n, e in self.numbers.items()}
        program = annotate(_parsed(self.text), names)
        values: dict[Node, Node] = {Variable(n): Value(e) for n, e in self.numbers.items()}
        return substitute(program, values)

    def level(self, name: str) -> Level:
        format = self.outputs[name]
        return parse_format(format) if isinstance(format, str) else format

    def run(self, host: Host, bounds: dict[str, Bound], trace: Counter[str]) -> None:
        for bound in bounds.values():
            bound.enter(host)
        tensors = {**self.tensors, **{n: b.fiber for n, b in bounds.items()}}

        def tracer(name: str, before: Node, after: Node | None, depth: int) -> None:
            trace[name] += 1

        Machine(rules(self.which), tracer).run(self.program(), State(host, tensors))

    def execute(self, work: Callable[[ExecutingHost, dict[str, Bound]], None]) -> Outcome:
        """Perform `work` on fresh copies of all memory."""
        bounds = {n: bind(n, self.level(n), True) for n in self.outputs}
        held = {n: self._empty(n) for n in self.outputs}
        arrays = {b: a.copy() for b, a in self.memory.arrays.items()}
        for name, bound in bounds.items():
            own, inputs = gather(bound, held[name])
            arrays |= {b: a.copy() for b, a in zip(bound.buffers, own, strict=True)}
            for variable, value in zip(bound.inputs, inputs, strict=True):
                variable.held = value
        host = ExecutingHost(arrays)
        error = None
        try:
            work(host, bounds)
        except FinchError as fault:
            error = fault
        results: dict[str, Any] = {}
        for name, bound in bounds.items():
            if error is None:
                outputs = [host.cells[c] for c in bound.outputs]
                scatter(bound, held[name], [arrays[b] for b in bound.buffers], outputs)
            tensor = held[name]
            results[name] = tensor.value if isinstance(tensor, Scalar) else tensor.to_numpy()
        kept = {b: arrays[b] for b in self.memory.arrays}
        return Outcome(results, host.steps, Counter(), Counter(), Code(()), kept, error)

    def _empty(self, name: str) -> Tensor | Scalar:
        level = self.level(name)
        return Scalar(level) if level.order == 0 else Tensor(level, *(0,) * level.order)


def run_both(
    text: str,
    tensors: Sequence[Handmade],
    outputs: dict[str, str | Level],
    memory: Memory,
    numbers: dict[str, Expr] | None = None,
    which: str = "all",
    element: str = "Dense(Element(0.0))",
) -> Outcome:
    """Interpret the kernel, and stage it and evaluate the residual. Both must end alike: the same
    results, the same memory, the same error, and (congruence) the same host steps."""
    named: dict[str, TensorLike] = {t.name: t for t in tensors}
    setup = Setup(text, named, outputs, memory, numbers or {}, which, element)
    interpreted, staged = Counter[str](), Counter[str]()
    first = setup.execute(lambda host, bounds: setup.run(host, bounds, interpreted))
    recorded: list[Code] = []

    def staged_run(host: ExecutingHost, bounds: dict[str, Bound]) -> None:
        recorder = ResidualHost()
        setup.run(recorder, bounds, staged)
        recorded.append(recorder.code())
        run_code(recorded[0], host)

    second = setup.execute(staged_run)
    for name, result in first.results.items():
        np.testing.assert_array_equal(second.results[name], result)
    for buffer, array in first.arrays.items():
        np.testing.assert_array_equal(second.arrays[buffer], array)
    assert (first.error and str(first.error)) == (second.error and str(second.error))
    assert first.error or first.steps == second.steps
    first.interpreted, first.staged = interpreted, staged
    first.code = recorded[0] if recorded else Code(())
    return first


def loop_sum(
    nests: Sequence[Handmade],
    memory: Memory,
    start: Any = 1,
    stop: Any = "n",
    value: str | None = None,
    n: int | Expr = 0,
    which: str = "all",
) -> Outcome:
    """`s[] += value` for i from start to stop; the product of all nests unless told."""
    product = " * ".join(f"{t.name}[i]" for t in nests)
    text = f"begin\ns .= 0.0\nfor i = {start}:{stop}\ns[] += {value or product}\nend\nend"
    size = n if isinstance(n, Expr) else const(n)
    return run_both(text, nests, {"s": "Scalar(0.0)"}, memory, {"n": size}, which)


def loop_copy(
    nest: Handmade, memory: Memory, size: int, start: int = 1, which: str = "all"
) -> Outcome:
    """`y[i] = nest[i]` for i from start to size."""
    text = (
        f"begin\n@declare(y, 0.0, 1:{size})\nfor i = {start}:{size}\n"
        f"y[i] = {nest.name}[i]\nend\nend"
    )
    return run_both(text, [nest], {"y": "Dense(Element(0.0))"}, memory, which=which)


# -------------------------------------------------------------------------------------------- nests


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
        raise NotImplementedError

    def dense(self, k: int) -> np.ndarray:
        raise NotImplementedError

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
                lambda host, q: host.load(ends, q, "i"),
                lambda host, q, i: child.tail.at(host, q),
                child.body.at(host, first),
                lambda host, i: host.search(ends, first, end, i),
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


# ----------------------------------------------------------------------------------- random nests

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
