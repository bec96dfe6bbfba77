"""Pictures of the site as SVG: bars beside other libraries from the table of benchmarks, places that loops
visit, how a column becomes a loop, a workspace that fills, a search by rounds, and a session at the prompt.
`python docs/pictures.py` writes the two files that the README shows."""

from __future__ import annotations

import contextlib
import io
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS, CHART = ROOT / "tests/benchmarks/RESULTS.md", ROOT / "docs/speed.svg"
RECORDING = ROOT / "docs/prompt.svg"

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


# ------------------------------------------------------------------------------------- workspaces


def workspace_svg(A: Any, B: Any, C: Any) -> str:
    """What a workspace of one column holds after each step of `C[i, j] += A[i, k] * B[k, j]`, and what is
    copied from it. The last row of each column has the entries of `C` itself."""
    left, right, result = A.to_numpy(), B.to_numpy(), C.to_numpy()
    parts, cell, y, start = [STYLE], 44.0, 18.0, 150.0
    rows = left.shape[0]
    for i in range(rows):
        parts.append(text(start + i * cell + 20, y, f"{i + 1}", "s", "middle"))
    parts.append(text(0, y, "row of the workspace", "s"))
    y += 8

    def row(said: str, column: dict[int, float], lit: set[int], kind: str) -> None:
        nonlocal y
        parts.append(text(0, y + 18, said, kind))
        for i in range(rows):
            x, kept = start + i * cell, i in column
            colour = ORANGE if i in lit else BLUE if kept else GREY
            parts.append(
                box(x, y, cell - 4, 26, colour, 0.45 if i in lit else 0.2 if kept else 0.1)
            )
            if kept:
                parts.append(text(x + 20, y + 18, f"{column[i]:g}", "m", "middle"))
        y += 30

    for j in range(right.shape[1]):
        held: dict[int, float] = {}
        for k in map(int, right[:, j].nonzero()[0]):
            met = {*map(int, left[:, k].nonzero()[0])}
            for i in met:
                held[i] = held.get(i, 0.0) + left[i, k] * right[k, j]
            row(f"j = {j + 1}, k = {k + 1}", held, met, "m")
        assert held == {int(i): result[i, j] for i in result[:, j].nonzero()[0]}
        row(f"copied to C[:, {j + 1}]", dict(sorted(held.items())), set(), "")
        y += 8
    parts.append(text(0, y + 12, "Orange: updated in this step.", "s"))
    parts.append(text(0, y + 28, "A workspace that was copied is empty again.", "s"))
    return svg(start + rows * cell, y + 34, parts, "a workspace that fills, column by column")


# ------------------------------------------------------------------------------------------ rounds


def rounds_svg(G: Any, P: Any) -> str:
    """A graph before the first round of a breadth-first search and after each that finds a vertex, from
    the adjacency `G` and `P`, the vertex (from 1) that each was reached from."""
    edges, found_by = G.to_numpy().nonzero(), [int(p) - 1 for p in P.to_numpy()]

    def found_in(v: int) -> int:
        return 0 if found_by[v] == v else 1 + found_in(found_by[v])

    count, parts = len(found_by), [STYLE]
    place = [
        (70 + 56 * math.cos(a), 88 + 56 * math.sin(a))
        for a in (2 * math.pi * v / count - math.pi / 2 for v in range(count))
    ]
    for panel in range(max(map(found_in, range(count))) + 1):
        left, top = panel % 2 * 210.0, panel // 2 * 180.0
        new = [v + 1 for v in range(count) if found_in(v) == panel]
        parts.append(text(left, top + 14, f"round {panel}: F has " if panel else "start: F has "))
        parts.append(text(left + (96 if panel else 78), top + 14, ", ".join(map(str, new)), "m"))
        for a, b in zip(*edges, strict=True):
            (x1, y1), (x2, y2) = place[a], place[b]
            used = found_by[b] == a and found_in(b) <= panel
            parts.append(
                f'<path d="M{left + x1:.1f} {top + y1:.1f}L{left + x2:.1f} {top + y2:.1f}" stroke='
                f'"{ORANGE if used else GREY}" stroke-width="{3 if used else 1}"/>'
            )
        for v, (x, y) in enumerate(place):
            rank = found_in(v) - panel
            colour = ORANGE if rank == 0 else BLUE if rank < 0 else GREY
            parts.append(
                f'<circle cx="{left + x:.1f}" cy="{top + y:.1f}" r="15" fill="{colour}"/>'
                f'<text x="{left + x:.1f}" y="{top + y + 5:.1f}" text-anchor="middle" '
                f'style="fill:#fff">{v + 1}</text>'
            )
    parts.append(text(0, top + 186, "Orange: F, found in this round, and the edges to it.", "s"))
    parts.append(text(0, top + 202, "Blue: visited before. Grey: not yet found.", "s"))
    return svg(380, top + 208, parts, "a breadth-first search, round by round")


