"""The choice that depends on sizes: a workspace of one mode is a byte map, unless that takes too much
memory for what a kernel is called on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from finchlang import Session, Tensor
from finchlang.algebra import costs
from finchlang.calls.runner import KernelEvent, Observer
from finchlang.repl.__main__ import main

pytestmark = pytest.mark.checked

ENGINES = ("native", "interpret", "residual")

GUSTAVSON = """
@finch begin
    C .= 0
    for j = _, k = _, i = _
        C[i, j] += A[i, k] * B[k, j]
    end
end
"""


class Told(Observer):
    """The workspaces of the kernels that were compiled, in order."""

    def __init__(self) -> None:
        self.formats: list[str] = []

    def kernel(self, event: KernelEvent) -> None:
        self.formats += [str(level) for level in event.workspaces.values()]

    def take(self) -> list[bool]:
        """Whether each is a byte map."""
        formats, self.formats = self.formats, []
        return [format.startswith("SparseByteMap") for format in formats]


def product(session: Session, rows: int, text: str = GUSTAVSON) -> Tensor:
    places = ([rows - 1, 0, 2, rows - 1], [0, 1, 1, 2])
    session["A"] = scipy.sparse.csc_array(([1.0, 2.0, 3.0, 4.0], places), (rows, 3))
    session["B"] = scipy.sparse.csc_array(np.array([[1.0, 0.0], [2.0, 3.0], [0.0, 4.0]]))
    session["C"] = Tensor("Dense(SparseList(Element(0.0)))")
    session.run(text)
    return session["C"]


def check(C: Tensor, rows: int) -> None:
    assert C.shape == (rows, 2)
    got = C.to_scipy().tocoo()
    entries = {
        (i, j): v for i, j, v in zip(*map(np.ndarray.tolist, got.coords), got.data, strict=True)
    }
    assert entries == {
        (0, 0): 4,
        (2, 0): 6,
        (rows - 1, 0): 1,
        (0, 1): 6,
        (2, 1): 9,
        (rows - 1, 1): 16,
    }


@pytest.mark.parametrize("engine", ENGINES)
def test_large_modes_get_a_workspace_that_grows_with_what_is_written(engine: str) -> None:
    told = Told()
    session = Session(engine, observer=told)
    for rows, is_map in [(10, True), (10**9, False)]:
        check(product(session, rows), rows)
        assert told.take() == [is_map]
    for rows in (10**9, 10):  # both are known now
        check(product(session, rows), rows)
        assert told.take() == []
    assert len(session.notes) == 1


def test_a_mode_is_large_in_proportion_to_what_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "PLACES", 100)
    told = Told()
    session = Session(observer=told)

    def is_map(rows: int, stored: int) -> bool:
        told.formats.clear()
        data = np.ones(stored), (np.arange(stored), np.arange(stored) % 40)
        session["A"] = scipy.sparse.csc_array(data, (rows, 40))
        session["B"] = scipy.sparse.csc_array(np.eye(40))
        session["C"] = Tensor("Dense(SparseList(Element(0.0)))")
        session.engine = "check"  # the choice is the same, and nothing is known of others before
        session._sites.clear()
        session.run(GUSTAVSON.replace("\n@", f"\n# {rows} {stored}\n@"))
        return told.take()[-1]

    assert is_map(100, 50)
    assert is_map(1000, 50)
    assert not is_map(20_000, 50)
    assert is_map(20_000, 5_000)


def test_a_mode_is_large_for_few_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a workspace that is declared once."""
    monkeypatch.setattr(costs, "SHORT", 100)
    told = Told()
    session = Session(observer=told)
    text = "@finch begin\nC .= 0\nfor p = _\nC[x[p]] += 1\nend\nend"
    for places, count, is_map in [(100, 10, True), (600, 100, False), (600, 300, True)]:
        x = session["x"] = np.arange(count) * 7 % places + 1
        session["C"] = Tensor("SparseList(Element(0))", places)
        session.run(text)
        expected, counts = np.unique(x, return_counts=True)
        (found,), values = session["C"].entries()
        assert (found + 1).tolist() == expected.tolist() and values.tolist() == counts.tolist()
        assert told.take() in ([is_map], [])  # none if it is known already
    assert len(session.notes) == 1


