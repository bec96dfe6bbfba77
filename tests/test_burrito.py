"""The kernels of Burrito'24's figures: their results, and what is left to do of them, kept as files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernels import kernel, run_congruent

from finchlang.host.print import text
from finchlang.tensors.tensor import Tensor

LIST = "SparseList(Element(0.0))"
DENSE = "Dense(Element(0.0))"
rng = np.random.default_rng(24)


def sparse(*shape: int) -> np.ndarray:
    """With a third of its entries, and an empty row."""
    array = np.where(rng.random(shape) < 0.35, rng.integers(1, 9, shape), 0).astype(float)
    array[1] = 0
    return array


A, B, a, b, x = sparse(4, 6), sparse(4, 6), sparse(24), sparse(24), sparse(6)
# a matrix is stored by rows: its first mode is that of columns
CSR = f"Dense({LIST})"
GIVEN = {
    "A": Tensor.from_numpy(A.T, CSR),
    "B": Tensor.from_numpy(B.T, CSR),
    "D": Tensor.from_numpy(A.T, f"SparseList({LIST})"),
    **{n: Tensor.from_numpy(v, LIST) for n, v in {"a": a, "b": b, "r": sparse(4), "x": x}.items()},
    "c": Tensor(DENSE, 0),
    "C": Tensor(f"Dense({DENSE})", 0, 0),
}

FIGURES: dict[str, tuple[str, np.ndarray]] = {
    # y = b + A x, of a matrix whose empty rows are not stored either
    "4": (
        "c .= 0\nfor i = _\n    c[i] += r[i]\n    for j = _\n        c[i] += D[j, i] * x[j]\n"
        "    end\nend",
        GIVEN["r"].to_numpy() + A @ x,
    ),
    # the rightmost kernel: i_A x j_A u k_b
    "10": (
        "c .= 0\nfor k = _\n    c[k] = collapse(A, 1, 2)[k] * b[k]\nend",
        A.ravel() * b,
    ),
    "16_and_22": (
        "c .= 0\nfor k = _\n    c[k] = collapse(A, 1, 2)[k] + b[k]\nend",
        A.ravel() + b,
    ),
    "17_and_23": (
        "C .= 0\nfor i = _, j = _\n    C[j, i] = split(a, 1, 6)[j, i] * B[j, i]\nend",
        (a.reshape(4, 6) * B).T,
    ),
}


@pytest.mark.parametrize("figure", FIGURES)
def test_figure(figure: str, golden: Callable[[str, str], None]) -> None:
    body, expected = FIGURES[figure]
    used: dict[str, Any] = {n: v for n, v in GIVEN.items() if f"{n}[" in body or f"({n}," in body}
    found = run_congruent(kernel(body), used)
    assert found.error is None
    np.testing.assert_array_equal(found["C" if "C" in used else "c"], expected)
    golden(f"residual/burrito/{figure}.txt", f"{body}\n\n{text(found.residual)}")
