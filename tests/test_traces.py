"""Traces and residuals kept as files: Fig 17's program through the steps of Figs 17 and 18, and what
common kernels become."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from kernels import Watch, kernel, run_congruent

from finchlang.host.execute import ExecutingHost
from finchlang.host.fold import const
from finchlang.host.growth import GrowingHost
from finchlang.host.ir import Const
from finchlang.host.print import text
from finchlang.host.residual import ResidualHost
from finchlang.rules.engine import Applied, Kind
from finchlang.rules.shown import changed, shown, spans_of
from finchlang.session import Observer, Session
from finchlang.syntax import EMPTY
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

#: step of Fig 18: the rule (`its premise:` where what stands above it begins), and what is left
STEPS = [
    (2, "Declare", r"\A\Z"),
    (3, "Unfurl", r"if lookup\(.*\)\[i, j\]\n +s\[\] \+= lookup\(A@\(j - 1\)\)\[i, j\]"),
    (4, "Loop", r"\Alet j = j_1\n"),  # "We insert a for-loop"
    (4, "Lookup", r"if UpTriMaskCol\(j_1\)\[i\]\n +s\[\] \+= lookup\(A@\(j_1 - 1\)\)\[i, j_1\]"),
    (4, "Lookup", r"if UpTriMaskCol\(j_1\)\[i\]\n +s\[\] \+= A@\(j_1 - 1\)\[i\]"),
    (5, "Unfurl", r"if sequence\(.*\)\[i\]\n +s\[\] \+= thunk\(sequence\(.*\)\)\[i\]"),
    (6, "Thunk", r"if sequence\(.*\)\[i\]\n +s\[\] \+= sequence\(.*\)\[i\]"),
    (7, "Sequence, its premise:", r"if sequence\(.*\)\[i\]"),
    (7, "Phase", r"for i = \S+:stop_\d\n +if run\(true\)\[i\]"),
    (8, "Run", r"if true\n"),
    (9, "Simplify", r"\Afor i = \S+:stop_\d\n +s\[\] \+= sequence\(.*\)\[i\]\nend"),
    (10, "StepperSeek", r"s\[\] \+= stepper\(.*\)\[i\]"),
    (10, "StepperNext, its premise:", r"\Afor i = at_\d:stop_\d\n +s\[\] \+= stepper"),
    (11, "Thunk", r"for i = at_\d:stop_\d\n +s\[\] \+= spike\(.*\)\[i\]"),
    (11, "Spike", r"\[\] \+= run\(.*\)\[i\]\nend\n(.*\n)*.*s\[\] \+= spike\(.*\)\[i\]"),
    (11, "Run", r"for i = at_\d:\(stop_\d - 1\)\n +s\[\] \+= 0.0"),
    (12, "Simplify", r"\A\Z"),  # adding 0 does nothing
    (11, "Spike", r"\Afor i = stop_\d:stop_\d\n +s\[\] \+= A_val\[q_\d\]"),
    (12, "Simplify", r"\As\[\] \+= A_val\[q_\d\]\Z"),
    (12, "Assign", r"\A\Z"),  # the spike's end: A.lvl.lvl.val[q] is added
    (10, "StepperNext", r"\Afor i = \(stop_\d \+ 1\):stop_\d\n"),
    (7, "Sequence", r"\[i\]"),
    (8, "Run", r"if false\n"),
    (9, "Simplify", r"\A\Z"),  # the part below the diagonal is gone
    (4, "Loop", r"\Alet j = j_1\n"),
    (13, "Freeze", r"\A\Z"),
]


class Kept(Watch):
    """Keeps the terms too."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[str, str]] = []
        self.lines: list[str] = []

    def rule(self, applied: Applied) -> None:
        super().rule(applied)
        if applied.kind == Kind.EXPRESSION:
            return
        premise = ", its premise:" if applied.kind == Kind.PREMISE else ""
        after = shown(applied.after)
        self.told.append((applied.name + premise, after))
        if applied.kind == Kind.STEP:
            pad = "  " * (applied.depth - 1)
            self.lines.append(f"{pad}{applied.name}")
            self.lines.extend(f"{pad}  | {line}" for line in after.splitlines())


def trace(which: str) -> Kept:
    watch = Kept()
    session = Session("interpret", which, observer=watch)
    for name, value in upper_input().items():
        session[name] = value
    session.run(kernel(UPPER))
    assert session["s"].value == 4.0
    return watch


def test_the_upper_triangle_goes_through_the_steps_of_the_paper(golden: Golden) -> None:
    watch = trace("paper")
    assert pretty(watch.events[0].compiled.normalized.program) == NORMALISED  # step 1
    told = iter(watch.told)
    lines = [f"step 1: normalisation\n{NORMALISED}"]
    for step, name, after in STEPS:
        found = next(((n, term) for n, term in told if n == name and re.search(after, term)), None)
        assert found is not None, f"step {step}: {name} giving {after}"
        lines.append(f"step {step}: {name}\n{found[1]}".rstrip())
    assert next(told, None) is None  # Freeze is the last
    golden("trace/figure_18.txt", "\n\n".join(lines) + "\n")


def test_the_trace_of_the_upper_triangle(golden: Golden) -> None:
    golden("trace/upper_triangle.txt", "\n".join(trace("paper").lines) + "\n")


def test_the_trace_with_derived_rules(golden: Golden) -> None:
    watch = trace("all")
    assert watch.rules["Positions"] == 2 and watch.rules["StepperNext"] == 0
    golden("trace/upper_triangle_derived.txt", "\n".join(watch.lines) + "\n")


# ------------------------------------------------------------------------------- steps and premises


