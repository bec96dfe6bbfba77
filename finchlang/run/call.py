"""A call: check that what it writes may be written, fill in what the kernel is given, run it, and take
what it made or undo it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from finchlang.locks import reentrant_lock
from finchlang.native.kernel import NativeKernel
from finchlang.run.arguments import Argument
from finchlang.run.undo import Output, Undoing
from finchlang.source import FinchError
from finchlang.tensors.bind import Bound, spans
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
        owner = tensor.owner
        for k, other in enumerate(tensors):
            if other.owner is owner and k != at:
                raise _shared(names[at], names[k], "the same tensor")
        for start, stop in tensor.regions:
            for k, other in enumerate(tensors):
                for first, end in other.regions:
                    if start < end and first < stop and k != at and _share(tensor, other):
                        raise _shared(names[at], names[k], "views of the same memory")


def _shared(name: str, other: str, what: str) -> FinchError:
    message = f"{name} and {other} are {what}, and the kernel writes it"
    return FinchError("life cycle", message, None, "copy(...) makes a tensor of its own")


def _share(one: Argument, other: Argument) -> bool:
    return any(np.shares_memory(a, b) for a in one.seen() for b in other.seen())


#: What every call of a kernel is made within, in any session: what a call has found of memory stays as
#: it is until the call has ended. Others wait; a signal's handler, for which the call waits, must not
#: make one (`is_calling`).
one_call_at_a_time = reentrant_lock()

#: whether this thread is making a call already
is_calling: Callable[[], bool] = one_call_at_a_time._is_owned  # type: ignore[attr-defined]


def call_within_call() -> FinchError:
    what = "a kernel is run while another one runs in the same thread"
    hint = "a signal's handler can note what happened, and leave the kernel for later"
    return FinchError("life cycle", what, None, hint)


class NativeCall:
    """Calls of one compiled kernel, on tensors as `bounds` has them; those in `renewed` are declared
    before anything else is done with them."""

    def __init__(self, native: NativeKernel, bounds: Sequence[Bound], renewed: frozenset[str]):
        self._native, self._undoing = native, Undoing(native.layout.undo_log)
        #: of each tensor how it is written, if it is, and how many of the last counters are inputs
        self._plan: list[tuple[Output | None, int]] = []
        for bound, span in zip(bounds, spans(bounds), strict=True):
            is_renewed = bound.name in renewed
            output = Output(bound, span, native.layout, is_renewed) if bound.written else None
            self._plan.append((output, bound.given_counters))

    def __call__(
        self, arguments: Sequence[Argument], numbers: Sequence[Any]
    ) -> list[tuple[Argument, Memory | None]]:
        """Run on the arguments; gives those that are written, each with what was made of it (None if only
        the content of its arrays is new).

        Raises as `NativeKernel.call`; all arrays are then as they were.
        """
        arrays: list[np.ndarray] = []
        inputs: list[Any] = []
        written: list[tuple[Argument, Sequence[np.ndarray], Output]] = []
        undoing, native, plan = self._undoing, self._native, self._plan
        if undoing.has_logs:
            undoing.begin()
        for k, argument in enumerate(arguments):
            output, counters = plan[k]
            own = argument.arrays
            if output is not None:
                own = output.begin(argument, undoing)
                written.append((argument, own, output))
            arrays += own
            inputs += argument.shape
            if counters:
                inputs += argument.counters[-counters:]
        inputs += numbers
        if undoing.has_logs:
            undoing.add(arrays, inputs)
        try:
            outputs = native.call(arrays, inputs)
        except BaseException:
            undoing.undo()
            raise
        made: list[tuple[Argument, Memory | None]] = []
        for argument, own, output in written:
            result = output.finish(argument, own, native, inputs, outputs)
            is_other = result is not None and result.shape != argument.shape
            if is_other and not argument.takes_memory:
                # the value keeps what it was, and the name gets another
                copies = [array.copy() for array in result.arrays]  # type: ignore[union-attr]
                result = Memory(result.shape, copies, result.counters)  # type: ignore[union-attr]
                for array in argument.arrays:
                    undoing.undo_one(array)
            made.append((argument, result))
        undoing.kept.clear()  # it refers to nobody's arrays any more
        return made
