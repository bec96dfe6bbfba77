"""The contract of passes over residual programs: alone and together they change nothing that programs make
where they have most to do (`tests/programs/test_programs.py` says so of all of its own); and what each
one is for is changed."""

from __future__ import annotations

from typing import Any

import host_programs as programs
import numpy as np
import pytest
from hosts import Program, Sample
from level_kernels import run_on, tensor

from finchlang.base.errors import FinchError
from finchlang.calls.kernel import SpecializedKernel
from finchlang.host.construct import FALSE, TRUE, ZERO, op
from finchlang.host.ir import Branch, ForLoop, Grow, Residual
from finchlang.host.listing import text
from finchlang.host.rewrite import walk
from finchlang.host.verify import check
from finchlang.optimize.append_loops import make_room
from finchlang.optimize.joined_branches import join_branches
from finchlang.optimize.pipeline import Pass, transform
from finchlang.optimize.privatisation import sums
from finchlang.optimize.scalar_expansion import expand_scalars
from finchlang.python.session import Session
from finchlang.tensors.formats import parse_format
from finchlang.tensors.tensor import Tensor
from finchlang.text.parse import parse_kernel
from tests.contracts.changed_residuals import Changed

VECTOR, ROWS = "Dense(Element(0.0))", "Dense(SparseList(Element(0.0)))"
BLOCKS = "Dense(SparseBlockList(Element(0.0)))"
BY_ROW = "y .= 0; for i=_, j=_ y[i] += A[j, i] * x[j] end"
BY_COLUMN = "y .= 0; for j=_, i=_ y[i] += A[i, j] * x[j] end"


def kernel(program: str, **formats: str) -> SpecializedKernel:
    known = {name: parse_format(format) for name, format in formats.items()}
    return SpecializedKernel(parse_kernel(f"begin\n{program}\nend"), known)


# ------------------------------------------------------------------------- each pass by itself


def test_blocks_that_add_to_one_entry_are_added_up_apart() -> None:
    def sums_apart(program: str, format: str) -> bool:
        residual = kernel(program, y=VECTOR, A=format, x=VECTOR).staged.residual
        return expand_scalars(residual) is not residual

    assert sums_apart(BY_ROW, BLOCKS)
    assert not sums_apart(BY_ROW.replace("+=", "<<min>>="), BLOCKS)
    assert not sums_apart(BY_ROW, ROWS)
    assert not sums_apart(BY_COLUMN, BLOCKS)


@pytest.mark.parametrize(
    ("body", "is_joined"),
    [
        ("if !(x[i] > 0) F[i] |= true end", True),
        ("if x[i] > 0 if x[i] < 9 F[i] |= true end end", True),
        ("if x[i] > 0 F[i] |= true else F[i] |= x[i] < -1 end", False),
        ("F[i] |= true", False),
    ],
)
def test_what_is_done_where_something_is_written_is_done_in_its_branch(
    body: str, is_joined: bool
) -> None:
    program = f"F .= false; for i=_ {body} end"
    residual = kernel(program, F="SparseByteMap(Pattern())", x=VECTOR).staged.residual
    assert (join_branches(residual).body is not residual.body) == is_joined


@pytest.mark.parametrize("again", [False, True])
def test_what_asks_a_flag_once_more_keeps_its_branch(again: bool) -> None:
    """The variable would not be bound where it is asked again."""

    def flagged(s: Sample, again: bool) -> None:
        host, out, x = s.host, s.output(ZERO), s.input("x")
        flag = host.cell(FALSE, "flag")
        host.branch(op("gt", x, 0), lambda: host.set(flag, TRUE))
        seen = host.get(flag)
        host.branch(seen, lambda: s.add_to(out, 1))
        if again:
            host.branch(seen, lambda: s.add_to(out, 2))

    residual = Program(flagged, (again,)).residual
    joined = join_branches(residual)
    check(joined)
    assert (joined.body is residual.body) == again


WANTED = "if A[i, j] > 0 C[i, j] = A[i, j] end"


@pytest.mark.parametrize("body", ["C[i, j] = 2.0 * A[i, j]", "C[i, j] = A[i, j] * x[i]", WANTED])
def test_room_for_what_a_loop_appends_is_made_before_it(body: str) -> None:
    def grows_in_loops(residual: Residual) -> bool:
        loops = [s for s in walk(residual.body) if isinstance(s, ForLoop)]
        inner = [s for s in loops if not any(isinstance(t, ForLoop) for t in walk(s.body))]
        return any(isinstance(t, Grow) for s in inner for t in walk(s.body))

    program = f"C .= 0; for j=_, i=_ {body} end"
    residual = kernel(program, C=ROWS, A=ROWS, x=VECTOR).staged.residual
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
    residual = kernel(f"C .= 0; for j=_, i=_ {body} end", C=ROWS, A=ROWS, x=VECTOR).staged.residual
    loops = [s for s in walk(make_room(residual).body) if isinstance(s, ForLoop)]
    inner = [s for s in loops if not any(isinstance(t, ForLoop) for t in walk(s.body))]
    assert any(isinstance(t, Branch) for s in inner for t in walk(s.body)) == is_branch


ENTRIES = {"y": VECTOR, "x": VECTOR, "S": ROWS, **dict.fromkeys("AC", "Dense(Dense(Element(0.0)))")}


# ------------------------------------------------------------------------- what programs mean


