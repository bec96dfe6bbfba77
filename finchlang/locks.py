"""Locks that neither a signal's handler nor a forked process waits for, and a property without one."""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import RLock
from typing import Any, Generic, TypeVar

T = TypeVar("T")


def reentrant_lock() -> RLock:
    """A lock that the thread which has it may take again, as a signal's handler does that runs in
    between; a process is forked only when no other thread has it, so that its child is free to."""
    lock = RLock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release
        )
    return lock


class cached_property(Generic[T]):  # named as what it stands for
    """functools' without the lock that this has before Python 3.12, one for all objects: a child
    forked while another thread has that never gets it."""

    def __init__(self, function: Callable[[Any], T]):
        self.function = function
        self.__doc__ = function.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> T:
        value = instance.__dict__[self.function.__name__] = self.function(instance)
        return value
