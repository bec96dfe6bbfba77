"""Calling compiled kernels on tensors, quickly: what was the same at the last call is not told again."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

import numpy as np

from finchlang.calling.renewal import RenewedSeat
from finchlang.calling.seat import ScalarSeat, Seat, Stored, TensorSeat
from finchlang.native.kernel import NativeKernel
from finchlang.native.layout import packer
from finchlang.tensors.bind import Bound
from finchlang.tensors.scalars import Scalar


class Caller:
    """The frame of a compiled kernel, and the tensors that are in it. `owned` names those whose
    memory is nobody else's, as a user's array is; `renewed` those of them that the kernel makes
    anew, so that it may exchange their memory."""

    def __init__(
        self, native: NativeKernel, bounds: Sequence[Bound], owned: Set[str], renewed: Set[str]
    ):
        self.frame = native.frame()
        layout = native.layout
        self._seats: list[Seat] = []
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
            self._seats.append(seat)
        self._changing = [seat for seat in self._seats if seat.bound.written]
        self._renewed = [seat for seat in self._seats if isinstance(seat, RenewedSeat)]
        self._numbers = slice(given, layout.first_output)
        self._pack = [packer(type) for type in layout.inputs[given - layout.first_input :]]
        self._written: list[tuple[int, np.ndarray]] = []

    def call(self, tensors: Sequence[Stored], numbers: Sequence[Any]) -> bool:
        """Run on the tensors, in the order of the bounds; says whether one that is not owned changed
        its storage.

        Raises FinchError; the tensors are then as they were.
        """
        frame, moved = self.frame, False
        for seat, tensor in zip(self._seats, tensors, strict=True):
            if not seat.holds(tensor):
                moved = seat.enter(tensor) or moved
        if moved:
            self._written = [a for seat in self._seats for a in seat.written]
        if self._pack:
            words = [pack(value) for pack, value in zip(self._pack, numbers, strict=True)]
            frame.slots[self._numbers] = words
        for renewed in self._renewed:
            if renewed.is_exchanging:
                renewed.offer()
        try:
            frame.call(self._written)
        except BaseException:
            for seat in self._seats:
                seat.forget()  # the frame may refer to memory that the call got, and is free now
            raise
        changed = False
        for seat in self._changing:
            changed = seat.leave() or changed
        if changed:
            self._written = [a for seat in self._seats for a in seat.written]
        return changed