def applications(body: str, values: dict[str, Any], which: str = "paper") -> list[Applied]:
    """All that a tracer is told of while a kernel is interpreted; iterations with the coordinate that
    they begin at, as a constant."""
    told: list[Applied] = []
    host = ExecutingHost()

    class Told(Observer):
        traces = True

        def rule(self, applied: Applied) -> None:
            at = None if applied.at is None else const(host.evaluate(applied.at))
            told.append(replace(applied, at=at))

    session = Session("interpret", which, observer=Told())
    for name, value in values.items():
        session[name] = value
    session.run(kernel(body))
    return told


def started(told: list[Applied], name: str) -> list[int]:
    """Where the iterations of a rule began."""
    steps = [a.at for a in told if a.name == name and a.kind == Kind.STEP]
    return [at.value for at in steps if isinstance(at, Const)]


def test_there_is_a_loop_for_each_iteration_and_a_stepper_next_for_each_step() -> None:
    dense = np.zeros(9)
    dense[[1, 4, 5]] = 1.0
    values = {"x": Tensor.from_numpy(dense, SPARSE), "d": np.ones(4), "s": Scalar(0.0)}
    told = applications("s .= 0\nfor j = _\nfor i = _\ns[] += d[j] * x[i]\nend\nend", values)
    assert started(told, "Loop") == [1, 2, 3, 4]
    assert started(told, "StepperNext") == [1, 3, 6] * 4
    derived = applications("s .= 0\nfor i = _\ns[] += x[i]\nend", values, "all")
    assert started(derived, "Loop") == [2, 5, 6]  # by position: those that are stored
    empty = applications("s .= 0\nfor i = 3:2\ns[] += i\nend", values)
    assert started(empty, "Loop") == []


def test_jumpers_step_too() -> None:
    one, other = np.zeros(30), np.zeros(30)
    one[[2, 9, 20]], other[[2, 20, 21, 22]] = 1.0, 1.0
    values = {
        "x": Tensor.from_numpy(one, SPARSE),
        "y": Tensor.from_numpy(other, SPARSE),
        "s": Scalar(0.0),
    }
    told = applications("s .= 0\nfor i = _\ns[] += x[gallop(i)] * y[gallop(i)]\nend", values)
    assert started(told, "Jumper") == [1, 4]  # the last of x is at 21


@pytest.mark.parametrize("which", ["all", "paper"])
def test_premises_come_before_conclusions(which: str) -> None:
    """What is told deeper belongs to the next step that is less deep; every announced premise is
    followed by its step, and of two steps of one run the second begins with what the first left."""
    for body, values, _, _ in KERNELS.values():
        told = applications(body, copy.deepcopy(values), which)
        announced: list[tuple[str, int]] = []
        left: dict[int, Any] = {}
        for applied in told:
            if applied.kind == Kind.EXPRESSION:
                assert applied.depth > 1
            elif applied.kind == Kind.PREMISE:
                announced.append((applied.name, applied.depth))
            else:
                if announced and (applied.name, applied.depth) == announced[-1]:
                    announced.pop()
                assert not announced or applied.depth > announced[-1][1]
                before = left.get(applied.depth)
                if applied.at is None and before is not None and before != EMPTY:
                    assert applied.before == before, applied.name
                left[applied.depth] = applied.after
                left = {depth: term for depth, term in left.items() if depth <= applied.depth}
                if applied.at is not None:  # the loop in hand goes on at its own depth
                    del left[applied.depth]
        assert not announced


def test_expressions_and_the_defines_of_loops_are_told_apart() -> None:
    told = applications(UPPER, upper_input())
    names = {a.name for a in told if a.kind == Kind.EXPRESSION}
    assert names == {"Define", "Literal", "Value", "Call"}
    at = [k for k, a in enumerate(told) if a.name == "Loop"]
    assert len(at) == 2 and all(told[k + 1].name == "Define" for k in at)


def test_the_residual_grows_to_what_it_is() -> None:
    """The lines told while staging are the residual program, whatever it is made of; and that looplets
    are looked at changes nothing."""
    for which in ("all", "paper"):
        for body, values, _, _ in KERNELS.values():
            watch = Watch()
            session = Session("interpret", which, observer=watch)
            for name, value in values.items():
                session[name] = copy.deepcopy(value)
            session.run(kernel(body))
            (event,) = watch.events
            grown: list[str] = []
            seen: list[str] = []
            event.stage(GrowingHost(grown.append), lambda a, to=seen: to.append(shown(a.after)))
            body_lines = text(event.residual).splitlines()[1:-1]
            lines = [line[4:] for line in body_lines if not line.startswith("    return")]
            assert [without_numbers(x) for x in grown] == [without_numbers(x) for x in lines]
            assert seen and not any("..." in term or "value=" in term for term in seen)


def test_what_a_step_replaced_is_known_with_its_place() -> None:
    source = "@finch begin\ns .= 0\nfor i = _\ns[] += y[i]\nend\nend"
    told: list[Applied] = []
    watch = Watch()
    session = Session("interpret", observer=watch)
    session["s"], session["y"] = Scalar(0.0), sparse(Y)
    session.run(source)
    (event,) = watch.events
    event.stage(ResidualHost(), told.append)
    places = {
        a.name: [span.text for node in changed(a.before, a.after) for span in spans_of(node)]
        for a in told
    }
    assert places["Unfurl"] == places["Thunk"] == ["y[i]"]
    assert places["Assign"] == ["s[] += y[i]"] and places["Declare"] == ["s .= 0"]


def without_numbers(line: str) -> str:
    """A line whose variables have no numbers: a listing numbers them in its own way."""
    return re.sub(r"(_\d+)+\b", "", line)


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
