"""What is left to do of a small kernel for each rule of the table and for each level, kept as files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernels import Ran, kernel, run_congruent

from finchlang.host.print import text
from finchlang.host.residual import ResidualHost
from finchlang.rules.engine import Applied, Kind
from finchlang.rules.shown import shown
from finchlang.rules.table import RULES
from finchlang.tensors.formats import LEVELS, parse_format
from finchlang.tensors.scalars import SCALARS
from finchlang.tensors.tensor import Scalar, Tensor

Golden = Callable[[str, str], None]
RESIDUALS = Path(__file__).parent / "golden/residual"


def check_golden(golden: Golden, path: str, body: str, found: Ran) -> None:
    """The kernel, and below it its residual."""
    assert found.error is None
    unread: list[str] = []
    golden(f"residual/{path}.txt", f"{body}\n\n{text(found.residual)}")
    # functions of looplets do all through the host they are given: looking at them leaves no trace
    host, (event,) = ResidualHost(), found.watch.events
    event.stage(host, lambda applied: unread.append(shown(applied.before)))
    assert text(event.compiled.recorded(host)) == text(found.residual)


# ------------------------------------------------------------------------------------------- rules


def vector(format: str, *entries: float) -> Tensor:
    return Tensor.from_numpy(np.array(entries), f"{format}(Element(0.0))")


DENSE = np.array([1.0, 2.0, 3.0, 4.0])
LIST, OTHER = vector("SparseList", 0, 5, 0, 6), vector("SparseList", 7, 8, 0, 0)
RUNS = vector("SparseRunList", 0, 5, 5, 0)
POINT = vector("SparsePinpoint", 0, 0, 5, 0)
INTEGERS = Tensor.from_numpy(np.array([0, 5, 0, 6]), "SparseList(Element(0))")
INTERVAL = vector("SparseInterval", 0, 5, 5, 0)
MATRIX = Tensor.from_numpy(np.eye(3), "Dense(SparseList(Element(0.0)))")
DEEP = Tensor.from_numpy(np.ones((2, 2, 2)), "SparseList(SparseList(SparseList(Element(0.0))))")
NESTED = Tensor.from_numpy(np.ones((2, 2)), "SparseList(SparseList(Element(0.0)))")
MANY = "ABCDEFGH"
SUM = "s .= 0\nfor i = _\n    s[] += {}\nend"


def summed(value: str, **tensors: Any) -> tuple[str, dict[str, Any]]:
    return SUM.format(value), {"s": Scalar(0.0), **tensors}


#: a kernel that each rule is applied in, and what it is run on
OF_RULES: dict[str, tuple[str, dict[str, Any]]] = {
    "Extent": ("for i = n - 1:n + 1\n    s[] += i\nend", {"n": 3, "s": Scalar(0.0)}),
    "Thunk": summed("A[i]", A=INTERVAL),
    "Shift": summed("A[(2:3)(i)]", A=LIST),
    "Phase": summed("A[i]", A=INTERVAL),
    "Switch": (
        "for i = _\n    y[i] += p[]\nend",
        {"p": Scalar(parse_format("SparseScalar(0.0)")), "y": DENSE},
    ),
    "Simplify": ("s[] += 0 * x[2]", {"x": DENSE, "s": Scalar(0.0)}),
    "DeadWorkspace": (
        "for j = _\n    w .= 0\n    for i = _\n        w[i] += A[j] * x[i]\n    end\n"
        "    for i = _\n        y[i] += w[i]\n    end\nend",
        {"A": LIST, "w": vector("SparseByteMap"), "x": DENSE, "y": DENSE},
    ),
    "Repetition": (
        "s .= 0\nfor i = _, j = _\n    s[] += A[i] * x[j]\nend",
        {"s": Scalar(0.0), "A": INTERVAL, "x": DENSE},
    ),
    "Terms": (SUM.format("A[i] + 2"), {"s": Scalar(0), "A": INTEGERS}),
    "Run": summed("A[i]", A=INTERVAL),
    "Union": summed("max(A[i], B[i])", A=LIST, B=OTHER),
    "Spike": summed("A[i]", A=LIST),
    "Pieces": summed("A[i] + B[i] + C[i] + D[i]", A=POINT, B=POINT, C=POINT, D=POINT),
    "Overlap": summed(" * ".join(f"{name}[i]" for name in MANY), **dict.fromkeys(MANY, POINT)),
    "Sequence": summed("A[i]", A=INTERVAL),
    "Break": (
        "p .= 1\nfor i = _\n    p[] *= x[i]\nend",
        {"x": DENSE, "p": Scalar(parse_format("ShortCircuitScalar(1.0)"))},
    ),
    "Rest": (
        "s .= 0\nfor k = _, j = _, i = _\n    s[] += A[i, j, k] + B[i, j, k]\nend",
        {"A": DEEP, "B": DEEP, "s": Scalar(0.0)},
    ),
    "Together": (
        "s .= 0\nfor j = _, i = _\n    s[] += A[i, j] + B[i, j]\nend",
        {"A": NESTED, "B": NESTED, "s": Scalar(0.0)},
    ),
    "Located": summed("collapse(slice(x, 1, 2:3), 1, 2)[i] * A[i]", x=np.eye(3, 2), A=LIST),
    "Choice": summed("A[i] / B[i]", A=LIST, B=OTHER),
    "Sought": summed("A[i] / B[i]", A=LIST, B=OTHER),
    "Leapfrog": summed("A[gallop(i)] * B[gallop(i)]", A=LIST, B=OTHER),
    "Jumper": summed("A[gallop(i)]", A=LIST),
    "Positions": summed("A[i]", A=LIST),
    "Regions": summed("A[i] * x[i]", A=RUNS, x=DENSE),
    "StepperSeek": summed("A[i]", A=LIST),
    "StepperNext": summed("A[i]", A=LIST),
    "Lookup": summed("x[i]", x=DENSE),
    "AcceptRun": ("A .= 0\nfor i = 1:n\n    A[i] = 5\nend", {"n": 3, "A": RUNS}),
    "Unfurl": summed("x[i]", x=DENSE),
    "Loop": ("for i = 1:n\n    s[] += i\nend", {"n": 3, "s": Scalar(0.0)}),
    "Access": ("s[] += x[2] * x[2]", {"x": DENSE, "s": Scalar(0.0)}),
    "Initialisation": ("y .= 0\nfor i = _\n    y[i] = x[i]\nend", {"x": DENSE, "y": DENSE}),
    "Copy": (
        "C .= 0\nfor j = _, i = _\n    C[i, j] = A[i, j]\nend",
        {"A": MATRIX, "C": MATRIX},
    ),
    "CopyFibers": (
        "C .= 0\nfor j = _, i = _\n    C[i, j] = hcat(A, B)[i, j]\nend",
        {"A": MATRIX, "B": MATRIX, "C": MATRIX},
    ),
    "Block": ("s .= 0\ns[] += n\ns[] *= n", {"n": 3, "s": Scalar(0.0)}),
    "CommonSize": (
        "for i = _\n    s[] += x[i] * y[i]\nend\nfor i = _\n    s[] += z[i] * x[i]\nend",
        {"x": DENSE, "y": DENSE, "z": DENSE, "s": Scalar(0.0)},
    ),
    "Define": ("let a = s[]\n    s[] += a * a\nend", {"s": Scalar(3.0)}),
    "Missing": (
        "for i = 1:4\n    s[] += coalesce(ifelse(n > 2, A[~i], 1), 5)\nend",
        {"n": 3, "A": DENSE, "s": Scalar(0.0)},
    ),
    "Sieve": ("if n > 2\n    s[] += n\nend", {"n": 3, "s": Scalar(0.0)}),
    "Assign": ("s[] += n", {"n": 3, "s": Scalar(0.0)}),
    "Declare": ("A .= 0", {"A": LIST}),
    "Freeze": ("A .= 0\nfor i = 2:3\n    A[i] = i\nend", {"A": LIST}),
    "Thaw": ("A[2] += 1", {"A": vector("SparseByteMap", 0, 1, 0, 2)}),
    "Variable": ("let a = n + 1\n    s[] += a * a\nend", {"n": 3, "s": Scalar(0.0)}),
}
#: base rules that a derived one comes before
OF_THE_PAPER = ("Spike", "Jumper", "StepperSeek", "StepperNext")
#: a rule whose step another takes with its own: Define substitutes a variable's value
TAKEN_BY = {"Variable": ("Define",)}


def staged_rules(found: Ran) -> set[str]:
    """The names of the steps that statements take while a kernel is staged."""
    names: set[str] = set()

    def tracer(applied: Applied) -> None:
        if applied.kind == Kind.STEP:
            names.add(applied.name)

    (event,) = found.watch.events
    event.stage(ResidualHost(), tracer)
    return names


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_rules(rule: Any, golden: Golden) -> None:
    """Each rule of the table, and that it is applied."""
    body, values = OF_RULES[rule.name]
    which = "paper" if rule.name in OF_THE_PAPER else "all"
    which = "all-Union" if rule.name == "Choice" else which
    found = run_congruent(kernel(body), values, which)
    check_golden(golden, f"rule/{rule.name}", body, found)
    expected = TAKEN_BY.get(rule.name) or rule.steps or (rule.name,)
    assert set(expected) <= staged_rules(found)


# ------------------------------------------------------------------------------------------ levels

SCATTERED = np.array([0.0, 5.0, 0.0, 6.0])
BLOCK = np.array([0.0, 5.0, 6.0, 0.0])
CONSTANT = np.array([0.0, 5.0, 5.0, 0.0])
ONE = np.array([5.0])
UPPER = np.array([[1.0, 2.0], [0.0, 3.0]])

#: a format with each level, and what it is to hold
OF_LEVELS: dict[str, tuple[str, np.ndarray]] = {
    "Dense": ("Dense(Element(0.0))", SCATTERED),
    "RunList": ("RunList(Element(0.0))", CONSTANT),
    "PackBits": ("PackBits(Element(0.0))", CONSTANT),
    "SparseList": ("SparseList(Element(0.0))", SCATTERED),
    "SparsePinpoint": ("SparsePinpoint(Element(0.0))", ONE),
    "SparseRunList": ("SparseRunList(Element(0.0))", CONSTANT),
    "SparseInterval": ("SparseInterval(Element(0.0))", CONSTANT),
    "SparseBlockList": ("SparseBlockList(Element(0.0))", BLOCK),
    "SparseBand": ("SparseBand(Element(0.0))", BLOCK),
    "SparseByteMap": ("SparseByteMap(Element(0.0))", SCATTERED),
    "SparseHash": ("SparseHash(Element(0.0))", SCATTERED),
    "Workspace": ("Workspace(Element(0.0))", SCATTERED),
    "SparseCOO": ("SparseCOO{2}(Element(0.0))", UPPER),
    "Interleaved": ("Dense(Interleaved(Element(0.0)))", UPPER),
    "Ragged": ("Dense(Ragged(Element(0.0)))", UPPER),
    "LowerTriangular": ("LowerTriangular(Element(0.0))", UPPER.T),
    "UpperTriangular": ("UpperTriangular(Element(0.0))", UPPER),
    "Symmetric": ("Symmetric(Element(0.0))", UPPER + UPPER.T),
    "Element": ("Dense(Element(Int8(1)))", np.array([1, 5], np.int8)),
    "Pattern": ("SparseList(Pattern())", SCATTERED != 0),
    **{name: (f"{name}(0.0)", np.array(5.0)) for name in SCALARS},
}
#: what sums an array of so many modes up, and what copies one
READS = (
    "for i = _\n    y[i] += A[]\nend",
    "for i = _\n    s[] += A[i]\nend",
    "for j = _, i = _\n    s[] += A[i, j]\nend",
)
WRITES = (
    "for i = _\n    C[] *= y[i]\nend",
    "C .= {}\nfor i = _\n    C[i] = A[i]\nend",
    "C .= {}\nfor j = _, i = _\n    C[i, j] = A[i, j]\nend",
)
PART = "C .= {{}}\nfor j = _, i = _\n    if {}\n        C[i, j] = A[i, j]\n    end\nend"
UPPER_PART, LOWER_PART = PART.format("i <= j"), PART.format("i >= j")
#: what copies as much of a matrix as its level may be written to
PARTS = {"UpperTriangular": UPPER_PART, "Symmetric": UPPER_PART, "LowerTriangular": LOWER_PART}


def tensor(format: str, array: np.ndarray) -> Any:
    if array.ndim == 0:
        return Scalar(parse_format(format), array.item())
    return Tensor.from_numpy(array, format)


@pytest.mark.parametrize("name", OF_LEVELS)
def test_levels_read(name: str, golden: Golden) -> None:
    format, array = OF_LEVELS[name]
    body = READS[array.ndim]
    values = {"A": tensor(format, array), "s": Scalar(0.0), "y": DENSE}
    found = run_congruent(kernel(body), values)
    check_golden(golden, f"level/{name}_read", body, found)
    if array.ndim == 0:
        np.testing.assert_array_equal(found["y"], DENSE + array)
    else:
        assert found["s"] == array.sum()


@pytest.mark.parametrize("name", OF_LEVELS)
def test_levels_written(name: str, golden: Golden) -> None:
    format, array = OF_LEVELS[name]
    target = tensor(format, array)
    body = PARTS.get(name, WRITES[array.ndim]).format(str(target.fill).lower())
    values = {"C": target, "A": np.asfortranarray(array), "y": DENSE}
    found = run_congruent(kernel(body), values)
    check_golden(golden, f"level/{name}_written", body, found)
    expected = array if array.ndim else array * DENSE.prod()
    np.testing.assert_array_equal(found["C"], expected)


# ---------------------------------------------------------------------------------- none is left out


def test_every_rule_and_level_has_its_goldens() -> None:
    names = {kind.__name__ for kind in LEVELS.values()}
    files = {file.stem for file in (RESIDUALS / "level").iterdir()}
    assert files == {f"{name}_{how}" for name in names for how in ("read", "written")}
    files = {file.stem for file in (RESIDUALS / "rule").iterdir()}
    assert files == {rule.name for rule in RULES}
