"""What the README shows: its programs run and print what it says, and what it links to is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from finchlang.session import Session

pytestmark = pytest.mark.optimised

ROOT = Path(__file__).parents[2]
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


def test_what_it_links_to_is_there() -> None:
    if not (ROOT / "docs").exists():
        pytest.skip("the wheel's suite has no pages")
    paths = re.findall(r"\]\(([^)#\s]+)[^)]*\)", README)
    assert [path for path in paths if "://" not in path and not (ROOT / path).exists()] == []
