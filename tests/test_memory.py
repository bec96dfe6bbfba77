"""What goes leaves no memory behind."""

from __future__ import annotations

import gc
import resource
from collections.abc import Callable
from pathlib import Path
from weakref import ref

import numpy as np
import pytest
import scipy.sparse as sp
from in_child import in_child

from finchlang import Session

pytestmark = pytest.mark.optimised


def resident() -> int:
    """The bytes of this process that are in memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def kernel(number: int) -> None:
    """A kernel that no other number gives, in a session that goes."""
    session = Session()
    session["x"] = np.arange(4.0)
    session.run("t = Scalar(0.0)")
    session.run(f"@finch begin\nt .= 0\nfor i = _\n t[] += x[i] * {number}.5\nend\nend")
    assert session["t"].value == 6 * (number + 0.5)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="it is Linux that says so there")
def test_kernels_of_sessions_that_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once what is kept on purpose (of the last few hundred texts) is there, nothing more stays."""
    monkeypatch.setenv("FINCH_CACHE_DIR", "")

    def work(report: Callable[[str], None]) -> None:
        for number in range(300):
            kernel(number)
        before = resident()
        for number in range(300, 400):
            kernel(number)
        assert resident() < 1.01 * before, f"{before:,} bytes became {resident():,}"

    ended = in_child(work, seconds=120)
    assert ended, f"{ended.fault}\n{ended.said}"


def test_a_call_keeps_nothing_that_it_was_given() -> None:
    """Neither arrays nor a matrix's parts: their owner may have them resized, and let them go."""
    session, A, x = Session(), sp.csc_array(np.eye(5)), np.ones(5)
    session["A"], session["x"], session["y"] = A, x, np.zeros(5)
    for _ in range(2):
        session.run("@finch begin y .= 0; for j = _, i = _; y[i] += A[i, j] * x[j] end end")
    given = [ref(x), *map(ref, (A, A.data, A.indices, A.indptr))]
    session["A"] = session["x"] = 0
    del A, x
    gc.collect()
    assert not any(one() is not None for one in given)
