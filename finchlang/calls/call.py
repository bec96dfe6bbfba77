"""A call: check that its outputs may be written, give the kernel its inputs, run it, and take over the
results or undo them. The tensors of a kernel's own keep their memory from call to call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from finchlang.base.aligned_memory import aligned_copy
from finchlang.base.errors import FinchError
from finchlang.base.locks import reentrant_lock
from finchlang.calls import arguments as args
from finchlang.calls.arguments import (
    ARRAYS,
    COUNTERS,
    KIND,
    OWNER,
    SHAPE,
    START,
    STOP,
    VALUE,
    Argument,
    Kind,
)
from finchlang.calls.compile_cache import Signature
from finchlang.calls.undo import Output, Undoing
from finchlang.levels.level import Level
from finchlang.levels.scalars import Scalar as ScalarLevel
from finchlang.native.compiled_kernel import NativeKernel
from finchlang.syntax.types import PLAIN, number
from finchlang.tensors.bind import Bound, spans
from finchlang.tensors.memory import Memory
from finchlang.tensors.tensor import Scalar, Tensor


def check_outputs(
    names: Sequence[str], tensors: Sequence[Argument], written: Sequence[int]
) -> None:
    """Check that the tensors at `written` may be written and share no memory with another argument.
    Raises FinchError of kind "type" for a read-only array, "life cycle" for memory shared with another one,
    or by two entries."""
    for at in written:
        tensor = tensors[at]
        if not tensor[KIND].is_writable(tensor):
            hint = f"{names[at]} = copy({names[at]}) makes one of its own"
            message = f"{names[at]} is a read-only array, and the kernel writes it"
            raise FinchError("type", message, None, hint)
        if tensor[KIND] is args.COPIED_ARRAY and args.shares_entries(tensor):
            message = f"entries of {names[at]} are in the same memory, and the kernel writes it"
            raise FinchError("life cycle", message, None, "copy(...) makes a tensor of its own")
        owner, start, stop = tensor[OWNER], tensor[START], tensor[STOP]
        for other in tensors:
            is_near = start < other[STOP] and other[START] < stop or other[OWNER] is owner
            if is_near and other is not tensor:
                own = [known is other for known in tensors].index(True)
                _check_apart(f"{names[at]} and {names[own]}", tensor, other)


def _check_apart(names: str, written: Argument, other: Argument) -> None:
    is_same = written[OWNER] is other[OWNER]
    seen, others = written[KIND].seen(written), other[KIND].seen(other)
    if is_same or any(np.shares_memory(a, b) for a in seen for b in others):
        what = "the same tensor" if is_same else "views of the same memory"
        message = f"{names} are {what}, and the kernel writes it"
        raise FinchError("life cycle", message, None, "copy(...) makes a tensor of its own")


def taken_over(
    names: Sequence[str], given: Sequence[Argument], made: Iterable[tuple[int, Memory | None]]
) -> dict[str, Any]:
    """Have arguments, which have these names, take over their new memory, each by its number. Gives the
    objects that replace some."""
    found = {}
    for at, memory in made:
        argument = given[at]
        value = argument[KIND].commit(argument, memory)
        if value is not argument[VALUE]:
            found[names[at]] = value
    return found


_OWN = Kind()
#: results that have at most so many entries begin with as much room in the next call
SPARE = 4096


def handing_out(level: Level, is_array: bool) -> Callable[[Memory], Any]:
    """What makes the object for a tensor of a unit's own that its caller gets."""
    if is_array:
        return lambda memory: memory.arrays[0][: memory.shape[0]]
    if isinstance(level, ScalarLevel):
        return lambda memory: Scalar(level, level.value_of(memory.counters))
    return lambda memory: Tensor.over(level, memory, True)


def _first(level: Level) -> Memory:
    if isinstance(level, ScalarLevel):
        return Memory((), (), tuple(level.held(level.fill.value)))
    return Tensor(level).memory


