"""The packed levels: UpperTriangular, LowerTriangular, Symmetric."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from level_kernels import result, run, run_out_of_order, tensor

from finchlang.host.ir import Code, Fail, Stmt
from finchlang.run.kernel import Kernel
from finchlang.source import FinchError
from finchlang.tensors.formats import parse_format
from finchlang.tensors.tensor import Scalar, Tensor
from finchlang.testing.compare import compare
from finchlang.text.parse import parse_kernel

pytestmark = pytest.mark.checked

UPPER, LOWER, SYMMETRIC = "UpperTriangular", "LowerTriangular", "Symmetric"
KINDS = pytest.mark.parametrize("kind", [UPPER, LOWER, SYMMETRIC])
#: the condition that keeps a loop to the stored half
MASKS = {UPPER: "i <= j", LOWER: "i >= j", SYMMETRIC: "i <= j"}
OTHERS = [
    "Dense(Dense(Element(0.0)))",
    "Dense(SparseList(Element(0.0)))",
    "SparseByteMap(SparseBand(Element(0.0)))",
]
READS = ["A[i, j] + B[i, j]", "A[i, j] * B[i, j]", "min(A[i, j], B[i, j])"]
OUT = "Dense(SparseList(Element(0.0)))"


def matrix(kind: str, n: int, seed: int = 0) -> np.ndarray:
    array = np.random.default_rng(seed).integers(0, 5, (n, n)).astype(float)
    if kind == SYMMETRIC:
        return array + array.T
    return np.triu(array) if kind == UPPER else np.tril(array)


def packed(kind: str, array: np.ndarray) -> Tensor:
    return tensor(array, f"{kind}(Element(0.0))")


def masked(kind: str, statement: str) -> str:
    return f"for j = _, i = _\n if {MASKS[kind]}\n  {statement}\n end\nend"


def test_storage_is_lapacks() -> None:
    a = np.arange(1.0, 10).reshape(3, 3)
    upper = packed(UPPER, np.triu(a)).storage[1]["val"]
    assert upper.tolist() == [1, 2, 5, 3, 6, 9]
    lower = packed(LOWER, np.tril(a)).storage[1]["val"]
    assert lower.tolist() == [1, 4, 7, 5, 8, 9]
    symmetric = packed(SYMMETRIC, np.triu(a) + np.triu(a, 1).T)
    assert symmetric.storage[1]["val"].tolist() == upper.tolist()
    assert symmetric.countstored() == 6


@KINDS
@pytest.mark.parametrize("n", [0, 1, 2, 5])
@pytest.mark.parametrize(
    "leaf", ["Element(0.0)", "Element(Int8(0))", "Element(2.0)", "Element(false)"]
)
def test_round_trips(kind: str, n: int, leaf: str) -> None:
    level = parse_format(f"{kind}({leaf})")
    for array in (matrix(kind, n), np.zeros((n, n))):
        array = array.astype(level.element_type.dtype)
        if kind != SYMMETRIC:
            outside = (np.tril if kind == UPPER else np.triu)(
                np.ones((n, n), bool), -1 if kind == UPPER else 1
            )
            array[outside] = level.fill.value
        found = Tensor.from_numpy(array, level)
        found.checked = False
        found.validate()
        np.testing.assert_array_equal(found.to_numpy(), array)


def test_faults_at_construction() -> None:
    with pytest.raises(FinchError, match="Pattern") as error:
        parse_format("Symmetric(Pattern())")
    assert error.value.kind == "type"
    with pytest.raises(FinchError, match="has no parameters") as error:
        parse_format("Symmetric{Int32}(Element(0.0))")
    with pytest.raises(FinchError, match="UpperTriangular is square, not 3 x 4") as error:
        Tensor(f"{UPPER}(Element(0.0))", 3, 4)
    assert error.value.kind == "dimension"
    with pytest.raises(FinchError, match=r"no place for an entry at \(2, 1\)") as error:
        packed(UPPER, np.ones((3, 3)))
    assert error.value.kind == "access order"
    for array in (np.triu(np.ones((3, 3))), np.array([[1, 2], [3, 1.0]])):
        with pytest.raises(FinchError, match="not symmetric") as error:
            packed(SYMMETRIC, array)


@KINDS
@pytest.mark.parametrize("n", [0, 1, 5])
def test_reading(kind: str, n: int) -> None:
    a = matrix(kind, n)
    x = np.arange(1.0, n + 1)
    values = {
        "y": Tensor("Dense(Element(0.0))", 0),
        "A": packed(kind, a),
        "x": tensor(x, "Dense(Element(0.0))"),
    }
    for access in ("A[i, j]", "A[follow(i), j]", "A[walk(i), follow(j)]"):
        # columns, then rows, outermost
        for loops in ("j = _, i = _", "i = _, j = _"):
            text = f"y .= 0\nfor {loops}\n y[i] += {access} * x[j]\nend"
            np.testing.assert_array_equal(
                result(text, values, "y", native=access[2:6] + loops[:1] == "i, jj"), a @ x
            )
    b = matrix("", n, 3)
    for format, value, meaning in zip(
        OTHERS, READS, (np.add, np.multiply, np.minimum), strict=True
    ):
        found = result(
            f"C .= 0\nfor j = _, i = _\n C[i, j] = {value}\nend",
            {"C": Tensor(OUT, 0, 0), "A": packed(kind, a), "B": tensor(b, format)},
            which="paper" if n == 1 else "all",
            native=False,
        )
        np.testing.assert_array_equal(found, meaning(a, b))


@KINDS
def test_two_packed_operands_and_a_transpose(kind: str) -> None:
    a = matrix(kind, 4)
    for other in (UPPER, LOWER, SYMMETRIC):
        b = matrix(other, 4, 1)
        text = "C .= 0\nfor j = _, i = _\n C[i, j] = A[i, j] + B[j, i]\nend"
        values = {
            "C": Tensor("Dense(Dense(Element(0.0)))", 0, 0),
            "A": packed(kind, a),
            "B": packed(other, b),
        }
        found = result(text, values, native=other == kind)
        np.testing.assert_array_equal(found, a + b.T)


@KINDS
@pytest.mark.parametrize("format", OTHERS)
def test_writing_the_stored_half(kind: str, format: str) -> None:
    a = matrix(kind, 5)
    values = {"C": Tensor(f"{kind}(Element(0.0))", 0, 0), "A": tensor(a, format)}
    text = "C .= 0\n" + masked(kind, "C[i, j] = 2 * A[i, j]")
    np.testing.assert_array_equal(result(text, values), 2 * a)
    rows_first = text.replace("j = _, i = _", "i = _, j = _")
    np.testing.assert_array_equal(result(rows_first, values, native=False), 2 * a)
    in_place = masked(kind, "C[i, j] += A[i, j]")
    values = {"C": packed(kind, a), "A": tensor(a, format)}
    np.testing.assert_array_equal(result(in_place, values, native=False), 2 * a)


@KINDS
@pytest.mark.parametrize("condition", ["mask", "both", "value"])
def test_what_is_masked_away_leaves_no_check(kind: str, condition: str) -> None:
    """Where the mask is false nothing is left of the assignment, however the mask is put."""
    mask = MASKS[kind]
    statement = {
        "mask": f"if {mask}\n  C[i, j] = A[i, j]\n end",
        "both": f"if A[i, j] > 2 && {mask}\n  C[i, j] = 1.0\n end",
        "value": f"C[i, j] += ifelse({mask}, 1.0, 0.0) * A[i, j]",
    }[condition]
    text = f"begin\nC .= 0\nfor j = _, i = _\n {statement}\nend\nend"
    formats = {"C": parse_format(f"{kind}(Element(0.0))"), "A": parse_format(OTHERS[0])}
    fails = [
        s.kind
        for s in statements(Kernel(parse_kernel(text), formats).residual.body)
        if isinstance(s, Fail)
    ]
    assert "access order" not in fails


def statements(code: Code) -> Iterator[Stmt]:
    """Every statement of a piece of host code."""
    for statement in code.statements:
        yield statement
        for name in ("then", "otherwise", "test", "body"):
            if hasattr(statement, name):
                yield from statements(getattr(statement, name))


@KINDS
def test_a_write_elsewhere_is_an_error(kind: str) -> None:
    for op in ("=", "+="):
        text = f"C .= 0\nfor j = _, i = _\n C[i, j] {op} A[i, j]\nend"
        values = {
            "C": Tensor(f"{kind}(Element(0.0))", 0, 0),
            "A": tensor(np.ones((3, 3)), OTHERS[1]),
        }
        where = "(1, 2)" if kind == LOWER else "(2, 1)"
        with pytest.raises(FinchError) as error:
            run(text, values)
        assert error.value.kind == "access order"
        assert where in error.value.message and kind in error.value.message
    # nothing is written there: what the data has there decides
    values["A"] = tensor(np.eye(3), OTHERS[1])
    np.testing.assert_array_equal(result(text, values), np.eye(3))


def test_a_copy_of_a_triangle_needs_no_mask() -> None:
    for kind in (UPPER, LOWER):
        a = matrix(kind, 4)
        text = "C .= 0\nfor j = _, i = _\n C[i, j] = A[i, j]\nend"
        values = {"C": Tensor(f"{kind}(Element(0.0))", 0, 0), "A": packed(kind, a)}
        np.testing.assert_array_equal(result(text, values), a)


def test_not_square_when_the_kernel_runs() -> None:
    text = "C .= 0\nfor j = _, i = _\n if i <= j\n  C[i, j] = A[i, j]\n end\nend"
    values = {"C": Tensor(f"{UPPER}(Element(0.0))", 0, 0), "A": tensor(np.ones((2, 3)), OTHERS[0])}
    with pytest.raises(FinchError, match="square, not 2 x 3") as error:
        run(text, values)
    assert error.value.kind == "dimension"


@KINDS
@pytest.mark.parametrize(
    "inner", ["SparseList", "SparseByteMap", "SparseBand", "Dense", "SparsePinpoint"]
)
def test_over_another_level(kind: str, inner: str) -> None:
    array = np.zeros((3, 4, 4))
    array[1] = matrix(kind, 4) + matrix(kind, 4, 2)
    format = f"{kind}({inner}(Element(0.0)))"
    loops, mask = "for j = _, i = _, k = _", MASKS[kind]
    a = tensor(array, format)
    a.checked = False
    a.validate()
    np.testing.assert_array_equal(a.to_numpy(), array)
    total = result(
        f"s .= 0\n{loops}\n s[] += A[k, i, j]\nend", {"s": Scalar(0.0), "A": a}, "s", native=False
    )
    assert total == array.sum()
    source = tensor(array, "Dense(SparseList(SparseList(Element(0.0))))")
    values = {"C": Tensor(format, 0, 0, 0), "A": source}
    written = run(f"C .= 0\n{loops}\n if {mask}\n  C[k, i, j] = A[k, i, j]\n end\nend", values)[0]
    np.testing.assert_array_equal(written["C"].to_numpy(), array)
    if inner != "SparsePinpoint":  # (which would store an entry of fill for each place updated)
        values = {"C": written["C"], "A": source}
        twice = result(
            f"{loops}\n if {mask}\n  C[k, i, j] += A[k, i, j]\n end\nend", values, native=False
        )
        np.testing.assert_array_equal(twice, 2 * array)
    with pytest.raises(FinchError, match="no place to write"):
        text = f"C .= 0\n{loops}\n C[k, i, j] = A[k, i, j]\nend"
        everywhere = np.zeros((3, 4, 4))
        everywhere[1] = 1
        values = {
            "C": values["C"],
            "A": tensor(everywhere, "Dense(SparseList(SparseList(Element(0.0))))"),
        }
        run(text, values, native=False)


@KINDS
@pytest.mark.parametrize("outer", ["SparseList", "SparseByteMap", "Dense", "SparseBlockList"])
def test_under_another_level(kind: str, outer: str) -> None:
    array = np.zeros((3, 3, 4))
    array[:, :, 1], array[:, :, 3] = matrix(kind, 3), matrix(kind, 3, 4)
    format = f"{outer}({kind}(Element(0.0)))"
    source = tensor(array, "SparseList(SparseList(SparseList(Element(0.0))))")
    text = (
        f"C .= 0\nfor k = _, j = _, i = _\n if {MASKS[kind]}\n  C[i, j, k] = A[i, j, k]\n end\nend"
    )
    found, _ = run(text, {"C": Tensor(format, 0, 0, 0), "A": source})
    np.testing.assert_array_equal(found["C"].to_numpy(), array)
    expected = Tensor.from_numpy(array, format)
    np.testing.assert_array_equal(
        found["C"].storage[0].get("idx", 0), expected.storage[0].get("idx", 0)
    )
    total = result(
        "s .= 0\nfor k = _, j = _, i = _\n s[] += A[i, j, k]\nend",
        {"s": Scalar(0.0), "A": expected},
        "s",
        native=False,
    )
    assert total == array.sum()


def test_sequential_children_are_written_column_by_column() -> None:
    format = f"{UPPER}(SparseList(Element(0.0)))"
    text = "C .= 0\nfor i = _, j = _, k = _\n if i <= j\n  C[k, i, j] = A[k, i, j]\n end\nend"
    array = np.arange(18.0).reshape(2, 3, 3)
    tensors = {"A": tensor(array, "Dense(Dense(SparseList(Element(0.0))))")}
    _, found = run_out_of_order(text, tensors | {"C": Tensor(format, 0, 0, 0)})
    upper = np.triu(np.ones((3, 3)))
    np.testing.assert_array_equal(found["C"].to_numpy(), array * upper)


def test_half_the_steps() -> None:
    """A product with a vector visits the stored half of a triangle; a symmetric matrix is visited as
    a dense one, but stores half."""
    text = "s .= 0\nfor j = _, i = _\n s[] += A[i, j] * x[i]\nend"
    counts = {}
    for kind in (UPPER, LOWER, SYMMETRIC):
        values = {
            "s": Scalar(0.0),
            "A": packed(kind, matrix(kind, 20)),
            "x": tensor(np.ones(20), "Dense(Element(0.0))"),
        }
        found, steps = run(text, values, native=False)
        assert found["s"].value == matrix(kind, 20).sum()
        counts[kind] = steps["count"]
    assert counts[UPPER] == counts[LOWER] == 20 + 20 * 21 // 2
    assert counts[SYMMETRIC] == 20 + 20 * 20


@KINDS
def test_equal_neighbours_above_are_merged(kind: str) -> None:
    array = np.stack([matrix(kind, 3)] * 3 + [matrix(kind, 3, 1)], 2)
    text = (
        f"C .= 0\nfor k = _, j = _, i = _\n if {MASKS[kind]}\n  C[i, j, k] = A[i, j, k]\n end\nend"
    )
    values = {"C": Tensor(f"RunList({kind}(Element(0.0)))", 0, 0, 0)}
    values["A"] = tensor(array, "Dense(Dense(Dense(Element(0.0))))")
    found, _ = run(text, values)
    np.testing.assert_array_equal(found["C"].to_numpy(), array)
    assert len(found["C"].storage[2]["val"]) == 2 * 6


def test_the_denotation_knows_of_symmetry() -> None:
    """What is written at (i, j) is there at (j, i) too, in all semantics; below another mode too."""
    for format, loops, place in (
        ("Symmetric(Element(0.0))", "for j = _, i = _", "i, j"),
        ("Symmetric(SparseList(Element(0.0)))", "for j = _, i = _, k = _", "k, i, j"),
    ):
        shape = ", ".join("4" for _ in place.split(","))
        full = (
            "Dense(SparseList(Element(0.0)))"
            if len(place) == 4
            else "Dense(Dense(SparseList(Element(0.0))))"
        )
        text = f"""
        A = Tensor({full}, {shape})
        C = Tensor({format}, {shape})
        @finch {loops} if i + j > 3 A[{place}] = i + 2.0 * j end end
        @finch begin
            C .= 0
            {loops} if i <= j C[{place}] = A[{place}] end end
        end
        @finch {loops} if i <= j C[{place}] += 1.0 end end
        s = Scalar(0.0)
        @finch {loops} if i > j s[] += C[{place}] end end
        """
        found = compare(text)
        assert found.agrees, found.report
        assert not found.errors
        assert found.results["native"]["s"].value > 6
