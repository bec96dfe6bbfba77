"""The log of entries that a program overwrites (`undo_log.py`), as data; and putting them back."""

from __future__ import annotations

import numpy as np

from finchlang.base.records import record
from finchlang.syntax.types import UInt8

#: Calls have the epochs 1 to this one; then `touched` has to be cleared, and epochs begin again.
LAST_EPOCH = UInt8.highest


@record
class Log:
    """Which buffers and inputs of a program, by number, make up the log of one array.

    For an array of n entries `touched` (zeros when it is new) has at least n entries, `at` n + 1 and `was`
    n. `size` is the input with n, if the program may grow the array: entries after that are new, and need
    not be noted.
    """

    array: int
    touched: int
    at: int
    was: int
    size: int | None


@record
class UndoLog:
    """The logs of a program, and the input with the epoch of a call, which differs between calls with the
    same `touched`. The buffers and inputs of logs come after the program's own."""

    logs: tuple[Log, ...] = ()
    epoch: int | None = None


def undo(array: np.ndarray, at: np.ndarray, was: np.ndarray) -> None:
    """Restore the array to what it was before the call that wrote this log."""
    count = int(at[0])
    array[at[1 : count + 1]] = was[:count]
