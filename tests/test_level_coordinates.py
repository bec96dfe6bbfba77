"""SparseHash and SparseCOO, of one and of two modes: what both do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from level_kernels import result, run, tensor

from finchlang.source import FinchError
from finchlang.tensors.formats import parse_format
from finchlang.tensors.tensor import Scalar, Tensor

pytestmark = pytest.mark.checked

LIST, BYTES, DENSE = (f"{n}(Element(0.0))" for n in ("SparseList", "SparseByteMap", "Dense"))
ONE = ["SparseHash", "SparseCOO{1}"]
TWO = ["SparseHash{2}", "SparseCOO{2}"]
MATRICES = [f"{name}(Element(0.0))" for name in TWO]
PROTOCOLS = ["walk", "gallop", "follow"]
VECTORS = [
    np.zeros(0),
    np.zeros(5),
    np.array([7.0]),
    np.arange(1.0, 7.0),
    np.array([0, 2, 0, 0, 3, 4, 0, 0, 1.0]),
]
SHAPES = [(0, 0), (0, 3), (3, 0), (1, 1), (4, 3), (3, 5)]


def matrix(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(1, 5, shape) * (rng.random(shape) < 0.5).astype(float)


def test_formats_are_read_as_they_are_written() -> None:
    texts = [*ONE, *TWO, "SparseHash{Int32}", "SparseHash{3, Int8}", "SparseCOO{3, UInt16}"]
    for text in texts:
        assert str(parse_format(f"{text}(Element(0))")) == f"{text}(Element(0))"
    for alias in ("SparseDict", "Sparse"):
        assert parse_format(f"{alias}{{2}}(Pattern())") == parse_format("SparseHash{2}(Pattern())")
    assert parse_format("SparseHash{1}(Pattern())") == parse_format("SparseHash(Pattern())")
    assert parse_format("Dense(SparseCOO{2}(SparseHash(Pattern())))").order == 4


@pytest.mark.parametrize(
    "text", ["SparseCOO", "SparseCOO{0}", "SparseHash{-1}", "SparseHash{2, 2}"]
)
def test_a_wrong_number_of_modes(text: str) -> None:
    with pytest.raises(FinchError) as error:
        parse_format(f"{text}(Element(0.0))")
    assert error.value.kind == "type"


@pytest.mark.parametrize(
    "leaf", ["Element(0.0)", "Element(Int32(-1))", "Element(Inf)", "Pattern()"]
)
@pytest.mark.parametrize("name", ONE + TWO)
def test_round_trips(name: str, leaf: str) -> None:
    format = parse_format(f"{name}({leaf})")
    shapes: list[Any] = SHAPES if name in TWO else [(0,), (1,), (6,)]
    for level, extra in ((format, ()), (parse_format(f"Dense({format})"), (3,))):
        for shape in shapes:
            empty = np.full((*shape, *extra), level.fill.value, level.element_type.dtype)
            full = np.full_like(empty, 1)
            some = np.where(matrix(empty.shape) != 0, full, empty)
            for array in (empty, full, some):
                found = Tensor.from_numpy(array, level)
                found.checked = False
                found.validate()
                np.testing.assert_array_equal(found.to_numpy(), array)
                assert found.countstored() == (array != level.fill.value).sum()


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", ONE)
def test_reading_vectors(name: str, protocol: str) -> None:
    format, read = f"{name}(Element(0.0))", f"A[{protocol}(i)]"
    cases = {"+": np.add, "*": np.multiply, "min": np.minimum}
    for array in VECTORS:
        values = {"s": Scalar(0.0), "A": tensor(array, format)}
        assert result(f"s .= 0\nfor i = _\n s[] += {read}\nend", values, "s") == array.sum()
        for k, other_format in enumerate((LIST, BYTES, DENSE, format)):
            other = matrix((len(array),), k)
            for operator, meaning in cases.items():
                if operator == "min" and other_format != LIST:
                    continue  # as a sum
                value = f"min({read}, B[i])" if operator == "min" else f"{read} {operator} B[i]"
                found = result(
                    f"C .= 0\nfor i = _\n C[i] = {value}\nend",
                    {
                        "C": Tensor(LIST, 0),
                        "A": tensor(array, format),
                        "B": tensor(other, other_format),
                    },
                    native=other_format == LIST and operator == "*" and len(array) > 6,
                )
                np.testing.assert_array_equal(found, meaning(array, other))


@pytest.mark.parametrize("name", ONE + TWO)
def test_reading_booleans_and_choosing(name: str) -> None:
    shape, index = ((4, 5), "i, j") if name in TWO else ((7,), "i")
    loops = "j = _, i = _" if name in TWO else "i = _"
    a, b = matrix(shape) != 0, matrix(shape, 1) != 0
    output = f"{name}(Pattern())"
    for op, meaning in (("|", np.logical_or), ("&", np.logical_and)):
        values = {"C": Tensor(output, *shape), "A": tensor(a, output), "B": tensor(b, output)}
        text = f"C .= false\nfor {loops}\n C[{index}] = A[{index}] {op} B[{index}]\nend"
        np.testing.assert_array_equal(result(text, values), meaning(a, b))
    one = np.where(np.arange(a.size).reshape(shape) == 3, 4, 0)
    text = f"s .= 0\nfor {loops}\n s[] <<choose(0)>>= A[{index}]\nend"
    assert result(text, {"s": Scalar(0), "A": tensor(one, f"{name}(Element(0))")}, "s") == 4


@pytest.mark.parametrize("outer", PROTOCOLS)
@pytest.mark.parametrize("inner", PROTOCOLS)
@pytest.mark.parametrize("format", MATRICES)
def test_reading_matrices(format: str, inner: str, outer: str) -> None:
    read = f"A[{inner}(i), {outer}(j)]"
    for shape in SHAPES:
        array = matrix(shape)
        found = result(
            f"y .= 0\nfor j = _, i = _\n y[i] += {read} * x[j]\nend",
            {
                "y": Tensor(DENSE, 0),
                "A": tensor(array, format),
                "x": tensor(np.arange(shape[1]), DENSE),
            },
            "y",
            native=shape == (4, 3),
        )
        np.testing.assert_array_equal(found, array @ np.arange(shape[1]))


@pytest.mark.parametrize("outer", PROTOCOLS)
@pytest.mark.parametrize("format", MATRICES)
def test_two_matrices_of_different_formats(format: str, outer: str) -> None:
    a, b = matrix((5, 6)), matrix((5, 6), 1)
    others = [
        *MATRICES,
        f"Dense({LIST})",
        f"SparseList({BYTES})",
        "Dense(SparseHash(Element(0.0)))",
    ]
    for other in others:
        # products may gallop or follow, sums have to walk
        for op, expected in (("+", a + b),) if outer == "walk" else (("*", a * b),):
            values = {"C": Tensor(format, 0, 0), "A": tensor(a, format), "B": tensor(b, other)}
            text = f"C .= 0\nfor j = _, i = _\n C[i, j] = A[i, {outer}(j)] {op} B[i, j]\nend"
            native = other == format and outer == "gallop"
            np.testing.assert_array_equal(result(text, values, native=native), expected)


@pytest.mark.parametrize("format", MATRICES)
def test_masks_offsets_permissions_and_swizzles(format: str) -> None:
    a = matrix((5, 5))
    values = {"C": Tensor(f"Dense({DENSE})", 0, 0), "A": tensor(a, format)}
    text = "C .= 0\nfor j = _, i = _\n if i <= j\n C[i, j] = A[i, j]\n end\nend"
    np.testing.assert_array_equal(result(text, values), np.triu(a))
    text = "C .= 0\nfor j = 1:6, i = 1:5\n C[i, j] = coalesce(A[i, ~(j - 1)], 9)\nend"
    expected = np.hstack((np.full((5, 1), 9), a))
    np.testing.assert_array_equal(result(text, values), expected)
    text = "C .= 0\nfor j = 1:4, i = 1:4\n C[i, j] = coalesce(A[~(i + 1), ~(j + 1)], 0)\nend"
    np.testing.assert_array_equal(result(text, values), a[1:, 1:])
    text = "C .= 0\nfor i = _, j = _\n C[j, i] = swizzle(A, 2, 1)[j, i]\nend"
    np.testing.assert_array_equal(result(text, values), a.T)


LEVELS = [
    "Dense",
    "SparseList",
    "SparseByteMap",
    "SparseHash",
    "SparseCOO{1}",
    "RunList",
    "SparseRunList",
]
PAIRS = [(a, b) for a in LEVELS for b in LEVELS if "Hash" in a + b or "COO" in a + b]


@pytest.mark.parametrize(("above", "below"), PAIRS)
def test_over_and_under_other_levels(above: str, below: str) -> None:
    format = f"{above}({below}(Element(0.0)))"
    for shape in ((4, 5), (0, 3), (3, 0)):
        array = matrix(shape)
        array[:, 2:4] = array[:, 1:2]  # equal neighbours
        source = tensor(array, f"SparseList({LIST})")
        values = {"C": Tensor(format, 0, 0), "A": source}
        text = "C .= 0\nfor j = _, i = _\n C[i, j] = 2 * A[i, j]\nend"
        written, _ = run(text, values, native=shape == (4, 5))
        np.testing.assert_array_equal(written["C"].to_numpy(), 2 * array)
        assert written["C"].countstored() == tensor(2 * array, format).countstored()
        text = "s .= 0\nfor j = _, i = _\n s[] += A[i, j]\nend"
        for stored in (tensor(2 * array, format), written["C"]):
            values = {"s": Scalar(0.0), "A": stored}
            assert result(text, values, "s", native=False) == 2 * array.sum()
    array = matrix((4, 5))
    values = {"C": tensor(array, format), "A": source}
    values["A"] = tensor(matrix((4, 5), 1), f"Dense({LIST})")
    found = result("for j = _, i = _\n C[i, j] += A[i, j]\nend", values)
    np.testing.assert_array_equal(found, array + matrix((4, 5), 1))


@pytest.mark.parametrize("name", TWO)
@pytest.mark.parametrize("other", ["Dense", "SparseList", "SparseByteMap", "SparseHash"])
def test_two_modes_over_and_under_another_level(name: str, other: str) -> None:
    array = matrix((3, 4, 2))
    for format in (f"{name}({other}(Element(0.0)))", f"{other}({name}(Element(0.0)))"):
        values = {"C": Tensor(format, 0, 0, 0), "A": tensor(array, f"Dense(Dense({LIST}))")}
        text = "C .= 0\nfor k = _, j = _, i = _\n C[i, j, k] = A[i, j, k]\nend"
        written, _ = run(text, values)
        np.testing.assert_array_equal(written["C"].to_numpy(), array)
        values = {"C": written["C"], "A": values["A"]}
        text = "for k = _, j = _, i = _\n C[i, j, k] += A[i, j, k]\nend"
        np.testing.assert_array_equal(result(text, values, native=False), 2 * array)
        values = {"s": Scalar(0.0), "A": written["C"]}
        text = "s .= 0\nfor k = _, j = _, i = _\n s[] += A[i, j, k] * k\nend"
        assert result(text, values, "s") == (array * [1, 2]).sum()


@pytest.mark.parametrize("name", ONE + TWO)
def test_conditions_store_only_what_is_written(name: str) -> None:
    modes = 2 if name in TWO else 1
    index, loops = ("i, j", "j = _, i = _") if modes == 2 else ("i", "i = _")
    array = matrix((6, 5)[:modes])
    values = {
        "C": Tensor(f"{name}(Element(0.0))", *[0] * modes),
        "A": tensor(array, modes * "Dense(" + "Element(0.0)" + ")" * modes),
    }
    text = f"C .= 0\nfor {loops}\n if A[{index}] > 2\n C[{index}] = A[{index}]\n end\nend"
    found, _ = run(text, values)
    np.testing.assert_array_equal(found["C"].to_numpy(), np.where(array > 2, array, 0))
    assert found["C"].countstored() == (array > 2).sum()


@pytest.mark.parametrize("name", ONE + TWO)
def test_narrow_indices(name: str) -> None:
    stem, modes = name.split("{")[0], 2 if name in TWO else 1
    format = f"{stem}{{{modes}, Int8}}(Element(0.0))"
    array = np.zeros((127, 2)[:modes])
    array[[0, 126]] = 3
    values: dict[str, Any] = {"s": Scalar(0.0), "A": tensor(array, format)}
    assert values["A"].storage[0]["idx" if modes == 1 else "idx1"].dtype == np.int8
    index, loops = ("i, j", "j = _, i = _") if modes == 2 else ("i", "i = _")
    for protocol in PROTOCOLS:
        read = index.replace("i", f"{protocol}(i)")
        text = f"s .= 0\nfor {loops}\n s[] += A[{read}]\nend"
        assert result(text, values, "s") == array.sum()
    with pytest.raises(FinchError, match="Int8 has no room") as error:
        Tensor(format, *(128, 2)[:modes])
    assert error.value.kind == "dimension"
    wide = Tensor(modes * "Dense(" + "Element(0.0)" + modes * ")", *(128, 2)[:modes])
    text = f"C .= 0\nfor {loops}\n C[{index}] = A[{index}]\nend"
    with pytest.raises(FinchError, match="Int8 has no room") as error:
        run(text, {"C": Tensor(format, *[0] * modes), "A": wide})
    assert error.value.kind == "dimension"


@pytest.mark.parametrize("name", TWO)
def test_only_stored_columns_are_visited(name: str) -> None:
    """Ten entries in a matrix of any size: columns that have none are not looked at."""
    steps = []
    for n in (100, 10_000):
        places = np.arange(10) * (n // 10)
        a = Tensor.from_coo(f"{name}(Element(0.0))", (3, n), [places % 3, places], np.ones(10))
        found, taken = run(
            "s .= 0\nfor j = _, i = _\n s[] += A[i, j]\nend", {"s": Scalar(0.0), "A": a}
        )
        assert found["s"].value == 10
        steps.append(taken.total())
    assert steps[0] == steps[1] < 600


@pytest.mark.parametrize("name", TWO)
def test_gallop_passes_over_columns(name: str) -> None:
    """Two columns of few entries against one of many columns: the many are leapt over."""
    steps = []
    text = "s .= 0\nfor j = _, i = _\n s[] += A[i, gallop(j)] * B[i, gallop(j)]\nend"
    for n in (200, 2_000):
        every = np.arange(n)
        a = Tensor.from_coo(f"{name}(Element(0.0))", (3, n), [[0, 0], [n // 2, n - 1]], np.ones(2))
        rows = np.repeat([0, 1, 2], n)
        b = Tensor.from_coo(
            f"{name}(Element(0.0))", (3, n), [rows, np.tile(every, 3)], np.ones(3 * n)
        )
        found, taken = run(text, {"s": Scalar(0.0), "A": a, "B": b})
        assert found["s"].value == 2
        steps.append(taken.total())
    assert steps[1] - steps[0] < 60 and steps[1] < 600
