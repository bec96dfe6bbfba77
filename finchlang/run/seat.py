"""The place of one tensor in the frame of a compiled kernel: in goes what changed, out comes what did."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from finchlang.native.abi import packer
from finchlang.native.kernel import Frame
from finchlang.native.memory import whole
from finchlang.native.runtime import address_of_array
from finchlang.tensors.bind import Bound, gather, has_changed_lengths, scatter, stored
from finchlang.tensors.tensor import Place, Scalar, Tensor

Stored = Tensor | Scalar

#: Memory of so many bytes is saved whole, in case a call fails; of more, only what is in use.
SMALL = 1 << 16


def located(tensor: Tensor) -> Place:
    """Where the tensor's arrays are in memory; it stays there as long as this is its place."""
    place = tensor.place
    if not place.is_known:
        for level, own in zip(tensor.format.levels(), tensor.storage, strict=True):
            for name, _ in level.arrays:
                array = whole(own[name])
                address = address_of_array(array)
                place.words += (address, array.size, 0)
                place.regions.append((address, array.nbytes))
        place.is_known = True
    return place


class Seat(ABC):
    """One tensor's place in a frame: its inputs are from `given` on, its outputs from `handed`."""

    #: whether nothing is to be taken over from a call whose outputs are the same as before
    is_quiet = True
    #: the arrays that a call may change and that are restored if it fails, with their buffers' numbers
    written: list[tuple[int, np.ndarray]]

    def __init__(self, bound: Bound, frame: Frame, given: int, handed: int):
        self.bound, self.frame, self.slots = bound, frame, frame.slots
        self.given = slice(given, given + len(bound.inputs))
        self.handed = slice(handed, handed + len(bound.outputs))
        self._first_output = handed - frame.kernel.layout.first_output
        self._pack = [packer(v.type) for v in bound.inputs]
        self._tensor: Any = None
        self.written = []

    @abstractmethod
    def holds(self, tensor: Any) -> bool:
        """Whether this very tensor is in the frame, as it is now."""

    @abstractmethod
    def enter(self, tensor: Any) -> bool:
        """Put a tensor into the frame; says whether its arrays are others than at the last call."""

    @abstractmethod
    def leave(self) -> bool:
        """Take over what the kernel did; says whether the arrays that will be saved, or the storage
        of what has its memory from elsewhere, are others now."""

    @property
    def tensor(self) -> Any:
        """What was entered last."""
        return self._tensor

    @property
    def may_change(self) -> bool:
        """Whether the tensor may get other memory or sizes: an array does not, nor does a matrix
        unless its parts are others."""
        return True

    def forget(self) -> None:
        """Have the tensor told anew at the next call."""
        self._tensor = None

    def give(self, inputs: Sequence[Any]) -> list[int]:
        """Put the inputs into their slots."""
        words = [pack(value) for pack, value in zip(self._pack, inputs, strict=True)]
        self.slots[self.given] = words
        return words

    def outputs(self, words: list[int]) -> list[Any]:
        """The tensor's sizes and counters, from the words in their slots."""
        unpack, first = self.frame.kernel.unpack_output, self._first_output
        return [unpack(first + k, word) for k, word in enumerate(words)]


class ScalarSeat(Seat):
    """The place of a Scalar."""

    _value: Any = None

    def holds(self, tensor: Scalar) -> bool:
        return tensor is self._tensor and tensor.value is self._value

    def enter(self, tensor: Scalar) -> bool:
        self._tensor, self._value = tensor, tensor.value
        self.give(tensor.format.held(tensor.value))
        return False

    def leave(self) -> bool:
        words, tensor = self.slots[self.handed], self._tensor
        tensor.value = self.outputs(words[:1])[0]
        if len(words) == 1:  # what else there is depends on the value
            self.slots[self.given], self._value = words, tensor.value
        return False


