"""Collects what the benchmarks measure, and prints it as one table at the end."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy
import pytest
import scipy

ROWS: list[tuple[str, str, str, str]] = []


def seconds(value: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


class Meter:
    """Measures; each method adds a row to the table."""

    def race(self, name: str, ours: Callable[[], Any], peer: Callable[[], Any], runs: int) -> float:
        """The ratio ours / peer of the least times of `runs` runs, taken in turn."""
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(runs):
            for function, found in ((ours, times[0]), (peer, times[1])):
                start = perf_counter()
                function()
                found.append(perf_counter() - start)
        mine, theirs = min(times[0]), min(times[1])
        ROWS.append((name, seconds(mine), seconds(theirs), f"{mine / theirs:.2f}"))
        return mine / theirs

    def once(self, name: str, samples: list[float]) -> None:
        """The median of durations measured elsewhere."""
        middle = sorted(samples)[len(samples) // 2]
        ROWS.append((name, seconds(middle), "", ""))


@pytest.fixture
def meter() -> Meter:
    return Meter()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if not ROWS:
        return
    write = terminalreporter.write_line
    versions = f"numpy {numpy.__version__}, scipy {scipy.__version__}"
    write(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores; {versions}")
    head = ("workload", "ours", "peer", "ours / peer")
    widths = [max(len(row[k]) for row in [head, *ROWS]) for k in range(4)]
    for row in (head, *ROWS):
        write("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))
