"""What CONTRIBUTING.md and the heads of rooms say of the code: the map, the journeys, and the examples."""

from __future__ import annotations

import ast
import cProfile
import doctest
import inspect
import os
import re
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import finchlang.array as xp
from finchlang import Session, Tensor
from finchlang.repl.__main__ import main
from tests.product.test_layout import ROOMS, modules, tree_of

TEXT = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text("utf-8")
#: `room/file.py: name, Class.name`
NAME = re.compile(r"`([\w/]+)\.py:\s([\w., ]+)`")
NAMED = NAME.findall(TEXT)


def test_the_map_has_every_room_in_reading_order() -> None:
    rows = re.findall(r"^\| (`[^|]*`) \|", TEXT.partition("## Where is it")[0], re.MULTILINE)
    named = [room.strip("/") for row in rows for room in re.findall(r"`([\w/]+?)(?:\.py)?`", row)]
    rooms = [room for room in ROOMS if room not in ("", "repl")]
    assert [room for room in named if "/" not in room] == rooms


def test_files_of_the_glossary_are_there() -> None:
    glossary = TEXT.partition("## Glossary")[2].partition("## ")[0]
    files = re.findall(r"`([\w/]+)\.py`", glossary)
    assert len(files) > 20
    assert not [file for file in files if f"finchlang.{file.replace('/', '.')}" not in modules()]


@pytest.mark.parametrize("room", [room for room in ROOMS if room not in ("", "repl")])
def test_the_head_of_a_room_says_what_it_is(room: str) -> None:
    """A sentence, what comes in and goes out, the one idea, and an example that shows what it says."""
    head = inspect.cleandoc(import_module(f"finchlang.{room}").__doc__ or "")
    first, *parts = head.split("\n\n")
    assert first.endswith(".")
    assert "one idea" in head and 8 <= head.count("\n") <= 35
    example = doctest.DocTestParser().get_doctest(head, {}, room, None, None)
    assert example.examples
    shown: list[str] = []
    doctest.DocTestRunner().run(example, out=shown.append)
    assert not shown, "".join(shown)


def names_in(body: list[ast.stmt], prefix: str = "") -> set[str]:
    """The functions and classes of a module, methods by their class."""
    found = set()
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(prefix + node.name)
        if isinstance(node, ast.ClassDef):
            found |= names_in(node.body, f"{node.name}.")
    return found


@pytest.mark.parametrize(("path", "names"), sorted(set(NAMED)))
def test_what_journeys_name_is_there(path: str, names: str) -> None:
    module = "finchlang." + path.replace("/", ".").removesuffix(".__init__")
    assert module in modules()
    assert names_in(tree_of(module).body) >= set(names.split(", "))


Journey = Callable[[], Any]


def a_text(_: Path) -> Journey:
    session = Session()
    return lambda: session.run("x = [1.5, 2.5]; @finch for i = _; x[i] *= 2 end")


def a_matrix(_: Path) -> Journey:
    session, matrix = (
        Session(staging=False),
        pytest.importorskip("scipy.sparse").random(9, 9, 0.3, "csr"),
    )
    session["x"], session["y"] = np.ones(9), np.zeros(9)
    product = "for turn in 1:2; @finch (y .= 0; for i = _, j = _; y[i] += A[i, j] * x[j] end) end"

    def call(matrix: Any) -> None:
        session["A"] = matrix
        session.run(product)

    call(matrix.copy())  # and so the kernel is compiled
    return lambda: call(matrix)


def an_expression(_: Path) -> Journey:
    a = xp.astensor(np.eye(4), format="Dense(SparseList(Element(0.0)))")
    return lambda: xp.compute(xp.sum(a * a + a, axis=0))


def a_looplet(folder: Path) -> Journey:
    (file := folder / "product.finch").write_text(
        "A = Tensor(Dense(SparseList(Element(0.0))), [1.0 0.0; 0.0 2.0]); x = [1.0, 2.0]; y = [0.0, 0.0]\n"
        "@finch for i = _, j = _; y[i] += A[i, j] * x[j] end\n"
    )
    return lambda: [main(["trace", str(file), "--rules", which]) for which in ("all", "paper")]


def a_loop(_: Path) -> Journey:
    session = Session()
    session["x"], session["y"] = (Tensor("Dense(Element(0))", [1, 2]) for _ in range(2))
    loop = "for k = 1:3; @finch for i = _; x[i] += k end; x, y = y, x end"
    return lambda: session.run(loop)


JOURNEYS: dict[str, Callable[[Path], Journey]] = {
    "A program's text to native code": a_text,
    "A SciPy matrix to an argument": a_matrix,
    "A lazy expression to its result": an_expression,
    "A looplet through the rules": a_looplet,
    "A loop of a script as a whole": a_loop,
}


def entered(name: str, folder: Path) -> set[tuple[str, str]]:
    """The functions that the journey enters, by file and qualified name; no kernel is known."""
    Session().run("x = 1")
    os.environ["FINCH_CACHE_DIR"] = str(folder / "cache")
    journey = JOURNEYS[name](folder)
    profile = cProfile.Profile()
    profile.runcall(journey)
    codes: list[Any] = [entry.code for entry in profile.getstats()]
    return {(c.co_filename, c.co_qualname) for c in codes if not isinstance(c, str)}


@pytest.mark.parametrize("name", JOURNEYS)
def test_a_journey_goes_where_it_is_said_to_go(name: str, tmp_path: Path) -> None:
    told = TEXT.partition(f"**{name}")[2].split("\n\n")[0]
    assert told
    # a process of its own remembers nothing of other tests; what they import is imported once
    server = get_context("forkserver")
    server.set_forkserver_preload([__name__])
    with ProcessPoolExecutor(1, server) as new:
        been = new.submit(entered, name, tmp_path).result()
    missed = [
        f"{path}: {one}"
        for path, names in NAME.findall(told)
        for one in names.split(", ")
        if not any(
            file.endswith(f"{path}.py") and (where == one or where.startswith(f"{one}."))
            for file, where in been
        )
    ]
    assert not missed
