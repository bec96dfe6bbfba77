"""The contract of guests: tensors and arrays in the functions of other libraries do what NumPy arrays do
there, or are refused with a word on what to call.

Each row of `guest_rows.txt` is a call with `T`, a tensor or array, and `D`, the NumPy array of its
elements; rows have the kinds of `T` in turn. A library that is not installed skips its rows: the extra
`guests` has all.
"""

from __future__ import annotations

import copy
import importlib
import itertools
import operator
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from rows import rows

import finchlang
import finchlang.array as xp
from finchlang import FinchError, Tensor

pytestmark = pytest.mark.filterwarnings("ignore")

RNG = np.random.default_rng(7)
D = np.round(RNG.random((9, 9)) * (RNG.random((9, 9)) < 0.4), 2)
B, E = RNG.random(9), RNG.random((9, 4))
CSC, HALF = "Dense(SparseList(Element(0.0)))", D + D.T + 9 * np.eye(9)
KINDS = {
    "tensor": lambda d: Tensor(CSC, d),
    "by rows": lambda d: xp.asarray(sp.csr_array(d)),
    "lazy": lambda d: xp.asarray(Tensor(CSC, d)) * 1,
    "frozen": lambda d: xp.frozen(Tensor(CSC, d)),
}
MODULES = {
    **{
        "ac": "array_api_compat",
        "ad": "anndata",
        "da": "dask.array",
        "pd": "pandas",
        "sc": "scanpy",
    },
    **{"linalg": "sklearn.linear_model", "pre": "sklearn.preprocessing", "xr": "xarray"},
    **{"dec": "sklearn.decomposition", "near": "sklearn.neighbors", "plt": "matplotlib.pyplot"},
    **{"sla": "scipy.sparse.linalg", "graphs": "scipy.sparse.csgraph", "stats": "scipy.stats"},
}


def names_in(text: str) -> dict[str, Any]:
    """What a row may name; the libraries that it names are imported, or the row is skipped."""
    names = dict(globals())
    for name, module in MODULES.items():
        if f"{name}." in text.replace("_.", ""):
            if module == "matplotlib.pyplot":
                pytest.importorskip("matplotlib").use("Agg")
            pytest.importorskip(module.partition(".")[0])
            names[name] = importlib.import_module(module)
    return names


def dense(value: Any) -> Any:
    return value.todense() if hasattr(value, "todense") else value


def of_kinds(section: str) -> list[Any]:
    """The rows of a section, each with the next kind of `T`."""
    kinds = [*KINDS]
    found = enumerate(rows("guest_rows.txt", section))
    return [pytest.param(kinds[k % len(kinds)], *row, id=row[0]) for k, row in found]


