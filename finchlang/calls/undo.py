"""Undoing a call of a native kernel: the arrays it writes are as before if it fails.

A tensor that is written is of one of three classes. *Declared anew*: the kernel writes into a back
buffer, which is swapped in on success. *Stored to at scattered positions*: the kernel keeps a log of what
it overwrites (`optimize/undo_log.py`). *Else* the arrays are saved before the call.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from finchlang.base.aligned_memory import aligned_copy
from finchlang.calls.arguments import ARRAYS, KIND, SHAPE, Argument
from finchlang.calls.compile_cache import Signature
from finchlang.host.noted import LAST_EPOCH, Log, UndoLog, undo
from finchlang.native.compiled_kernel import NativeKernel
from finchlang.tensors.bind import Bound
from finchlang.tensors.memory import Memory


class Output:
    """A tensor that a kernel writes, and where its buffers, inputs and outputs are among the kernel's."""

    def __init__(
        self,
        bound: Bound,
        span: tuple[slice, slice, slice],
        native: NativeKernel,
        undoing: Undoing,
        signature: Signature,
        checked: bool,
    ):
        self.buffers, self.inputs, self.outputs = span
        self.undoing = undoing
        first_counter = self.outputs.start + bound.level.order
        self.shape = slice(self.outputs.start, first_counter)
        self.counters = slice(first_counter, self.outputs.stop)
        self.numbers = numbers = range(self.buffers.start, self.buffers.stop)
        dtypes = [buffer.type.dtype for buffer in bound.buffers]
        layout, numbered = native.layout, list(zip(numbers, dtypes, strict=True))
        self.grown = [number for number in numbers if number in layout.grown]
        #: the written buffers by number, with an empty array of the type of each
        self.written = [(n, np.empty(0, dtype)) for n, dtype in numbered if n in layout.written]
        self.unwritten = [n for n in numbers if n not in layout.written]
        self.is_declared = bound.name in signature.declared
        #: whether the kernel declares the tensor before all else and grows every array it writes, so that
        #: it may be given any memory
        is_renewed = bound.name in signature.renewed
        self.is_renewed = is_renewed and {n for n, _ in self.written} <= {*layout.grown}
        #: whether this call was given other arrays than the argument's
        self.is_apart = False
        #: checked kernels get no back buffer: its old entries would pass for written ones
        self.checked = checked
        #: whether equal sizes and counters mean that only the contents of arrays changed
        counts = [level.counts_lengths for level in bound.level.levels()]
        self.is_counted = bool(bound.buffers) and all(counts)

    def begin(self, argument: Argument, arrays: list[np.ndarray]) -> None:
        """Prepare a call: exchange or save those of the kernel's `arrays` that belong to this tensor."""
        undoing, kind = self.undoing, argument[KIND]
        is_renewed = self.is_renewed and kind.takes_memory
        is_handed_out = self.is_declared and kind.is_handed_out(argument)
        self.is_apart = is_renewed or is_handed_out
        if is_handed_out:  # arrays that were given away keep their content
            for number in self.unwritten if is_renewed else self.numbers:
                arrays[number] = aligned_copy(arrays[number])
        if not is_renewed:
            for number, _ in self.written:
                undoing.keep(number, arrays[number])
            return
        back_buffer = None if self.checked else kind.back_buffer(argument)
        first = self.buffers.start
        for number, empty in self.written:
            spare = empty if back_buffer is None else back_buffer.arrays[number - first]
            # a kernel that writes only some arrays leaves the others shared by both memories, so
            # the spare array may be the one that is read
            arrays[number] = empty if spare is arrays[number] else spare

    def finish(
        self,
        argument: Argument,
        arrays: list[np.ndarray],
        grown: Collection[int],
        inputs: list[Any],
        outputs: list[Any],
    ) -> Memory | None:
        """The new memory of the argument; None if only the content of its arrays changed. `grown` are the
        numbers of those that are new."""
        takes_memory = argument[KIND].takes_memory
        is_in_place = not self.is_apart
        if grown and is_in_place:
            is_in_place = not any([number in grown for number in self.grown])
        if is_in_place and self.is_counted and outputs[self.outputs] == inputs[self.inputs]:
            return None
        own: Sequence[np.ndarray] = argument[ARRAYS] if is_in_place else arrays[self.buffers]
        shape, counters = tuple(outputs[self.shape]), tuple(outputs[self.counters])
        if not takes_memory and shape != argument[SHAPE]:
            # the value cannot take another size: it is restored, and the name gets a copy
            own = [array.copy() for array in own]
            self.undoing.undo({number for number, _ in self.written})
        return Memory(shape, own, counters)


class Undoing:
    """The logs and saved copies of arrays that a kernel writes in place, whose memory is used again."""

    def __init__(self, undo_log: UndoLog):
        self._logs = {log.array: _LogMemory(log) for log in undo_log.logs}
        self._saved: dict[int, np.ndarray] = {}  # by number of buffer
        self._epoch = 0
        #: whether `add` has anything to do
        self.has_logs = bool(self._logs)
        self.kept: list[tuple[int, np.ndarray]] = []

    def keep(self, number: int, array: np.ndarray) -> None:
        """Log or save `array`, buffer `number`, to be restored if the call fails."""
        log = self._logs.get(number)
        if log is not None:
            log.take(array)
        else:
            saved = self._saved.get(number)
            if saved is None or saved.size != array.size:
                self._saved[number] = array.copy()
            else:
                saved[...] = array
        self.kept.append((number, array))

    def add(self, arrays: list[np.ndarray], inputs: list[Any]) -> None:
        """Append the kernel's inputs for the logs: their arrays, the epoch, and the sizes it asks for."""
        self._epoch += 1
        if self._epoch > LAST_EPOCH:
            # entries marked in an earlier round of epochs would count as logged
            self._epoch = 1
            for log in self._logs.values():
                log.touched[:] = 0
        inputs.append(self._epoch)
        for number, log in self._logs.items():
            if not log.given and not log.tells_size:  # of a tensor of the kernel's own
                log.take(arrays[number])
            arrays += log.touched, log.at, log.was
            if log.tells_size:
                inputs.append(log.given)
            log.given = 0

    def undo(self, numbers: Collection[int] | None = None) -> None:
        """Restore the arrays of all buffers, or of these alone."""
        for number, array in self.kept:
            if numbers is not None and number not in numbers:
                continue
            log = self._logs.get(number)
            if log is not None:
                undo(array, log.at, log.was)
            else:
                array[...] = self._saved[number]


class _LogMemory:
    """The arrays of one log, with room for every entry of the array it is kept of."""

    def __init__(self, log: Log):
        self.touched, self.at, self.was = _log_arrays(0, np.dtype(np.int8))
        self.tells_size = log.size is not None
        self.given = 0  # the number of entries of the logged array

    def take(self, array: np.ndarray) -> None:
        self.given = array.size
        if self.was.size < array.size or self.was.dtype != array.dtype:
            self.touched, self.at, self.was = _log_arrays(array.size, array.dtype)
        self.at[0] = 0


def _log_arrays(size: int, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.zeros(size, np.uint8), np.empty(size + 1, np.int64), np.empty(size, dtype)
