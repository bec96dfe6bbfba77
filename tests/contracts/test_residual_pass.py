"""The contract of passes over residual programs: what each one is for is changed. That they change nothing
that programs make, alone and together, `tests/programs/test_programs.py` says of all, of which
`passes_at_work.finch` has what they have most to do with."""

from __future__ import annotations

import host_programs as programs
import numpy as np
import pytest
from hosts import Program, Sample
from level_kernels import run_on, tensor

from finchlang.calls.kernel import SpecializedKernel
from finchlang.host.construct import FALSE, TRUE, ZERO, op
from finchlang.host.ir import Branch, Fill, ForLoop, Grow, Residual
from finchlang.host.listing import text
from finchlang.host.rewrite import walk
from finchlang.host.verify import check
from finchlang.optimize.append_loops import make_room
from finchlang.optimize.fills_in_loops import put_fills_in_loops
from finchlang.optimize.joined_branches import join_branches
from finchlang.optimize.pipeline import transform
from finchlang.optimize.privatisation import sums
from finchlang.optimize.scalar_expansion import expand_scalars
from finchlang.optimize.undo_log import with_undo_log
from finchlang.tensors.formats import parse_format
from finchlang.tensors.tensor import Tensor
from finchlang.text.parse import parse_kernel

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


@pytest.mark.parametrize(
    ("loops", "is_moved"),
    [
        ("for j=_, i=_ if A[i, j] > 0 C[i, j] = A[i, j] end end", True),
        ("for i=_, j=_ C[i, j] = A[i, j] end", False),
        ("for j=_, k=_, i=_ C[i, j] += A[i, k] * A[k, j] end", False),
    ],
)
def test_a_fill_goes_into_loops_over_its_entries_alone(loops: str, is_moved: bool) -> None:
    matrix = "Dense(Dense(Element(0.0)))"
    moved = put_fills_in_loops(kernel(f"C .= 0; {loops}", A=matrix, C=matrix).staged.residual)
    assert any(isinstance(s, Fill) for s in moved.body.statements) != is_moved


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


FORMATS = {"x": VECTOR, "y": VECTOR, "k": "Dense(Element(0))", "A": ROWS}
FORMATS |= dict.fromkeys("st", "SparseList(Element(0.0))") | {"F": "SparseByteMap(Pattern())"}
SCATTER = "for i = _\n y[k[i]] += s[i]\nend"


@pytest.mark.parametrize(
    ("program", "names"),
    [
        (SCATTER, ["y_val"]),
        ("for i = _\n y[k[i]] += x[i]\nend", []),  # over a whole dimension
        ("for i = 1:3\n y[k[i]] += x[i]\nend", []),
        ("y .= 0; for i = _\n y[k[i]] += s[i]\nend", []),  # all of y is written anyhow
        ("for j = _, i = _\n y[i] += A[i, j] * x[j]\nend", []),
        ("for j = _, i = _\n y[i] += A[i, j] * s[j]\nend", ["y_val"]),
        ("t .= 0; for i = _\n t[i] = 2 * s[i]\nend", []),  # appended to
        (SCATTER + "; for i = _\n x[i] += 1\nend", []),  # there is as much to do elsewhere
        ("F .= false; for i = _\n F[k[i]] |= s[i] > 0\nend", ["F_tbl1"]),
        ("y[1] += x[1]", []),
    ],
)
def test_what_few_stores_go_to_has_a_log(program: str, names: list[str]) -> None:
    """That it puts back what was there `changed_residuals.py` sees of all programs, and `test_call.py`
    natively."""
    residual = kernel(program, **FORMATS).staged.residual
    logged, undo_log = with_undo_log(residual)
    check(logged)
    assert [residual.buffers[log.array].name for log in undo_log.logs] == names


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


def test_passes_leave_other_programs_as_they_are() -> None:
    for residual in (Program(programs.union).residual, Program(programs.intersection).residual):
        assert text(transform(residual)) == text(residual)


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
