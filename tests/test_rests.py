"""Rests of loop nests that are the same are recorded once, as procedures that are called (rule Rest)."""

from __future__ import annotations

import signal
import time
from typing import Any

import numpy as np
import pytest
from kernels import kernel, run_congruent

from finchlang import FinchError, Session, Tensor
from finchlang.host.execute import run_residual
from finchlang.host.fold import ONE, add, const
from finchlang.host.ir import Call, Cell, Code, Get, Let, Procedure, Residual, Set, Var
from finchlang.host.print import text
from finchlang.host.verify import check
from finchlang.host.walk import everything
from finchlang.run.kernel import Kernel
from finchlang.source import Bug
from finchlang.tensors.formats import parse_format
from finchlang.text.parse import parse_kernel
from finchlang.types import Int64

LEVELS = ("SparseList", "SparseByteMap", "Dense", "SparseHash", "RunList", "SparseBlockList")


def nested(levels: tuple[str, ...]) -> str:
    return "(".join((*levels, "Element(0)")) + ")" * len(levels)


def cube(rng: np.random.Generator, order: int, density: float) -> np.ndarray:
    shape = (4, 3, 5, 2)[:order]
    return np.where(rng.random(shape) < density, rng.integers(1, 9, shape), 0)


def operation(names: str, indices: str, operator: str) -> str:
    value = f"{names[0]}[{indices}]"
    for name in names[1:]:
        value = f"{operator}({value}, {name}[{indices}])"
    return value


def statement(names: str, order: int, operator: str = "xor", begin: str = "R .= 0") -> str:
    indices = "ijkl"[:order]
    loops = ", ".join(f"{i} = _" for i in reversed(indices))
    access = ", ".join(indices)
    assignment = "=" if begin else "+="
    value = operation(names, access, operator)
    return f"{begin}\nfor {loops}\nR[{access}] {assignment} {value}\nend"


CASES = [(order, count, seed) for order in (3, 4) for count in (2, 3) for seed in range(2)]


@pytest.mark.parametrize("order, count, seed", CASES)
def test_unions_of_many_modes(order: int, count: int, seed: int) -> None:
    """Under all hosts as NumPy has it, in equally many steps; the first of lists alone."""
    rng = np.random.default_rng([order, count, seed])
    names = "ABC"[:count]
    arrays = {name: cube(rng, order, rng.choice([0.1, 0.5])) for name in names}
    values: dict[str, Any] = {}
    for name, array in arrays.items():
        levels = tuple(rng.choice(LEVELS, order)) if seed else ("SparseList",) * order
        values[name] = Tensor.from_numpy(array, nested(levels))
    operator, function = (("xor", np.bitwise_xor), ("max", np.maximum))[seed % 2]
    expected = arrays["A"]
    for name in names[1:]:
        expected = function(expected, arrays[name])
    body = statement(names, order, operator)
    result = Tensor(nested(("SparseList",) * order), *expected.shape)
    found = run_congruent(kernel(body), {**values, "R": result})
    np.testing.assert_array_equal(found["R"], expected)
    session = Session()
    for name, value in {**values, "R": result}.items():
        session[name] = value
    session.run(kernel(body))
    np.testing.assert_array_equal(session["R"].to_numpy(), expected)


def residual(names: str, order: int, rules: str = "all") -> Residual:
    format = parse_format(nested(("SparseList",) * order))
    program = parse_kernel(f"begin\n{statement(names, order)}\nend")
    return Kernel(program, dict.fromkeys((*names, "R"), format), rules).residual


def test_what_is_called_once_is_in_its_place() -> None:
    """So programs without equal rests are what they were."""
    assert not residual("A", 4).procedures and not residual("AB", 2).procedures
    names = {procedure.name for procedure in residual("AB", 4).procedures}
    calls = [s.name for s in everything(residual("AB", 4)) if isinstance(s, Call)]
    assert names and all(calls.count(name) > 1 for name in names)
    assert text(residual("A", 4)) == text(residual("A", 4, "all-Rest"))


NEST = """for k = _, j = _, i = _
    {}
end"""


