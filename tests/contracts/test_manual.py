"""The manual: it has every word that there is, and its examples show what it says."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import finchlang.grammar
from finchlang import Session
from finchlang.operators.operator_table import FAMILIES, OPERATORS
from finchlang.repl.__main__ import main
from finchlang.repl.commands import FUNCTIONS
from finchlang.repl.directives import _COMMANDS as DIRECTIVES
from finchlang.repl.highlight import CONSTANTS, KEYWORDS
from finchlang.repl.notes import Watching
from finchlang.repl.options import COMMANDS
from finchlang.repl.prompt_session import Conversation
from finchlang.repl.terminal import LEAVE, answer
from finchlang.script.builtins import BUILTINS
from finchlang.script.functions import PREDEFINED
from finchlang.syntax.types import ALIASES, TYPES
from finchlang.tensors.formats import LEVELS
from finchlang.text.manual import SHOWS, Entry, entries, words
from finchlang.wrappers.masks import MASKS
from finchlang.wrappers.wrappers import WRAPPERS

GRAMMAR = Path(finchlang.grammar.__path__[0])
MANUAL = GRAMMAR / "MANUAL.md"
ROOT = Path(__file__).parents[2]
SCREEN = {"COLUMNS": "80", "LINES": "24"}


#: what only passes write
INTERNAL = {"nest"}


def keywords() -> set[str]:
    """The words that the grammar itself has."""
    text = (GRAMMAR / "finch.lark").read_text("utf-8")
    return {*re.findall(r'^[A-Z]+: "(@?\w+)"$', text, re.MULTILINE)} | {"in"}


def test_every_word_is_there() -> None:
    needed = {
        *(OPERATORS.keys() | FAMILIES.keys() | BUILTINS.keys() | LEVELS.keys() | WRAPPERS.keys()),
        *(kind.name for kind in MASKS.values()),
        *(TYPES.keys() | ALIASES.keys() | keywords()),
        *(*KEYWORDS, *CONSTANTS, *LEAVE, "walk", "gallop", "follow"),
        *(name for name in PREDEFINED if name not in MASKS),
        *(f":{name}" for name in DIRECTIVES),
        *(f"finch {name}" for name in COMMANDS),
    }
    assert needed - words().keys() == INTERNAL & needed
    assert COMMANDS.keys() == FUNCTIONS.keys()
    unknown = {n for n in words() if n[0] == ":" and n[1:].isalpha()} - {
        f":{n}" for n in DIRECTIVES
    }
    assert not unknown


def test_every_entry_has_a_sentence_and_an_example() -> None:
    for entry in entries():
        assert entry.text.endswith(".") and entry.example, entry


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    for name, value in SCREEN.items():
        monkeypatch.setenv(name, value)
    return tmp_path


@pytest.mark.parametrize("entry", entries(), ids=lambda e: e.names[0])
def test_examples_show_what_they_say(entry: Entry, folder: Path, capsys, request) -> None:
    if entry.section == "The command":
        shown = command_output(entry.example, folder, capsys)
    else:
        conversation = Conversation(lambda own: Session(observer=Watching(own)))
        blocks = re.split(r"\n(?=[:?])|(?<=;)\n(?=[:?])", entry.example)
        for block in blocks if entry.section == "The prompt" else [entry.example]:
            try:
                answer(conversation, block)
            except EOFError:
                assert block in LEAVE
        shown = capsys.readouterr().out
    shown = shown.rstrip("\n").replace(str(folder), "...")
    if entry.output is None:
        return
    if request.config.getoption("--update-golden"):
        rewrite(entry, shown)
    else:
        assert shown == entry.output


def command_output(line: str, folder: Path, capsys: Any) -> str:
    """What a line of a shell prints, in a shell where it is no command alone."""
    name, *words = shlex.split(line)
    if name == "finch" and not {"|", ">", "<"} & {*words}:
        assert main(words) == 0
        return capsys.readouterr().out
    finch = f"{sys.executable} -m finchlang.repl"
    command = re.sub(r"(^|\| )finch\b", lambda m: m[1] + finch, line)
    done = subprocess.run(command, shell=True, cwd=folder, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rewrite(entry: Entry, shown: str) -> None:
    """Put what an example shows into the manual."""
    text = MANUAL.read_text("utf-8")
    example = "".join(f"    {line}".rstrip() + "\n" for line in entry.example.split("\n"))
    old = re.compile(re.escape(example) + rf"(    {SHOWS}.*\n)+")
    new = example + "".join(f"    {SHOWS} {line}".rstrip() + "\n" for line in shown.split("\n"))
    start = text.index(entry.signatures[0])
    done, count = old.subn(lambda _: new, text[start:], count=1)
    assert count == 1
    MANUAL.write_text(text[:start] + done, "utf-8")
