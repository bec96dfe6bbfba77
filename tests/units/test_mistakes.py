"""Three hundred mistakes: what is said of each stands in golden/mistakes, with carets on the culprit; hints
help, engines agree, and any text is a program or an error with a place."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from finchlang import Session
from finchlang.base.errors import FinchError, Hint
from finchlang.calls.runner import ENGINES
from finchlang.script.functions import PREDEFINED
from finchlang.text import foreign_names
from finchlang.text.parse import is_incomplete, parse_kernel, parse_script
from finchlang.text.print import pretty

GOLDEN = Path(__file__).parents[1] / "golden" / "mistakes"


def texts(name: str) -> list[str]:
    """The mistakes of a golden file: a text, `-----`, what is said of it, and a blank line."""
    content = (GOLDEN / f"{name}.txt").read_text("utf-8")
    return re.findall(r"(.*?)\n-----\n.*?\n(?:\n|\Z)", content, re.DOTALL)


GROUPS = {path.stem: texts(path.stem) for path in sorted(GOLDEN.glob("*.txt"))}
ALL = [text for group in GROUPS.values() for text in group]
#: what the denotation gives a meaning; some other mistakes it calls by another kind
MEANT = ("life cycle", "access order")


def test_hints_do_not_depend_on_what_was_imported_before() -> None:
    """Such as the tables of operators and functions, which the parser itself has no use for."""
    code = """from finchlang.text.parse import FinchError, parse_script
try:
    parse_script("y = np.where(x > 1, np.sqrt(x), np.sum(y))")
except FinchError as error:
    print(error.hint)"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "write `ifelse.(x .> 1, sqrt.(x), sum(y))`\n"


def run(text: str) -> Session:
    session = Session(output=lambda _: None, workspaces=False)
    session.run(text, "mistake.finch")
    return session


@cache
def said_of(text: str) -> FinchError | str:
    """The error of a mistake, or else the notes about it."""
    try:
        return "\n".join(map(str, run(text).notes))
    except FinchError as error:
        return error


def error_of(text: str) -> FinchError:
    error = said_of(text)
    assert isinstance(error, FinchError), text
    return error


def test_there_are_three_hundred() -> None:
    assert len({*ALL}) >= 600 and len(GROUPS["new_users"]) >= 350
    assert all(map(said_of, ALL)), "nothing is said of some"


@pytest.mark.parametrize("group", GROUPS)
def test_what_is_said(golden: Callable[[str, str], None], group: str) -> None:
    said = [f"{text}\n-----\n{said_of(text)}\n" for text in GROUPS[group]]
    golden(f"mistakes/{group}.txt", "\n".join(said))


@pytest.mark.parametrize("engine", [engine for engine in ENGINES if engine != "check"])
def test_engines_agree_and_change_nothing(engine: str) -> None:
    for text in [*GROUPS["wrong_kernels"], *(GROUPS["kernels"] if engine != "denote" else ())]:
        meant = error_of(text)
        assert meant.span is not None
        if meant.kind == "syntax" or (engine == "denote" and meant.kind in MEANT):
            continue
        session = Session(engine, workspaces=False)
        before, kernel, rest = text.partition("@finch")
        session.run(before)
        values = {name: contents(session[name]) for name in session.names()}
        with pytest.raises(FinchError) as caught:
            session.run("\n" * before.count("\n") + kernel + rest)
        found = caught.value
        assert found.kind == meant.kind, (text, found)
        assert found.span is not None and found.span.line == meant.span.line, (text, found)
        assert values == {name: contents(session[name]) for name in session.names()}, text


def contents(value: Any) -> Any:
    if isinstance(value, np.ndarray) or hasattr(value, "to_numpy"):
        array = value if isinstance(value, np.ndarray) else value.to_numpy()
        return array.shape, array.tolist()
    return repr(value)


@pytest.mark.parametrize("group", GROUPS)
def test_hints_are_other_texts_than_what_was_typed_and_parse(group: str) -> None:
    for text in GROUPS[group]:
        error = said_of(text)
        hint = (isinstance(error, FinchError) and error.hint) or ""
        codes = re.findall(r"`([^`]+)`", hint)
        assert hint.strip() != text.strip() and not ({*codes} - {"end"}) & {text, *text.split("\n")}
        for code in [] if isinstance(hint, Hint) else re.findall(r"write `([^`]+)`", hint):
            assert parses(code), f"{code!r} is no program: {text}"


@pytest.mark.parametrize("group", GROUPS)
def test_hints_with_code_run_in_place_of_what_is_marked(group: str) -> None:
    """The whole text runs then, and its assertions hold, or what else is wrong is elsewhere."""
    for text in GROUPS[group]:
        error = said_of(text)
        mended = error.mended() if isinstance(error, FinchError) else None
        if isinstance(error, str) or mended is None:
            continue
        place = getattr(error.hint, "span", None) or error.span
        assert isinstance(error.hint, Hint) and place is not None and mended != text
        start, more = place.offsets[0], len(error.hint.code)
        try:
            run(mended)
        except FinchError as other:
            found = other.span.offsets[0] if other.span is not None else start
            is_unknown = other.kind == "unknown name" and other.span is not None
            is_elsewhere = not start <= found <= start + more or other.kind in ("dimension", "I/O")
            assert is_elsewhere or (is_unknown and other.span.text in text), (text, other)
            assert "assertion failed" not in other.message, (text, other)
            assert group != "new_users", (text, other)


