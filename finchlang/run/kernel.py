"""A kernel for tensors of given formats: normalised, bound, staged once, and run by any engine."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from finchlang.disk_cache import default_cache
from finchlang.host import interrupts
from finchlang.host.execute import ExecutingHost, run_residual
from finchlang.host.interface import Host
from finchlang.host.ir import Residual, Var
from finchlang.host.residual import ResidualHost
from finchlang.host.verify import verified
from finchlang.locks import cached_property
from finchlang.native.jit import compile_residual, load_kernel
from finchlang.native.kernel import NativeKernel
from finchlang.normalize import Context, Format, Normalized, normalize, stages
from finchlang.rules.engine import Machine, State, Tracer
from finchlang.rules.table import rules
from finchlang.rules.typing import annotate
from finchlang.run.caller import Caller
from finchlang.run.compile_cache import Record, place_of
from finchlang.run.seat import Stored
from finchlang.run.signature import Signature, signature_of
from finchlang.source import FinchError
from finchlang.syntax import Node, Value, Variable
from finchlang.tensors.bind import bind, gather, keep_memory, scatter
from finchlang.tensors.tensor import Scalar, Tensor
from finchlang.walk import substitute


class Kernel:
    """A program compiled for formats. `tensors` are the script's names of the tensors it takes, in
    order, `numbers` those of the script numbers; `written` says which of the tensors it changes;
    `yields` are the script names that it hands back.

    One that was compiled before is found on disk, and is normalised and staged only if somebody
    wants to see that. Raises FinchError of kind unknown name, type, dimension, life cycle or access
    order.
    """

    def __init__(self, program: Node, formats: dict[str, Format], which_rules: str = "all"):
        self.source, self.formats, self.which_rules = program, formats, which_rules
        self._cache = default_cache()
        self._place = place_of(program, formats, which_rules, self._cache)
        self._record = self._place.recall() if self._place is not None else None
        self.signature = self._record.signature if self._record is not None else self._signature()
        signature, changed = self.signature, self.signature.changed
        levels = signature.levels(formats)
        self.bounds = [bind(name, level, name in changed) for name, level in levels.items()]
        self.tensors = tuple(signature.tensors.values())
        self.written = tuple(b.written for b in self.bounds[: len(self.tensors)])
        self.numbers, self.yields = signature.numbers, signature.yields
        self._inputs = {n: Var(n, formats[n]) for n in self.numbers}  # type: ignore[arg-type]
        self._workspaces: list[Stored] = []
        for bound in self.bounds[len(self.tensors) :]:
            self._workspaces.append(Tensor(bound.level))

    @cached_property
    def normalized(self) -> Normalized:
        """The program in normal form."""
        return normalize(self.source, self.formats)

    @cached_property
    def program(self) -> Node:
        """The program in normal form, with the types of its expressions: what the rules run."""
        return annotate(self.normalized.program, self.normalized.formats)

    def _signature(self) -> Signature:
        return signature_of(self.normalized, self.program, self.formats)

    def passes(self) -> list[tuple[str, Node]]:
        """The program after each pass of normalisation."""
        return list(stages(self.source, Context(dict(self.formats))))

    def run_rules(self, host: Host, tracer: Tracer | None) -> None:
        """Run the rules on the program, over the memory of its tensors."""
        for bound in self.bounds:
            bound.enter(host)
        numbers: dict[Node, Node] = {Variable(n): Value(v) for n, v in self._inputs.items()}
        state = State.before(host, {bound.name: bound.fiber for bound in self.bounds})
        Machine(rules(self.which_rules), tracer).run(substitute(self.program, numbers), state)

    @cached_property
    def residual(self) -> Residual:
        """The residual program: what the rules leave to do once the formats are known."""
        host = ResidualHost()
        with _no_collection():
            self.run_rules(host, None)
        residual = Residual(
            "kernel",
            tuple(buffer for bound in self.bounds for buffer in bound.buffers),
            tuple(v for bound in self.bounds for v in bound.inputs) + tuple(self._inputs.values()),
            tuple(cell for bound in self.bounds for cell in bound.outputs),
            host.code(),
        )
        return verified(residual)

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
        _interruptible(lambda: self.run_rules(host, tracer))
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
        place, record, cache = self._place, self._record, self._cache
        if record is not None and cache is not None:
            found = load_kernel(record.layout, record.object_name, cache)
            if found is not None:
                return found
        native = compile_residual(self.residual, cache)
        if place is not None and native.object_name is not None:
            place.keep(Record(self.signature, native.layout, native.object_name))
        return native

    @cached_property
    def passing_caller(self) -> Caller:
        """The caller for tensors that come by once."""
        return self.caller()

    def caller(self, owned: Sequence[bool] = ()) -> Caller:
        """A frame of its own to call the compiled kernel with: for a set of tensors that it is
        often called with. `owned` says which are nobody else's memory, as a user's array is."""
        names = {bound.name for bound, own in zip(self.bounds, owned, strict=False) if own}
        workspaces = {bound.name for bound in self.bounds[len(self.tensors) :]}
        renewed = names & self.signature.renewed
        return Caller(self.native, self.bounds, names | workspaces, renewed)

    def with_workspaces(self, tensors: Sequence[Stored]) -> list[Stored]:
        """What a caller is given: the tensors, in order, and the kernel's own."""
        return [*tensors, *self._workspaces]

    def run_native(self, tensors: Sequence[Stored], numbers: Sequence[Any]) -> bool:
        """Run the compiled kernel in place; says whether any tensor changed its storage or size."""
        return self.passing_caller.call(self.with_workspaces(tensors), numbers)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Staging makes very many objects that all stay until it is done: Python would look for garbage
    among them again and again, in vain, which can take a fifth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _interruptible(run: Any) -> None:
    try:
        with interrupts.noted():
            run()
            interrupts.check()
    except KeyboardInterrupt:
        raise FinchError("interrupted", "the kernel was interrupted") from None
