"""What begins at some size, beside NumPy: rows of many lengths, and stacks of levels that are written
twice. What else begins at some size has `programs/rules/sizes_at_which.finch`."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import finchlang.array as fa
from finchlang import Session, Tensor

RANDOM = np.random.default_rng(28)


def rows(lengths: np.ndarray, columns: int) -> sp.csr_array:
    """A matrix whose rows have so many entries."""
    ptr = np.concatenate(([0], np.cumsum(lengths)))
    idx = [np.sort(RANDOM.choice(columns, n, replace=False)) for n in lengths]
    values = RANDOM.integers(1, 9, ptr[-1]).astype(float)
    return sp.csr_array((values, np.concatenate(idx), ptr), (len(lengths), columns))


def test_rows_of_any_length() -> None:
    """So many, each of another length than the one before, that short ones are padded."""
    A, x = rows(np.arange(12_000) % 13, 20), RANDOM.random(20)
    session = Session()
    session["A"], session["x"], session["y"] = A, x, np.zeros(12_000)
    session.run("@finch for i = _, j = _; y[i] += A[i, j] * x[j]; end")
    assert np.allclose(session["y"], A @ x)


STACKS = [
    f"{above}({below}({{}}))"
    for above, levels in (
        ("Dense", "SparseList SparseBlockList SparseBand RunList SparseRunList PackBits"),
        ("RunList", "Dense SparseList SparseBlockList SparseBand SparseByteMap SparseRunList"),
        ("SparseRunList", "SparseList SparseCOO{{1}}"),
        *(("SparseList", "SparseList"), ("PackBits", "SparseList")),
    )
    for below in levels.split()
]


@pytest.mark.parametrize("stack", STACKS)
def test_what_is_written_is_stored_as_what_is_packed(stack: str) -> None:
    """Columns that are the same side by side, and apart; runs; counters, too."""
    columns = np.array([[0, 2, 2, 0], [0, 2, 2, 0], [1, 1, 0, 3], [0, 0, 0, 0], [0, 2, 2, 0]]).T
    dense = columns[:, [0, 1, 3, 0, 2, 2, 4]].astype(float)
    format = stack.format("Element(0.0)")
    A, C = Tensor.from_numpy(dense, "SparseCOO{2}(Element(0.0))"), Tensor(format, 0, 0)
    text = "@finch begin\nC .= 0\nfor j = _, i = _; C[i, j] = A[i, j]; end\nend"
    for _ in range(2):
        session = Session()
        session["A"], session["C"] = A, C
        session.run(text)
        packed = Tensor.from_numpy(dense, format)
        for found, wanted in zip(C.storage, packed.storage, strict=True):
            for name in {*found} - {"tbl", "cleared", "width", "covered", "fibers"}:
                own = found[name][: len(wanted[name])] if name == "val" else found[name]
                assert np.array_equal(own, wanted[name]), name


@pytest.mark.parametrize("size", [10**6, 10**9])
def test_arrays_of_few_entries_take_no_memory_for_places(size: int) -> None:
    """Sums of few entries in many rows have no dense result, and transposed copies no dense level."""
    places, small = np.array([0, 3, 700, size - 1]), RANDOM.integers(0, 3, (4, 4)).astype(float)
    i, j = small.nonzero()
    given = Tensor.from_coo(
        "SparseList(SparseList(Element(0.0)))", (size, size), (places[i], places[j]), small[i, j]
    )
    A = fa.asarray(given)
    for got, expected in (
        (A + A.T, small + small.T),
        (A * A.T, small * small.T),
        (A @ A, small @ small),
        (fa.sum(A, axis=0), small.sum(0)),
        (fa.sum(A, axis=1), small.sum(1)),
        *([(fa.max(A, axis=0), small.max(0))] if size > 2**20 else []),  # it is computed apart
    ):
        coordinates, values = fa.compute(got).entries()
        placed = np.zeros_like(expected)
        placed[tuple(np.searchsorted(places, coordinates))] = values
        assert np.array_equal(placed, expected)
