"""Data that goes into a format comes out of it: every level over every level, every element type,
odd shapes; between any two formats; NumPy, SciPy and back."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.sparse
from every_format import LEAVES, TEXTS, fits, nests

from finchlang.script.tensors import convert, copy_of
from finchlang.source import FinchError
from finchlang.tensors.adopted import as_tensor
from finchlang.tensors.formats import parse_format
from finchlang.tensors.level import Level
from finchlang.tensors.measure import measure
from finchlang.tensors.tensor import SwizzledTensor, Tensor

pytestmark = pytest.mark.checked

#: levels that do not hold everything
CHOOSY = ("SparsePinpoint", "SparseInterval", "LowerTriangular", "UpperTriangular", "Symmetric")


def arrays(order: int, dtype, fill, value) -> dict[str, np.ndarray]:
    """Arrays of odd shapes and contents, and some that choosy levels can hold."""
    shape = (3, 4, 2)[:order]
    some = np.full(shape, fill, dtype)
    some[(np.indices(shape).sum(axis=0) % 3) == 1] = value
    one = np.full((3,) * order, fill, dtype)
    one[(1,) * order] = value
    found = {
        "some": some,
        "all fill": np.full(shape, fill, dtype),
        "no fill": np.full(shape, value, dtype),
        "one entry": one,
        "a single place": np.full((1,) * order, value, dtype),
        "no places": np.full((0,) * order, fill, dtype),
        "no rows": np.full((0, *shape[1:]), fill, dtype),
        "no columns": np.full((*shape[:-1], 0), fill, dtype),
    }
    if order == 2:
        square = np.full((4, 4), value, dtype)
        found["lower"] = np.where(np.tri(4, dtype=bool), square, fill).astype(dtype)
        found["upper"] = found["lower"].T
        found["diagonal"] = np.where(np.eye(4, dtype=bool), square, fill).astype(dtype)
    return found


def check_round_trip(format: str, name: str, array: np.ndarray) -> bool:
    """Whether the format holds the array; if it does, that it gives it back, soundly stored."""
    tensor = fits(format, array)
    if tensor is None:
        assert any(choosy in format for choosy in CHOOSY), f"{format} cannot hold {name}"
        return False
    back = tensor.to_numpy()
    assert back.dtype == array.dtype and back.shape == array.shape
    np.testing.assert_array_equal(back, array, f"{name} in {format}")
    tensor.checked = False
    tensor.validate()
    for use, storage in zip(measure(tensor), tensor.storage, strict=True):
        assert {n for n, a in storage.items() if isinstance(a, np.ndarray)} == use.arrays.keys()
        for array_name, used in use.arrays.items():
            assert len(used) <= len(storage[array_name])
    assert len(tensor.entries()[1]) >= np.count_nonzero(array != tensor.fill)
    return True


@pytest.mark.parametrize("leaf", ["Element(0.0)", "Pattern()"])
@pytest.mark.parametrize("order", [1, 2])
def test_every_level_over_every_level(order: int, leaf: str) -> None:
    dtype, fill, value = LEAVES[leaf]
    for format in nests(leaf, order):
        held = [
            check_round_trip(format, *case) for case in arrays(order, dtype, fill, value).items()
        ]
        assert any(held), format


def test_three_levels() -> None:
    dtype, fill, value = LEAVES["Element(0.0)"]
    cases = arrays(3, dtype, fill, value)
    for format in nests("Element(0.0)", 3)[::17]:  # a sample: there are thousands
        for name in ("some", "one entry", "no rows"):
            check_round_trip(format, name, cases[name])


@pytest.mark.parametrize("leaf", LEAVES)
def test_every_element_type(leaf: str) -> None:
    for format in nests(leaf, 1):
        for name, array in arrays(1, *LEAVES[leaf]).items():
            check_round_trip(format, name, array)
    for text in TEXTS:
        if parse_format(text.format("Element(0.0)")).modes == 2 and (
            "Pattern" not in leaf or text.startswith(("SparseCOO", "SparseHash"))
        ):
            for name, array in arrays(2, *LEAVES[leaf]).items():
                check_round_trip(text.format(leaf), name, array)


def test_not_a_number_is_kept_and_may_be_the_fill() -> None:
    array = np.array([[np.nan, 1.0], [np.inf, -0.0]])
    for format in nests("Element(0.0)", 2):
        tensor = fits(format, array)
        if tensor is not None:
            np.testing.assert_array_equal(tensor.to_numpy(), array, format)
    for format in nests("Element(NaN)", 1):
        tensor = fits(format, array[0])
        assert tensor is not None
        np.testing.assert_array_equal(tensor.to_numpy(), array[0])
    assert Tensor.from_numpy(array[0], "SparseList(Element(NaN))").countstored() == 1


# --------------------------------------------------------------------- between formats


def two_levels(leaf: str) -> list[str]:
    """Each level once as the inner of two (or as both)."""
    found = []
    for text in TEXTS:
        modes = parse_format(text.format("Element(0.0)")).modes
        is_below = modes == 1 and not text.startswith("Workspace")  # which stands below none
        if modes == 2 or is_below:
            found.append(text.format(leaf) if modes == 2 else f"Dense({text.format(leaf)})")
    return found


@pytest.mark.parametrize("source", two_levels("Element(0.0)"))
def test_between_any_two_formats(source: str) -> None:
    cases = arrays(2, np.float64, 0.0, 2.5)
    for name in ("one entry", "lower", "upper", "some", "no rows", "diagonal"):
        tensor = fits(source, cases[name])
        if tensor is None:
            continue
        for target in two_levels("Element(0.0)") + two_levels("Element(1.0)"):
            level = parse_format(target)
            if fits(level, cases[name]) is None:
                with pytest.raises(FinchError):
                    convert(level, tensor)
                continue
            moved = convert(level, tensor)
            np.testing.assert_array_equal(moved.to_numpy(), cases[name], f"{source} to {target}")
            assert moved.format == level


def test_a_pattern_and_numbers() -> None:
    """true is stored as 1 where numbers are asked for; a number goes into no Pattern unnoticed."""
    array = np.eye(3, dtype=bool)
    pattern = Tensor.from_numpy(array, "Dense(SparseList(Pattern()))")
    numbers = convert(parse_format("SparseCOO{2}(Element(0.0))"), pattern)
    np.testing.assert_array_equal(numbers.to_numpy(), array.astype(float))
    back = convert(parse_format("SparseList(SparseList(Pattern()))"), numbers)
    np.testing.assert_array_equal(back.to_numpy(), array)


@pytest.mark.parametrize(
    ("format", "words"),
    [
        ("Dense(SparsePinpoint(Element(0.0)))", "one coordinate in each fiber"),
        ("Dense(SparseInterval(Element(0.0)))", "second run"),
        ("LowerTriangular(Element(0.0))", "no place for an entry at (1, 2)"),
        ("Symmetric(Element(0.0))", "not symmetric"),
        ("SparseList(Element(0.0))", "1 dimensions"),
        ("Dense(SparseList(Element(0)))", "cannot store Float64"),
        ("Dense(SparseList(Element(false)))", "cannot store Float64"),
    ],
)
def test_what_a_format_cannot_hold_is_said(format: str, words: str) -> None:
    array = np.triu(np.arange(16.0).reshape(4, 4))
    tensor = Tensor.from_numpy(array, "SparseCOO{2}(Element(0.0))")
    with pytest.raises(FinchError) as caught:
        convert(parse_format(format), tensor)
    assert words in caught.value.message


def test_stored_fills_are_dropped_by_conversion_only() -> None:
    level = parse_format("Dense(SparseList(Element(0.0)))")
    places = [np.array([0, 1]), np.array([0, 1])]
    tensor = Tensor.from_coo(level, (2, 2), places, np.array([0.0, 1.0]))
    assert tensor.countstored() == 2 and copy_of(tensor).countstored() == 2
    assert convert(level, tensor).countstored() == 1


def test_swizzled_tensors_are_moved_by_their_names() -> None:
    array = np.arange(24.0).reshape(2, 3, 4)
    for modes in ((1, 2, 3), (2, 3, 1), (3, 1, 2), (3, 2, 1)):
        body = Tensor.from_numpy(array, "SparseList(Dense(SparseList(Element(0.0))))")
        swizzled = SwizzledTensor(body, modes)
        moved = convert(parse_format("SparseCOO{3}(Element(0.0))"), swizzled)
        np.testing.assert_array_equal(moved.to_numpy(), swizzled.to_numpy())
        np.testing.assert_array_equal(swizzled.to_scipy().toarray(), swizzled.to_numpy())


# ------------------------------------------------------------------------------ SciPy

SPARSE = ("coo", "csr", "csc", "bsr", "dia", "lil", "dok")


@pytest.mark.parametrize(("kind", "flavour"), [*product(SPARSE, ("array", "matrix"))])
@pytest.mark.parametrize("dtype", [np.float64, np.bool_, np.int8, np.uint16, np.float32])
def test_from_scipy_and_back(kind: str, flavour: str, dtype) -> None:
    for name, array in arrays(2, dtype, dtype(0), dtype(1)).items():
        if kind == "bsr" and 0 in array.shape:  # SciPy divides by the size of a block
            continue
        matrix = getattr(scipy.sparse, f"{kind}_{flavour}")(array)
        tensor = as_tensor(matrix)
        assert isinstance(tensor, (Tensor, SwizzledTensor))
        np.testing.assert_array_equal(tensor.to_numpy(), array, name)
        stored = tensor.countstored()  # a block of BSR may have zeros in it
        assert stored >= matrix.nnz if kind == "bsr" else stored == np.count_nonzero(array)
        back = tensor.to_scipy()
        assert back.dtype == dtype and back.format == ("csr" if kind == "csr" else "csc")
        np.testing.assert_array_equal(back.toarray(), array, name)


def test_scipy_arrays_of_other_orders() -> None:
    vector = np.array([0.0, 1, 0, 2])
    for kind in ("coo", "csr", "dok"):
        tensor = as_tensor(getattr(scipy.sparse, f"{kind}_array")(vector))
        np.testing.assert_array_equal(tensor.to_numpy(), vector)
    cube = np.zeros((2, 3, 4))
    cube[1, 2, 3], cube[0, 1, 2] = 5, 3
    tensor = as_tensor(scipy.sparse.coo_array(cube))
    assert str(tensor.format) == "SparseCOO{3}(Element(0.0))"
    np.testing.assert_array_equal(tensor.to_scipy().toarray(), cube)


def test_repeated_coordinates_of_scipy_are_summed() -> None:
    repeated = scipy.sparse.coo_array((np.array([1.0, 2, 4]), ([0, 0, 1], [1, 1, 0])), (2, 2))
    np.testing.assert_array_equal(as_tensor(repeated).to_numpy(), [[0, 3], [4, 0]])


def test_explicit_zeros_of_scipy_stay_stored() -> None:
    matrix = scipy.sparse.coo_array((np.array([0.0, 2]), ([0, 1], [1, 0])), (2, 2))
    assert as_tensor(matrix).countstored() == 2 and as_tensor(matrix).to_scipy().nnz == 2


@pytest.mark.parametrize("format", nests("Element(0.0)", 2))
def test_to_scipy_from_every_format(format: str) -> None:
    for array in arrays(2, np.float64, 0.0, 2.5).values():
        tensor = fits(format, array)
        if tensor is not None:
            np.testing.assert_array_equal(tensor.to_scipy().toarray(), array)


def test_what_scipy_cannot_hold() -> None:
    level: Level = parse_format("Dense(SparseList(Element(1.0)))")
    with pytest.raises(FinchError) as caught:
        Tensor.from_numpy(np.eye(2), level).to_scipy()
    assert caught.value.kind == "type"
    for dtype in (np.complex128, np.longdouble):
        with pytest.raises(FinchError) as caught:
            as_tensor(scipy.sparse.csr_array(np.eye(2, dtype=dtype)))
        assert caught.value.kind == "type"


def test_a_single_pattern() -> None:
    assert Tensor.from_numpy(np.array(True), "Pattern()").to_numpy() == True  # noqa: E712
    with pytest.raises(FinchError, match="true wherever it is stored"):
        Tensor.from_numpy(np.array(False), "Pattern()")
