"""Work done in a forked child process, so that a crash, a hang or a broken heap is a result like others."""

from __future__ import annotations

import ctypes
import faulthandler
import functools
import gc
import os
import resource
import select
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from finchlang.testing.apart import Limit


@dataclass(frozen=True)
class Ended:
    """How a child ended: `said` is what it reported, with the traceback if something was raised;
    `fault` is empty if it came to its end, else "raised", "hung" or the name of a signal. One that hung
    says where its threads were."""

    fault: str
    said: str

    def __bool__(self) -> bool:
        return not self.fault


def in_child(work: Callable[[Callable[[str], None]], None], seconds: float = 60.0) -> Ended:
    """Do `work(report)` in a child, which is killed when it has used the processor for `seconds`, or has
    not used it for so long; each text that it reports is known here even if it dies right after."""
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        _work(work, writing)
    os.close(writing)
    said, hung = _listen(reading, child, seconds)
    if hung:
        os.kill(child, signal.SIGUSR1)
        said += _listen(reading, child, 2)[0]
        os.kill(child, signal.SIGKILL)
    os.close(reading)
    status = os.waitpid(child, 0)[1]
    if hung:
        return Ended("hung", said)
    if os.WIFSIGNALED(status):
        return Ended(signal.Signals(os.WTERMSIG(status)).name, said)
    return Ended("raised" if status else "", said)


def isolated(test: Callable[..., None]) -> Callable[..., None]:
    """The test in a child process: what it crashes, hangs or breaks is its own."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        ended = in_child(lambda report: test(*args, **kwargs), seconds=120)
        assert ended, f"{ended.fault}\n{ended.said}"

    return run


def trim() -> int:
    """Give back what is free, as it would be taken without being seen; gives the bytes that are in use."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()


@contextmanager
def limited(more: int) -> Iterator[None]:
    """Let this process, a child, have so many bytes more than it has now."""
    used, (_, most) = trim(), resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + more, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _work(work: Callable[[Callable[[str], None]], None], to: int) -> None:
    """Never returns, and runs nothing that is registered for the end of the parent."""
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 2)  # what the C library says of a broken heap
    faulthandler.register(signal.SIGUSR1, file=to)
    status = 1
    try:
        work(lambda text: _write(to, text))
        status = 0
    except BaseException:
        _write(to, traceback.format_exc())
    finally:
        os._exit(status)


def _write(to: int, text: str) -> None:
    data = text.encode()
    while data:
        data = data[os.write(to, data) :]


def _listen(reading: int, child: int, seconds: float) -> tuple[str, bool]:
    """All that comes until the other end is closed, and whether that took too long."""
    parts: list[bytes] = []
    limit = Limit(child)
    while True:
        if not select.select([reading], [], [], 0.5)[0]:
            if limit.is_over(seconds):
                return b"".join(parts).decode(errors="replace"), True
            continue
        part = os.read(reading, 1 << 16)
        if not part:
            return b"".join(parts).decode(errors="replace"), False
        parts.append(part)
