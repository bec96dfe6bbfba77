"""What the prompt is made of: completion, history, colours and the depth of blocks, and that it outlives a
fault of ours. What is typed and answered is in `product/transcripts/prompt.txt`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import indent

import pytest
from hypothesis import given, strategies as st
from prompt_toolkit.application import create_app_session
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from pygments.token import Error, Keyword, Name

from finchlang import Session
from finchlang.base.errors import Bug
from finchlang.repl import directives, terminal
from finchlang.repl.completion import Completions
from finchlang.repl.highlight import COLOURS, FinchLexer, depth
from finchlang.repl.outline import Outline
from finchlang.repl.prompt_session import Conversation
from finchlang.repl.terminal import answer, converse


@pytest.fixture
def talk(monkeypatch: pytest.MonkeyPatch) -> Conversation:
    monkeypatch.setenv("FINCH_HISTORY", "")
    return Conversation(lambda conversation: Session())


def test_it_survives_a_bug(talk: Conversation, capsys, monkeypatch) -> None:
    def run(text: str, name: str) -> None:
        if text == "1":
            raise Bug("lost a term")
        print(text)

    lines = iter(["1", "2"])

    def ask() -> str:
        if (line := next(lines, None)) is None:
            raise EOFError
        return line

    monkeypatch.setattr(talk, "run", run)
    monkeypatch.setattr(terminal, "asking", lambda talk, begin: ask)
    assert converse(talk, "banner") == 0
    out, err = capsys.readouterr()
    assert out == "banner\n2\n" and "This is a bug in finchlang" in err


# ---------------------------------------------------------------------------------------- history


def test_where_the_history_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("is_written", [True, False])
def test_what_was_typed_is_kept(
    is_written: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, talk: Conversation
) -> None:
    """Where it can be."""
    path = tmp_path / "deep" / "history"
    if not is_written:
        path.parent.write_text("")
    monkeypatch.setenv("FINCH_HISTORY", str(path))
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        pipe.send_text("x = 1234\r")
        assert terminal.asking(talk, lambda: None)() == "x = 1234"
        pipe.send_text("\x1b[A\r")  # arrow up, in the next session
        assert terminal.asking(talk, lambda: None)() == "x = 1234" * is_written
    assert not is_written or "x = 1234" in path.read_text("utf-8")


# ------------------------------------------------------------------------------------------- look


@given(st.text(alphabet='for end@finch"$()#=\n <>+*1.5e3 αxA[]_!', max_size=60))
def test_colours_change_no_text(text: str) -> None:
    tokens = FinchLexer(ensurenl=False, stripnl=False).get_tokens(text)
    assert "".join(value for _, value in tokens) == text
    assert depth(text) >= 0


def test_colours_of_a_program() -> None:
    text = '@finch for i = _\n    A[i] <<min>>= 2.5 # note\nend\nSparseList("$(x)") #= a #= b =# =#'
    kinds = {value: kind for kind, value in FinchLexer().get_tokens(text)}
    assert Error not in kinds.values()
    assert kinds["for"] is kinds["end"] is Keyword
    assert kinds["SparseList"] is Name.Class


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


def test_names_that_a_text_binds() -> None:
    text = "f(a, b) = a + b\nlet c = 1,\n    d = 2\n    c\nend\np, q = 1, g(k=2)\nA[i] = e\n"
    text += "for i = 1:3, j ∈ 1:3\n    s = i\nend\nx -> x; [y for y in p]\nfunction h()\nv = 3 + "
    outline = Outline(text)
    everywhere = {b.name for b in outline.bindings if b.scope.parent is None}
    assert everywhere == {"f", "p", "q", "s", "h"}
    assert {"a", "b"} <= outline.visible(text.index("+")).keys()
    assert {"c", "d"} <= outline.visible(text.index("c\nend")).keys()
    assert {"i", "j"} <= outline.visible(text.index("s =")).keys()
    assert not {"a", "c", "i"} & outline.visible(text.index("h(")).keys()
    assert outline.visible(text.index("y for"))["y"].kind == "index"


_PIECES = [
    *"xyfi=()[],;.+\n",
    ".=",
    "->",
    "for",
    "in",
    "1:x",
    "end",
    "@finch",
    "function",
    "do",
    "let",
]
_PIECES += ["if", "begin", '"a $x"', '"$(x + y)', "# x"]


@given(st.lists(st.sampled_from(_PIECES), max_size=25))
def test_a_name_is_among_its_references(pieces: list[str]) -> None:
    """Also in a text that does not parse; what has the same references means the same."""
    outline = Outline(" ".join(pieces))
    for word in outline.words:
        assert outline.text[word.at : word.end] == word.text
        if word.is_name and (found := outline.name_at(word.at)) is not None and found == word:
            same = outline.references(word)
            assert word in same and all(outline.references(other) == same for other in same)
    outline.call_around(len(outline.text))


# ------------------------------------------------------------------------------------- completion


@pytest.fixture
def complete(talk: Conversation) -> Callable[[str], dict[str, str]]:
    """The completions at the end of a text, with what is said of them."""

    def completions(text: str) -> dict[str, str]:
        found = Completions(talk).get_completions(Document(text), CompleteEvent())
        return {c.text or c.display_text: c.display_meta_text for c in found}

    answer(talk, "weight = 3; mat = zeros(2, 3); spread = fsparse([1], [2], [3.0]);")
    return completions


def test_what_is_completed(complete: Callable[[str], dict[str, str]]) -> None:
    for text, words in {
        "1 + we": ["weight"],
        "wh": ["while"],
        "@f": ["@finch", "@freeze"],
        "weight": [],
        "1 + ": [],
        "length(mat) + (": [],
        ":lo": [":load"],
        ":engine in": ["interpret"],
        ":show wei": ["weight"],
        'x = "a" + da': [],
    }.items():
        assert list(complete(text)) == words, text
    assert complete("sqr") == {"sqrt": "sqrt(x)"}
    assert "sqrt" in complete(":help sq") and "sqrt" in complete("?sq")
    assert complete("2 * m")["mat"] == "an array of size 2 x 3, Float64"
    assert complete("x = spre") == {"spread": "1x2 Tensor(Dense(SparseList(Element(0.0))))"}
    assert complete("fsprand(3, 3, 0.1; se")["seed = "] == "fsprand(m, n, density; seed)"
    assert complete("countstored(") == {"countstored(A)": ""}


def test_paths_are_completed(
    complete: Callable[[str], dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data.mtx").write_text("")
    monkeypatch.chdir(tmp_path)
    assert list(complete('fread("da')) == list(complete(":load da")) == ["ta.mtx"]


def test_help_begins_with_eight_lines_that_run() -> None:
    lines = directives.overview().split("\n")[:8]
    printed: list[str] = []
    Session(output=printed.append).run("\n".join(lines))
    assert "".join(printed) == "6.03.0\n"


@pytest.mark.parametrize("prompt", ["finch> ", "julia> "])
def test_prompts_before_pasted_lines_are_dropped(prompt: str) -> None:
    blank = " " * len(prompt)
    text = f"{prompt}x = [1,\n{blank}2]\n[1, 2]\n{prompt}sum(x)\n3"
    assert terminal.without_prompts(text) == "x = [1,\n2]\nsum(x)"
    indented = "\n" + indent(text, "  ")
    assert terminal.without_prompts(indented) == "x = [1,\n2]\nsum(x)"


def test_lines_of_a_string_are_not_indented() -> None:
    for text, wanted in [('f("a', "\n"), ('f("a", ', "\n    "), ('for i = 1:2 # "', "\n    ")]:
        buffer = Buffer(document=Document(text))
        terminal.new_line(buffer)
        assert buffer.text == text + wanted
