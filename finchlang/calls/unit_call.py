"""Calls of units: what their names mean afterwards, and the tensors that they make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from finchlang.base.locks import cached_property
from finchlang.calls.arguments import KIND, VALUE, Argument
from finchlang.calls.call import Made, MadeByUnit, NativeCall, Values
from finchlang.calls.kernel import SpecializedKernel
from finchlang.calls.own_tensors import handed_out
from finchlang.functions.unit import Unit
from finchlang.tensors.memory import Memory

if TYPE_CHECKING:
    from finchlang.host.engine import Tracer


class UnitKernel(SpecializedKernel):
    """A unit compiled for formats."""

    source: Unit

    @staticmethod
    def stage(*args: Any) -> Any:
        from finchlang.calls.staged_unit import StagedUnit
        from finchlang.calls.staging import staged

        program, formats, choices, signature = args
        return staged(program, formats, choices, signature, StagedUnit)

    def handed(self) -> set[str]:
        unit = self.source
        told = {*unit.tensors, *unit.returned}
        groups = [name for group in unit.groups if told & {*group} for name in group]
        return {*unit.returned, *groups}

    @cached_property
    def native_call(self) -> NativeCall:
        return UnitCall(self)

    def call(
        self, engine: str, arguments: Values, numbers: Values, tracer: Tracer | None = None
    ) -> tuple[dict[str, Any], list[Any], Counter[str]]:
        """Run on the arguments by an engine. Gives the objects that the slots given to it hold now, as far
        as these were written, and those returned; the results; and the host's steps. Raises FinchError; all
        is then as before."""
        made: Any
        made, steps = self.run(engine, arguments, numbers, tracer)
        values, found = dict[int, Any](), dict[str, Any]()
        for at, memory in made:
            if at < len(arguments):
                values[at] = arguments[at][KIND].commit(arguments[at], memory)
            else:
                values[at] = handed_out(self.bounds[at].level, memory)
        for at, name, is_returned in self._told:
            home = made.homes.get(at, at)
            if home in values:
                found[name] = values[home]
            elif is_returned:
                found[name] = arguments[home][VALUE]
        return found, made.results, steps

    @cached_property
    def _told(self) -> list[tuple[int, str, bool]]:
        """The slots whose tensors the caller is told of: their numbers, names, and whether a `return` gives
        them."""
        unit, names = self.source, [bound.name for bound in self.bounds]
        told = {*unit.tensors, *unit.returned}
        return [(at, n, n in unit.returned) for at, n in enumerate(names) if n in told]


class UnitCall(NativeCall):
    """Calls of a compiled unit."""

    def __init__(self, kernel: UnitKernel):
        native, bounds, unit = kernel.native, kernel.bounds, kernel.source
        super().__init__(native, bounds, kernel.signature, kernel.checked, kernel.own)
        slots = [bound.name for bound in bounds]
        self._exchanging = [*map(slots.index, unit.exchanging)]
        #: where the results begin among the outputs, and after them what the slots hold which exchange
        self._results = len(native.layout.outputs) - len(unit.results) - len(self._exchanging)
        self._homes = self._results + len(unit.results)
        self._types = native.layout.outputs[self._results : self._homes]
        handed, given = kernel.handed(), len(unit.tensors)
        #: the slots that are told of and whose tensors are not always those given in them: their numbers,
        #: buffers, sizes and counters
        self._moving = []
        for at, (bound, (buffers, _, outs)) in enumerate(zip(bounds, self._spans, strict=True)):
            if bound.name in handed and (at >= given or at in self._exchanging):
                first = outs.start + bound.level.order
                places = buffers, slice(outs.start, first), slice(first, outs.stop)
                self._moving.append((at, *places))
        self._staying = [(at, o) for at, o in self._outputs if at not in self._exchanging]

    def made(
        self,
        arguments: Sequence[Argument],
        arrays: list[np.ndarray],
        inputs: list[Any],
        outputs: list[Any],
    ) -> Made:
        found, held = MadeByUnit(), outputs[self._homes :]
        found.results = [*zip(outputs[self._results : self._homes], self._types, strict=True)]
        found.homes = {}
        if held != self._exchanging:
            before = arrays[:]  # what has not grown is where the tensor has it
            found.homes = dict(zip(self._exchanging, held, strict=True))
            for at, home in found.homes.items():
                arrays[self._spans[at][0]] = before[self._spans[home][0]]
        grown = self._take_grown(arrays)
        for at, output in self._staying:
            found.append((at, output.finish(arguments[at], arrays, grown, inputs, outputs)))
        for at, buffers, shape, counters in self._moving:
            memory = Memory(tuple(outputs[shape]), arrays[buffers], tuple(outputs[counters]))
            found.append((found.homes.get(at, at), memory))
        return found
