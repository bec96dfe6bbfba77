"""The contract of tensors as Python meets them: what arrays have, what they are made of, memory of NumPy's
in any order of bytes and strides, and what is refused, with a word on the way."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from finchlang import FinchError, Scalar, Session, SwizzledTensor, Tensor, kernel
from finchlang.native import copy_coordinates
from finchlang.native.copy_coordinates import ordered_copies
from finchlang.tensors.formats import parse_format

CSC = "Dense(SparseList(Element(0.0)))"
VALUES = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0]])


def test_tensors_have_what_arrays_have() -> None:
    tensor, scalar = Tensor(CSC, VALUES), Scalar(0.0, 1.5)
    turned = SwizzledTensor(tensor, (2, 1))
    assert (tensor.ndim, tensor.shape, tensor.size, tensor.nnz) == (2, (2, 3), 6, 3)
    assert (tensor.dtype, tensor.fill_value, str(tensor.format)) == (np.float64, 0.0, CSC)
    assert tensor.nbytes == 4 * 8 + 3 * 8 + 3 * 8  # ptr, idx, val
    assert (scalar.ndim, scalar.shape, scalar.size, scalar.nnz, scalar.nbytes) == (0, (), 1, 1, 8)
    assert (scalar.fill_value, scalar.copy().value, float(scalar.T)) == (0.0, 1.5, 1.5)
    assert (turned.shape, turned.size, turned.nnz, turned.fill_value) == ((3, 2), 6, 3, 0.0)
    assert np.array_equal(turned.copy().to_numpy(), VALUES.T)
    assert np.array_equal(copy.deepcopy(tensor).to_numpy(), VALUES)
    other = tensor.copy()
    other.storage[-1]["val"][0] = 9.0
    assert other[0, 0].todense() == 9.0 and tensor[0, 0].todense() == 1.0


def test_lazy_arrays_are_computed_when_they_are_bound() -> None:
    session, tensor = Session(), Tensor(CSC, VALUES)
    session["A"], session["total"] = tensor.T * 2, tensor.sum()
    tensor.storage[-1]["val"][0] = 9.0
    assert session.run("A[1, 1] + total[]") == 8.0
    assert np.array_equal(Tensor(CSC, tensor * 2).to_numpy(), tensor.to_numpy() * 2)
    assert kernel("A[1, 2]")(tensor.T) == 0.0


# ---------------------------------------------------------------------------------- NumPy's memory


def interlaced(array: np.ndarray) -> np.ndarray:
    """Three rows of four entries each, of which a row begins within another."""
    steps = 2 * array.itemsize, 3 * array.itemsize
    view = np.lib.stride_tricks.as_strided(np.zeros(14, array.dtype), array.shape, steps)
    view[:] = array
    return view


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "rows": np.ascontiguousarray,
    "columns": np.asfortranarray,
    "strided": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "interlaced": interlaced,
    "reversed": lambda a: np.ascontiguousarray(a[::-1, ::-1])[::-1, ::-1],
    "other bytes": lambda a: a.astype(a.dtype.newbyteorder()),
    "unaligned": lambda a: np.frombuffer(b"x" + a.tobytes(), np.uint8)[1:].view(a.dtype).reshape(a.shape),
    "read-only": lambda a: np.broadcast_to(a, a.shape),
    "of one row": lambda a: np.broadcast_to(a[:1], a.shape),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int8", "uint16", "int64", "bool"])
@pytest.mark.parametrize("engine", ["native", "interpret"])
def test_arrays_are_read_and_written_where_they_are(engine: str, dtype: str, layout: str) -> None:
    session, values = Session(engine), (np.arange(12).reshape(3, 4) % 5).astype(dtype)
    session["A"] = given = LAYOUTS[layout](values)
    held, wanted = session["A"], given.astype(dtype)
    session["y"] = np.zeros((3, 4), dtype)
    session.run("@finch for j = _, i = _; y[i, j] = A[i, j]; end")
    assert held is given and np.array_equal(session["y"], wanted)
    session["z"], change = (
        wanted[::-1, ::-1],
        "@finch for j = _, i = _; A[i, j] <<max>>= z[i, j]; end",
    )
    if not given.flags.writeable:
        with pytest.raises(FinchError, match="read-only"):
            session.run(change)
    else:
        session.run(change)
        wanted = np.maximum(wanted, wanted[::-1, ::-1])
    assert np.array_equal(given, wanted)


OPERANDS = (
    VALUES,
    np.asfortranarray(VALUES),
    VALUES.tolist(),
    sp.csr_array(VALUES),
    sp.coo_array(VALUES),
)


@pytest.mark.parametrize("array", OPERANDS)
def test_tensors_are_made_of_arrays(array: Any) -> None:
    assert Tensor(CSC, array).nnz == 3
    assert np.array_equal(Tensor(CSC, array).to_numpy(), VALUES)
    assert np.array_equal(Tensor(array).to_numpy(), VALUES)  # in the array's own format


def test_an_array_that_a_tensor_is_made_of_is_copied() -> None:
    for format in ("Dense(Dense(Element(0.0)))", CSC):
        tensor = Tensor.from_numpy(array := VALUES.copy(), format)
        array[0, 0] = 9.0
        assert np.array_equal(tensor.to_numpy(), VALUES)


def lists(rng: np.random.Generator, dtype: type) -> tuple[np.ndarray, np.ndarray, int]:
    """Fibers of a dimension, some of them empty, and its size."""
    fibers, size = rng.integers(0, 12), rng.integers(1, 40)
    stored = rng.random((fibers, size)) < rng.choice([0.0, 0.05, 0.4, 1.0])
    ptr = np.concatenate(([0], np.cumsum(stored.sum(axis=1))))
    return ptr.astype(dtype), np.nonzero(stored)[1].astype(dtype), int(size)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_lists_of_others_are_taken_if_they_are_in_order(dtype: type, monkeypatch: Any) -> None:
    """NumPy finds the same of lists in which up to two numbers were changed."""
    monkeypatch.setattr(copy_coordinates, "SMALL", 0)  # copies lie in memory that may be guarded
    rng, found = np.random.default_rng(7), {True: 0, False: 0}
    level = parse_format("SparseList(Element(0.0))")
    least, most = -(2**31), 2**31 - 1
    for _ in range(2000):
        ptr, idx, size = lists(rng, dtype)
        fibers, spare = len(ptr) - 1, rng.integers(0, 3)
        room = len(idx) + spare
        idx = np.concatenate((idx, rng.integers(-5, 50, spare).astype(dtype)))
        for _ in range(rng.integers(0, 3)):
            part = ptr if rng.random() < 0.4 or not room else idx
            near = int(rng.choice(part)) + int(rng.integers(-3, 4))
            changed = rng.choice([near, least, most], p=[0.9, 0.05, 0.05])
            part[rng.integers(0, len(part))] = min(max(changed, least), most)
        given, storage = (ptr.copy(), idx.copy()), {"ptr": ptr, "idx": idx, "stored": ptr[-1]}
        good = level.problem(storage, fibers, (size,)) is None
        copies = ordered_copies(ptr, idx, fibers, size, room)
        assert (copies is not None) == good, (ptr, idx, size)
        assert copies is None or all(map(np.array_equal, copies, given))
        found[good] += 1
    assert min(found.values()) > 300, found


# --------------------------------------------------------------------------------- other libraries


def named(module: str, name: str, **attributes: Any) -> Any:
    """An object of a class that another library might have."""
    return type(name, (), {"__module__": module, **attributes})()


class Coordinates:
    """As much of `sparse.COO` as is used."""

    def __init__(self, array: np.ndarray, fill: float):
        self.coords, self.fill_value = np.array(np.nonzero(array != fill)), fill
        self.data, self.shape = array[tuple(self.coords)], array.shape
        self.ndim, self.dtype = array.ndim, array.dtype

    def asformat(self, name: str) -> Coordinates:
        assert name == "coo"
        return self


def test_sparse_arrays_of_pydata_are_taken_with_their_fill(monkeypatch: Any) -> None:
    monkeypatch.setattr(Coordinates, "__module__", "sparse.numba_backend._coo.core")
    session = Session()
    for array in (VALUES, VALUES + 7, np.arange(6.0), np.ones((2, 3, 4))):
        given: Any = Coordinates(array, 7.0)
        session["A"] = given
        assert session["A"].fill == 7.0 and np.array_equal(session["A"].to_numpy(), array)
        assert np.array_equal(Tensor(given).to_numpy(), array)
    assert np.array_equal((Tensor(CSC, VALUES) * Coordinates(VALUES, 7.0)).todense(), VALUES**2)


@pytest.mark.parametrize(
    ("value", "said", "way"),
    [
        (named("polars.frame", "DataFrame", to_numpy=0), "polars.DataFrame", "`x.to_numpy()`"),
        (named("polars.lazy", "LazyFrame", collect=0), "polars.Lazy", "x.collect().to_numpy()"),
        (named("xarray", "Dataset", __array__=0, to_array=0), "xarray.Dataset", "x.to_array()"),
        (named("other", "Field", __array__=0), "other.Field", "np.asarray(x)"),
        (np.ma.array([1.0], mask=[True]), "masked", "x.filled(0.0)"),
    ],
)
def test_other_arrays_are_refused_by_name_when_they_are_bound(
    value: Any, said: str, way: str
) -> None:
    for bind in (Session().__setitem__, lambda _, given: Tensor(CSC, given)):
        with pytest.raises(FinchError) as caught:
            bind("x", value)
        assert caught.value.kind == "type" and said in caught.value.message
        assert way in str(caught.value.hint)


def total(value: Any) -> Any:
    session = Session()
    session.run("total(x) = sum(x)")
    return session["total"](value)


#: an array whose entries are one
ONE = np.lib.stride_tricks.as_strided(np.zeros(1), (4,), (0,))


def test_an_attribute_of_a_session_binds_no_name() -> None:
    session = Session()
    with pytest.raises(AttributeError, match=r"write `session\['x'\] = value`"):
        session.x = 3  # type: ignore[attr-defined]
    session.engine = "interpret"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Tensor(), "Tensor takes a format"),
        (lambda: Tensor(5), "is a format, not"),
        (lambda: Session().run(None), "a script is a text, not a NoneType"),  # type: ignore[arg-type]
        (lambda: Session().execute(None), "a script that is parsed, not a NoneType"),  # type: ignore[arg-type]
        (lambda: Session().function("x"), "a parsed definition, not of a str"),  # type: ignore[arg-type]
        (lambda: Session().run_kernel("x", {}), "`@finch`, not a str"),  # type: ignore[arg-type]
        (lambda: Session().run_file(None), "a path is a text, not a NoneType"),  # type: ignore[arg-type]
        (lambda: Tensor(CSC, None), "a size must be an integer"),
        (lambda: Tensor(CSC, "a"), "a size must be an integer"),
        (lambda: Tensor(CSC, 3), "has 2 modes"),
        (lambda: Tensor("Foo(1)", 3), "there is no level Foo"),
        (lambda: Tensor(Scalar(1.0)), "made by Scalar"),
        (lambda: Tensor.from_numpy(VALUES, 5), "a format is a text"),  # type: ignore[arg-type]
        (lambda: SwizzledTensor(5, (1,)), "the modes of a int"),  # type: ignore[arg-type]
        (lambda: Session(observer="x"), "an observer is .*, not a str"),  # type: ignore[arg-type]
        (lambda: total(2**70), "`x` of total: .* integer of more than 64 bits"),
        (lambda: total((1, 2**70)), "`x` of total: .* integer of more than 64 bits"),
        (lambda: total(np.ma.array([1.0], mask=[True])), "`x` of total: a masked array"),
        (lambda: total(np.array([1j])), "`x` of total: an array of complex128"),
        (
            lambda: kernel("@finch for i = _; y[i] = i end")(ONE),
            "entries of y are in the same memory",
        ),
    ],
)
def test_misuse_is_an_error_of_ours(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(FinchError, match=said):
        make()


def test_names_of_other_libraries_have_a_word_on_ours() -> None:
    tensor = Tensor(CSC, VALUES)
    with pytest.raises(AttributeError, match="todense") as caught:
        tensor.A  # type: ignore[attr-defined]  # noqa: B018
    assert caught.value.name == "A" and not hasattr(tensor, "nothing_like_it")
    with pytest.raises(AttributeError, match="no attribute 'sise'"):
        Scalar(1.0).sise = 1  # type: ignore[attr-defined]
