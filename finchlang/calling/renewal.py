"""Tensors that a kernel makes anew: it writes them into spare memory, so that what they were need not
be saved for the case that the kernel fails or is interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from sys import getrefcount
from typing import Any

import numpy as np

from finchlang.calling.seat import TensorSeat
from finchlang.rewrite import walk
from finchlang.syntax import Block, Declare, Define, Node, Variable
from finchlang.tensors.bind import scatter
from finchlang.tensors.level import Level
from finchlang.tensors.tensor import Tensor

#: Of so many bytes on a tensor's memory is exchanged; fewer are quicker saved.
LARGE = 1 << 16

#: What refers to an array that nobody else has: `Spare.arrays`, and the call that counts.
_OURS = 2


def renewed(program: Node, formats: dict[str, Level]) -> set[str]:
    """Which tensors `program`, in normal form, always declares before it does anything else with
    them; then what their arrays hold when it begins does not matter."""
    mentioned: set[str] = set()
    found: set[str] = set()
    for step in _steps(program):
        if isinstance(step, Declare):
            name = step.tensor.name
            if name not in mentioned and not _looks_back(formats[name]):
                found.add(name)
        mentioned.update(node.name for node in walk(step) if isinstance(node, Variable))
    return found


def _looks_back(format: Level) -> bool:
    return any(level.clears_entries for level in format.levels())


def _steps(program: Node) -> Iterator[Node]:
    """What `program` does in any case, in order."""
    if isinstance(program, Block):
        for statement in program.statements:
            yield from _steps(statement)
    elif isinstance(program, Define):
        yield program.value
        yield from _steps(program.body)
    else:
        yield program


class Spare:
    """Memory that a tensor had before: `arrays`, those that a kernel writes, in order, and the
    `words` that tell the kernel where each is. `state` is the tensor's since it got memory of our
    own (in any other state its memory is somebody else's)."""

    __slots__ = ("arrays", "state", "words")

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []
        self.words: list[list[int]] = []
        self.state: Any = None

    def prepare(self, kinds: list[np.dtype]) -> None:
        """See that there is an array for each of `kinds` that nobody else refers to."""
        if len(self.arrays) != len(kinds):
            self.arrays = [np.empty(0, kind) for kind in kinds]
            self.words = [[0, 0, 0] for _ in kinds]
        for number, kind in enumerate(kinds):
            if getrefcount(self.arrays[number]) > _OURS:
                self.arrays[number] = np.empty(0, kind)
                self.words[number] = [0, 0, 0]


class RenewedSeat(TensorSeat):
    """The place in a frame of a tensor that the kernel makes anew."""

    is_exchanging = False

    @property
    def state(self) -> Any:
        """The tensor's, as the last call left it."""
        return self._state

    def enter(self, tensor: Tensor) -> bool:
        super().enter(tensor)
        self._decide(tensor)
        return True

    def _decide(self, tensor: Tensor) -> None:
        """Whether to exchange memory from now on: once there is much of it."""
        can_grow = set(self.written_at) <= set(self.grown_at)
        self.is_exchanging = can_grow and sum(array.nbytes for _, array in self.written) >= LARGE
        if self.is_exchanging:
            self._kinds = [array.dtype for _, array in self.written]
            first = [3 * (self.buffer + k) for k in self.written_at]
            self._memory_at = [slice(at, at + 3) for at in first]
            self._memory = [self.slots[at] for at in self._memory_at]
            self.written = []
            if tensor.spare is None:
                tensor.spare = Spare()

    def offer(self) -> None:
        """Let the kernel write into spare memory, if it is exchanging."""
        spare: Spare = self._tensor.spare
        spare.prepare(self._kinds)
        for at, words in zip(self._memory_at, spare.words, strict=True):
            self.slots[at] = words

    def leave(self) -> bool:
        if not self.is_exchanging:
            has_changed = super().leave()
            if has_changed:
                self._decide(self._tensor)
            return has_changed
        tensor, arrays = self._tensor, list(self._arrays)
        spare: Spare = tensor.spare
        for k, array in zip(self.written_at, spare.arrays, strict=True):
            arrays[k] = self.frame.array(self.buffer + k, array)
        is_ours = spare.state is tensor.state
        spare.arrays = [self._arrays[k] for k in self.written_at] if is_ours else []
        spare.words = self._memory
        self._memory = [self.slots[at] for at in self._memory_at]
        self._arrays, words = arrays, self.slots[self.handed]
        scatter(self.bound, tensor, list(arrays), self.outputs(words))
        self.slots[self.given] = self._words = words
        spare.state = self._state = tensor.state
        self.is_quiet = self._is_counted
        return True

    def exchange(self) -> None:
        """Take over the spare memory, in which nothing but what the arrays hold is other than before:
        if `is_quiet`, and what the kernel handed back is as expected."""
        tensor, arrays, words = self._tensor, list(self._arrays), self._words
        spare: Spare = tensor.spare
        for k, array in zip(self.written_at, spare.arrays, strict=True):
            arrays[k] = array
        is_ours = spare.state is tensor.state
        spare.arrays = [self._arrays[k] for k in self.written_at] if is_ours else []
        self._memory, spare.words, self._arrays = spare.words, self._memory, arrays
        tensor.move_later(partial(self._made_out, tensor.shape, arrays, words))
        spare.state = self._state = tensor.state
