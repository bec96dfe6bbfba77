"""Functions of arrays that go by the order of elements or whose size data decide, beside NumPy and the
standard's reference: of few stored elements, of many, and of any fill."""

from __future__ import annotations

from typing import Any

import array_api_strict as strict
import numpy as np
import pytest

import finchlang.array as xp

strict.set_array_api_strict_flags(api_version="2024.12")
RANDOM = np.random.default_rng(1)


def few(shape: tuple[int, ...], fill: float, dtype: str = "float64") -> np.ndarray:
    """Nearly all elements are the fill; of others some are equal, and floats have NaN among them."""
    found = np.full(shape, fill, dtype)
    chosen = RANDOM.random(shape) < 0.2
    found[chosen] = RANDOM.integers(-3, 4, chosen.sum()).astype(dtype)
    if dtype == "float64":
        found[RANDOM.random(shape) < 0.03] = np.nan
    return found


def given(array: np.ndarray, fill: Any) -> list[Any]:
    return [xp.asarray(array), xp.asarray(array, fill_value=fill)]


def check(found: Any, expected: Any) -> None:
    wanted = np.asarray(expected)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_array_equal(xp.todense(found), wanted)


SHAPES = [((40,), 0), ((6, 9), 0), ((3, 4, 5), 2), ((0, 3), 0), ((5, 0), 1), ((20,), np.inf)]


@pytest.mark.parametrize(("shape", "fill"), SHAPES)
@pytest.mark.parametrize("descending", [False, True])
def test_sorting(shape: tuple[int, ...], fill: float, descending: bool) -> None:
    array = few(shape, fill)
    for axis in range(-1, len(shape) - 1):
        for x in given(array, fill):
            expected = np.sort(array, axis=axis)
            check(
                xp.sort(x, axis=axis, descending=descending),
                np.flip(expected, axis) if descending else expected,
            )
            places = xp.todense(xp.argsort(x, axis=axis, descending=descending))
            wanted = strict.argsort(strict.asarray(array), axis=axis, descending=descending)
            np.testing.assert_array_equal(places, np.asarray(wanted))
            taken = xp.take_along_axis(x, xp.asarray(places), axis=axis)
            check(taken, np.take_along_axis(array, places, axis))


def test_sorting_keeps_few_elements_few() -> None:
    array = np.zeros((4, 100_000))
    array[1, [5, 70, 99_000]] = 3, -1, 2
    found = xp.compute(xp.sort(xp.asarray(array, fill_value=0)))
    assert found.countstored() == 3
    np.testing.assert_array_equal(found.to_numpy()[1, [0, -2, -1]], [-1, 2, 3])


@pytest.mark.parametrize(("shape", "fill"), SHAPES)
@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_distinct_elements_and_where_there_are_some(shape: Any, fill: float, dtype: str) -> None:
    if dtype == "int32" and fill == np.inf:
        fill = 7
    array = np.nan_to_num(few(shape, fill, dtype), nan=5)
    reference = strict.asarray(array)
    for x in given(array, fill):
        for found, expected in zip(xp.nonzero(x), np.nonzero(array), strict=True):
            check(found, expected)
        check(xp.unique_values(x), strict.unique_values(reference))
        for name in ("unique_counts", "unique_inverse", "unique_all"):
            found, expected = getattr(xp, name)(x), getattr(strict, name)(reference)
            assert found._fields == expected._fields
            for own, wanted in zip(found, expected, strict=True):
                check(own, wanted)


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint16", "bool"])
def test_cumulative_sums_and_differences(dtype: str) -> None:
    array = few((4, 6), 1, dtype)
    for x in given(array, 1):
        for name in ("cumulative_sum", "cumulative_prod") if dtype != "bool" else ():
            for axis, initial in ((0, False), (1, True), (-1, False)):
                options: dict[str, Any] = {"axis": axis, "include_initial": initial}
                expected = getattr(strict, name)(strict.asarray(array), **options)
                check(getattr(xp, name)(x, **options), expected)
        if dtype != "bool":
            check(np.cumsum(x), np.cumsum(array))
            check(np.cumprod(x, axis=1), np.cumprod(array, axis=1))
        for n, axis in ((0, 0), (1, 0), (2, 1)):
            check(xp.diff(x, n=n, axis=axis), np.diff(array, n=n, axis=axis))
        check(
            xp.diff(x, prepend=array[:, :1], append=x),
            np.diff(np.hstack([array[:, :1], array, array])),
        )


