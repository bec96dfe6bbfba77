"""`--watch`: do a command again whenever its file is saved, until Ctrl-C."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress

#: how often the file is looked at, in seconds
EVERY = 0.2


def watched_file(path: str, do: Callable[[], int]) -> int:
    """Do it, and again at each change of the file, until Ctrl-C; returns the last status."""
    status, seen = do(), _mark(path)
    try:
        while True:
            time.sleep(EVERY)
            now = _mark(path)
            if now is not None and now != seen:
                seen = now
                print(f"-- {path} has changed", file=sys.stderr, flush=True)
                status = do()
    except KeyboardInterrupt:
        return status


def _mark(path: str) -> tuple[int, int] | None:
    """By which a changed file is told; None while it is being replaced."""
    with suppress(OSError):
        found = os.stat(path)
        return found.st_mtime_ns, found.st_size
    return None