@pytest.mark.parametrize(("kind", "call"), of_kinds("same"))
def test_calls_of_other_libraries_give_what_they_give_for_numpy(kind: str, call: str) -> None:
    names = names_in(call)
    found, wanted = (eval(call, {**names, "T": T}) for T in (KINDS[kind](D), D))
    np.testing.assert_allclose(dense(found), np.asarray(dense(wanted)), rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize(("kind", "call", "wanted"), of_kinds("otherwise"))
def test_what_other_libraries_take_is_made(kind: str, call: str, wanted: str) -> None:
    names = names_in(call) | {"T": KINDS[kind](D)}
    found, other = dense(eval(call, names)), eval(wanted, names)
    if isinstance(other, (str, np.dtype)):
        assert found == other
    else:
        np.testing.assert_allclose(found, other, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("kind", "call", "error", "told"), of_kinds("refused"))
def test_what_cannot_be_had_is_refused_with_the_way(
    kind: str, call: str, error: str, told: str
) -> None:
    names = names_in(call) | {"BIG": xp.eye(10**5)}
    with pytest.raises(
        {**vars(__import__("builtins")), "FinchError": FinchError}[error], match=told
    ):
        eval(call, names)


@pytest.mark.parametrize(("value", "text", "wanted"), rows("guest_rows.txt", "scripts"))
def test_scripts_see_what_an_array_holds(value: str, text: str, wanted: str) -> None:
    """In any byte order; NumPy's matrices have rows only, and a DOK array of SciPy is a dictionary."""
    session = finchlang.Session()
    session["x"] = eval(value, names_in(value))
    try:
        assert str(session.run(text)) == wanted
    except FinchError as error:
        assert wanted in str(error)


# -------------------------------------------------------------------------------------------- Dask


@pytest.mark.parametrize("call", [row for (row,) in rows("guest_rows.txt", "dask")])
def test_chunks_of_dask(call: str) -> None:
    da = pytest.importorskip("dask.array")
    names: dict[str, Any] = {"np": np, "da": da, "E": E}
    given = xp.frozen(Tensor(CSC, D)), D
    found, wanted = (eval(call, {**names, "x": da.from_array(x, chunks=(4, 5))}) for x in given)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    result = found.compute(scheduler="sync")
    assert not isinstance(result, xp.Array) or isinstance(result, xp.FrozenArray)
    np.testing.assert_allclose(dense(result), wanted.compute(scheduler="sync"))


def test_chunks_have_a_token_and_a_size() -> None:
    tokenize = pytest.importorskip("dask.base").tokenize
    one, same, other = (xp.frozen(Tensor(CSC, d)) for d in (D, D, D.T))
    assert tokenize(one) == tokenize(same) == tokenize(pickle.loads(pickle.dumps(one)))
    assert tokenize(one) != tokenize(other)
    assert pytest.importorskip("dask.sizeof").sizeof(one) >= one.compute().nbytes


@pytest.mark.slow
def test_a_cluster_gives_what_one_process_gives(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    example = Path(__file__).parents[2] / "examples" / "cluster.py"
    given = [sys.executable, str(example), "--size", "60", "--folder", str(tmp_path)]
    run = subprocess.run(given, capture_output=True, text=True, env={**os.environ}, timeout=300)
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout.splitlines() == [
        "SpMV equals that of one process",
        "PageRank equals that of one process",
        "normalised counts equal those of one process, with a worker killed",
    ]


# ------------------------------------------------------------------------------------------ memory


def test_pickles_have_each_operand_once_and_what_is_in_use() -> None:
    """Also what a kernel has made, with room to grow and with a buffer of its last result."""
    T = Tensor(CSC, sp.random_array((300, 300), density=0.2, rng=0))
    total = xp.sum(T * xp.asarray(T) + T, axis=0)
    made = (xp.asarray(T) + T).compute()
    xp.compute(made * 2, out=made)
    for x in (T, xp.asarray(T), total, xp.frozen(T), made):
        assert len(pickle.dumps(x)) < T.nbytes + 3000
    buffers: list[Any] = []
    text = pickle.dumps(T, 5, buffer_callback=buffers.append)
    assert len(text) < 1000 and len(buffers) == 3
    again = pickle.loads(text, buffers=buffers)
    again.storage[2]["val"][:] = 0
    assert again.nnz == T.nnz and xp.sum(T).compute().value > 0


def test_unpickled_expressions_are_programs_that_are_known() -> None:
    """Types, fills and formats are compared by identity, which pickling must keep."""
    x = xp.sum(xp.asarray(Tensor(CSC, D)) * 3 + 1, axis=0)
    for again in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert again.node.values is x.node.values
        assert again.node.args[0].static is x.node.args[0].static
        np.testing.assert_allclose(again.todense(), x.todense())


def test_frozen_arrays_do_not_change() -> None:
    T = Tensor("Dense(Element(0.0))", B)
    frozen = xp.frozen(T)
    T.storage[1]["val"][:] = 0
    own = frozen.compute()
    own.storage[1]["val"][:] = 1
    with pytest.raises(TypeError, match="not changed in place"):
        operator.setitem(frozen, 0, 1)
    assert np.array_equal(frozen.todense(), B) and frozen.copy() is frozen
    doubled = finchlang.kernel("@finch for i = _; x[i] *= 2 end")
    doubled(frozen)
    assert np.array_equal(frozen.todense(), B)
    assert isinstance(frozen + 1, xp.FrozenArray) and isinstance(frozen.sum(), float)


def test_previews() -> None:
    x = xp.asarray(np.eye(2))
    assert repr(x) == "2x2 lazy array of float64, fill 0.0\n[[1. 0.]\n [0. 1.]]"
    assert (
        repr(x + 1) == "2x2 lazy array of float64, fill 0.0, not computed yet\n[[2. 1.]\n [1. 2.]]"
    )
    assert repr(xp.eye(99) * 2) == "99x99 lazy array of float64, fill 0.0, not computed yet"
    assert str(Tensor(CSC, np.eye(2))) == f"2x2 Tensor({CSC})\n[[1. 0.]\n [0. 1.]]"
    assert str(Tensor(CSC, np.eye(99))).endswith("with 99 stored entries")


def test_memory_is_in_proportion_to_entries() -> None:
    """Of a COO matrix of any shape; its repeated entries are summed, or refused."""
    size = 10**12
    coordinates = np.array([[1, size - 1, 7, 7], [size - 2, 5, 9, 9]])
    big = sp.coo_array((np.ones(4), tuple(coordinates)), (size, size))
    for format in (None, "SparseList(SparseList(Element(0.0)))", "SparseCOO{2}(Element(0.0))"):
        x = xp.asarray(big, format=format)
        assert sorted((x * 2).tocoo().data) == [2, 2, 4] and x.compute().nbytes < 1000
    given = "SparseList(SparseList(Element(0.0)))", (size, size), coordinates, np.ones(4)
    assert Tensor.from_coo(*given).nnz == 3
    with pytest.raises(FinchError, match=r"more than one value at the coordinates \(7, 9\)"):
        Tensor.from_coo(*given, duplicates="error")


@pytest.mark.parametrize("dtype", ["f8", "f4", "i1", "u8", "bool"])
@pytest.mark.parametrize("shape", [(40, 30), (3, 200), (200, 1), (0, 4)])
def test_matrices_that_scipy_has_too_are_made_as_others(dtype: str, shape: tuple[int, int]) -> None:
    """Entries in any order, some repeated and some zero; the fastest way is that of its functions."""
    rng = np.random.default_rng(1)
    count = 300 if min(shape) else 0
    rows, columns = (rng.integers(0, max(n, 1), count).astype("i4") for n in shape)
    values = (rng.integers(-3, 4, count) * 40.7).astype(dtype)
    fill = {"f8": "0.0", "f4": "0.0f0", "i1": "Int8(0)", "u8": "UInt64(0)", "bool": "false"}[dtype]
    made: dict[str, Any] = {}
    for order in (slice(None), np.lexsort((rows, columns)), np.argsort(columns, kind="stable")):
        given = shape, [rows[order], columns[order]], values[order]
        for level in ("Dense(SparseList{Int32}", "SparseList(SparseList", "Dense(SparseList"):
            made[level] = Tensor.from_coo(f"{level}(Element({fill})))", *given)
        wanted = made["SparseList(SparseList"].entries()
        for T in made.values():
            T.checked = False
            T.validate()
            for found, other in zip(T.entries(), wanted, strict=True):
                assert found.dtype == other.dtype and np.array_equal(found, other)
    stored = wanted[1] != 0
    by_rows = xp.asarray(sp.csr_array(made["Dense(SparseList"].tocsr()))
    for level in ("Dense(SparseList{Int32}", "SparseList(SparseList", "SparseCOO{2}"):
        T = xp.asarray(by_rows, format=f"{level}(Element({fill}))" + ")" * ("COO" not in level))
        found = T.compute().entries()
        assert np.array_equal(found[0], wanted[0][:, stored])
        assert np.array_equal(found[1], wanted[1][stored])


def test_matrices_have_memory_of_their_own() -> None:
    given = sp.csc_array(D)
    T, other = xp.asarray(given, format=CSC).compute(), xp.asarray(given).tocsc()
    given.data[:] = 0
    assert np.array_equal(T.todense(), D) and np.array_equal(other.toarray(), D)
    with pytest.raises(FinchError, match="Int8 has no room"):
        Tensor.from_coo("Dense(SparseList{Int8}(Element(0.0)))", (200, 2), [[0], [0]], [1.0])
    with pytest.raises(FinchError, match=r"Int8 has no room for the 200 positions"):
        given = "Dense(SparseList{Int8}(Element(0.0)))", (100, 100)
        Tensor.from_coo(*given, np.divmod(np.arange(200), 100), np.ones(200))


@pytest.mark.parametrize("fill", [0.0, 2.0])
@pytest.mark.parametrize(
    "kind", ["csr", "csc", "SparseList(SparseList", "SparseCOO{2}", "Dense(SparseRunList"]
)
def test_parts_at_lists_store_what_is_stored(kind: str, fill: float) -> None:
    """Of any format, in any order of the lists, with coordinates several times; never dense."""
    rng = np.random.default_rng(3)
    d = np.where(rng.random((40, 30)) < 0.1, rng.random((40, 30)), fill)
    level = "Dense(SparseList" if kind.startswith("cs") else kind
    format = f"{level}(Element({fill})" + ")" * (1 + level.count("("))
    T = xp.asarray(d.T, format=format).T if kind == "csr" else xp.asarray(d, format=format)
    T = T.tocsr() if kind == "csr" and not fill else T
    T = xp.asarray(T)
    i, j, mask = rng.integers(0, 40, 17), rng.integers(-30, 30, 13), rng.random(40) < 0.5
    keys = [
        np.ix_(i, j),
        (i,),
        (slice(None), j),
        (mask, slice(2, 9)),
        (i[:, None], j),
        (i, None, 3),
    ]
    for key, x in itertools.product(keys, (T, T * 1)):
        found = x[key]
        np.testing.assert_array_equal(found.todense(), d[key])
        if not any(part is None for part in key):
            assert found.compute().nnz == np.count_nonzero(d[key] != fill)
    assert T[i[:4].reshape(2, 2)].compute().nnz == np.count_nonzero(d[i[:4]] != fill)
    np.testing.assert_array_equal(T[:, j[:4].reshape(2, 2)].todense(), d[:, j[:4].reshape(2, 2)])
    np.testing.assert_array_equal(T[i][:, j].T[i[:3] % 13].todense(), d[i][:, j].T[i[:3] % 13])
    np.testing.assert_array_equal(T[i[:, None] % 5, j[None]].todense(), d[i[:, None] % 5, j[None]])
    np.testing.assert_array_equal(T[i[None], i[:, None] % 5].todense(), d[i[None], i[:, None] % 5])


def test_lists_of_great_sparse_arrays_take_no_time_for_pairs() -> None:
    size, places = 10**6, np.arange(0, 10**6, 5)
    assert xp.eye(size)[np.ix_(places, places)].compute().nnz == len(places)
    cube = Tensor.from_coo("SparseCOO{3}(Element(0.0))", (size,) * 3, [[5, 7]] * 3, [1.0, 2.0])
    assert xp.asarray(cube)[:, places][places].compute().nnz == 1
