"""Recording hosts whose residual tells, as native code, how often loops go round, and for how long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from finchlang.calls.runner import KernelEvent
from finchlang.host import ir
from finchlang.host.construct import ONE, add, const, op, sub
from finchlang.host.engine import Machine, Rule, Step
from finchlang.host.interface import Body
from finchlang.host.recording import ResidualHost
from finchlang.host.verify import verified
from finchlang.native.jit import compile_for_copies
from finchlang.rules.base.state import State
from finchlang.syntax import nodes as ast
from finchlang.syntax.types import Int64

#: a place in the source: its line (0 for what a pass has inserted), and what stands there
Place = tuple[int, str]
#: the timed runs of a kernel, of which the shortest counts
RUNS = 3
#: entries of `now`: what the clock said last, the place that time is spent at, the least time of reading it
LAST, AT, LEAST = (const(k, Int64) for k in range(3))


class PlacesHost(ResidualHost):
    """A ResidualHost that knows in `places` where in the source the loops stand that it records."""

    def __init__(self) -> None:
        super().__init__()
        self.places: list[Place] = []
        self._at: list[Place] = [(0, "elsewhere")]

    def noted(self, rule: Rule) -> Rule:
        """A rule that notes, while it is applied, which statement of the source that is for."""

        def apply(machine: Machine, term: ast.Node, state: State) -> Step | None:
            at = self._place(term)
            self._at.append(self._at[-1] if at is None else at)
            found = rule.apply(machine, term, state)
            self._at.pop()
            return found

        return replace(rule, apply=apply)

    @staticmethod
    def _place(term: ast.Node) -> Place | None:
        line = term.span.line if term.span is not None else 0
        if isinstance(term, ast.Loop):
            return line, f"for {term.index.name}"
        if term.span is None and isinstance(term, (ast.Declare, ast.Freeze, ast.Thaw)):
            return 0, f"@{type(term).__name__.lower()}({term.tensor.name})"
        if term.span is None:
            return None
        return term.span.line, term.span.source.line(term.span.line).strip()

    def new_place(self) -> ir.Expr:
        """The number of the place that is recorded now, as a place of its own."""
        self.places.append(self._at[-1])
        return const(len(self.places) - 1, Int64)

    def add_to(self, buffer: ir.Buffer, at: ir.Expr, value: ir.Expr) -> None:
        self.store(buffer, at, add(self.load(buffer, at), value))

    def loop(self, condition: Callable[[], ir.Expr], body: Body, is_endless: bool = False) -> None:
        loop = super().loop
        self.around(lambda: loop(condition, lambda: self.round(body), is_endless))

    def count(
        self, start: ir.Expr, stop: ir.Expr, body: Callable[[ir.Expr], None], name: str = "i"
    ) -> None:
        count = super().count
        self.around(lambda: count(start, stop, lambda i: self.round(lambda: body(i)), name))

    def around(self, do: Body) -> None:
        """Records a loop as a whole."""
        do()

    def round(self, do: Body) -> None:
        """Records what is done in each round of a loop."""
        do()

    def by_place(self, numbers: np.ndarray) -> dict[Place, int]:
        found: dict[Place, int] = {}
        for place, number in zip(self.places, numbers.tolist(), strict=False):
            found[place] = found.get(place, 0) + number
        return found


class CountingHost(PlacesHost):
    """Adds one to an entry of `counts` in each round of a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = ir.Buffer("counts", Int64)

    def round(self, do: Body) -> None:
        self.add_to(self.counts, self.new_place(), ONE)
        do()


class TimingHost(PlacesHost):
    """Reads a clock where a loop, fill or sort begins and ends, and adds the time since the last reading to
    `times` of the place where it was spent, and one to `readings`."""

    def __init__(self) -> None:
        super().__init__()
        names = "times", "readings", "now"
        self.times, self.readings, self.now = (ir.Buffer(n, Int64) for n in names)
        self.places.append(self._at[0])  # what is outside of all others
        ResidualHost.count(self, ONE, const(64, Int64), lambda _: self._read_twice(), "reading")
        self.store(self.now, LAST, self.clock())

    def _read_twice(self) -> None:
        first, least = self.clock(), self.load(self.now, LEAST)
        self.store(self.now, LEAST, op("min", least, sub(self.clock(), first)))

    def _turn(self, at: ir.Expr) -> None:
        """From here on time is spent at another place."""
        now, last, before = self.clock(), self.load(self.now, LAST), self.load(self.now, AT)
        self.add_to(self.times, before, sub(now, last))
        self.add_to(self.readings, before, ONE)
        self.store(self.now, LAST, now)
        self.store(self.now, AT, at)

    def around(self, do: Body) -> None:
        around = self.load(self.now, AT)
        self._turn(self.new_place())
        do()
        self._turn(around)

    def do(self, statement: ir.Stmt) -> None:
        is_filling = isinstance(statement, ir.Fill) and sub(statement.stop, statement.start) != ONE
        if is_filling or isinstance(statement, ir.AnySort):
            self.around(lambda: super(TimingHost, self).do(statement))
        else:
            super().do(statement)


def _run(event: KernelEvent, host: PlacesHost, more: dict[ir.Buffer, np.ndarray]) -> None:
    """Run what a host has recorded of a kernel as native code, on `more` arrays, too."""
    recorded = event.compiled.staged.recorded(host)
    residual = verified(replace(recorded, buffers=(*recorded.buffers, *more)))
    with event.memory() as (arrays, inputs):
        kernel = compile_for_copies(residual)
        kernel.call([*arrays, *more.values()], inputs)
        kernel.release()


def iterations(event: KernelEvent) -> dict[Place, int]:
    """How often the loops of a kernel go round, by their places in the source: all loops that one of the
    source has become are added up. It is run natively on copies of its arguments, so only while these are
    as they were given: before its first run. Raises FinchError as the kernel does."""
    host = CountingHost()
    event.stage(host, None, host.noted)
    counts = np.zeros(max(len(host.places), 1), np.int64)
    _run(event, host, {host.counts: counts})
    return host.by_place(counts)


def shares(event: KernelEvent) -> dict[Place, float]:
    """The part of a kernel's time, between 0 and 1, at each place of the source: in a loop without those in
    it, in a fill or a sort, without the time of reading the clock. It is run as for `iterations`."""
    host = TimingHost()
    event.stage(host, None, host.noted)
    found: list[np.ndarray] = []
    for _ in range(RUNS):
        times, readings = (np.zeros(len(host.places), np.int64) for _ in range(2))
        now = np.array([0, 0, 1 << 62], np.int64)
        _run(event, host, {host.times: times, host.readings: readings, host.now: now})
        found.append(np.maximum(times - readings * now[int(LEAST.value)], 0))
    least = min(found, key=np.sum)
    total = max(int(least.sum()), 1)
    return {place: ticks / total for place, ticks in host.by_place(least).items()}
