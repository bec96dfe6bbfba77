"""A native call: fill in what the kernel is given, run it, and take what it made or undo it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from typing import Any

from finchlang.native.kernel import NativeKernel
from finchlang.run.arguments import Argument
from finchlang.run.undo import Output, Undoing
from finchlang.source import FinchError
from finchlang.tensors.bind import Bound
from finchlang.tensors.memory import Memory


class _OneAtATime:
    """Keeps what a call has found of memory as it is until the call has ended: others wait, and a
    signal's handler, for which the call waits, must not make one."""

    def __init__(self) -> None:
        self._lock, self._thread = threading.Lock(), 0

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            if self._thread == threading.get_ident():
                what = "a kernel is run while another one runs in the same thread"
                hint = "a signal's handler can note what happened, and leave the kernel for later"
                raise FinchError("life cycle", what, None, hint)
            self._lock.acquire()
        self._thread = threading.get_ident()

    def __exit__(self, *_: object) -> None:
        self._thread = 0
        self._lock.release()

    def forget(self) -> None:
        """Begin anew in the child of a fork: a call of another thread has not come along."""
        self.__init__()  # type: ignore[misc]


#: what every call of a kernel is made within, in any session
one_call_at_a_time = _OneAtATime()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=one_call_at_a_time.forget)


class NativeCall:
    """Calls of one compiled kernel, on tensors as `bounds` has them; those in `renewed` are declared
    before anything else is done with them."""

    def __init__(self, native: NativeKernel, bounds: Iterable[Bound], renewed: frozenset[str]):
        self._native, self._undoing = native, Undoing(native.layout.undo_log)
        #: for each tensor how many of its counters are inputs, and what it is as an output
        self._tensors: list[tuple[int, Output | None]] = []
        first = first_output = 0
        for bound in bounds:
            output = None
            if bound.written:
                anew = bound.name in renewed
                output = Output(bound, first, first_output, native.layout, anew)
            self._tensors.append((bound.given_counters, output))
            first, first_output = first + len(bound.buffers), first_output + len(bound.outputs)

    def __call__(
        self, arguments: Sequence[Argument], numbers: Sequence[Any]
    ) -> list[Memory | None]:
        """Run on the arguments; gives for each what was made of it, None where it is not written.

        Raises as `NativeKernel.call`; all arrays are then as they were.
        """
        words: list[int] = []
        inputs: list[Any] = []
        written: list[tuple[int, Argument, Memory, Output]] = []
        undoing = self._undoing
        undoing.begin()
        at = 0
        for counters, output in self._tensors:
            argument = arguments[at]
            memory = argument.memory
            if output is not None:
                memory = output.begin(argument, undoing)
                written.append((at, argument, memory, output))
            words += memory.words
            inputs += memory.shape
            if counters:
                inputs += memory.counters[-counters:]
            at += 1
        inputs += numbers
        undoing.add(words, inputs)
        try:
            outputs = self._native.call(words, inputs)
        except BaseException:
            undoing.undo()
            raise
        made: list[Memory | None] = [None] * at
        for at, argument, memory, output in written:
            result = output.finish(argument, memory, self._native, outputs)
            if result.shape != argument.memory.shape and not argument.takes_memory:
                # the value keeps what it was, and the name gets another
                arrays = [array.copy() for array in result.arrays]
                result = Memory(result.shape, arrays, result.counters)
                for array in argument.memory.arrays:
                    undoing.undo_one(array)
            made[at] = result
        undoing.end()
        return made
