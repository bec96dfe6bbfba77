"""Planted faults: each has its one place, and the command says truly whether it was caught."""

from __future__ import annotations

import ast
import sys
from dataclasses import replace

import pytest

from tests.campaigns.mutate import CHECKOUT, Blamed, Fault, faults, first_test, tried

FAULTS = faults()
ONE = Fault(
    "one", "script", "finchlang/__init__.py", "__version__ = ", "planted = 1\n__version__ = ", "-"
)


def test_there_are_enough_of_every_layer() -> None:
    layers = [fault.layer for fault in FAULTS]
    assert len(FAULTS) >= 80 and all(layers.count(layer) >= 5 for layer in layers)
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_each_fault_has_one_place_and_is_a_program(fault: Fault) -> None:
    text = (CHECKOUT / fault.file).read_text("utf-8")
    planted = fault.planted(text)
    assert ast.dump(ast.parse(planted)) != ast.dump(ast.parse(text)) and fault.says


@pytest.mark.parametrize(
    ("program", "how"),
    [
        ("assert finchlang.planted", "passed"),
        ("import finchlang.grammar, finchlang.repl.__main__", "passed"),
        ("print('1 failed'); sys.exit(1)", "failed"),
        ("print('3 cases in 9 s'); sys.exit(1)", "failed"),
        ("import os; os.abort()", "died"),
        ("while True: pass", "hung"),
    ],
)
def test_what_becomes_of_a_fault(program: str, how: str) -> None:
    imports = "" if "while" in program else "import sys, finchlang; "
    command = f'{sys.executable} -c "{imports}{program}"'
    found = tried(ONE, command, 1 if how == "hung" else 60)
    assert (found.how, found.caught) == (how, how != "passed")


def test_the_first_test_that_failed() -> None:
    begun = "tests/test_a.py::test_one[x-y] PASSED\ntests/test_a.py::test_two "
    assert first_test(begun) == "test_a.py::test_two"
    assert first_test(f"{begun}FAILED\nFAILED tests/test_a.py::test_two - assert 0") == (
        "test_a.py::test_two"
    )
    assert first_test("seed 3: differs: A\n4 cases in 9 s") == "seed 3: differs: A"


def test_a_layer_is_named_by_the_line_that_says_where_to_look() -> None:
    says = "y differs (look at native code): 1\nlook at the level SparseBand\nkernel at line 1: ..."
    row = Blamed("band-last", "levels", "a.finch", 8, says)
    assert (
        row.is_named and str(row) == "| levels | band-last | a.finch | 8 | the level SparseBand |"
    )
    other = replace(row, layer="native")
    assert not other.is_named and "(**wrong**)" in str(other)
    assert not replace(row, says="").is_named and not replace(row, layer="parser").is_named
    assert "**no**" in str(Blamed("band-last", "levels"))
