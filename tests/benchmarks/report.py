"""The table and the chart of what a Meter found."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterator
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from meter import KINDS, Meter, Row
from targets import TIMES, Verdict, verdicts

PACKAGES = [
    *("finchlang", "numpy", "scipy", "llvmlite", "sparse", "python-graphblas"),
    *("suitesparse-graphblas", "opencv-python-headless", "mkl"),
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
ROW_HEAD = ["workload", "data", "peer", "theirs", "ours", *(f"{kind}, ratio" for kind in KINDS)]
TIME_HEAD = ["workload", "data", "time", "target", "met"]


def _amount(value: float, unit: str) -> str:
    return seconds(value) if unit == "s" else f"{value / 1e6:.3g} MB"


def _row_table(meter: Meter) -> list[list[str]]:
    return [
        [
            r.workload,
            r.data,
            r.peer,
            _amount(r.theirs, r.unit),
            _amount(r.ours, r.unit),
            *_ratios(r),
        ]
        for r in meter.rows
        if r.theirs is not None
    ]


def _ratios(row: Row) -> list[str]:
    """Our time by theirs for each kind of call, as far as it was raced."""
    times, theirs = row.times, row.theirs or 1.0
    return [f"{times[kind] / theirs:.2f}" if kind in times else "" for kind in KINDS]


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


HEAD = """# Results
For each processor one run of all workloads, in one thread. Times are the least of runs taken in turn;
a ratio is our time by theirs: less is better. Calls of ours are of three kinds: on the same objects as
before, on others of the same shapes in turn, and on objects that were never seen; the summaries and the
targets go by the slowest. A target is for the geometric mean over the data sets, or for each of them.

Not in the times: making the objects, and what a peer prepares once for a matrix (MKL's analysis, the
import into GraphBLAS, formats of ours other than CSC, CSR and dense). What such conversions take has
rows of its own ("convert"). Compiling is not in them either, and has rows of its own.

Each section begins with the day of its run. Later changes to the code are not in its figures; `make bench`
measures the code as it is.
"""


def write_results(meter: Meter, folder: Path, command: str) -> None:
    """Put this run into RESULTS.md in the place of the one before on the same processor, and draw it
    where matplotlib is installed."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "RESULTS.md"
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    sections = {text.partition("\n")[0]: text for text in old.split("\n## ")[1:]}
    name = f"{_cpu()} ({os.cpu_count()} cores)"
    lines = [name, f"`{command}`", "", ", ".join([str(date.today()), *_versions()])]
    picture = f"results-{re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')}.svg"
    if _draw(meter, folder / picture):
        lines += ["", f"![ratios]({picture})"]
    for head, rows in _tables(meter):
        lines += ["", *(f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *rows])]
    lines += ["", *(f"- {note}" for note in meter.notes)]
    sections[name] = "\n".join(lines).rstrip() + "\n"
    path.write_text("\n## ".join([HEAD, *sections.values()]), encoding="utf-8")


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
