"""How the levels of Finch'25 section 3.3 store a matrix that has the structure they are for.

The goldens list each level's arrays, read against the level's docstring and REFERENCE.md's table."""

from __future__ import annotations

import numpy as np
import pytest
from every_format import fits, nests
from level_kernels import run

from finchlang.run.kernel import Kernel
from finchlang.script.display import display_text
from finchlang.tensors.formats import parse_format
from finchlang.tensors.tensor import Tensor
from finchlang.text.parse import parse_kernel

pytestmark = pytest.mark.checked

DENSE = "Dense(Dense(Element(0.0)))"
SCATTERED = np.array([[0.0, 2, 0, 0], [1, 0, 0, 0], [0, 3, 0, 5], [0, 0, 0, 0]])
ONE_A_COLUMN = np.array([[0.0, 2, 0, 0], [1, 0, 0, 0], [0, 0, 0, 5], [0, 0, 0, 0]])
BLOCKS = np.array([[1.0, 0, 4, 0], [2, 0, 5, 0], [0, 0, 0, 0], [3, 6, 7, 0]])
BAND = np.array([[1.0, 2, 0, 0], [3, 4, 0, 0], [0, 5, 6, 0], [0, 0, 7, 8]])
RUNS = np.array([[0.0, 2, 2, 0], [1, 2, 2, 0], [1, 3, 2, 0], [1, 3, 0, 0]])
COLUMNS = RUNS[:, [0, 0, 3, 3]]
INTERVALS = np.array([[0.0, 0, 2, 3], [1, 0, 2, 3], [1, 0, 0, 3], [0, 0, 0, 3]])
LITERALS = np.array([[1.0, 0], [2, 0], [3, 0], [3, 5], [3, 6], [3, 7]])
RAGGED = np.array([[1.0, 2, 4, 0], [0, 3, 5, 0], [0, 0, 6, 0], [0, 0, 0, 0]])
UPPER = np.array([[1.0, 2, 4, 7], [0, 3, 5, 8], [0, 0, 6, 9], [0, 0, 0, 10]])
SYMMETRIC = UPPER + UPPER.T - np.diag(np.diag(UPPER))

