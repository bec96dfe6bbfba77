"""Random residual programs: compiled code and the plain evaluator do the same."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ir_samples import Sample, up_to
from native_calls import run

from finchlang.host.execute import run_residual
from finchlang.host.fold import ZERO, cast, const, op
from finchlang.host.ir import Expr, Residual
from finchlang.host.verify import check
from finchlang.native.jit import compile_residual
from finchlang.source import FinchError
from finchlang.types import Int8, Int64, Type, UInt32

pytestmark = pytest.mark.optimised

SIZE = 8
BINARY = ("add", "sub", "mul", "idiv", "irem", "min", "max", "and", "or", "xor", "shl", "shr")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


class Writer:
    """Writes statements chosen by `draw`; `scope` are the expressions that may be used."""

    def __init__(self, draw: st.DrawFn):
        self.draw = draw
        self.sample = Sample("random")
        self.host = self.sample.host
        kinds = (Int64, UInt32, Int8)
        self.buffers = [self.sample.buffer(f"b{k}", kind) for k, kind in enumerate(kinds)]
        self.scope: list[Expr] = [self.sample.input(f"n{k}", kind) for k, kind in enumerate(kinds)]
        self.cells = [self.sample.output(self.number(Int64, 1)) for _ in range(2)]

    def choose(self, *options):
        return self.draw(st.sampled_from(options))

    def number(self, type: Type, depth: int = 2) -> Expr:
        known = [expr for expr in self.scope if expr.type == type]
        kind = self.draw(st.integers(0, 5 if depth else 1))
        if kind == 0 or (kind == 1 and not known):
            return const(self.draw(st.integers(-3, 9)), type)
        if kind == 1:
            return self.choose(*known)
        if kind == 2:
            return cast(self.number(self.choose(Int64, UInt32, Int8), depth - 1), type)
        if kind == 3:
            arms = self.number(type, depth - 1), self.number(type, depth - 1)
            return op("select", self.condition(depth - 1), *arms)
        name = self.choose(*BINARY)
        return op(name, self.number(type, depth - 1), self.number(type, depth - 1))

    def condition(self, depth: int = 1) -> Expr:
        type = self.choose(Int64, UInt32, Int8)
        name = self.choose(*COMPARISONS)
        result = op(name, self.number(type, depth), self.number(type, depth))
        return op("not", result) if self.draw(st.booleans()) else result

    def index(self) -> Expr:
        return op("and", self.number(Int64), SIZE - 1)

    def block(self, depth: int) -> None:
        """Some statements; what they bind is out of scope behind them."""
        known = len(self.scope)
        for _ in range(self.draw(st.integers(1, 4))):
            self.statement(depth)
        del self.scope[known:]

    def statement(self, depth: int) -> None:
        host, buffer = self.host, self.choose(*self.buffers)
        simple = ("load", "store", "set", "get", "let", "fill", "sort", "search", "grow", "fail")
        match self.choose(*simple, *(("if", "for", "while") * 2 if depth else ())):
            case "load":
                self.scope.append(host.load(buffer, self.index()))
            case "store":
                host.store(buffer, self.index(), self.number(buffer.type))
            case "set":
                host.set(self.choose(*self.cells), self.number(Int64))
            case "get":
                self.scope.append(host.get(self.choose(*self.cells)))
            case "let":
                self.scope.append(host.let(self.number(buffer.type)))
            case "fill":
                host.fill(buffer, self.index(), self.index(), self.number(buffer.type))
            case "sort":
                host.sort(buffer, ZERO, self.index())
            case "search":
                stop = self.index()
                host.sort(buffer, ZERO, stop)
                key = self.number(buffer.type)
                self.scope.append(host.search(buffer, op("min", self.index(), stop), stop, key))
            case "grow":
                host.grow(buffer, op("add", self.index(), 4))
            case "fail":
                values = self.number(Int64), self.number(UInt32)
                rare = op("eq", self.index(), 0)
                host.branch(rare, lambda: host.fail("bounds", "{} and {}", values))
            case "if":
                arms = [lambda: self.block(depth - 1)] * self.draw(st.integers(1, 2))
                host.branch(self.condition(), *arms)
            case "for":
                self.loop(depth)
            case "while":
                self.repeat(depth)

    def loop(self, depth: int) -> None:
        def body(i: Expr) -> None:
            self.scope.append(i)
            self.block(depth - 1)
            self.scope.remove(i)

        start = self.index()
        self.host.count(start, op("add", start, op("sub", self.index(), 2)), body)

    def repeat(self, depth: int) -> None:
        """A while loop of at most SIZE steps."""
        left = self.host.cell(op("cast", self.index(), type=Int64))

        def body() -> None:
            self.block(depth - 1)
            self.host.set(left, up_to(self.host.get(left)))

        self.host.loop(
            lambda: op("and", op("gt", self.host.get(left), 0), op("ne", self.condition(), False)),
            body,
        )


@st.composite
def programs(draw: st.DrawFn) -> Residual:
    writer = Writer(draw)
    for _ in range(draw(st.integers(2, 6))):
        writer.statement(2)
    return writer.sample.residual()


def outcome(run, residual: Residual, inputs: list[int]):
    """Arrays and outputs, or the error."""
    arrays = [np.arange(SIZE, dtype=b.type.dtype)[::-1] * 3 for b in residual.buffers]
    try:
        *_, after, outputs = run(arrays, inputs)
    except FinchError as error:
        return error.kind, error.message
    return [array[:SIZE].tolist() for array in after], outputs


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(), st.lists(st.integers(0, 100), min_size=3, max_size=3))
def test_compiled_and_evaluated_programs_agree(residual: Residual, inputs: list[int]) -> None:
    check(residual)
    native = outcome(partial(run, compile_residual(residual)), residual, inputs)
    evaluated = outcome(lambda a, i: run_residual(residual, a, i), residual, inputs)
    assert native == evaluated