def data(case: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(case)
    m, n = [(0, 5), (1, 1), (7, 40), (30, 9), (12, 8), (5, 13)][case]
    pick = lambda *shape: rng.integers(-4, 5, shape).astype(float)  # noqa: E731
    return {"A": pick(n, m) * (rng.random((n, m)) < 0.7), "x": pick(n), "s": pick(n)}


PROGRAMS: dict[str, dict[str, Any]] = {
    "blocks": {"program": BY_ROW, "A": BLOCKS},
    "blocks, in place": {"program": "for i=_, j=_ y[i] += A[j, i] * x[j] end", "A": BLOCKS},
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
}
#: what is at places that depend on data, and products, of integers
INTEGERS: dict[str, dict[str, Any]] = {
    "counts": {"program": "y .= 0; for i=_ y[k[i]] += 1 end"},
    "counts of what is there": {"program": "for i=_ y[k[i]] += i end"},
    "counts under a condition": {"program": "for i=_ if k[i] > 2 y[k[i]] += 1 end end"},
    "counts beside a fill": {
        "program": "z .= 7; for i=_ if k[i] > 1 z[i] += 1 end; y[k[i]] += 1 end",
        "z": "Dense(Element(0))",
    },
    "products": {
        "program": "for i=_, j=_ y[i] *= ifelse(A[j, i] != 0, k[j], 1) end",
        "A": "Dense(SparseList(Element(0)))",
    },
    "products of blocks": {
        "program": "for i=_, j=_ y[i] *= A[j, i] end",
        "A": "Dense(SparseBlockList(Element(1)))",
    },
    "few entries": {
        "program": "for i=_ y[k[i]] += s[i] end",
        "s": "SparseList(Element(0))",
    },
}


@pytest.mark.parametrize("name", [*PROGRAMS, *INTEGERS])
def test_passes_change_nothing_where_they_have_most_to_do(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, changed = {**PROGRAMS, **INTEGERS}[name], Changed(monkeypatch)
    vector = VECTOR if name in PROGRAMS else "Dense(Element(0))"
    formats = {"y": vector, "x": VECTOR, "k": "Dense(Element(0))"}
    formats |= {k: f for k, f in program.items() if k != "program"}
    made = kernel(program["program"], **formats)

    def result(case: int, passes: tuple[Pass, ...]) -> list[np.ndarray]:
        changed.passes, given = passes, data(case)
        size = max(given["A"].shape[1], 1)
        given |= {"k": np.arange(len(given["x"])) % 3 % size + 1, "z": given["x"]}
        tensors = {k: tensor(given[k], f) for k, f in formats.items() if k != "y"}
        tensors["y"] = tensor(np.arange(1.0, size + 1), formats["y"])
        if "A" in formats and given["A"].shape[1] == 0:
            tensors["y"] = Tensor(formats["y"], 0)
        run_on("residual", made, tensors)
        return [tensors[n].to_numpy() for n in made.tensors]

    for case in range(6):
        wanted = result(case, ())
        assert changed.by
        for passes in changed.selections():
            for found, own in zip(result(case, passes), wanted, strict=True):
                np.testing.assert_array_equal(found, own)


def test_what_is_privatised() -> None:
    integers, floats = "Dense(Element(0))", "Dense(Element(0.0))"
    matrix = "Dense(Dense(Element(0)))"

    def count(text: str, **formats: str) -> int:
        residual = kernel(text, **formats).staged.residual
        found = [sums(statement) for statement in residual.body.statements]
        return sum(len(loops) for tables in found for loops in tables.values())

    counting = "y .= 0; for i=_ y[x[i]] += 1 end"
    assert count(counting, y=integers, x=integers) == 1
    assert count("for i=_ y[x[i]] -= i end", y=integers, x=integers) == 0
    assert count("for i=_ y[x[i]] <<max>>= i end", y=integers, x=integers) == 0
    assert count(counting, y=floats, x=integers) == 0  # the order of a sum decides its rounding
    assert count("y .= 0; for i=_ y[i] += x[i] end", y=integers, x=integers) == 0
    assert count("y .= 0; for i=_, j=_ y[i] += A[j, i] end", y=integers, A=matrix) == 0


@pytest.mark.parametrize("length", [6, 7, 8, 9, 10])
def test_a_place_that_there_is_not(length: int) -> None:
    """Each of the steps that are taken together says what is wrong with its own place."""
    session, x = Session(), np.ones(10, np.int64)
    x[length - 1] = 17
    session["x"], session["y"] = x, np.arange(16)
    with pytest.raises(FinchError, match="17") as caught:
        session.run("@finch for i=_; y[x[i]] += 1 end")
    assert caught.value.kind == "bounds"


def test_passes_leave_other_programs_as_they_are() -> None:
    def lines(residual: Residual) -> str:
        return text(residual)

    for residual in (Program(programs.union).residual, Program(programs.intersection).residual):
        assert lines(transform(residual)) == lines(residual)


@pytest.mark.parametrize("fill", ["0.0", "0"])
def test_rows_of_ever_other_lengths_are_summed_once_and_nothing_else_is(
    fill: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No entry is taken twice, and NaN and Inf only from where they are met."""
    monkeypatch.setattr("finchlang.calls.kernel.default_cache", lambda: None)
    rng = np.random.default_rng(0)
    A = rng.integers(1, 9, (40, 300)) * (rng.random((40, 300)) < rng.random(300) ** 3)
    x = rng.integers(-9, 9, 40)
    if fill == "0.0":
        A, x = A.astype(float), np.array([np.nan, np.inf, *x[2:]])
    vector, rows = f"Dense(Element({fill}))", f"Dense(SparseList(Element({fill})))"
    tensors = {"A": tensor(A, rows), "x": tensor(x, vector), "y": Tensor(vector)}
    made = kernel(BY_ROW, A=rows, x=vector, y=vector)
    run_on("native", made, tensors)
    sums = [np.sum(column[column != 0] * x[column != 0]) for column in A.T]
    np.testing.assert_array_equal(tensors["y"].to_numpy(), sums)
