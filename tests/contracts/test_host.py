"""The contract of the host language: the executing hosts, the recording one with its evaluator, and native
code do the same, in each operation, on each type, and in programs at random."""

from __future__ import annotations

import math
from collections import Counter
from random import Random
from typing import Any

import host_programs as programs
import numpy as np
import pytest
from hosts import Program, Sample, everywhere, run, up_to
from hypothesis import given, settings, strategies as st

from finchlang.base.errors import Bug
from finchlang.host.construct import ONE, ZERO, cast, const, op
from finchlang.host.executing import ExecutingHost, RememberingHost
from finchlang.host.ir import COMPARISONS, OPS, Expr, Op, Var
from finchlang.syntax.types import TYPES, Bool, Float32, Float64, Int32, Int64, Type, UInt64

pytestmark = pytest.mark.optimised

INTEGERS = [t for t in TYPES.values() if t.is_integer]
every_type = pytest.mark.parametrize("type", TYPES.values(), ids=str)
every_integer = pytest.mark.parametrize("type", INTEGERS, ids=str)


# ------------------------------------------------------------------------------------- expressions


def values(type: Type, rng: np.random.Generator, n: int) -> np.ndarray:
    """`n` values of `type`: the extremes and what is special, then random ones."""
    if type == Bool:
        return rng.integers(0, 2, n).astype(bool)
    if type.is_float:
        special = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, math.inf, -math.inf, math.nan]
        special += [1e30, -1e30, 2.0**31, -(2.0**31), 2.0**63, 255.0, 256.7, -128.9, 1e-30]
        found = np.concatenate([rng.choice(special, n // 2), rng.normal(0, 10, n - n // 2)])
        return rng.permutation(found).astype(type.dtype)
    special = [type.lowest, type.highest, 0, 1, 2, 3, 7, type.highest - 1, type.lowest + 1]
    special += [-1, -2] if type.kind == "int" else []
    chosen = np.array([special[k] for k in rng.integers(0, len(special), n // 2)], type.dtype)
    small = rng.integers(0, 70, n - n // 2).astype(type.dtype)
    return rng.permutation(np.concatenate([chosen, small]))


def elementwise(types: list[Type], results: list[tuple[str, Type]], seed: int) -> None:
    """Operations on many values of their arguments; Python's mathematics is not LLVM's to the last bit."""
    n, rng = 200, np.random.default_rng(seed)
    program = Program(programs.elementwise, (tuple(types), tuple(results)))
    arrays = [values(t, rng, n) for t in types] + [np.zeros(n, t.dtype) for _, t in results]
    with np.errstate(all="ignore"):
        everywhere(program, arrays, n, rtol=1e-12 if Float32 not in types else 3e-6)


def signatures(name: str, type: Type) -> list[tuple[list[Type], Type]]:
    """The argument and result types that the checker lets the operation `name` have, among those
    whose first argument is of `type` and whose others are of `type` or Int64."""
    found = []
    for other in {type, Int64}:
        for result in {type, Bool}:
            types = (type, other, other)[: max(2, OPS[name][0])]
            sample = Sample()
            programs.elementwise(sample, types, ((name, result),))
            try:
                sample.residual()
            except Bug:
                continue
            if OPS[name][0] > 1 or other == type:
                found.append((list(types), result))
    return found


#: operations whose types differ
APART = (
    "cast",
    "select",
    "pair",
    "first",
    "second",
    "add_times",
    "mul_times",
    "div_times",
    "reinterpret",
)


@every_type
def test_every_operation_on_every_type(type: Type) -> None:
    plain: list[tuple[str, Type]] = []
    counted: list[tuple[str, Type]] = []
    for name in OPS.keys() - {"cast", "select"}:
        for arguments, result in signatures(name, type):
            (plain if arguments[1] == type else counted).append((name, result))
    elementwise([type, type, type], sorted(plain, key=str), 1)
    if counted:
        elementwise([type, Int64, Int64], sorted(counted, key=str), 2)
    elementwise([Bool, type, type], [("select", type)], 3)
    elementwise([type], [("cast", target) for target in TYPES.values()], 4)
    for count in INTEGERS if type.is_integer else ():
        elementwise([type, count], [("shl", type), ("shr", type)], 5)


def test_every_operation_has_the_types_it_should() -> None:
    taken = {name: [t for t in TYPES.values() if signatures(name, t)] for name in OPS}
    assert all(taken[name] for name in OPS if name not in APART)
    assert taken["sqrt"] == [t for t in TYPES.values() if t.is_float]
    assert taken["idiv"] == INTEGERS
    assert taken["and"] == [t for t in TYPES.values() if not t.is_float]
    assert taken["add"] == [t for t in TYPES.values() if t != Bool]
    assert taken["eq"] == taken["min"] == list(TYPES.values())


def plain(name: str, *args: Any, type: Type | None = None) -> Expr:
    """An operation as it stands."""
    exprs = tuple(a if isinstance(a, Expr) else const(a) for a in args)
    result = type or (Bool if name in COMPARISONS else exprs[-1].type)
    return Op(name, exprs, result)


def held(type: Type, value: Any) -> Var:
    variable = Var("x", type)
    variable.held = value
    return variable


@settings(max_examples=400)
@given(st.integers(0, 2**32), st.lists(st.integers(0, 127), min_size=6, max_size=6))
def test_folding_keeps_what_expressions_mean(seed: int, given: list[int]) -> None:
    """A quotient is folded only where the divisor is known not to be 0, so none is made here."""
    known: list[Any] = [held(t, v) for t, v in zip(programs.KINDS * 2, given, strict=True)]
    made = []
    for make in (op, plain):

        def without_quotients(name: str, *args: Any, make: Any = make, **keywords: Any) -> Expr:
            name = {"idiv": "sub", "irem": "add"}.get(name, name)
            return make(name, *args, **keywords)

        made.append(programs.number(Random(seed), known, Int64, 4, without_quotients))
    host = ExecutingHost()
    assert host.evaluate(made[0]) == host.evaluate(made[1])


def test_folding_of_what_is_special() -> None:
    host = ExecutingHost()
    for name in ("eq", "ne", "lt", "le", "gt", "ge", "min", "max"):
        for type, value in ((Float64, math.nan), (Float64, 1.5), (Int64, 3), (Bool, True)):
            x = held(type, value)
            found = [host.evaluate(make(name, x, x)) for make in (op, plain)]
            np.testing.assert_array_equal(*found)
    for a, m in ((a, m) for a in range(6) for m in range(1, 5)):
        x, size = held(Int64, a), held(Int64, m)
        product = op("mul", x, size)
        for more in (0, m, m - 1):
            dividend = op("add", product, size) if more else product
            dividend = op("sub", dividend, m - more) if 0 < more < m else dividend
            assert host.evaluate(op("idiv", dividend, size)) == (a * m + more) // m
        whole = op("add", op("mul", op("idiv", x, size), size), op("irem", x, size))
        assert host.evaluate(whole) == a


# ------------------------------------------------------------------------------- memory and control


@every_type
@pytest.mark.parametrize("value", [0, 1, -0.0])
def test_fill(type: Type, value: float) -> None:
    def filled(s: Sample) -> None:
        data, low, high = s.buffer("data", type), s.input("low"), s.input("high")
        s.host.fill(data, low, high, cast(const(value), type))

    program, data = Program(filled), np.full(50, 1, type.dtype)
    for low, high in ((3, 40), (10, 10), (10, 4)):
        wanted = data.copy()
        wanted[low : max(low, high)] = value
        done = everywhere(program, [data], low, high)
        assert done.arrays[0].data.tobytes() == wanted.tobytes()
        assert run(program.compiled(), [data], [low, high])[0][0].tobytes() == wanted.tobytes()
        data[:] = 1


@every_type
def test_inputs_and_outputs(type: Type) -> None:
    def given(s: Sample) -> None:
        for k in range(2):
            s.output(s.input(f"x{k}", type))

    low, high = (-1.5, 2.25) if type.is_float else (type.lowest, type.highest)
    assert everywhere(Program(given), [], low, high).outputs == [low, high]


def test_bools_are_bytes_in_memory() -> None:
    def negated(s: Sample) -> None:
        a, b = s.buffer("a", Bool), s.buffer("b", Bool)
        s.host.store(b, ZERO, op("not", s.host.load(a, ONE)))

    done = everywhere(Program(negated), [np.array([True, False]), np.zeros(2, bool)])
    assert done.arrays[1].data.tobytes() == b"\1\0"


def searched(s: Sample, type: Type) -> None:
    data, low, high = s.buffer("data", type), s.input("low"), s.input("high")
    s.output(s.host.search(data, low, high, s.input("key", type)))


@every_integer
def test_search(type: Type) -> None:
    """Within one window of entries, just beyond it, and far away; other fibers' entries around."""
    program = Program(searched, (type,))
    for length in (0, 1, 2, 15, 16, 17, 18, 33, 50):
        middle = np.arange(1, 2 * length + 1, 2)
        data = np.concatenate([[9, 0], middle, [0, 0]]).astype(type.dtype)
        for key in range(0, 2 * length + 3):
            (found,) = everywhere(program, [data], 2, 2 + length, key).outputs
            assert found == 2 + np.searchsorted(middle, key)


def disjoint(s: Sample, type: Type, other: Type) -> None:
    a, b = s.buffer("a", type), s.buffer("b", other)
    i, shift, j = (s.input(name) for name in ("i", "shift", "j"))
    s.output(cast(s.host.disjoint(a, i, shift, b, j), Int64))


@every_integer
def test_disjoint(type: Type) -> None:
    rng = np.random.default_rng(0)
    for other in (Int32, UInt64, type):
        bits = min(type.bits, other.bits)
        for _ in range(20):
            a, b = (rng.integers(0, 100, 9).astype(t.dtype) for t in (type, other))
            i, shift, j = (int(rng.integers(low, 2)) for low in (0, -9, 0))
            moved = {(int(x) + shift) % 2**bits for x in a[i : i + 8]}
            wanted = moved.isdisjoint({int(x) % 2**bits for x in b[j : j + 8]})
            done = everywhere(Program(disjoint, (type, other)), [a, b], i, shift, j)
            assert done.outputs == [wanted]


entries = st.dictionaries(st.integers(0, 60), st.integers(-5, 5), max_size=40)


@settings(max_examples=60)
@given(entries, entries, st.integers(0, 3))
def test_what_grows(a: dict[int, int], b: dict[int, int], room: int) -> None:
    arrays: list[np.ndarray] = []
    for own in (a, b):
        keys = sorted(own)
        arrays += np.array(keys, np.int32), np.array([own[k] for k in keys], float)
    arrays += np.zeros(room, np.int32), np.zeros(room)
    done = everywhere(Program(programs.union), arrays, len(a), len(b))
    sums = {k: a.get(k, 0) + b.get(k, 0) for k in sorted({*a, *b})}
    assert done.outputs == [len(sums)]
    assert done.arrays[4][: len(sums)].tolist() == list(sums)
    assert done.arrays[5][: len(sums)].tolist() == list(sums.values())


@settings(max_examples=60)
@given(st.sets(st.integers(0, 300)), st.sets(st.integers(0, 300)))
def test_what_is_searched_and_counted(a: set[int], b: set[int]) -> None:
    arrays = [np.array(sorted(x), np.int32) for x in (a, b)]
    done = everywhere(Program(programs.intersection), arrays, len(a), len(b))
    assert done.outputs == [len(a & b)]


def collatz(s: Sample) -> None:
    """Steps below n: a while and an if within a for, and cells used across them."""
    steps, n, host = s.buffer("steps", Int64), s.input("n"), s.host
    total = s.output(ZERO)

    def entry(i: Expr) -> None:
        x = host.cell(i)

        def step() -> None:
            old = host.get(x)
            halved = lambda: host.set(x, op("idiv", old, 2))  # noqa: E731
            tripled = lambda: host.set(x, op("add", op("mul", old, 3), 1))  # noqa: E731
            host.branch(op("eq", op("irem", old, 2), 0), halved, tripled)
            s.add_at(steps, i, ONE)
            s.add_to(total, 1)

        host.loop(lambda: op("gt", host.get(x), 1), step)

    host.count(ONE, up_to(n), entry)


def test_loops_and_branches_in_each_other() -> None:
    done = everywhere(Program(collatz), [np.zeros(40, np.int64)], 40)
    assert done.arrays[0][27] == 111


def test_what_is_remembered_is_derived_once() -> None:
    """The body of a loop however often it is run, an arm when it is first reached, or never."""
    host, derived = RememberingHost(), Counter[str]()
    total = host.cell(ZERO)

    def add(name: str, i: Expr) -> None:
        derived[name] += 1
        host.set(total, op("add", host.get(total), i))

    def body(i: Expr) -> None:
        derived["body"] += 1
        host.branch(op("gt", i, 97), lambda: add("late", i), lambda: add("early", i))
        host.branch(op("gt", i, 100), lambda: add("never", i))

    for _ in range(2):
        host.count(ONE, const(100), body)
    assert host.evaluate(host.get(total)) == 2 * 5050
    assert derived == {"body": 2, "early": 2, "late": 2}


def known_in_an_arm(s: Sample) -> None:
    """A loop, without steps in the first round, in an arm whose condition is asked again."""
    host, n, total = s.host, s.input("n"), s.output(ZERO)
    is_positive = op("gt", n, 0)

    def inner(_: Expr) -> None:
        host.branch(is_positive, lambda: s.add_to(total, 1), lambda: s.add_to(total, 100))

    def outer(i: Expr) -> None:
        host.branch(is_positive, lambda: host.count(ONE, op("sub", i, ONE), inner))

    host.count(ONE, n, outer)


def test_what_is_known_in_an_arm_is_known_where_it_is_derived_later() -> None:
    assert everywhere(Program(known_in_an_arm), [], 3).outputs[0] == 3


def test_what_is_apart_changes_the_cells_and_buffers_around() -> None:
    x = np.arange(1.0, 96.0)
    done = everywhere(Program(programs.in_batches), [x, np.zeros(0, np.float32)], 95, rtol=1e-12)
    assert done.arrays[1][:95].tolist() == x.tolist() and done.outputs[2] == 9


def shared(s: Sample) -> None:
    """What counts up from a number into an array, in a cell: three times, as one procedure."""
    data, n, host = s.buffer("data", Int64), s.input("n"), s.host
    one, other = s.output(ZERO), s.output(const(5))

    def body(values: tuple[Expr, ...], cells: Any) -> None:
        (first,), (cell,) = values, cells
        for k in range(8):
            s.add_at(data, const(k), op("add", op("mul", first, k), host.get(cell)))
            s.add_to(cell, 1)

    for value, cell in ((n, one), (op("add", n, 7), other), (n, other)):
        host.share("counting", (value,), (cell,), body)


def test_procedures() -> None:
    program = Program(shared)
    assert len(program.residual.procedures) == 1
    done = everywhere(program, [np.zeros(8, np.int64)], 3)
    assert done.outputs == [8, 21]
    of = lambda k: 3 * k + k + 10 * k + 5 + k + 3 * k + 13 + k  # noqa: E731
    assert done.arrays[0].tolist() == [of(k) for k in range(8)]


def fails(s: Sample, *types: Type) -> None:
    """Fails in one of four ways, of which two are apart; tells values of many types."""
    which, h = s.input("which"), s.buffer("h", Int64)
    inputs = tuple([s.input(f"x{k}", t) for k, t in enumerate(types)])

    def fail(number: int) -> None:
        failing = lambda: s.host.fail("type", f"no. {number}: {{}} {{}} {{}} {{}}", inputs)  # noqa: E731
        s.host.branch(op("eq", which, number), failing)

    def rarely() -> None:
        s.host.store(h, ZERO, which)
        fail(2)
        fail(3)

    fail(0)
    s.host.branch(op("gt", which, 1), rarely, is_rare=True)
    fail(1)


def test_failures_tell_values_of_every_type_and_which_it_was() -> None:
    program = Program(fails, (UInt64, Float32, Bool, Float64))
    inputs = [2**64 - 1, 0.5, True, -1e300]
    for number in range(4):
        done = everywhere(program, [np.ones(1, np.int64)], number, *inputs)
        assert done.error == ("type", f"no. {number}: {2**64 - 1} 0.5 True -1e+300")
    done = everywhere(program, [np.ones(1, np.int64)], 4, *inputs)
    assert done.error is None and done.arrays[0].tolist() == [4]


def test_a_failure_comes_after_what_came_before() -> None:
    y, x, k = np.arange(6.0), np.arange(10.0, 14.0), np.array([1, 2, 4, 5, 1, 1], np.int32)
    assert everywhere(Program(programs.gather), [y, x, k], 6, 4).error == (
        *("bounds", "5 is not in 1:4"),
    )
    k[3] = 4
    done = everywhere(Program(programs.gather), [y, x, k], 6, 4)
    assert done.arrays[0].tolist() == [10, 11, 13, 13, 10, 10]


@settings(max_examples=100)
@given(
    st.integers(0, 2**32), st.integers(2, 6), st.lists(st.integers(0, 100), min_size=3, max_size=3)
)
def test_programs_at_random(seed: int, count: int, inputs: list[int]) -> None:
    arrays = [np.arange(programs.SIZE, dtype=t.dtype)[::-1] * 3 for t in programs.KINDS]
    everywhere(Program(programs.at_random, (seed, count)), arrays, *inputs)
