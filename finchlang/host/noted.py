"""What a program notes of entries that it overwrites (`undo_log.py`), as data; putting them back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from finchlang.syntax.types import UInt8

#: The epochs of calls are 1 to this one; then `touched` is to be cleared, and they begin again.
LAST_EPOCH = UInt8.highest


@dataclass(frozen=True)
class Log:
    """Which buffers and inputs of a program, by their numbers, belong to the log of one array.

    For an array of n entries `touched` (zeros when it is new) has n entries at least, `at` n + 1 and
    `was` n. `size` is the input that says n, where the program may grow the array: what is new need
    not be noted.
    """

    array: int
    touched: int
    at: int
    was: int
    size: int | None


@dataclass(frozen=True)
class UndoLog:
    """The logs of a program, and the input that says the epoch of a call, another one at each call
    with the same `touched`. All their buffers and inputs stand behind the program's own."""

    logs: tuple[Log, ...] = ()
    epoch: int | None = None


def undo(array: np.ndarray, at: np.ndarray, was: np.ndarray) -> None:
    """Have the array as it was before the call that wrote this log."""
    count = int(at[0])
    array[at[1 : count + 1]] = was[:count]