#: a matrix for each format, by the name of the golden file
EXAMPLES = {
    "dense": ("Dense(Dense(Element(0.0)))", SCATTERED),
    "sparse_list": ("Dense(SparseList(Element(0.0)))", SCATTERED),
    "sparse_list_twice": ("SparseList(SparseList(Element(0.0)))", SCATTERED),
    "sparse_list_pattern": ("Dense(SparseList(Pattern()))", SCATTERED != 0),
    "sparse_pinpoint": ("Dense(SparsePinpoint(Element(0.0)))", ONE_A_COLUMN),
    "sparse_block_list": ("Dense(SparseBlockList(Element(0.0)))", BLOCKS),
    "sparse_band": ("Dense(SparseBand(Element(0.0)))", BAND),
    "run_list": ("Dense(RunList(Element(0.0)))", RUNS),
    "run_list_of_columns": ("RunList(Dense(Element(0.0)))", COLUMNS),
    "sparse_run_list": ("Dense(SparseRunList(Element(0.0)))", RUNS),
    "sparse_interval": ("Dense(SparseInterval(Element(0.0)))", INTERVALS),
    "ragged": ("Dense(Ragged(Element(0.0)))", RAGGED),
    "pack_bits": ("Dense(PackBits(Element(0.0)))", LITERALS),
    "sparse_coo": ("SparseCOO{2}(Element(0.0))", SCATTERED),
    "sparse_bytemap": ("Dense(SparseByteMap(Element(0.0)))", SCATTERED),
    "upper_triangular": ("UpperTriangular(Element(0.0))", UPPER),
    "lower_triangular": ("LowerTriangular(Element(0.0))", UPPER.T),
    "symmetric": ("Symmetric(Element(0.0))", SYMMETRIC),
}
#: which of the matrix a loop may write, where a format takes a part only
STORED = {"upper_triangular": "i <= j", "symmetric": "i <= j", "lower_triangular": "i >= j"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_storage(name: str, golden) -> None:
    format, matrix = EXAMPLES[name]
    tensor = Tensor.from_numpy(matrix, format)
    np.testing.assert_array_equal(tensor.to_numpy(), matrix)
    golden(f"storage/{name}.txt", display_text(tensor) + "\n")


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_kernel_stores_the_same(name: str) -> None:
    """What is packed from coordinates and what a kernel writes are the same arrays."""
    format, matrix = EXAMPLES[name]
    packed = Tensor.from_numpy(matrix, format)
    fill = "false" if matrix.dtype == bool else "0.0"
    source = Tensor.from_numpy(matrix, f"Dense(SparseList(Element({fill})))")
    copy = "C[i, j] = A[i, j]"
    if name in STORED:
        copy = f"if {STORED[name]} {copy} end"
    text = f"C .= {fill}; for j = _, i = _; {copy} end"
    found, _ = run(text, {"A": source, "C": Tensor(format, *matrix.shape)})
    assert display_text(found["C"]) == display_text(packed)


@pytest.mark.parametrize(
    ("format", "count"),
    [
        ("Dense(RunList(Element(0)))", 4),
        ("Dense(SparseRunList(Element(0)))", 2),
        ("Dense(PackBits(Element(0)))", 4),
        ("RunList(Dense(Element(0)))", 12),
        ("Dense(SparseList(Element(0)))", 7),
        ("Dense(Dense(Element(0)))", 12),
    ],
)
def test_a_run_is_one_stored_leaf(format: str, count: int) -> None:
    array = np.array([[1, 1, 1, 0], [0, 0, 0, 0], [2, 2, 2, 2]]).T
    assert Tensor.from_numpy(array, format).countstored() == count


@pytest.mark.parametrize("outer", ["Dense", "SparseList", "SparseByteMap", "SparseHash"])
@pytest.mark.parametrize("inner", ["Dense", "SparseList", "SparseByteMap", "SparseHash"])
def test_countstored_counts_the_entries(outer: str, inner: str) -> None:
    array = np.array([[0, 1, 0], [0, 2, 3], [0, 0, 0.0], [0, 4, 0]])
    tensor = Tensor.from_numpy(array, f"{outer}({inner}(Element(0.0)))")
    assert tensor.countstored() == len(tensor.entries()[1])
    assert tensor.to_numpy().flags.f_contiguous and np.array_equal(tensor.to_numpy(), array)
    assert not np.shares_memory(tensor.to_numpy(), tensor.storage[-1]["val"])


@pytest.mark.parametrize("format", nests("Element(0.0)", 2))
def test_counters_tell_how_much_of_the_arrays_is_in_use(format: str) -> None:
    """Unless the format says that they do not: calls compare nothing else (`run/undo.py`)."""
    write = "C[i, j] = A[i, j]"
    if format.startswith("Symmetric"):  # of two mirrored places it has one
        write = f"if i <= j {write} end"
    formats = {"A": parse_format(DENSE), "C": parse_format(format)}
    program = f"C .= 0; for j=_, i=_ begin if A[i, j] != 0 {write} end end end"
    kernel = Kernel(parse_kernel(program), formats)
    rng, found = np.random.default_rng(1), {}
    for _ in range(12):
        A = np.where(rng.random((3, 3)) < 0.3, rng.integers(1, 3, (3, 3)), 0.0)
        if fits(format, A) is None:
            diagonal = np.diag(np.diag(A))
            A = np.zeros((3, 3)) if fits(format, diagonal) is None else diagonal
        given = {"A": Tensor.from_numpy(A, DENSE), "C": Tensor(format, 3, 3)}
        kernel.run_residual([given[name] for name in kernel.tensors], [])
        parts = [part for level in given["C"].storage for part in level.items()]
        counters = tuple(part for part in parts if not isinstance(part[1], np.ndarray))
        lengths = [(name, len(part)) for name, part in parts if isinstance(part, np.ndarray)]
        if all(level.counts_lengths for level in formats["C"].levels()):
            assert found.setdefault(counters, lengths) == lengths


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_kernels_index_by_is_handed_out_to_be_read(name: str) -> None:
    """Nobody checks it again; and what is put into the dicts is not the tensor's."""
    format, array = EXAMPLES[name]
    tensor = Tensor.from_numpy(array, format)
    *levels, leaf = tensor.storage
    for own in levels:
        for array_name, part in own.items():
            if isinstance(part, np.ndarray):
                with pytest.raises(ValueError, match="read-only"):
                    part[...] = 99
                own[array_name] = part + 99
    np.testing.assert_array_equal(tensor.to_numpy(), array)
    if "val" in leaf:
        leaf["val"][...] = 7
        assert set(tensor.entries()[1]) == {7}
