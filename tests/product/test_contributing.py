"""What CONTRIBUTING.md says of the code: its map of rooms, and the names in its journeys."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.product.test_layout import ROOMS, modules, tree_of

TEXT = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text("utf-8")
#: `room/file.py: name, Class.name`
NAMED = re.findall(r"`([\w/]+)\.py:\s([\w., ]+)`", TEXT)


def test_the_map_has_every_room_in_reading_order() -> None:
    rows = re.findall(r"^\| (`[^|]*`) \|", TEXT, re.MULTILINE)
    named = [room.strip("/") for row in rows for room in re.findall(r"`([\w/]+?)(?:\.py)?`", row)]
    rooms = [room for room in ROOMS if room not in ("", "repl")]
    assert [room for room in named if "/" not in room] == rooms


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
