"""Notes, what the user should know of a kernel that is in order: where they are told, and how often."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import finchlang.normalize
from finchlang.run import kernel as kernel_module
from finchlang.session import Observer, Session
from finchlang.source import Note
from finchlang.syntax import Assign
from finchlang.walk import walk
from repl.__main__ import main

TEXT = """\
x = Tensor(Dense(Element(0.0)), [1.0, 0.0, 2.0])
y = Tensor(Dense(Element(0.0)), 3)
for n = 1:2
    @finch for i = _; y[i] += x[i] end
end
println("done")
"""


@pytest.fixture(autouse=True)
def noteworthy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each update is noteworthy, if workspaces are inserted; kernels are kept in a directory."""

    def notes(program: Any, context: Any) -> Any:
        updates = [n for n in walk(program) if isinstance(n, Assign) and context.insert_workspaces]
        context.notes += [Note("this is an update", n.target.span) for n in updates]
        return program

    passes = (*finchlang.normalize.PASSES, ("notes", notes))
    monkeypatch.setattr(finchlang.normalize, "PASSES", passes)
    monkeypatch.setenv("FINCH_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script.finch"
    path.write_text(TEXT)
    return str(path)


def told(script: str) -> str:
    return f"{script}:4:23: note: this is an update\n"


class Telling(Observer):
    def __init__(self) -> None:
        self.notes: list[Note] = []

    def note(self, note: Note) -> None:
        self.notes.append(note)


@pytest.mark.parametrize("engine", ["native", "interpret", "residual"])
def test_a_run_tells_each_note_once_on_standard_error(engine: str, script: str, capsys) -> None:
    assert main(["run", "--engine", engine, script]) == 0
    assert capsys.readouterr() == ("done\n", told(script))


def test_check_and_diff_tell_each_note_once(script: str, capsys) -> None:
    assert main(["check", script]) == 0
    assert capsys.readouterr() == ("", told(script))
    assert main(["diff", script]) == 0
    assert capsys.readouterr().err == told(script)


def test_the_prompt_tells_notes(script: str, capsys, monkeypatch) -> None:
    monkeypatch.setattr("sys.stdin", StringIO(TEXT))
    assert main([]) == 0
    assert capsys.readouterr().err == "<stdin>:4:23: note: this is an update\n"


@pytest.mark.parametrize("command", ["run", "check", "diff", "normalize", "residual", "llvm"])
def test_no_workspaces_is_an_option_of_commands(command: str, script: str, capsys) -> None:
    assert main([command, "--no-workspaces", script]) == 0
    assert capsys.readouterr().err == ""


def test_a_session_keeps_notes_and_prints_none(capsys) -> None:
    telling = Telling()
    session = Session(observer=telling)
    session["x"], session["y"] = np.ones(3), np.zeros(3)
    text = "@finch for i = _; y[i] += x[i] end"
    for _ in range(3):
        session.run(text)
    session["x"] = np.ones(3, np.float32)  # another kernel, of which nothing new is to be told
    session.run(text)
    assert telling.notes == session.notes
    assert [(n.message, n.span and n.span.text) for n in session.notes] == [
        ("this is an update", "y[i]")
    ]
    assert capsys.readouterr() == ("", "")
    assert Session(workspaces=False).run("1") == 1


def test_a_session_without_workspaces_is_another_kernel() -> None:
    def notes(**options: Any) -> list[Note]:
        session = Session(**options)
        session["x"], session["y"] = np.ones(3), np.zeros(3)
        session.run("@finch for i = _; y[i] += x[i] end")
        return session.notes

    assert len(notes()) == 1
    assert notes(workspaces=False) == []
    assert len(notes()) == 1


def test_a_kernel_found_on_disk_gives_its_notes(script: str, capsys, monkeypatch) -> None:
    assert main(["run", script]) == 0
    first = capsys.readouterr()
    monkeypatch.setattr(kernel_module, "normalize", None)  # not called again
    monkeypatch.setattr(kernel_module, "ResidualHost", None)
    assert main(["run", script]) == 0
    assert capsys.readouterr() == first
    assert first.err == told(script)
