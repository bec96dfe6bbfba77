"""The place of one tensor in the frame of a compiled kernel: in goes what changed, out comes what did."""

from __future__ import annotations

from typing import Any

import numpy as np

from finchlang.native.kernel import NativeKernel
from finchlang.native.layout import packer
from finchlang.native.runtime import whole
from finchlang.tensors.bind import Bound, gather, has_changed_lengths, scatter
from finchlang.tensors.scalars import Scalar as ScalarLevel
from finchlang.tensors.tensor import Scalar, Tensor

Stored = Tensor | Scalar


class Seat:
    """One tensor's place in a frame."""

    def __init__(self, bound: Bound, buffer: int, given: int, handed: int, layout: Any):
        self.bound, self.buffer, self.given, self.handed = bound, buffer, given, handed
        count = len(bound.buffers)
        self.grown_at = [k for k in range(count) if buffer + k in layout.grown]
        self.written_at = [k for k in range(count) if buffer + k in layout.written]
        self._pack = [packer(v.type) for v in bound.inputs]
        count = len(bound.inputs)
        self._given, self._handed = slice(given, given + count), slice(handed, handed + count)
        self._is_scalar = isinstance(bound.level, ScalarLevel)
        self._owned_slots = [3 * (buffer + k) + 2 for k in self.grown_at]
        self._shows_place = not bound.written and count == bound.level.order
        self._tensor: Stored | None = None
        self._storage: Any = self  # of no tensor; a Scalar has none, and is told anew each time
        self._arrays: list[np.ndarray] = []
        self._sizes: list[Any] = []  # of the levels, once they are asked for
        self._has_room = False  # whether an array's memory goes on behind what is in use
        self.written: list[np.ndarray] = []

    def holds(self, tensor: Stored) -> bool:
        """Whether this very tensor is in the frame, as it is now."""
        if tensor is not self._tensor or self._is_scalar:
            return False
        return (tensor.place if self._shows_place else tensor.storage) is self._storage  # type: ignore[union-attr]

    def forget(self) -> None:
        """Have the tensor told anew at the next call."""
        self._tensor = None

    def enter(self, frame: Any, tensor: Stored) -> bool:
        """Put a tensor into the frame; says whether its arrays are others than at the last call."""
        if isinstance(tensor, Scalar):
            self._tensor = tensor
            held = tensor.format.held(tensor.value)
            frame.slots[self._given] = [p(value) for p, value in zip(self._pack, held, strict=True)]
            return False
        self._tensor, self._sizes = tensor, []
        self._storage = tensor.place if self._shows_place else tensor.storage
        arrays, inputs = gather(self.bound, tensor)
        self.written = [arrays[k] for k in self.written_at]
        self._has_room = False
        for k in self.grown_at:
            own, arrays[k] = arrays[k], whole(arrays[k])
            self._has_room |= len(own) < len(arrays[k])
        for k, array in enumerate(arrays):
            frame.set_array(self.buffer + k, array)
        self._arrays = arrays
        frame.slots[self._given] = [p(value) for p, value in zip(self._pack, inputs, strict=True)]
        return True

    def leave(self, frame: Any, native: NativeKernel) -> bool:
        """Take over what the kernel did; says whether the tensor's storage is another one now."""
        tensor, slots = self._tensor, frame.slots
        assert tensor is not None
        if isinstance(tensor, Scalar):
            at = self.handed - native.layout.first_output
            tensor.value = native.unpack_output(at, slots[self.handed])
            return False
        has_grown = self._has_grown(slots)
        is_same = not has_grown and slots[self._handed] == slots[self._given]
        # within spare room arrays may have got longer that no counter counts
        if is_same and not (self._has_room and self._has_changed_lengths(tensor)):
            return False
        arrays = list(self._arrays)
        if has_grown:
            for k in self.grown_at:
                arrays[k] = frame.array(self.buffer + k, arrays[k])
        scatter(self.bound, tensor, arrays, self.outputs(frame, native), not has_grown)
        self._storage, self._arrays = tensor.storage, arrays
        self._sizes = []
        slots[self._given] = slots[self._handed]
        own = gather(self.bound, tensor)[0]
        self.written = [own[k] for k in self.written_at]
        self._has_room = any(len(own[k]) < len(arrays[k]) for k in self.grown_at)
        return True

    def outputs(self, frame: Any, native: NativeKernel) -> list[Any]:
        """The tensor's sizes and counters after the call."""
        first, words = self.handed - native.layout.first_output, frame.slots[self._handed]
        return [native.unpack_output(first + k, word) for k, word in enumerate(words)]

    def _has_grown(self, slots: Any) -> bool:
        return any(map(slots.__getitem__, self._owned_slots))

    def _has_changed_lengths(self, tensor: Tensor) -> bool:
        self._sizes = self._sizes or self.bound.level.sizes(tensor.shape)
        return has_changed_lengths(self.bound, tensor, self._sizes)
