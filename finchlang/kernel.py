"""A kernel for tensors of given formats: normalised, bound, staged once, and run by any engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from finchlang.calling.caller import Caller
from finchlang.calling.renewal import renewed
from finchlang.calling.seat import Stored
from finchlang.host import interrupts
from finchlang.host.execute import ExecutingHost, run_residual
from finchlang.host.interface import Host
from finchlang.host.ir import Residual, Var
from finchlang.host.residual import ResidualHost
from finchlang.native.cache import default_cache
from finchlang.native.jit import compile_residual
from finchlang.native.kernel import NativeKernel
from finchlang.normalize import Context, Format, Normalized, normalize, stages
from finchlang.rewrite import substitute, walk
from finchlang.rules.engine import Machine, State, Tracer
from finchlang.rules.table import rules
from finchlang.rules.typing import annotate
from finchlang.source import FinchError
from finchlang.syntax import Declare, Node, Thaw, Value, Variable
from finchlang.tensors.bind import Bound, bind, gather, keep_memory, scatter
from finchlang.tensors.level import Level
from finchlang.tensors.tensor import Scalar, Tensor
from finchlang.types import Type


class Kernel:
    """A program compiled for formats. `tensors` are the script's names of the tensors it takes, in
    order, `numbers` those of the script numbers; `written` says which of the tensors it changes.

    Raises FinchError of kind unknown name, type, dimension, life cycle or access order.
    """

    def __init__(self, program: Node, formats: dict[str, Format], which_rules: str = "all"):
        self.source, self.formats, self.which_rules = program, formats, which_rules
        self.normalized: Normalized = normalize(program, formats)
        known = self.normalized.formats
        self.program = annotate(self.normalized.program, known)
        changed = {n.tensor.name for n in walk(self.program) if isinstance(n, (Declare, Thaw))}
        levels = {name: known[name] for name in self.normalized.tensors}
        self.bounds: list[Bound] = []
        for name, level in {**levels, **self.normalized.workspaces}.items():
            assert isinstance(level, Level)
            self.bounds.append(bind(name, level, name in changed))
        self.tensors = tuple(self.normalized.tensors.values())
        self.written = tuple(b.written for b in self.bounds[: len(self.tensors)])
        used = [n.name for n in walk(self.program) if isinstance(n, Variable)]
        self.numbers = tuple(n for n, t in known.items() if isinstance(t, Type) and n in used)
        self._inputs = {n: Var(n, known[n]) for n in self.numbers}  # type: ignore[arg-type]
        self._workspaces: list[Stored] = []
        for bound in self.bounds[len(self.tensors) :]:
            self._workspaces.append(Tensor(bound.level))

    def passes(self) -> list[tuple[str, Node]]:
        """The program after each pass of normalisation."""
        return list(stages(self.source, Context(dict(self.formats))))

    def _run_rules(self, host: Host, tracer: Tracer | None) -> None:
        for bound in self.bounds:
            bound.enter(host)
        numbers: dict[Node, Node] = {Variable(n): Value(v) for n, v in self._inputs.items()}
        state = State(host, {bound.name: bound.fiber for bound in self.bounds})
        Machine(rules(self.which_rules), tracer).run(substitute(self.program, numbers), state)

    @cached_property
    def residual(self) -> Residual:
        """The residual program: what the rules leave to do once the formats are known."""
        host = ResidualHost()
        self._run_rules(host, None)
        return Residual(
            "kernel",
            tuple(buffer for bound in self.bounds for buffer in bound.buffers),
            tuple(v for bound in self.bounds for v in bound.inputs) + tuple(self._inputs.values()),
            tuple(cell for bound in self.bounds for cell in bound.outputs),
            host.code(),
        )

    # -------------------------------------------------------------------------------------- engines

    def _gather(
        self, tensors: Sequence[Stored], numbers: Sequence[Any]
    ) -> tuple[list[np.ndarray], list[Any]]:
        arrays: list[np.ndarray] = []
        inputs: list[Any] = []
        for bound, tensor in zip(self.bounds, [*tensors, *self._workspaces], strict=True):
            own_arrays, own_inputs = gather(bound, tensor)
            if bound.written:
                own_arrays = [array.copy() for array in own_arrays]
            arrays.extend(own_arrays)
            inputs.extend(own_inputs)
        return arrays, [*inputs, *numbers]

    def _scatter(
        self, tensors: Sequence[Stored], arrays: list[np.ndarray], outputs: list[Any]
    ) -> None:
        """Hand the results back: into the tensors' own arrays where these have the size."""
        array_at = output_at = 0
        for bound, tensor in zip(self.bounds, [*tensors, *self._workspaces], strict=True):
            own = arrays[array_at : array_at + len(bound.buffers)]
            array_at += len(bound.buffers)
            if not bound.written:
                continue
            values = outputs[output_at : output_at + len(bound.outputs)]
            output_at += len(bound.outputs)
            before = [] if isinstance(tensor, Scalar) else gather(bound, tensor)[0]
            scatter(bound, tensor, own, values)
            if isinstance(tensor, Tensor):
                keep_memory(bound, tensor, before)

    def interpret(
        self, tensors: Sequence[Stored], numbers: Sequence[Any], tracer: Tracer | None = None
    ) -> Counter[str]:
        """Run the rules on the executing host; gives the host steps taken."""
        arrays, inputs = self._gather(tensors, numbers)
        buffers = [buffer for bound in self.bounds for buffer in bound.buffers]
        host = ExecutingHost(dict(zip(buffers, arrays, strict=True)))
        variables = [v for bound in self.bounds for v in bound.inputs]
        for variable, value in zip([*variables, *self._inputs.values()], inputs, strict=True):
            variable.held = value
        _interruptible(lambda: self._run_rules(host, tracer))
        outputs = [host.cells[cell] for bound in self.bounds for cell in bound.outputs]
        self._scatter(tensors, [host.arrays[b] for b in buffers], outputs)
        return host.steps

    def run_residual(self, tensors: Sequence[Stored], numbers: Sequence[Any]) -> Counter[str]:
        """Run the residual program by the plain evaluator; gives the host steps taken."""
        arrays, inputs = self._gather(tensors, numbers)
        results: list[Any] = []
        residual = self.residual
        _interruptible(lambda: results.extend(run_residual(residual, arrays, inputs)))
        host, arrays, outputs = results
        self._scatter(tensors, arrays, outputs)
        return host.steps

    @cached_property
    def native(self) -> NativeKernel:
        """The compiled kernel."""
        return compile_residual(self.residual, default_cache())

    @cached_property
    def passing_caller(self) -> Caller:
        """The caller for tensors that come by once."""
        return self.caller()

    def caller(self, owned: Sequence[bool] = ()) -> Caller:
        """A frame of its own to call the compiled kernel with: for a set of tensors that it is
        often called with. `owned` says which are nobody else's memory, as a user's array is."""
        names = {bound.name for bound, own in zip(self.bounds, owned, strict=False) if own}
        workspaces = {bound.name for bound in self.bounds[len(self.tensors) :]}
        return Caller(self.native, self.bounds, names | workspaces, names & self._renewed)

    @cached_property
    def _renewed(self) -> set[str]:
        return renewed(self.program, {b.name: b.level for b in self.bounds})

    def with_workspaces(self, tensors: Sequence[Stored]) -> list[Stored]:
        """What a caller is given: the tensors, in order, and the kernel's own."""
        return [*tensors, *self._workspaces]

    def run_native(self, tensors: Sequence[Stored], numbers: Sequence[Any]) -> bool:
        """Run the compiled kernel in place; says whether any tensor changed its storage or size."""
        return self.passing_caller.call(self.with_workspaces(tensors), numbers)


def _interruptible(run: Any) -> None:
    try:
        with interrupts.noted():
            run()
            interrupts.check()
    except KeyboardInterrupt:
        raise FinchError("interrupted", "the kernel was interrupted") from None
