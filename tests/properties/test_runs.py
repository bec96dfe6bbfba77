"""Random reductions of floats over runs are what Python gives step by step: of numbers from 1e-320 to
1.7e308, infinities and zeros, by each operator. `RUNS=10000 pytest tests/properties/test_runs.py` tries so
many, from the seed `AGREEMENT_SEED` on."""

from __future__ import annotations

import math
import os
from functools import cache
from typing import Any

import numpy as np
import pytest

from finchlang import Scalar, Session, Tensor
from finchlang.testing.compare_engines import SEMANTICS

STEPS = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.true_divide, "own": np.subtract}
#: of a list it is the fills that are runs
FORMATS = ("RunList", "SparseRunList", "PackBits", "SparseList")
#: what the steps are: of one number, of a run, of a value and an entry, by einsum, within another loop
PROGRAMS = {
    "number": "@finch for i = 1:n; s[] {} v[] end",
    "runs": "@finch for i = _; s[] {} A[i] end",
    "in a loop": "@finch for i = 1:n, j = _; C[j] {} v[] end",
    "nested": "@finch for i = 1:n, j = 1:2; s[] {} v[] end",
    "einsum": "@einsum s[] {} A[i]",
    "both": "@finch for i = _; s[] {} v[] + A[i] end",
    "around a loop": "@finch for i = _, j = _; s[] {} A[i] * x[j] end",
}
FIRST, CASES = int(os.environ.get("AGREEMENT_SEED", "0")), int(os.environ.get("RUNS", "50"))
OWN = "function own(x, y)\nreturn x - y\nend"


@cache
def session(engine: str) -> Session:
    found = Session(engine)
    found.run(OWN)
    return found


def number(rng: np.random.Generator, dtype: Any) -> Any:
    """Any size, those near 1 and the ends of the range more often."""
    kind, sign = rng.random(), rng.choice((-1.0, 1.0))
    low, high = (-320, 308) if dtype == np.float64 else (-45, 38)
    if kind < 0.1:
        chosen = rng.choice((0.0, np.inf, 1.0, 0.5, 2.0))
        return dtype(sign * chosen if chosen else chosen)  # the sign of a zero is not kept
    if kind < 0.3:
        return dtype(sign * (1 + rng.normal() * 10.0 ** rng.integers(-9, 0)))
    if kind < 0.4:
        return dtype(sign * rng.uniform(0.1, 0.999) * np.finfo(dtype).max)
    with np.errstate(all="ignore"):
        return dtype(sign * rng.uniform(1, 1.7) * 10.0 ** rng.uniform(low, high))


def _spelled(dtype: Any) -> str:
    return "Float32(%r)" if dtype == np.float32 else "%r"


def steps(op: str, start: Any, values: Any) -> Any:
    for value in values:
        start = STEPS[op](start, value)
    return start


def is_right(found: Any, expected: Any, values: Any, op: str) -> bool:
    """Whether two results are the same within what rounding at each step makes: of sums of the
    greatest number on the way, of products where none of these is below the normal numbers of all."""
    found, expected = float(found), float(expected)
    if not (math.isfinite(found) and math.isfinite(expected)):
        return found == expected or (found != found and expected != expected)
    info = np.finfo(values.dtype)
    count = len(values)
    if op in "*/":
        least = float(info.smallest_subnormal) * 2 * count
        return math.isclose(found, expected, rel_tol=4 * count * float(info.eps), abs_tol=least)
    partial = [abs(float(v)) for v in STEPS[op].accumulate(values)]
    return abs(found - expected) <= 4 * count * float(info.eps) * max(partial)


