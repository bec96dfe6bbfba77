"""A line of progress on the terminal: whether it is reading, compiling or running, and for how long."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

#: seconds until progress is shown, and between updates
PATIENCE = 0.5
#: by prefix of a module, what is being done while it is the innermost on the stack
_DOINGS = (
    ("finchlang.files", "reading or writing"),
    ("finchlang.native.compiled_kernel", "running"),
    ("finchlang.native.jit", "compiling"),
    ("finchlang.rules", "compiling"),
    ("finchlang.normalize", "compiling"),
)

_started = 0.0
#: what is being done, if it is known better than by the stack
_told = ""
_is_shown = False
_is_line_free = True


@contextmanager
def watched() -> Iterator[None]:
    """Shows progress meanwhile, if output and errors go to a terminal. It is driven by a timer's signal,
    not a thread, because kernels and scripts check for signals only."""
    global _started
    is_main = threading.current_thread() is threading.main_thread()
    streams = sys.stdout, sys.stderr
    if not is_main or not all(stream is not None and stream.isatty() for stream in streams):
        yield
        return
    _started = time.monotonic()
    printed("\n")
    before = signal.signal(signal.SIGALRM, _show)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE, PATIENCE)
    try:
        yield
    finally:
        stop()
        signal.signal(signal.SIGALRM, before)


def stop() -> None:
    """Stop showing progress, as when another program gets the terminal."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    clear()


def _show(number: int, frame: FrameType | None) -> None:
    global _is_shown
    if _is_line_free:
        seconds = time.monotonic() - _started
        _write(f"\r\033[K{_doing(frame)} ... {seconds:.1f} s, Ctrl-C stops it")
        _is_shown = True


def _write(text: str) -> None:
    """Writes without the stream's buffer: the signal may come while that is being written to."""
    with suppress(OSError):
        os.write(sys.stderr.fileno(), text.encode())


def printed(text: str) -> None:
    """Note a text that was written to the terminal: progress is not shown on a line that it has begun."""
    global _is_line_free
    _is_line_free = text.endswith("\n") if text else _is_line_free


def told(doing: str) -> None:
    """Note what is being done from now on."""
    global _told
    _told = doing


def _doing(frame: FrameType | None) -> str:
    if _told:
        return _told
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        for prefix, doing in _DOINGS:
            if module.startswith(prefix):
                return doing
        frame = frame.f_back
    return "running"


def clear() -> None:
    global _is_shown
    if _is_shown:
        _is_shown = False
        _write("\r\033[K")
