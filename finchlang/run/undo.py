"""What a call of a native kernel may change, and how it is as before if the call fails.

A tensor that is written is of one of three classes. *Declared anew*: the kernel writes into a back
buffer, which is swapped in on success. *Stored to at scattered positions*: the kernel keeps a log of
what it overwrites (`host/passes/undo_log.py`). *Else* the arrays are saved before the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from finchlang.host.passes.undo_log import LAST_EPOCH, Log, UndoLog, undo
from finchlang.native.abi import Layout
from finchlang.native.kernel import NativeKernel
from finchlang.run.arguments import Argument
from finchlang.tensors.bind import Bound
from finchlang.tensors.memory import Memory


class Output:
    """A tensor that a kernel writes: where its buffers, inputs and outputs are among those of the
    kernel. `is_renewed` if it is declared before anything else is done with it."""

    def __init__(
        self, bound: Bound, span: tuple[slice, slice, slice], layout: Layout, is_renewed: bool
    ):
        buffers, self.inputs, self.outputs = span
        first, count = buffers.start, range(len(bound.buffers))
        self.first, self.order = first, bound.level.order
        self.written = [k for k in count if first + k in layout.written]
        self.grown = [k for k in count if first + k in layout.grown]
        #: whether the kernel asks for all the room it needs, whatever memory it is given
        self.is_renewed = is_renewed and set(self.written) <= set(self.grown)
        self.dtypes = [buffer.type.dtype for buffer in bound.buffers]
        self.empty = [np.empty(0, dtype) for dtype in self.dtypes]
        #: whether all that a call makes anew but what is in the arrays is seen in sizes and counters
        counts = [level.counts_lengths for level in bound.level.levels()]
        self.is_counted = bool(bound.buffers) and all(counts)

    def begin(self, argument: Argument, undoing: Undoing) -> Sequence[np.ndarray]:
        """The arrays that the kernel is given for the argument."""
        if not self.is_renewed or not argument.takes_memory:
            for k in self.written:
                undoing.keep(self.first + k, argument.arrays[k])
            return argument.arrays
        back_buffer, arrays = argument.back_buffer, list(argument.arrays)
        for k in self.written:
            # a kernel that writes some arrays only leaves others to both memories
            is_free = back_buffer is not None and back_buffer.arrays[k] is not arrays[k]
            arrays[k] = back_buffer.arrays[k] if is_free else self.empty[k]  # type: ignore[union-attr]
            undoing.pass_over(self.first + k)
        return arrays

    def finish(
        self,
        argument: Argument,
        arrays: Sequence[np.ndarray],
        native: NativeKernel,
        inputs: list[Any],
        outputs: list[Any],
    ) -> Memory | None:
        """What a call made of the argument, for which the kernel was given these arrays; None if nothing
        but the content of the argument's own is new."""
        outputs = outputs[self.outputs]
        for k in self.grown:
            grown = native.grown(self.first + k, self.dtypes[k])
            if grown is not None:
                arrays = [*arrays[:k], grown, *arrays[k + 1 :]]
        if self.is_counted and arrays is argument.arrays and outputs == inputs[self.inputs]:
            return None
        order = self.order
        return Memory(tuple(outputs[:order]), arrays, tuple(outputs[order:]))


class Undoing:
    """What is kept of the arrays that a kernel writes in place, for one call after another; its own
    memory stays for the next call."""

    def __init__(self, undo_log: UndoLog):
        self._logs = {log.array: _LogMemory(log) for log in undo_log.logs}
        self._saved: dict[int, np.ndarray] = {}  # by number of buffer
        self._epoch = 0
        #: whether `begin` and `add` have anything to do
        self.has_logs = bool(self._logs)
        self.kept: list[tuple[int, np.ndarray]] = []

    def begin(self) -> None:
        """Get ready for a call, if there are logs."""
        self._epoch += 1
        if self._epoch > LAST_EPOCH:
            self._epoch = 1
            for log in self._logs.values():
                log.touched[:] = 0

    def keep(self, number: int, array: np.ndarray) -> None:
        """Have buffer `number`, which is `array`, restored if the call fails."""
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

    def pass_over(self, number: int) -> None:
        """Have nothing noted of buffer `number`."""
        if number in self._logs:
            self._logs[number].given = 0

    def add(self, arrays: list[np.ndarray], inputs: list[Any]) -> None:
        """Tell the kernel of the logs: their arrays, the epoch, and the sizes that they ask for."""
        inputs.append(self._epoch)
        for log in self._logs.values():
            arrays += log.touched, log.at, log.was
            if log.tells_size:
                inputs.append(log.given)

    def undo(self) -> None:
        """Have all arrays as they were."""
        for number, array in self.kept:
            self._restore(number, array)
        self.kept.clear()

    def undo_one(self, own: np.ndarray) -> None:
        """Have this array alone as it was."""
        for number, array in self.kept:
            if array is own:
                self._restore(number, array)

    def _restore(self, number: int, array: np.ndarray) -> None:
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
        self.given = 0  # how many entries the array had at the last call

    def take(self, array: np.ndarray) -> None:
        """Make room for a log of `array`."""
        self.given = array.size
        if self.was.size < array.size or self.was.dtype != array.dtype:
            self.touched, self.at, self.was = _log_arrays(array.size, array.dtype)
        self.at[0] = 0


def _log_arrays(size: int, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.zeros(size, np.uint8), np.empty(size + 1, np.int64), np.empty(size, dtype)
