"""Traces and residuals kept as files: Fig 17's program through the steps of Figs 17 and 18, and what
common kernels become."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from kernels import Watch, kernel, run_congruent

from finchlang.host.print import text
from finchlang.session import Session
from finchlang.syntax import Node
from finchlang.tensors.tensor import Scalar, Tensor
from finchlang.text.print import pretty

SPARSE = "SparseList(Element(0.0))"
CSC = "Dense(SparseList(Element(0.0)))"
UPPER = "s .= 0\nfor j = _, i = _\nif i <= j\ns[] += A[i, j]\nend\nend"

Golden = Callable[[str, str], None]


def upper_input() -> dict[str, Any]:
    dense = np.array([[1.0, 0.0], [2.0, 3.0], [0.0, 4.0]])
    return {"A": Tensor.from_numpy(dense, CSC), "s": Scalar(0.0)}


# ------------------------------------------------------------------------- Finch'25 Figs 17 and 18

NORMALISED = """\
s .= 0
for j = 1:size(A, 2)
    for i = 1:size(A, 1)
        if UpTriMask()[i, j]
            s[] += A[i, j]
        end
    end
end
@freeze(s)"""

#: step of Fig 18: the rule, and what the term looks like after it (after the rule alone if it runs
#: nothing else)
STEPS = [
    (2, "Declare", r"\A\Z"),
    (3, "Unfurl", r"if Lookup\(\.\.\.\)\[i, j\]\n +s\[\] \+= Lookup\(\.\.\.\)\[i, j\]"),
    (4, "Lookup", r"if UpTriMaskCol\(j_1\)\[i\]\n +s\[\] \+= SparseList\S*@\S+ \S+\[i\]"),
    (5, "Unfurl", r"if Sequence\(\.\.\.\)\[i\]\n +s\[\] \+= Thunk\(\.\.\.\)\[i\]"),
    (6, "Thunk", r"if Sequence\(\.\.\.\)\[i\]\n +s\[\] \+= Sequence\(\.\.\.\)\[i\]"),
    (7, "Phase", r"for i = \S+:stop_\d\n +if Run\(.*[Tt]rue.*\)\[i\]"),
    (8, "Run", r"if Bool\(true\)\[\]"),
    (9, "Simplify", r"\Afor i = \S+:stop_\d\n +s\[\] \+= Sequence\(\.\.\.\)\[i\]\nend"),
    (10, "StepperSeek", r"s\[\] \+= Stepper\(\.\.\.\)\[i\]"),
    (11, "Thunk", r"for i = at_\d:stop_\d\n +s\[\] \+= Spike\(\.\.\.\)\[i\]"),
    (11, "Run", r"for i = at_\d:\S+ \S+\n +s\[\] \+= Float64\(0.0\)\[\]"),
    (12, "Simplify", r"\A\Z"),  # adding 0 does nothing
    (12, "Assign", r"\A\Z"),  # the spike's end: A.lvl.lvl.val[q] is added
    (8, "Run", r"if Bool\(false\)\[\]"),
    (9, "Simplify", r"\A\Z"),  # the part below the diagonal is gone
    (13, "Freeze", r"\A\Z"),
]
#: rules told of after all that they run: the whiles and blocks that hold the steps above
AROUND = ("Sequence", "StepperNext", "Spike", "Loop", "Block")


class Kept(Watch):
    """Keeps the terms too."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[str, str]] = []

    def rule(self, name: str, before: Node, after: Node | None, depth: int) -> None:
        super().rule(name, before, after, depth)
        self.told.append((name, "" if after is None else pretty(after)))


def trace(which: str) -> Kept:
    watch = Kept()
    session = Session("interpret", which, observer=watch)
    for name, value in upper_input().items():
        session[name] = value
    session.run(kernel(UPPER))
    assert session["s"].value == 4.0
    return watch


def test_the_upper_triangle_goes_through_the_steps_of_the_paper() -> None:
    watch = trace("paper")
    assert pretty(watch.events[0].compiled.normalized.program) == NORMALISED  # step 1
    told = iter(watch.told)
    for step, name, after in STEPS:
        assert any(rule == name and re.search(after, term) for rule, term in told), (
            f"step {step}: {name} giving {after}"
        )
    assert next(told, None) is None  # Freeze is the last
    assert set(watch.rules) >= {*AROUND, *(name for _, name, _ in STEPS)}


