"""What the README shows: its programs run, print what it says, and its commands are there."""

from __future__ import annotations

import re
from pathlib import Path

from finchlang.repl.__main__ import main
from finchlang.session import Session

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    """The texts between fences of that language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_the_taste_prints_what_it_says() -> None:
    printed: list[str] = []
    (program,), (expected,) = blocks("finch"), blocks("text")
    Session(output=printed.append).run(program)
    assert "".join(printed) == expected


def test_the_python_programs_run() -> None:
    """Each goes on where the one before ended."""
    names: dict[str, object] = {}
    for program in blocks("python"):
        assert "assert" in program
        exec(compile(program, "README.md", "exec"), names)


def test_the_commands_it_names_are_there(tmp_path: Path, capsys) -> None:
    commands = dict(re.findall(r"`finch (\w+) FILE( NAME)?", README))
    named = {"run", "check", "normalize", "trace", "residual", "llvm", "asm", "diff", "show"}
    assert commands.keys() >= named
    path = tmp_path / "empty.finch"
    path.write_text("x = 1\n")
    for command, takes_name in sorted(commands.items()):
        assert main([command, str(path), *(["x"] if takes_name else [])]) == 0
    assert capsys.readouterr().err == ""