# ------------------------------------------------------------------------------------------ prompt

#: what is typed at the prompt, line after line
TYPED = """\
A = sparse([4.0 0 0; 0 0 2.0; 1.0 0 3.0])
x = [1.0, 2.0];
y = Tensor(Dense(Element(0.0)));
@finch begin
    y .= 0
    for j = _, i = _
        y[i] += A[i, j] * x[j]
    end
end
x = [1.0, 2.0, 3.0];
@finch begin
    y .= 0
    for j = _, i = _
        y[i] += A[i, j] * x[j]
    end
end
y
A * x
"""
PROMPTS, COLUMNS = ("finch> ", "     | "), 60
#: on the dark ground of a terminal, by the names of `highlight.py`
DARK = {
    "green": "#7fd07f",
    "violet": "#d0a0ff",
    "blue": "#93b4ff",
    "teal": "#6fd3e0",
    "red": "#ff8a9a",
}
DARK |= {"grey": "#9aa3b2", "brown": "#e0a96f"}
#: seconds: for a letter, before an output, before the next input, and at the end
LETTER, ANSWER, REST, LAST = 0.045, 0.35, 0.9, 6.0


class Typist(io.StringIO):
    """A person at a terminal who types lines; the terminal prints them."""

    def isatty(self) -> bool:
        return True

    def readline(self, size: int | None = -1, /) -> str:
        line = super().readline()
        print(line.rstrip("\n"))
        return line


def recorded() -> list[str]:
    """The lines of a session at the prompt, in which `TYPED` is typed."""
    from unittest.mock import patch

    from finchlang.repl.__main__ import main

    out, screen = io.StringIO(), {"COLUMNS": str(COLUMNS), "LINES": "40", "TERM": "dumb"}
    with contextlib.ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, screen))
        stack.enter_context(patch("sys.stdin", Typist(TYPED)))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(out))
        main([])
    lines = out.getvalue().rstrip().removesuffix(PROMPTS[0].strip()).rstrip().split("\n")
    return [line[k : k + COLUMNS] for line in lines for k in range(0, max(len(line), 1), COLUMNS)]


def coloured(code: str) -> Iterator[tuple[str, str]]:
    """The pieces of a line with their colours, as the prompt has them."""
    from pygments.token import string_to_tokentype

    from finchlang.repl.highlight import COLOURS, STYLE, FinchLexer

    looks = {
        string_to_tokentype(name.removeprefix("pygments.").title()): look
        for name, look in STYLE.style_rules
        if name.startswith("pygments.")
    }
    for kind, piece in FinchLexer().get_tokens(code):
        while kind.parent is not None and kind not in looks:
            kind = kind.parent
        hue = next((n for n, c in COLOURS.items() if c in looks.get(kind, "")), "")
        yield piece.rstrip("\n"), DARK.get(hue, "#e6e6e6")


