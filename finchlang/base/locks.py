"""Locks that neither a signal's handler nor a forked process waits for, and what does without one."""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import RLock
from typing import Any, Generic, TypeVar

T = TypeVar("T")

#: the locks to take before a fork, in reverse order, of libraries when they are loaded
_locks: list[Callable[[], RLock | None]] = []
_taken: list[RLock] = []


def _take() -> None:
    for lock_now in reversed(_locks[:]):
        lock = lock_now()
        if lock is not None:
            lock.acquire()
            _taken.append(lock)


def _give_back() -> None:
    while _taken:
        _taken.pop().release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_take, after_in_parent=_give_back, after_in_child=_give_back)


def reentrant_lock() -> RLock:
    """A lock that its owner may take again, as a signal handler does. It is held while a process forks,
    so no child finds it held by a thread that the child does not have."""
    lock = RLock()
    _locks.append(lambda: lock)
    return lock


def free_at_fork(lock: Callable[[], RLock | None]) -> None:
    """Hold this reentrant lock of a library, too, while a process forks; None as long as the library is not
    loaded. It is taken last: a thread with a lock of ours may take it wherever the garbage collector frees
    an object of the library."""
    _locks.insert(0, lock)


def keep(kept: dict[Any, T], key: Any, value: T, most: int) -> T:
    """The value, kept under `key` as the newest of at most so many, which a dict keeps in order. Another
    thread or a signal's handler may do the same in between, so nothing iterates over it."""
    kept.pop(key, None)
    kept[key] = value
    excess = len(kept) - most
    for oldest in list(kept)[:excess] if excess > 0 else ():
        kept.pop(oldest, None)
    return value


class cached_property(Generic[T]):  # named as what it replaces
    """functools.cached_property without the lock that it has before Python 3.12, one for all instances: a
    child forked while another thread held that would wait for ever."""

    def __init__(self, function: Callable[[Any], T]):
        self.function = function
        self.__doc__ = function.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> T:
        value = instance.__dict__[self.function.__name__] = self.function(instance)
        return value
