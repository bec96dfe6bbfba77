"""SparseByteMap: what its list of places holds when several accesses write it at once."""

from __future__ import annotations

import numpy as np
import pytest
from level_kernels import result, tensor

from finchlang.tensors.tensor import Tensor

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
