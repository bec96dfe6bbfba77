"""The rules of Fig 14, and Unfurl, Loop and Access of Fig 15, by their names, under both hosts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from both_hosts import Memory, loop_sum, run_both, vector
from kernels import kernel, run_congruent
from looplet_nests import LookupNest

from finchlang.host.execute import ExecutingHost
from finchlang.host.fold import const
from finchlang.looplets import Run
from finchlang.normalize.types import type_of
from finchlang.rules.engine import Machine, State
from finchlang.rules.expressions import evaluate, is_ready, resolve
from finchlang.rules.table import rules
from finchlang.source import Bug, FinchError
from finchlang.syntax import (
    EMPTY,
    MISSING,
    Assign,
    Block,
    Call,
    Extent,
    Index,
    Literal,
    Loop,
    Sieve,
    Value,
    Variable,
)
from finchlang.tensors.tensor import Scalar, Tensor
from finchlang.text.parse import parse_kernel
from finchlang.types import Bool, Float64, Int8, Int64

S = "Scalar(0.0)"


@pytest.fixture
def memory() -> Memory:
    return Memory()


def state() -> State:
    return State(ExecutingHost(), {})


# ------------------------------------------------------------------------------------ expressions


@pytest.mark.parametrize(
    "literal, type",
    [
        (Literal(2), Int64),
        (Literal(2.5), Float64),
        (Literal(True), Bool),
        (Literal(1, "Int8"), Int8),
    ],
)
def test_literal(literal: Literal, type: Any) -> None:
    assert evaluate(literal, state()) is const(literal.value, type)
    assert type_of(literal) == type


def test_literals_that_are_no_numbers_have_no_value() -> None:
    with pytest.raises(FinchError) as error:
        evaluate(Literal(MISSING), state())
    assert error.value.kind == "type"


def test_value(memory: Memory) -> None:
    expr = memory.number(5)
    assert evaluate(Value(expr), state()) is expr
    assert type_of(Value(expr)) == Int64


def test_variable(memory: Memory) -> None:
    """A name stands for its tensor; one that stands for nothing got past normalisation."""
    tensor = vector("a", 3, lambda host: Run(Literal(0.0)))
    with_a = State(ExecutingHost(), {"a": tensor})
    assert resolve(Variable("a"), with_a) is tensor
    assert resolve(tensor, with_a) is tensor
    with pytest.raises(Bug):
        resolve(Variable("b"), with_a)


def test_call(memory: Memory) -> None:
    x = Value(memory.number(2.5, Float64))
    host = ExecutingHost()
    found = evaluate(Call(Variable("*"), (x, Literal(4))), State(host, {}))
    assert found.type == Float64 and host.evaluate(found) == 10.0
    assert evaluate(Call(Variable("+"), (Literal(2), Literal(3))), state()) is const(5)


def test_call_of_what_is_no_operator_or_does_not_take_its_arguments() -> None:
    with pytest.raises(FinchError) as error:
        evaluate(Call(Variable("nonsense"), (Literal(2),)), state())
    assert error.value.kind == "unknown name"
    with pytest.raises(FinchError) as error:
        evaluate(Call(Variable("&&"), (Literal(2), Literal(True))), state())
    assert error.value.kind == "type"


def test_ready_expressions() -> None:
    assert is_ready(Call(Variable("+"), (Literal(1), Value(const(2)))))
    assert not is_ready(Call(Variable("+"), (Literal(1), Index("i"))))
    assignment = parse_kernel("s[] += a[i]")
    assert isinstance(assignment, Assign) and not is_ready(assignment.value)


# ------------------------------------------------------------------------------------------ loops


@pytest.mark.parametrize("n", [0, 1, 5])
@pytest.mark.parametrize("static", [True, False])
def test_loop(memory: Memory, n: int, static: bool) -> None:
    size = const(n) if static else memory.number(n)
    found = loop_sum([], memory, value="i * i", n=size)
    assert found["s"] == sum(i * i for i in range(n + 1))
    assert found.steps["count"] == (0 if static and n < 2 else n)
    assert found.staged["Loop"] == (0 if static and n == 0 else 1)


def test_extent(memory: Memory) -> None:
    """Ends are evaluated once, before the loop; they must be integers."""
    text = "begin\ns .= 0.0\nfor i = n + 1:2 * n\ns[] += 1\nend\nend"
    found = run_both(text, [], {"s": S}, memory, {"n": memory.number(4)})
    assert found["s"] == 4.0
    assert found.staged["Extent"] == 1
    text = "begin\ns .= 0.0\nfor i = 1:x\ns[] += 1\nend\nend"
    found = run_both(text, [], {"s": S}, memory, {"x": memory.number(2.5, Float64)})
    assert found.error is not None and found.error.kind == "type"


# ------------------------------------------------------------------------------- unfurl and access


def test_unfurl(memory: Memory) -> None:
    """All accesses with the loop's index unfurl at once, and each tensor once."""
    unfurled = []

    def make(host: Any) -> Any:
        unfurled.append(host)
        return Run(Literal(2.0))

    tensors = [vector("a", 5, make), vector("b", 5, make)]
    found = loop_sum(tensors, memory, value="a[i] * b[i] + a[i]", n=5)
    assert found["s"] == 30.0
    assert found.interpreted["Unfurl"] == found.staged["Unfurl"] == 1
    assert len(unfurled) == 2 * 2  # two tensors under two hosts


