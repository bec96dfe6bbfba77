"""The README and the pages of `docs/`: their programs run and print what stands below them, what they name
is there, and every page is reached."""

from __future__ import annotations

import contextlib
import io
import linecache
import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

import finchlang.array
from finchlang import FinchError, Session, Tensor
from finchlang.base.errors import ERROR_KINDS
from finchlang.repl.__main__ import main, parse
from finchlang.tensors import formats

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
README, CONTRIBUTING = ROOT / "README.md", ROOT / "CONTRIBUTING.md"
REFERENCES = sorted((ROOT / "grammar").glob("*.md"))
FENCE = re.compile(r"^```(finch|python|text|error|sh|julia)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def ran(fences: list[re.Match[str]]) -> Iterator[str | None]:
    """What each block prints, or the message it ends with, if that is to stand below it. Those of one page
    go on one from another; the session of those of Finch is `session` in those of Python."""
    printed: list[str] = []
    session = Session(output=printed.append)
    names: dict[str, Any] = {"session": session}
    for fence, after in zip(fences, [*fences[1:], None], strict=True):
        kind, text = fence.groups()
        printed.clear()
        if kind == "finch" and after is not None and after[1] == "error":
            with pytest.raises(FinchError) as error:
                session.run(text)
            yield "".join(printed) + error.value.message + "\n"
        elif kind == "finch":
            session.run(text)
            yield "".join(printed)
        elif kind == "python":
            place = f"<docs, at {fence.start()}>"
            linecache.cache[place] = len(text), None, text.splitlines(True), place
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(text, place, "exec", dont_inherit=True), names)
            yield "".join(printed) + out.getvalue()
        else:
            yield None


WITH_PROGRAMS = [page for page in (README, *PAGES) if FENCE.search(page.read_text("utf-8"))]


@pytest.mark.parametrize("page", WITH_PROGRAMS, ids=lambda path: path.stem)
def test_programs_print_what_stands_below_them(page: Path, request: Any, tmp_path: Path) -> None:
    text = page.read_text("utf-8")
    assert not re.search(r"session[.[]", text) or "Session()" in text  # a reader has to make one
    if page.stem == "dask":
        pytest.importorskip("dask")
    with contextlib.chdir(tmp_path), pytest.MonkeyPatch.context() as patch:
        patch.setattr(formats, "LEVELS", dict(formats.LEVELS))  # a page adds one
        fences = list(FENCE.finditer(text))
        outputs = list(ran(fences))
    shown = list(zip(fences, outputs, strict=True))
    for (fence, _), (before, output) in zip(shown[1:], shown, strict=False):
        if fence[1] not in ("text", "error") or output is None:
            continue
        if request.config.getoption("--update-golden"):
            text = text.replace(
                before[0] + "\n" + fence[0], before[0] + f"\n```{fence[1]}\n{output}```"
            )
        else:
            assert fence[2] == output
    for (_, output), (fence, _) in zip(shown, [*shown[1:], (None, None)], strict=True):
        assert not output or fence is not None and fence[1] in ("text", "error"), output
    if request.config.getoption("--update-golden"):
        page.write_text(text, "utf-8")


def test_what_the_readme_links_to_is_there() -> None:
    paths = re.findall(r"\]\(([^)#\s]+)[^)]*\)", README.read_text("utf-8"))
    assert [path for path in paths if "://" not in path and not (ROOT / path).exists()] == []


def test_every_page_is_in_the_navigation_and_needs_nothing_from_elsewhere() -> None:
    """The plugin `offline` fetches what it finds no script of this name for."""
    settings = (ROOT / "mkdocs.yml").read_text("utf-8")
    for page in PAGES:
        assert page.relative_to(ROOT / "docs").as_posix() in settings
    assert "polyfills: [iframe-worker.js]" in settings and (ROOT / "docs/iframe-worker.js").exists()


def test_mistakes_are_listed_by_their_kind() -> None:
    pytest.importorskip("mkdocs")
    page = runpy.run_path(str(ROOT / "docs/hooks.py"))["errors"]()
    kinds = page.split("\n## ")[1:]
    assert [kind.split("\n")[0] for kind in kinds] == [k for k in ERROR_KINDS if f"## {k}" in page]
    assert page.count("```finch") >= 100
    for kind in kinds:
        assert {*re.findall(r":\d+: ([\w/ ]+) error: ", kind)} == {kind.split("\n")[0]}


def test_the_commands_are_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs/command.md").read_text("utf-8")
    commands = dict(re.findall(r"`finch (\w+) FILE( NAME)?", page))
    named = {"run", "check", "normalize", "trace", "residual", "llvm", "asm", "diff", "show"}
    assert commands.keys() >= named
    path = tmp_path / "empty.finch"
    path.write_text("x = 1\n")
    for command, takes_name in sorted(commands.items()):
        assert main([command, str(path), *(["x"] if takes_name else [])]) == 0
    assert capsys.readouterr().err == ""


OPERANDS = """
A = Tensor(Dense(SparseList(Element(0.0))), [1.0 0.0 2.0; 0.0 3.0 0.0; 4.0 0.0 5.0]); B = A; T = A
x = [1.0, 2.0, 3.0]; b = x; y = Tensor(Dense(Element(0.0)), 3)
"""
RUNS = re.compile(r"`((?:@einsum|@array \w+ = \w|[AB][\[ ']|\w[\w.]*\().*?)`")