def prompt_svg() -> str:
    """The session as an animation: inputs appear letter by letter, outputs at once. A reader who wants no
    motion sees the whole."""
    lines, now, before, wide = list[tuple[float, float, str, str]](), 0.6, "", 7.2
    for line in recorded():
        mark = next((p for p in PROMPTS if line.startswith(p)), "")
        if mark:
            now += REST if mark == PROMPTS[0] else 0.0
            pieces = [(mark, DARK["green"]), *coloured(line.removeprefix(mark))]
        else:
            now += ANSWER if before else 0.0
            pieces = [(line, DARK["red"] if " error: " in line else "#b8c0cc")]
        before, took = mark, LETTER * (len(line) - len(mark)) if mark else 0.0
        spans = "".join(f'<tspan fill="{c}">{escape(p)}</tspan>' for p, c in pieces if p)
        lines.append((now, now + took, line, spans))
        now += took
    total = now + LAST
    width, height = 20 + wide * COLUMNS, 17 * len(lines) + 22
    rules, parts = [], [f'<rect width="{width:g}" height="{height}" rx="8" fill="#1f2430"/>']
    for k, (begin, end, line, spans) in enumerate(lines):
        y, a, b = 17 * k + 26, 100 * begin / total, 100 * end / total
        rules.append(f"@keyframes q{k}{{0%,{a:.2f}%{{opacity:0}}{a + 0.01:.2f}%,to{{opacity:1}}}}")
        parts.append(
            f'<text class="typed" style="animation-name:q{k}" x="10" y="{y}" '
            f'textLength="{wide * len(line):g}">{spans}</text>'
        )
        if end > begin:
            letters = len(line) - len(PROMPTS[0])
            rules.append(
                f"@keyframes r{k}{{0%,{a:.2f}%{{transform:none;animation-timing-function:steps("
                f"{letters})}}{b:.2f}%,to{{transform:scaleX(0)}}}}"
            )
            parts.append(
                f'<rect class="cover" style="animation-name:r{k}" x="{10 + wide * len(PROMPTS[0]):g}" '
                f'y="{y - 13}" width="{wide * letters:g}" height="17" fill="#1f2430"/>'
            )
    style = (
        ".picture .typed{font:12px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
        "white-space:pre}.cover{transform:scaleX(0);transform-box:fill-box;transform-origin:100% 0}"
        f".typed,.cover{{animation:{total:.1f}s infinite}}"
        "@media(prefers-reduced-motion:reduce){.typed,.cover{animation:none}}"
    )
    said = "a session at the prompt: a kernel, an error with its place, and the result"
    return svg(width, height, [f"<style>{style}{''.join(rules)}</style>", *parts], said)


def pipeline_svg() -> str:
    """The stages of a kernel with the commands that show them."""
    stages = [
        ("text", "you write it", "finch run"),
        ("normal form", "each loop has its range", "finch normalize"),
        ("rules", "loops go over stored entries", "finch trace"),
        ("residual", "the program that is left", "finch residual"),
        ("machine code", "by LLVM", "finch asm"),
    ]
    parts = [STYLE]
    for k, (name, said, command) in enumerate(stages):
        y = k * 54 + 2
        if k:
            parts.append(f'<path d="M60 {y - 18}v12m-5 -5l5 6l5 -6" stroke="{GREY}" fill="none"/>')
        parts += [
            box(0, y, 440, 34, BLUE, 0.14),
            text(10, y + 21, name),
            text(118, y + 21, said, "s"),
            text(430, y + 21, command, "m", "end"),
        ]
    return svg(
        440, len(stages) * 54 - 14, parts, "the stages of a kernel, from text to machine code"
    )


PICTURES: dict[str, Callable[..., str]] = {
    "pipeline": pipeline_svg,
    "speed": speed_svg,
    "visits": visits_svg,
    "column": column_svg,
    "phases": phases_svg,
    "workspace": workspace_svg,
    "rounds": rounds_svg,
    "prompt": prompt_svg,
}

if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # without an installation
    CHART.write_text(speed_svg() + "\n", "utf-8")
    RECORDING.write_text(prompt_svg() + "\n", "utf-8")
