"""The programs of this folder, what each has to do, and running one in one way.

What a program has to do stands in its comments:

    # expect: y = [1.0, 2.0]     the variable y has this value (an expression in script syntax, which
                                 may use the program's names) at the end; floats within 1e-9
    # expect: "a line"           this is the next line that the program prints, without the quotes
    # error: kind @ 3:5 part     the program ends with an error of this kind, at line 3, column 5
                                 whose message contains `part`, or whose hint does (`hint: part`);
                                 `@ :5` is column 5 of the line that the comment ends, `@ 3` and `@ :`
                                 any column
    # stores: A 5                the tensor A has so many stored leaves, under all rules
    # notes: part                the next note that is told contains `part`; no other note is told
                                 (`none`: none is)
    # staged: for is staged      the next that is told of loops and functions that native code has whole
                                 contains this; nothing else is told
    # rule: Union Pieces         the interpreter applies these rules
    # steps: Loop <= 12          it does so often; `total` are all steps of the host, `load`, `loop`,
                                 `branch` ... those of one kind, `code` the lines of residuals
    # steps: 3 * total@2 < total(paper)@2     in the second kernel that is run; by other rules
    # steps: total@each < 2 * total(paper)@each    in each kernel
    # options: --no-workspaces   what is written out of order is an error
    # engines: native interpret  only these engines run it (a semantics may give meaning to what
                                 others refuse); all do if nothing is said
    # slow: why                  `make quick` leaves it out, as those that `long.txt` lists
    # case: name                 a program of its own begins, which ends at the next; what stands above
                                 the first is at the head of each

A program with none of them would test nothing and is an error itself. In a program, `FOLDER` is the
name of a temporary folder.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from finchlang import Session
from finchlang.base.errors import ERROR_KINDS, FinchError
from finchlang.calls.runner import ENGINES, Observer
from finchlang.host.engine import EventKind
from finchlang.host.listing import text as listing
from finchlang.rules.table import OPTIONAL, RULES
from finchlang.tensors.adopt import as_tensor
from finchlang.tensors.tensor import Scalar, Tensor
from finchlang.testing.compare_engines import Way
from finchlang.testing.compare_stored import same
from finchlang.text.parse import parse_whole

DERIVED = sorted(OPTIONAL)
RUNNING = tuple(engine for engine in ENGINES if engine != "check")
#: steps of the host, as `ExecutingHost.steps` counts them, and what is counted besides
HOST = frozenset(
    [
        "let",
        "load",
        "store",
        "get",
        "set",
        "branch",
        "loop",
        "count",
        "grow",
        "fill",
        "search",
        "disjoint",
        "sort",
        "total",
        "code",
    ]
)
NAMES = {*HOST, *(r.name for r in RULES), *(s for r in RULES for s in r.steps)}
_COMMENT = re.compile(
    r"#\s*(expect|error|engines|options|stores|notes|staged|rule|steps|slow):\s*(.*?)\s*$",
    re.MULTILINE,
)
_CASE = re.compile(r"^# case:(.*)\n", re.MULTILINE)
_ERROR = re.compile(
    r"(?P<kind>[a-zA-Z/ ]+?) @ (?=[\d:])(?P<line>\d*)(?::(?P<column>\d*))?\s*(?P<part>.*)"
)
COUNT = re.compile(r"([A-Za-z]+)(?:\(([\w-]+)\))?(?:@(\d+))?")


def counted(claim: str, rules: str = "") -> set[str]:
    """The steps that a claim counts, all or by some rules."""
    return {name for name, by, _ in COUNT.findall(claim) if rules in ("", by or "all")}


@dataclass
class Expected:
    """What the comments of a program say."""

    values: list[tuple[str, str]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    error: re.Match[str] | None = None
    line: int = 0
    stores: list[tuple[str, int]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    staged: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    engines: tuple[str, ...] = RUNNING
    workspaces: bool = True
    is_slow: bool = False

    def take(self, kind: str, rest: str, line: int) -> None:
        """A comment that ends a line; ValueError for one that is not understood."""
        if kind == "slow":
            self.is_slow = True
        elif kind == "engines":
            self.engines = tuple(rest.split())
        elif kind == "options":
            if rest != "--no-workspaces":
                raise ValueError("no such option")
            self.workspaces = False
        elif kind == "error":
            self.error, self.line = _ERROR.fullmatch(rest), line
            if self.error is None or self.error["kind"] not in ERROR_KINDS:
                raise ValueError(f"not understood: error: {rest}")
        elif kind == "stores":
            name, count = rest.split()
            self.stores.append((name, int(count)))
        elif kind in ("notes", "staged"):
            getattr(self, kind).append(rest)
        elif kind == "rule":
            self.steps += [f"{name} >= 1" for name in rest.split()]
        elif kind == "steps":
            self.steps.append(rest)
        elif rest.startswith('"') and rest.endswith('"'):
            self.lines.append(rest[1:-1])
        else:
            name, sign, value = rest.rpartition(" = ")
            if not sign:
                raise ValueError(f"not understood: expect: {rest}")
            self.values.append((name, value))


def expected(text: str) -> Expected:
    """The comments of a program; ValueError for one that is not understood, or if there is none."""
    found = Expected()
    for comment in _COMMENT.finditer(text):
        found.take(comment[1], comment[2], text.count("\n", 0, comment.start()) + 1)
    if not set(found.engines) <= set(RUNNING) or not found.engines:
        raise ValueError("no such engine")
    for claim in (claim.replace("@each", "@1") for claim in found.steps):
        if counted(claim) - NAMES or not re.fullmatch(r"[\d\s.+*()<>=!-]+", COUNT.sub("", claim)):
            raise ValueError(f"not understood: steps: {claim}")
    if not (
        found.values or found.lines or found.error or found.stores or found.steps or found.staged
    ):
        raise ValueError("the program says nothing of what it should do")
    return found


@dataclass(frozen=True)
class Case:
    """A program: a file, or one of its cases, whose lines are numbered as in the file."""

    name: str
    text: str


def programs_of(path: Path) -> Iterator[Case]:
    """The programs of a file; ValueError for a case whose name is not one word."""
    text = path.read_text("utf-8")
    cases = [*_CASE.finditer(text)]
    for case in cases:
        if not re.fullmatch(r" \w+", case[1]):
            raise ValueError(f"not understood: # case:{case[1]}")
    if not cases:
        yield Case(path.stem, text)
        return
    ends = [*(case.start() for case in cases[1:]), len(text)]
    for case, end in zip(cases, ends, strict=True):
        above, between = text[: cases[0].start()], text[cases[0].start() : case.end()]
        lines = "\n" * between.count("\n")
        yield Case(f"{path.stem}-{case[1].strip()}", above + lines + text[case.end() : end])


FILES = sorted(Path(__file__).parent.rglob("*.finch"))
PROGRAMS = [program for path in FILES for program in programs_of(path)]
WANTED = {program: expected(program.text) for program in PROGRAMS}


# ------------------------------------------------------------------------------------- running them


class Watch(Observer):
    """Counts, for each kernel that is run, the `steps` of the host; and with them in `runs`, if it
    `traces`, the rules and, if it `lists`, the lines of its residual."""

    stages = True

    def __init__(self, traces: bool = False, lists: bool = False) -> None:
        self.traces, self.lists = traces, lists
        self.runs, self.steps = list[Counter[str]](), list[Counter[str]]()

    def started(self, event: Any) -> None:
        self.runs.append(Counter())

    def rule(self, applied: Any) -> None:
        self.runs[-1][applied.name] += applied.kind == EventKind.STEP

    def finished(self, event: Any, steps: Counter[str]) -> None:
        self.steps.append(steps)
        self.runs[-1].update(steps, total=steps.total())
        if self.lists:
            self.runs[-1]["code"] = len(listing(event.residual).splitlines())


def ran(program: Case, way: Way, folder: Path, watch: Watch) -> Session:
    """The session that a program ran in, which ended as it says."""
    wanted, printed = WANTED[program], list[str]()
    choices = (
        way.engine,
        way.rules,
        printed.append,
        (),
        watch,
        wanted.workspaces,
        way.checked,
        way.staging,
    )
    session = Session(*choices)
    session["FOLDER"] = str(folder)
    error: FinchError | None = None
    try:
        session.execute(parsed(program))
    except FinchError as found:
        error = found
    check_error(error, wanted)
    assert "".join(printed).splitlines() == wanted.lines
    return session


@lru_cache(4)
def parsed(program: Case) -> Any:
    return parse_whole(program.text, program.name)


def check_program(program: Case, way: Way, folder: Path, watch: Watch | None = None) -> Session:
    """Run a program, which must do what it says; gives the session."""
    wanted, session = WANTED[program], ran(program, way, folder, watch or Watch())
    told = [(wanted.notes, [note.message for note in session.notes])]
    if way.engine == "native" and way.staging:
        told.append((wanted.staged, session.staged))
    for name, value in wanted.values:
        meant, got = session.run(value), session.run(name)
        assert equal(got, meant), f"{name} is {plain(got)}, not {plain(meant)}"
    if way.engine == "denote":  # whose tensors are dense, and which compiles nothing
        return session
    for name, count in wanted.stores:
        assert session.run(f"countstored({name})") == count, name
    for given, lines in told:
        parts = [part for part in given if part != "none"]
        if given:
            assert len(lines) == len(parts), lines
            assert all(part in line for part, line in zip(parts, lines, strict=True)), lines
    return session


def stored(tensor: Tensor) -> Any:
    """The coordinates that a tensor stores, or how many leaves where its runs may be too long to list."""
    return tensor.nnz if tensor.size > 10**9 else tensor.entries()[0]


def check_error(error: FinchError | None, program: Expected) -> None:
    wanted = program.error
    if wanted is None:
        if error is not None:
            raise error
        return
    assert error is not None, "there was no error"
    assert error.kind == wanted["kind"], error
    line = int(wanted["line"] or program.line)
    assert error.span is not None and error.span.line == line, error
    if wanted["column"]:
        assert error.span.column == int(wanted["column"]), error
    part = wanted["part"].removeprefix("hint: ")
    assert part in (error.message if part == wanted["part"] else error.hint or ""), error


def plain(value: Any) -> Any:
    """Tensors as arrays, scalars as numbers, vectors of numbers as arrays too."""
    if isinstance(value, Scalar):
        return value.value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value
    tensor = as_tensor(value)
    return value if tensor is None else tensor.to_numpy()


def equal(got: Any, meant: Any) -> bool:
    """Equal values; the element type need not be the same, but truth is no number."""
    got, meant = plain(got), plain(meant)
    if isinstance(got, np.ndarray) and isinstance(meant, np.ndarray):
        if (got.dtype == bool) != (meant.dtype == bool):
            return False
        if got.dtype.names or meant.dtype.names:
            return got.dtype == meant.dtype and np.array_equal(got, meant)
        return got.shape == meant.shape and same(got.astype(float), meant.astype(float), 1e-9)
    if isinstance(got, (bool, np.bool_)) != isinstance(meant, (bool, np.bool_)):
        return False
    if isinstance(got, (int, float)) and isinstance(meant, (int, float)):
        return same(float(got), float(meant), 1e-9)
    return type(got) is type(meant) and bool(got == meant)
