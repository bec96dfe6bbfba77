"""SparseByteMap: what its list of places holds when several accesses write it at once."""

from __future__ import annotations

import numpy as np
import pytest
from level_kernels import result, tensor

from finchlang.run.kernel import Kernel
from finchlang.tensors.formats import parse_format
from finchlang.tensors.tensor import Tensor
from finchlang.text.parse import parse_kernel

MAP = parse_format("SparseByteMap(Pattern())")
FORMATS = dict.fromkeys("kua", parse_format("Dense(Element(Int64(0)))"))
WRITE = """
    C .= false
    for i = _
        C[k[i]] = true
    end
    for i = _
        C[u[i]] = false
    end
    for i = _
        C[a[i]] = true
    end
"""

A = np.array([1.0, 0.0, 2.0, 3.0])


@pytest.mark.parametrize("format", ["SparseByteMap(Element(0.0))", "SparseByteMap(Element(-0.0))"])
def test_two_accesses_list_a_place_once(format: str) -> None:
    text = "C .= 0; for i=_, k=_ begin C[i] += A[k]; C[k] += A[i] * 10 end end"
    tensors = {"A": tensor(A, "Dense(Element(0.0))"), "C": Tensor(format, 4)}
    if "-0.0" in format:
        text = text.replace("C .= 0;", "C .= -0.0;")
    np.testing.assert_array_equal(result(text, tensors), np.full(4, 11 * A.sum()))


def test_two_accesses_list_a_place_of_a_pattern_once() -> None:
    text = "C .= false; for i=_, k=_ begin C[i] |= A[k] != 0; C[k] |= A[i] != 0 end end"
    tensors = {
        "A": tensor(A, "Dense(Element(0.0))"),
        "C": Tensor("SparseByteMap(Pattern())", 4),
    }
    np.testing.assert_array_equal(result(text, tensors), np.full(4, True))


def test_two_accesses_of_a_nested_map_list_a_place_once() -> None:
    text = "C .= 0; for i=_, k=_ begin C[i, k] += A[k]; C[k, i] += A[i] * 10 end end"
    tensors = {
        "A": tensor(A, "SparseList(Element(0.0))"),
        "C": Tensor("SparseByteMap(SparseByteMap(Element(0.0)))", 4, 4),
    }
    ones = np.ones((4, 4))
    np.testing.assert_array_equal(result(text, tensors), 11 * ones * A[None, :])


@pytest.mark.parametrize(
    "order, unset, is_sorted",
    [([1, 3, 4, 6], [], True), ([6, 3, 4, 1], [], False), ([1, 3, 4, 6], [3, 6, 3], False)],
)
def test_a_pattern_written_in_order_is_not_sorted(order, unset, is_sorted: bool) -> None:
    """What is unset, and perhaps set again, must leave the list."""
    kernel, steps = Kernel(parse_kernel(WRITE), {**FORMATS, "C": MAP}), []
    again = np.array([3] if unset else [], np.int64)
    places = {"k": np.array(order), "u": np.array(unset, np.int64), "a": again}
    given = {name: Tensor.from_numpy(array) for name, array in places.items()}
    for run in (kernel.interpret, kernel.run_residual, kernel.run_native):
        C = Tensor(MAP, 7)
        steps.append(run([{**given, "C": C}[name] for name in kernel.tensors], []))
        expected = sorted({*order} - {*unset} | {*again.tolist()})
        assert C.storage[0]["idx"].tolist() == [i - 1 for i in expected]
        assert np.flatnonzero(C.storage[0]["tbl"]).tolist() == [i - 1 for i in expected]
    assert ("sort" not in steps[0]) == ("sort" not in steps[1]) == is_sorted
