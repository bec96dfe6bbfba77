"""Strided slices `A[(a:s:b)(i)]`: every level, read and written, up and down, by the meaning, the
interpreter, the residual program and native code."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from test_wrappers import failure, kernel, run, tensor

from finchlang.denote.denotation import denote
from finchlang.run.kernel import Kernel
from finchlang.source import FinchError
from finchlang.tensors.tensor import Scalar
from finchlang.text.parse import parse_kernel
from finchlang.text.print import pretty

pytestmark = pytest.mark.checked

LEAF = "(Element(0.0))"
LISTS = ("SparseList", "SparseByteMap", "SparseHash", "SparseCOO{1}", "SparseBlockList")
RUNS = ("RunList", "SparseRunList", "PackBits", "SparseBand", "SparseInterval")
LEVELS = ("Dense", *LISTS, *RUNS, "SparsePinpoint")
IN_ANY_ORDER = ("Dense", "SparseByteMap", "SparseHash")
IN_ORDER = ("SparseList", "SparseCOO{1}", "SparseBlockList", "RunList", "SparseRunList", "PackBits")

LINE = np.array([1.0, 0, 0, 2, 2, 2, 0, 3, 4, 0, 0, 5])
BLOCK = np.array([0.0, 0, 0, 2, 2, 2, 2, 2, 2, 0, 0, 0])
POINT = np.array([0.0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0])
#: parts of 1:12, with the script's numbers n = 2, up = 3, down = -2
PARTS = ("1:2:12", "n:up:11", "4:1:9", "12:-1:1", "11:down:n", "5:2:4", "6:4:6")
READS = (
    "y .= 0; for i=_; y[i] = x[({0})(i)] end",
    "y .= 0; for i=_; y[i] += x[({0})(i)] * x[({0})(gallop(i))] + x[({0})(i)] end",
    "y .= 0; for i=1:9; y[i] = coalesce(x[({0})(~(i - 2))], 9.0) end",
)


def using(text: str, **given: Any) -> dict[str, Any]:
    """`given`, and the script's numbers that a text uses."""
    numbers = {"n": 2, "up": 3, "down": -2}
    return given | {n: v for n, v in numbers.items() if f"{n}:" in text or f":{n})" in text}


def output(level: str = "Dense") -> Any:
    return tensor([], level + LEAF)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("part", PARTS)
def test_reads_of_every_level(level: str, part: str) -> None:
    array = {"SparseInterval": BLOCK, "SparsePinpoint": POINT}.get(level, LINE)
    which = (LEVELS.index(level) + PARTS.index(part)) % len(READS)
    text = READS[which].format(part)
    run(text, **using(text, x=tensor(array, level + LEAF), y=output()))


def test_what_a_slice_holds() -> None:
    for part, expected in (("2:3:11", LINE[1:11:3]), ("11:-4:2", LINE[10:0:-4]), ("9:-1:9", [4])):
        for level in ("Dense", "SparseList", "RunList"):
            text = f"y .= 0; for i=_; y[i] = x[({part})(i)] end"
            found, _ = run(text, x=tensor(LINE, level + LEAF), y=output())
            np.testing.assert_array_equal(found["y"], expected)


MATRIX = np.arange(30.0).reshape(5, 6) * (np.arange(30).reshape(5, 6) % 3 > 0)
MATRIX_READS = (
    "for j=_, i=_; y[i, j] = A[(1:2:5)(i), (6:-2:1)(j)] end",
    "for j=_, i=_; y[i, j] = A[(5:-1:1)(i), (2:n:6)(j)] end",
    "for j=_, i=_; y[i, j] = window(A, 1:2:5, nothing)[i, j] * A[(2:4)(i), j] end",
    "for j=1:3, i=_; y[i, j] = A[(2:3:5)(i), (1:j:6)(1 + 1)] end",
    "for j=_, i=1:5; y[i, j] = coalesce(A[~((-1:3:12)(i)), (1:5:6)(j)], 7) end",
    "for j=_, i=_; y[i, j] = swizzle(A, 2, 1)[(1:2:6)(i), (4:-2:1)(j)] end",
    "for j=_, i=_; y[i, j] = A[(5:-1:1)((1:2:5)(i)), (2:2:6)((3:-2:1)(j))] end",
    "for j=_, i=2:3; y[i, j] = A[(1:2:5)(i), (1:4:6)(j)] end",
)


