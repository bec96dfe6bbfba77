"""The tensors of a kernel's own: its workspaces, and those that a unit makes. They keep their memory from
call to call, whatever it holds, and are as new after a call that failed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from finchlang.base.aligned_memory import aligned_copy
from finchlang.calls.arguments import Argument, Kind
from finchlang.levels.level import Level
from finchlang.levels.scalars import Scalar as ScalarLevel
from finchlang.tensors.bind import Bound, spans
from finchlang.tensors.memory import Memory
from finchlang.tensors.tensor import Scalar, Tensor

_OWN = Kind()
#: results that have at most so many entries begin with as much room in the next call
SPARE = 4096


def handed_out(level: Level, memory: Memory, is_array: bool) -> Any:
    """The object for a tensor of a unit's own that its caller gets."""
    if is_array:
        return memory.arrays[0][: memory.shape[0]]
    if isinstance(level, ScalarLevel):
        return Scalar(level, level.value_of(memory.counters))
    return Tensor.over(level, memory, True)


def _first(level: Level) -> Memory:
    if isinstance(level, ScalarLevel):
        return Memory((), (), tuple(level.held(level.fill.value)))
    return Tensor(level).memory


class OwnTensors:
    """The tensors of these `bounds`, which are all written: their `arrays`, and their sizes and counters as
    `inputs`, in the order in which a kernel takes them. Those that may be `handed` out begin each call as
    new ones."""

    def __init__(self, bounds: Sequence[Bound], handed: Collection[str] = ()):
        self._tensors = [(bound.level, _first(bound.level)) for bound in bounds]
        self._spans = spans(bounds)
        places = zip(bounds, self._tensors, self._spans, strict=True)
        #: of each that may be handed out its memory at first, where it stands among all, and which of its
        #: arrays may begin in any memory, with their types
        self._handed = []
        for bound, (level, first), (buffers, inputs, _) in places:
            if bound.name in handed:
                takes_any = not any(part.clears_entries for part in level.levels())
                kinds = [array.dtype for array in first.arrays] if takes_any else []
                fresh = [*zip(range(buffers.start, buffers.stop), kinds, strict=False)]
                self._handed.append((first, buffers, inputs, fresh))
        self.arrays: list[np.ndarray] = []
        self.inputs: list[Any] = []
        self.reset()

    def __len__(self) -> int:
        return len(self._tensors)

    def reset(self) -> None:
        self.arrays, self.inputs = [], []
        for _, memory in self._tensors:
            self.arrays += _apart(memory)
            self.inputs += [*memory.shape, *memory.counters]

    def keep(self, arrays: list[np.ndarray], inputs: list[Any]) -> None:
        """Take over what a call has left of all of them. Those that may be handed out begin anew, with room
        for as much as the last call needed: NumPy makes small arrays in less time than it takes over those
        of a kernel."""
        self.arrays, self.inputs = arrays, inputs
        for first, buffers, places, fresh in self._handed:
            for at, kind in fresh:
                arrays[at] = np.empty(min(arrays[at].size, SPARE), kind)
            if not fresh:
                arrays[buffers] = _apart(first)
            inputs[places] = first.shape + first.counters

    def take(self, made: list[tuple[int, Memory | None]], first: int) -> None:
        """Take over what a call has `made` of them, where the first one has the number `first`, and leave
        the others in the list, and those that may be handed out."""
        others = []
        handed = [buffers for _, buffers, *_ in self._handed]
        for at, memory in made:
            if at < first or memory is None or self._spans[at - first][0] in handed:
                others.append((at, memory))
            else:
                buffers, inputs, _ = self._spans[at - first]
                self.arrays[buffers] = memory.arrays
                self.inputs[inputs] = (*memory.shape, *memory.counters)
        made[:] = others

    def arguments(self) -> list[Argument]:
        found: list[Argument] = []
        for (level, _), (buffers, inputs, _) in zip(self._tensors, self._spans, strict=True):
            values, order = tuple(self.inputs[inputs]), level.order
            memory = Memory(values[:order], self.arrays[buffers], values[order:])
            body = memory.shape, memory.arrays, memory.counters
            found.append((None, level, *body, memory, 0, 0, _OWN))
        return found


def _apart(memory: Memory) -> list[np.ndarray]:
    """The arrays with memory of their own. Nothing is written to empty ones."""
    return [aligned_copy(array) if array.size else array for array in memory.arrays]
