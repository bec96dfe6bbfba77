"""Calling compiled kernels on tensors, quickly: what was the same at the last call is not told again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from finchlang.native.kernel import NativeKernel
from finchlang.native.layout import packer
from finchlang.tensors.bind import Bound, gather, scatter
from finchlang.tensors.tensor import Scalar, Tensor

Stored = Tensor | Scalar


class Caller:
    """The frame of a compiled kernel, and the tensors that are in it."""

    def __init__(self, native: NativeKernel, bounds: Sequence[Bound]):
        self.native, self.frame = native, native.frame()
        layout = native.layout
        self._seats: list[_Seat] = []
        buffer, given, handed = 0, layout.first_input, layout.first_output
        for bound in bounds:
            seat = _Seat(bound, buffer, given, handed, layout)
            buffer, given = buffer + len(bound.buffers), given + len(bound.inputs)
            handed += len(bound.outputs)
            self._seats.append(seat)
        self._numbers = given
        inputs = native.residual.inputs
        self._pack = [packer(v.type) for v in inputs[given - layout.first_input :]]
        self._written: list[np.ndarray] = []

    def call(self, tensors: Sequence[Stored], numbers: Sequence[Any]) -> bool:
        """Run on the tensors, in the order of the bounds; says whether one changed its storage.

        Raises FinchError; the tensors are then as they were.
        """
        moved = False
        for seat, tensor in zip(self._seats, tensors, strict=True):
            moved = seat.enter(self.frame, tensor) or moved
        if moved:
            self._written = [a for seat in self._seats for a in seat.written]
        slots, at = self.frame.slots, self._numbers
        for pack, value in zip(self._pack, numbers, strict=True):
            slots[at] = pack(value)
            at += 1
        self.frame.call(self._written)
        changed = False
        for seat in self._seats:
            if seat.bound.written:
                changed = seat.leave(self.frame, self.native) or changed
        return changed


class _Seat:
    """One tensor's place in a frame."""

    def __init__(self, bound: Bound, buffer: int, given: int, handed: int, layout: Any):
        self.bound, self.buffer, self.given, self.handed = bound, buffer, given, handed
        count = len(bound.buffers)
        self._grown = [k for k in range(count) if buffer + k in layout.grown]
        self._written_at = [k for k in range(count) if buffer + k in layout.written]
        self._pack = [packer(v.type) for v in bound.inputs]
        self._count = len(bound.inputs)
        self._tensor: Stored | None = None
        self._storage: Any = None
        self._arrays: list[np.ndarray] = []
        self.written: list[np.ndarray] = []

    def enter(self, frame: Any, tensor: Stored) -> bool:
        """Put a tensor into the frame; says whether its arrays are others than at the last call."""
        if isinstance(tensor, Scalar):
            self._tensor = tensor
            held = tensor.format.held(tensor.value)
            words = [pack(value) for pack, value in zip(self._pack, held, strict=True)]
            frame.slots[self.given : self.given + self._count] = words
            return False
        if tensor is self._tensor and tensor.storage is self._storage:
            return False
        self._tensor, self._storage = tensor, tensor.storage
        self._arrays, inputs = gather(self.bound, tensor)
        for k, array in enumerate(self._arrays):
            frame.set_array(self.buffer + k, array)
        words = [pack(value) for pack, value in zip(self._pack, inputs, strict=True)]
        frame.slots[self.given : self.given + self._count] = words
        self.written = [self._arrays[k] for k in self._written_at]
        return True

    def leave(self, frame: Any, native: NativeKernel) -> bool:
        """Take over what the kernel did; says whether the tensor's storage is another one now."""
        tensor, slots = self._tensor, frame.slots
        assert tensor is not None
        if isinstance(tensor, Scalar):
            at = self.handed - native.layout.first_output
            tensor.value = native.unpack_output(at, slots[self.handed])
            return False
        regrown = any(slots[3 * (self.buffer + k) + 2] for k in self._grown)
        given = slots[self.given : self.given + self._count]
        if not regrown and slots[self.handed : self.handed + self._count] == given:
            return False
        arrays = list(self._arrays)
        for k in self._grown:
            arrays[k] = frame.array(self.buffer + k, arrays[k])
        first = self.handed - native.layout.first_output
        outputs = [
            native.unpack_output(first + k, slots[self.handed + k]) for k in range(self._count)
        ]
        scatter(self.bound, tensor, arrays, outputs)
        return True
