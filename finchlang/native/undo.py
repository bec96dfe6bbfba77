"""What a call of a kernel may change, kept so that it can be put back if the call fails."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from finchlang.native.runtime import address_of_array

#: An array of fewer bytes is quicker copied than a journal is kept.
SMALL = 1 << 14
#: A journal has room for one in so many of the array's entries, and not for more than `MOST`.
SHARE, MOST = 8, 1 << 13
#: After a journal was full its array is copied this often, then twice as often, up to so many times.
PATIENCE = 1, 16

#: what a kernel is given for a journal that is not kept
OFF = np.array([-1], np.int64)


class Journal:
    """The places that a call stored to in `array`, and what was there (`native/journal.py`)."""

    def __init__(self, array: np.ndarray):
        self.array, self.copy = array, np.empty_like(array)
        self.room = min(len(array) // SHARE, MOST)
        self.at = np.empty(self.room + 1, np.int64)
        self.was = np.empty(self.room + 1, array.dtype)
        self._patience, self._copies = PATIENCE[0], 0

    def begin(self) -> None:
        """Get ready for a call."""
        if self._copies:
            self._copies -= 1
            self.at[0] = -1
            self.copy[...] = self.array
        else:
            self.at[0] = self.room

    def undo(self) -> None:
        left = int(self.at[0])
        if left < 0:
            self.array[...] = self.copy
            return
        at, was = self.at[left + 1 :], self.was[left + 1 :]
        within = at < len(self.array)
        # the latest comes first: of several at one place the last, which was there before, stays
        self.array[at[within]] = was[within]

    def was_full(self) -> None:
        """Copy the array at the next calls."""
        self._copies = self._patience
        self._patience = min(2 * self._patience, PATIENCE[1])


class Undo:
    """Keeps what is in some arrays, by the numbers of their buffers, at each call. `places` says for
    which buffers the kernel keeps a journal; the others are `saved` by the call itself
    (`native/call.py`), which is told where to, from where, and how many bytes."""

    def __init__(self, written: Sequence[tuple[int, np.ndarray]], places: dict[int, int]):
        self.journals: dict[int, Journal] = {}  # by the numbers of the buffers `at`
        self._copied: list[tuple[np.ndarray, np.ndarray]] = []
        for number, array in written:
            if number in places and array.nbytes >= SMALL:
                self.journals[places[number]] = Journal(array)
            else:
                self._copied.append((array, np.empty_like(array)))
        self._kept = list(self.journals.values())
        self.saved = [
            word
            for array, copy in self._copied
            for word in (address_of_array(copy), address_of_array(array), array.nbytes)
        ]

    def begin(self) -> None:
        """Get ready for a call, if there are journals."""
        for journal in self._kept:
            journal.begin()

    def undo(self) -> None:
        """Have the arrays as they were when the call began."""
        for array, copy in self._copied:
            array[...] = copy
        for journal in self._kept:
            journal.undo()

    def was_full(self) -> None:
        """Keep no journal at the next calls."""
        for journal in self._kept:
            journal.was_full()