OUTER = GUSTAVSON.replace("j = _, k = _, i = _", "k = _, j = _, i = _")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("rows, count, is_map", [(5, 9, False), (40, 40, False), (40, 150, True)])
def test_few_places_for_what_is_read_are_all_kept(engine: str, rows: int, count: int, is_map: bool):
    told = Told()
    session = Session(engine, observer=told)
    rng = np.random.default_rng(rows)
    A, B = np.zeros((2, rows, rows), int)
    for matrix in (A, B):
        matrix.flat[rng.choice(rows * rows, count, replace=False)] = rng.integers(1, 9, count)
    session["A"], session["B"] = scipy.sparse.csc_array(A), scipy.sparse.csr_array(B)
    session["C"] = Tensor("Dense(SparseList(Element(0)))")
    session.run(OUTER)
    np.testing.assert_array_equal(session["C"].to_numpy(), A @ B)
    assert ["flags" in format for format in told.formats] == [is_map]
    assert len(session.notes) == 1


def test_each_call_chooses_anew() -> None:
    told = Told()
    session = Session(observer=told)
    session["C"] = Tensor("Dense(SparseList(Element(0.0)))")
    for rows, density, count in [(40, 0.1, 1), (600, 0.001, 1), (40, 0.1, 0), (600, 0.001, 0)]:
        A = scipy.sparse.random_array((rows, rows), density=density, rng=1, format="csc")
        session["A"], session["B"] = A, A.tocsr()
        session.run(OUTER)
        np.testing.assert_allclose(session["C"].to_numpy(), (A @ A).toarray())
        assert len(told.take()) == count


def test_a_workspace_that_is_declared_again_and_again_keeps_no_places() -> None:
    """It would be read in proportion to its places each time."""
    told = Told()
    session = Session(observer=told)
    rng = np.random.default_rng(1)
    A = rng.integers(0, 9, (40, 40, 3))
    session["A"], session["C"] = A, Tensor("Dense(Dense(SparseList(Element(0))))")
    session.run("@finch begin; C .= 0; for l=_, i=_, j=_; C[j, i, l] += A[i, j, l] end end")
    np.testing.assert_array_equal(session["C"].to_numpy(), A.transpose(1, 0, 2))
    assert not any(told.take())


def test_a_policy_that_was_asked_for_is_kept() -> None:
    told = Told()
    session = Session(observer=told)
    session["A"], session["B"] = (
        scipy.sparse.csc_array(np.eye(40)),
        scipy.sparse.csr_array(np.eye(40)),
    )
    session["C"] = Tensor("Dense(SparseList(Element(0.0)))")
    session.run("@workspace C policy=hash" + OUTER)
    assert told.formats == ["Workspace{2, hash}(Element(0.0))"]


def test_explain_tells_of_the_choice(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "large.finch"
    sizes = "A = fsparse([1], [1], [2.0], ({}, 3))\nB = fsparse([1], [1], [2.0], (3, 2))\n"
    C = "C = Tensor(Dense(SparseList(Element(0.0))))\n"
    path.write_text(sizes.format(10**9) + C + GUSTAVSON)
    assert main(["explain", str(path)]) == 0
    out = capsys.readouterr().out
    assert ":5, another `C_work`\n" in out and "its places are too many" in out
    path.write_text(sizes.format(9) + C + GUSTAVSON)
    assert main(["explain", str(path)]) == 0
    out = capsys.readouterr().out
    assert "`C_work` has size(A, 1) places: a byte map; if" in out and ", another" not in out