class OwnTensors:
    """The tensors of these `bounds`, a kernel's workspaces or what a unit makes, which are all written:
    their `arrays`, and their sizes and counters as `inputs`, in the order in which a kernel takes them.
    They keep their memory, whatever it holds, and are as new after a call that failed; those that may be
    `handed` out begin each call as new ones."""

    def __init__(self, bounds: Sequence[Bound], handed: Collection[str] = ()):
        self._bounds, self._spans = bounds, spans(bounds)
        self._first = [_first(bound.level) for bound in bounds]
        places = zip(bounds, self._first, self._spans, strict=True)
        #: of each that may be handed out its memory at first, where it stands among all, and which of its
        #: arrays may begin in any memory, with their types
        self._handed = {}
        for at, (bound, first, (buffers, inputs, _)) in enumerate(places):
            if bound.name in handed:
                takes_any = not any(part.clears_entries for part in bound.level.levels())
                kinds = [array.dtype for array in first.arrays] if takes_any else []
                fresh = [*zip(range(buffers.start, buffers.stop), kinds, strict=False)]
                self._handed[at] = first, buffers, inputs, fresh
        self.arrays: list[np.ndarray] = []
        self.inputs: list[Any] = []
        self.reset()

    def __len__(self) -> int:
        return len(self._bounds)

    def reset(self) -> None:
        self.arrays, self.inputs = [], []
        for bound, memory in zip(self._bounds, self._first, strict=True):
            self.arrays += _apart(memory)
            self.inputs += bound.given(memory.shape, memory.counters)

    def keep(self, arrays: list[np.ndarray], inputs: list[Any]) -> None:
        """Take over what a call has left of all of them. Those that may be handed out begin anew, with room
        for as much as the last call needed: NumPy makes small arrays in less time than it takes over those
        of a kernel."""
        self.arrays, self.inputs = arrays, inputs
        for first, buffers, places, fresh in self._handed.values():
            for at, kind in fresh:
                arrays[at] = np.empty(min(arrays[at].size, SPARE), kind)
            if not fresh:
                arrays[buffers] = _apart(first)
            inputs[places] = first.shape + first.counters

    def take(self, made: list[tuple[int, Memory | None]], first: int) -> None:
        """Take over what a call has `made` of them, where the first one has the number `first`, and leave
        the others in the list, and those that may be handed out."""
        others = []
        for at, memory in made:
            if at < first or memory is None or at - first in self._handed:
                others.append((at, memory))
            else:
                buffers, inputs, _ = self._spans[at - first]
                self.arrays[buffers] = memory.arrays
                self.inputs[inputs] = *memory.shape, *memory.counters
        made[:] = others

    def arguments(self) -> list[Argument]:
        found: list[Argument] = []
        for bound, (buffers, inputs, _) in zip(self._bounds, self._spans, strict=True):
            values, order = tuple(self.inputs[inputs]), bound.level.order
            memory = Memory(values[:order], self.arrays[buffers], values[order:])
            body = memory.shape, memory.arrays, memory.counters
            found.append((None, bound.level, *body, memory, 0, 0, _OWN))
        return found


def _apart(memory: Memory) -> list[np.ndarray]:
    """The arrays with memory of their own. Nothing is written to empty ones."""
    return [aligned_copy(array) if array.size else array for array in memory.arrays]


#: Every call of a kernel holds this lock, in any session, so that the memory it was given does not change
#: before it ends. Other threads wait. A signal handler runs in the thread of the interrupted call and
#: would be let in: it must not call a kernel (`is_calling`).
one_call_at_a_time = reentrant_lock()

#: whether this thread is making a call already
is_calling: Callable[[], bool] = one_call_at_a_time._is_owned  # type: ignore[attr-defined]


class Made(list[tuple[int, Memory | None]]):
    """The tensors that are written, by their numbers among the arguments, each with its new memory (None:
    only contents changed). `results` are the numbers that a unit hands back, as scripts keep them, and
    `homes` the number of the tensor that each slot holds which exchanges, by the slot's number."""

    __slots__ = ("homes", "results")
    results: Sequence[Any]
    homes: Mapping[int, int]


#: those, and the host steps taken
Outcome = tuple[Made, Counter[str]]
Values = Sequence[Any]


