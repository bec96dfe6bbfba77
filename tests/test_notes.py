"""Notes, what the user should know of a kernel that is in order: where they are told, and how often."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from finchlang import Tensor
from finchlang.repl.__main__ import main
from finchlang.run import kernel as kernel_module
from finchlang.session import Observer, Session
from finchlang.source import FinchError, Note

pytestmark = pytest.mark.optimised

KERNEL = """
@finch begin
    C .= 0
    for i = _, j = _; C[i, j] = A[i, j] end
end
"""
TEXT = f"""\
A = [0.0 0.0 5.0; 7.0 0.0 0.0]
C = Tensor(Dense(SparseList(Element(0.0))))
for n = 1:2 {KERNEL} end
println("done")
"""
MESSAGE = "`C` is written across the order of its loops: it goes through a workspace of 2 modes"


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FINCH_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script.finch"
    path.write_text(TEXT)
    return str(path)


def told(script: str) -> str:
    return f"{script}:6:23: note: {MESSAGE}\n"


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
    assert capsys.readouterr().err == f"<stdin>:6:23: note: {MESSAGE}\n"


@pytest.mark.parametrize("command", ["run", "check", "diff", "normalize", "explain", "residual"])
def test_without_workspaces_there_is_an_error(command: str, script: str, capsys) -> None:
    assert main([command, "--no-workspaces", script]) == 1
    out, err = capsys.readouterr()
    assert "access order" in out + err and " note: " not in out + err


def session(**options: Any) -> Session:
    made = Session(**options)
    made["A"], made["C"] = np.eye(3), Tensor("Dense(SparseList(Element(0.0)))")
    return made


def test_a_session_keeps_notes_and_prints_none(capsys) -> None:
    telling = Telling()
    own = session(observer=telling)
    for _ in range(3):
        own.run(KERNEL)
    own["A"] = np.eye(3, dtype=np.int64)  # another kernel, of which nothing new is to be told
    own.run(KERNEL)
    assert telling.notes == own.notes
    assert [(n.message, n.span and n.span.text) for n in own.notes] == [(MESSAGE, "C[i, j]")]
    assert capsys.readouterr() == ("", "")


def test_a_session_without_workspaces_does_not_find_kernels_that_have_some() -> None:
    for _ in range(2):
        own = session()
        own.run(KERNEL)
        assert len(own.notes) == 1
        own = session(workspaces=False)
        with pytest.raises(FinchError, match="access order"):
            own.run(KERNEL)
        assert own.notes == []


def test_a_kernel_found_on_disk_gives_its_notes(script: str, capsys, monkeypatch) -> None:
    assert main(["run", script]) == 0
    first = capsys.readouterr()
    monkeypatch.setattr(kernel_module, "normalize", None)  # not called again
    assert main(["run", script]) == 0
    assert capsys.readouterr() == first
    assert first.err == told(script)
