"""Calling a kernel once more on exactly what it was called on last, as a loop does that changes only
what is in the arrays: native code sees that everything is as it was, and calls it."""

from __future__ import annotations

from collections.abc import Sequence
from sys import intern
from typing import Any

from finchlang.calling.caller import Caller
from finchlang.native.call import CHANGED, UNKNOWN
from finchlang.native.jit import again
from finchlang.native.layout import OK
from finchlang.native.runtime import address_of, new_slots

#: After so many calls that found everything as it was, the next one is looked after here.
PATIENCE = 3


class Repeat:
    """The last call of `caller`. `values` are what the names were bound to, in one dictionary;
    `attributes` are objects, names of attributes of theirs, and what these were.

    It holds until the caller is called in any other way.
    """

    __slots__ = ("_again", "_caller", "_kept", "_renewed", "_words")

    def __init__(
        self,
        caller: Caller,
        values: dict[str, Any],
        attributes: Sequence[tuple[Any, str, Any]],
    ):
        frame = caller.frame
        states = [(tensor, "state", tensor.state) for tensor in caller.tensors]
        parts = [(obj, intern(name), value) for obj, name, value in (*states, *attributes)]
        block, entry = frame.address, frame.kernel.entry.__self__  # type: ignore[attr-defined]
        objects = [entry, block, *[part for item in values.items() for part in item]]
        objects += [one for part in parts for one in part]
        words = [len(values), len(parts), *map(id, objects)]
        self._words = new_slots(len(words))
        self._words[:] = words
        self._kept = objects  # so that no other objects get their addresses
        self._again = again(address_of(self._words))
        self._caller = caller
        # memory is exchanged of these; each call gives them another state
        first = 2 + 2 + 2 * len(values)
        self._renewed = [
            (seat, first + 3 * caller.seats.index(seat) + 2) for seat in caller.exchanging
        ]

    def run(self, values: dict[str, Any]) -> int:
        """Call the kernel; UNKNOWN if something is not as it was, and it was not called. CHANGED
        means that the caller is to take over what it did. Raises FinchError."""
        for seat, _ in self._renewed:
            seat.offer()
        try:
            status = self._again(values)
        except BaseException as error:
            self._caller.stopped(error)
            raise
        if status == OK:
            for seat, place in self._renewed:
                seat.exchange()
                self._kept[place - 2] = state = seat.state
                self._words[place] = id(state)
        elif status not in (CHANGED, UNKNOWN):
            self._caller.ended(status)
        return status