def test_each_nan_is_distinct() -> None:
    array = np.array([0, np.nan, 0, 3, np.nan, 0, 0, 0, 0])
    for x in given(array, 0):
        values, counts = xp.unique_counts(x)
        check(values, np.array([0, 3, np.nan, np.nan]))
        check(counts, np.array([6, 1, 1, 1]))


def test_searches_and_grids() -> None:
    ordered, others = np.array([1.0, 2, 2, 5]), np.array([[0.0, 2], [3, 9]])
    for side in ("left", "right"):
        check(
            xp.searchsorted(ordered, xp.asarray(others), side=side),
            np.searchsorted(ordered, others, side),
        )
    sorter = np.array([3, 0, 1, 2])
    check(
        xp.searchsorted(np.roll(ordered, -1), 2.0, sorter=sorter),
        np.searchsorted(np.roll(ordered, -1), 2.0, sorter=sorter),
    )
    vectors = np.arange(3), np.arange(4.0), np.arange(2)
    for indexing in ("xy", "ij"):
        grids = xp.meshgrid(*map(xp.asarray, vectors), indexing=indexing)
        for found, expected in zip(grids, np.meshgrid(*vectors, indexing=indexing), strict=True):
            check(found, expected)


def test_products_and_decimals_as_in_numpy() -> None:
    a, b = RANDOM.random((3, 4)), RANDOM.random((2, 4, 5))
    for one, other in ((a, b), (a, b[0]), (a[0], b[0]), (a, b[0, :, 0]), (a, 2.0)):
        found = np.dot(xp.asarray(one), other)
        np.testing.assert_allclose(xp.todense(found), np.dot(one, other))
    wide = few((5, 6), 0) * 123.456
    for decimals in (2, 0, -1):
        np.testing.assert_allclose(
            xp.todense(np.round(xp.asarray(wide), decimals)), np.round(wide, decimals)
        )
    whole = np.array([15, 25, -14])
    for decimals in (1, -1):
        check(xp.round(xp.asarray(whole), decimals), np.round(whole, decimals))


def test_other_libraries_take_arrays_and_ours_takes_theirs() -> None:
    array = few((3, 4), 0)
    np.testing.assert_array_equal(np.from_dlpack(xp.asarray(array)), array)
    check(xp.from_dlpack(array), array)


def test_a_mask_of_one_axis() -> None:
    array = few((3, 5), 0)
    rows, columns = np.array([True, False, True]), array[1] == 0
    x = xp.asarray(array)
    check(x[rows], array[rows])
    check(x[1:, xp.asarray(columns)], array[1:, columns])
    with pytest.raises(IndexError, match=r"a mask of shape \(3,\) of axis 1 of size 5"):
        x[:, rows]


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda x: xp.sort(x, axis=2), IndexError, "axis 2"),
        (lambda x: xp.sort(xp.asarray(1)), ValueError, "no axis"),
        (lambda x: xp.cumulative_sum(x), ValueError, "an axis is needed"),
        (lambda x: xp.nonzero(xp.asarray(1)), ValueError, "no coordinates"),
        (lambda x: xp.diff(x, n=-1), ValueError, "not -1"),
        (lambda x: xp.meshgrid(x, indexing="no"), ValueError, "indexing"),
        (lambda x: xp.argsort(_wide()), TypeError, "todense"),
    ],
)
def test_wrong_arguments(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call(xp.asarray(np.eye(3)))


def _wide() -> Any:
    return xp.asarray(np.eye(1, 1_000_000)[0], fill_value=0)
