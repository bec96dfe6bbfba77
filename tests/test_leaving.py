"""Reductions into plain scalars and elements end at the annihilator of any operator, in equally many
steps at any size, and mean the same as without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernels import kernel, run_congruent, run_script, run_staged

from finchlang.host.print import text as listing
from finchlang.run.kernel import Kernel
from finchlang.tensors.tensor import Scalar, Tensor
from finchlang.text.parse import parse_kernel

TABLES = pytest.mark.parametrize("which", ["all", "paper"])


def data(name: str, size: int) -> dict[str, Any]:
    """Arrays of which the first entry decides."""
    first = np.arange(size) == 0
    numbers = {
        "bools": first,
        "bytes": (1 - first).astype(np.uint8),
        "integers": (1 - first).astype(np.int64),
        "list": Tensor.from_coo("SparseList(Element(0))", (size,), [np.arange(size)], first + 1),
        "matrix": np.asfortranarray(np.outer(np.ones(50, bool), first)),
    }
    return {"x": numbers[name]}


REDUCTIONS = {
    "any": ("bools", "g[] <<||>>= x[i]", Scalar(False), True),
    "all": ("bools", "g[] <<&&>>= !x[i]", Scalar(True), False),
    "or of bits": ("bools", "g[] |= x[i]", Scalar(False), True),
    "least of bytes": ("bytes", "g[] <<min>>= x[i]", Scalar(np.uint8(255)), 0),
    "product": ("integers", "g[] *= x[i]", Scalar(5), 0),
    "first that is there": ("bools", "g[] <<choose(false)>>= x[i]", Scalar(False), True),
    "entries of a list": ("list", "g[] <<||>>= x[i] > 1", Scalar(False), True),
    "two lists": ("list", "g[] <<||>>= x[i] + x[i] * y[i] > 1", Scalar(False), True),
    "columns": ("matrix", "for j = _; g[] <<||>>= x[j, i] end", Scalar(False), True),
}


@TABLES
@pytest.mark.parametrize("name", REDUCTIONS)
def test_it_ends_at_the_first_annihilator(name: str, which: str) -> None:
    kind, statement, scalar, expected = REDUCTIONS[name]
    totals = []
    for size in (100, 1000, 3000):
        given = {**data(kind, size), "y": data("list", size)["x"], "g": scalar}
        found = run_staged(kernel(f"for i = _; {statement} end"), given, which)
        assert found.error is None and found["g"] == expected
        totals.append(found.total)
    assert max(totals) - min(totals) <= (20 if name == "two lists" else 0)  # a search, if any
    plain = run_staged(kernel(f"for i = _; {statement} end"), given, f"{which}-Break")
    assert plain["g"] == expected and plain.total > 10 * totals[2]


@TABLES
@pytest.mark.parametrize("place", [0, 1, 63, 64, 65, 1087, 1088, 2999, 3000])
def test_wherever_it_is(place: int, which: str) -> None:
    """Places are counted from 1; 0 is nowhere."""
    x = np.arange(1, 3001) == place
    text = kernel("for i = _; g[] <<||>>= x[i] end\nfor i = _; n[] += x[i] end")
    given = {"x": x, "g": Scalar(False), "n": Scalar(0)}
    for engine in ("residual", "native"):
        found = run_script(text, given, engine, which)
        assert found["g"] == bool(place) and found["n"] == bool(place)


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


@TABLES
def test_errors_stay(which: str) -> None:
    text = kernel("for i = _; g[] *= div(x[i], y[i]) end")
    x, y = np.array([0, 1]), np.array([1, 0])
    found = run_congruent(text, {"x": x, "y": y, "g": Scalar(1)}, which)
    assert found.error is not None and found.error.kind == "bounds"
