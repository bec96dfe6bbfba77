"""A call: check that what it writes may be written, fill in what the kernel is given, run it, and take
what it made or undo it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from finchlang.locks import reentrant_lock
from finchlang.native.kernel import NativeKernel
from finchlang.run.arguments import Argument
from finchlang.run.undo import Output, Undoing
from finchlang.source import FinchError
from finchlang.tensors.bind import Bound
from finchlang.tensors.memory import Memory


def check_outputs(
    names: Sequence[str], tensors: Sequence[Argument], written: Sequence[int]
) -> None:
    """Check that what a kernel writes, the tensors at `written`, may be written, and is nothing that it
    has by another name, too. Raises FinchError of kind "type" for a read-only array, "life cycle" for
    shared memory."""
    for at in written:
        tensor = tensors[at]
        if not tensor.is_writable:
            hint = f"{names[at]} = copy({names[at]}) makes one of its own"
            message = f"{names[at]} is a read-only array, and the kernel writes it"
            raise FinchError("type", message, None, hint)
        for other in tensors:
            if other is tensor:
                continue
            if other.owner is tensor.owner:
                raise _shared(names[at], names[tensors.index(other)], "the same tensor")
            for start, stop in tensor.regions:
                for first, end in other.regions:
                    if start < end and first < stop and _share(tensor, other):
                        what = "views of the same memory"
                        raise _shared(names[at], names[tensors.index(other)], what)


def _shared(name: str, other: str, what: str) -> FinchError:
    message = f"{name} and {other} are {what}, and the kernel writes it"
    return FinchError("life cycle", message, None, "copy(...) makes a tensor of its own")


def _share(one: Argument, other: Argument) -> bool:
    return any(np.shares_memory(a, b) for a in one.arrays() for b in other.arrays())


#: What every call of a kernel is made within, in any session: what a call has found of memory stays as
#: it is until the call has ended. Others wait; a signal's handler, for which the call waits, must not
#: make one (`check_alone`).
one_call_at_a_time = reentrant_lock()


def check_alone() -> None:
    """Raise FinchError "life cycle" if this thread is making a call already."""
    if one_call_at_a_time._is_owned():  # type: ignore[attr-defined]
        what = "a kernel is run while another one runs in the same thread"
        hint = "a signal's handler can note what happened, and leave the kernel for later"
        raise FinchError("life cycle", what, None, hint)


class NativeCall:
    """Calls of one compiled kernel, on tensors as `bounds` has them; those in `renewed` are declared
    before anything else is done with them."""

    def __init__(self, native: NativeKernel, bounds: Iterable[Bound], renewed: frozenset[str]):
        self._native, self._undoing = native, Undoing(native.layout.undo_log)
        #: of each tensor so many of the last counters are inputs
        self._counters: list[int] = []
        self._outputs: list[Output | None] = []
        first = first_input = first_output = 0
        for bound in bounds:
            output = None
            if bound.written:
                starts = first, first_input, first_output
                output = Output(bound, *starts, native.layout, bound.name in renewed)
            self._outputs.append(output)
            self._counters.append(bound.given_counters)
            first, first_input = first + len(bound.buffers), first_input + len(bound.inputs)
            first_output += len(bound.outputs)

    def __call__(
        self, arguments: Sequence[Argument], numbers: Sequence[Any]
    ) -> list[tuple[Argument, Memory]]:
        """Run on the arguments; gives those that are written, each with what was made of it.

        Raises as `NativeKernel.call`; all arrays are then as they were.
        """
        arrays: list[np.ndarray] = []
        inputs: list[Any] = []
        written: list[tuple[Argument, Memory, Output]] = []
        undoing, native = self._undoing, self._native
        if undoing.has_logs:
            undoing.begin()
        plan = zip(arguments, self._outputs, self._counters, strict=True)
        for argument, output, counters in plan:
            memory = argument.memory
            if output is not None:
                memory = output.begin(argument, undoing)
                written.append((argument, memory, output))
            arrays += memory.arrays
            inputs += memory.shape
            if counters:
                inputs += memory.counters[-counters:]
        inputs += numbers
        if undoing.has_logs:
            undoing.add(arrays, inputs)
        try:
            outputs = native.call(arrays, inputs)
        except BaseException:
            undoing.undo()
            raise
        made: list[tuple[Argument, Memory]] = []
        for argument, memory, output in written:
            result = output.finish(argument, memory, native, inputs, outputs)
            if result.shape != argument.memory.shape and not argument.takes_memory:
                # the value keeps what it was, and the name gets another
                copies = [array.copy() for array in result.arrays]
                result = Memory(result.shape, copies, result.counters)
                for array in argument.memory.arrays:
                    undoing.undo_one(array)
            made.append((argument, result))
        undoing.kept.clear()  # it refers to nobody's arrays any more
        return made
