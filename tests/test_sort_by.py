"""Numbers sorted by their keys, and words by their bits: the evaluator and native code do what a stable
sort of NumPy does."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_samples import Sample, checked
from native_calls import run
from test_native_failures import interrupt_soon

from finchlang.host.execute import ExecutingHost, run_residual
from finchlang.host.fold import const
from finchlang.host.ir import Buffer, Residual
from finchlang.host.print import text
from finchlang.native.jit import compile_residual
from finchlang.native.kernel import NativeKernel
from finchlang.source import Bug
from finchlang.types import TYPES, Int32, Int64, Type

INTEGERS = [type for type in TYPES.values() if type.is_integer]


@cache
def program(type: Type = Int64, key_type: Type = Int64) -> Residual:
    s = Sample("sort_by")
    numbers, scratch = s.buffer("numbers", type), s.buffer("scratch", type)
    keys = s.buffer("keys", key_type)
    start, stop, bound = (s.input(name) for name in ("start", "stop", "bound"))
    s.host.sort_by(numbers, scratch, start, stop, keys, bound)
    return checked(s.residual())


@cache
def compiled(type: Type = Int64, key_type: Type = Int64) -> NativeKernel:
    return compile_residual(program(type, key_type))


def assert_sorts(
    numbers: np.ndarray, keys: np.ndarray, start: int, stop: int, bound: int | None = None
) -> None:
    """Sorted by the evaluator and by native code, what is outside start..stop - 1 stays."""
    type, key_type = TYPES_OF[numbers.dtype.name], TYPES_OF[keys.dtype.name]
    if bound is None:
        bound = int(keys.max(initial=0)) + 1
    want = numbers.copy()
    want[start:stop] = want[start:stop][np.argsort(keys[numbers[start:stop]], kind="stable")]
    room = np.zeros(max(stop, 0), numbers.dtype)
    arrays = [numbers.copy(), room.copy(), keys.copy()]
    host, after, _ = run_residual(program(type, key_type), arrays, [start, stop, bound])
    np.testing.assert_array_equal(after[0], want)
    assert host.steps["sort_by"] == 1 + max(0, stop - start)
    arrays = [numbers.copy(), room.copy(), keys.copy()]
    run(compiled(type, key_type), arrays, [start, stop, bound])
    np.testing.assert_array_equal(arrays[0], want)
    np.testing.assert_array_equal(arrays[2], keys)


TYPES_OF = {str(type.dtype): type for type in INTEGERS}


@pytest.mark.parametrize("type", [Int32, Int64], ids=str)
@pytest.mark.parametrize("key_type", INTEGERS, ids=str)
def test_every_type(type: Type, key_type: Type) -> None:
    rng = np.random.default_rng(1)
    for n in (0, 1, 2, 5, 40, 300, 20_000):
        for bound in (1, 2, 100, 2**64):
            bound = min(bound, key_type.highest, Int64.highest)
            keys = rng.integers(0, bound, n, key_type.dtype)
            numbers = rng.permutation(n).astype(type.dtype)
            assert_sorts(numbers, keys, 0, n, bound)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_as_a_stable_sort(data: st.DataObject) -> None:
    """Parts of arrays, numbers that are there twice, any bound."""
    bound = data.draw(st.sampled_from([1, 2, 3, 256, 257, 70_000, 2**40, 2**62, 2**63 - 1]))
    keys = data.draw(st.lists(st.integers(0, bound - 1), min_size=1, max_size=80))
    numbers = data.draw(st.lists(st.integers(0, len(keys) - 1), max_size=150))
    start = data.draw(st.integers(0, len(numbers)))
    stop = data.draw(st.integers(0, len(numbers)))
    assert_sorts(np.array(numbers, np.int64), np.array(keys, np.int64), start, stop, bound)


@pytest.mark.parametrize("n", [3, 30, 1000, 10_000, 150_000])
@pytest.mark.parametrize("bound", [10, 1000, 100_000, 10**7, 2**50])
@pytest.mark.parametrize(
    "order", ["random", "in order", "last is first", "reverse", "equal", "organ pipe"]
)
def test_orders(n: int, bound: int, order: str) -> None:
    rng, up = np.random.default_rng(n), np.arange(n)
    keys = np.sort(rng.integers(0, bound, n))
    make: dict[str, Callable[[], np.ndarray]] = {
        "random": lambda: rng.permutation(n),
        "in order": lambda: up,
        "last is first": lambda: np.roll(up, -1),
        "reverse": lambda: up[::-1],
        "equal": lambda: up,
        "organ pipe": lambda: np.concatenate([up[::2], up[1::2][::-1]]),
    }
    if order == "equal":
        keys[:] = bound - 1
    assert_sorts(np.ascontiguousarray(make[order]()), keys, 0, n, bound)


@cache
def words_program() -> Residual:
    s = Sample("sort_bits")
    words, scratch = s.buffer("words", Int64), s.buffer("scratch", Int64)
    s.host.sort_bits(words, scratch, *(s.input(name) for name in ("start", "stop", "low", "high")))
    return checked(s.residual())


@cache
def words_compiled() -> NativeKernel:
    return compile_residual(words_program())


def assert_sorts_words(words: np.ndarray, start: int, stop: int, low: int, high: int) -> None:
    want, given = words.copy(), [start, stop, low, high]
    key = (words[start:stop] >> low) & ((1 << (high - low)) - 1)
    want[start:stop] = want[start:stop][np.argsort(key, kind="stable")]
    room = np.zeros(max(stop, 0), np.int64)
    host, after, _ = run_residual(words_program(), [words.copy(), room.copy()], given)
    np.testing.assert_array_equal(after[0], want)
    assert host.steps["sort_bits"] == 1 + max(0, stop - start)
    arrays = [words.copy(), room]
    run(words_compiled(), arrays, given)
    np.testing.assert_array_equal(arrays[0], want)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_words_by_bits(data: st.DataObject) -> None:
    """Any bits, also none; those above and below are there, too."""
    words = np.array(data.draw(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=100)), np.int64)
    low = data.draw(st.integers(0, 62))
    high = data.draw(st.integers(low, 63))
    start = data.draw(st.integers(0, len(words)))
    assert_sorts_words(words, start, data.draw(st.integers(0, len(words))), low, high)


@pytest.mark.parametrize("n", [40, 1000, 20_000, 150_000])
@pytest.mark.parametrize("low, high", [(0, 5), (0, 63), (3, 30), (17, 45), (20, 34), (62, 63)])
def test_many_words(n: int, low: int, high: int) -> None:
    rng = np.random.default_rng(n)
    words = rng.integers(0, 2**63, n, np.int64, endpoint=False)
    assert_sorts_words(words, 0, n, low, high)
    assert_sorts_words(np.sort(words >> 30 << 30), 5, n - 7, low, high)


def test_sorted_twice_is_in_order_of_both() -> None:
    """By the key that counts less first, as sorting by several modes goes."""
    rng, n = np.random.default_rng(3), 50_000
    major, minor = rng.integers(0, 300, n), rng.integers(0, 5000, n)
    numbers, room = np.arange(n), np.empty(n, np.int64)
    run(compiled(), [numbers, room, minor], [0, n, 5000])
    run(compiled(), [numbers, room, major], [0, n, 300])
    np.testing.assert_array_equal(numbers, np.lexsort((minor, major)))


def test_executed_as_evaluated() -> None:
    """The executing host does, in as many steps, what it does for the recorded statement."""
    numbers, keys = np.array([3, 1, 0, 2]), np.array([7, 0, 7, 3])
    buffers = [Buffer(name, Int64) for name in ("numbers", "scratch", "keys")]
    arrays = dict(zip(buffers, (numbers, np.zeros(4, np.int64), keys), strict=True))
    host = ExecutingHost(arrays)
    host.sort_by(buffers[0], buffers[1], const(0), const(4), buffers[2], const(8))
    assert numbers.tolist() == [1, 3, 0, 2]
    assert host.steps == {"sort_by": 5}
    again = np.array([3, 1, 0, 2])
    other, *_ = run_residual(program(), [again, np.zeros(4, np.int64), keys], [0, 4, 8])
    assert again.tolist() == numbers.tolist() and other.steps == host.steps


@pytest.mark.parametrize(
    "numbers, keys, stop, message",
    [
        ([0, 2], [0, 1], 2, "numbers are not all below 2"),
        ([0, 1], [0, 9], 2, "keys in keys are not all in 0..8"),
        ([0, 1], [0, -1], 2, "keys in keys are not all in 0..8"),
        ([0, 1], [0, 1], 3, "numbers[0:2] of 2"),
    ],
)
def test_evaluator_checks(numbers: list[int], keys: list[int], stop: int, message: str) -> None:
    arrays = [np.array(numbers), np.zeros(3, np.int64), np.array(keys)]
    with pytest.raises(Bug) as caught:
        run_residual(program(), arrays, [0, stop, 9])
    assert message in str(caught.value)


def test_interrupted() -> None:
    """A sort of many by long keys comes back soon, and everything is as before."""
    rng, n = np.random.default_rng(5), 4_000_000
    numbers, keys = rng.permutation(n), rng.integers(0, 2**62, n)
    kept = numbers.copy()
    room = np.empty(n, np.int64)
    assert interrupt_soon(compiled(), [numbers, room, keys], [0, n, 2**62]) < 0.5
    np.testing.assert_array_equal(numbers, kept)


def test_listed() -> None:
    assert "    sort_by(numbers, scratch, start, stop, keys, bound)\n" in text(program())
    assert "    sort_bits(words, scratch, start, stop, low, high)\n" in text(words_program())
