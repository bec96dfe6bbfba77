"""The contract of a call: what it may write, that all is as before where it fails, and that it sees its
arguments as they are now, on every engine that runs on the user's memory."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from finchlang import FinchError, Session, Tensor
from finchlang.host.passes.undo_log import LAST_EPOCH

SPARSE = (
    *("SparseList", "SparseByteMap", "SparseHash", "SparseCOO{1}", "SparseBand", "PackBits"),
    *("RunList", "SparseRunList", "SparseBlockList", "Workspace{1}"),
)
SCATTER = "@finch for p = _; y[k[p]] += s[p]; end"
SCALE = "@finch begin\ny .= 0\nfor i = _\n y[i] = c * x[i]\nend\nend"


def session_with(engine: str = "native", **values: object) -> Session:
    session = Session(engine)
    for name, value in values.items():
        session[name] = value
    return session


def fails(session: Session, text: str, kind: str) -> None:
    with pytest.raises(FinchError) as found:
        session.run(text)
    assert found.value.kind == kind


def sparse(*values: float) -> Tensor:
    return Tensor.from_numpy(np.array(values), "SparseList(Element(0.0))")


@pytest.mark.parametrize("engine", ["native", "interpret", "residual"])
@pytest.mark.parametrize("places", [[1, 2, 3, 99], [1, 1, 2, 99], [2, 3, 2, 0]])
def test_what_fails_at_its_fourth_entry_changes_nothing(engine: str, places: list[int]) -> None:
    y = np.arange(5.0)
    session = session_with(engine, y=y, k=np.array(places), s=sparse(1, 2, 3, 4))
    for _ in range(2):
        fails(session, SCATTER, "bounds")
        assert y.tolist() == [0, 1, 2, 3, 4] and session["y"] is y
    session["k"] = np.array([1, 1, 2, 5])
    session.run(SCATTER)
    assert y.tolist() == [3, 4, 2, 3, 8]


def test_the_undo_log_begins_again() -> None:
    """An entry is changed in one call, then not as long as the log can tell calls apart, then again."""
    y, k = np.zeros(4), np.array([1, 2, 3, 3])
    session = session_with(y=y, k=k, s=sparse(1, 1, 1, 1))
    session.run(SCATTER)
    k[:] = 2, 2, 3, 3
    for _ in range(LAST_EPOCH - 1):
        session.run(SCATTER)
    before = y.copy()
    k[:] = 1, 2, 3, 99
    fails(session, SCATTER, "bounds")
    assert y.tolist() == before.tolist()


def test_the_undo_log_of_a_tensor_that_grows() -> None:
    y = Tensor.from_numpy(np.array([1.0, 0, 2, 0]), "SparseHash(Element(0.0))")
    session = session_with(y=y, k=np.array([1, 2, 3, 99]), s=sparse(1, 2, 3, 4))
    for _ in range(3):
        fails(session, SCATTER, "bounds")
        assert y.to_numpy().tolist() == [1, 0, 2, 0] and y.countstored() == 2
    session["k"] = np.array([1, 2, 3, 4])
    session.run(SCATTER)
    assert y.to_numpy().tolist() == [2, 2, 5, 4]


def test_arrays_of_any_size_are_saved() -> None:
    """Where a program goes over all of an array that is saved before."""
    session = session_with(x=np.ones(3), k=np.array([1, 2, 9]))
    for size in (3, 5, 2, 3):
        y = np.arange(float(size))
        session["y"], session["k"], session["x"] = y, np.array([1, 9]), np.ones(size)
        text = "@finch begin\nfor i = _; y[i] += x[i]; end\nfor p = _; y[k[p]] += 1; end\nend"
        fails(session, text, "bounds")
        assert y.tolist() == list(range(size))


@pytest.mark.parametrize("first", [0, 1, 3])
def test_views_of_what_is_written_are_refused(first: int) -> None:
    memory = np.arange(10.0)
    for one, other in ((memory[2:6], memory[first : first + 4]), (memory[2:6], memory)):
        session = session_with(y=one, x=other)
        fails(session, "@finch for i = 1:4; y[i] += x[~i]; end", "life cycle")
    assert memory.tolist() == list(range(10))


def test_views_that_do_not_meet_are_taken() -> None:
    memory = np.arange(8.0)
    session_with(y=memory[:4], x=memory[4:]).run("@finch for i = _; y[i] += x[i]; end")
    assert memory.tolist() == [4, 6, 8, 10, 4, 5, 6, 7]


def test_read_only_memory_is_not_written() -> None:
    y = np.zeros(3)
    y.flags.writeable = False
    fails(session_with(y=y, x=np.ones(3), c=1.0), SCALE, "type")
    assert not y.any()


#: programs that make y anew: before all else, twice, and after it was read; and one that writes some of
#: its arrays only
ANEW = {
    "first": SCALE,
    "in a loop": f"@finch for r = 1:2; {SCALE[13:-4]}; end",
    "last": f"@finch begin\nfor i = _; z[i] = y[i]; end\n{SCALE[13:]}",
    "in part": "@finch begin\ny .= 0\nend",
}


@pytest.mark.parametrize("level", ["Dense", *SPARSE])
@pytest.mark.parametrize("how", ANEW)
def test_what_was_handed_out_stays_when_a_tensor_is_made_anew(level: str, how: str) -> None:
    session = session_with(y=Tensor(f"{level}(Element(0.0))", 9), x=np.arange(9.0), z=np.zeros(9))
    kept = []
    for c, text in enumerate((SCALE, SCALE, ANEW[how], SCALE, SCALE, ANEW[how], SCALE)):
        session["c"] = c + 1.0
        session.run(text)
        if text is SCALE:
            assert session["y"].to_numpy().tolist() == [(c + 1) * i for i in range(9)]
            arrays = [a for part in session["y"].storage for a in part.values() if np.ndim(a)]
            kept += [(array, array.copy()) for array in arrays]
        assert all(np.array_equal(array, copy) for array, copy in kept)


@pytest.mark.parametrize("format", ["SparseByteMap", "SparseHash"])
def test_counters_change_in_place(format: str) -> None:
    """Within the room that there is."""
    y = Tensor.from_numpy(np.zeros(900), f"{format}(Element(0.0))")
    session = session_with(y=y)
    for i in (5, 2, 700, 1, 900, 3):
        session.run(f"@finch y[{i}] += {i}")
    coordinates, values = y.entries()
    assert (coordinates[0] + 1).tolist() == values.tolist() == [1, 2, 3, 5, 700, 900]


@pytest.mark.parametrize("kind", [sp.csc_matrix, sp.csr_matrix])
def test_indices_that_are_changed_in_place_are_seen(kind: type) -> None:
    matrix = kind(np.array([[1.0, 0, 2], [0, 3, 0], [0, 0, 4]]))
    session = session_with(A=matrix, y=np.zeros(3))
    text = "@finch begin\ny .= 0\nfor j = _, i = _; y[i] += A[i, j] * (10 * i + j); end\nend"
    for _ in range(2):
        session.run(text)
        dense = matrix.toarray()
        rows, columns = np.indices(dense.shape) + 1
        assert session["y"].tolist() == (dense * (10 * rows + columns)).sum(axis=1).tolist()
        matrix.indices[-1] = 0 if kind is sp.csr_matrix else 1
    matrix.indices[-1] = 7
    with pytest.raises(FinchError):
        session.run(text)


@pytest.mark.parametrize("axes", [(1, 2, 0), (2, 0, 1), (0, 2, 1), (2, 1, 0)])
def test_arrays_with_their_axes_in_any_order(axes: tuple[int, ...]) -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    y = np.zeros([x.shape[a] for a in axes]).transpose(np.argsort(axes))
    assert y.shape == x.shape
    text = "@finch begin\ny .= 0\nfor k = _, j = _, i = _; y[i, j, k] = 2 * x[i, j, k]; end\nend"
    session_with(y=y, x=x).run(text)
    assert np.array_equal(y, 2 * x)
    small = np.zeros([(2, 2, 3)[a] for a in axes]).transpose(np.argsort(axes))
    session = session_with(y=small, x=x)
    session.run(text)  # it takes another size
    assert np.array_equal(session["y"], 2 * x)


def test_kernels_on_disk_are_found_by_their_choices(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A workspace that one session inserts is an error in another."""
    monkeypatch.setenv("FINCH_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    text = "@finch begin\ny .= 0\nfor p = _; y[k[p]] += 1; end\nend"
    for workspaces in (True, False, True):
        session = Session(workspaces=workspaces)
        session["k"], session["y"] = np.array([3, 1]), Tensor("SparseList(Element(0))", 3)
        if workspaces:
            session.run(f"{text}\n")
            assert session["y"].entries()[1].tolist() == [1, 1]
        else:
            fails(session, f"{text}\n", "access order")


def test_unsound_storage_is_refused() -> None:
    """A coordinate that is one beyond the end, pointers that descend or are too few."""
    format, val = "Dense(SparseList(Element(0.0)))", np.ones(2)
    for ptr, idx in (
        ([0, 1, 2], [0, 3]),
        ([0, 2, 1], [0, 1]),
        ([0, 1, 3], [0, 1]),
        ([0, 1], [0, 1]),
    ):
        storage = [{}, {"ptr": np.array(ptr), "idx": np.array(idx), "stored": 2}, {"val": val}]
        A = Tensor.from_storage(Tensor(format, 3, 2).format, (3, 2), storage, checked=False)
        with pytest.raises(FinchError):
            session_with(A=A, y=np.zeros(3)).run("@finch for j = _, i = _; y[i] += A[i, j]; end")
