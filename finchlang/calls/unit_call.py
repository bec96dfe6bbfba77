"""Calls of units: their arguments, tensors of their own, and what the names of the loop mean afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from finchlang.base.aligned_memory import aligned_copy
from finchlang.base.locks import cached_property
from finchlang.calls import arguments as args
from finchlang.calls.arguments import KIND, VALUE, Argument, Kind
from finchlang.calls.call import Made, MadeByUnit, NativeCall, Values
from finchlang.calls.compile_cache import Signature
from finchlang.calls.kernel import SpecializedKernel
from finchlang.functions.unit import Unit
from finchlang.levels.level import Level
from finchlang.levels.scalars import Scalar as ScalarLevel
from finchlang.native.compiled_kernel import NativeKernel
from finchlang.tensors.bind import Bound, spans
from finchlang.tensors.memory import Memory
from finchlang.tensors.tensor import Scalar, Tensor, tensor_over

if TYPE_CHECKING:
    from finchlang.host.engine import Tracer


class _OfMade(Kind):
    """A tensor that a unit makes: an object for it is made once it has a name."""

    takes_memory = is_dead = True

    def commit(self, argument: Argument, made: Memory | None) -> Any:
        level = argument[args.FORMAT]
        memory = made or Memory(*argument[args.SHAPE : args.OWNER])
        if isinstance(level, ScalarLevel):
            return Scalar(level, level.value_of(memory.counters))
        return tensor_over(level, memory, True)


_MADE = _OfMade()


def made_memory(level: Level) -> Memory:
    """The memory that a tensor which a unit will make begins with."""
    if isinstance(level, ScalarLevel):
        return Memory((), (), tuple(level.held(level.fill.value)))
    return Tensor(level).memory


def made_argument(level: Level, memory: Memory) -> Argument:
    """The argument for a tensor that a unit will make, in this memory."""
    body = memory.shape, memory.arrays, memory.counters
    return None, level, *body, memory, 0, 0, _MADE


def fresh(memory: Memory) -> Memory:
    return Memory(memory.shape, [aligned_copy(a) for a in memory.arrays], memory.counters)


class UnitKernel(SpecializedKernel):
    """A unit compiled for formats."""

    source: Unit

    @staticmethod
    def stage(*args: Any) -> Any:
        from finchlang.calls.staged_unit import StagedUnit
        from finchlang.calls.staging import staged

        program, formats, choices, signature = args
        return staged(program, formats, choices, signature, StagedUnit)

    def _kept(self) -> list[Bound]:
        return super()._kept()[len(self.source.made) :]

    def all_of(self, arguments: Values) -> Values:
        """The arguments, tensors for the slots of the unit's own, and workspaces. Slots of which no tensor
        is handed out keep their memory from call to call."""
        own = [inside or made_argument(level, fresh(m)) for inside, level, m in self._made]
        return [*super().all_of([*arguments, *own])]

    @cached_property
    def _made(self) -> list[tuple[Argument | None, Level, Memory]]:
        """For each slot of the unit's own its argument in the next call, if no tensor in it is handed out;
        its level, and the memory that it begins with."""
        unit, found = self.source, list[Any]()
        handed = {*unit.tensors, *unit.returned}
        handed |= {name for group in unit.groups if handed & {*group} for name in group}
        for name, bound in zip(unit.made, super()._kept(), strict=False):
            memory = made_memory(bound.level)
            inside = None if name in handed else made_argument(bound.level, fresh(memory))
            found.append((inside, bound.level, memory))
        return found

    @cached_property
    def _native_call(self) -> UnitCall:
        return UnitCall(self.native, self.bounds, self.signature, self.checked, self.source)

    def call(
        self, engine: str, arguments: Values, numbers: Values, tracer: Tracer | None = None
    ) -> tuple[dict[str, Any], list[Any], Counter[str]]:
        """Run on the arguments by an engine. Gives the objects that the slots given to it hold now, as far
        as these were written, and those returned; the results; and the host's steps. Raises FinchError; all
        is then as before."""
        arguments, values = self.all_of(arguments), dict[int, Any]()
        inside = {id(known[0]): k for k, known in enumerate(self._made) if known[0] is not None}
        try:
            made: Any
            made, steps = self.run_whole(engine, arguments, numbers, tracer)
        except BaseException:
            del self.__dict__["_made"]  # its memory may hold anything
            raise
        for argument, memory in made:
            k = inside.get(id(argument))
            if k is None:
                values[id(argument)] = argument[KIND].commit(argument, memory)
            elif memory is not None:
                _, level, first = self._made[k]
                self._made[k] = made_argument(level, memory), level, first
        found = {}
        for at, name, is_returned in self._told:
            held = arguments[made.homes.get(name, at)]
            if is_returned:
                found[name] = values.get(id(held), held[VALUE])
            elif id(held) in values:
                found[name] = values[id(held)]
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

    def __init__(
        self,
        native: NativeKernel,
        bounds: Sequence[Bound],
        signature: Signature,
        checked: bool,
        unit: Unit,
    ):
        super().__init__(native, bounds, signature, checked)
        self._spans = spans(bounds)
        self._exchanging = unit.exchanging

    def made(
        self,
        arguments: Sequence[Argument],
        arrays: list[np.ndarray],
        inputs: list[Any],
        outputs: list[Any],
    ) -> Made:
        own = outputs[max((outs.stop for _, _, outs in self._spans), default=0) :]
        count = len(own) - len(self._exchanging)
        types = self._native.layout.outputs[len(outputs) - len(own) :]
        found = MadeByUnit()
        found.results = [*zip(own[:count], types, strict=False)]
        found.homes = homes = dict(zip(self._exchanging, own[count:], strict=True))
        for at, output in self._outputs:
            home = homes.get(self._bounds[at].name)
            if home is None:
                memory = output.finish(arguments[at], arrays, inputs, outputs)
                found.append((arguments[at], memory))
                continue
            held = arrays[self._spans[home][0]]  # what has not grown is where the tensor has it
            for k, (number, dtype) in enumerate(output.grown):
                grown = self._native.grown(number, dtype)
                held[k] = held[k] if grown is None else grown
            shape, counters = tuple(outputs[output.shape]), tuple(outputs[output.counters])
            found.append((arguments[home], Memory(shape, held, counters)))
        return found
