"""Pasting: snippets as a day of Julia has them, and as one writes them who knows Finch.jl. Most run, and
print what they do there in our own way of showing values; the others say what to write in their place."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from finchlang.session import Session
from finchlang.source import FinchError

SNIPPETS = Path(__file__).parent / "snippets"


def snippets(name: str) -> list[tuple[str, str]]:
    """The snippets of a file, each with what stands below it."""
    parts = (SNIPPETS / f"{name}.txt").read_text("utf-8").rstrip("\n").split("\n=====\n")
    pairs = [part.split("\n-----\n") for part in parts]
    return [(text, said) for text, said in pairs]


def test_most_snippets_run() -> None:
    assert len(snippets("runs")) > 2 * len(snippets("refused"))


@pytest.mark.parametrize(("text", "shown"), snippets("runs"))
def test_what_is_pasted_runs(text: str, shown: str) -> None:
    said: list[str] = []
    Session("native", output=said.append).run(text)
    assert re.sub(r"[\d.]+ seconds", "... seconds", "".join(said)).strip() == shown.strip()


@pytest.mark.parametrize(("text", "way"), snippets("refused"))
def test_what_is_not_ours_says_our_way(text: str, way: str) -> None:
    with pytest.raises(FinchError) as caught:
        Session(output=lambda s: None).run(text)
    assert caught.value.span is not None
    assert way in (caught.value.hint or ""), (caught.value.message, caught.value.hint)


def test_what_failed_leaves_values_as_they_were() -> None:
    session = Session(output=lambda s: None)
    session.run("x = [1, 2]\nv = [];\npush!(v, 1)")
    for text in ("x[end + 1] = 3", "push!(x, 3)", "x = map(y -> y + nope, x)", "insert!(v, 9, 1)"):
        with pytest.raises(FinchError) as caught:
            session.run(text)
        assert caught.value.span is not None
    assert np.array_equal(session["x"], [1, 2]) and session["v"] == [1]


def test_an_included_file_is_looked_for_beside_the_one_that_asks(tmp_path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "a.finch").write_text('include("b.finch")\ny = x + 1\n')
    (tmp_path / "parts" / "b.finch").write_text("x = 1\n")
    session = Session()
    session.run('include("parts/a.finch")', str(tmp_path / "main.finch"))
    assert session["y"] == 2
    with pytest.raises(FinchError) as caught:
        session.run('include("nowhere.finch")')
    assert caught.value.kind == "I/O"
