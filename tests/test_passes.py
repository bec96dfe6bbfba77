"""Passes over residual programs: what each one changes, and that none changes what programs mean."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import host_programs as programs
import numpy as np
import pytest
from hosts import Program, Sample
from level_kernels import tensor

from finchlang.host.execute import run_residual
from finchlang.host.fold import ZERO, const, op
from finchlang.host.ir import Expr, For, Grow, If, Residual, Store
from finchlang.host.passes import lanes
from finchlang.host.passes.appends import make_room
from finchlang.host.passes.lanes import LANES, PADDED, take_lanes
from finchlang.host.passes.pipeline import PASSES, transform
from finchlang.host.passes.scalar_expansion import expand_scalars
from finchlang.host.print import text
from finchlang.host.verify import check
from finchlang.host.walk import walk
from finchlang.run.kernel import Kernel
from finchlang.tensors.formats import parse_format
from finchlang.tensors.tensor import Tensor
from finchlang.text.parse import parse_kernel
from finchlang.types import Int64

VECTOR, ROWS = "Dense(Element(0.0))", "Dense(SparseList(Element(0.0)))"
BLOCKS = "Dense(SparseBlockList(Element(0.0)))"
BY_ROW = "y .= 0; for i=_, j=_ y[i] += A[j, i] * x[j] end"
BY_COLUMN = "y .= 0; for j=_, i=_ y[i] += A[i, j] * x[j] end"


def kernel(program: str, **formats: str) -> Kernel:
    known = {name: parse_format(format) for name, format in formats.items()}
    return Kernel(parse_kernel(f"begin\n{program}\nend"), known)


# ------------------------------------------------------------------------- each pass by itself


def test_blocks_that_add_to_one_entry_are_added_up_apart() -> None:
    def sums_apart(program: str, format: str) -> bool:
        residual = kernel(program, y=VECTOR, A=format, x=VECTOR).residual
        return expand_scalars(residual) is not residual

    assert sums_apart(BY_ROW, BLOCKS)
    assert not sums_apart(BY_ROW.replace("+=", "<<min>>="), BLOCKS)
    assert not sums_apart(BY_ROW, ROWS)
    assert not sums_apart(BY_COLUMN, BLOCKS)


WANTED = "if A[i, j] > 0 C[i, j] = A[i, j] end"


@pytest.mark.parametrize("body", ["C[i, j] = 2.0 * A[i, j]", "C[i, j] = A[i, j] * x[i]", WANTED])
def test_room_for_what_a_loop_appends_is_made_before_it(body: str) -> None:
    def grows_in_loops(residual: Residual) -> bool:
        loops = [s for s in walk(residual.body) if isinstance(s, For)]
        inner = [s for s in loops if not any(isinstance(t, For) for t in walk(s.body))]
        return any(isinstance(t, Grow) for s in inner for t in walk(s.body))

    program = f"C .= 0; for j=_, i=_ {body} end"
    residual = kernel(program, C=ROWS, A=ROWS, x=VECTOR).residual
    assert grows_in_loops(residual) and not grows_in_loops(make_room(residual))


@pytest.mark.parametrize(
    ("body", "is_branch"),
    [
        (WANTED, False),
        ("if A[i, j] > 0 C[i, j] = A[i, j] / 2 + 1 end", True),  # a division takes its time
        ("if A[i, j] > 0 C[i, j] = x[i] end", True),  # another array's entry may be far away
    ],
)
def test_what_is_appended_under_a_condition_is_stored_always(body: str, is_branch: bool) -> None:
    residual = kernel(f"C .= 0; for j=_, i=_ {body} end", C=ROWS, A=ROWS, x=VECTOR).residual
    loops = [s for s in walk(make_room(residual).body) if isinstance(s, For)]
    inner = [s for s in loops if not any(isinstance(t, For) for t in walk(s.body))]
    assert any(isinstance(t, If) for s in inner for t in walk(s.body)) == is_branch


@pytest.mark.parametrize(
    ("program", "has_lanes"),
    [
        (BY_ROW, True),
        (BY_COLUMN, False),  # goes to an entry that is read
        ("y .= 0; for i=_, j=_ y[i] += A[j, i] end", False),  # gathers nothing
        ("y .= 0; for i=_, j=_ if x[j] > 1 y[i] += A[j, i] end end", False),  # has a branch
    ],
)
def test_what_gathers_and_accumulates_takes_lanes(program: str, has_lanes: bool) -> None:
    residual = kernel(program, y=VECTOR, A=ROWS, x=VECTOR).residual
    loops = [s for s in walk(take_lanes(residual).body) if isinstance(s, For) and s.is_plain]
    assert len(loops) == 3 * has_lanes


def test_a_row_is_stored_once() -> None:
    residual = transform(kernel(BY_ROW, y=VECTOR, A=ROWS, x=VECTOR).residual)
    stores = [s for s in walk(residual.body) if isinstance(s, Store)]
    assert len(stores) == 1


def test_lanes_read_and_write_nothing_where_there_is_nothing_to_do() -> None:
    """The entry that a loop without steps would accumulate in need not be there."""
    s = Sample()
    host = s.host
    y, idx, x, n = s.buffer("y"), s.buffer("idx", Int64), s.buffer("x"), s.input("n")

    def entry(p: Expr) -> None:
        s.add_at(y, n, host.load(x, host.load(idx, p)))

    host.count(ZERO, op("sub", n, const(1)), entry)
    laned = take_lanes(s.residual())
    check(laned)
    assert laned.body != s.residual().body
    run_residual(laned, [np.zeros(0), np.zeros(0, np.int64), np.zeros(0)], [0])


# ------------------------------------------------------------------------- what programs mean


def data(case: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(case)
    m, n = [(0, 5), (1, 1), (7, 40), (30, 9), (12, PADDED), (5, 3 * LANES + 1)][case]
    pick = lambda *shape: rng.integers(-4, 5, shape).astype(float)  # noqa: E731
    return {"A": pick(n, m) * (rng.random((n, m)) < 0.7), "x": pick(n), "s": pick(n)}


PROGRAMS: dict[str, dict[str, Any]] = {
    "rows": {"program": BY_ROW, "A": ROWS},
    "rows in place": {"program": "for i=_, j=_ y[i] += A[j, i] * x[j] end", "A": ROWS},
    "products": {"program": "y .= 1; for i=_, j=_ y[i] *= A[j, i] * x[j] end", "A": ROWS},
    "blocks": {"program": BY_ROW, "A": BLOCKS},
    "blocks, in place": {"program": "for i=_, j=_ y[i] += A[j, i] * x[j] end", "A": BLOCKS},
    "one sum": {"program": "for j=_ y[1] += s[j] * x[j] end", "s": "SparseList(Element(0.0))"},
    "appends": {
        "program": "y .= 0; for j=_ y[j] = s[j] * x[j] end",
        "s": "SparseList(Element(0.0))",
        "y": "SparseList(Element(0.0))",
    },
    "appends under a condition": {
        "program": "y .= 0; for j=_ if s[j] > 1 y[j] = 2 * s[j] end end",
        "s": "SparseList(Element(0.0))",
        "y": "SparseList(Element(0.0))",
    },
    "columns of integers": {
        "program": "y .= 0; for i=_, j=_ y[j] += A[j, i] * x[j] end",
        "A": "Dense(SparseList(Element(0)))",
        "x": "Dense(Element(0))",
        "y": "Dense(Element(0))",
    },
    "coordinates": {"program": BY_ROW, "A": "SparseCOO{2}(Element(0.0))"},
}
CHOICES = [c for n in range(1, len(PASSES) + 1) for c in combinations(PASSES, n)]


@pytest.mark.parametrize("passes", CHOICES, ids=lambda c: "+".join(p.__name__ for p in c))
@pytest.mark.parametrize("name", PROGRAMS)
def test_passes_alone_and_composed_change_no_result(
    name: str, passes: tuple, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "PATIENCE", 0)  # rows are padded from the second length on
    program = PROGRAMS[name]
    formats = {"y": VECTOR, "x": VECTOR, **{k: f for k, f in program.items() if k != "program"}}
    kernels = [kernel(program["program"], **formats) for _ in range(2)]
    for made, chosen in zip(kernels, ((), passes), strict=True):
        made.__dict__["residual"] = transform(made.residual, chosen)
    for case in range(6):
        found = []
        for made in kernels:
            given = data(case)
            size = max(given["A"].shape[1], 1)
            tensors = {k: tensor(given[k], f) for k, f in formats.items() if k != "y"}
            tensors["y"] = tensor(np.arange(1.0, size + 1), formats["y"])
            if "A" in formats and given["A"].shape[1] == 0:
                tensors["y"] = Tensor(formats["y"], 0)
            made.run_residual([tensors[n] for n in made.tensors], [])
            found.append(tensors["y"].to_numpy())
        np.testing.assert_array_equal(*found)


def test_passes_leave_other_programs_as_they_are() -> None:
    def lines(residual: Residual) -> str:
        return text(residual)

    for residual in (Program(programs.union).residual, Program(programs.intersection).residual):
        assert lines(transform(residual)) == lines(residual)


def test_lanes_are_taken_where_something_else_is_accumulated_too() -> None:
    """A sum in an array beside faults noted in a cell."""
    s = Sample()
    host = s.host
    y, idx, x, n = s.buffer("y"), s.buffer("idx", Int64), s.buffer("x"), s.input("n")
    fault = s.output(ZERO, "fault")

    def entry(p: Expr) -> None:
        i = host.load(idx, p)
        within = host.let(op("min", i, 9))
        host.set(fault, op("or", host.get(fault), op("xor", i, within)))
        s.add_at(y, ZERO, host.load(x, within))

    host.count(ZERO, op("sub", n, const(1)), entry)
    laned = take_lanes(s.residual())
    check(laned)
    assert sum(isinstance(s, For) and s.is_plain for s in walk(laned.body)) == 3
    for count in range(20):
        for places in (np.arange(count) % 10, np.arange(count)):
            arrays = [np.ones(1), places, np.arange(10.0)]
            _, after, outputs = run_residual(laned, [a.copy() for a in arrays], [count])
            _, wanted, faults = run_residual(s.residual(), [a.copy() for a in arrays], [count])
            assert after[0] == wanted[0] and outputs == faults


@pytest.mark.parametrize("fill", ["0.0", "0"])
def test_rows_of_ever_other_lengths_are_summed_once_and_nothing_else_is(
    fill: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Padding takes no entry twice, and NaN and Inf only from where they are met."""
    monkeypatch.setattr(lanes, "PATIENCE", 0)
    monkeypatch.setattr("finchlang.run.kernel.default_cache", lambda: None)
    rng = np.random.default_rng(0)
    A = rng.integers(1, 9, (40, 300)) * (rng.random((40, 300)) < rng.random(300) ** 3)
    x = rng.integers(-9, 9, 40)
    if fill == "0.0":
        A, x = A.astype(float), np.array([np.nan, np.inf, *x[2:]])
    vector, rows = f"Dense(Element({fill}))", f"Dense(SparseList(Element({fill})))"
    tensors = {"A": tensor(A, rows), "x": tensor(x, vector), "y": Tensor(vector)}
    made = kernel(BY_ROW, A=rows, x=vector, y=vector)
    made.run_native([tensors[name] for name in made.tensors], [])
    sums = [np.sum(column[column != 0] * x[column != 0]) for column in A.T]
    np.testing.assert_array_equal(tensors["y"].to_numpy(), sums)
