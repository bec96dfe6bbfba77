"""The command as its user sees it: transcripts of what is typed, printed and given back.

    == title                  one test, in a folder of its own
    : name                    a file of that folder, in the lines after it
    | a line of the file
    $ finch run name          the command, for `{a,b}` once for each; `cat` prints a file, `ls` the folder
    < a line of its input
    a line of its output
    ! a line of its errors
    ? 1                       its exit status, 0 if nothing is said
    $ prompt                  the command at a terminal that can do nothing but print, where the lines
    finch> x = 1              that begin as its prompts do are typed, in the end ^D

In what is printed `...` stands for anything, alone on a line for any lines. Files before all titles are
in the folder of every test. `--update-golden` writes what is printed where it differs.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest

from finchlang.repl.__main__ import main

ROOT = Path(__file__).parents[2]
FILES = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))
TITLE = re.compile(r"^== (.*)\n", re.MULTILINE)
TYPED = re.compile(r"(?:< ?+|finch> ?+|     \| ?+)(?!\^D$)(.*)")
BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")


@dataclass(frozen=True)
class Printed:
    """What a command printed, its errors, and its exit status."""

    out: list[str]
    err: list[str]
    status: int

    def lines(self) -> list[str]:
        """As they stand in a transcript."""
        errors = [f"! {line}".rstrip() for line in self.err]
        return [*self.out, *errors, *([f"? {self.status}"] if self.status else [])]


def said(lines: list[str]) -> Printed:
    """What a transcript says was printed."""
    status = [int(line[2:]) for line in lines if line.startswith("? ")]
    err = [line[2:] for line in lines if line[:2] == "! " or line == "!"]
    out = [line for line in lines if line != "!" and line[:2] not in ("! ", "? ")]
    while out and not out[-1]:
        out.pop()
    return Printed(out, err, status[0] if status else 0)


def matches(wanted: list[str], found: list[str]) -> bool:
    """Whether lines are those of a transcript."""
    pattern = ""
    for line in wanted:
        parts = ["(?:.*\n)*" if line == "..." else "[^\n]*".join(map(re.escape, line.split("...")))]
        pattern += parts[0] + ("" if line == "..." else "\n")
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in found)) is not None


class Terminal(io.StringIO):
    """A person, who sees what is typed."""

    def isatty(self) -> bool:
        return True

    def readline(self, size: int | None = -1, /) -> str:
        line = super().readline()
        print(line.rstrip("\n") if line else "^D")
        return line


def ran(command: str, given: list[str]) -> Printed:
    """Run a command in the folder that is the current one."""
    name, *arguments = shlex.split(command)
    out, err, status = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        if name in ("finch", "prompt"):
            with pytest.MonkeyPatch.context() as patch:
                source = Terminal if name == "prompt" else io.StringIO
                patch.setattr("sys.stdin", source("".join(f"{line}\n" for line in given)))
                status = main(arguments)
        elif name == "cat":
            print(*[Path(path).read_text("utf-8") for path in arguments], sep="", end="")
        else:
            assert name == "ls"
            print(*sorted(path.name for path in Path().iterdir()), sep="\n")
    found = [[line.rstrip() for line in text.getvalue().splitlines()] for text in (out, err)]
    while found[0] and not found[0][-1]:
        found[0].pop()
    return Printed(*found, status)


def expanded(command: str) -> Iterator[str]:
    """A command with each of the words in its braces."""
    found = BRACES.search(command)
    if found is None:
        yield command
    else:
        for word in found[1].split(","):
            yield from expanded(command[: found.start()] + word + command[found.end() :])


def steps(text: str) -> Iterator[tuple[str, list[str]]]:
    """The commands and files of a transcript, each with the lines after it."""
    head, lines = "", list[str]()
    for line in text.splitlines():
        if line.startswith(("$ ", ": ")):
            if head:
                yield head, lines
            head, lines = line, []
        else:
            lines.append(line)
    if head:
        yield head, lines


def replayed(text: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Write the files and run the commands of a transcript: each, with its lines, and as they are."""
    for head, lines in steps(text):
        if head.startswith(": "):
            content = "".join(f"{line[2:]}\n" for line in lines if line[:1] == "|")
            Path(head[2:]).parent.mkdir(exist_ok=True)
            Path(head[2:]).write_text(content, "utf-8")
            yield head, lines, lines
            continue
        given = [found[1] for line in lines if (found := TYPED.fullmatch(line))]
        typed = [line for line in lines if line.startswith("<")]
        meant, now = said([line for line in lines if not line.startswith("<")]), lines
        for command in expanded(head[2:]):
            found = ran(command, given)
            alike = found.status == meant.status and matches(meant.err, found.err)
            if not (alike and matches(meant.out, found.out)) and now is lines:
                now = [*typed, *found.lines()]
        yield head, lines, now


TESTS = [
    pytest.param(path, title, id=f"{path.stem}: {title}")
    for path in FILES
    for title in TITLE.findall(path.read_text("utf-8"))
]


@pytest.mark.parametrize(("path", "title"), TESTS)
def test_transcript(
    path: Path,
    title: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.chdir(tmp_path)
    # as in a process of its own: a program that is known tells the plan of the data it was made for
    for cache in ("_programs", "_kernels"):
        monkeypatch.setattr(import_module("finchlang.array.compute"), cache, {})
    for name, value in {"COLUMNS": "80", "LINES": "24", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    text = path.read_text("utf-8")
    shared, *rest = TITLE.split(text)
    tests = dict(zip(rest[::2], rest[1::2], strict=True))
    assert len(tests) == len(rest) / 2, "two of one title"
    list(replayed(shared))
    done = list(replayed(tests[title]))
    assert any(head.startswith("$ ") for head, *_ in done)
    if request.config.getoption("--update-golden"):
        new = "".join("\n".join([head, *lines]) + "\n" for head, _, lines in done)
        whole = f"== {title}\n{tests[title]}"
        path.write_text(text.replace(whole, f"== {title}\n{new.rstrip()}\n\n"), "utf-8")
        return
    for head, wanted, found in done:
        assert "\n".join([head, *found]) == "\n".join([head, *wanted])