def triple(seed: int) -> Tensor:
    array = cube(np.random.default_rng(seed), 3, 0.6)
    return Tensor.from_numpy(array, nested(("SparseList",) * 3))


@pytest.mark.parametrize("engine", ["interpret", "residual", "native"])
def test_failures_in_a_rest_are_told_and_undone(engine: str) -> None:
    """What is changed in place is as before, whether there would be a log of it or not."""
    session = Session(engine)
    before = np.arange(12.0)
    session["A"], session["B"], session["y"] = triple(1), triple(2), before.copy()
    with pytest.raises(FinchError, match="13 of dimension 1 is not in 1:12") as caught:
        session.run(kernel(NEST.format("y[A[i, j, k] + B[i, j, k]] += 1")))
    assert caught.value.kind == "bounds"
    np.testing.assert_array_equal(session["y"], before)


@pytest.mark.parametrize("engine", ["interpret", "residual", "native"])
def test_what_is_updated_in_place(engine: str) -> None:
    session = Session(engine)
    a, b = triple(1), triple(2)
    session["A"], session["B"], session["R"] = a, b, np.ones((4, 3, 5), np.int64)
    session.run(kernel(statement("AB", 3, "xor", begin="")))
    np.testing.assert_array_equal(session["R"], 1 + (a.to_numpy() ^ b.to_numpy()))


def test_an_interrupt_in_a_rest() -> None:
    """Steps in procedures count, too."""
    session = Session()
    eye = Tensor.from_numpy(np.ones((3, 3)), "SparseList(SparseList(Element(0.0)))")
    session["A"], session["B"], session["n"], session["s"] = eye, eye, 10**10, 0.0
    session.run("s = Scalar(0.0)")
    program = kernel("for k = _, j = _, i = 1:n\n    s[] += (A[j, k] + B[j, k]) * sin(i)\nend")

    def handler(*_: object) -> None:
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 2.0)
    start = time.perf_counter()
    try:
        with pytest.raises(FinchError, match="interrupted"):
            session.run(program)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert time.perf_counter() - start < 10


def swapping() -> Residual:
    """A procedure that is given its own cells in the other order, and values that are its own inputs."""
    a, b, n = Cell("a", Int64), Cell("b", Int64), Var("n", Int64)
    x, y, m = Var("x", Int64), Var("y", Int64), Var("m", Int64)
    body = Code((Get(x, a), Get(y, b), Set(a, add(y, n)), Set(b, x)))
    twice = Procedure("twice", (n,), (a, b), body)
    calls = (
        Call("twice", (add(n, ONE),), (a, b), (), ()),
        Call("twice", (n,), (b, a), (), ()),
    )
    begin = (Set(a, const(10)), Set(b, const(20)), Let(m, add(n, ONE)))
    return Residual("swapping", (), (n,), (a, b), Code((*begin, *calls)), procedures=(twice,))


def test_values_are_copied_and_cells_are_not() -> None:
    program = swapping()
    check(program)
    # 10, 20 become 20 + 6, 10 by the first call, and b, a become 26 + 5, 10 by the second
    assert run_residual(program, [], [5])[2] == [10, 31]
    assert "call twice(n + 1; a, b)" in text(program)


@pytest.mark.parametrize(
    "call, message",
    [
        (Call("once", (ONE,), (), (), ()), "unknown procedure"),
        (Call("twice", (const(1.0),), (), (), ()), "is Float64, not Int64"),
    ],
)
def test_calls_that_do_not_fit(call: Call, message: str) -> None:
    twice = Procedure("twice", (Var("n", Int64),), (), Code(()))
    with pytest.raises(Bug, match=message):
        check(Residual("r", (), (), (), Code((call,)), procedures=(twice,)))


def test_a_procedure_has_only_what_it_is_given() -> None:
    n = Var("n", Int64)
    twice = Procedure("twice", (), (), Code((Let(Var("m", Int64), add(n, ONE)),)))
    with pytest.raises(Bug, match="not bound"):
        check(Residual("r", (), (n,), (), Code(()), procedures=(twice,)))
