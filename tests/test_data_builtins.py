"""The built-in functions that make, measure and thin out tensors: fsparse, fsprand, sizeof, nnz,
dropfills, pattern, size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from every_format import LEAVES, fits, nests

from finchlang.session import Session
from finchlang.source import FinchError
from finchlang.tensors.tensor import SwizzledTensor, Tensor


def evaluate(text: str, **given: Any) -> Any:
    """What `x` is after a script."""
    session = Session("interpret")
    for name, value in given.items():
        session[name] = value
    session.run(f"x = {text}")
    return session["x"]


def entries(tensor: Tensor) -> dict[tuple[int, ...], Any]:
    coordinates, values = tensor.entries()
    return dict(zip(map(tuple, coordinates.T.tolist()), values.tolist(), strict=True))


# ---------------------------------------------------------------------------------- fsparse


@pytest.mark.parametrize(
    ("text", "format", "shape", "expected"),
    [
        ("fsparse([3, 1], [2.0, 5.0])", "SparseList(Element(0.0))", (3,), {(0,): 5, (2,): 2}),
        ("fsparse([1, 2], [2, 1], [7, 8])", "Dense(SparseList(Element(0)))", (2, 2), None),
        ("fsparse([1, 2], [2, 1], [7, 8], (3, 4))", "Dense(SparseList(Element(0)))", (3, 4), None),
        ("fsparse([1, 1], [2, 2], [7, 8])", "Dense(SparseList(Element(0)))", (1, 2), {(0, 1): 15}),
        (
            "fsparse([1, 1], [2, 2], true)",
            "Dense(SparseList(Element(false)))",
            (1, 2),
            {(0, 1): True},
        ),
        ("fsparse(1:3, 1:3, 0.5)", "Dense(SparseList(Element(0.0)))", (3, 3), None),
        (
            "fsparse([2], [1], [3], [1.5], (2, 2, 4))",
            "SparseCOO{3}(Element(0.0))",
            (2, 2, 4),
            {(1, 0, 2): 1.5},
        ),
        ("fsparse([], [], [], (3, 4))", "Dense(SparseList(Element(0.0)))", (3, 4), {}),
        ("fsparse([1], [0.0], (2,))", "SparseList(Element(0.0))", (2,), {(0,): 0}),
    ],
)
def test_fsparse(text: str, format: str, shape: tuple[int, ...], expected) -> None:
    tensor = evaluate(text)
    assert str(tensor.format) == format and tensor.shape == shape
    known = {
        "fsparse([1, 2], [2, 1], [7, 8])": {(0, 1): 7, (1, 0): 8},
        "fsparse([1, 2], [2, 1], [7, 8], (3, 4))": {(0, 1): 7, (1, 0): 8},
        "fsparse(1:3, 1:3, 0.5)": {(k, k): 0.5 for k in range(3)},
    }
    assert entries(tensor) == (known[text] if expected is None else expected)


def test_fsparse_takes_tensors_and_keeps_types() -> None:
    places = Tensor.from_numpy(np.array([1, 3]), "SparseList(Element(0))")
    tensor = evaluate("fsparse(I, V)", I=places, V=np.array([1, 2], np.float32))
    assert tensor.dtype == np.float32 and entries(tensor) == {(0,): 1, (2,): 2}
    rng = np.random.default_rng(3)
    rows, columns, values = rng.integers(1, 6, 50), rng.integers(1, 8, 50), rng.integers(-9, 9, 50)
    tensor = evaluate("fsparse(I, J, V, (5, 7))", I=rows, J=columns, V=values)
    expected = scipy.sparse.coo_array((values, (rows - 1, columns - 1)), (5, 7)).toarray()
    np.testing.assert_array_equal(tensor.to_numpy(), expected)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("fsparse()", "type"),
        ("fsparse([1, 2])", "type"),
        ("fsparse((2, 2))", "type"),
        ("fsparse([1, 2], [1], [1, 2])", "dimension"),
        ("fsparse([1, 2], [1, 2], [1, 2, 3])", "dimension"),
        ("fsparse([1, 2], [1, 2], [1, 2], (2, 2, 2))", "dimension"),
        ("fsparse([], [])", "dimension"),
        ("fsparse([1, 3], [1, 2], [1, 2], (2, 2))", "bounds"),
        ("fsparse([0, 1], [1, 2], [1, 2])", "bounds"),
        ("fsparse([1.5], [1])", "type"),
        ('fsparse("ab", [1, 2])', "type"),
        ('fsparse([1], ["a"])', "type"),
        ("fsparse([1 2; 3 4], [1, 2])", "type"),
        ("fsparse([1], [1], (-1,))", "dimension"),
        ("fsparse([1], [1], (1.5,))", "type"),
    ],
)
def test_fsparse_goes_wrong(text: str, kind: str) -> None:
    with pytest.raises(FinchError) as caught:
        evaluate(text)
    assert caught.value.kind == kind, caught.value


# ---------------------------------------------------------------------------------- fsprand


def test_fsprand() -> None:
    tensor = evaluate("fsprand(200, 300, 0.05; seed = 7)")
    assert str(tensor.format) == "Dense(SparseList(Element(0.0)))" and tensor.shape == (200, 300)
    values = tensor.entries()[1]
    assert 2600 < len(values) < 3400 and values.min() >= 0 and values.max() < 1
    again = evaluate("fsprand(200, 300, 0.05; seed = 7)")
    assert entries(again) == entries(tensor)
    assert entries(evaluate("fsprand(200, 300, 0.05; seed = 8)")) != entries(tensor)
    assert evaluate("fsprand(40, 1)").countstored() == 40
    assert evaluate("fsprand(40, 0.0)").countstored() == 0
    cube = evaluate("fsprand(9, 8, 7, 0.5; seed = 1)")
    assert str(cube.format) == "SparseCOO{3}(Element(0.0))" and 180 < cube.countstored() < 330
    assert evaluate("fsprand(0, 5, 0.5)").shape == (0, 5)


@pytest.mark.parametrize("text", ["fsprand(3)", "fsprand(3, 2.0)", "fsprand(3, -0.1)", "fsprand()"])
def test_fsprand_goes_wrong(text: str) -> None:
    with pytest.raises(FinchError) as caught:
        evaluate(text)
    assert caught.value.kind == "type"


# --------------------------------------------------------------- what is stored, and how much


def test_sizeof() -> None:
    matrix = scipy.sparse.random_array((20, 30), density=0.2, format="csc", rng=1)
    arrays = matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes
    assert evaluate("sizeof(A)", A=matrix) == arrays
    assert (
        evaluate("sizeof(A)", A=matrix.tocsr()) == matrix.data.nbytes + matrix.indices.nbytes + 84
    )
    assert evaluate("sizeof(A)", A=np.zeros((3, 4), np.int16)) == 24
    for number, size in (
        ("1", 8),
        ("Int8(1)", 1),
        ("true", 1),
        ("Float32(1)", 4),
        ("Scalar(0)", 8),
    ):
        assert evaluate(f"sizeof({number})") == size
    with pytest.raises(FinchError) as caught:
        evaluate('sizeof("abc")')
    assert caught.value.kind == "type"


def test_sizeof_counts_what_is_in_use_only() -> None:
    """A kernel leaves room to grow behind what it wrote."""
    session = Session("interpret")
    session.run(
        "A = Tensor(SparseList(Element(0.0)), [1.0, 0.0, 2.0, 3.0])\n"
        "B = Tensor(SparseList(Element(0.0)), 4)\n"
        "@finch begin B .= 0.0; for i = _; B[i] = A[i] end end\n"
        "same = sizeof(A) == sizeof(B)"
    )
    assert session["same"] is True


@pytest.mark.parametrize("leaf", ["Element(0.0)", "Element(Inf)", "Pattern()"])
def test_every_format_is_measured_thinned_and_copied(leaf: str) -> None:
    dtype, fill, value = LEAVES[leaf]
    array = np.full((3, 3), fill, dtype)
    array[1, 1] = value
    for format in nests(leaf, 2)[::3]:
        tensor = fits(format, array)
        assert tensor is not None, format
        session = Session("interpret")
        session["A"] = tensor
        session.run(
            "n = nnz(A); m = countstored(A); B = dropfills(A); P = pattern(A); s = sizeof(A)"
        )
        assert session["n"] == session["m"] == tensor.countstored() >= 1
        np.testing.assert_array_equal(session["B"].to_numpy(), array)
        assert session["B"].format == tensor.format
        assert 1 <= session["B"].countstored() <= tensor.countstored()
        pattern = session["P"].to_numpy()
        assert pattern.dtype == np.bool_ and pattern[1, 1]
        assert pattern.sum() >= (array != fill).sum()
        assert session["s"] >= 0


def test_dropfills_drops() -> None:
    places = [np.array([0, 1, 2]), np.array([0, 1, 2])]
    for format in ("Dense(SparseList(Element(0.0)))", "SparseCOO{2}(Element(0.0))"):
        stored = Tensor.from_coo(format, (3, 3), places, np.array([0.0, 1, -0.0]))
        assert stored.countstored() == 3
        thin = evaluate("dropfills(A)", A=stored)
        assert thin.countstored() == 1 and entries(thin) == {(1, 1): 1}
        swizzled = evaluate("dropfills(swizzle(A, 2, 1))", A=stored)
        assert isinstance(swizzled, SwizzledTensor) and swizzled.countstored() == 1
        pattern = evaluate("pattern(A)", A=stored)
        assert str(pattern.format.leaf) == "Pattern()" and pattern.to_numpy().sum() == 3


@pytest.mark.parametrize("kind", ["coo", "csr", "csc", "bsr", "dia", "lil", "dok"])
def test_tensors_are_made_of_arrays_of_scipy(kind: str) -> None:
    array = np.array([[0.0, 2, 0], [1, 0, 4]])
    matrix = getattr(scipy.sparse, f"{kind}_array")(array)
    for format in nests("Element(0.0)", 2)[::5]:
        if fits(format, array) is not None:
            tensor = evaluate(f"Tensor({format}, A)", A=matrix)
            np.testing.assert_array_equal(tensor.to_numpy(), array)


def test_functions_take_arrays_of_scipy() -> None:
    for kind in (scipy.sparse.csr_array, scipy.sparse.coo_array, scipy.sparse.dia_matrix):
        matrix = kind(np.array([[0.0, 2, 0], [1, 0, 4]]))
        sizes = evaluate("(size(A), size(A, 2), ndims(A), length(A), nnz(A))", A=matrix)
        assert sizes == ((2, 3), 3, 2, 6, matrix.nnz)
        assert evaluate("(sum(A), maximum(A), A[1, 2], A[1, 1])", A=matrix) == (7, 4, 2, 0)
        assert evaluate("(string(eltype(A)), fill_value(A))", A=matrix) == ("Float64", 0)
        with pytest.raises(FinchError) as caught:
            evaluate("0; A[1, 1] = 3.0", A=matrix)
        assert caught.value.kind == "access order"
