"""Ctrl-C while a host runs in Python: it is noted at once, and raised where the host looks for it.

Otherwise Python would raise KeyboardInterrupt wherever it happens to be: within a finaliser it would be
printed and forgotten.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from finchlang.base.errors import FinchError

_asked = False


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
    """The result of `run`, during which Ctrl-C is raised by `check` only, and then as a FinchError of kind
    interrupted. Signals are as they are in a thread other than the main one, and where Ctrl-C has another
    handler than Python's."""
    global _asked
    is_main = threading.current_thread() is threading.main_thread()
    is_ours = is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_ours:
        _asked = False
        signal.signal(signal.SIGINT, _note)
    try:
        result = run()
        check()
        return result
    except KeyboardInterrupt:
        message = "the kernel was stopped by Ctrl-C; its outputs are as they were"
        raise FinchError("interrupted", message) from None
    finally:
        if is_ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
