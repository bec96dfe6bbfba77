"""`finch bench FILE`: how long the kernels of a file take on its data, beside a reference if there is one,
and how often their loops go round (`--profile`)."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from typing import Any, NamedTuple

from finchlang.base.errors import FinchError
from finchlang.calls.runner import KernelEvent, Observer, Runner
from finchlang.script.show import table
from finchlang.tensors.adopt import as_tensor

from .counting_host import Place, iterations, shares
from .report import duration

#: the most timed calls of a kernel
MOST = 10_000


class Timing(NamedTuple):
    """Times in seconds: the median, the first and third quartile, and the number of calls."""

    median: float
    low: float
    high: float
    calls: int

    @property
    def told(self) -> tuple[str, str, int]:
        """The median, half the distance of the quartiles relative to it, and the number of calls."""
        spread = (self.high - self.low) / 2 / self.median if self.median else 0.0
        return duration(self.median), f"{100 * spread:.0f}%", self.calls


class KernelToTime(NamedTuple):
    """A kernel as compiled: copies of its values, the rounds of its loops, its share of time by place."""

    event: KernelEvent
    values: dict[str, Any]
    rounds: dict[Place, int]
    shares: dict[Place, float]


class Bench(Observer):
    """Keeps the kernels of a file as they are compiled, to time them when it has run. Rounds, and if it
    `is_profiled` shares, are found before the first run: later a kernel's arrays may hold other values."""

    def __init__(self, seconds: float, rules: str, is_profiled: bool = False):
        self.seconds, self.rules, self.is_profiled = seconds, rules, is_profiled
        self.kernels: list[KernelToTime] = []

    def kernel(self, event: KernelEvent) -> None:
        assert event.meaning is not None
        rounds: dict[Place, int] = {}
        parts: dict[Place, float] = {}
        with suppress(FinchError):  # which the run raises, too
            rounds |= iterations(event)
            parts |= shares(event) if self.is_profiled else {}
        values = {name: deepcopy(value) for name, value in event.meaning()[1].items()}
        self.kernels.append(KernelToTime(event, values, rounds, parts))

    def timing(self, event: KernelEvent, values: dict[str, Any]) -> Timing:
        """Time calls on values that are as they were before the first run: a tensor that is declared is
        used again, one that is updated in place is copied anew."""
        assert event.meaning is not None
        node, kernel = event.meaning()[0], event.compiled
        runner = Runner("native", self.rules, None, True, False)
        names = list(kernel.signature.tensors.items())
        written = [names[at] for at in kernel.written]
        changed = [script for own, script in written if own not in kernel.signature.renewed]

        def call() -> float:
            given = values | {n: deepcopy(values[n]) for n in changed if n in values}
            start = time.perf_counter()
            runner.run_kernel(node, given)
            return time.perf_counter() - start

        call()  # compiles, and looks at the arrays
        return timed(call, self.seconds)


def timed(call: Callable[[], float], seconds: float) -> Timing:
    """Times that calls say they took, for so many seconds, and at least three."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or (time.perf_counter() < end and len(times) < MOST):
        times.append(call())
    low, median, high = statistics.quantiles(times, n=4)
    return Timing(median, low, high, len(times))


def report(bench: Bench, against: Timing | None = None, made: int = 0) -> str:
    """The table of all kernels, with that of a reference below it, which does what the kernels after the
    first `made` do; with a profile then a table for each kernel of its loops, fills and sorts by lines."""
    rows: list[Sequence[Any]] = [("kernel", "median", "spread", "calls", "rounds", "bytes")]
    found = [bench.timing(seen.event, seen.values) for seen in bench.kernels]
    both = [*zip(bench.kernels, found, strict=True)]
    for number, (seen, timing) in enumerate(both, 1):
        span = seen.event.source.span
        place = f"{number}, line {span.line}" if span is not None else str(number)
        count = sum(seen.rounds.values())
        size = sum(t.nbytes for v in seen.values.values() if (t := as_tensor(v)) is not None)
        rows.append((place, *timing.told, f"{count:,}", f"{size:,}"))
    if against is not None:
        rows.append(("reference", *against.told, "", ""))
    parts = [table(rows)]
    if against is not None:
        own, last = sum(timing.median for timing in found[made:]), len(found)
        what = "all kernels" if last > 1 else "the kernel"
        if made:
            what = f"kernels {made + 1} to {last}" if made + 1 < last else f"kernel {last}"
        parts.append(f"{what}: {own / against.median:.3g} times the reference's time")
    for number, (seen, timing) in enumerate(both if bench.is_profiled else (), 1):
        loops: list[Sequence[Any]] = []
        for at in sorted({*seen.rounds, *seen.shares}):
            count, share = seen.rounds.get(at, -1), seen.shares.get(at, 0.0)
            if count >= 0 or share >= 0.005:  # less is only named if it goes round
                times = f"{100 * share:.0f}%", duration(share * timing.median)
                loops.append((at[0] or "", at[1], *times, "" if count < 0 else f"{count:,}"))
        head = "line", f"kernel {number}", "share", "time", "rounds"
        parts.append(table([head, *loops], 2))
    return "\n\n".join(parts)
