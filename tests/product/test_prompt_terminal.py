"""The prompt at a pseudo-terminal, as a person meets it: each key, pastes, interrupts, any terminal."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pseudo_terminal import PseudoTerminal

FINCH = [sys.executable, "-m", "finchlang.repl"]
UP, DOWN, LEFT, TAB, ESCAPE = "\x1b[A", "\x1b[B", "\x1b[D", "\t", "\x1b"
CTRL_C, CTRL_D, CTRL_X, CTRL_E, CTRL_R = "\x03", "\x04", "\x18", "\x05", "\x12"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., PseudoTerminal]]:
    with ExitStack() as stack:

        def starting(*arguments: str, **choices) -> PseudoTerminal:
            terminal = PseudoTerminal([*FINCH, *arguments], tmp_path, **choices)
            return stack.enter_context(terminal)

        yield starting


@pytest.fixture
def prompt(start) -> PseudoTerminal:
    terminal = start()
    greeting = terminal.wait("finch> ")
    assert ":help" in greeting and "Ctrl-D" in greeting
    return terminal


def test_brackets_are_matched(prompt) -> None:
    prompt.send(f"(1 + 2){LEFT}")
    while not re.search(r"48;5;\d+m\((.|\n)*48;5;\d+m\)", prompt.raw):
        assert prompt.read(10), prompt.raw


def test_ctrl_d_leaves(prompt) -> None:
    prompt.send(CTRL_D)
    assert prompt.ended() == 0


def test_enter_indents_and_end_goes_back(prompt) -> None:
    prompt.type("for i = 1:2\rif i > 1\rprintln(10 * i)\rend\rend\r", r"\n20\s")
    text = prompt.type(UP, r"(?s)for i = 1:2.*end.*end")
    assert "     |     if i > 1" in text and "     |         println" in text
    assert "     |     end" in text and "     | end" in text


def test_alt_enter_inserts_a_line(prompt) -> None:
    prompt.type(f"x = 5{ESCAPE}\rx + 1\r", r"\n5\s+6\s+finch> $")
    # the first line of what is recalled is completed by another one
    prompt.type(f"{UP}{UP}\x05{ESCAPE}\r10 * x\r", r"\n5\s+50\s+6\s")


def test_up_searches_by_what_is_typed(prompt) -> None:
    prompt.type("first = 1\rsecond = 2\rthird = 3\r", r"\n3\s+finch> $")
    prompt.type(f"f{UP} + 100\r", r"\n101\s")


def test_ctrl_r_searches(prompt) -> None:
    prompt.type("alpha = 11;\rbeta = 22;\r1\r", r"\n1\s+finch> $")
    prompt.type(f"{CTRL_R}alph\r", "alpha = 11;")
    prompt.type(f"{CTRL_E} alpha + 1\r", r"\n12\s")


def test_tab_completes(prompt) -> None:
    prompt.type("weight = fsparse([1], [2], [3.0]);\r", r"\nfinch> $")
    prompt.type(f"wei{TAB}", "ght")
    prompt.type("[1, 2]\r", r"\n3.0\s")
    prompt.type(f"countst{TAB}", "ored")
    prompt.type("(weight)\r", r"\n1\s")
    prompt.type(f"w{TAB}", r"weight +1x2 Tensor\(")


def test_an_editor_is_opened(start, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\necho "21 * 2" > "$1"\n')
    editor.chmod(0o755)
    prompt = start(EDITOR=str(editor), VISUAL=str(editor))
    prompt.wait("finch> ")
    prompt.type(f"1 + 1{CTRL_X}{CTRL_E}", r"21 \* 2")
    prompt.type("\r", r"\n42\s")


def test_vi_keys(start) -> None:
    prompt = start(FINCH_KEYS="vi")
    prompt.wait("finch> ")
    prompt.type("12", "12")
    prompt.send(ESCAPE)
    while not prompt.read(10):  # the cursor goes back once the escape is known to stand alone
        pass
    prompt.type("x\r", r"\n1\s")
    prompt.type(":keys emacs\r", "emacs\n")
    prompt.type("5\x016\r", r"\n65\s")


@pytest.mark.parametrize("line_end", ("\n", "\r\n", "\r"))
def test_a_paste_shows_each_value(line_end: str, prompt) -> None:
    lines = ["a = 3", "a + 4; # quiet", "for k = 1:2", "    println(k)", "end", "a + 5"]
    prompt.send(f"\x1b[200~{line_end.join(lines)}\x1b[201~")
    prompt.type("\r", r"\n3\s+1\s+2\s+8\s")


def test_errors_of_several_statements_come_together(prompt) -> None:
    lines = ["x = 2 ** 3", "y = 1", "def f(x):", "println(y)"]
    prompt.send("\x1b[200~" + "\n".join(lines) + "\x1b[201~\r")
    shown = prompt.wait(
        r"def` is not a word of the language\s+3 \| def f\(x\):\s+\^\^\^\s+hint: .*\n"
    )
    assert re.search(
        r"1:7: syntax error: `\*\*` is no operator\s+1 \| x = 2 \*\* 3\s+\^\^\n", shown
    )


def test_a_paste_of_what_the_prompt_showed(prompt) -> None:
    shown = "finch> for k = 1:2\n     |     println(10 * k)\n     | end\n10\n20\nfinch> 6 * 7\n42"
    prompt.send(f"\x1b[200~{shown}\x1b[201~")
    prompt.type("\r", r"\n10\s+20\s+42\s")


def test_a_paste_without_brackets(prompt) -> None:
    prompt.type("for k = 1:2\r\n    println(k)\r\nend\r\n7 * 6\r\n", r"\n1\s+2\s(?s:.*)\n42\s")


def test_ctrl_c_drops_what_is_typed(prompt) -> None:
    prompt.send(f"for k = 1:3\rx ={CTRL_C}")
    prompt.type("6 * 7\r", r"\n42\s")


LONG = (
    "while true; end",
    "s = Scalar(0.0); @finch for i = 1:10^6, j = 1:10^6; s[] += sin(i * j) end",
    "for k = 1:100; fsprand(10^8, 40, 0.01) end",
    "for k = 1:1000; rand(10^4, 10^3) end",
)


@pytest.mark.parametrize("text", LONG)
def test_ctrl_c_stops_what_runs(text: str, prompt) -> None:
    prompt.type("1\r", r"\n1\s")
    prompt.type(f"{text}\r", "running")
    prompt.type(CTRL_C, "interrupted")  # long before it would have ended
    prompt.type("6 * 7\r", r"\n42\s")


def test_progress_is_told(prompt) -> None:
    prompt.type("while true; end\r", r"running \.\.\. \d+\.\d s, Ctrl-C stops it")
    prompt.type(CTRL_C, "interrupted")


def test_progress_leaves_what_is_printed(start, tmp_path: Path) -> None:
    """The alarms that show it come while the script waits for what it includes: the one after a whole line
    shows it, the one after a part of a line does not."""
    os.mkfifo(tmp_path / "first.finch")
    os.mkfifo(tmp_path / "second.finch")
    script = 'println("one")\ninclude("first.finch")\nprint("two")\ninclude("second.finch")\n'
    (tmp_path / "main.finch").write_text(script)
    run = start("main.finch")
    run.wait("one")
    os.kill(run.pid, signal.SIGALRM)
    run.wait(r"\w+ \.\.\. \d+\.\d s, Ctrl-C stops it")
    (tmp_path / "first.finch").write_text("")
    run.wait("two")
    os.kill(run.pid, signal.SIGALRM)
    (tmp_path / "second.finch").write_text('println(" three")\n')
    assert "Ctrl-C" not in run.wait("three") and run.ended() == 0


def test_errors_in_colours_and_without(start) -> None:
    prompt = start()
    prompt.wait("finch> ")
    prompt.send("x = absent\r")
    prompt.until("absent is not")
    assert "\x1b[1;38;5;161munknown name error" in prompt.raw
    plain = start(NO_COLOR="1")
    plain.wait("finch> ")
    plain.send('x = "text" # comment\rabsent\r')
    plain.until("absent is not")
    assert "38;5" not in plain.raw


def test_thirty_columns(start) -> None:
    prompt = start(columns=30)
    assert max(map(len, prompt.wait("finch> ").split("\n"))) <= 30
    prompt.type("rand(50, 50)\r", "Float64 array, 50 x 50")
    text = prompt.type("", r"⋮(?s:.*)\n.*\]")
    assert max(map(len, text.split("\n"))) <= 30
    prompt.type("zeros(3) + absent\r", "<input>")
    text = prompt.wait(r"\^\n")
    assert max(map(len, text.split("\n"))) <= 30


def test_a_dumb_terminal(start) -> None:
    prompt = start(TERM="dumb")
    prompt.wait("finch> ")
    prompt.type("for k = 1:2\r", r"     \| ")
    prompt.type("println(k)\rend\r", r"\b1\s+2\s")
    prompt.type("absent\r", "absent is not defined")
    assert "\x1b" not in prompt.raw
    prompt.type("?sqrt\r", "The square root")
    prompt.send(CTRL_D)
    assert prompt.ended() == 0
