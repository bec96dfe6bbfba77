"""The contract of sorts: numbers, and words by their bits, sorted on every host as NumPy sorts them stably;
also where an order is bad for a pivot, and where there are very many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hosts import Program, Sample, everywhere, run
from hypothesis import given, settings, strategies as st
from in_child import isolated

from finchlang.syntax.types import TYPES, Int32, Int64, Type

pytestmark = pytest.mark.optimised

INTEGERS = {str(t.dtype): t for t in TYPES.values() if t.is_integer}


def sort(s: Sample, type: Type) -> None:
    s.host.sort(s.buffer("data", type), s.input("low"), s.input("high"))


def sort_bits(s: Sample) -> None:
    words, scratch = s.buffer("words", Int64), s.buffer("scratch", Int64)
    s.host.sort_bits(words, scratch, *(s.input(name) for name in ("start", "stop", "low", "high")))


def sorts(program: Program, arrays: list[np.ndarray], inputs: list[int], key: Any) -> None:
    """The part of the first array is sorted by `key` of it, stably, and the rest stays; large arrays are
    sorted natively alone."""
    start, stop = inputs[:2]
    wanted = arrays[0].copy()
    wanted[start:stop] = wanted[start:stop][np.argsort(key(wanted[start:stop]), kind="stable")]
    if len(wanted) <= 300:
        done = everywhere(program, arrays, *inputs)
        assert done.error is None and done.steps == {
            program.make.__name__: 1 + max(0, stop - start)
        }
        found = done.arrays
    else:
        found = run(program.compiled(), [array.copy() for array in arrays], inputs)[0]
    np.testing.assert_array_equal(found[0], wanted)
    for array, before in zip(found[2:], arrays[2:], strict=True):
        np.testing.assert_array_equal(array, before)


def sorts_bits(words: np.ndarray, start: int, stop: int, low: int, high: int) -> None:
    room, mask = np.zeros(max(stop, 0), np.int64), (1 << (high - low)) - 1
    inputs = [start, stop, low, high]
    sorts(Program(sort_bits), [words, room], inputs, lambda part: part >> low & mask)


@pytest.mark.parametrize("type", INTEGERS.values(), ids=str)
def test_every_type(type: Type) -> None:
    rng = np.random.default_rng(1)
    for n in (0, 1, 2, 16, 25, 500):
        data = rng.integers(type.lowest, type.highest, n + 5, type.dtype, endpoint=True)
        sorts(Program(sort, (type,)), [data], [0, n], lambda part: part)


@settings(max_examples=60)
@given(st.lists(st.integers(-5, 50), max_size=200), st.integers(0, 20))
def test_a_part(values: list[int], low: int) -> None:
    low = min(low, len(values))
    data = np.array(values, np.int32)
    sorts(Program(sort, (Int32,)), [data], [low, len(values)], lambda part: part)


@settings(max_examples=200)
@given(st.data())
def test_parts_by_bits(data: st.DataObject) -> None:
    """Any bits, also none; those above and below are there, too."""
    words = np.array(data.draw(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=100)), np.int64)
    low = data.draw(st.integers(0, 62))
    high = data.draw(st.integers(low, 63))
    start, stop = (data.draw(st.integers(0, len(words))) for _ in range(2))
    sorts_bits(words, start, stop, low, high)


ORDERS: dict[str, Callable[[int], np.ndarray]] = {
    "random": lambda n: np.random.default_rng(n).permutation(n),
    "in order": np.arange,
    "last is first": lambda n: np.roll(np.arange(n), -1),
    "reverse": lambda n: np.arange(n)[::-1],
    "equal": lambda n: np.full(n, n // 2),
    "organ pipe": lambda n: np.minimum(np.arange(n), np.arange(n)[::-1]),
}


def powers_of_two(n: int) -> np.ndarray:
    """Each division in the middle of the values takes off one of them alone."""
    return np.int64(1) << np.random.default_rng(n).integers(0, 62, n)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("n", [3, 30, 1000, 150_000])
def test_orders(n: int, order: str) -> None:
    numbers, rng = np.ascontiguousarray(ORDERS[order](n)).astype(np.int64), np.random.default_rng(n)
    sorts(Program(sort, (Int64,)), [numbers], [0, n], lambda part: part)
    words = rng.integers(0, 2**63, n, np.int64, endpoint=False)[numbers]
    for low, high in ((0, 5), (0, 63), (3, 30), (17, 45), (20, 34), (62, 63)):
        sorts_bits(words, 0, n, low, high)
        sorts_bits(np.sort(words >> 30 << 30), 1, n - 1, low, high)


@pytest.mark.parametrize("order", ["random", "equal", "powers", "organ pipe"])
@isolated
def test_no_order_takes_the_square_of_its_length(order: str) -> None:
    """Which for so many would be hours."""
    n = 3_000_000
    data = {**ORDERS, "powers": powers_of_two}[order](n)
    found = run(Program(sort, (Int64,)).compiled(), [data.copy()], [0, n])[0][0]
    assert np.array_equal(found, np.sort(data))