@pytest.mark.parametrize("lo, hi", [(1, 5), (5, 5), (6, 5), (9, 3), (-3, -5)])
@pytest.mark.parametrize("static", [True, False])
def test_unfurl_inside(memory: Memory, lo: int, hi: int, static: bool) -> None:
    """An empty loop is inside wherever it is."""
    numbers = {"lo": lo, "hi": hi}
    exprs = {k: const(v) if static else memory.number(v) for k, v in numbers.items()}
    text = "begin\ns .= 0.0\nfor i = lo:hi\ns[] += a[i]\nend\nend"
    nest = LookupNest(memory, [(1, 5)], [[1.0] * 5])
    found = run_both(text, [nest.tensor("a")], {"s": S}, memory, exprs)
    assert found.error is None
    assert found["s"] == max(0, hi - lo + 1)


@pytest.mark.parametrize("lo, hi", [(0, 3), (1, 6), (6, 6), (-2, 9)])
@pytest.mark.parametrize("static", [True, False])
def test_unfurl_outside(memory: Memory, lo: int, hi: int, static: bool) -> None:
    """A loop beyond the dimension fails, and says where."""
    numbers = {"lo": lo, "hi": hi}
    exprs = {k: const(v) if static else memory.number(v) for k, v in numbers.items()}
    text = "begin\ns .= 0.0\nfor i = lo:hi\ns[] += a[i]\nend\nend"
    nest = LookupNest(memory, [(1, 5)], [[1.0] * 5])
    found = run_both(text, [nest.tensor("a")], {"s": S}, memory, exprs)
    assert found.error is not None and found.error.kind == "bounds"
    assert str(hi) in found.error.message and "5" in found.error.message


# ------------------------------------------------------------------------------------- statements


@pytest.mark.parametrize(
    "op, fill, expected",
    [("+", 0.0, 2.0), ("min", np.inf, -4.0), ("max", -np.inf, 5.0), ("*", 1.0, -20.0)],
)
def test_assign(op: str, fill: float, expected: float) -> None:
    x = np.array([1.0, -4.0, 5.0, 1.0, -1.0, 1.0])[:4] if op == "*" else np.array([1.0, -4.0, 5.0])
    shown = repr(fill).replace("inf", "Inf")
    found = run_congruent(
        kernel(f"s .= {shown}\nfor i = _\ns[] <<{op}>>= x[i]\nend"), {"x": x, "s": Scalar(fill)}
    )
    assert found["s"] == expected
    assert found.rules["Assign"] == len(x)


