"""Runs every program of this folder on every engine, by all rules and by the paper's, and holds the laws
of rules, hosts and passes on each: what one of the ways to run it gives all give."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable, Iterator
from itertools import combinations, cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from finchlang import Session, Tensor
from finchlang.testing.compare_engines import Way
from tests.contracts.changed_residuals import Changed
from tests.programs.program import (
    COUNT,
    DERIVED,
    HOST,
    PROGRAMS,
    WANTED,
    Case,
    Watch,
    check_program,
    counted,
    equal,
    expected,
    programs_of,
    stored,
)

#: the ways whose steps are not compared; a derived rule, for each program another, is left out besides
PLAIN = (Way("native"), Way("denote"))
#: those that do, of which the two of the same rules take the same
COUNTING = tuple(Way(e, rules) for rules in ("all", "paper") for e in ("residual", "interpret"))
RESIDUAL = COUNTING[0]
LEFT_OUT = dict(zip(PROGRAMS, cycle(DERIVED), strict=False))


class Runs:
    """A program as it was run, each way once."""

    def __init__(self, program: Case, folder: Path):
        self.program, self.folder = program, folder
        self.found: dict[Way, tuple[Session, Watch]] = {}

    def run(self, way: Way) -> tuple[Session, Watch]:
        """The session, and what was counted."""
        if way not in self.found:
            (folder := self.folder / str(len(self.found))).mkdir()
            named = counted(" ".join(WANTED[self.program].steps).replace("@each", ""), way.rules)
            traces = way.engine == "interpret" and not named <= HOST
            watch = Watch(traces, lists="code" in named)
            try:
                self.found[way] = check_program(self.program, way, folder, watch), watch
            except BaseException as error:
                error.add_note(f"{self.program.name}: {way}")
                raise
        return self.found[way]

    def check_passes(self) -> None:
        """That the residual does the same after each pass that changes it, and after all."""
        with pytest.MonkeyPatch.context() as patch:
            changed = Changed(patch)
            self.run(RESIDUAL)
            for passes in changed.alone():
                changed.passes = passes
                check_program(self.program, RESIDUAL, self.folder)

    def check_steps(self, engine: str) -> None:
        """That the program takes the steps it says: those of the host, or by the interpreter all."""

        def number(found: re.Match[str]) -> str:
            name, rules, at = found[1], found[2] or "all", found[3]
            runs = self.run(Way(engine, rules))[1].runs
            return str(runs[int(at) - 1][name] if at else sum(run[name] for run in runs))

        for claim in self.claims(engine):
            if engine == "interpret" or counted(claim) <= HOST:
                numbers = COUNT.sub(number, claim)
                assert eval(numbers), f"{claim}: {numbers}"  # of numbers and signs

    def claims(self, engine: str) -> Iterator[str]:
        """What the program says of steps, with the number of each kernel for `@each`."""
        for claim in WANTED[self.program].steps:
            count = len(self.run(Way(engine))[1].runs) if "@each" in claim else 1
            yield from (claim.replace("@each", f"@{k}") for k in range(1, count + 1))

    def check_laws(self, ways: list[Way]) -> None:
        """That the residual takes the interpreter's steps (congruence), and that derived rules change
        how much is done, but not what is stored."""
        for one, other in combinations(ways, 2):
            if one.rules == other.rules:
                assert self.run(one)[1].steps == self.run(other)[1].steps, other.rules
        base, *others = (self.run(way)[0] for way in ways)
        for name in base.names():
            if isinstance(tensor := base[name], Tensor):
                for found in others:
                    np.testing.assert_array_equal(stored(tensor), stored(found[name]), name)


#: programs that `make quick` leaves out: they took it a sixth of a second of a processor or more
LONG = {*Path(__file__).with_name("long.txt").read_text("utf-8").split()}


def cases() -> Iterator[Any]:
    for program in PROGRAMS:
        is_late = WANTED[program].is_slow or program.name in LONG
        yield pytest.param(program, id=program.name, marks=[pytest.mark.slow] * is_late)


@pytest.mark.parametrize("program", [*cases()])
def test_program(
    program: Case, is_quick: bool, plainly: Callable[[bool], None], tmp_path: Path
) -> None:
    """Quickly: natively, one in four by the denotation, of which the rest knows nothing, and by the paper's
    rules those whose steps are counted, and of others two in five as a residual, one by the interpreter."""
    runs, wanted = Runs(program, tmp_path), WANTED[program]
    able = [way for way in PLAIN if way.engine in wanted.engines]
    counting = [way for way in COUNTING if way.engine in wanted.engines]
    if is_quick:
        number = zlib.crc32(program.name.encode())
        is_native = "native" in wanted.engines
        some = ("interpret", "residual", "residual", "", "")[number % 5]
        engine = some if is_native and not wanted.steps else "residual"
        plain = {"native", *["denote"] * (number % 4 == 0 or not is_native)}
        able = [way for way in able if way.engine in plain]
        counting = [way for way in counting if way == Way(engine, "paper")]
    else:
        left_out = DERIVED if os.environ.get("EVERY_RULE") else [LEFT_OUT[program]]
        if "interpret" in wanted.engines:  # which derives no more than what is run
            able += [Way("interpret", f"all-{rule}") for rule in left_out]
        if "native" in wanted.engines and program.name.startswith("loops_"):
            able.append(Way("native", staging=False))
        if wanted.is_slow:  # by the paper's rules its code is larger yet
            counting = [way for way in counting if way != Way("residual", "paper")]
    if RESIDUAL in counting and not is_quick:
        runs.check_passes()
    for way in (*able, *counting):
        runs.run(way)
    if "native" in wanted.engines and not is_quick:
        plainly(True)  # checks make code larger, and nothing that passes could get wrong
        runs.run(Way("native", checked=True))
    if wanted.steps:
        runs.check_steps("residual" if is_quick else "interpret")
    if {way.engine for way in counting} == {"residual", "interpret"}:
        runs.check_laws(counting)


@pytest.mark.parametrize(
    "text",
    [
        "x = 1",
        "# expect: x",
        "# error: strange @ 1",
        "# error: type",
        "# engines: all\n# expect: x = 1",
        "# notes: none",
        "# steps: Lop <= 12",
        "# steps: __import__ == 1",
        "# case: two words\nx = 1\n# expect: x = 1",
    ],
)
def test_what_is_not_understood_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "wrong.finch").write_text(text)
    with pytest.raises(ValueError):
        for program in programs_of(tmp_path / "wrong.finch"):
            expected(program.text)


@pytest.mark.parametrize(
    ("got", "meant"),
    [(1, 2), (1, True), (1.0, 1.1), (np.zeros(2), np.zeros(3)), ("a", "b"), (np.zeros(1), 0.0)],
)
def test_values_are_told_apart(got: Any, meant: Any) -> None:
    assert not equal(got, meant) and equal(got, got) and equal(meant, meant)
