"""The rule table on all small operands: `python -m tests.campaigns.small_scope [--operands K] [--size N]
[--seconds S] [--only TEXT] [--out FILE.json]`.

Each kind of looplet meets each other kind: vectors of formats that give them, by operators with and
without laws, into a scalar, a dense and a sparse result. On every pattern of the operands, with symbols
for values, the interpreter and the residual under all rules, under those of the papers and with each
derived rule left out are compared with the denotation. A residual that is the same as under all rules
is not run again. The table says of each derived rule in how many kernels it changed the residual, on
how many patterns these were run, and how many differed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from finchlang.rules import table
from finchlang.testing.exhaustive import Small, kernels

#: what a kind of looplet is had from: a format, and how it is read at i
LOOPLETS = {
    "lookup": ("Dense(Element(0.0))", "{}[i]"),
    "stepper": ("SparseList(Element(0.0))", "{}[i]"),
    "jumper": ("SparseList(Element(0.0))", "{}[gallop(i)]"),
    "spike": ("SparsePinpoint(Element(0.0))", "{}[i]"),
    "sequence": ("SparseInterval(Element(0.0))", "{}[i]"),
    "runs": ("RunList(Element(0.0))", "{}[i]"),
    "sparse runs": ("SparseRunList(Element(0.0))", "{}[i]"),
    "blocks": ("SparseBlockList(Element(0.0))", "{}[i]"),
    "band": ("SparseBand(Element(0.0))", "{}[i]"),
    "switch": ("SparseByteMap(Element(0.0))", "{}[follow(i)]"),
    "byte map": ("SparseByteMap(Element(0.0))", "{}[i]"),
    "hash": ("SparseHash(Element(0.0))", "{}[i]"),
    "bits": ("PackBits(Element(0.0))", "{}[i]"),
    "fill 1": ("SparseList(Element(1.0))", "{}[i]"),
    "shift": ("SparseList(Element(0.0))", "coalesce({}[~(i - 1)], 0.0)"),
}
OPERATORS = {"+": "({} + {})", "*": "({} * {})", "max": "max({}, {})", "free": "free({}, {})"}
RESULTS = {
    "scalar": ("Scalar(0.0)", "out[] += {}"),
    "dense": ("Tensor(Dense(Element(0.0)), 3)", "out[i] = {}"),
    "sparse": ("Tensor(SparseList(Element(0.0)), 3)", "out[i] = {}"),
}
#: an operator of which nothing is declared
FREE = "free(a, b) = a * b + 2 * a\n"


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


def meetings(operands: int) -> Iterator[Meeting]:
    """Every meeting of so many operands."""
    for kinds in itertools.combinations_with_replacement(LOOPLETS, operands):
        for operator, result in itertools.product(OPERATORS, RESULTS):
            yield Meeting(kinds, operator, result)


DERIVED = tuple(dict.fromkeys(rule.name for rule in table.RULES if rule.is_derived))
SETS = ("all", "paper", *(f"all-{name}" for name in DERIVED))


def run(meeting: Meeting, size: int, seconds: float) -> tuple[Small, tuple[str, ...]]:
    """A meeting on all patterns up to a size, or as many as there is time for, and the sets of rules
    that leave another residual than all rules."""
    (small,) = kernels(meeting.text, meeting.name, rules=SETS)
    changed = small.distinct()
    small.run(size, seconds)
    return small, changed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operands", type=int, default=2)
    parser.add_argument("--size", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="for each meeting")
    parser.add_argument("--only", default="", help="meetings with this in their name")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    began, counts = time.monotonic(), {name: [0, 0, 0] for name in SETS[1:]}
    total = {"meetings": 0, "patterns": 0, "of": 0, "cases": 0, "unproven": 0, "wrong": 0}
    wrong: list[str] = []
    for meeting in meetings(options.operands):
        if options.only not in meeting.name:
            continue
        small, changed = run(meeting, options.size, options.seconds)
        found = small.covered
        total["meetings"] += 1
        for name in ("patterns", "of", "cases", "unproven"):
            total[name] += getattr(found, name)
        total["wrong"] += bool(found.wrong)
        for which in changed:
            counts[which][0] += 1
            counts[which][1] += found.patterns
            counts[which][2] += any(f", {which}:" in line for line in found.wrong)
        if found.wrong:
            wrong.append(f"{meeting.name}\n{found.wrong[0]}")
            print(wrong[-1], flush=True)
        hours = (time.monotonic() - began) / 3600
        if options.out:
            done = {"total": total, "hours": hours, "rules": counts, "wrong": wrong}
            options.out.write_text(json.dumps(done, indent=1))
    print(f"{total}, {hours:.2f} hours\n\n| rules | kernels changed | patterns | differ |")
    print("|---|---|---|---|")
    for which, numbers in counts.items():
        print(f"| {which} | {' | '.join(map(str, numbers))} |")
    return bool(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