def test_tables_beside_other_libraries_say_what_runs() -> None:
    """What the last column has of expressions, of Python if they are of `fa` or of a tensor's methods."""
    pages = [page for page in PAGES if page.parent.name == "coming-from"]
    lines = [line for page in pages for line in page.read_text("utf-8").splitlines()]
    cells = [re.split(r"(?<!\\)\|", line)[-2] for line in lines if line.startswith("|")]
    session = Session()
    session.run(OPERANDS)
    names: dict[str, Any] = {"fa": finchlang.array, "Tensor": Tensor, "f": np.add, "m": 3, "n": 3}
    names |= {name: session[name] for name in "ABT"} | {"x": np.eye(3), "y": np.eye(3)}
    names |= {"shape": (3, 3), "coords": [np.array([0, 2]), np.array([1, 2])], "data": np.ones(2)}
    ran = [code for cell in cells for code in RUNS.findall(cell)]
    assert len(ran) > 15
    for code in ran:
        if code.startswith(("fa.", "Tensor.", "T.")):
            eval(code, names)
        else:
            session.run(code)


def test_what_numbers_do_is_said_by_programs() -> None:
    page = (ROOT / "docs/trust.md").read_text("utf-8")
    table = page.partition("\n## Numbers\n")[2].partition("\n## ")[0]
    named = re.findall(r"\| `(\w+)` \|$", table, re.MULTILINE)
    there = {path.stem for path in (ROOT / "tests/programs").rglob("*.finch")}
    assert len(named) == table.count("\n| ") - 1 and set(named) <= there


#: names that the examples of the reference use and do not make
GIVEN = """
A = sparse([1 0 2; 0 3 0; 4 0 5]); B = A; K = A; Z = A; M = A; C = Tensor(SparseCOO{2}(Element(0)), 3, 3)
x = ones(6); v = [1, 2, 3]; y = Tensor(Dense(Element(0.0)))
"""
INDENTED = re.compile(r"((?:^    .*\n(?:\n(?=    ))?)+)", re.MULTILINE)


def test_examples_of_the_reference_run() -> None:
    """Those of Finch; others are messages, or Python."""
    text = FENCED.sub("", (ROOT / "grammar/REFERENCE.md").read_text("utf-8"))
    examples = [dedent(example) for example in INDENTED.findall(text)]
    ours = [e for e in examples if not re.match(r"[\w.]+:\d|import |@finchlang", e)]
    assert len(ours) >= 8
    for example in ours:
        session = Session(output=lambda text: None)
        session.run(GIVEN + ("A = v" if "A[j]" in example else ""))
        session.run(example)


def test_lines_of_the_command_are_understood() -> None:
    """Those of blocks for a shell: their words are a command with its options."""
    blocks = (
        f[2]
        for page in WITH_PROGRAMS
        for f in FENCE.finditer(page.read_text("utf-8"))
        if f[1] == "sh"
    )
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("finch ")]
    assert len(lines) > 10
    for line in lines:
        _, *words = shlex.split(line, comments=True)
        assert not words or parse(words).command == words[0]


def paragraphs(text: str) -> list[str]:
    """The paragraphs and items of lists of a page: without headings, tables and code."""
    text = re.sub(r"^#.*\n|^\|.*\n", "\n", FENCED.sub("", text), flags=re.MULTILINE)
    parts = [part.strip("\n") for part in re.split(r"\n\n|\n(?=\s*(?:- |\d+\. ))", text)]
    return [part for part in parts if part and not re.match(r"<|    ", part)]


FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
#: the most words of a paragraph
WORDS = 60


@pytest.mark.parametrize(
    "page", [README, CONTRIBUTING, *PAGES, *REFERENCES], ids=lambda path: path.stem
)
def test_paragraphs_are_short_and_begin_with_their_subject(page: Path) -> None:
    said = paragraphs(page.read_text("utf-8"))
    long = [part[:60] for part in said if len(part.split()) > WORDS]
    assert long == []
    sentences = [s for part in said for s in re.split(r"(?<=[.:!?])\s+", part)]
    assert [s for s in sentences if re.match(r"\W*What\b(?!.*\?$)", s)] == []


def test_pictures_are_drawn_and_those_of_the_readme_are_current() -> None:
    """`python docs/pictures.py` makes the files anew. A line that is typed in the recording is there."""
    made = runpy.run_path(str(ROOT / "docs/pictures.py"))
    session = Session()
    session.run("""
        A = Tensor(Dense(SparseList(Element(0.0))), [0.0 1.0; 2.0 0.0])
        C = Tensor(Dense(SparseList(Element(0.0))))
        @finch begin C .= 0; for j = _, k = _, i = _; C[i, j] += A[i, k] * A[k, j] end end
        G = Tensor(Dense(SparseList(Pattern())), [false true; true false])
        P = Tensor(Dense(Element(0)), [1, 1])
    """)
    given = {"workspace": "AAC", "rounds": "GP"}
    drawn = {
        name: draw(*[session[n] for n in given.get(name, "")])
        for name, draw in made["PICTURES"].items()
    }
    assert all(picture.startswith("<svg") and "nan" not in picture for picture in drawn.values())
    for name in ("speed", "prompt"):
        assert (ROOT / f"docs/{name}.svg").read_text("utf-8") == drawn[name] + "\n"
    assert "dimension error" in drawn["prompt"] and "[4.0, 6.0, 10.0]" in drawn["prompt"]
