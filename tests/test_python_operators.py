"""Functions of Python and NumPy as operators of kernels: they compute what Python does, or are refused."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import finchlang
from finchlang.session import ENGINES, Session
from finchlang.source import FinchError
from finchlang.tensors.tensor import Tensor

RUNNING = [engine for engine in ENGINES if engine != "check"]
SCALE = 3.0


def scaled(x):
    return SCALE * x


def collatz(n, most):
    steps = 0
    n = abs(n) + 1
    while n != 1 and steps < most:
        if n % 2 == 0:
            n //= 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


def sums(a, b):
    total = last = 0
    for k in range(a, b, 2):
        if k % 5 == 3:
            continue
        if total > 40:
            break
        total, last = total + k, k
    for k in range(5, a, -1):
        total -= k
    return total - last


def clipped(x, low):
    """Chained comparisons, and what is short."""
    if not low <= x < low + 8.5 or x == 3.25:
        return max(min(scaled(x), 4.0), low, 0.5)
    return x if x > 1 and low < 0.5 else math.sqrt(abs(x)) + math.pi


def whole(a, b):
    return int(a / 3) + round(b) + math.floor(a) - math.ceil(b) + (a > b) + ~(a < b)


def divided(a, b):
    return a // b - 2 * (a % b)


def bits(a, b):
    return (a & 12) | (b ^ 5) << 2, a


def shifted(a, b):
    return ((a & 12) | (b ^ 5) << 2) - (a >> 3) + math.gcd(a, b) + a**3 + (-b) ** 2


def roots(a, b):
    c = a**2 + b**2
    return c**0.5 + a**-1 + math.hypot(a, b) + math.log1p(c) if a != 0 else 0.0


INTEGERS = [collatz, sums, divided, shifted]
FLOATS = [scaled, clipped, whole, divided, roots]


def computed(function: Callable[..., Any], engine: str, args: list[np.ndarray]) -> np.ndarray:
    session = Session(engine)
    expected = np.array(
        [function(*values) for values in zip(*(a.tolist() for a in args), strict=True)]
    )
    session["f"], session["y"] = function, np.zeros(len(args[0]), expected.dtype)
    names = "abcd"[: len(args)]
    for name, arg in zip(names, args, strict=True):
        session[name] = arg
    call = ", ".join(f"{name}[i]" for name in names)
    session.run(f"@finch for i = _; y[i] = f({call}); end")
    assert np.allclose(session["y"], expected, rtol=1e-12, atol=0, equal_nan=True)
    return session["y"]


def count_of(function: Callable[..., Any]) -> int:
    return function.__code__.co_argcount


@pytest.mark.parametrize("engine", RUNNING)
@pytest.mark.parametrize("function", INTEGERS)
def test_integers_are_those_of_python(function: Callable[..., Any], engine: str) -> None:
    a, b = np.arange(-40, 40), np.resize([7, -3, 1, 12, -1, 5, -13], 80)
    computed(function, engine, [a, b][: count_of(function)])


@pytest.mark.parametrize("engine", RUNNING)
@pytest.mark.parametrize("function", FLOATS)
def test_floats_are_those_of_python(function: Callable[..., Any], engine: str) -> None:
    a = np.arange(-10, 10.5) * 0.7
    b = np.resize([0.1, -0.3, 1.0, 3.25, -2.5], len(a))
    computed(function, engine, [a, b][: count_of(function)])


@given(st.lists(st.tuples(*[st.floats(-1e6, 1e6).filter(lambda x: abs(x) > 1e-6)] * 2), min_size=1))
@settings(max_examples=60, deadline=None)
def test_division_of_floats(pairs: list[tuple[float, float]]) -> None:
    a, b = (np.array(values) for values in zip(*pairs, strict=True))
    computed(lambda a, b: a // b, "native", [a, b])
    computed(lambda a, b: a % b, "native", [a, b])


@given(st.lists(st.tuples(*[st.integers(-1000, 1000).filter(bool)] * 2), min_size=1))
@settings(max_examples=60, deadline=None)
def test_division_of_integers(pairs: list[tuple[int, int]]) -> None:
    a, b = (np.array(values) for values in zip(*pairs, strict=True))
    for function in (divided, shifted):
        computed(function, "native", [a, b])


# ----------------------------------------------------------------------------- names around functions


@pytest.mark.parametrize("engine", RUNNING)
def test_numbers_around_are_those_of_the_call(engine: str) -> None:
    factor = 2.0

    def times(x):
        return factor * x

    session = Session(engine)
    session["f"], session["x"], session["y"] = times, np.arange(3.0), np.zeros(3)
    for factor in (2.0, 5.0, 2.0):
        session.run("@finch for i = _; y[i] = f(x[i]); end")
        assert session["y"].tolist() == [0, factor, 2 * factor]


def test_names_that_mean_something_in_scripts() -> None:
    def named(end, mod):
        ifelse = end % mod
        return abs(ifelse) // 2

    computed(named, "native", [np.arange(-9, 9), np.full(18, 5)])


@pytest.mark.parametrize("engine", RUNNING)
def test_functions_as_reductions(engine: str) -> None:
    session = Session(engine)
    session["f"] = finchlang.operator(lambda a, b: a + b - a * b, identity=0.0, associative=True)
    session["x"] = np.array([0.5, 0.25, 0.0])
    session["s"] = finchlang.Scalar(0.0)
    session.run("@finch for i = _; s[] <<f>>= x[i]; end")
    assert session["s"].value == 0.625


# ----------------------------------------------------------------------------- NumPy's, and Python's


@pytest.mark.parametrize("engine", RUNNING)
@pytest.mark.parametrize(
    "function",
    [np.hypot, np.add, np.floor_divide, np.remainder, np.arctan2, np.less, max, math.fmod],
)
def test_functions_by_name(function: Any, engine: str) -> None:
    session, a, b = Session(engine), np.array([1.5, -2.0, 7.0]), np.array([0.1, 3.0, -2.0])
    expected = [function(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    session["g"], session["a"], session["b"] = function, a, b
    session["y"] = np.zeros(3)
    session.run("@finch for i = _; y[i] = g(a[i], b[i]); end")
    assert np.allclose(session["y"], expected)


def test_what_numpy_has_and_the_language_has_not() -> None:
    with pytest.raises(FinchError, match="NumPy's `spacing` is no operator"):
        Session()["g"] = np.spacing


# ----------------------------------------------------------------------------- laws


@finchlang.operator(
    annihilator={0: 0},
    cases={(None, 1): lambda x: x, ("x", "x"): lambda x: abs(x)},
)
def part(x, y):
    return x if y == 1 else (abs(x) if x == y else x * y)


@finchlang.operator(commutative=True, iterate="(x | y) & ~(x & y)")
def either(x, y):
    return x if y == 0 else (y if x == 0 else 0)


@pytest.mark.parametrize("engine", RUNNING)
def test_laws_of_decorated_functions(engine: str) -> None:
    assert either(5, 3) == 0
    session = Session(engine)
    for name, values in (("A", [0, 3, 0, 5]), ("B", [2, 3, 0, 0])):
        session[name] = np.array(values)
    session["f"], session["g"] = either, part
    session.run(
        "A = Tensor(SparseList(Element(0)), A); B = Tensor(SparseList(Element(0)), B);"
        "C = Tensor(SparseList(Element(0)), 4); D = Tensor(SparseList(Element(0)), 4)"
    )
    session.run("@finch begin C .= 0; for i = _; C[i] = f(A[i], B[i]); end end")
    assert session["C"].to_numpy().tolist() == [2, 0, 0, 5]
    assert session["C"].countstored() == 2 or engine == "denote"
    session.run("@finch begin D .= 0; for i = _; D[i] = g(A[i], B[i]); end end")
    assert session["D"].to_numpy().tolist() == [0, 3, 0, 0]
    assert isinstance(session["D"], Tensor)


def test_laws_that_are_wrong() -> None:
    for laws, message in (
        ({"identity": 0, "annihilator": 0}, "contradict"),
        ({"symmetric": True}, "no property"),
        ({"annihilator": {2: 0}}, "arguments 1 to 2"),
        ({"iterate": "x | z"}, "`z` names no argument"),
        ({"cases": {(None, 0): lambda: 1}}, "leaves 1 arguments"),
    ):
        with pytest.raises(FinchError, match=message):
            finchlang.operator(lambda x, y: x * y, **laws)


# ----------------------------------------------------------------------------- what is refused


def listed(x):
    return [x][0]


def silent(x):
    if x > 0:
        return x


def called(x):
    with x:
        return x


def defaulted(x, y=2):
    return x + y


@pytest.mark.parametrize("function", [listed, silent, called, defaulted, lambda x: x.real, bits])
def test_what_cannot_be_translated(function: Callable[..., Any]) -> None:
    with pytest.raises(FinchError) as caught:
        finchlang.operator(function)
    assert caught.value.kind == "type"
    first = function.__code__.co_firstlineno
    assert caught.value.span is not None
    assert first <= caught.value.span.line <= first + 2
    assert Path(caught.value.span.source.name).name == Path(__file__).name


def unknown(x):
    return x + nowhere  # noqa: F821


def wordy(x):
    return x and 1


def mixed(x):
    return x if x > 0 else 0


def again(x):
    return again(x - 1)


@pytest.mark.parametrize("engine", RUNNING)
@pytest.mark.parametrize("function", [unknown, wordy, mixed, again, lambda x: sorted(x)])
def test_what_is_refused_at_the_call(function: Callable[..., Any], engine: str) -> None:
    session = Session(engine)
    session["f"], session["x"], session["y"] = function, np.arange(3.0), np.full(3, 7.0)
    with pytest.raises(FinchError):
        session.run("@finch for i = _; y[i] = f(x[i]); end")
    assert session["y"].tolist() == [7, 7, 7]


def test_errors_of_pythons_own_functions_stand_at_their_call() -> None:
    session = Session()
    session["f"], session["x"], session["y"] = (lambda x: max(x, 0)), np.ones(3), np.ones(3)
    with pytest.raises(FinchError) as caught:
        session.run("@finch for i = _; y[i] = f(x[i]); end")
    assert caught.value.span is not None
    assert caught.value.span.text == "max(x, 0)"


def test_a_function_without_a_source() -> None:
    names: dict[str, Any] = {}
    exec("def hidden(x): return x", names)
    with pytest.raises(FinchError, match="source of the Python function `hidden` cannot be found"):
        Session()["f"] = names["hidden"]


@pytest.mark.parametrize("engine", RUNNING)
def test_integers_to_negative_powers_are_no_integers(engine: str) -> None:
    session = Session(engine)
    session["f"], session["x"], session["y"] = (lambda a, b: a**b), np.array([2, -3]), np.zeros(2)
    session.run("@finch for i = _; y[i] = f(x[i], 2); end")
    assert session["y"].tolist() == [4, 9]
    with pytest.raises(FinchError):
        session.run("@finch for i = _; y[i] = f(2, x[i]); end")


def test_what_is_called_but_has_no_source_is_refused_where_it_is_bound() -> None:
    for value in (functools.partial(max, 3), [].count):
        with pytest.raises(FinchError, match="is no operator here"):
            Session()["f"] = value


@pytest.mark.parametrize("engine", RUNNING)
def test_truth_values_of_numpy_are_numbers_of_kernels(engine: str) -> None:
    session = Session(engine)
    session["p"], session["y"] = np.bool_(True), np.zeros(2)
    session.run("@finch for i = _; y[i] = p ? 1.0 : 2.0 end")
    assert session["y"].tolist() == [1, 1]


def test_laws_over_a_range_of_decorated_functions() -> None:
    def least(x, y):
        return x if x < y else y

    laws = {"x >= 0": {"annihilator": 0}, "0 <= x <= 1": {"idempotent": True}}
    least = finchlang.operator(commutative=True, where=laws)(least)
    session = Session()
    session["f"] = least
    for low, stored in ((2.0, 1), (-2.0, 3)):
        for name, values in (("A", [0, 3.0, 0, 5]), ("B", [low, 3, 0, 0])):
            session[name] = Tensor.from_numpy(np.array(values), "SparseList(Element(0.0))")
        session.run("C = Tensor(SparseList(Element(0.0)), 4)")
        session.run("@finch begin C .= 0; for i = _; C[i] = f(A[i], B[i]); end end")
        assert session["C"].to_numpy().tolist() == [min(low, 0), 3, 0, 0]
        assert session["C"].countstored() == stored
    session["f"] = finchlang.operator(where={"x >= -1": {"annihilator": 0}})(lambda x, y: min(x, y))
    with pytest.raises(FinchError, match="annihilator 0 as argument 1 where x >= -1"):
        session.run("@finch begin C .= 0; for i = _; C[i] = f(A[i], B[i]); end end")
    with pytest.raises(FinchError, match="a range compares"):
        finchlang.operator(where={"x + 1": {"annihilator": 0}})(least)