@pytest.mark.parametrize(
    "format", ["Dense(SparseList{})", "SparseHash{{2}}{}", "SparseRunList(SparseBlockList{})"]
)
@pytest.mark.parametrize("text", MATRIX_READS)
def test_reads_of_matrices(text: str, format: str) -> None:
    given = {
        "A": tensor(MATRIX, format.format(LEAF)),
        "y": tensor(np.zeros((0, 0)), f"Dense(Dense{LEAF})"),
    }
    if text == MATRIX_READS[-1]:  # a slice is a dimension of its own
        assert failure(f"y .= 0; {text}", "interpret", **given).kind == "dimension"
        return
    run(f"y .= 0; {text}", **using(text, **given))


def test_packed_levels_and_masks() -> None:
    square = np.arange(16.0).reshape(4, 4)
    for level, array in (
        ("Symmetric", square + square.T),
        ("UpperTriangular", np.triu(square)),
        ("LowerTriangular", np.tril(square)),
    ):
        for part in ("1:2:4", "4:-1:1", "n:n:4"):
            text = f"y .= 0; for j=_, i=_; y[i, j] = A[({part})(i), (4:-2:1)(j)] end"
            target = tensor(np.zeros((0, 0)), f"Dense(Dense{LEAF})")
            run(text, **using(text, A=tensor(array, level + LEAF), y=target))
    text = "y .= 0; for j=1:4, i=_; if LoTriMask()[(9:-2:1)(i), j]; y[i] += x[i] end end"
    run(text, x=tensor(LINE[:5], "SparseList" + LEAF), y=output())


# ------------------------------------------------------------------------------------------ writes

RISING = (
    "for i=_; y[(2:2:14)(i)] = x[i] end",
    "for i=_; y[(n:n:14)(i)] = x[i] end",
    "for i=1:7; y[~((2:4:26)(i))] = x[i] end",
    "for i=_; y[(2:4:14)(~(i - 2))] = x[i] end",
    "for i=1:2; y[(1:3:13)((2:2:5)(i))] = x[(1:5:6)(i)] end",
)
FALLING = ("for i=_; y[(14:-2:2)(i)] = x[i] end", "for i=_; y[(14:down:n)(i)] = x[i] end")


@pytest.mark.parametrize("level", [*IN_ANY_ORDER, *IN_ORDER])
@pytest.mark.parametrize("text", RISING)
def test_writes(text: str, level: str) -> None:
    text = f"@declare(y, 0, 1:15); {text}"
    found, _ = run(text, **using(text, x=tensor(LINE[3:10], "SparseList" + LEAF), y=output(level)))
    assert found["y"].any()


@pytest.mark.parametrize("level", IN_ANY_ORDER)
@pytest.mark.parametrize("text", FALLING)
def test_falling_writes(text: str, level: str) -> None:
    text = f"@declare(y, 0, 1:15); {text}"
    found, _ = run(text, **using(text, x=tensor(LINE[3:10], "SparseList" + LEAF), y=output(level)))
    np.testing.assert_array_equal(found["y"][1:14:2], LINE[9:2:-1])


@pytest.mark.parametrize("level", IN_ORDER)
def test_what_is_written_in_order_takes_no_falling_slice(level: str) -> None:
    given = {"x": tensor(LINE[3:10], "Dense" + LEAF), "y": output(level)}
    text = f"@declare(y, 0, 1:15); {FALLING[0]}"
    known = {name: value.format for name, value in given.items()}
    with pytest.raises(FinchError) as caught:
        Kernel(parse_kernel(f"begin {text} end"), known, workspaces=False)
    assert caught.value.kind == "access order" and "use a format" in str(caught.value.hint)
    found, _ = run(text, **given)  # through a workspace
    np.testing.assert_array_equal(found["y"][1:14:2], LINE[9:2:-1])
    text = f"@declare(y, 0, 1:15); {FALLING[1]}"
    for engine in ("interpret", "run_residual", "run_native"):
        fault = failure(text, engine, **copy.deepcopy(using(text, **given)))
        assert fault.kind == "access order" and "goes down" in fault.message


def test_fibers_below_a_falling_slice_are_written_in_any_order() -> None:
    text = "@declare(A, 0, 1:3, 1:4); for j=_, i=_; A[i, (4:-1:1)(j)] = B[i, j] end"
    wide = np.arange(12.0).reshape(3, 4)
    given = {"B": tensor(wide, f"Dense(Dense{LEAF})")}
    found, _ = run(text, **given, A=tensor(np.zeros((3, 4)), f"Dense(SparseByteMap{LEAF})"))
    np.testing.assert_array_equal(found["A"], wide[:, ::-1])
    found, _ = run(text, **given, A=tensor(np.zeros((3, 4)), f"Dense(SparseList{LEAF})"))
    np.testing.assert_array_equal(found["A"], wide[:, ::-1])


