"""The prover is right: what it calls certain holds whatever the variables are."""

from __future__ import annotations

from functools import reduce
from typing import Any

from hypothesis import given, settings, strategies as st

from finchlang.algebra.bounds import at_most, greater, less_than, lesser
from finchlang.host.construct import add, const, maximum, minimum, op, sub
from finchlang.host.executing import ExecutingHost
from finchlang.host.ir import Expr, Var
from finchlang.host.recording import ResidualHost
from finchlang.syntax.types import Int64

SMALL = st.integers(-4, 4)


class World:
    """Variables with values, bounds that hold for them, and expressions over them."""

    def __init__(self, draw: Any):
        self.draw, self.host = draw, ExecutingHost()
        self.variables: list[Var] = []
        for _ in range(draw(st.integers(1, 4))):
            self.variables.append(self.variable())

    def variable(self) -> Var:
        """A variable whose value lies within its bounds, or that is defined by an expression."""
        if self.variables and self.draw(st.booleans()):
            definition = self.expression(2)
            found = Var("d", Int64, definition=definition)
            found.held = self.host.evaluate(definition)
            return found
        value = self.draw(SMALL)
        lower = self.bound(lambda v: v <= value)
        upper = self.bound(lambda v: v >= value)
        found = Var("v", Int64, lower, upper)
        found.held = value
        return found

    def bound(self, holds: Any) -> Expr | None:
        if self.draw(st.booleans()):
            return None
        candidate = self.expression(1)
        return candidate if holds(self.host.evaluate(candidate)) else None

    def expression(self, depth: int) -> Expr:
        leaves = [const(self.draw(SMALL)), *self.variables]
        if depth == 0 or self.draw(st.booleans()):
            return self.draw(st.sampled_from(leaves))
        combine = self.draw(st.sampled_from([add, sub, minimum, maximum, scaled, divided]))
        if combine in (scaled, divided):
            return combine(self.expression(depth - 1), const(self.draw(st.integers(1, 3))))
        return combine(self.expression(depth - 1), self.expression(depth - 1))


def scaled(a: Expr, b: Expr) -> Expr:
    return op("mul", a, b)


def divided(a: Expr, b: Expr) -> Expr:
    return op("idiv", a, b)


@settings(max_examples=200)
@given(st.data())
def test_what_is_proved_holds(data: st.DataObject) -> None:
    """And sums, differences, the shortest minimum and maximum are worth what they say."""
    world = World(data.draw)
    a, b = world.expression(3), world.expression(3)
    x, y = world.host.evaluate(a), world.host.evaluate(b)
    assert not at_most(a, b) or x <= y
    assert not less_than(a, b) or x < y
    for found, value in ((lesser, min), (greater, max), (add, int.__add__), (sub, int.__sub__)):
        assert world.host.evaluate(found(a, b)) == value(x, y)


def test_what_the_rules_rely_on_is_proved() -> None:
    one = const(1)
    n = Var("n", Int64, lower=const(0))
    last = Var("last", Int64, lower=const(0), upper=n)
    at = Var("at", Int64, lower=one, upper=last)
    stride = Var("stride", Int64)
    stop = Var("stop", Int64, lower=at, definition=minimum(last, stride))
    assert at_most(one, at) and at_most(at, n) and at_most(at, stop)
    assert at_most(stop, last) and at_most(stop, n) and at_most(stop, stride)
    assert at_most(sub(stop, 1), n) and less_than(sub(stop, 1), stop)
    assert less_than(at, add(last, 1))
    assert at_most(minimum(at, stride), maximum(at, stride))
    assert lesser(last, n) is last and greater(last, n) is n
    assert lesser(n, n) is n


def test_what_is_not_known_is_not_proved() -> None:
    m, n = Var("m", Int64), Var("n", Int64, lower=const(0))
    assert not at_most(m, n) and not at_most(n, m)
    assert not less_than(n, n) and at_most(n, n)
    assert not at_most(const(1), n)
    assert not at_most(maximum(m, n), n)
    assert not at_most(n, minimum(m, n))


def test_a_sum_is_at_least_its_terms_beside_what_is_not_negative() -> None:
    n, m, x = Var("n", Int64, const(0)), Var("m", Int64, const(0)), Var("x", Int64)
    assert at_most(n, add(n, m))
    assert at_most(const(0), add(n, n)) and at_most(n, add(add(n, m), n))
    assert not at_most(n, add(n, x)) and not less_than(n, add(n, n))


def test_bounds_are_seen_through_many_names() -> None:
    n, host = Var("n", Int64), ResidualHost()
    stop, start = (host.let(add(n, 1), name) for name in ("stop", "start"))
    for k in range(4):
        stop = host.let(minimum(stop, Var(f"m{k}", Int64)), "stop")
    assert less_than(stop, host.let(maximum(Var("m", Int64), add(start, 1)), "start"))


def test_differences_meet_themselves_again() -> None:
    """A shift by the size of what stands before, there and back."""
    n, m = Var("n", Int64), Var("m", Int64)
    assert sub(const(1), sub(const(1), n)) is n
    assert sub(m, sub(const(1), n)) is add(add(m, n), const(-1))
    assert add(sub(const(1), n), const(-3)) is sub(const(-2), n)
    assert sub(add(n, m), sub(add(n, m), n)) is n
    assert add(sub(const(2), n), m) is add(sub(m, n), const(2))


def test_of_many_operands() -> None:
    """A minimum or maximum of however many is none of the things that a search gives up on."""
    many: list[Expr] = [Var(f"v{k}", Int64) for k in range(100)]
    least, most = reduce(minimum, many), reduce(maximum, many)
    assert all(at_most(least, v) and at_most(v, most) for v in many)
    assert not any(at_most(v, least) or at_most(most, v) for v in many)
