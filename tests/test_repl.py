"""The prompt: statements typed or piped, what it prints, and how it goes on after an error."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
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

from finchlang.repl import terminal
from finchlang.repl.__main__ import parse
from finchlang.repl.commands import _session_of
from finchlang.repl.completion import Completions
from finchlang.repl.conversation import Conversation, read_all
from finchlang.repl.look import COLOURS, FinchLexer, depth
from finchlang.repl.prompt import answer, converse
from finchlang.source import Bug, FinchError

pytestmark = pytest.mark.optimised


@pytest.fixture
def talk(monkeypatch) -> Conversation:
    monkeypatch.setenv("FINCH_HISTORY", "")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    return Conversation(lambda conversation: _session_of(parse([]), conversation))


# ----------------------------------------------------------------------------------------- a pipe


def piped(talk: Conversation, text: str) -> int:
    return read_all(talk, io.StringIO(text))


def test_values_are_shown_one_by_one(talk: Conversation, capsys) -> None:
    text = "x = 1;\nx + 2; x + 3\nx + 4;\n# nothing\nprintln(x)\n(x +\n 5)"
    assert piped(talk, text) == 0
    assert capsys.readouterr().out.split() == ["4", "1", "6"]
    assert talk.session["x"] == 1


def test_nothing_runs_unless_all_of_it_parses(talk: Conversation, capsys) -> None:
    with pytest.raises(FinchError) as caught:
        piped(talk, "println(1)\nx = 2 +* 3")
    assert caught.value.kind == "syntax" and caught.value.span.line == 2
    assert capsys.readouterr().out == "" and "x" not in talk.session


def test_statements_before_the_wrong_one_have_run(talk: Conversation, capsys) -> None:
    with pytest.raises(FinchError) as caught:
        piped(talk, "x = 1\n\nfor k = 1:3\n    x += k\nend;  x + absent\nprintln(x)")
    span = caught.value.span
    assert (caught.value.kind, span.source.name) == ("unknown name", "<stdin>")
    assert (span.line, span.column) == (5, 11)
    assert talk.session["x"] == 7
    assert "absent" in caught.value.render().splitlines()[1]


def test_a_kernel_in_a_pipe(talk: Conversation, capsys) -> None:
    text = "s = Scalar(0)\n@finch begin\n    for i = 1:4\n        s[] += i\n    end\nend\ns[]"
    assert piped(talk, text) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "10"


def test_bytes_that_are_no_text(talk: Conversation) -> None:
    with pytest.raises(FinchError) as caught:
        read_all(talk, io.TextIOWrapper(io.BytesIO(b"\xff\xfe"), "utf-8"))
    assert caught.value.kind == "I/O"


# ------------------------------------------------------------------------------------- a terminal


@pytest.fixture
def typed(monkeypatch):
    """A conversation in which these inputs come complete; an exception among them is raised."""

    def conversation(talk: Conversation, *inputs: str | BaseException) -> int:
        coming = iter(inputs)

        def ask() -> str:
            item = next(coming, EOFError())
            if isinstance(item, BaseException):
                raise item
            return item

        monkeypatch.setattr(terminal, "asking", lambda talk, begin: ask)
        return converse(talk, "banner")

    return conversation


def test_a_conversation(talk: Conversation, typed, capsys) -> None:
    assert typed(talk, "x = 40;", "", "x + 2", "x + 3;", "nothing") == 0
    assert capsys.readouterr() == ("banner\n42\n", "")


def test_it_goes_on_after_an_error(talk: Conversation, typed, capsys) -> None:
    assert typed(talk, "x = absent", "1 +* 2", "6 * 7") == 0
    out, err = capsys.readouterr()
    assert out == "banner\n42\n"
    assert "<input>:1:5: unknown name error" in err and "\n1 | x = absent\n        ^^^^^^" in err
    assert "<input>:1:4: syntax error" in err and "Traceback" not in err


def test_ctrl_c_drops_the_line(talk: Conversation, typed, capsys) -> None:
    assert typed(talk, KeyboardInterrupt(), "6 * 7") == 0
    assert capsys.readouterr() == ("banner\n42\n", "")


@pytest.mark.parametrize("stop", (KeyboardInterrupt(), FinchError("interrupted", "interrupted")))
def test_ctrl_c_stops_a_run(stop, talk: Conversation, typed, capsys, monkeypatch) -> None:
    def run(text: str, name: str) -> None:
        if text != "again":
            raise stop
        print(42)

    monkeypatch.setattr(talk, "run", run)
    assert typed(talk, "forever", "again") == 0
    out, err = capsys.readouterr()
    assert out == "banner\n42\n" and "interrupted" in err and "Traceback" not in err


def test_it_survives_a_bug(talk: Conversation, typed, capsys, monkeypatch) -> None:
    def run(text: str, name: str) -> None:
        raise Bug("lost a term")

    monkeypatch.setattr(talk, "run", run)
    assert typed(talk, "1") == 0
    assert "This is a bug in finchlang" in capsys.readouterr().err


@pytest.fixture
def keys(talk: Conversation) -> Iterator:
    """A function that types keys at a real prompt without a screen; gives what it reads."""
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        ask = terminal.asking(talk, lambda: None)

        def press(text: str) -> str:
            pipe.send_text(text)
            return ask()

        yield press


def test_enter_runs_a_complete_input(keys) -> None:
    assert keys("1 + 2\r") == "1 + 2"
    assert keys("\r") == ""
    assert keys("1 +* 2\r") == "1 +* 2"  # wrong whatever follows: say so at once


def test_an_open_block_goes_on(keys) -> None:
    assert keys("for k = 1:3\rx = k\rend\r") == "for k = 1:3\n    x = k\nend"
    assert keys("(1 +\r2)\r") == "(1 +\n    2)"


def test_control_keys(keys) -> None:
    with pytest.raises(KeyboardInterrupt):
        keys("for k = 1:3\r\x03")
    with pytest.raises(EOFError):
        keys("\x04")


# ---------------------------------------------------------------------------------------- history


def test_where_the_history_is_kept(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FINCH_HISTORY", str(tmp_path / "mine"))
    assert terminal.history_file() == tmp_path / "mine"
    monkeypatch.setenv("FINCH_HISTORY", "")
    assert terminal.history_file() is None
    monkeypatch.delenv("FINCH_HISTORY")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert terminal.history_file() == tmp_path / "finchlang" / "history"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert terminal.history_file() == tmp_path / ".local" / "state" / "finchlang" / "history"


def test_what_was_typed_is_kept(monkeypatch, tmp_path: Path, talk: Conversation) -> None:
    path = tmp_path / "deep" / "history"
    monkeypatch.setenv("FINCH_HISTORY", str(path))
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        pipe.send_text("x = 1234\r")
        assert terminal.asking(talk, lambda: None)() == "x = 1234"
        pipe.send_text("\x1b[A\r")  # arrow up, in the next session
        assert terminal.asking(talk, lambda: None)() == "x = 1234"
    assert "x = 1234" in path.read_text("utf-8")


def test_a_history_that_cannot_be_written(monkeypatch, tmp_path: Path, talk: Conversation) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FINCH_HISTORY", str(tmp_path / "file" / "history"))
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        pipe.send_text("x = 1\r")
        assert terminal.asking(talk, lambda: None)() == "x = 1"


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


@given(st.text(alphabet="for end[(])if \n#x", max_size=40))
def test_any_text_has_a_depth(text: str) -> None:
    assert depth(text) >= 0


def test_how_deep_blocks_are() -> None:
    text = "for i = 1:3 # if\n    if x[end]\n        f(1,"
    assert [depth(text[:k]) for k in (0, 11, 19, 33, len(text))] == [0, 1, 1, 2, 3]
    assert depth("for i = 1:3\nend") == 0


def test_colours_are_legible_on_black_and_on_white() -> None:
    """By the contrast that WCAG 2 defines; 3 is the least for large text and for interfaces."""
    for colour in COLOURS.values():
        parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        red, green, blue = (p / 12.92 if p <= 0.04 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        light = 0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05
        assert min(1.05 / light, light / 0.05) > 4


# ------------------------------------------------------------------------------------- completion


@pytest.fixture
def complete(talk: Conversation) -> Callable[[str], dict[str, str]]:
    """The completions at the end of a text, with what is said of them."""

    def completions(text: str) -> dict[str, str]:
        found = Completions(talk).get_completions(Document(text), CompleteEvent())
        return {c.text or c.display_text: c.display_meta_text for c in found}

    answer(talk, "weight = 3; mat = zeros(2, 3); spread = fsparse([1], [2], [3.0]);")
    return completions


def test_words_and_variables_are_completed(complete) -> None:
    assert list(complete("1 + we")) == ["weight"]
    assert list(complete("wh")) == ["while"]
    assert list(complete("@f")) == ["@finch", "@freeze"]
    assert complete("weight") == {} and complete("1 + ") == {}
    assert complete("sqr") == {"sqrt": "sqrt(x)"}


def test_variables_are_completed_with_size_and_format(complete) -> None:
    assert complete("2 * m") | {"mat": "an array of size 2 x 3, Float64"} == complete("2 * m")
    assert complete("x = spr") == {"spread": "1x2 Tensor(Dense(SparseList(Element(0.0))))"}


def test_arguments_are_completed(complete) -> None:
    assert complete("fsprand(3, 3, 0.1; se")["seed = "] == "fsprand(m, n, density; seed)"
    assert complete("countstored(") == {"countstored(A)": ""}
    assert complete("length(") == {"length(A)": ""}
    assert complete("length(mat) + (") == {}


def test_commands_are_completed(complete) -> None:
    assert list(complete(":lo")) == [":load"]
    assert "sqrt" in complete(":help sq") and "sqrt" in complete("?sq")
    assert list(complete(":engine in")) == ["interpret"]
    assert list(complete(":show wei")) == ["weight"]


def test_paths_are_completed(complete, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "data.mtx").write_text("")
    monkeypatch.chdir(tmp_path)
    assert list(complete('fread("da')) == ["ta.mtx"]
    assert list(complete(":load da")) == ["ta.mtx"]
    assert complete('x = "a" + da') == {}
