"""Compiled kernels, and how they are called."""

from __future__ import annotations

from typing import Any

import numpy as np

from finchlang.native.abi import FAILED, NO_MEMORY, OK, Layout, packer, unpacker
from finchlang.native.call import Entry
from finchlang.native.memory import adopt, free
from finchlang.source import Bug, FinchError, failure


class NativeKernel:
    """A compiled residual program; `layout` is what is known of it, `object_name` the name that its
    object code has in the disk cache, if it is there.

    `entry`, given the arrays of the buffers, is the bare native call on them and the inputs in `slots`,
    which are as `layout` has them. It returns a status (`abi.py`), and keeps nothing of what it
    overwrites.
    """

    def __init__(
        self, layout: Layout, slots: Any, entry: Entry, code: Any, object_name: str | None = None
    ):
        self.layout, self.slots, self.entry, self.object_name = layout, slots, entry, object_name
        self._code = code  # the machine code is there as long as this is
        pack = [packer(type) for type in layout.inputs]
        self._packed = [(k, p) for k, p in enumerate(pack) if p is not int]
        unpack = [unpacker(type) for type in layout.outputs]
        self._unpacked = [(k, u) for k, u in enumerate(unpack) if u is not int]
        self._inputs = slice(layout.first_input, layout.first_output)
        self._outputs = slice(layout.first_output, layout.failure)

    def call(self, arrays: list[np.ndarray], inputs: list[Any]) -> list[Any]:
        """Run on the arrays of the buffers, which are contiguous, and inputs (this changes `inputs`);
        gives the outputs as Python numbers. Only one call is made at a time.

        Raises FinchError, or Bug, if a Fail statement is reached, memory is not to be had (resource),
        or upon Ctrl-C (interrupted), and what a signal's handler raises. The arrays are then as the
        kernel left them, and what it allocated is free again.
        """
        for k, pack in self._packed:
            inputs[k] = pack(inputs[k])
        slots = self.slots
        slots[self._inputs] = inputs
        try:
            status = self.entry(arrays)
        except BaseException as error:
            self.release()
            if isinstance(error, KeyboardInterrupt):
                message = f"{self.layout.name} was interrupted"
                raise FinchError("interrupted", message) from None
            raise
        if status != OK:
            self.release()
            raise self._error(status)
        outputs = slots[self._outputs]
        for k, unpack in self._unpacked:
            outputs[k] = unpack(outputs[k])
        return outputs

    def grown(self, number: int, dtype: np.dtype) -> np.ndarray | None:
        """The new memory of buffer `number`, if the last call gave it any; to be asked for once."""
        slots, at = self.slots, 3 * number
        begin = slots[at + 2]
        if not begin:
            return None
        slots[at + 2] = 0
        return adopt(slots[at], slots[at + 1], begin, dtype)

    def release(self) -> None:
        """Free the memory that the last call allocated, as far as nobody asked for it."""
        for number in self.layout.grown:
            begin = self.slots[3 * number + 2]
            if begin:
                self.slots[3 * number + 2] = 0
                free(begin)

    def _error(self, status: int) -> FinchError | Bug:
        """What went wrong in the last call, which returned `status`."""
        layout = self.layout
        if status == NO_MEMORY:
            return FinchError("resource", f"{layout.name} ran out of memory")
        if status != FAILED:
            raise Bug(f"{layout.name} returned {status}")
        fail = layout.failures[self.slots[layout.failure]]
        words = self.slots[layout.failure + 1 : layout.failure + 1 + len(fail.values)]
        values = [unpacker(type)(word) for type, word in zip(fail.values, words, strict=True)]
        return failure(fail.kind, fail.message.format(*values), fail.span)
