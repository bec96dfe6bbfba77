"""Array functions beside the standard's reference, `array-api-strict`: values, types and shapes of
everything that both have."""

from __future__ import annotations

import inspect
import itertools
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest

import finchlang.array as xp
from finchlang import Tensor

strict.set_array_api_strict_flags(api_version="2024.12")

BOOLS, FLOATS = ("bool",), ("float32", "float64")
SIGNED, UNSIGNED = ("int8", "int32", "int64"), ("uint8", "uint32")
WHOLE = SIGNED + UNSIGNED
NUMBERS = WHOLE + FLOATS
UNARY = {
    **dict.fromkeys(("abs", "negative", "positive", "sign", "square"), NUMBERS),
    **dict.fromkeys(("ceil", "floor", "round", "trunc", "isnan", "isinf", "isfinite"), NUMBERS),
    **dict.fromkeys(
        (
            *("exp", "expm1", "log", "log1p", "log2", "log10", "sqrt", "sin", "cos", "tan", "sinh"),
            *("cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "reciprocal"),
            "signbit",
        ),
        FLOATS,
    ),
    **dict.fromkeys(("bitwise_invert",), BOOLS + WHOLE),
    **dict.fromkeys(("logical_not",), BOOLS),
}
BINARY = {
    **dict.fromkeys(("add", "subtract", "multiply", "maximum", "minimum"), NUMBERS),
    **dict.fromkeys(("less", "less_equal", "greater", "greater_equal"), NUMBERS),
    **dict.fromkeys(("equal", "not_equal"), BOOLS + NUMBERS),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor"), BOOLS + WHOLE),
    **dict.fromkeys(("bitwise_left_shift", "bitwise_right_shift"), UNSIGNED),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor"), BOOLS),
    **dict.fromkeys(("divide", "pow", "atan2", "hypot", "logaddexp", "copysign"), FLOATS),
    **dict.fromkeys(("floor_divide", "remainder"), FLOATS),
    "nextafter": FLOATS,
}
REDUCTIONS = {
    **dict.fromkeys(("sum", "prod", "min", "max"), NUMBERS),
    **dict.fromkeys(("mean", "var", "std"), FLOATS),
    **dict.fromkeys(("any", "all"), BOOLS + NUMBERS),
}


def sample(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Numbers none of which is 0, where functions may decide by a structural one."""
    random = np.random.default_rng(seed)
    if dtype == "bool":
        return random.random(shape) < 0.5
    low = 1 if dtype.startswith("u") else -4
    found = random.integers(low, 5, shape).astype(dtype)
    found[found == 0] = 1
    return found / np.array(4, dtype) if dtype.startswith("f") else found


def ours(array: np.ndarray) -> Tensor:
    level = "Element(false)" if array.dtype == bool else "Element(0.0)"
    for mode in range(array.ndim):
        level = f"SparseList({level})" if mode == 0 else f"Dense({level})"
    return xp.asarray(array, format=level.replace("0.0", _zero(array.dtype)))


def _zero(dtype: np.dtype) -> str:
    names = {"i": "Int", "u": "UInt", "f": "Float"}
    return f"{names[dtype.kind]}{dtype.itemsize * 8}(0)" if dtype.kind != "b" else "false"


def check(found: Any, expected: Any) -> None:
    assert found.shape == expected.shape
    wanted = np.asarray(expected)
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(xp.todense(found), wanted, rtol=1e-5, atol=1e-6)


def cases(table: dict[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    return [(name, dtype) for name, dtypes in table.items() for dtype in dtypes]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "dtype"), cases(UNARY))
def test_functions_of_elements(name: str, dtype: str) -> None:
    array = sample(dtype, (3, 4), 1)
    check(getattr(xp, name)(ours(array)), getattr(strict, name)(strict.asarray(array)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "dtype"), cases(BINARY))
def test_functions_of_two_arrays(name: str, dtype: str) -> None:
    a, b = sample(dtype, (3, 4), 2), sample(dtype, (4,), 3)
    expected = getattr(strict, name)(strict.asarray(a), strict.asarray(b))
    check(getattr(xp, name)(ours(a), ours(b)), expected)
    check(getattr(xp, name)(ours(a), b), expected)


@pytest.mark.parametrize(("name", "dtype"), cases(REDUCTIONS))
def test_reductions(name: str, dtype: str) -> None:
    array = sample(dtype, (3, 2, 4), 4)
    for axis, keepdims in itertools.product((None, 0, -1, (0, 2)), (False, True)):
        expected = getattr(strict, name)(strict.asarray(array), axis=axis, keepdims=keepdims)
        check(getattr(xp, name)(ours(array), axis=axis, keepdims=keepdims), expected)


def test_types_promote_as_the_standard_has_it() -> None:
    for one, other in itertools.product(BOOLS + NUMBERS, repeat=2):
        kinds = [getattr(strict, name) for name in (one, other)]
        try:
            expected = strict.result_type(*kinds)
        except TypeError:
            continue  # the standard leaves it open
        assert str(expected).endswith(str(xp.result_type(np.dtype(one), np.dtype(other))))
        if one != "bool":
            lazy = xp.add(np.ones(2, one), np.ones(2, other))
            assert str(expected).endswith(str(lazy.dtype))


def test_creation() -> None:
    check(xp.zeros((2, 3)), strict.zeros((2, 3)))
    check(xp.ones(3, dtype=xp.int32), strict.ones(3, dtype=strict.int32))
    check(xp.full((2, 2), 7), strict.full((2, 2), 7))
    check(xp.full_like(ours(np.ones((2, 3))), 2), strict.full((2, 3), 2.0))
    check(xp.arange(2, 9, 3), strict.arange(2, 9, 3))
    check(xp.linspace(0, 1, 5), strict.linspace(0, 1, 5))
    check(xp.eye(3, 4, k=1), strict.eye(3, 4, k=1))
    check(xp.asarray([[1, 2], [3, 4]]), strict.asarray([[1, 2], [3, 4]]))
    check(xp.asarray(5), strict.asarray(5))


def test_shapes() -> None:
    array = sample("float64", (2, 1, 4), 5)
    lazy, reference = ours(array), strict.asarray(array)
    check(xp.permute_dims(lazy, (2, 0, 1)), strict.permute_dims(reference, (2, 0, 1)))
    check(xp.expand_dims(lazy, axis=-2), strict.expand_dims(reference, axis=-2))
    check(xp.squeeze(lazy, 1), strict.squeeze(reference, 1))
    check(xp.matrix_transpose(lazy), strict.matrix_transpose(reference))
    check(xp.broadcast_to(lazy, (3, 2, 5, 4)), strict.broadcast_to(reference, (3, 2, 5, 4)))
    check(xp.moveaxis(lazy, 0, 2), strict.moveaxis(reference, 0, 2))
    check(lazy.mT, reference.mT)


def test_where_and_clip() -> None:
    a, b = sample("float64", (3, 4), 6), sample("float64", (4,), 7)
    check(
        xp.where(ours(a) > 0.5, ours(a), b),
        strict.where(strict.asarray(a) > 0.5, strict.asarray(a), strict.asarray(b)),
    )
    check(xp.clip(ours(a), -0.5, 0.75), strict.clip(strict.asarray(a), -0.5, 0.75))
    check(xp.astype(ours(a), xp.float32), strict.astype(strict.asarray(a), strict.float32))


def test_what_the_namespace_says_of_itself() -> None:
    info = xp.__array_namespace_info__()
    assert set(info.dtypes()) == {"bool", *NUMBERS, "int16", "uint16", "uint64"}
    assert info.dtypes(kind="complex floating") == {} and info.default_device() in info.devices()
    assert all(xp.isdtype(dtype, ("bool", "numeric")) for dtype in info.dtypes().values())
    assert xp.__array_api_version__ == "2024.12"


def test_functions_take_the_arguments_of_the_standard() -> None:
    """By their names, as far as we have them."""
    for name in set(strict.__all__) & set(xp.__all__):
        function, reference = getattr(xp, name), getattr(strict, name)
        if not inspect.isfunction(function) or not inspect.isfunction(reference):
            continue
        own, wanted = (inspect.signature(f).parameters for f in (function, reference))
        keywords = {k for k, p in wanted.items() if p.kind is p.KEYWORD_ONLY}
        assert keywords <= set(own), (name, keywords - set(own))
