"""The rule table on all small operands: `python -m tests.campaigns.small_scope [--operands K] [--size N]
[--seconds S] [--minutes M] [--only TEXT] [--out FILE.json]`.

Each kind of looplet meets each other kind: vectors of formats that give them, by operators with and
without laws, into a scalar, a dense and a sparse result. With 0 operands: loop nests of derived rules. On
every pattern of the operands, with symbols for values, the interpreter and the residual under all rules,
under those of the papers and with each derived rule left out are compared with the denotation. A residual
that is the same as under all rules is not run again; the interpreter, which takes the steps of the
residual, is on one in eight patterns. FILE.json has what was run; with the same file again the others
are, for M minutes. The tables say of each derived rule in how many kernels it changed the residual, on how
many patterns these were run, and how many differed; and of each two kinds of looplets up to which size
all their meetings were run whole.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import time
import tomllib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from finchlang.rules import table
from finchlang.testing.exhaustive import Small, kernels

TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
LOOPLETS, OPERATORS, RESULTS, NESTS = (
    TABLES[name] for name in ("looplets", "operators", "results", "nests")
)
FREE = "free(a, b) = a * b + 2 * a\n"  #: an operator of which nothing is declared


@dataclass(frozen=True)
class Nest:
    """A loop nest by its name."""

    name: str

    @property
    def text(self) -> str:
        formats = dict(NESTS[self.name])
        made, loops = ["n = 0"], formats.pop("loops")
        for name, format in formats.items():
            is_scalar = format.startswith("Scalar")
            made.append(f"{name} = {format if is_scalar else f'Tensor({format})'}")
        return "\n".join([*made, f"@finch begin out .= 0; {loops}; end"])


@dataclass(frozen=True)
class Meeting:
    """Kinds of looplets that an operator makes a result of."""

    kinds: tuple[str, ...]
    operator: str
    result: str

    @property
    def name(self) -> str:
        return f"{f' {self.operator} '.join(self.kinds)} into {self.result}"

    @property
    def text(self) -> str:
        made, assign = RESULTS[self.result]
        lines = [FREE, f"out = {made}"]
        expression = ""
        for k, kind in enumerate(self.kinds):
            format, read = LOOPLETS[kind]
            lines.append(f"v{k} = Tensor({format}, 3)")
            operand = read.format(f"v{k}")
            both = OPERATORS[self.operator]
            expression = both.format(expression, operand) if expression else operand
        over = "i = 1:n" if "shift" in self.kinds else "i = _"
        lines += ["n = 3"] if "shift" in self.kinds else []
        body = assign.format(expression)
        return "\n".join([*lines, f"@finch begin out .= 0; for {over}; {body}; end; end"])


def meetings(operands: int) -> Iterator[Meeting | Nest]:
    """Every meeting of so many operands; of none, the loop nests."""
    if not operands:
        yield from map(Nest, NESTS)
        return
    for kinds in itertools.combinations_with_replacement(LOOPLETS, operands):
        for operator, result in itertools.product(OPERATORS, RESULTS):
            yield Meeting(kinds, operator, result)


DERIVED = tuple(dict.fromkeys(rule.name for rule in table.RULES if rule.is_derived))
SETS = ("all", "paper", *(f"all-{name}" for name in DERIVED))
INTERPRETED = 8  #: one in so many patterns is interpreted too


def run(meeting: Meeting | Nest, size: int, seconds: float) -> tuple[Small, tuple[str, ...]]:
    """A meeting on all patterns up to a size, or as many as there is time for, and the sets of rules
    that leave another residual than all rules."""
    (small,) = kernels(meeting.text, meeting.name, rules=SETS)
    changed = small.distinct()
    small.run(size, seconds, interpreted=INTERPRETED)
    return small, changed


#: what was run of a meeting, as `Covered` has it, and the sets of rules that changed its residual
Row = dict[str, Any]


def by_rules(rows: Collection[Row]) -> str:
    """Of each set of rules the kernels that it changed, their patterns, and how many differed."""
    lines = ["| rules | kernels changed | patterns | differ |", "|---|---|---|---|"]
    for which in SETS[1:]:
        own = [row for row in rows if which in row["changed"]]
        differ = sum(any(f", {which}:" in line for line in row["wrong"]) for row in own)
        lines.append(f"| {which} | {len(own)} | {sum(r['patterns'] for r in own)} | {differ} |")
    return "\n".join(lines)


def by_kinds(rows: dict[str, Row]) -> str:
    """Of each two kinds of looplets the size up to which all patterns of empty and stored places were run
    and are equal, by all operators into all results; `-` if not all of these were run."""
    lines = [f"| | {' | '.join(LOOPLETS)} |", "|---" * (len(LOOPLETS) + 1) + "|"]
    for k, one in enumerate(LOOPLETS):
        cells = []
        for other in list(LOOPLETS)[: k + 1]:
            of = (Meeting((other, one), *how) for how in itertools.product(OPERATORS, RESULTS))
            own = [rows.get(meeting.name) for meeting in of]
            sizes = [-1 if not r or r["wrong"] or r["unproven"] else r["whole"] for r in own]
            cells.append(str(min(sizes)) if min(sizes) >= 0 else "-")
        lines.append(f"| {one} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operands", type=int, default=2)
    parser.add_argument("--size", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="for each meeting")
    parser.add_argument("--minutes", type=float, default=math.inf, help="for all of them")
    parser.add_argument("--only", default="", help="meetings with this in their name")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows: dict[str, Row] = {}
    if options.out and options.out.exists():
        rows = json.loads(options.out.read_text())
    every = [*meetings(options.operands)]
    random.Random(1).shuffle(every)
    began = time.monotonic()
    for meeting in every:
        if options.only not in meeting.name or meeting.name in rows:
            continue
        if time.monotonic() - began > 60 * options.minutes:
            break
        start = time.process_time()
        small, changed = run(meeting, options.size, options.seconds)
        seconds = round(time.process_time() - start, 2)
        ways = [str(way) for way in small.covered.ways]
        more = {"ways": ways, "changed": changed, "seconds": seconds}
        rows[meeting.name] = vars(small.covered) | more
        for line in small.covered.wrong[:1]:
            print(f"{meeting.name}\n{line}", flush=True)
        if options.out:
            options.out.write_text(json.dumps(rows))
    names = ("patterns", "of", "cases", "unproven", "seconds")
    total = {name: round(sum(row[name] for row in rows.values())) for name in names}
    wrong = sum(bool(row["wrong"]) for row in rows.values())
    print(
        f"{len(rows)} of {len(every)} meetings, {total}, {wrong} differ\n\n{by_rules(rows.values())}"
    )
    if options.operands == 2:
        print(f"\n{by_kinds(rows)}")
    return bool(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