def test_assign_converts_or_refuses() -> None:
    f = np.array([0.1, 0.2])
    found = run_congruent(
        kernel("y .= 0\nfor i = _\ny[i] = x[i]\nend"), {"x": f, "y": np.zeros(2, np.float32)}
    )
    assert found["y"].dtype == np.float32
    np.testing.assert_array_equal(found["y"], f.astype(np.float32))
    found = run_congruent(
        kernel("y .= 0\nfor i = _\ny[i] = x[i]\nend"), {"x": f, "y": np.zeros(2, np.int64)}
    )
    assert found.error is not None and found.error.kind == "type"


def test_sieve_needs_a_bool(memory: Memory) -> None:
    found = run_both("if n\ns[] += 1\nend", [], {"s": S}, memory, {"n": memory.number(3)})
    assert found.error is not None and found.error.kind == "type"


# ------------------------------------------------------------------------------------- life cycle


def test_declare() -> None:
    """A declaration empties a tensor and gives it the size of the indices that write it."""
    found = run_congruent(
        kernel("y .= 0\nfor i = _\ny[i] = x[i]\nend"),
        {"x": np.array([1.0, 0.0, 2.0]), "y": Tensor("SparseList(Element(0.0))", 9)},
    )
    y = found.session["y"]
    assert y.shape == (3,)
    np.testing.assert_array_equal(found["y"], [1.0, 0.0, 2.0])
    assert found.rules["Declare"] == 1


def test_declare_with_another_value() -> None:
    """`.= v` fills a tensor that is Dense throughout; any other must have that fill."""
    text = kernel("y .= 5\nfor i = 1:2\ny[i] += x[i]\nend")
    x = np.array([1.0, 2.0])
    found = run_congruent(text, {"x": x, "y": np.zeros(2)})
    np.testing.assert_array_equal(found["y"], [6.0, 7.0])
    found = run_congruent(text, {"x": x, "y": Tensor("SparseByteMap(Element(0.0))", 2)})
    assert found.error is not None and found.error.kind == "type"


def test_declare_an_empty_dimension() -> None:
    found = run_congruent(kernel("y .= 0\nfor i = 3:2\ny[i] = 1.0\nend"), {"y": np.zeros(5)})
    assert found.error is None
    assert found["y"].shape in ((0,), (2,))


def test_freeze() -> None:
    """A tensor is read after it is frozen: its storage is then complete."""
    found = run_congruent(
        kernel("t .= 0\nfor i = _\nt[i] = x[i]\nend\ns .= 0.0\nfor i = _\ns[] += t[i]\nend"),
        {
            "x": np.array([1.0, 0.0, 2.0]),
            "t": Tensor("SparseList(Element(0.0))", 3),
            "s": Scalar(0.0),
        },
    )
    assert found["s"] == 3.0
    assert found.rules["Freeze"] == 2
    assert found.session["t"].storage[0]["ptr"].tolist() == [0, 3]  # stored zeros are data


def test_thaw() -> None:
    """Updating a tensor that was not declared keeps what is in it."""
    found = run_congruent(
        kernel("for i = _\ny[i] += x[i]\nend"),
        {"x": np.array([1.0, 2.0]), "y": np.array([10.0, 20.0])},
    )
    np.testing.assert_array_equal(found["y"], [11.0, 22.0])
    assert found.rules["Thaw"] == 1


# ----------------------------------------------------------------------------------------- engine


def test_no_rule_applies_to_nonsense() -> None:
    with pytest.raises(Bug, match="no rule applies"):
        Machine(rules()).run(Literal(1), state())


def test_the_empty_block_is_done() -> None:
    assert Machine(rules()).run(EMPTY, state()).tensors == {}


def test_the_tracer_is_told_every_step() -> None:
    """Each rule's result is what the next rule gets, at the same depth."""
    told: list[Any] = []
    loop = Loop(Index("i"), Extent(Literal(1), Literal(3)), EMPTY)
    program = Block((Sieve(Literal(True), EMPTY), loop))

    def tracer(applied: Any) -> None:
        told.append((applied.name, applied.before, applied.after, applied.depth))

    Machine(rules(), tracer).run(program, state())
    assert told[0][1] is program
    assert told[-1][2] == EMPTY
    for one, other in zip(told, told[1:], strict=False):
        assert one[3] != other[3] or one[2] is other[1]