# ---------------------------------------------------------------------------- faults and structure


@pytest.mark.parametrize(
    "part, kind",
    [
        ("0:2:8", "bounds"),
        ("2:5:17", "bounds"),
        ("9:-4:0", None),
        ("9:-4:-4", "bounds"),
        ("13:-3:2", "bounds"),
        ("14:2:13", None),
        ("2:0:5", "dimension"),
        ("2:n - 2:5", "dimension"),
    ],
)
def test_slices_out_of_bounds(part: str, kind: str | None) -> None:
    text = f"y .= 0; for i=_; y[i] = x[({part})(i)] end"
    given = {"x": tensor(LINE, "SparseList" + LEAF), "y": output()}
    given |= {"n": 2} if "n" in part else {}
    if kind is None:
        run(text, **given)
        return
    with pytest.raises(FinchError) as caught:
        denote(parse_kernel(text), given)
    assert caught.value.kind == kind
    for engine in ("interpret", "run_residual", "run_native"):
        assert failure(text, engine, **copy.deepcopy(given)).kind == kind


def test_only_slices_have_steps() -> None:
    for text in ("for i=1:2:9; s[] += 1 end", "@declare(y, 0, 1:2:9)"):
        with pytest.raises(FinchError) as caught:
            parse_kernel(text)
        assert caught.value.kind == "syntax" and "slice" in str(caught.value.hint)


def test_wrappers_by_the_names_of_table_5() -> None:
    for old, new in (
        ("OffsetTensor(A, (1, 0))[i, j]", "offset(A, 1, 0)[i, j]"),
        ("OffsetTensor(x, -1)[i]", "offset(x, -1)[i]"),
        ("PermissiveTensor(A, (true, false))[i, j]", "permissive(A, true, false)[i, j]"),
        ("ToeplitzTensor(A, 1)[i, j, k]", "toeplitz(A, 1)[i, j, k]"),
        ("ProtocolizedTensor(A, (nothing, gallop))[i, j]", "protocolize(A, nothing, gallop)[i, j]"),
        (
            "SwizzleTensor(OffsetTensor(A, (1, 0)), (2, 1))[i, j]",
            "swizzle(offset(A, 1, 0), 2, 1)[i, j]",
        ),
    ):
        text = "for k=_, j=_, i=_; s[] += {} end"
        assert parse_kernel(text.format(old)) == parse_kernel(text.format(new))


def test_slices_are_printed() -> None:
    for access in ("x[(1:2:n + 1)(i)]", "window(x, 9:-1:2)[~(i - 1)]", "x[~(a:b:c)((2:3)(i))]"):
        program = parse_kernel(f"for i = _\n    y[i] = {access}\nend")
        assert access in pretty(program) and parse_kernel(pretty(program)) == program


@pytest.mark.parametrize("level", LISTS)
@pytest.mark.parametrize(
    "text",
    [
        "a[(1:3:{0})(i)]",
        "a[(n:n:{0})(i)]",
        "a[(1:3:{0})(i)] * a[(2:3:{0} + 1)(i)]",
        "a[(1:3:{0})(gallop(i))] * a[(2:3:{0} + 1)(gallop(i))]",
        "(a[(1:3:{0})(i)] + a[(2:3:{0} + 1)(i)])",
    ],
)
def test_steps_grow_with_what_is_stored(text: str, level: str) -> None:
    steps = {}
    for size, stored in ((6_000, 30), (60_000, 30), (60_000, 60)):
        a = np.zeros(size)
        a[np.linspace(0, size - 1, stored).astype(int)] = 1
        kernel_text = f"for i=_; s[] += {text.format(size - 2)} end"
        given = using(kernel_text, a=tensor(a, level + LEAF), s=Scalar(0.0))
        compiled = kernel(kernel_text, given)
        values = [given[n] for n in compiled.numbers]
        counted = compiled.run_residual([given[n] for n in compiled.tensors], values)
        steps[size, stored] = counted.total()
    assert steps[60_000, 30] < 1.3 * steps[6_000, 30] < 6_000
    assert steps[60_000, 60] < 2.6 * steps[60_000, 30]
