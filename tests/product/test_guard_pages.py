"""What leaves its memory is found by guard pages, on the side that they are on."""

from __future__ import annotations

import ctypes
import faulthandler
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from in_child import in_child

sys.path.append(str(Path(__file__).parents[2]))  # `tests` is a package of the checkout

from tests.campaigns.guard_pages import run_once
from tests.campaigns.guarded_memory import SIDES, guarded

REACH = {"after": 10, "before": -1}


def reading(side: str, at: int) -> Callable[[Callable[[str], None]], None]:
    """Work that reads the number `at` of an array of ten."""

    def work(report: Callable[[str], None]) -> None:
        faulthandler.disable()  # the fault is what is asked for, and nothing to tell of
        with guarded(side):
            x = np.arange(10.0)
            number = ctypes.c_double.from_address(x.__array_interface__["data"][0] + 8 * at)
            report(f"{number.value}")

    return work


@pytest.mark.parametrize("side", SIDES)
def test_an_array_ends_where_the_page_begins(side: str) -> None:
    for at in (0, 9):
        assert in_child(reading(side, at)).said == f"{float(at)}"
    assert in_child(reading(side, REACH[side])).fault == "SIGSEGV"


def test_memory_that_was_freed_is_not_touched() -> None:
    def work(report: Callable[[str], None]) -> None:
        faulthandler.disable()
        with guarded("after"):
            address = np.arange(10.0).__array_interface__["data"][0]
            np.arange(10.0)
            report(f"{ctypes.c_double.from_address(address).value}")

    assert in_child(work).fault == "SIGSEGV"


KERNEL = """
import ctypes, numpy as np
from finchlang import Session, Tensor

def test_grows():
    session = Session()
    session["x"], session["y"] = np.arange(50.0), Tensor("SparseList(Element(0.0))", 1)
    session.run("@finch begin; y .= 0; for i = _; y[i] = x[i]; end; end")
    assert session["y"].to_numpy()[-1] == 49

def test_reads_beyond():
    x = np.arange(10.0)
    ctypes.c_double.from_address(x.__array_interface__["data"][0] + {at}).value

def test_behind_the_crash():
    assert False, "as it should"
"""


@pytest.mark.parametrize("side", SIDES)
def test_a_crash_is_told_with_the_name_of_the_test(side: str, tmp_path) -> None:
    path = tmp_path / "test_some.py"
    path.write_text(KERNEL.format(at=8 * REACH[side]))
    options = [str(path), "--rootdir", str(tmp_path)]
    names, found = run_once(side, options, set(), seconds=60)
    assert [name.partition("::")[2] for name in names] == ["test_grows", "test_reads_beyond"]
    assert len(found) == 1 and "test_reads_beyond" in found[0] and "SIGSEGV" in found[0]
    names, found = run_once(side, options, set(names), seconds=60)
    assert [name.partition("::")[2] for name in names] == ["test_behind_the_crash"]
    assert len(found) == 1 and "as it should" in found[0]
