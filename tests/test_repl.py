"""The prompt: statements typed or piped, what it prints, and how it goes on after an error."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from pygments.token import Error, Keyword, Name

from finchlang.repl import session as repl
from finchlang.repl.look import FinchLexer, NameCompleter
from finchlang.repl.report import write
from finchlang.session import Session
from finchlang.source import Bug, FinchError


@pytest.fixture
def session() -> Session:
    return Session(output=write)


# ----------------------------------------------------------------------------------------- a pipe


def piped(session: Session, text: str) -> int:
    return repl.read_all(session, io.StringIO(text))


def test_values_are_shown_one_by_one(session: Session, capsys) -> None:
    text = "x = 1;\nx + 2; x + 3\nx + 4;\n# nothing\nprintln(x)\n(x +\n 5)"
    assert piped(session, text) == 0
    assert capsys.readouterr().out.split() == ["4", "1", "6"]
    assert session["x"] == 1


def test_nothing_runs_unless_all_of_it_parses(session: Session, capsys) -> None:
    with pytest.raises(FinchError) as caught:
        piped(session, "println(1)\nx = 2 +* 3")
    assert caught.value.kind == "syntax" and caught.value.span.line == 2
    assert capsys.readouterr().out == "" and "x" not in session


def test_statements_before_the_wrong_one_have_run(session: Session, capsys) -> None:
    with pytest.raises(FinchError) as caught:
        piped(session, "x = 1\n\nfor k = 1:3\n    x += k\nend;  x + absent\nprintln(x)")
    span = caught.value.span
    assert (caught.value.kind, span.source.name) == ("unknown name", "<stdin>")
    assert (span.line, span.column) == (5, 11)
    assert session["x"] == 7
    assert "absent" in caught.value.render().splitlines()[1]


def test_a_kernel_in_a_pipe(session: Session, capsys) -> None:
    text = "s = Scalar(0)\n@finch begin\n    for i = 1:4\n        s[] += i\n    end\nend\ns[]"
    assert piped(session, text) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "10"


def test_bytes_that_are_no_text(session: Session) -> None:
    with pytest.raises(FinchError) as caught:
        repl.read_all(session, io.TextIOWrapper(io.BytesIO(b"\xff\xfe"), "utf-8"))
    assert caught.value.kind == "I/O"


# ------------------------------------------------------------------------------------- a terminal


@pytest.fixture
def typed(monkeypatch):
    """A conversation in which these inputs come complete; an exception among them is raised."""

    def conversation(session: Session, *inputs: str | BaseException) -> int:
        coming = iter(inputs)

        def ask() -> str:
            item = next(coming, EOFError())
            if isinstance(item, BaseException):
                raise item
            return item

        monkeypatch.setattr(repl, "_terminal", lambda session: ask)
        return repl.converse(session, "banner")

    return conversation


def test_a_conversation(session: Session, typed, capsys) -> None:
    assert typed(session, "x = 40;", "", "x + 2", "x + 3;", "nothing") == 0
    assert capsys.readouterr() == ("banner\n42\n", "")


def test_it_goes_on_after_an_error(session: Session, typed, capsys) -> None:
    assert typed(session, "x = absent", "1 +* 2", "6 * 7") == 0
    out, err = capsys.readouterr()
    assert out == "banner\n42\n"
    assert "<input>:1:5: unknown name error" in err and "\n1 | x = absent\n        ^^^^^^" in err
    assert "<input>:1:4: syntax error" in err and "Traceback" not in err


def test_ctrl_c_drops_the_line(session: Session, typed, capsys) -> None:
    assert typed(session, KeyboardInterrupt(), "6 * 7") == 0
    assert capsys.readouterr() == ("banner\n42\n", "")


@pytest.mark.parametrize("stop", (KeyboardInterrupt(), FinchError("interrupted", "interrupted")))
def test_ctrl_c_stops_a_run(stop, session: Session, typed, capsys, monkeypatch) -> None:
    def run(text: str) -> int:
        if text == "again":
            return 42
        raise stop

    monkeypatch.setattr(session, "run", run)
    assert typed(session, "forever", "again") == 0
    out, err = capsys.readouterr()
    assert out == "banner\n42\n" and "interrupted" in err and "Traceback" not in err


def test_it_survives_a_bug(session: Session, typed, capsys, monkeypatch) -> None:
    def run(text: str) -> None:
        raise Bug("lost a term")

    monkeypatch.setattr(session, "run", run)
    assert typed(session, "1") == 0
    assert "This is a bug in finchlang" in capsys.readouterr().err


@pytest.fixture
def keys(monkeypatch, session: Session) -> Iterator:
    """A function that types keys at a real prompt without a screen; gives what it reads."""
    monkeypatch.setenv("FINCH_HISTORY", "")
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        ask = repl._terminal(session)

        def press(text: str) -> str:
            pipe.send_text(text)
            return ask()

        yield press


def test_enter_runs_a_complete_input(keys) -> None:
    assert keys("1 + 2\r") == "1 + 2"
    assert keys("\r") == ""
    assert keys("1 +* 2\r") == "1 +* 2"  # wrong whatever follows: say so at once


def test_an_open_block_goes_on(keys) -> None:
    assert keys("for k = 1:3\rx = k\rend\r") == "for k = 1:3\nx = k\nend"
    assert keys("(1 +\r2)\r") == "(1 +\n2)"


def test_control_keys(keys) -> None:
    with pytest.raises(KeyboardInterrupt):
        keys("for k = 1:3\r\x03")
    with pytest.raises(EOFError):
        keys("\x04")


# ---------------------------------------------------------------------------------------- history


def test_where_the_history_is_kept(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FINCH_HISTORY", str(tmp_path / "mine"))
    assert repl.history_file() == tmp_path / "mine"
    monkeypatch.setenv("FINCH_HISTORY", "")
    assert repl.history_file() is None
    monkeypatch.delenv("FINCH_HISTORY")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert repl.history_file() == tmp_path / "finchlang" / "history"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert repl.history_file() == tmp_path / ".local" / "state" / "finchlang" / "history"


def test_what_was_typed_is_kept(monkeypatch, tmp_path: Path, session: Session) -> None:
    path = tmp_path / "deep" / "history"
    monkeypatch.setenv("FINCH_HISTORY", str(path))
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        pipe.send_text("x = 1234\r")
        assert repl._terminal(session)() == "x = 1234"
        pipe.send_text("\x1b[A\r")  # arrow up, in the next session
        assert repl._terminal(session)() == "x = 1234"
    assert "x = 1234" in path.read_text("utf-8")


def test_a_history_that_cannot_be_written(monkeypatch, tmp_path: Path, session: Session) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FINCH_HISTORY", str(tmp_path / "file" / "history"))
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        pipe.send_text("x = 1\r")
        assert repl._terminal(session)() == "x = 1"


# ------------------------------------------------------------------------------------------- look


@given(st.text(alphabet='for end@finch"$()#=\n <>+*1.5e3 αxA[]_!', max_size=60))
def test_colours_change_no_text(text: str) -> None:
    tokens = FinchLexer(ensurenl=False, stripnl=False).get_tokens(text)
    assert "".join(value for _, value in tokens) == text


def test_colours_of_a_program() -> None:
    text = '@finch for i = _\n    A[i] <<min>>= 2.5 # note\nend\nSparseList("$(x)") #= a #= b =# =#'
    tokens = list(FinchLexer().get_tokens(text))
    assert not [value for kind, value in tokens if kind is Error]
    kinds = {value: kind for kind, value in tokens}
    assert kinds["for"] is kinds["end"] is Keyword
    assert kinds["SparseList"] is Name.Class


def test_completions() -> None:
    completer = NameCompleter(lambda: ["weight", "width"])

    def completions(text: str) -> list[str]:
        found = completer.get_completions(Document(text), CompleteEvent())
        return [completion.text for completion in found]

    assert completions("1 + w") == ["weight", "while", "width"]
    assert completions("@f") == ["@finch", "@freeze"]
    assert completions("weight") == [] and completions("1 + ") == []