def run_case(seed: int, engines: tuple[str, ...]) -> list[str]:
    """What is wrong of one case."""
    rng = np.random.default_rng(seed)
    dtype = rng.choice((np.float64, np.float64, np.float32))
    op, shape = str(rng.choice(list(STEPS))), str(rng.choice(list(PROGRAMS)))
    count = int(rng.choice((0, 1, 2, 3, 5, 64, 300, 2000)))
    start, v = number(rng, dtype), number(rng, dtype)
    if rng.random() < 0.2:
        start = dtype(op in "*/")
    lengths = rng.integers(1, max(2, count // 2), 4)
    entries = np.repeat(np.array([number(rng, dtype) for _ in lengths], dtype), lengths)
    if shape == "einsum" and op not in "+*":
        op = "+"
    if shape == "einsum":  # which begins anew
        start = dtype(op == "*")
    format = str(rng.choice(FORMATS))
    # code that goes over entries adds in any order, and a product in a sum is not rounded by itself
    factors = rng.choice((-1.0, 1.0, 2.0, 0.3), rng.integers(1, 4)).astype(dtype)
    if shape in ("both", "around a loop"):
        entries, v = (entries * dtype(2**-12)).astype(dtype), dtype(v * 2**-12)
    fill = entries[0] if rng.random() < 0.5 and math.isfinite(entries[0]) else dtype(0)
    if format == "SparseList":
        fill = v if math.isfinite(v) else dtype(2)
        entries = np.where(rng.random(len(entries)) < 3 / len(entries), entries, fill).astype(dtype)
    with np.errstate(all="ignore"):
        given = {
            "runs": entries,
            "einsum": entries,
            "nested": np.full(2 * count, v, dtype),
            "both": v + entries,
            "around a loop": np.outer(entries, factors).ravel(),
        }.get(shape, np.full(count, v, dtype))
        expected = steps(op, start, given)
    used = np.concatenate([[start], given]).astype(dtype)
    sign = f"<<{op}>>=" if op == "own" else f"{op}="
    wrong = []
    for engine in engines:
        at = session(engine)
        spelled = _spelled(dtype)
        at["A"] = Tensor.from_numpy(entries, f"{format}(Element({spelled % float(fill)}))")
        at["s"], at["v"] = Scalar(start), Scalar(v)
        at["C"], at["x"], at["n"] = np.array([start], dtype), factors, count
        at.run(PROGRAMS[shape].format(sign))
        found = at["C"][0] if shape == "in a loop" else at["s"].value
        if not is_right(found, expected, used, op):
            what = f"{shape} {sign} {start!r} {v!r} {count} {lengths} {entries[:1]} {format}"
            wrong.append(f"seed {seed}, {engine}: {found!r} for {expected!r}: {what}")
    return wrong


@pytest.mark.parametrize("seed", range(FIRST, FIRST + CASES))
def test_reductions_are_what_their_steps_give(seed: int) -> None:
    assert not run_case(seed, SEMANTICS if seed % 5 == 0 else ("native",))


@pytest.mark.parametrize("op", ["+", "-", "*", "/"])
@pytest.mark.filterwarnings("ignore")
def test_many_steps_are_so_many(op: str) -> None:
    """In the operator that takes many steps at once, of constants and by the denotation."""
    name = {"+": "add", "-": "sub", "*": "mul", "/": "div"}[op] + "_times"
    rng = np.random.default_rng(0)
    for dtype in (np.float64, np.float32) * 20:
        x, a, count = number(rng, dtype), number(rng, dtype), int(rng.choice((0, 1, 2, 7, 3000)))
        given = np.full(count + 1, a, dtype)
        given[0] = x
        expected, spelled = steps(op, x, given[1:]), _spelled(dtype)
        texts = [f"{name}(x[], a[], n)"]
        if math.isfinite(x) and math.isfinite(a):
            texts.append(f"{name}({spelled % float(x)}, {spelled % float(a)}, {count})")
        for engine in SEMANTICS:
            at = session(engine)
            at["s"], at["n"], at["x"], at["a"] = Scalar(dtype(0)), count, Scalar(x), Scalar(a)
            for text in texts:
                at.run(f"@finch begin s .= 0; s[] = {text} end")
                assert is_right(at["s"].value, expected, given, op), (engine, text, x, a, count)
