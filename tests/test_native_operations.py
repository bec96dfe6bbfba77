"""Native code of every operation on every type gives what the plain evaluator does."""

from __future__ import annotations

import math

import ir_samples as samples
import numpy as np
import pytest
from ir_samples import checked
from native_calls import run

from finchlang.host.evaluate import apply
from finchlang.host.ir import OPS
from finchlang.native.jit import compile_residual
from finchlang.types import (
    TYPES,
    Bool,
    Float64,
    Int8,
    Int16,
    Int64,
    Type,
    UInt8,
    UInt64,
)

pytestmark = pytest.mark.optimised


def interesting(type: Type, rng: np.random.Generator, n: int) -> np.ndarray:
    """`n` values of `type`: the extremes and what is special, then random ones."""
    if type == Bool:
        return rng.integers(0, 2, n).astype(bool)
    if type.is_float:
        special = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, math.inf, -math.inf, math.nan]
        special += [1e30, -1e30, 2.0**31, -(2.0**31), 2.0**63, 255.0, 256.7, -128.9, 1e-30]
        values = np.concatenate([rng.choice(special, n // 2), rng.normal(0, 10, n - n // 2)])
        return rng.permutation(values).astype(type.dtype)
    special = [type.lowest, type.highest, 0, 1, 2, 3, 7, type.highest - 1, type.lowest + 1]
    special += [-1, -2] if type.kind == "int" else []
    chosen = [special[k] for k in rng.integers(0, len(special), n // 2)]
    values = np.array(chosen, type.dtype)
    small = rng.integers(0, 70, n - n // 2).astype(type.dtype)
    return rng.permutation(np.concatenate([values, small]))


def expected(name: str, result: Type, arguments: list[np.ndarray], type: Type) -> np.ndarray:
    with np.errstate(all="ignore"):
        rows = [[x.item() for x in row] for row in zip(*arguments, strict=True)]
        return np.array([apply(name, result, type, row) for row in rows], result.dtype)


def assert_same(got: np.ndarray, want: np.ndarray, type: Type, what: str) -> None:
    if type.is_float:
        tolerance = 1e-12 if type == Float64 else 3e-6
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=0, err_msg=what)
    else:
        np.testing.assert_array_equal(got, want, err_msg=what)


def run_elementwise(types: list[Type], results: list[tuple[str, Type]], seed: int) -> None:
    n, rng = 300, np.random.default_rng(seed)
    arguments = [interesting(t, rng, n) for t in types]
    made = [np.zeros(n, t.dtype) for _, t in results]
    kernel = compile_residual(checked(samples.elementwise(types, results)))
    run(kernel, [*arguments, *made], [n])
    for (name, result), got in zip(results, made, strict=True):
        want = expected(name, result, arguments[: OPS[name]], types[0])
        assert_same(got, want, result, f"{name} of {types[0]}")


@pytest.mark.parametrize("type", TYPES.values(), ids=str)
def test_every_operation_on_every_type(type: Type) -> None:
    plain: list[tuple[str, Type]] = []
    shifted: list[tuple[str, Type]] = []
    for name in OPS:
        if name in ("cast", "select"):
            continue
        for arguments, result in samples.signatures(name, type):
            (plain if arguments[1] == type else shifted).append((name, result))
    run_elementwise([type, type], plain, 1)
    if shifted:
        run_elementwise([type, Int64], shifted, 2)
    run_elementwise([Bool, type, type], [("select", type)], 3)


@pytest.mark.parametrize("type", TYPES.values(), ids=str)
def test_every_cast(type: Type) -> None:
    run_elementwise([type], [("cast", target) for target in TYPES.values()], 4)


@pytest.mark.parametrize("count", [Int8, UInt8, UInt64], ids=str)
def test_shifts_by_every_width(count: Type) -> None:
    for type in (Int16, UInt64):
        run_elementwise([type, count], [("shl", type), ("shr", type)], 5)


def test_min_and_max_let_nan_win_on_both_sides() -> None:
    a = np.array([math.nan, 1.0, math.nan, -math.inf])
    b = np.array([1.0, math.nan, math.nan, math.inf])
    low, high = np.zeros(4), np.zeros(4)
    both = [("min", Float64), ("max", Float64)]
    kernel = compile_residual(samples.elementwise([Float64] * 2, both))
    run(kernel, [a, b, low, high], [4])
    assert np.isnan(low[:3]).all() and np.isnan(high[:3]).all()
    assert (low[3], high[3]) == (-math.inf, math.inf)
