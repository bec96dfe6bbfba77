"""Sums at places that depend on data go into several tables at a time; the results are the same."""

from __future__ import annotations

import numpy as np
import pytest
from level_kernels import result, tensor

from finchlang.host.passes.privatisation import SMALL, sums
from finchlang.run.kernel import Kernel
from finchlang.source import FinchError
from finchlang.tensors.formats import parse_format
from finchlang.tensors.tensor import Tensor
from finchlang.text.parse import parse_kernel

COUNT = "y .= 0; for i=_ y[x[i]] += 1 end"
MASKED = "y .= 0; for j=_, i=_ if m[i, j] y[div(x[i, j], 16) + 1] += 1 end end"


def privatised(text: str, **formats: str) -> int:
    """How many loops of a kernel add to private arrays."""
    known = {name: parse_format(format) for name, format in formats.items()}
    residual = Kernel(parse_kernel(f"begin\n{text}\nend"), known).residual
    found = [sums(statement) for statement in residual.body.statements]
    return sum(len(loops) for tables in found for loops in tables.values())


def test_what_is_privatised() -> None:
    integers, floats = "Dense(Element(0))", "Dense(Element(0.0))"
    assert privatised(COUNT, y=integers, x=integers) == 1
    assert privatised("for i=_ y[x[i]] -= i end", y=integers, x=integers) == 0
    assert privatised("for i=_ y[x[i]] <<max>>= i end", y=integers, x=integers) == 0
    assert privatised(COUNT, y=floats, x=integers) == 0  # the order of a sum decides its rounding
    assert privatised("y .= 0; for i=_ y[i] += x[i] end", y=integers, x=integers) == 0
    matrix = "Dense(Dense(Element(0)))"
    assert privatised("y .= 0; for i=_, j=_ y[i] += A[j, i] end", y=integers, A=matrix) == 0


@pytest.mark.parametrize("size", [16, SMALL, SMALL + 1])
@pytest.mark.parametrize("length", [0, 3, 4, 103])
@pytest.mark.parametrize("type", ["0", "Int32(0)"])
def test_counts(size: int, length: int, type: str) -> None:
    x = np.random.default_rng(length).integers(1, size + 1, length)
    x[length // 2 :] = x[length // 2 :] % 3 + 1  # neighbours that meet
    tensors = {
        "x": tensor(x, "Dense(Element(0))"),
        "y": Tensor(f"Dense(Element({type}))", size),
    }
    text = f"y .= 0; for k=1:{size} y[k] += 5 end; for i=_ y[x[i]] += 1 end"
    expected = np.bincount(x, minlength=size + 1)[1:] + 5
    expected = expected.astype(tensors["y"].to_numpy().dtype)
    np.testing.assert_array_equal(result(text, tensors, "y"), expected)


@pytest.mark.parametrize(
    "format", ["Dense(SparseRunList(Pattern()))", "Dense(Dense(Element(false)))"]
)
def test_a_masked_histogram(format: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (40, 9)).astype(np.uint8)
    m = np.arange(40)[:, None] % np.arange(2, 11) > 0  # runs of every short length
    tensors = {
        "x": tensor(x, "Dense(Dense(Element(UInt8(0))))"),
        "m": tensor(m, format),
        "y": Tensor("Dense(Element(0))", 16),
    }
    expected = np.bincount(x[m] // 16, minlength=16)
    np.testing.assert_array_equal(result(MASKED, tensors, "y"), expected)


@pytest.mark.parametrize("length", [3, 4, 9])
def test_a_fill_that_goes_into_the_loop(length: int) -> None:
    """Steps that are taken together fill their own entries, too."""
    x = np.arange(length) % 2 + 1
    z = Tensor("Dense(Element(0))", length)
    z.storage[1]["val"][:] = 9
    tensors = {"x": tensor(x, "Dense(Element(0))"), "y": tensor(np.zeros(3), "Dense(Element(0))")}
    text = "z .= 7; for i=_ if x[i] > 1 z[i] += 1 end; y[x[i]] += 1 end"
    expected = np.where(x > 1, 8, 7)
    np.testing.assert_array_equal(result(text, tensors | {"z": z}, "z"), expected)


@pytest.mark.parametrize("length", [6, 7, 8, 9, 10])
def test_a_place_that_there_is_not(length: int) -> None:
    """Each of the steps that are taken together says what is wrong with its own place."""
    x = np.ones(10, np.int64)
    x[length - 1] = 17
    tensors = {"x": tensor(x, "Dense(Element(0))"), "y": tensor(np.arange(16), "Dense(Element(0))")}
    with pytest.raises(FinchError, match="17") as caught:
        result("for i=_ y[x[i]] += 1 end", tensors, "y")
    assert caught.value.kind == "bounds"