class TensorSeat(Seat):
    """The place of a Tensor. If its memory is `owned` by it, its new lengths and counters are only
    made out when somebody asks for them: in a loop of kernels nobody does."""

    def __init__(
        self, bound: Bound, frame: Frame, given: int, handed: int, buffer: int, is_owned: bool
    ):
        super().__init__(bound, frame, given, handed)
        layout, count = frame.kernel.layout, len(bound.buffers)
        self.buffer, self.is_owned = buffer, is_owned
        self.grown_at = [k for k in range(count) if buffer + k in layout.grown]
        self.written_at = [k for k in range(count) if buffer + k in frame.kernel.written]
        self._owned_slots = [3 * (buffer + k) + 2 for k in self.grown_at]
        self._words_at = slice(3 * buffer, 3 * (buffer + count))
        self._order = bound.level.order
        self._shows_place = not bound.written and len(bound.inputs) == self._order
        self._is_counted = all([level.counts_lengths for level in bound.level.levels()])
        self._state: Any = None  # the tensor's when it entered or was left
        self._arrays: list[np.ndarray] = []  # as long as their memory is
        self._words: list[int] = []  # what the kernel is given
        self._sizes: list[Any] = []  # of the levels, once they are asked for
        self._has_room = False  # whether an array's memory goes on behind what is in use
        self._waits = False  # whether lengths and counters may be made out later
        self._was_asked = False  # for them: then others would have to be told each time

    @property
    def may_change(self) -> bool:
        return self.is_owned or self.bound.written

    def holds(self, tensor: Tensor) -> bool:
        if tensor is not self._tensor:
            return False
        return (tensor.place if self._shows_place else tensor.state) is self._state

    def enter(self, tensor: Tensor) -> bool:
        self._tensor, place = tensor, located(tensor)
        self.slots[self._words_at] = place.words
        if self._shows_place:
            self.give(tensor.shape)
            self._state = place
            return False
        own, inputs = gather(self.bound, tensor)
        self._words, self._state = self.give(inputs), tensor.state
        self._arrays = list(own)
        for k in self.grown_at:
            self._arrays[k] = whole(own[k])
        if self.bound.written:
            self._look(own)
        return self.bound.written

    def _look(self, own: list[np.ndarray]) -> None:
        """Note which memory is to be saved, where `own` is what the tensor uses of it."""
        noted, first = self.frame.kernel.journals, self.buffer
        copied = [self._arrays[k] for k in self.grown_at if first + k not in noted]
        self._waits = self.is_owned and all([array.nbytes <= SMALL for array in copied])
        self._has_room = any([len(own[k]) < len(self._arrays[k]) for k in self.grown_at])
        self.is_quiet = self._is_counted or not self._has_room
        saved = self._arrays if self._waits else own
        self.written = [(self.buffer + k, saved[k]) for k in self.written_at]
        self._sizes = []

    def leave(self) -> bool:
        tensor, slots = self._tensor, self.slots
        words = slots[self.handed]
        has_grown = any([slots[slot] for slot in self._owned_slots])
        if not has_grown:
            is_same = words == self._words
            # within spare room arrays may have got longer that no counter counts
            if is_same and self.is_quiet:
                return False
            is_late = self._waits and not self._was_asked
            if is_late and (is_same or words[: self._order] == self._words[: self._order]):
                tensor.change_later(partial(self._made_out, tensor.shape, self._arrays, words))
                slots[self.given], self._words, self._state = words, words, tensor.state
                self._has_room, self.is_quiet = True, self._is_counted
                return False
            if is_same and not self._has_changed_lengths():
                return False
        arrays = list(self._arrays)
        if has_grown:
            for k in self.grown_at:
                arrays[k] = self.frame.array(self.buffer + k, arrays[k])
        scatter(self.bound, tensor, arrays, self.outputs(words), not has_grown)
        self._arrays, self._state = arrays, tensor.state
        slots[self.given] = self._words = words
        self._look(gather(self.bound, tensor)[0])
        return True

    def _made_out(
        self, shape: tuple[int, ...], arrays: list[np.ndarray], words: list[int]
    ) -> list[dict[str, Any]]:
        self._was_asked = True
        return stored(self.bound, shape, arrays, self.outputs(words))

    def _has_changed_lengths(self) -> bool:
        self._sizes = self._sizes or self.bound.sizes(self._tensor.shape)
        return has_changed_lengths(self.bound, self._tensor, self._sizes)
