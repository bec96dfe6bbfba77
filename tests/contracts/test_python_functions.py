"""The contract of functions of Python and NumPy as operators of kernels: they compute what Python does, in
each engine, or are refused where they are bound or called, with their own line."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import finchlang
from finchlang import FinchError, Scalar, Session, Tensor
from finchlang.calls.runner import ENGINES

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


def shifted(a, b):
    return ((a & 12) | (b ^ 5) << 2) - (a >> 3) + math.gcd(a, b) + a**3 + (-b) ** 2


def roots(a, b):
    c = a**2 + b**2
    return c**0.5 + a**-1 + math.hypot(a, b) + math.log1p(c) if a != 0 else 0.0


def named(end, mod):
    """Names that mean something in scripts."""
    ifelse = end % mod
    return abs(ifelse) // 2


INTEGERS = [collatz, sums, divided, shifted, named]
FLOATS = [scaled, clipped, whole, divided, roots]
BY_NAME = [np.hypot, np.add, np.floor_divide, np.remainder, np.arctan2, np.less, max, math.fmod]
OF_ONE = [np.floor, np.ceil, np.trunc, np.rint, np.deg2rad, np.rad2deg, np.conjugate, np.sqrt]
WHOLE = np.arange(-40, 40), np.resize([7, -3, 1, 12, -1, 5, -13], 80)
REAL = np.arange(-10, 10.5) * 0.7, np.resize([0.1, -0.3, 1.0, 3.25, -2.5], 30)


def check(function: Any, engine: str, *args: np.ndarray) -> None:
    """That a kernel gives what Python does for each element."""
    session, names = Session(engine), "abcd"[: len(args)]
    wanted = np.array([function(*x) for x in zip(*(a.tolist() for a in args), strict=True)])
    session["f"], session["y"] = function, np.zeros(len(args[0]), wanted.dtype)
    for name, arg in zip(names, args, strict=True):
        session[name] = arg
    session.run(f"@finch for i = _; y[i] = f({', '.join(f'{name}[i]' for name in names)}); end")
    assert np.allclose(session["y"], wanted, rtol=1e-12, atol=0, equal_nan=True)


@pytest.mark.parametrize("engine", RUNNING)
@pytest.mark.parametrize("function", [*INTEGERS, *FLOATS, *BY_NAME])
def test_functions_compute_what_python_does(function: Any, engine: str) -> None:
    count = function.__code__.co_argcount if hasattr(function, "__code__") else 2
    for kind, args in ((INTEGERS, WHOLE), (FLOATS + BY_NAME, REAL)):
        if function in kind:
            check(function, engine, *[arg[: len(args[0])] for arg in args][:count])


@pytest.mark.parametrize("function", OF_ONE)
def test_ufuncs_of_one_number(function: Any) -> None:
    check(function, "native", np.abs(REAL[0]))
    check(lambda x: function(x) + 1, "native", np.abs(REAL[0]))


NUMBERS = st.floats(-1e6, 1e6).filter(lambda x: abs(x) > 1e-6)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1))
@settings(max_examples=40)
def test_division_of_floats(pairs: list[tuple[float, float]]) -> None:
    args = [np.array(values) for values in zip(*pairs, strict=True)]
    check(lambda a, b: a // b, "native", *args)
    check(lambda a, b: a % b, "native", *args)


@given(st.lists(st.tuples(*[st.integers(-1000, 1000).filter(bool)] * 2), min_size=1))
@settings(max_examples=40)
def test_division_of_integers(pairs: list[tuple[int, int]]) -> None:
    args = [np.array(values) for values in zip(*pairs, strict=True)]
    for function in (divided, shifted):
        check(function, "native", *args)


@pytest.mark.parametrize("engine", RUNNING)
def test_numbers_around_are_those_of_the_call(engine: str) -> None:
    factor = 2.0

    def times(x):
        return factor * x

    session = Session(engine)
    session["f"], session["x"], session["y"] = times, np.arange(3.0), np.zeros(3)
    session["p"], session["z"] = np.bool_(True), np.zeros(2)
    for factor in (2.0, 5.0, 2.0):
        session.run("@finch for i = _; y[i] = f(x[i]); end")
        assert session["y"].tolist() == [0, factor, 2 * factor]
    session.run("@finch for i = _; z[i] = p ? 1.0 : 2.0 end")
    assert session["z"].tolist() == [1, 1]


# ------------------------------------------------------------------------------------------- laws


@finchlang.operator(
    annihilator={0: 0}, cases={(None, 1): lambda x: x, ("x", "x"): lambda x: abs(x)}
)
def part(x, y):
    return x if y == 1 else (abs(x) if x == y else x * y)


@finchlang.operator(commutative=True, iterate="(x | y) & ~(x & y)")
def either(x, y):
    return x if y == 0 else (y if x == 0 else 0)


def least(x, y):
    return x if x < y else y


def applied(engine: str, function: Any, *operands: list[float]) -> Tensor:
    """What a function of sparse operands makes, natively or otherwise."""
    session = Session(engine)
    session["f"] = function
    zero = "0.0" if any(isinstance(x, float) for x in operands[0] + operands[1]) else "0"
    for name, values in zip("AB", operands, strict=True):
        session[name] = Tensor(f"SparseList(Element({zero}))", np.array(values))
    session.run(f"C = Tensor(SparseList(Element({zero})), 4)")
    session.run("@finch begin C .= 0; for i = _; C[i] = f(A[i], B[i]); end end")
    return session["C"]


@pytest.mark.parametrize("engine", RUNNING)
def test_laws_of_decorated_functions(engine: str) -> None:
    assert either(5, 3) == 0
    found = applied(engine, either, [0, 3, 0, 5], [2, 3, 0, 0])
    assert found.to_numpy().tolist() == [2, 0, 0, 5]
    assert found.countstored() == 2 or engine == "denote"
    assert applied(engine, part, [0, 3, 0, 5], [2, 3, 0, 0]).to_numpy().tolist() == [0, 3, 0, 0]
    session = Session(engine)
    session["f"] = finchlang.operator(lambda a, b: a + b - a * b, identity=0.0, associative=True)
    session["x"], session["s"] = np.array([0.5, 0.25, 0.0]), Scalar(0.0)
    session.run("@finch for i = _; s[] <<f>>= x[i]; end")
    assert session["s"].value == 0.625


def test_laws_over_a_range_of_decorated_functions() -> None:
    laws = {"x >= 0": {"annihilator": 0}, "0 <= x <= 1": {"idempotent": True}}
    function = finchlang.operator(commutative=True, where=laws)(least)
    for low, stored in ((2.0, 1), (-2.0, 3)):
        found = applied("native", function, [0, 3.0, 0, 5], [low, 3, 0, 0])
        assert found.to_numpy().tolist() == [min(low, 0), 3, 0, 0]
        assert found.countstored() == stored
    wrong = finchlang.operator(where={"x >= -1": {"annihilator": 0}})(lambda x, y: min(x, y))
    with pytest.raises(FinchError, match="annihilator 0 as argument 1 where x >= -1"):
        applied("native", wrong, [0, 3.0, 0, 5], [-2.0, 3, 0, 0])


@pytest.mark.parametrize(
    ("laws", "message"),
    [
        ({"identity": 0, "annihilator": 0}, "contradict"),
        ({"symmetric": True}, "no property"),
        ({"annihilator": {2: 0}}, "arguments 1 to 2"),
        ({"iterate": "x | z"}, "`z` names no argument"),
        ({"cases": {(None, 0): lambda: 1}}, "leaves 1 arguments"),
        ({"where": {"x + 1": {"annihilator": 0}}}, "a range compares"),
    ],
)
def test_laws_that_are_wrong(laws: Any, message: str) -> None:
    with pytest.raises(FinchError, match=message):
        finchlang.operator(**laws)(lambda x, y: x * y)


# --------------------------------------------------------------------------------- what is refused


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


def bits(a, b):
    return (a & 12) | (b ^ 5) << 2, a


@pytest.mark.parametrize("function", [listed, silent, called, defaulted, lambda x: x.real, bits])
def test_what_cannot_be_translated(function: Callable[..., Any]) -> None:
    with pytest.raises(FinchError) as caught:
        finchlang.operator(function)
    first, span = function.__code__.co_firstlineno, caught.value.span
    assert caught.value.kind == "type" and span is not None
    assert first <= span.line <= first + 2 and Path(span.source.name).name == Path(__file__).name


hidden: dict[str, Any] = {}
exec("def hidden(x): return x", hidden)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (hidden["hidden"], "source of the Python function `hidden` cannot be found"),
        (functools.partial(max, 3), "is no operator here"),
        ([].count, "is no operator here"),
        (np.spacing, "NumPy's `spacing` is no operator"),
    ],
)
def test_what_is_refused_where_it_is_bound(value: Any, said: str) -> None:
    with pytest.raises(FinchError, match=said):
        Session()["f"] = value


def unknown(x):
    return x + nowhere  # noqa: F821


def wordy(x):
    return x and 1


def mixed(x):
    return x if x > 0 else 0


def again(x):
    return again(x - 1)


CALLS = {
    unknown: "nowhere",
    wordy: "x and 1",
    mixed: "0",
    again: "again(x - 1)",
    lambda x: sorted(x): "sorted",
    lambda x: max(x, 0): "max(x, 0)",
    lambda x: 2 ** round(x - 2): "",
}


@pytest.mark.parametrize("engine", RUNNING)
@pytest.mark.parametrize("function", CALLS)
def test_what_is_refused_at_the_call(function: Callable[..., Any], engine: str) -> None:
    session = Session(engine)
    session["f"], session["x"], session["y"] = function, np.arange(3.0), np.full(3, 7.0)
    with pytest.raises(FinchError) as caught:
        session.run("@finch for i = _; y[i] = f(x[i]); end")
    assert session["y"].tolist() == [7, 7, 7]
    assert caught.value.span is not None and CALLS[function] in (caught.value.span.text or "")
