"""Calling compiled kernels on tensors, quickly: what was the same at the last call is not told again."""

from __future__ import annotations

from collections.abc import Sequence, Set
from operator import attrgetter, is_
from typing import Any

import numpy as np

from finchlang.native.abi import packer
from finchlang.native.kernel import NativeKernel
from finchlang.run.renewal import RenewedSeat
from finchlang.run.seat import ScalarSeat, Seat, Stored, TensorSeat
from finchlang.tensors.bind import Bound
from finchlang.tensors.scalars import Scalar

#: a token that says whether a tensor is as it was; the value of a scalar
_state = attrgetter("state")


class Caller:
    """The frame of a compiled kernel, and the tensors that are in it. `owned` names those whose
    memory is nobody else's, as a user's array is; `renewed` those of them that the kernel makes
    anew, so that it may exchange their memory."""

    def __init__(
        self, native: NativeKernel, bounds: Sequence[Bound], owned: Set[str], renewed: Set[str]
    ):
        self.frame = native.frame()
        layout = native.layout
        self.seats: list[Seat] = []
        buffer, given, handed = 0, layout.first_input, layout.first_output
        for bound in bounds:
            seat: Seat
            if isinstance(bound.level, Scalar):
                seat = ScalarSeat(bound, self.frame, given, handed)
            else:
                kind = RenewedSeat if bound.name in renewed else TensorSeat
                seat = kind(bound, self.frame, given, handed, buffer, bound.name in owned)
            buffer, given = buffer + len(bound.buffers), given + len(bound.inputs)
            handed += len(bound.outputs)
            self.seats.append(seat)
        self._changing = [seat for seat in self.seats if seat.bound.written]
        self._renewed = [seat for seat in self.seats if isinstance(seat, RenewedSeat)]
        self.exchanging: list[RenewedSeat] = []
        self._numbers = slice(given, layout.first_output)
        self._pack = [packer(type) for type in layout.inputs[given - layout.first_input :]]
        self._written: list[tuple[int, np.ndarray]] = []
        self.tensors: Sequence[Stored] = ()  # those of the last call, unless it failed
        self._states: list[Any] = []  # as that left them
        self._given: Sequence[Any] = ()  # the numbers of the last call
        self._is_quiet = False  # if outputs are as expected, there is nothing else to take over
        #: how many calls in turn found everything as it was, and only changed what is in arrays
        self.quiet_calls = 0

    def call(self, tensors: Sequence[Stored], numbers: Sequence[Any]) -> bool:
        """Run on the tensors, in the order of the bounds; says whether one that is not owned changed
        its storage.

        Raises FinchError; the tensors are then as they were.
        """
        frame = self.frame
        is_known = tensors is self.tensors and all(map(is_, map(_state, tensors), self._states))
        if not is_known:
            self._enter(tensors)
        is_same = is_known and all(map(is_, numbers, self._given))
        if self._pack and not is_same:
            self._given = numbers
            words = [pack(value) for pack, value in zip(self._pack, numbers, strict=True)]
            frame.slots[self._numbers] = words
        for renewed in self.exchanging:
            renewed.offer()
        try:
            is_new = frame.call(self._written)
        except BaseException:
            self._forget()
            raise
        if is_new or not is_known or not self._is_quiet:
            return self.leave(is_known)
        self.quiet_calls = self.quiet_calls + 1 if is_same and not frame.keeps_journals else 0
        if self.exchanging:
            for renewed in self.exchanging:
                renewed.exchange()
            self._states = [*map(_state, tensors)]
        return False

    def failed(self, outcome: int | BaseException) -> None:
        """What is to be done after a call that did not go through `call`, and ended in a status or
        an exception. Raises FinchError."""
        self._forget()
        if isinstance(outcome, BaseException):
            self.frame.stopped(outcome)
        else:
            self.frame.ended(outcome)

    def _forget(self) -> None:
        """Have everything told anew: the frame may refer to memory that the call got, and is free
        now."""
        self.tensors = ()
        for seat in self.seats:
            seat.forget()

    def _enter(self, tensors: Sequence[Stored]) -> None:
        """Put into the frame what is not in it."""
        moved = False
        for seat, tensor in zip(self.seats, tensors, strict=True):
            if not seat.holds(tensor):
                moved = seat.enter(tensor) or moved
        if moved:
            self._note()
        self.tensors = tensors

    def leave(self, is_known: bool = True) -> bool:
        """Take over what the kernel did; says whether a tensor that is not owned changed its storage.
        `is_known` if everything was as the call before had left it, so that the next may be like it."""
        changed, self.quiet_calls = False, 0
        for seat in self._changing:
            changed = seat.leave() or changed
        if changed:
            self._note()
        self._is_quiet = is_known and all([seat.is_quiet for seat in self._changing])
        if self._is_quiet:
            self.frame.expect()
        self._states = [*map(_state, self.tensors)]
        return changed

    def _note(self) -> None:
        """Note which arrays are to be saved, and which exchanged."""
        written = [one for seat in self.seats for one in seat.written]
        before, now = [array for _, array in self._written], [array for _, array in written]
        if len(before) != len(now) or not all(map(is_, before, now)):
            self._written = written  # else what restoring them takes can be kept
        self.exchanging = [seat for seat in self._renewed if seat.is_exchanging]
