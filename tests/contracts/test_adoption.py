"""The contract of arrays from outside: those that a SciPy matrix is made of may be of any kind, each is
read as it is, or refused; what goes to SciPy comes back; memory that is ours begins at 64 bytes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import finchlang.array as xp
from finchlang import FinchError, Session, Tensor
from finchlang.tensors.adopt import as_tensor

SUM = "s = Scalar(0.0); @finch for j = _, i = _ s[] += (i + 10 * j) * A[i, j] end; s[]"
DENSE = np.array([[1.0, 0, 2, 0], [0, 3, 0, 0], [4, 0, 5, 6]])


def matrix(kind: str = "csc") -> Any:
    return getattr(scipy.sparse, f"{kind}_matrix")(DENSE)


def weighted(dense: np.ndarray) -> float:
    rows, columns = np.indices(dense.shape) + 1
    return float(((rows + 10 * columns) * dense).sum())


def spread(array: np.ndarray) -> np.ndarray:
    """The same entries, each beside another."""
    wide = np.full((len(array), 2), array.dtype.type(99))
    wide[:, 0] = array
    return wide[:, 0]


def field(array: np.ndarray) -> np.ndarray:
    """The same entries, in records of a byte more."""
    records = np.zeros(len(array), [("tag", np.int8), ("part", array.dtype)])
    records["part"] = array
    return records["part"]


PLACES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "spread": spread,
    "field": field,
    "backwards": lambda array: array[::-1].copy()[::-1],
    "swapped": lambda array: array.astype(array.dtype.newbyteorder()),
    "unaligned": lambda array: np.frombuffer(b"x" + array.tobytes(), np.int8)[1:].view(array.dtype),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("part", ["data", "indices", "indptr"])
@pytest.mark.parametrize(
    ("engine", "kind"), [("native", "csc"), ("native", "csr"), ("interpret", "csc")]
)
def test_parts_in_any_place_and_byte_order(engine: str, kind: str, part: str, place: str) -> None:
    """At the first call and at each: what is changed in them is seen."""
    session, A = Session(engine), matrix(kind)
    setattr(A, part, PLACES[place](getattr(A, part)))
    session["A"] = A
    for factor in (1.0, 1.0, 2.0, 3.0):
        if A.data.flags.writeable:
            A.data[:] = factor * matrix(kind).data
        assert session.run(SUM) == weighted(A.toarray())


def test_large_parts_that_are_spread() -> None:
    n = 3000
    values = np.arange(2.0 * n).reshape(n, 2)
    A = scipy.sparse.csc_matrix((values[:, 0], np.arange(n), np.arange(n + 1)))
    A.data = values[:, 0]
    session = Session()
    session["A"], session["x"] = A, np.ones(n)
    session.run("y = zeros(3000); @finch for j = _, i = _ y[i] += A[i, j] * x[j] end")
    np.testing.assert_array_equal(session["y"], values[:, 0])


@pytest.mark.parametrize("part", ["data", "indices", "indptr"])
def test_an_output_with_parts_that_are_copied(part: str) -> None:
    session, A = Session(), matrix()
    setattr(A, part, spread(getattr(A, part)))
    session["A"], session["B"] = A, matrix()
    session.run("@finch begin A .= 0; for j = _, i = _ A[i, j] += 2 * B[i, j] end end")
    np.testing.assert_array_equal(session["A"].toarray(), 2 * DENSE)


@pytest.mark.parametrize("kind", ["csc", "csr"])
def test_unsorted_parts_that_are_read_only(kind: str) -> None:
    A = matrix(kind)
    dense, bounds = A.toarray(), A.indptr
    for start, stop in zip(bounds, bounds[1:], strict=False):
        A.indices[start:stop], A.data[start:stop] = (
            A.indices[start:stop][::-1].copy(),
            A.data[start:stop][::-1].copy(),
        )
    A.has_sorted_indices = A.has_canonical_format = False
    before = A.indices.copy()
    for part in (A.data, A.indices, A.indptr):
        part.flags.writeable = False
    session = Session()
    session["A"] = A
    assert session.run(SUM) == session.run(SUM) == weighted(dense)
    np.testing.assert_array_equal(A.indices, before)


@pytest.mark.parametrize("kind", [scipy.sparse.csc_matrix, scipy.sparse.csr_array])
def test_indices_that_are_changed_after_scipy_has_noted_their_order(kind: Any) -> None:
    matrix = kind(np.array([[1.0, 2.0, 0.0], [3.0, 4.0, 5.0], [0.0, 0.0, 6.0]]))
    assert matrix.has_canonical_format
    session = Session()
    session["A"] = matrix
    session.run("s = Scalar(0.0)")
    for swapped in ([1, 0], [0, 0]):  # in another order, then one of them twice
        matrix.indices[:2] = swapped
        dense = matrix.toarray()
        session.run("@finch (s .= 0; for j = _, i = _; s[] += A[i, j] * (i + 10j) end)")
        expected = sum(dense[i, j] * (i + 1 + 10 * (j + 1)) for i in range(3) for j in range(3))
        assert session["s"].value == expected


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("indices", lambda part: part.astype(float)),
        ("indptr", lambda part: part.astype(float)),
        ("indices", lambda part: part.astype(np.uint64)),
        ("indptr", lambda part: part.astype(np.uint64)),
        ("indices", lambda part: part.astype(bool)),
        ("indices", lambda part: part.reshape(1, -1)),
        ("data", lambda part: part.reshape(-1, 1)),
        ("indptr", lambda part: part.reshape(-1, 1)),
        *[(part, lambda part: part.tolist()) for part in ("data", "indices", "indptr")],
        *[(part, lambda part: None) for part in ("data", "indices", "indptr")],
        ("data", lambda part: np.ma.masked_array(part, part > 2)),
        ("data", lambda part: part.astype(np.float16)),
        ("data", lambda part: part.astype(object)),
    ],
)
def test_parts_that_are_no_vectors_of_numbers(part: str, change: Any, is_known: bool) -> None:
    session, A = Session(), matrix()
    session["A"] = A
    if is_known:
        session.run(SUM)
    setattr(A, part, change(getattr(A, part)))
    with pytest.raises(FinchError) as caught:
        session.run(SUM)
    assert caught.value.kind == "type"


@pytest.mark.parametrize("kind", ["coo", "bsr", "dia", "lil", "dok"])
def test_matrices_of_other_formats(kind: str) -> None:
    session = Session()
    session["A"] = scipy.sparse.csc_matrix(DENSE).asformat(kind)
    assert session.run(SUM) == weighted(DENSE)


@pytest.mark.parametrize("place", [-5, 3, 10**9])
def test_coordinates_are_looked_at_before_they_are_sorted(place: int) -> None:
    session, A = Session(), scipy.sparse.coo_array(DENSE)
    A.coords[0][0] = place
    session["A"] = A
    with pytest.raises(FinchError) as caught:
        session.run(SUM)
    assert caught.value.kind == "bounds"


@pytest.mark.parametrize("pointers", [(0, 10**6), (-9, 3), (2, 1)])
def test_pointers_of_a_vector(pointers: tuple[int, int]) -> None:
    x = scipy.sparse.csr_array(np.arange(4.0))
    x.indptr[:] = pointers
    with pytest.raises(FinchError, match="corrupt SciPy array"):
        Tensor(x)


def test_parts_of_pydata_that_do_not_fit() -> None:
    sparse = pytest.importorskip("sparse")
    for pointers in ([0, 9, 3, 3], [0, 3, 1, 3], [1, 1, 2, 3]):
        A = sparse.GCXS.from_numpy(np.diag([1.0, 2, 3]))
        A.indptr[:] = pointers
        with pytest.raises(FinchError, match="corrupt PyData array"):
            Tensor(A)


class Named(scipy.sparse.csr_array):
    """A matrix of SciPy as a library derives it, made in its own way."""

    def __init__(self, name: str, parts: Any):
        super().__init__(parts)
        self.name = name


def test_matrices_of_derived_classes() -> None:
    session = Session()
    session["A"] = A = Named("mine", DENSE)
    assert session.run("sum(A)") == DENSE.sum()
    session.run("@finch for j = _, i = _; A[i, j] *= 2 end")
    assert session["A"] is A and np.array_equal(A.toarray(), 2 * DENSE)
    assert np.array_equal((xp.asarray(A) @ A.T).todense(), 4 * DENSE @ DENSE.T)
    A.data = A.data.astype(">f8")  # which are copied
    assert np.array_equal(Tensor(A).to_numpy(), A.toarray())


@pytest.mark.parametrize("dtype", ["q", "Q", ">u8", ">f4"])
def test_arrays_of_any_integer_of_c_and_byte_order(dtype: str) -> None:
    """NumPy has two types of 64 bits: that of `np.asarray([2**63])` is not that of `np.uint64`."""
    given = np.array([[0, 2], [1, 0]], dtype)
    matrix = scipy.sparse.csr_array(given.astype("f8"))
    matrix.data = matrix.data.astype(dtype)
    for x in (given, matrix):
        assert np.array_equal((xp.asarray(x) * xp.asarray(x)).todense(), given**2)
    assert xp.asarray([2**63]).todense()[0] == 2**63


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("engine", ["native", "interpret", "residual"])
def test_a_matrix_of_numpy_is_an_array(engine: str) -> None:
    session = Session(engine)
    session["A"], session["B"] = np.matrix(DENSE), np.asfortranarray(np.matrix(DENSE))
    session.run("@finch for j = _, i = _; A[i, j] += 2 * B[i, j]; end")
    assert np.array_equal(session["A"], 3 * DENSE)
    assert session.run("A[:, 1]").tolist() == [3, 0, 12] and len([*session.run("collect(A)")]) == 3
    assert session.run("map(x -> x + 1, A)").tolist() == (3 * DENSE + 1).tolist()


# ------------------------------------------------------------------------------- SciPy and back

SPARSE = ("coo", "csr", "csc", "bsr", "dia", "lil", "dok")
SHAPES = [
    DENSE,
    np.eye(4),
    np.tri(4),
    np.zeros((3, 2)),
    np.ones((1, 1)),
    *map(np.zeros, [(0, 0), (0, 4), (3, 0)]),
]


@pytest.mark.parametrize(("kind", "flavour"), [*product(SPARSE, ("array", "matrix"))])
@pytest.mark.parametrize("dtype", [np.float64, np.bool_, np.int8, np.uint16, np.float32])
def test_from_scipy_and_back(kind: str, flavour: str, dtype: Any) -> None:
    for given in SHAPES:
        array = given.astype(dtype)
        if kind == "bsr" and 0 in array.shape:  # SciPy divides by the size of a block
            continue
        sparse = getattr(scipy.sparse, f"{kind}_{flavour}")(array)
        tensor = as_tensor(sparse)
        np.testing.assert_array_equal(tensor.to_numpy(), array)
        stored = tensor.countstored()  # a block of BSR may have zeros in it
        assert stored >= sparse.nnz if kind == "bsr" else stored == np.count_nonzero(array)
        back = tensor.to_scipy()
        assert back.dtype == dtype and back.format == ("csr" if kind == "csr" else "csc")
        np.testing.assert_array_equal(back.toarray(), array)


def test_scipy_arrays_of_other_orders() -> None:
    vector = np.array([0.0, 1, 0, 2])
    for kind in ("coo", "csr", "dok"):
        tensor = as_tensor(getattr(scipy.sparse, f"{kind}_array")(vector))
        np.testing.assert_array_equal(tensor.to_numpy(), vector)
    cube = np.zeros((2, 3, 4))
    cube[1, 2, 3], cube[0, 1, 2] = 5, 3
    tensor = as_tensor(scipy.sparse.coo_array(cube))
    assert str(tensor.format) == "SparseCOO{3}(Element(0.0))"
    np.testing.assert_array_equal(tensor.to_scipy().toarray(), cube)


def test_repeated_coordinates_are_summed_and_explicit_zeros_stay() -> None:
    repeated = scipy.sparse.coo_array((np.array([1.0, 2, 4]), ([0, 0, 1], [1, 1, 0])), (2, 2))
    np.testing.assert_array_equal(as_tensor(repeated).to_numpy(), [[0, 3], [4, 0]])
    zeros = scipy.sparse.coo_array((np.array([0.0, 2]), ([0, 1], [1, 0])), (2, 2))
    assert as_tensor(zeros).countstored() == 2 and as_tensor(zeros).to_scipy().nnz == 2
    assert Tensor("Dense(SparseList(Element(0.0)))", as_tensor(zeros)).countstored() == 1


def test_what_scipy_cannot_hold() -> None:
    with pytest.raises(FinchError) as caught:
        Tensor("Dense(SparseList(Element(1.0)))", np.eye(2)).to_scipy()
    assert caught.value.kind == "type"
    for dtype in (np.complex128, np.longdouble):
        with pytest.raises(FinchError) as caught:
            as_tensor(scipy.sparse.csr_array(np.eye(2, dtype=dtype)))
        assert caught.value.kind == "type"


# ------------------------------------------------------------------------------- memory of ours


def is_aligned(value: Any) -> bool:
    parts = [{"array": value}] if isinstance(value, np.ndarray) else value.storage
    arrays = [a for part in parts for a in part.values() if isinstance(a, np.ndarray)]
    return not any(array.size and array.ctypes.data % 64 for array in arrays)


def test_what_kernels_allocate_is_aligned() -> None:
    """Also memory that grows again and again, which keeps what is in it."""
    for count in (1, 15, 17, 1000, 100_000):
        session = Session()
        session["s"] = Tensor.from_coo(
            "SparseList(Element(0.0))", (count,), [np.arange(count)], np.arange(count) * 1.0
        )
        for level in ("SparseList", "SparseByteMap", "Dense"):
            session["t"] = Tensor(f"{level}(Element(0.0))", 1)
            for _ in range(3):
                session.run("@finch begin\n t .= 0\n for i = _\n t[i] = 2 * s[i]\n end\n end")
                assert is_aligned(session["t"])
                np.testing.assert_array_equal(session["t"].to_numpy(), 2.0 * np.arange(count))


def test_arrays_of_scripts_and_files_are_aligned(tmp_path: Path) -> None:
    session = Session()
    session.run("x = zeros(1001); y = ones(Float32, 3, 7); z = fill(2, 5)")
    session.run("A = fsprand(40, 50, 0.3); B = copy(A)")
    for suffix in ("mtx", "ttx"):
        file = str(tmp_path / f"A.{suffix}")
        session.run(f'fwrite("{file}", A); C = fread("{file}")')
        assert is_aligned(session["C"])
    assert all(is_aligned(session[name]) for name in "xyzAB")


def test_arrays_of_pairs() -> None:
    """A structured array of NumPy's is one of pairs."""
    session = Session()
    session["x"] = np.array([(2.0, 1), (1.0, 5)], [("first", float), ("second", int)])
    session.run("s = Scalar(Inf => 0)\n@finch for i = _; s[] <<minby>>= x[i] end")
    assert session["s"].value == (1.0, 5) == session.run("s[]")
