"""Signals that come in the midst of work for sure: time is that of the processor, and Python may lose what
is raised in a finaliser, in a weak reference's callback or while it collects garbage."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Alarm(Exception):
    """What a signal's handler raises."""


def raise_alarm() -> None:
    raise Alarm


def ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def arm(after: float) -> None:
    """Let the signal come when the process has computed for so many seconds, and each second after that;
    0 stops it."""
    signal.setitimer(signal.ITIMER_PROF, after, 1.0)


@contextmanager
def alarmed(answer: Callable[[], None], after: float = 0.0) -> Iterator[None]:
    """Within, the signal is answered; it comes after so many seconds, with 0 once `arm` asks for it."""
    running = True

    def handler(*_: object) -> None:
        if running:
            answer()

    old: Any = signal.signal(signal.SIGPROF, handler)
    arm(after)
    try:
        yield
    finally:
        running = False
        arm(0)
        signal.signal(signal.SIGPROF, old)
