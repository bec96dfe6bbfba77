"""Locks that neither a signal's handler nor a forked process waits for, and a property without one."""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import RLock
from typing import Any, Generic, TypeVar

T = TypeVar("T")

#: what is taken before a process is forked, the last first, and what was
_locks: list[RLock] = []
_taken: list[RLock] = []


def _take() -> None:
    for lock in reversed(_locks[:]):
        lock.acquire()
        _taken.append(lock)


def _give_back() -> None:
    while _taken:
        _taken.pop().release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_take, after_in_parent=_give_back, after_in_child=_give_back)


def reentrant_lock() -> RLock:
    """A lock that the thread which has it may take again, as a signal's handler does that runs in
    between; a process is forked only when no other thread has it, so that its child is free to."""
    lock = RLock()
    _locks.append(lock)
    return lock


def free_at_fork(lock: RLock) -> None:
    """Have a process forked only when no other thread has this reentrant lock of a library, which a thread
    may take that has any of ours, wherever the garbage collector frees something."""
    _locks.insert(0, lock)


class cached_property(Generic[T]):  # named as what it stands for
    """functools' without the lock that this has before Python 3.12, one for all objects: a child
    forked while another thread has that never gets it."""

    def __init__(self, function: Callable[[Any], T]):
        self.function = function
        self.__doc__ = function.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> T:
        value = instance.__dict__[self.function.__name__] = self.function(instance)
        return value
