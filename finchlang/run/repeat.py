"""Calling a kernel once more on exactly what it was called on last, as a loop does that changes only
what is in the arrays: native code sees that everything is as it was, and calls it."""

from __future__ import annotations

from collections.abc import Sequence
from sys import intern
from typing import Any

from finchlang.native.abi import OK
from finchlang.native.call import Again
from finchlang.native.jit import again
from finchlang.native.runtime import address_of, new_slots
from finchlang.run.caller import Caller

#: After so many calls that found everything as it was, the next one is looked after here.
PATIENCE = 3


class Repeat:
    """The last call of `caller`. `values` are what the names were bound to, in one dictionary;
    `attributes` are objects, names of attributes of theirs, and what these were.

    It holds until the caller is called in any other way. `run`, on a dictionary of what names are
    bound to, gives the status of the call: UNKNOWN if something is not as it was, and the kernel was
    not called; CHANGED if the caller is to take over what it did; OK if nothing is left to do. With
    anything else, also an exception, `failed` is to be called.
    """

    __slots__ = ("_again", "_caller", "_kept", "_renewed", "_words", "run")

    def __init__(
        self,
        caller: Caller,
        values: dict[str, Any],
        attributes: Sequence[tuple[Any, str, Any]],
    ):
        frame = caller.frame
        seats = zip(caller.seats, caller.tensors, strict=True)
        states = [(tensor, "state", tensor.state) for seat, tensor in seats if seat.may_change]
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
        first = 4 + 2 * len(values)
        places = {id(tensor): first + 3 * k + 2 for k, (tensor, _, _) in enumerate(states)}
        self._renewed = [(seat, places[id(seat.tensor)]) for seat in caller.exchanging]
        self.run: Again = self._run_exchanging if self._renewed else self._again

    def _run_exchanging(self, values: dict[str, Any]) -> int:
        for seat, _ in self._renewed:
            seat.offer()
        status = self._again(values)
        if status == OK:
            for seat, place in self._renewed:
                seat.exchange()
                self._kept[place - 2] = state = seat.state
                self._words[place] = id(state)
        return status

    def failed(self, outcome: int | BaseException) -> None:
        """Have everything as it was before a call that ended in a status, for which this raises
        FinchError, or in an exception of a signal's handler."""
        self._caller.failed(outcome)
