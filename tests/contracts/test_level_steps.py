"""The contract of levels that meet: no more steps than by the rules of the paper. That steps go with what
is stored, not with sizes, is said by `programs/rules/steps_of_levels.finch` and its like."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernels import kernel, run_staged

from finchlang import Scalar, Tensor

SUM = "for i = _\n s[] += {}\nend"


def sums(**given: Any) -> dict[str, Any]:
    return given | {"s": Scalar(0.0)}


def steps(text: str, values: dict[str, Any], which: str) -> int:
    ran = run_staged(kernel(text), values, which)
    assert ran.error is None, ran.error
    return ran.total


MET = [
    "SparseList",
    "SparseByteMap",
    "SparseBand",
    "SparseBlockList",
    "SparseRunList",
    "RunList",
    "PackBits",
    "Dense",
]


def met(level: str, seed: int) -> Tensor:
    """Runs of equal entries; of a band, one block."""
    rng, values, n = np.random.default_rng(seed), np.zeros(300), 300
    for start in rng.choice(n // 10, 12, replace=False) * 10:
        values[start : start + rng.integers(1, 7)] = rng.integers(1, 3)
    if level == "SparseBand":
        values[:] = 0
        values[60 + 20 * seed : 180 + 20 * seed] = rng.integers(1, 4, 120)
    return Tensor.from_numpy(values, f"{level}(Element(0.0))")


@pytest.mark.parametrize("one", MET)
def test_where_two_meet_no_more_steps_than_by_the_rules_of_the_paper(one: str) -> None:
    """At most 5 % more."""
    for other in MET[MET.index(one) :]:
        for text in (SUM.format("A[i] + B[i]"), SUM.format("A[i] * B[i]")):
            values = sums(A=met(one, 1), B=met(other, 2))
            ours, theirs = (steps(text, values, which) for which in ("all", "paper"))
            assert ours <= 1.05 * theirs, (text, other, ours, theirs)


PACKED = ("A[i] * B[i] * C[i]", "PackBits", "Dense"), ("A[i] + B[i] + C[i]", "PackBits", "Dense")


@pytest.mark.parametrize(
    "what, one, other",
    [
        *PACKED,
        *(
            (what, one, other)
            for what in ("A[i] * B[i] + C[i]", "A[i] * B[i] + C[i] * D[i]")
            for one, other in zip(MET[:5], MET[2:5] + MET[:2], strict=True)
        ),
    ],
)
def test_sums_of_products_take_no_more_steps_either(what: str, one: str, other: str) -> None:
    formats = zip("ABCD", (one, other) * 2, range(1, 5), strict=True)
    values = sums(**{name: met(level, seed) for name, level, seed in formats if name in what})
    ours, theirs = (steps(SUM.format(what), values, which) for which in ("all", "paper"))
    assert ours <= 1.06 * theirs, (ours, theirs)
