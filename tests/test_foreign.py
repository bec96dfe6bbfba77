"""Lists of coordinates that somebody else made are taken if they are in order, and only then."""

from __future__ import annotations

import numpy as np
import pytest

from finchlang.native import foreign
from finchlang.native.foreign import ordered_copies
from finchlang.tensors.listed import validate_sorted


def lists(rng: np.random.Generator, dtype: type) -> tuple[np.ndarray, np.ndarray, int]:
    """Fibers of a dimension, some of them empty, and its size."""
    fibers, size = rng.integers(0, 12), rng.integers(1, 40)
    stored = rng.random((fibers, size)) < rng.choice([0.0, 0.05, 0.4, 1.0])
    ptr = np.concatenate(([0], np.cumsum(stored.sum(axis=1))))
    return ptr.astype(dtype), np.nonzero(stored)[1].astype(dtype), int(size)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_lists_that_may_be_out_of_order(dtype: type, monkeypatch) -> None:
    """NumPy finds the same of lists in which up to two numbers were changed."""
    monkeypatch.setattr(foreign, "SMALL", 0)  # copies lie in memory that may be guarded
    rng, found = np.random.default_rng(7), {True: 0, False: 0}
    least, most = -(2**31), 2**31 - 1
    for _ in range(3000):
        ptr, idx, size = lists(rng, dtype)
        fibers, spare = len(ptr) - 1, rng.integers(0, 3)
        room = len(idx) + spare
        idx = np.concatenate((idx, rng.integers(-5, 50, spare).astype(dtype)))
        for _ in range(rng.integers(0, 3)):
            part = ptr if rng.random() < 0.4 or not room else idx
            near = int(rng.choice(part)) + int(rng.integers(-3, 4))
            changed = rng.choice([near, least, most], p=[0.9, 0.05, 0.05])
            part[rng.integers(0, len(part))] = min(max(changed, least), most)
        given = ptr.copy(), idx.copy()
        good = validate_sorted({"ptr": ptr, "idx": idx}, fibers, size) is None
        copies = ordered_copies(ptr, idx, fibers, size, room)
        assert (copies is not None) == good, (ptr, idx, size)
        if copies is not None:
            assert all(map(np.array_equal, copies, given))
        found[good] += 1
    assert min(found.values()) > 500, found
