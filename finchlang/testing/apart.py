"""Work in a process of its own: that it crashes, or comes to no end, is an answer like any other."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ClassVar

from finchlang.base.errors import FinchError
from finchlang.testing.compare_engines import Comparison, Way, compare, labels, ways_of

#: what becomes of a task
DONE, DIED, HUNG = "done", "died", "hung"
#: what does a task, and may tell how far it is
Work = Callable[[Any, Callable[[str], None]], Any]


class Limit:
    """How long a process works from now on: what counts is its use of processors, so that it may take
    longer on a busy machine, and time only where it uses none."""

    def __init__(self, process: int):
        self.process, self.used, self.since = process, processor_time(process), time.monotonic()
        self.first = self.used

    def is_over(self, seconds: float) -> bool:
        """Whether it has used a processor for `seconds`, or has not used one for so long."""
        if (now := processor_time(self.process)) > self.used:
            self.used, self.since = now, time.monotonic()
        return self.used - self.first > seconds or time.monotonic() - self.since > seconds


def processor_time(process: int) -> float:
    """The seconds that a process has used processors for; 0 where nothing tells."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Apart:
    """A process that does one task after the other: `work` of each, a function of a module. `told` are
    the texts that it told of its task so far, and `limit` is how long that may take."""

    _open: ClassVar[set[Connection]] = set()

    def __init__(self, work: Work):
        self.work, self.told = work, list[str]()
        self._start()

    def _start(self) -> None:
        is_forked = sys.platform == "linux"
        context: Any = get_context("fork" if is_forked else "spawn")
        self.connection, other = context.Pipe()
        self._open.add(self.connection)
        given = self.work, other, self._open if is_forked else ()
        self.process = context.Process(target=_serve, args=given, daemon=True)
        with warnings.catch_warnings():  # of other threads, which hold nothing that the work needs
            warnings.simplefilter("ignore", DeprecationWarning)
            self.process.start()
        other.close()

    def give(self, task: Any) -> None:
        """Have a task done; one that ended is started anew."""
        if not self.process.is_alive():
            self.end()
            self._start()
        self.told, self.limit = [], Limit(self.process.pid or 0)
        self.connection.send(task)

    def answer(self, seconds: float) -> tuple[str, Any] | None:
        """What became of the task, if it is known or `seconds` are over, as `Limit` counts: DONE and what
        `work` gave, DIED and how, or HUNG. Raises what `work` raised."""
        try:
            while self.connection.poll():
                kind, said = self.connection.recv()
                if kind == "raised":
                    raise said
                if kind == DONE:
                    return DONE, said
                self.told.append(said)
        except (EOFError, OSError):
            return self._ended()
        if self.limit.is_over(seconds):
            self.end()
            return HUNG, f"no end after {seconds:g} s"
        return None if self.process.is_alive() or self.connection.poll() else self._ended()

    def _ended(self) -> tuple[str, str]:
        self.process.join()
        status = self.process.exitcode or 0
        name = signal.Signals(-status).name if status < 0 else f"status {status}"
        return DIED, f"the process ended with {name}"

    def call(self, task: Any, seconds: float) -> tuple[str, Any]:
        """Have a task done, and wait for what becomes of it."""
        self.give(task)
        while (found := self.answer(seconds)) is None:
            self.connection.poll(min(1.0, seconds))
        return found

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self._open.discard(self.connection)
        self.connection.close()


def _serve(work: Work, connection: Connection, others: Any) -> None:
    for other in others:  # whoever waits for their ends is not to wait for this one
        other.close()
    faulthandler.disable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who gives the tasks is told
    warnings.simplefilter("ignore")  # NumPy's, of infinities and NaN
    while True:
        try:
            task = connection.recv()
        except (EOFError, OSError):
            return
        try:
            answer = DONE, work(task, lambda text: connection.send(("told", text)))
        except Exception as error:
            answer = "raised", error
        connection.send(answer)


class Comparer(Apart):
    """Compares scripts in a process of its own, for `seconds` each at most; `is_quick` as in `quick`."""

    def __init__(self, seconds: float = 300.0, is_quick: bool = False):
        super().__init__(_compared)
        self.seconds, self.is_quick = seconds, is_quick

    def __enter__(self) -> Comparer:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def compare(self, text: str, ways: Sequence[Way] = ways_of(), **given: Any) -> Comparison:
        """What `compare` gives, without the values. A way that crashes differs from the others, and so does
        one that comes to no end after another did. Raises FinchError "resource" if none comes to an end."""
        outcome, said = self.call((text, ways, given, self.is_quick), self.seconds)
        if outcome == DONE:
            return said
        found, at = Comparison(labels(ways)), self.told[-1] if self.told else "the text"
        if outcome == HUNG and len(self.told) < 2:
            hint = "give it more time, or other engines"
            raise FinchError("resource", f"{at}: {said}", hint=hint)
        found.differ(f"{at}: {said}", outcome, at, said if outcome == DIED else "")
        return found

    def shows(self, found: Comparison, text: str, ways: Sequence[Way], **given: Any) -> bool:
        """Whether a text shows the very fault that was found in another."""
        try:
            return self.compare(text, ways, **given).shows(found)
        except FinchError:
            return False


def _compared(task: Any, tell: Callable[[str], None]) -> Comparison:
    text, ways, given, is_quick = task
    if is_quick:
        quick()
    found = compare(text, ways=ways, tell=tell, **given)
    found.results = {label: dict.fromkeys(values) for label, values in found.results.items()}
    return found


@cache
def quick() -> None:
    """Have this process compile without LLVM's passes, and keep nothing of it: kernels are met once. Each
    residual is checked."""
    from finchlang.native.compiler import compile_plainly

    os.environ["FINCH_CACHE_DIR"], os.environ["FINCH_CHECK"] = "", "1"
    compile_plainly()
