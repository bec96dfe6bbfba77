"""The table and the chart of what a Meter found."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from meter import Meter
from targets import TIMES, Verdict, verdicts

PACKAGES = [
    *("finchlang", "numpy", "scipy", "llvmlite", "sparse", "python-graphblas"),
    *("suitesparse-graphblas", "opencv-python-headless", "sparse-dot-mkl", "mkl"),
]


def seconds(value: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _versions() -> Iterator[str]:
    yield f"Python {platform.python_version()}"
    for package in PACKAGES:
        try:
            yield f"{package} {version(package)}"
        except PackageNotFoundError:
            yield f"{package} is not installed"
    yield _compiler()


def _compiler() -> str:
    try:
        found = subprocess.run(["cc", "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "no C compiler"
    return found.stdout.splitlines()[0]


def _verdict_cells(verdict: Verdict) -> list[str]:
    met = {None: "", True: "yes", False: "**no**"}[verdict.met]
    mean, worst = f"{verdict.mean:.2f}", f"{verdict.worst:.2f}"
    return [verdict.workload, verdict.peer, str(verdict.runs), mean, worst, verdict.target, met]


VERDICT_HEAD = ["workload", "peer", "runs", "geometric mean", "worst", "target", "met"]
ROW_HEAD = ["workload", "data", "ours", "peer", "theirs", "ours / theirs"]
TIME_HEAD = ["workload", "data", "time", "target", "met"]


def _row_table(meter: Meter) -> list[list[str]]:
    return [
        [r.workload, r.data, seconds(r.ours), r.peer, seconds(r.theirs or 0.0), f"{r.ratio:.2f}"]
        for r in meter.rows
        if r.ratio is not None
    ]


def _time_table(meter: Meter) -> list[list[str]]:
    table = []
    for row in meter.rows:
        if row.ratio is not None:
            continue
        limit = TIMES.get((row.workload, row.data))
        target = "" if limit is None else f"<= {seconds(limit)}"
        met = "" if limit is None else "yes" if row.ours <= limit else "**no**"
        table.append([row.workload, row.data, seconds(row.ours), target, met])
    return table


def _tables(meter: Meter) -> Iterator[tuple[list[str], list[list[str]]]]:
    """The tables that have rows, each with its head."""
    summary = [_verdict_cells(verdict) for verdict in verdicts(meter.rows)]
    every = (VERDICT_HEAD, summary), (TIME_HEAD, _time_table(meter)), (ROW_HEAD, _row_table(meter))
    for head, rows in every:
        if rows:
            yield head, rows


def summary_lines(meter: Meter) -> Iterator[str]:
    """The tables as text, in columns."""
    for head, rows in _tables(meter):
        widths = [max(len(row[k]) for row in [head, *rows]) for k in range(len(head))]
        for row in [head, *rows]:
            cells = zip(row, widths, strict=True)
            yield "  ".join(cell.ljust(width) for cell, width in cells).rstrip()
        yield ""
    yield from meter.notes


def write_results(meter: Meter, folder: Path, command: str) -> None:
    """RESULTS.md, and results.svg where matplotlib is installed."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        "# Results",
        f"One run, one thread, on {_cpu()} ({os.cpu_count()} cores): `{command}`",
        "",
        ", ".join(_versions()),
        "",
        "A ratio is our least time by theirs, of runs taken in turn: less is better. A target is "
        "for the geometric mean over the data sets, or for each of them.",
    ]
    if _draw(meter, folder / "results.svg"):
        lines += ["", "![ratios](results.svg)"]
    for head, rows in _tables(meter):
        lines += ["", *(f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *rows])]
    lines += ["", *(f"- {note}" for note in meter.notes)]
    (folder / "RESULTS.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def _draw(meter: Meter, path: Path) -> bool:
    """A bar for each workload and peer that has a target, with the target as a mark."""
    try:
        import matplotlib
    except ImportError:
        return False
    from targets import RATIOS

    matplotlib.use("svg")
    import matplotlib.pyplot as pyplot

    found = [v for v in verdicts(meter.rows) if v.met is not None][::-1]
    if not found:
        return False
    targets = [RATIOS[v.workload, v.peer] for v in found]
    heights = [v.worst if t.each else v.mean for v, t in zip(found, targets, strict=True)]
    figure, axes = pyplot.subplots(figsize=(9, 1.2 + 0.28 * len(found)))
    places = range(len(found))
    colours = ["tab:green" if v.met else "tab:orange" for v in found]
    axes.barh(places, heights, color=colours)
    axes.scatter([t.limit for t in targets], places, marker="|", s=120, color="black", zorder=3)
    names = [
        f"{v.workload} / {v.peer}" + (" (worst)" if t.each else "")
        for v, t in zip(found, targets, strict=True)
    ]
    axes.set_yticks(places, names)
    axes.set_xscale("log")
    axes.set_xlabel("our time / theirs; the mark is the target")
    axes.axvline(1.0, color="grey", linewidth=0.8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    return True
