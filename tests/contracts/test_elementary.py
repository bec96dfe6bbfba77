"""Elementary functions in native code: how far they are from the exact values, what they give of NaN and
infinities, and that a value does not depend on its place in an array."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from finchlang import Session
from finchlang.native.elementary import SEQUENCES

pytestmark = pytest.mark.optimised

#: how the language and NumPy name what has another name than its row
WRITTEN, NUMPY = {"fpow": "x[i] ^ y[i]"}, {"fpow": "power"}
TYPES = {"Float64": np.float64, "Float32": np.float32}
COUNT = 20_000
_kernels: dict[tuple[str, str], Callable[..., np.ndarray]] = {}


def native(name: str, type: str) -> Callable[..., np.ndarray]:
    """The function as a kernel over dense vectors."""
    if (name, type) not in _kernels:
        session, value = Session(), WRITTEN.get(name, f"{name}(x[i])")
        for letter in "xyz":
            session[letter] = np.zeros(1, TYPES[type])
        kernel = f"@finch begin z .= 0; for i = _; z[i] = {value} end end"

        def run(x: np.ndarray, y: np.ndarray | None = None) -> np.ndarray:
            session["x"], session["y"] = x, x if y is None else y
            session["z"] = np.empty_like(x)
            session.run(kernel)
            return np.asarray(session["z"])

        _kernels[name, type] = run
    return _kernels[name, type]


def special(dtype: Any) -> np.ndarray:
    """Where functions have limits, and where they leave what the type holds."""
    info = np.finfo(dtype)
    found = [
        *(0, 1, 0.5, 2, 3, np.pi, 1e10, 2.0**53, 2.0**53 - 1),
        *(88.72, 103.9, 708.4, 709.78, 710, 745.2),
    ]
    found += [info.max, info.tiny, info.smallest_subnormal, info.eps, 1 + info.eps, np.inf]
    return np.array([*found, *(-x for x in found), np.nan], dtype)


def samples(dtype: Any, seed: int) -> np.ndarray:
    """Special values, any bits, all sizes near 1, and what fits into the ends of `exp`."""
    rng = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        return np.concatenate([
            special(dtype),
            np.frombuffer(rng.bytes(COUNT * np.dtype(dtype).itemsize), dtype),
            (rng.choice([-1, 1], COUNT) * np.exp(rng.uniform(-40, 14, COUNT))).astype(dtype),
            rng.uniform(-760, 760, COUNT).astype(dtype),
            (1 + rng.normal(size=COUNT) / 100).astype(dtype),
        ])  # fmt: skip


def arguments(name: str, dtype: Any) -> Iterator[np.ndarray]:
    """Values for each argument; of two also all pairs of special ones, and powers that are not 0 or Inf."""
    x = samples(dtype, 1)
    if SEQUENCES[name].arity == 1:
        yield x
        return
    pairs = np.meshgrid(special(dtype), special(dtype))
    rng = np.random.default_rng(3)
    base = np.exp(rng.normal(size=COUNT) * 3)
    exponent = rng.uniform(-745, 709, COUNT) / np.log(base)
    yield np.concatenate([pairs[0].ravel(), x, base.astype(dtype)])
    yield np.concatenate([pairs[1].ravel(), samples(dtype, 2), exponent.astype(dtype)])


def ulps(found: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """How far results are from exact values, in the distance of the floats around these."""
    info = np.finfo(found.dtype)
    near = exact.astype(found.dtype)
    unit = np.maximum(np.abs(np.spacing(near)), info.smallest_subnormal).astype(exact.dtype)
    off = np.abs(found.astype(exact.dtype) - exact) / unit
    off = np.where(np.isinf(near), np.where(np.abs(found) == info.max, 1, np.inf), off)
    off = np.where(np.isnan(near) | np.isnan(found), np.inf, off)
    return np.where((found == near) & ~(off < 1) | np.isnan(near) & np.isnan(found), 0, off)


@pytest.mark.skipif(np.finfo(np.longdouble).nmant <= 52, reason="nothing is more exact")
@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("name", SEQUENCES)
def test_results_are_as_near_as_the_table_says(name: str, type: str) -> None:
    dtype, function = TYPES[type], getattr(np, NUMPY.get(name, name))
    given = [*arguments(name, dtype)]
    with np.errstate(all="ignore"):
        exact = function(*(x.astype(np.longdouble) for x in given))
        found = native(name, type)(*given)
        off, plain = ulps(found, exact), function(*given)
        worst = int(np.argmax(off))
        assert off[worst] <= SEQUENCES[name].most_ulp <= 4, [x[worst] for x in given]
        is_special = ~np.isfinite(plain) & ~np.isfinite(exact) | (plain == 0) & (exact == 0)
    ours, theirs = (np.where(np.isnan(x), np.nan, x)[is_special] for x in (found, plain))
    assert np.array_equal(ours, theirs, equal_nan=True)
    assert np.array_equal(np.signbit(ours), np.signbit(theirs))


@pytest.mark.parametrize("name", SEQUENCES)
def test_a_result_does_not_depend_on_its_place(name: str) -> None:
    """On the length, on the alignment, or on what else is in the array."""
    function, rng = native(name, "Float64"), np.random.default_rng(4)
    x, y = rng.uniform(0.01, 30, 100), rng.uniform(-5, 5, 100)
    x[50] = 1e9
    whole = function(x, y)
    for start, stop in [(0, 1), (1, 4), (3, 20), (7, 40), (48, 52), (9, 100)]:
        part = function(x[start:stop], y[start:stop])
        assert part.tobytes() == whole[start:stop].tobytes(), (start, stop)
