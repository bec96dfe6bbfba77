"""Tensors that a kernel makes anew: it writes them into spare memory, so that what they were need not
be saved for the case that the kernel fails or is interrupted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from sys import getrefcount
from typing import Any

import numpy as np

from finchlang.run.seat import TensorSeat
from finchlang.syntax import Block, Declare, Define, Node, Variable
from finchlang.tensors.bind import scatter
from finchlang.tensors.level import Level
from finchlang.tensors.tensor import Place, Tensor
from finchlang.walk import walk

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
    own (in any other state its memory is somebody else's). `owners` is how often we refer to each
    array."""

    __slots__ = ("arrays", "owners", "state", "words")

    def __init__(self) -> None:
        self.owners = _OURS
        self.arrays: list[np.ndarray] = []
        self.words: list[list[int]] = []
        self.state: Any = None

    def prepare(self, kinds: list[np.dtype]) -> None:
        """See that there is an array for each of `kinds` that nobody else refers to."""
        if len(self.arrays) != len(kinds):
            self.arrays, self.owners = [np.empty(0, kind) for kind in kinds], _OURS
            self.words = [[0, 0, 0] for _ in kinds]
        for number, kind in enumerate(kinds):
            if getrefcount(self.arrays[number]) > self.owners:
                self.arrays[number] = np.empty(0, kind)
                self.words[number] = [0, 0, 0]


@dataclass(slots=True)
class Turn:
    """One of two pieces of memory that a tensor has in turn: all `arrays`, those `written`, the
    `words` that tell the kernel where they are, and what the tensor then has."""

    arrays: list[np.ndarray]
    written: list[np.ndarray]
    words: list[list[int]]
    make_out: Callable[[], list[dict[str, Any]]]
    place: Place
    state: object


class RenewedSeat(TensorSeat):
    """The place in a frame of a tensor that the kernel makes anew."""

    is_exchanging = False
    #: the memory that the tensor has, and that it had before, if they have been exchanged
    _here: Turn | None = None
    _there: Turn | None = None

    @property
    def state(self) -> Any:
        """The tensor's, as the last call left it."""
        return self._state

    def enter(self, tensor: Tensor) -> bool:
        super().enter(tensor)
        self._here = self._there = None
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
        self._here = self._there = None
        for k, array in zip(self.written_at, spare.arrays, strict=True):
            arrays[k] = self.frame.array(self.buffer + k, array)
        is_ours = spare.state is tensor.state
        spare.arrays = [self._arrays[k] for k in self.written_at] if is_ours else []
        spare.words, spare.owners = self._memory, _OURS
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
        tensor, here, there = self._tensor, self._here, self._there
        spare: Spare = tensor.spare
        if there is None or there.written is not spare.arrays:
            there = self._turn(spare)
        if spare.state is not tensor.state:
            spare.arrays, spare.owners = [], _OURS
        elif here is None:
            spare.arrays, spare.owners = [self._arrays[k] for k in self.written_at], _OURS
        else:
            spare.arrays, spare.owners = here.written, _OURS + 1
        spare.words, self._memory, self._arrays = self._memory, there.words, there.arrays
        self._here, self._there = there, here
        tensor.move_later(there.make_out, there.place, there.state)
        spare.state = self._state = there.state

    def _turn(self, spare: Spare) -> Turn:
        """The spare memory as the tensor's, of the size that it has now."""
        arrays = list(self._arrays)
        for k, array in zip(self.written_at, spare.arrays, strict=True):
            arrays[k] = array
        make_out = partial(self._made_out, self._tensor.shape, arrays, self._words)
        return Turn(arrays, spare.arrays, spare.words, make_out, Place(), object())
