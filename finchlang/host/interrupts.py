"""Ctrl-C while a host runs in Python: it is noted at once, and raised where the host looks for it.

Otherwise Python would raise KeyboardInterrupt wherever it happens to be: within a finaliser it would be
printed and forgotten.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from finchlang.base.errors import FinchError

_asked = False


@contextmanager
def noted() -> Iterator[None]:
    """In this context Ctrl-C is raised by `check` only. Nothing changes in a thread other than the main
    one, and where Ctrl-C has another handler than Python's."""
    global _asked
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    _asked = False
    signal.signal(signal.SIGINT, _note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _note(number: int, frame: FrameType | None) -> None:
    global _asked
    _asked = True


def check() -> None:
    """Raise KeyboardInterrupt if Ctrl-C was noted."""
    global _asked
    if _asked:
        _asked = False
        raise KeyboardInterrupt


def interruptible(run: Callable[[], Any]) -> Any:
    """The result of `run`, during which Ctrl-C is raised as a FinchError of kind interrupted."""
    try:
        with noted():
            result = run()
            check()
            return result
    except KeyboardInterrupt:
        raise FinchError(
            "interrupted", "the kernel was stopped by Ctrl-C; its outputs are as they were"
        ) from None