def parses(code: str) -> bool:
    """Whether a text parses as it stands, with what belongs where it has dots, or as an operator."""
    dots = (" ... ", "\n"), ("...", "1"), ("...", "A")
    ways = [code.replace(*some) + more for some in dots for more in ("", "\nend")]
    for way in (*ways, f"s[] {code} 1"):
        for parse in parse_script, parse_kernel:
            try:
                parse(way)
            except FinchError:
                continue
            return True
    return False


def test_every_name_of_other_languages_has_our_way() -> None:
    """Code that parses with its parameters as names, or words; and none is guessed for another name."""
    found = foreign_names.rows(True)
    assert len(found) >= 200
    for name, rows in found.items():
        assert all(row.ours for row in rows)
        for row in rows:
            assert row.is_text or row.ours == "_" or parses(row.ours), (name, row.ours)
            assert not row.is_text or all(map(parses, re.findall(r"write `([^`]+)`", row.ours))), (
                name
            )
        codes = (r.ours for r in rows if not r.is_text)
        called = (c for code in codes for c in re.findall(r"(?<![\w.@])(\w+!?)\.?\(", code))
        assert {*called} <= {*PREDEFINED, *"fT", "_"}, name
    for name in ("sigmoid", "len", "CSRFormat", "arange", "rank", "isinf", "mode", "modf", "read"):
        error = error_of(f"{name}(1, 2, 3, 4, 5)")
        assert "did you mean" not in (error.hint or "")


def test_of_a_long_line_what_is_near_is_shown() -> None:
    for name, terms in ("§", 1000), ('"' + "a" * 9999, 1):
        with pytest.raises(FinchError) as caught:
            parse_script(f"x = {'1 + ' * terms}{name}")
        first, shown, carets, *_ = str(caught.value).split("\n")
        assert len(first) < 99 and len(shown) < 230 and 1 <= carets.count("^") < 230
        assert shown[carets.index("^")] == name[0]
    with pytest.raises(FinchError, match=r"`9{20}…9{10}` is not a number"):
        parse_script("9" * 5000)


@pytest.mark.parametrize(
    ("text", "column", "width"),
    [
        ("\tx = nope", 8, 4),
        ('x = "日本語"; y = nope', 18, 4),
        ('x = "e\u0301"; y = nope', 13, 4),
        ("if true\n  \tx = nope\nend", 8, 4),
    ],
)
def test_carets_stand_by_display_width(text: str, column: int, width: int) -> None:
    line = error_of(text).render().split("\n")[2]
    assert line == " " * (len("1 | ") + column) + "^" * width


@pytest.mark.parametrize("text", ["if x > 2:", "for i in x:", "x++", "x = 'abc'", "def f(x):"])
def test_what_is_never_right_is_not_waited_for(text: str) -> None:
    """At the prompt a line that begins as another language has it is an error at once."""
    with pytest.raises(FinchError) as caught:
        parse_script(text)
    assert type(caught.value) is FinchError


WAITED_FOR = ["x = 1 +", "f(a,", "x = [1 2", 'x = "abc', "#= a comment", "@finch begin", "if x"]
WAITED_FOR += ["@finch begin\n for i = _\n end", "if x\nelse", "function f(x)"]
WAITED_FOR += ["@schedule reorder(k, i)", "@workspace C policy=hash\n"]
WHOLE = [
    "",
    "x = 1",
    "@finch begin\n for i = _\n end\nend",
    "x = = 1\nbegin",
    "end",
    "f(]",
    "x ? y",
]
WHOLE += [f"@schedule reorder(k, i)\n{text}" for text in ("x = 1", "@finch s[] = 1")]


@pytest.mark.parametrize("text", [*WAITED_FOR, *WHOLE])
def test_what_is_waited_for(text: str) -> None:
    assert is_incomplete(text) == (text in WAITED_FOR)


# fmt: off
PIECES = [
    "for", "i", "=", "_", "in", "end", "if", "else", "elseif", "let", "begin", "function", "f(",
    "(", ")", "[", "]", "{", "}", ",", ";", "\n", ":", "?", "+", "-", "*", "^", "<", "==", "&&",
    "!", "~", "1", "2.5", "0x1", '"s$x"', '"', "@finch", "@freeze", "@declare", "@time", "@foo",
    "@assert", ".=", ":=", "+=", "<<min>>=", "<<", "return", "break", "while", "A[", "A[i] = ",
    "s[] += ", "#=", "=#", "#c\n", "'", ".", "Inf", "Float32(", "$", "\\", "÷", "α", "%=",
    "for i = _\n", "x = 1\n", "A .= 0\n",
]
# fmt: on


@settings(max_examples=300)
@given(st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(["", " "])), max_size=12))
def test_any_text_is_a_program_or_told_its_place(pieces: Any) -> None:
    text = "".join(piece + blank for piece, blank in pieces)
    for parse in (parse_script, parse_kernel):
        try:
            program = parse(text)
        except FinchError as error:
            assert error.kind == "syntax"
            lines = text.split("\n")
            assert 1 <= error.span.line <= len(lines)
            assert 1 <= error.span.column <= len(lines[error.span.line - 1]) + 1
            assert error.render()
        else:
            assert parse(pretty(program)) == program
