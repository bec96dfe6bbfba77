"""`finch trace` and `:trace`: print the rules that are applied, and what each step changes."""

from __future__ import annotations

import re
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any

from finchlang.base.errors import FinchError, did_you_mean, number_of
from finchlang.calls.runner import KernelEvent, Observer
from finchlang.functions.unit_rules import ALL
from finchlang.host.engine import Applied, EventKind
from finchlang.host.executing import ExecutingHost
from finchlang.host.ir import Expr
from finchlang.syntax.nodes import For, Loop, Node

from .live_listing import GrowingHost
from .options import LINES, MANY
from .report import BOLD, PLAIN, RED, TEAL
from .trace_printer import shown
from .views import title

GREEN = "\033[1;38;5;28m"


@dataclass
class Chosen:
    """Which steps of which kernels are printed, and whether in colours."""

    expressions: bool = False
    kernel: int | None = None
    rules: frozenset[str] = frozenset()
    steps: tuple[int, int] = (1, MANY)
    colours: bool = False
    #: so many lines may still be printed
    lines: int = MANY
    #: the kernels so far, in order, each with its number of runs
    runs: Counter[Any] = field(default_factory=Counter)

    @staticmethod
    def by(options: Namespace, colours: bool = False) -> Chosen:
        """The choice of the options of STEPS. Raises FinchError "unknown name" for a rule."""
        rules = frozenset(options.rule or ())
        known = {name for rule in ALL for name in (rule.name, *rule.steps)}
        for name in sorted(rules - known):
            near = did_you_mean(name, known)
            hint = f"`--rule {near.code}`" if near else "`finch rules` lists them"
            raise FinchError("unknown name", f"there is no rule `{name}`", hint=hint)
        chosen = Chosen(options.all, options.kernel, rules, options.steps or (1, MANY), colours)
        if options.steps is None and not rules:
            chosen.lines = LINES
        if chosen.ends and chosen.kernel is None:
            chosen.kernel = 1
        return chosen

    def number(self, event: KernelEvent) -> int:
        self.runs[event.compiled] += 1
        return [*self.runs].index(event.compiled) + 1

    def check_ran(self) -> None:
        """Raises FinchError "unknown name" if the chosen kernel was not run."""
        if self.kernel is not None and not 1 <= self.kernel <= len(self.runs):
            ran = number_of(len(self.runs), "kernel was", "kernels were")
            raise FinchError("unknown name", f"there is no kernel {self.kernel}: {ran} run")

    def has(self, applied: Applied, number: int) -> bool:
        is_named = not self.rules or applied.name in self.rules
        return is_named and self.steps[0] <= number <= self.steps[1]

    @property
    def ends(self) -> bool:
        """Whether there is a last step: then one run of one kernel is traced, up to that step."""
        return self.steps[1] < MANY

    @property
    def is_whole(self) -> bool:
        return not self.rules and self.steps == (1, MANY)


class Enough(BaseException):
    """Raised when all chosen steps were printed. It is no FinchError, which a script could catch."""


