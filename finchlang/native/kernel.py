"""Compiled kernels, and how they are called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from finchlang.native.abi import (
    FAILED,
    NO_MEMORY,
    OK,
    Failure,
    Layout,
    packer,
    unpacker,
)
from finchlang.native.call import CHANGED, Entry
from finchlang.native.journal import FULL
from finchlang.native.memory import adopt, free
from finchlang.native.runtime import address_of, address_of_array, new_slots
from finchlang.native.undo import OFF, Undo
from finchlang.source import Bug, FinchError

#: what a call comes to that ran to its end
_ENDED = OK, CHANGED


class NativeKernel:
    """A compiled residual program; `layout` is what is known of it.

    `run` is the simple way to call it. The quick way is a Frame (`frame()`), whose slots are
    written once and then only where something changed; `entry(frame.address)` is the bare native
    call and returns a status (`layout.py`, `call.py`), restoring and raising nothing.

    `written` numbers the buffers whose contents a call may change, `grown` those it may move to new
    memory, `journals` those it keeps a journal of (`journal.py`); `object_name` is the name its
    object code has in the disk cache, if it is there.
    """

    def __init__(
        self,
        layout: Layout,
        entry: Entry,
        code: Any,
        object_name: str | None = None,
    ):
        self.layout, self.entry, self.object_name = layout, entry, object_name
        self.journals = dict(layout.journals)
        own = {k for at in self.journals.values() for k in (at, at + 1)}
        self.written = tuple(number for number in layout.written if number not in own)
        self.grown, self.can_fail = layout.grown, layout.can_fail
        self._code = code  # the machine code is there as long as this is
        self._pack = [packer(type) for type in layout.inputs]
        self._unpack = [unpacker(type) for type in layout.outputs]

    def unpack_output(self, number: int, word: int) -> Any:
        """The output `number` from the word in its slot."""
        return self._unpack[number](word)

    def frame(self) -> Frame:
        """A new frame to call this kernel with."""
        return Frame(self)

    def run(
        self, arrays: Sequence[np.ndarray], inputs: Sequence[Any] = ()
    ) -> tuple[list[np.ndarray], list[Any]]:
        """Run on `arrays` (one for each buffer, of its type, one-dimensional and contiguous; none
        may overlap another) and `inputs`.

        Gives the arrays afterwards (the same object, changed in place, or a larger new one if it
        had to grow; its length is then its capacity) and the outputs. Raises FinchError if a Fail
        statement is reached, memory is not to be had (resource), or upon Ctrl-C (interrupted);
        all arrays are then as they were before.
        """
        layout = self.layout
        if len(arrays) != layout.given or len(inputs) != len(self._pack):
            raise Bug(f"{layout.name} is called with the wrong number of arguments")
        frame = self.frame()
        for number, (type, array) in enumerate(zip(layout.buffers, arrays, strict=False)):
            if array.dtype != type.dtype or not array.flags.c_contiguous:
                what = f"its buffer {number} is of {type}"
                raise Bug(f"{layout.name}: {what}, not {array.dtype} {array.strides}")
            frame.set_array(number, array)
        frame.set_inputs(inputs)
        frame.call([(number, arrays[number]) for number in self.written])
        results = list(arrays)
        for number in self.grown:
            results[number] = frame.array(number, arrays[number])
        return results, frame.outputs()


class Frame:
    """The slots of calls of one kernel: `slots` may be written directly, as `layout` says; one
    slice assignment of precomputed numbers is the quickest way. `address` is what `entry` is called
    with.

    A frame refers to the arrays whose addresses are in its slots only by those addresses: whoever
    writes an address keeps the array alive. A frame is for one thread.
    """

    __slots__ = ("_expected", "_saved", "_saves", "_undo", "_written", "address", "kernel", "slots")

    def __init__(self, kernel: NativeKernel):
        self.kernel, layout = kernel, kernel.layout
        watched = 1 + len(layout.grown)
        # behind the slots: the outputs as they were, a zero, and the block that `call` is given
        self._expected = slice(layout.size, layout.size + len(layout.outputs))
        zero = self._expected.stop
        block = zero + 1
        self._saves, self._saved = block + 2, block + 3 + 3 * watched
        self.slots = new_slots(self._saved + 3 * len(kernel.written))
        base = address_of(self.slots)
        self.address = base + 8 * block
        words = [base, watched, 0]  # the address of the slots, how often compared, how often saved
        words += [base + 8 * layout.first_output, base + 8 * layout.size, 8 * len(layout.outputs)]
        for number in layout.grown:
            words += [base + 8 * (3 * number + 2), base + 8 * zero, 8]
        self.slots[block : self._saved] = words
        self._written: Sequence[tuple[int, np.ndarray]] = ()
        self._undo = Undo((), {})
        for at in kernel.journals.values():
            self.set_array(at, OFF)
            self.set_array(at + 1, OFF)

    def set_array(self, number: int, array: np.ndarray) -> None:
        """Let `array` be the buffer `number`."""
        self.slots[3 * number : 3 * number + 3] = [address_of_array(array), array.size, 0]

    def set_inputs(self, inputs: Sequence[Any]) -> None:
        first = self.kernel.layout.first_input
        words = [pack(value) for pack, value in zip(self.kernel._pack, inputs, strict=True)]
        self.slots[first : first + len(words)] = words

    def outputs(self) -> list[Any]:
        """The outputs of the last call, as Python numbers."""
        first = self.kernel.layout.first_output
        words = self.slots[first : first + len(self.kernel._unpack)]
        return [unpack(word) for unpack, word in zip(self.kernel._unpack, words, strict=True)]

    def array(self, number: int, before: np.ndarray) -> np.ndarray:
        """The buffer `number` after a call that it entered as `before`: the same array, or the
        new one that it grew into. To be called once for each buffer in `grown` after each call."""
        data, capacity, begin = self.slots[3 * number : 3 * number + 3]
        if not begin:
            return before
        self.slots[3 * number + 2] = 0
        return adopt(data, capacity, begin, before.dtype)

    def expect(self) -> None:
        """Note the outputs, so that the next call says whether its own are others."""
        layout = self.kernel.layout
        self.slots[self._expected] = self.slots[layout.first_output : layout.failure]

    def call(self, written: Sequence[tuple[int, np.ndarray]]) -> bool:
        """Run the kernel; says whether it handed back new memory, or outputs other than `expect`
        noted. `written` are the arrays to restore if it fails, with the numbers of their buffers:
        those in `kernel.written`, except such as hold nothing worth keeping. Raises as
        `NativeKernel.run`.

        What restoring them takes is kept for the next time, as long as the same list is given.
        """
        if written is not self._written and self.kernel.can_fail:
            self._keep(written)
        before = self._begin() if self._undo.journals else None
        try:
            status = self.kernel.entry(self.address)
        except BaseException as error:
            self.stopped(error)
            raise
        if before is not None and status == FAILED and self._failure().message == FULL:
            self._restore()
            self._undo.was_full()
            self.slots[: len(before)] = before
            return self.call(written)  # now all is saved whole
        return self.ended(status)

    def ended(self, status: int) -> bool:
        """What `call` does with the status of a call."""
        if status in _ENDED:
            return status == CHANGED
        self._restore()
        raise self._error(status)

    def stopped(self, error: BaseException) -> None:
        """Restore all after a signal's handler raised an exception. Raises FinchError for Ctrl-C."""
        self._restore()
        if isinstance(error, KeyboardInterrupt):
            raise FinchError("interrupted", f"{self.kernel.layout.name} was interrupted") from None

    @property
    def keeps_journals(self) -> bool:
        """Whether something must be done before each call."""
        return bool(self._undo.journals)

    def _begin(self) -> list[int]:
        """Get the journals ready; gives what is in the slots."""
        self._undo.begin()
        return self.slots[: self.kernel.layout.first_input]

    def _keep(self, written: Sequence[tuple[int, np.ndarray]]) -> None:
        """Get ready to restore these arrays."""
        for at in self._undo.journals:
            self.set_array(at, OFF)
            self.set_array(at + 1, OFF)
        self._written, self._undo = written, Undo(written, self.kernel.journals)
        for at, journal in self._undo.journals.items():
            self.set_array(at, journal.at)
            self.set_array(at + 1, journal.was)
        saved, first = self._undo.saved, self._saved
        self.slots[first : first + len(saved)] = saved
        self.slots[self._saves] = len(saved) // 3

    def _restore(self) -> None:
        self._undo.undo()
        for number in self.kernel.grown:
            if self.slots[3 * number + 2]:
                free(self.slots[3 * number + 2])
                self.slots[3 * number + 2] = 0

    def _failure(self) -> Failure:
        """The statement that the last call failed at."""
        layout = self.kernel.layout
        return layout.failures[self.slots[layout.failure]]

    def _error(self, status: int) -> FinchError:
        """What went wrong in the last call, which returned `status`."""
        layout = self.kernel.layout
        if status == NO_MEMORY:
            return FinchError("resource", f"{layout.name} ran out of memory")
        if status != FAILED:
            raise Bug(f"{layout.name} returned {status}")
        fail = self._failure()
        words = self.slots[layout.failure + 1 : layout.failure + 1 + len(fail.values)]
        values = [unpacker(type)(word) for type, word in zip(fail.values, words, strict=True)]
        return FinchError(fail.kind, fail.message.format(*values), fail.span)
