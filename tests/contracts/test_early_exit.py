"""Traces of loops that are left early: each step begins with what the one before left, and the exit has a
name, by the rules of the paper and by all, interpreted and staged."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from finchlang import Session
from finchlang.calls.runner import KernelEvent, Observer
from finchlang.host.engine import Applied, EventKind
from finchlang.host.recording import ResidualHost
from finchlang.repl.trace_printer import shown
from finchlang.rules.base.early_exit import BREAK
from tests.programs.program import PROGRAMS

#: kernels that leave a loop before its end, and the data above them
PROGRAM = next(program for program in PROGRAMS if program.name == "loops_left_early")
DATA, _, TEXTS = PROGRAM.text.partition("# the kernels\n")
KERNELS = [line for line in TEXTS.splitlines() if line.startswith("@finch")]


class Told(Observer):
    """All that a tracer is told of a kernel while it is interpreted, one step at a time, or staged."""

    traces = one_by_one = True

    def __init__(self, is_staged: bool):
        self.is_staged, self.steps = is_staged, list[tuple[Applied, str, str]]()

    def kernel(self, event: KernelEvent) -> None:
        if self.is_staged:
            event.stage(ResidualHost(), self.tell)

    def rule(self, applied: Applied) -> None:
        if not self.is_staged:
            self.tell(applied)

    def tell(self, applied: Applied) -> None:
        if applied.kind != EventKind.EXPRESSION:
            self.steps.append((applied, shown(applied.before), shown(applied.after)))


@cache
def data() -> dict[str, Any]:
    session = Session("interpret")
    session.run(DATA)
    return {name: session[name] for name in session.names()}


def told(kernel: str, rules: str, is_staged: bool) -> list[tuple[Applied, str, str]]:
    session = Session("interpret", rules, observer=Told(is_staged))
    for name, value in data().items():
        session[name] = copy.deepcopy(value)
    session.run(kernel)
    assert isinstance(session.observer, Told)
    return session.observer.steps


def broken(steps: list[tuple[Applied, str, str]], is_exact: bool) -> Iterator[str]:
    """Where the steps of a trace do not chain. What is left is for a step at the same depth, or is run
    deeper, as a whole or by statements. Of iterations that are taken at once the steps of one stand
    for all: unless the chain `is_exact` terms are the same but for coordinates, and steps may go back."""
    left: dict[int, list[str]] = {}  # by depth; the last of the terms is what is to be done next
    for applied, before, after in steps:
        depth = applied.depth
        if not is_exact:
            before, after = (re.sub(r"(for \w+ =) .*", r"\1", text) for text in (before, after))
        for deeper in [d for d in left if d > depth]:
            if is_exact and left[deeper][-1]:
                yield f"{applied.name} leaves a premise undone: {left[deeper][-1]}"
            del left[deeper]
        known, above = left.setdefault(depth, []), left.get(depth - 1) or [""]
        if known and known[-1]:
            if before not in known and not (applied.kind == EventKind.PREMISE and is_exact):
                yield f"{applied.name} at depth {depth} is applied to\n{before}\n, not\n{known[-1]}"
        elif above[-1].startswith(before):
            above.append(above[-1][len(before) :].lstrip("\n"))  # is done here
        if applied.kind == EventKind.STEP:
            left[depth] = [after] if is_exact else [*known, before, after]
    for depth, terms in left.items():
        if is_exact and terms[-1:] != [""]:
            yield f"at depth {depth} there is left: {terms}"


@pytest.mark.parametrize("is_staged", [False, True])
@pytest.mark.parametrize("rules", ["paper", "all"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_traces_chain_and_name_the_exit(kernel: str, rules: str, is_staged: bool) -> None:
    steps = told(kernel, rules, is_staged)
    assert [*broken(steps, rules == "paper" and not is_staged)] == []
    exits = [(before, after) for step, before, after in steps if step.name == BREAK]
    assert exits and all(before != after for before, after in exits)
    assert all(step.name != BREAK for step, *_ in told(kernel, f"{rules}-{BREAK}", is_staged))


def test_a_trace_that_does_not_chain_is_found() -> None:
    steps = told(KERNELS[1], "paper", False)
    assert [*broken(steps[:-1], True)]
    for k, (step, *_) in enumerate(steps):
        if step.kind == EventKind.STEP and step.name in ("StepperNext", "Unfurl", BREAK):
            assert [*broken(steps[:k] + steps[k + 1 :], True)], step.name


@pytest.mark.parametrize(
    "kernel", [kernel for kernel in KERNELS if "A[" in kernel and "B[" in kernel]
)
def test_loops_of_several_lists_are_left_within_meet(kernel: str) -> None:
    names = {step.name for step, *_ in told(kernel, "all", True)}
    assert "Meet" in names and names.isdisjoint(("StepperNext", "Jumper"))