class Trace(Observer):
    """Prints each step with the lines of the term that are removed (`-`) and added (`+`). The premises of a
    step come before it, indented, below the name of the rule they belong to. Iterations are marked with
    the coordinate at which they begin: `Loop [i = 3]`."""

    stages = traces = one_by_one = True

    def __init__(self, chosen: Chosen | None = None) -> None:
        self.chosen = chosen or Chosen()
        self.number = 0
        self.is_this = False

    def started(self, event: KernelEvent) -> None:
        number = self.chosen.number(event)
        runs = self.chosen.runs[event.compiled]
        self.number = 0
        self.is_this = self.chosen.kernel in (None, number)
        if self.is_this:
            print(title(event, number=number) + f", run {runs}" * (runs > 1))

    def rule(self, applied: Applied) -> None:
        self.step(applied)
        self.stop(self.number >= self.chosen.steps[1])

    def finished(self, event: KernelEvent, steps: Counter[str]) -> None:
        self.stop(True)

    def whole(self, event: KernelEvent) -> None:
        """Interpret a loop that is run as a whole, on copies of its first arguments."""
        self.started(event)
        event.run("interpret", event.compiled.staged.one_by_one(self.rule))
        self.stop(True)

    def stop(self, is_last: bool) -> None:
        """Raises Enough after the last step of the chosen kernel, if there is a last step to print."""
        if is_last and self.is_this and self.chosen.ends:
            raise Enough

    def step(self, applied: Applied) -> bool:
        """Print a step if it is chosen; returns whether it is."""
        chosen = self.chosen
        if applied.kind == EventKind.EXPRESSION and not chosen.expressions:
            return False
        is_premise = applied.kind == EventKind.PREMISE
        if chosen.lines <= 0 and self.is_this:
            kernel = f"--kernel {len(chosen.runs)} " if len(chosen.runs) > 1 else ""
            print(f"... `{kernel}--steps {self.number + 1}:` goes on, `--steps 1:` shows all steps")
            raise Enough
        self.number += not is_premise
        number = self.number + is_premise
        if not self.is_this or not chosen.has(applied, number):
            return False
        pad = "  " * (applied.depth - 1)
        mark = applied.law and f" ({applied.law})"
        if applied.at is not None:
            mark = f" [{_index(applied.before)} = {self.shown(applied.at)}]"
        chosen.lines -= 1
        if is_premise:
            print(f"{pad}{applied.name}{mark}: its premise")
            return True
        bold, plain = (BOLD, PLAIN) if chosen.colours else ("", "")
        print(f"{pad}{number} {bold}{applied.name}{plain}{mark}")
        for line in marked(shown(applied.before), shown(applied.after), chosen.colours):
            print(f"{pad}  {line}".rstrip())
            chosen.lines -= 1
        return True

    def shown(self, at: Expr) -> str:
        """The coordinate at which an iteration begins, as a number."""
        return str(ExecutingHost().evaluate(at))


def _index(term: Node) -> str:
    if isinstance(term, For):
        return term.variable
    return term.index.name if isinstance(term, Loop) else "at"


def marked(before: str, after: str, colours: bool = False) -> Iterator[str]:
    """The lines of two texts, with `-` before those only in the first, and `+` before those only in the
    second, where indentation does not count; with colours for the words that differ in a line."""
    old, new = before.splitlines(), after.splitlines()
    first, second = ([line.strip() for line in lines] for lines in (old, new))
    for tag, i, j, k, m in SequenceMatcher(None, first, second, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from (f"  {line}" for line in new[k:m])
            continue
        gone, come = old[i:j], new[k:m]
        if colours:
            gone, come = _coloured(gone, come, RED), _coloured(come, gone, GREEN)
        yield from (f"- {line}" for line in gone)
        yield from (f"+ {line}" for line in come)


def _coloured(lines: list[str], others: list[str], colour: str) -> list[str]:
    found = []
    for at, line in enumerate(lines):
        words = re.findall(r"\s+|\w+|.", line)
        other = re.findall(r"\s+|\w+|.", others[at]) if at < len(others) else []
        matcher = SequenceMatcher(None, words, other, autojunk=False)
        parts = [(t, "".join(words[i:j])) for t, i, j, _, _ in matcher.get_opcodes() if i < j]
        pieces = [text if tag == "equal" else f"{colour}{text}{PLAIN}" for tag, text in parts]
        found.append("".join(pieces))
    return found


class StagedTrace(Trace):
    """Prints the steps of staging, and after each the lines that it has added to the residual (`|`); all of
    these are the residual program (`finch trace --staged`)."""

    traces = False

    def __init__(self, chosen: Chosen | None = None) -> None:
        super().__init__(chosen)
        self.chosen.lines = MANY  # one iteration stands for all
        self.grown: list[str] = []

    def kernel(self, event: KernelEvent) -> None:
        self.started(event)
        event.stage(GrowingHost(self.grown.append), self.rule)
        self.flush("", self.is_this and self.chosen.is_whole)
        self.stop(True)

    def rule(self, applied: Applied) -> None:
        is_step = applied.kind == EventKind.STEP
        is_shown = self.step(applied)
        if is_shown or is_step:
            self.flush("  " * (applied.depth - 1), is_shown)
        self.stop(self.number >= self.chosen.steps[1])

    def flush(self, pad: str, is_shown: bool) -> None:
        for line in self.grown if is_shown else ():
            bar = f"{TEAL}|{PLAIN}" if self.chosen.colours else "|"
            print(f"{pad}  {bar} {line}")
        self.grown.clear()

    def shown(self, at: Expr) -> str:
        return str(at)
