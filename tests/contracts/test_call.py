"""The contract of a call: what it writes and where, what it refuses to write, that all is as before where
it fails, and that what was handed out stays."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from every_format import fits, nests

from finchlang import FinchError, Scalar, Session, Tensor
from finchlang.host.noted import LAST_EPOCH
from finchlang.tensors.tensor import SwizzledTensor

ENGINES = pytest.mark.parametrize("engine", ["native", "interpret", "residual"])
SPARSE = (
    *("SparseList", "SparseByteMap", "SparseHash", "SparseCOO{1}", "SparseBand", "PackBits"),
    *("RunList", "SparseRunList", "SparseBlockList", "Workspace{1}"),
)
SCATTER = "@finch for p = _; y[k[p]] += s[p]; end"
SCALE = "@finch begin\ny .= 0\nfor i = _\n y[i] = c * x[i]\nend\nend"
COPY = "@finch begin\nC .= 0\nfor j = _, i = _; C[i, j] = A[i, j]; end\nend"
DENSE = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0]])


def session_with(engine: str = "native", **values: object) -> Session:
    session = Session(engine)
    for name, value in values.items():
        session[name] = value
    return session


def fails(session: Session, text: str, kind: str) -> None:
    with pytest.raises(FinchError) as found:
        session.run(text)
    assert found.value.kind == kind and found.value.span is not None


def sparse(*values: float) -> Tensor:
    return Tensor.from_numpy(np.array(values), "SparseList(Element(0.0))")


# ------------------------------------------------------------------------------- where results go

LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "C order": np.ascontiguousarray,
    "Fortran order": np.asfortranarray,
    "every other row": lambda a: np.repeat(a, 2, axis=0)[::2],
    "every other column": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "backwards": lambda a: a[::-1].copy()[::-1],
    "other bytes": lambda a: a.astype(">f8"),
}


@ENGINES
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_users_array_is_written_while_it_keeps_its_size(engine: str, layout: str) -> None:
    mine = LAYOUTS[layout](DENSE.copy())
    session = session_with(engine, C=mine, A=DENSE)
    for text, expected in (
        (
            "@finch for j = _, i = _; C[i, j] += 10 * i + j; end",
            DENSE + [[11, 12, 13], [21, 22, 23]],
        ),
        (COPY, DENSE),
    ):
        session.run(text)
        assert session["C"] is mine and np.array_equal(mine, expected)
    larger = session["A"] = np.arange(12.0).reshape(3, 4)
    session.run(COPY)
    assert session["C"] is not mine and np.array_equal(session["C"], larger)
    assert np.array_equal(mine, DENSE)
    session["A"], session["C"] = 3 * DENSE, mine
    session.run(COPY)
    assert session["C"] is mine and np.array_equal(mine, 3 * DENSE)


@pytest.mark.parametrize("axes", [(1, 2, 0), (2, 0, 1), (0, 2, 1), (2, 1, 0)])
def test_arrays_with_their_axes_in_any_order(axes: tuple[int, ...]) -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    text = "@finch begin\ny .= 0\nfor k = _, j = _, i = _; y[i, j, k] = 2 * x[i, j, k]; end\nend"
    for shape in ((2, 3, 4), (2, 2, 3)):  # of which one is another size
        y = np.zeros([shape[a] for a in axes]).transpose(np.argsort(axes))
        session = session_with(y=y, x=x)
        session.run(text)
        assert np.array_equal(session["y"], 2 * x) and (session["y"] is y) == (shape == x.shape)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 2)])
def test_arrays_without_entries(shape: tuple[int, ...]) -> None:
    session, indices = session_with(A=np.zeros(shape), s=Scalar(0.0)), "ijk"[: len(shape)]
    mine, loops = session["A"], ", ".join(f"{i} = _" for i in reversed(indices))
    access = f"A[{', '.join(indices)}]"
    session.run(f"@finch begin s .= 1; for {loops}; {access} += 1; s[] += 1; end; end")
    assert session["A"] is mine and mine.shape == shape and session["s"].value == 1.0


@ENGINES
@pytest.mark.parametrize("form", ["csc", "csr"])
def test_a_matrix_of_scipy_stays_the_same_object_while_it_keeps_its_size(
    engine: str, form: str
) -> None:
    """Also with parts that are not in place; else both it and what is bound then are whole."""
    loops = "j = _, i = _" if form == "csc" else "i = _, j = _"
    for shape in ((9, 5), (5, 9), (5, 5), (3, 5), (5, 3)):
        mine = sp.csc_array(np.eye(5)).asformat(form)
        mine.indices = mine.indices[::-1].copy()[::-1]
        session = session_with(engine, C=mine)
        for size in ((5, 5), shape, (5, 5), shape):
            A = session["A"] = sp.csc_array(np.triu(np.ones(size))).asformat(form)
            session.run(COPY.replace("j = _, i = _", loops))
            assert np.array_equal(session["C"].toarray(), A.toarray())
            for matrix in (mine, session["C"]):
                matrix.check_format(full_check=True)
        assert (session["C"] is mine) == (shape == (5, 5))
    session["C"] = mine = sp.csc_array(DENSE).asformat(form)
    session.run("@finch for j = _, i = _; C[i, j] *= 2; end")
    assert session["C"] is mine and np.array_equal(mine.toarray(), 2 * DENSE)
    session.run("@finch for j = _, i = _; C[i, j] += 1; end")
    assert session["C"] is mine and np.array_equal(mine.toarray(), 2 * DENSE + 1)


def test_counters_change_in_place() -> None:
    """Within the room that there is."""
    for format in ("SparseByteMap", "SparseHash"):
        y = Tensor.from_numpy(np.zeros(900), f"{format}(Element(0.0))")
        session = session_with(y=y)
        for i in (5, 2, 700, 1, 900, 3):
            session.run(f"@finch y[{i}] += {i}")
        coordinates, values = y.entries()
        assert (coordinates[0] + 1).tolist() == values.tolist() == [1, 2, 3, 5, 700, 900]


def test_two_pieces_of_memory_take_turns() -> None:
    """Also of a tensor that is small at first, and of one that shrinks and grows within its room."""
    for format, sizes in (
        ("Dense(Element(0.0))", [8192] * 8),
        ("SparseList(Element(0.0))", [50, 3, 40, 0, 50]),
    ):
        session, addresses = session_with(y=Tensor(format, 0), c=2.0), []
        for size in sizes:
            session["x"] = np.ones(size)
            session.run(SCALE)
            assert session["y"].to_numpy().tolist() == [2.0] * size
            addresses.append(session["y"].memory.arrays[-1].ctypes.data)
        assert len({*addresses[-5:]}) == 2


#: formats of matrices, of which quickly those that have each level once below Dense or alone
MATRICES = [
    pytest.param(f, marks=[pytest.mark.slow] * ("(" in f[:-15] and not f.startswith("Dense(")))
    for f in nests("Element(0.0)", 2)
]


@pytest.mark.parametrize("format", MATRICES)
def test_every_format_in_memory_that_held_something_else(format: str) -> None:
    """A multiple of a diagonal matrix, or of one entry where the format has no place for more; there
    is nothing to store when it is multiplied by 0."""
    one = np.zeros((17, 17))
    one[3, 3] = 1.0
    A = fits(format, np.diag(np.arange(1.0, 18)))
    A = fits(format, one) if A is None else A
    assert A is not None
    write = "C[i, j] = A[i, j] * c"
    if format.startswith("Symmetric"):  # of two mirrored places it has one
        write = f"if i <= j\n {write}\n end"
    session = session_with(A=A, C=Tensor(format, 17, 17))
    for step in range(8):
        session["c"] = float(step % 3)
        session.run(f"@finch begin\nC .= 0\nfor j = _, i = _\n {write}\nend\nend")
        assert np.array_equal(session["C"].to_numpy(), A.to_numpy() * (step % 3))
        session["C"].checked = False
        session["C"].validate()


VECTORS = [f"{level}(Element(0.0))" for level in SPARSE] + ["Dense(Element(0.0))"]
VECTORS += ["SparseList(Pattern())", "SparseHash(Pattern())", "SparseByteMap(Pattern())"]


@pytest.mark.parametrize("format", VECTORS)
@pytest.mark.parametrize("engine", ["native", pytest.param("interpret", marks=pytest.mark.slow)])
def test_results_that_shrink_and_grow(engine: str, format: str) -> None:
    """In size and in entries, of a tensor made from data, of which lengths are asked for at once, later or
    never; names that are swapped."""
    rng = np.random.default_rng(3)
    full = np.where(rng.random(60) < 0.7, np.round(1 + rng.random(60) * 9), 0)
    full = full != 0 if "Pattern" in format else full
    session = session_with(engine, y=fits(format, full), z=fits(format, full[:7]))
    text = "@finch begin\ny .= 0\nfor i = _\n if x[i] != 0\n  y[i] = x[i]\n end\nend\nend"
    steps = [(60, 1.0), (40, 1.0), (20, 0.2), (60, 1.0), (10, 0.0), (5, 1.0), (60, 0.1), (60, 1.0)]
    for count, share in steps:
        kept = session["y"], session["y"].to_numpy()
        session.run("y, z = z, y")
        x = session["x"] = np.where(rng.random(count) < share, full[:count], full.dtype.type(0))
        for _ in range(1 + count % 3):
            session.run(text)
        for tensor, wanted in ((session["y"], x), kept):
            assert np.array_equal(tensor.to_numpy(), wanted)
            tensor.checked = False
            tensor.validate()
            if format.startswith(("SparseList", "SparseHash", "SparseByteMap")):
                assert tensor.countstored() == np.count_nonzero(wanted)
                assert len(tensor.storage[0]["idx"]) == np.count_nonzero(wanted)


@pytest.mark.parametrize("level", SPARSE[:-1])
def test_copies_of_what_shrank_grow(level: str) -> None:
    """In the outer dimension, so that there is memory for more fibers than are in use."""
    session = session_with(A=Tensor(f"Dense({level}(Element(0.0)))"))
    for columns in (40, 2, 39):
        session["D"] = np.ones((3, columns))
        session.run("@finch begin A .= 0; for j = _, i = _; A[i, j] = D[i, j] end end")
        assert np.array_equal(session["A"].to_numpy(), session["D"])
        session["A"].checked = False
        session["A"] = session["A"].copy()


@pytest.mark.parametrize("format", ["SparseHash(Pattern())", "SparseByteMap(Pattern())"])
def test_what_grows_within_its_memory_is_not_cut_off(format: str) -> None:
    """Entries that are unset and set again: the table keeps their number, the list does not."""
    session, n = session_with(C=Tensor(format, 40)), np.arange(40)
    for chosen in (n < 20, (n < 20) | (n == 25), n < 26, (n < 5) | (n == 30), (n < 26) | (n == 30)):
        session["x"] = chosen.copy()
        session.run("@finch for i=_ C[i] = x[i] end")
        session["C"].checked = False
        session["C"].validate()
        np.testing.assert_array_equal(session["C"].to_numpy(), chosen)
        assert len(session["C"].storage[0]["idx"]) == chosen.sum()


# ----------------------------------------------------------------------------- what is not written


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


def test_read_only_memory_is_read_but_not_written() -> None:
    x, y = np.arange(3.0), np.zeros(3)
    x.flags.writeable = y.flags.writeable = False
    fails(session_with(y=y, x=x, c=1.0), SCALE, "type")
    assert not y.any()
    session = session_with(y=np.zeros(3), x=x, c=2.0)
    session.run(SCALE)
    assert session["y"].tolist() == [0, 2, 4]


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


# -------------------------------------------------------------------------- all is as before a failure


@ENGINES
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


def test_arrays_of_any_size_are_saved() -> None:
    """Where a program goes over all of an array that is saved before."""
    session = session_with(x=np.ones(3), k=np.array([1, 2, 9]))
    for size in (3, 5, 2, 3):
        y = np.arange(float(size))
        session["y"], session["k"], session["x"] = y, np.array([1, 9]), np.ones(size)
        text = "@finch begin\nfor i = _; y[i] += x[i]; end\nfor p = _; y[k[p]] += 1; end\nend"
        fails(session, text, "bounds")
        assert y.tolist() == list(range(size))


@pytest.mark.parametrize("format", VECTORS)
def test_a_tensor_that_is_made_anew_is_as_it_was(format: str) -> None:
    """After calls that went well and before others; what the failed one got is not used again."""
    n, declared = 200, "y .= 0\n" if "Pattern" not in format else "y .= false\n"
    value = "true" if "Pattern" in format else "x[k[i]]"
    text = (
        f"@finch begin\n{declared}for i = _; if m[i]; y[i] = {value}; end; z[k[i]] += 1; end\nend"
    )
    mask, k = np.arange(n) < 3, np.arange(1, n + 1)
    session = session_with(m=mask, k=k, x=np.arange(1.0, n + 1), z=np.zeros(n), y=Tensor(format, n))

    def expected() -> np.ndarray:
        return np.where(mask, 1 if "Pattern" in format else k, 0)

    for few in (3, 5):
        mask[:], k[-1] = np.arange(n) < few, n
        for _ in range(3):
            session.run(text)
            assert np.array_equal(session["y"].to_numpy(), expected())
        before, mask[:], k[-1] = expected(), True, n + 1
        for _ in range(3):
            fails(session, text, "bounds")
            assert np.array_equal(session["y"].to_numpy(), before)
            session["y"].checked = False
            session["y"].validate()


def test_a_tensor_that_grew_in_place_is_as_it_was() -> None:
    y = Tensor.from_numpy(np.array([1.0, 0, 2, 0]), "SparseHash(Element(0.0))")
    session = session_with(y=y, k=np.array([1, 2, 3, 99]), s=sparse(1, 2, 3, 4))
    for _ in range(3):
        fails(session, SCATTER, "bounds")
        assert y.to_numpy().tolist() == [1, 0, 2, 0] and y.countstored() == 2
    session["k"] = np.array([1, 2, 3, 4])
    session.run(SCATTER)
    assert y.to_numpy().tolist() == [2, 2, 5, 4]


# ------------------------------------------------------------------------------- what was handed out

#: programs that make y anew: before all else, twice, and after it was read; and one that writes some of
#: its arrays only
ANEW = {
    "first": SCALE,
    "in a loop": f"@finch for r = 1:2; {SCALE[13:-4]}; end",
    "last": f"@finch begin\nfor i = _; z[i] = y[i]; end\n{SCALE[13:]}",
    "in part": "@finch begin\ny .= 0\nend",
}


@pytest.mark.parametrize("level", SPARSE[:-1])
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


def test_what_was_handed_out_shows_updates_in_place() -> None:
    session = session_with(y=Tensor("Dense(Element(0.0))", 3), x=np.arange(3.0))
    given = session["y"].storage[-1]["val"]
    session.run("@finch for i = _; y[i] += x[i]; end")
    assert given.tolist() == [0, 1, 2]
    given[0] = 7
    assert session["y"].to_numpy().tolist() == [7, 1, 2]


LOOKS = ("display(y)", "y[2]", "y[1:2]", "println(y)", "size(y)", "sum(y)", "y[2] = 1.0")


@pytest.mark.parametrize("level", ["Dense", "SparseList"])
def test_what_is_looked_at_is_not_handed_out(level: str) -> None:
    y = Tensor(f"{level}(Element(0.0))", np.eye(1, 9)[0])
    session = session_with(y=y)
    for text in LOOKS if level == "Dense" else LOOKS[:-1]:
        session.run(text)
    assert y._repr_html_() and not y.memory.is_shared


@pytest.mark.parametrize("level", ["SparseByteMap", "SparseHash", "SparseList"])
def test_what_was_handed_out_stays_so_where_other_arrays_grow(level: str) -> None:
    """A bytemap grows the list of its entries alone, and keeps the values that were handed out."""
    y = Tensor(f"{level}(Element(0.0))", np.eye(1, 9)[0])
    session, given = session_with(y=y, x=np.arange(9.0)), y.storage[-1]["val"]
    session.run("@finch for i = _; y[i] += x[i]; end")
    kept = given.copy()
    session["x"], session["c"] = given, 2.0
    if np.shares_memory(given, y.memory.arrays[-1]):
        fails(session, "@finch for i = _; y[i] += x[i]; end", "life cycle")
    session["x"] = np.arange(9.0)
    session.run(SCALE)
    assert np.array_equal(given, kept) and y.to_numpy().tolist() == [2.0 * i for i in range(9)]


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))]
)
def test_a_copy_of_a_tensor_has_memory_of_its_own(duplicate: Callable[[Any], Any]) -> None:
    for format in ("Dense(Element(0.0))", "SparseList(Element(0.0))"):
        session = session_with(y=Tensor(format, 5), x=np.arange(5.0), c=1.0)
        for _ in range(3):
            session.run(SCALE)
        first, kept = session["y"], duplicate(session["y"])
        session["y"] = kept
        for c in (2.0, 3.0, 4.0):
            session["c"] = c
            session.run(SCALE)
            assert np.array_equal(kept.to_numpy(), c * np.arange(5.0))
            assert np.array_equal(first.to_numpy(), np.arange(5.0))


@pytest.mark.parametrize("form", ["csc", "csr", "coo"])
def test_sparse_arithmetic_of_scripts_gives_sparse_tensors(form: str) -> None:
    one, other = (sp.random_array((30, 20), density=0.1, rng=k) for k in (1, 2))
    A, B = one.asformat(form), other.tocsr()
    session = session_with(A=A, B=B)
    for text, wanted in (("A + B", A + B), ("B - A / 2", B - A / 2), ("2 * A", 2 * A), ("-B", -B)):
        found = session.run(text)
        assert isinstance(found, (Tensor, SwizzledTensor)) and found.countstored() == wanted.nnz
        np.testing.assert_allclose(found.to_numpy(), wanted.toarray())
        assert np.array_equal(found.to_scipy().toarray(), found.to_numpy())
