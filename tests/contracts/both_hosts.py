"""Kernels over hand-made tensors, run under both hosts: interpreted, and staged and evaluated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import numpy as np
from late import LateHost

from finchlang import FinchError
from finchlang.algebra.expression_types import annotate
from finchlang.algebra.simplify import with_fills
from finchlang.base.records import record
from finchlang.calls.arguments import ARRAYS, COUNTERS, KIND, SHAPE, describe
from finchlang.host.construct import const
from finchlang.host.engine import Applied, Machine, OneByOne
from finchlang.host.executing import ExecutingHost, RememberingHost, run_code
from finchlang.host.interface import Host
from finchlang.host.ir import Buffer, Expr, Var
from finchlang.host.recording import ResidualHost
from finchlang.levels.level import READ, Level, TensorLike
from finchlang.rules.base.state import State
from finchlang.rules.table import rules
from finchlang.syntax.nodes import Node, Value, Variable
from finchlang.syntax.traversal import substitute
from finchlang.syntax.types import Int64, Type, type_of_dtype
from finchlang.tensors import memory as tensor_memory
from finchlang.tensors.bind import Bound, bind
from finchlang.tensors.formats import parse_format
from finchlang.tensors.tensor import Scalar, Tensor
from finchlang.text.parse import parse_kernel


class Memory:
    """The arrays and numbers that nests refer to; they are the same under every host."""

    def __init__(self) -> None:
        self.arrays: dict[Buffer, np.ndarray] = {}

    def array(self, values: Any, dtype: Any = np.int64, name: str = "array") -> Buffer:
        data = np.array(values, dtype)
        type = type_of_dtype(data.dtype)
        assert type is not None
        buffer = Buffer(f"{name}{len(self.arrays)}", type)
        self.arrays[buffer] = data
        return buffer

    def number(self, value: Any, type: Type = Int64, lower: Expr | None = None) -> Var:
        """A variable bound from outside."""
        variable = Var("number", type, lower)
        variable.held = value
        return variable


@record(slots=True)
class Handmade(TensorLike):
    """A tensor that unfurls to whatever `make(host, stop)` gives."""

    name: str
    dims: tuple[Expr | None, ...]
    make: Callable[[Host, Expr | None], Node]
    mode: str = READ

    def __str__(self) -> str:
        return self.name

    def sizes(self) -> tuple[Expr | None, ...]:
        return self.dims

    def unfurl(self, host: Host, stop: Expr | None, protocol: str | None) -> Node:
        return self.make(host, stop)


def vector(name: str, size: Expr | int, make: Callable[[Host], Node]) -> Handmade:
    """A tensor of one dimension that is only read."""
    length = size if isinstance(size, Expr) else const(size)
    return Handmade(name, (length,), lambda host, stop: make(host))


# ---------------------------------------------------------------------------------- running kernels


_parsed = lru_cache(maxsize=512)(parse_kernel)


@dataclass
class Outcome:
    """What a kernel did: results by name, and host steps."""

    results: dict[str, Any]
    steps: Counter[str]
    arrays: dict[Buffer, np.ndarray]
    error: FinchError | None = None

    def __getitem__(self, name: str) -> Any:
        return self.results[name]


@dataclass
class Setup:
    """A kernel in normal form over hand-made tensors. `outputs` has the formats of the tensors the
    kernel declares, `shapes` their sizes before (a declaration changes them)."""

    text: str
    tensors: dict[str, TensorLike]
    outputs: dict[str, str | Level]
    memory: Memory
    numbers: Mapping[str, Expr] = field(default_factory=dict)
    which: str = "all"
    element: str = "Dense(Element(0.0))"

    def program(self) -> Node:
        names: dict[str, Level | Type | None] = {
            n: parse_format(self.element) for n in self.tensors
        }
        names |= {n: self.level(n) for n in self.outputs}
        names |= {n: e.type for n, e in self.numbers.items()}
        program = with_fills(annotate(_parsed(self.text), names), names)
        values: dict[Node, Node] = {Variable(n): Value(e) for n, e in self.numbers.items()}
        return substitute(program, values)

    def level(self, name: str) -> Level:
        format = self.outputs[name]
        return parse_format(format) if isinstance(format, str) else format

    def run(
        self, host: Host, bounds: dict[str, Bound], tracer: Callable[[Applied], None] | None = None
    ) -> None:
        for bound in bounds.values():
            bound.enter(host)
        tensors = {**self.tensors, **{n: b.fiber for n, b in bounds.items()}}
        Machine(rules(self.which), tracer).run(self.program(), State.before(host, tensors))

    def execute(
        self,
        work: Callable[[ExecutingHost, dict[str, Bound]], None],
        kind: type[ExecutingHost] = ExecutingHost,
    ) -> Outcome:
        """Perform `work` on fresh copies of all memory, on a host of this kind."""
        bounds = {n: bind(n, self.level(n), True) for n in self.outputs}
        held = {n: self._empty(n) for n in self.outputs}
        arrays = {b: a.copy() for b, a in self.memory.arrays.items()}
        for name, bound in bounds.items():
            given = describe(held[name])
            arrays |= {b: a.copy() for b, a in zip(bound.buffers, given[ARRAYS], strict=True)}
            inputs = bound.given(given[SHAPE], given[COUNTERS])
            for variable, value in zip(bound.inputs, inputs, strict=True):
                variable.held = value
        host = kind(arrays)
        error = None
        try:
            work(host, bounds)
        except FinchError as fault:
            error = fault
        results: dict[str, Any] = {}
        for name, bound in bounds.items():
            if error is None:
                outputs, order = [host.cells[c] for c in bound.outputs], bound.level.order
                made = tuple(outputs[:order]), [arrays[b] for b in bound.buffers]
                memory = tensor_memory.Memory(*made, tuple(outputs[order:]))
                argument = describe(held[name])
                argument[KIND].commit(argument, memory)
            tensor = held[name]
            results[name] = tensor.value if isinstance(tensor, Scalar) else tensor.to_numpy()
        kept = {b: arrays[b] for b in self.memory.arrays}
        return Outcome(results, host.steps, kept, error)

    def _empty(self, name: str) -> Tensor | Scalar:
        level = self.level(name)
        return Scalar(level) if level.order == 0 else Tensor(level, *(0,) * level.order)


def run_both(
    text: str,
    tensors: Sequence[Handmade],
    outputs: dict[str, str | Level],
    memory: Memory,
    numbers: Mapping[str, Expr] | None = None,
    which: str = "all",
    element: str = "Dense(Element(0.0))",
    is_again: bool = False,
) -> Outcome:
    """Interpret the kernel, applying rules anew in each round of a loop, remembering, and with the steps of
    loops one by one; and stage it, arms in their order or late, and evaluate the residual. All must end
    alike: the same results, the same memory, the same error, and (congruence) but for the third the same
    host steps. What `is_again` run, with other data, is interpreted and staged only."""
    named: dict[str, TensorLike] = {t.name: t for t in tensors}
    setup = Setup(text, named, outputs, memory, numbers or {}, which, element)
    first = setup.execute(setup.run)

    def staged_run(
        host: ExecutingHost, bounds: dict[str, Bound], kind: type[ResidualHost] = ResidualHost
    ) -> None:
        setup.run(recorder := kind(), bounds)
        run_code(recorder.code(), host)

    def one_by_one(host: ExecutingHost, bounds: dict[str, Bound]) -> None:
        setup.run(host, bounds, OneByOne(lambda applied: None, host.evaluate))

    recorders, others = (ResidualHost, LateHost), list[Outcome]()
    alike = [setup.execute(partial(staged_run, kind=kind)) for kind in recorders]
    if not is_again:
        alike.append(setup.execute(setup.run, RememberingHost))
        others.append(setup.execute(one_by_one))
    assert first.error or all(first.steps == other.steps for other in alike)
    for other in (*alike, *others):
        for name, result in first.results.items():
            np.testing.assert_array_equal(other.results[name], result)
        for buffer, array in first.arrays.items():
            np.testing.assert_array_equal(other.arrays[buffer], array)
        assert (first.error and str(first.error)) == (other.error and str(other.error))
    return first


def loop_sum(
    nests: Sequence[Handmade],
    memory: Memory,
    start: Any = 1,
    stop: Any = "n",
    n: int | Expr = 0,
    which: str = "all",
    **numbers: Expr,
) -> Outcome:
    """`s[] += ` the product of all nests, for i from start to stop."""
    product = " * ".join(f"{t.name}[i]" for t in nests)
    text = f"begin\ns .= 0.0\nfor i = {start}:{stop}\ns[] += {product}\nend\nend"
    given = {"n": n if isinstance(n, Expr) else const(n), **numbers}
    return run_both(text, nests, {"s": "Scalar(0.0)"}, memory, given, which)
