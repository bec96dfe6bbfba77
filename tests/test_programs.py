"""Runs every program of tests/programs on every engine, interpreted by the paper's rules alone, too.

What a program has to do stands in its comments:

    # expect: y = [1.0, 2.0]     the variable y has this value (an expression in script syntax, which
                                 may use the program's names) at the end; floats within 1e-9
    # expect: "a line"           this is the next line that the program prints, without the quotes
    # error: kind @ 3:5 part     the program ends with an error of this kind, at line 3, column 5
                                 (`@ 3` for any column) whose message contains `part`
    # options: --no-workspaces   what is written out of order is an error
    # engines: native interpret  only these engines run it (a semantics may give meaning to what
                                 others refuse); all do if nothing is said

A program with no `expect` and no `error` would test nothing and is an error itself. In a program,
`FOLDER` is the name of a temporary folder.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from finchlang.agreement import same
from finchlang.session import ENGINES, Session
from finchlang.source import ERROR_KINDS, FinchError
from finchlang.tensors.adopted import as_tensor
from finchlang.tensors.tensor import Scalar

pytestmark = pytest.mark.optimised

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.finch"))
RUNNING = tuple(engine for engine in ENGINES if engine != "check")
_COMMENT = re.compile(r"#\s*(expect|error|engines|options):\s*(.*?)\s*$", re.MULTILINE)
_ERROR = re.compile(r"(?P<kind>[a-zA-Z/ ]+?) @ (?P<line>\d+)(?::(?P<column>\d+))?\s*(?P<part>.*)")


@dataclass
class Expected:
    """What the comments of a program say."""

    values: list[tuple[str, str]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    error: re.Match[str] | None = None
    engines: tuple[str, ...] = RUNNING
    workspaces: bool = True


def expected(text: str) -> Expected:
    """The comments of a program; ValueError for one that is not understood, or if there is none."""
    found = Expected()
    for kind, rest in _COMMENT.findall(text):
        if kind == "engines":
            found.engines = tuple(rest.split())
        elif kind == "options":
            if rest != "--no-workspaces":
                raise ValueError("no such option")
            found.workspaces = False
        elif kind == "error":
            found.error = _ERROR.fullmatch(rest)
            if found.error is None or found.error["kind"] not in ERROR_KINDS:
                raise ValueError(f"not understood: error: {rest}")
        elif rest.startswith('"') and rest.endswith('"'):
            found.lines.append(rest[1:-1])
        else:
            name, sign, value = rest.rpartition(" = ")
            if not sign:
                raise ValueError(f"not understood: expect: {rest}")
            found.values.append((name, value))
    if not set(found.engines) <= set(RUNNING) or not found.engines:
        raise ValueError("no such engine")
    if not (found.values or found.lines or found.error):
        raise ValueError("the program says nothing of what it should do")
    return found


def runs() -> Iterator[Any]:
    """Each program on each engine, and in the interpreter by the paper's rules alone, too. Quick are all
    natively and by the denotation, and half of them interpreted by either set of rules."""
    for path in PROGRAMS:
        is_odd = bool(zlib.crc32(path.stem.encode()) % 2)
        for engine in expected(path.read_text("utf-8")).engines:
            for rules in ("all", "paper") if engine == "interpret" else ("all",):
                is_slow = engine == "residual" or (
                    engine == "interpret" and is_odd == (rules == "all")
                )
                name = f"{path.stem}-{engine}" + f"-{rules}" * (rules != "all")
                marks = [pytest.mark.slow] if is_slow else []
                yield pytest.param(path, engine, rules, id=name, marks=marks)


@pytest.mark.parametrize(("path", "engine", "rules"), [*runs()])
def test_program(path: Path, engine: str, rules: str, tmp_path: Path) -> None:
    check_program(path, engine, tmp_path, rules=rules)


def check_program(
    path: Path, engine: str, folder: Path, checked: bool = False, rules: str = "all"
) -> None:
    """Run a program, which must do what it says, by some of the rules."""
    text = path.read_text("utf-8")
    wanted = expected(text)
    printed: list[str] = []
    choices = engine, rules, printed.append, (), None, wanted.workspaces, checked
    session = Session(*choices)
    session["FOLDER"] = str(folder)
    error: FinchError | None = None
    try:
        session.run(text, path.name)
    except FinchError as found:
        error = found
    check_error(error, wanted.error)
    assert "".join(printed).splitlines() == wanted.lines
    for name, value in wanted.values:
        meant, got = session.run(value), session.run(name)
        assert equal(got, meant), f"{name} is {plain(got)}, not {plain(meant)}"


def check_error(error: FinchError | None, wanted: re.Match[str] | None) -> None:
    if wanted is None:
        if error is not None:
            raise error
        return
    assert error is not None, "there was no error"
    assert error.kind == wanted["kind"], error
    assert error.span is not None and error.span.line == int(wanted["line"]), error
    if wanted["column"]:
        assert error.span.column == int(wanted["column"]), error
    assert wanted["part"] in error.message, error


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


@pytest.mark.parametrize(
    "text",
    [
        "x = 1",
        "# expect: x",
        "# error: strange @ 1",
        "# error: type",
        "# engines: all\n# expect: x = 1",
    ],
)
def test_the_runner_refuses_what_it_does_not_understand(text: str) -> None:
    with pytest.raises(ValueError):
        expected(text)


@pytest.mark.parametrize(
    ("got", "meant"),
    [(1, 2), (1, True), (1.0, 1.1), (np.zeros(2), np.zeros(3)), ("a", "b"), (np.zeros(1), 0.0)],
)
def test_the_runner_tells_values_apart(got: Any, meant: Any) -> None:
    assert not equal(got, meant) and equal(got, got) and equal(meant, meant)