class NativeCall:
    """Calls of one compiled kernel on tensors bound as in `bounds`, of which the last are its `own`,
    perhaps with checks of memory. What does not depend on the arguments of a call is found once."""

    def __init__(
        self,
        native: NativeKernel,
        bounds: Sequence[Bound],
        signature: Signature,
        checked: bool,
        own: OwnTensors,
    ):
        undoing = Undoing(native.layout.undo_log)
        self._native, self._undoing, self._own = native, undoing, own
        self._bounds, self._checked = bounds, checked
        given = bounds[: len(bounds) - len(own)]
        #: for each tensor that is given, how many of its last counters are inputs
        self._counters = [bound.given_counters for bound in given]
        self._spans = spans(bounds)
        self._outputs = [
            (at, Output(bound, span, native, undoing, signature, checked))
            for at, (bound, span) in enumerate(zip(given, self._spans, strict=False))
            if bound.written
        ]
        slots = [bound.name for bound in bounds]
        self._exchanging = [*map(slots.index, signature.exchanging)]
        self._staying = [(at, o) for at, o in self._outputs if at not in self._exchanging]
        #: where the results begin among the outputs, and after them what the slots hold which exchange
        self._results = len(native.layout.outputs) - len(signature.results) - len(self._exchanging)
        self._homes = self._results + len(signature.results)
        types = native.layout.outputs[self._results : self._homes]
        self._kinds = [(k, t) for k, t in enumerate(types) if t not in PLAIN]
        #: the slots that are handed out and whose tensors are not always those given in them: their
        #: numbers, buffers, sizes and counters
        self._moving = []
        for at, (bound, (buffers, _, outs)) in enumerate(zip(bounds, self._spans, strict=True)):
            is_moving = at >= len(given) or at in self._exchanging
            if bound.name in signature.handed and is_moving:
                first = outs.start + bound.level.order
                places = buffers, slice(outs.start, first), slice(first, outs.stop)
                self._moving.append((at, *places))
        ends = self._spans[len(given) :]
        #: the tensors of its own among the buffers, and among the outputs
        both = (*zip(*ends, strict=True),)[::2]
        self._kept = [slice(spans[0].start, spans[-1].stop) for spans in both]

    def run(self, arguments: Sequence[Argument], numbers: Sequence[Any]) -> Made:
        """Run on the arguments. Gives those that are written, each with its new memory (None if only the
        content of its arrays changed). Raises as `NativeKernel.call`; all arrays are then as before."""
        arrays: list[np.ndarray] = []
        inputs: list[Any] = []
        undoing, own = self._undoing, self._own
        for argument, count in zip(arguments, self._counters, strict=True):
            arrays += argument[ARRAYS]
            inputs += argument[SHAPE]
            if count:
                inputs += argument[COUNTERS][-count:]
        if self._checked:  # cut to what is in use, so that a read beyond that is caught
            both = zip((*arguments, *own.arguments()), self._bounds, strict=True)
            arrays = [array for a, bound in both for array in args.in_use(a, bound.level)]
        elif self._kept:
            arrays += own.arrays
        inputs += own.inputs
        inputs += numbers
        try:
            for at, output in self._outputs:
                output.begin(arguments[at], arrays)
            if undoing.has_logs:
                undoing.add(arrays, inputs)
            if self._checked:  # the kernel makes its shadow buffers itself
                missing = len(self._native.layout.buffers) - len(arrays)
                arrays += [np.empty(0, np.uint8) for _ in range(missing)]
            outputs = self._native.call(arrays, inputs)
            made = self.made(arguments, arrays, inputs, outputs)
            if self._kept:
                buffers, counters = self._kept
                own.keep(arrays[buffers], outputs[counters])
            if self._checked:
                self._native.release()
            return made
        except BaseException:  # KeyboardInterrupt, too
            undoing.undo()
            own.reset()
            self._native.release()
            raise
        finally:
            # or it would keep the arguments' arrays alive; no interrupt is raised between this and the
            # taking over of results, as it would be where a function returns
            del undoing.kept[:]

    def made(
        self,
        arguments: Sequence[Argument],
        arrays: list[np.ndarray],
        inputs: list[Any],
        outputs: list[Any],
    ) -> Made:
        """The tensors that are written with their new memory, after a call. `arrays` then has what they and
        the kernel's own tensors have."""
        found, held = Made(), outputs[self._homes :]
        found.results = results = outputs[self._results : self._homes]
        homes: dict[int, int] = {}
        found.homes = homes
        for k, type in self._kinds:
            results[k] = number(results[k], type)
        if held != self._exchanging:
            before = arrays[:]  # what has not grown is where the tensor has it
            homes.update(zip(self._exchanging, held, strict=True))
            for at, home in homes.items():
                arrays[self._spans[at][0]] = before[self._spans[home][0]]
        grown: Mapping[int, np.ndarray] = {}
        if self._native.layout.grown:
            grown = self._native.grown()
            for buffer, array in grown.items():
                arrays[buffer] = array
        for at, output in self._staying:
            found.append((at, output.finish(arguments[at], arrays, grown, inputs, outputs)))
        for at, buffers, shape, counters in self._moving:
            memory = Memory(tuple(outputs[shape]), arrays[buffers], tuple(outputs[counters]))
            found.append((homes.get(at, at), memory))
        return found
