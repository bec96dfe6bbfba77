"""Pictures of the site as SVG: bars beside other libraries from the table of benchmarks, places that loops
visit, and how a column becomes a loop. `python docs/pictures.py` writes the file that the README shows."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULTS, CHART = ROOT / "tests/benchmarks/RESULTS.md", ROOT / "docs/speed.svg"

BLUE, GREY, ORANGE = "#3f51b5", "#9aa3b2", "#e4572e"
#: colours of text on light and on dark pages
STYLE = (
    "<style>.picture text{font:13px system-ui,sans-serif;fill:#333}"
    ".picture .m{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:12px}"
    ".picture .s{fill:#777;font-size:12px}@media(prefers-color-scheme:dark)"
    "{.picture text{fill:#ddd}.picture .s{fill:#aaa}}</style>"
)


def svg(width: float, height: float, parts: Sequence[str], label: str) -> str:
    body = "".join(parts)
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="picture" role="img" {size} '
        f'aria-label="{escape(label)}">{body}</svg>'
    )


def text(x: float, y: float, said: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(said)}</text>'


def box(x: float, y: float, w: float, h: float, colour: str, opacity: float = 1.0) -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{max(w, 1):g}" height="{h:g}" rx="2" '
        f'fill="{colour}" fill-opacity="{opacity:g}"/>'
    )


# ------------------------------------------------------------------------------------------ speed

#: workloads of the table with their words, and its peers with theirs
WORKLOADS = {
    "SpMV": "matrix x vector",
    "add": "sparse + sparse",
    "multiply": "sparse x sparse, by elements",
    "SpGEMM": "sparse matrix x matrix",
}
PEERS = {"expert C": "C by hand", "SciPy": "SciPy", "PyData/Sparse": "PyData/Sparse (Numba)"}
#: the longest bar, in times of ours
LONGEST = 4.0


def ratios() -> dict[tuple[str, str], float]:
    """Our time by that of a peer, the geometric mean over the data sets, of the first table of results."""
    found: dict[tuple[str, str], float] = {}
    for work, peer, mean in re.findall(
        r"^\| ([^|]+) \| ([^|]+) \| \d+ \| ([\d.]+) \|", RESULTS.read_text("utf-8"), re.MULTILINE
    ):
        found.setdefault((work, peer.removesuffix(" and sort")), float(mean))
    return found


def speed_svg() -> str:
    """Bars of the times of peers, where ours is 1."""
    known, parts, y = ratios(), [STYLE], 4.0
    for work, said in WORKLOADS.items():
        parts.append(text(0, y + 15, said))
        y += 22
        for peer, name in {"": "finchlang", **PEERS}.items():
            mean = known.get((work, peer)) if peer else 1.0
            if not mean:
                continue
            times = 1 / mean
            w = 62 * min(times, LONGEST)
            parts += [
                text(150, y + 12, name, "s", "end"),
                box(158, y, w, 14, GREY if peer else BLUE),
            ]
            least = int(1 / (mean + 0.005))  # the table has two digits
            said = f"over {least}" if times > LONGEST else f"{times:.2f}"
            parts.append(text(164 + w, y + 12, said, "s"))
            y += 18
        y += 8
    parts.append(text(0, y + 10, "Time, where finchlang is 1: less is better. One thread;", "s"))
    parts.append(text(0, y + 26, "means over the data sets of tests/benchmarks/RESULTS.md.", "s"))
    return svg(460, y + 34, parts, "times of other libraries, where that of finchlang is 1")


# ------------------------------------------------------------------------------------------ loops

#: a small matrix: where it has entries, and its values
SIZE = 6
ENTRIES = {(0, 0), (3, 0), (1, 1), (5, 1), (2, 3), (0, 4), (3, 4), (4, 5), (5, 5)}


def visits_svg() -> str:
    """The places that a loop over a matrix visits, for four programs."""
    cases: list[tuple[str, Callable[[int, int], bool]]] = [
        ("A dense", lambda i, j: True),
        ("A sparse by columns", lambda i, j: (i, j) in ENTRIES),
        ("A sparse, if i <= j", lambda i, j: (i, j) in ENTRIES and i <= j),
        ("A[i, j] * x[j], x sparse", lambda i, j: (i, j) in ENTRIES and j in (1, 4)),
    ]
    parts, cell = [STYLE], 20
    for k, (said, is_visited) in enumerate(cases):
        left, top = (k % 2) * 220 + 2, (k // 2) * 168 + 22
        count = 0
        parts.append(text(left, top - 7, said))
        for i in range(SIZE):
            for j in range(SIZE):
                x, y = left + j * cell, top + i * cell
                kept = (i, j) in ENTRIES or k == 0
                parts.append(
                    box(x, y, cell - 2, cell - 2, BLUE if kept else GREY, 0.18 if kept else 0.1)
                )
                if is_visited(i, j):
                    count += 1
                    parts.append(f'<circle cx="{x + 9}" cy="{y + 9}" r="5" fill="{ORANGE}"/>')
        parts.append(text(left + SIZE * cell + 6, top + 60, f"{count} of 36", "s"))
    return svg(440, 336, parts, "places that loops visit, as dots")


def column_svg() -> str:
    """Column 1 of a matrix as a list: runs of zeros that end in an entry each, then zeros."""
    parts, left, wide = [STYLE, text(0, 14, "column j of A, as looplets")], 0.0, 56.0
    pieces = [(1, ORANGE, "4.0"), (3, ORANGE, "1.0"), (2, GREY, "")]
    for length, colour, value in pieces:
        w = length * wide
        parts.append(box(left, 34, w - 4, 26, GREY, 0.3))
        if value:
            parts += [
                box(left + w - 16, 34, 12, 26, colour),
                text(left + w - 10, 28, value, "s", "middle"),
            ]
            parts.append(text(left + 2, 76, "spike", "s"))
        else:
            parts.append(text(left + 2, 76, "run of 0.0", "s"))
        left += w
    parts += [
        f'<path d="M0 86h{4 * wide - 4}" stroke="{BLUE}" stroke-width="3"/>',
        text(0, 104, "stepper: spike after spike, up to last", "s"),
        f'<path d="M{4 * wide} 86h{2 * wide - 4}" stroke="{GREY}" stroke-width="3"/>',
        text(4 * wide, 104, "phase after last", "s"),
    ]
    return svg(6 * wide, 112, parts, "a column as a stepper of spikes and a run")


def phases_svg() -> str:
    """What becomes of each part of the loop over a column."""
    rows = [
        ("up to last: before an entry", "y[i] += 0.0 * x[j]", "changes nothing: removed"),
        ("up to last: at an entry", "y[i] += val * x[j]", "stays"),
        ("after last", "y[i] += 0.0 * x[j]", "changes nothing: removed"),
    ]
    parts = [STYLE]
    for k, (where, what, then) in enumerate(rows):
        y, stays = k * 44 + 2, then == "stays"
        parts += [box(0, y, 440, 36, ORANGE if stays else GREY, 0.16 if stays else 0.12)]
        parts += [
            text(8, y + 15, where, "s"),
            text(8, y + 30, what, "m"),
            text(432, y + 23, then, "s", "end"),
        ]
    return svg(440, 132, parts, "three parts of a loop, of which one stays")


PICTURES = {
    "speed": speed_svg,
    "visits": visits_svg,
    "column": column_svg,
    "phases": phases_svg,
}

if __name__ == "__main__":
    CHART.write_text(speed_svg() + "\n", "utf-8")
