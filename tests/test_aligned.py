"""Memory that we own begins at a multiple of 64 bytes: arrays of tensors made in Python, and what
kernels allocate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from every_format import fits, nests
from hypothesis import given
from hypothesis import strategies as st

from finchlang import Session, Tensor
from finchlang.tensors.aligned import ALIGNMENT, empty_aligned, full_aligned


def unaligned(value: Any) -> Iterator[str]:
    """The arrays of a tensor, or an array itself, that are not aligned."""
    parts = [{"array": value}] if isinstance(value, np.ndarray) else value.storage
    for part in parts:
        for name, array in part.items():
            if isinstance(array, np.ndarray) and array.size and array.ctypes.data % ALIGNMENT:
                yield f"{name} at {array.ctypes.data % ALIGNMENT}"


@given(
    st.lists(st.integers(0, 5), max_size=3).map(tuple),
    st.sampled_from([np.bool_, np.int8, np.float32, np.int64]),
)
def test_an_aligned_array_is_like_any_other(shape: tuple[int, ...], dtype: type) -> None:
    array = full_aligned(shape, 1, dtype)
    assert array.dtype == dtype and array.flags.f_contiguous and array.flags.writeable
    np.testing.assert_array_equal(array, np.ones(shape, dtype))
    assert not list(unaligned(array))
    assert empty_aligned(7, dtype).shape == (7,)


@pytest.mark.parametrize("format", nests("Element(0.0)", 2))
def test_tensors_of_every_format_are_aligned(format: str) -> None:
    for array in (np.eye(5), np.triu(np.ones((30, 30))), np.zeros((4, 4))):
        tensor = fits(format, array)
        assert tensor is None or not list(unaligned(tensor))


def test_what_kernels_allocate_is_aligned() -> None:
    """Also memory that grows again and again, which keeps what is in it."""
    for count in (1, 15, 17, 1000, 100_000):
        session = Session()
        session["s"] = Tensor.from_coo(
            "SparseList(Element(0.0))", (count,), [np.arange(count)], np.arange(count) * 1.0
        )
        for format in (
            "SparseList(Element(0.0))",
            "SparseByteMap(Element(0.0))",
            "Dense(Element(0.0))",
        ):
            session["t"] = Tensor(format, 1)
            for _ in range(3):
                session.run("@finch begin\n t .= 0\n for i = _\n t[i] = 2 * s[i]\n end\n end")
                assert not list(unaligned(session["t"]))
                np.testing.assert_array_equal(session["t"].to_numpy(), 2.0 * np.arange(count))


def test_arrays_of_scripts_and_files_are_aligned(tmp_path: Path) -> None:
    session = Session()
    session.run("x = zeros(1001); y = ones(Float32, 3, 7); z = fill(2, 5)")
    session.run("A = fsprand(40, 50, 0.3); B = copy(A)")
    for suffix in ("mtx", "ttx"):
        file = str(tmp_path / f"A.{suffix}")
        session.run(f'fwrite("{file}", A); C = fread("{file}")')
        assert not list(unaligned(session["C"]))
    for name in "xyzAB":
        assert not list(unaligned(session[name])), name
