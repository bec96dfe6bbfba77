"""Reductions into plain scalars and elements end at the annihilator of any operator, in equally many
steps at any size, and mean the same as without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernels import kernel, run_congruent

from finchlang.host.print import text as listing
from finchlang.run.kernel import Kernel
from finchlang.tensors.tensor import Scalar, Tensor
from finchlang.text.parse import parse_kernel

TABLES = pytest.mark.parametrize("which", ["all", "paper"])


@TABLES
def test_elements_end_for_themselves(which: str) -> None:
    rng = np.random.default_rng(3)
    A = np.asfortranarray(rng.random((300, 10)) < 0.02)
    text = kernel("for j = _, i = _; y[j] |= A[i, j] end")
    found = run_congruent(text, {"A": A, "y": np.zeros(10, bool)}, which)
    np.testing.assert_array_equal(found["y"], A.any(axis=0))
    A[0] = True
    early = run_congruent(text, {"A": A, "y": np.zeros(10, bool)}, which)
    assert early.total * 1.5 < found.total
    across = text.replace("j = _, i = _", "i = _, j = _")  # each step of i has other elements
    found = run_congruent(across, {"A": A, "y": np.zeros(10, bool)}, which)
    assert found["y"].all() and found.total > A.size


@pytest.mark.parametrize(
    "statement, scalar",
    [
        ("g[] += x[i]", Scalar(0)),
        ("g[] <<xor>>= x[i]", Scalar(0)),
        ("g[] <<min>>= x[i]", Scalar(2**63 - 1)),
        ("g[] *= 1.0 * x[i]", Scalar(1.0)),
        ("g[] <<max>>= 1.0 * x[i]", Scalar(0.0)),
        ("g[] *= div(2, x[i])", Scalar(1)),
        ("g[] *= x[x[i]]", Scalar(1)),
    ],
)
def test_nothing_is_asked_where_that_cannot_be(statement: str, scalar: Scalar) -> None:
    """No annihilator, one of too many values, floats beside which there may be NaN, or an error that
    would not be made."""
    formats: Any = {"x": Tensor.from_numpy(np.ones(3, int)).format, "g": scalar.format}
    plain = Kernel(parse_kernel(f"for i = _; {statement} end"), formats, "all-Break")
    found = Kernel(parse_kernel(f"for i = _; {statement} end"), formats)
    assert str(listing(found.residual)) == str(listing(plain.residual))