def test_the_trace_of_the_upper_triangle(golden: Golden) -> None:
    golden("trace/upper_triangle.txt", "\n".join(trace("paper").lines) + "\n")


def test_the_trace_with_derived_rules(golden: Golden) -> None:
    watch = trace("all")
    assert watch.rules["Positions"] == 2 and watch.rules["StepperNext"] == 0
    golden("trace/upper_triangle_derived.txt", "\n".join(watch.lines) + "\n")


# --------------------------------------------------------------------------------------- residuals

rng = np.random.default_rng(5)


def matrix(m: int, n: int, density: float = 0.4) -> np.ndarray:
    return rng.integers(1, 9, (m, n)) * (rng.random((m, n)) < density).astype(float)


def sparse(array: np.ndarray, format: str = SPARSE) -> Tensor:
    return Tensor.from_numpy(array, format)


A, B = matrix(6, 5), matrix(5, 7)
X, Y, Z = rng.integers(1, 9, 5).astype(float), matrix(1, 30)[0], matrix(1, 30)[0]

#: name: (kernel, its input, the result's name, the result)
KERNELS: dict[str, tuple[str, dict[str, Any], str, Any]] = {
    "spmv_csc": (
        "y .= 0\nfor j = _, i = _\ny[i] += A[i, j] * x[j]\nend",
        {"A": scipy.sparse.csc_matrix(A), "x": X, "y": np.zeros(6)},
        "y",
        A @ X,
    ),
    "spmv_csr": (
        "y .= 0\nfor i = _, j = _\ny[i] += A[i, j] * x[j]\nend",
        {"A": scipy.sparse.csr_matrix(A), "x": X, "y": np.zeros(6)},
        "y",
        A @ X,
    ),
    "spgemm_gustavson": (
        "C .= 0\nfor j = _\nw .= 0\nfor k = _, i = _\nw[i] += A[i, k] * B[k, j]\nend\n"
        "for i = _\nC[i, j] = w[i]\nend\nend",
        {
            "A": sparse(A, CSC),
            "B": sparse(B, CSC),
            "C": Tensor(CSC, 6, 7),
            "w": Tensor("SparseByteMap(Element(0.0))", 6),
        },
        "C",
        A @ B,
    ),
    "upper_triangle": (UPPER, upper_input(), "s", 4.0),
    "dot": (
        "s .= 0\nfor i = _\ns[] += y[i] * z[i]\nend",
        {"y": sparse(Y), "z": sparse(Z), "s": Scalar(0.0)},
        "s",
        Y @ Z,
    ),
    "add": (
        "w .= 0\nfor i = _\nw[i] = y[i] + z[i]\nend",
        {"y": sparse(Y), "z": sparse(Z), "w": Tensor(SPARSE, 30)},
        "w",
        Y + Z,
    ),
    "gallop": (
        "s .= 0\nfor i = _\ns[] += y[gallop(i)] * z[gallop(i)]\nend",
        {"y": sparse(Y), "z": sparse(Z), "s": Scalar(0.0)},
        "s",
        Y @ Z,
    ),
}


@pytest.mark.parametrize("name", KERNELS)
def test_residuals(name: str, golden: Golden) -> None:
    """The listing, and that what is listed is right."""
    body, values, result, expected = KERNELS[name]
    found = run_congruent(kernel(body), values)
    assert found.error is None
    np.testing.assert_array_equal(found[result], expected)
    golden(f"residual/{name}.txt", text(found.residual))


@pytest.mark.parametrize("name", ["upper_triangle", "spmv_csc"])
def test_residuals_of_the_paper(name: str, golden: Golden) -> None:
    body, values, result, expected = KERNELS[name]
    found = run_congruent(kernel(body), values, "paper")
    np.testing.assert_array_equal(found[result], expected)
    golden(f"residual/{name}_paper.txt", text(found.residual))


def test_staging_is_deterministic() -> None:
    body, values, _, _ = KERNELS["spgemm_gustavson"]
    listings = {text(run_congruent(kernel(body), values).residual) for _ in range(2)}
    assert len(listings) == 1


def test_spmv_compares_no_coordinate() -> None:
    """Where gaps annihilate, a column is a counted loop over its positions (derived rule)."""
    body, values, _, _ = KERNELS["spmv_csc"]
    listing = text(run_congruent(kernel(body), values).residual)
    inner = listing.split("for j")[1]
    assert "while" not in inner and inner.count("for ") == 1
