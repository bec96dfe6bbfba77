"""Work in a process of its own, so that a crash or an endless loop is a result like any other."""

from __future__ import annotations

import faulthandler
import math
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ClassVar

from finchlang.base.errors import FinchError
from finchlang.testing.compare_engines import Comparison, Way, compare, labels, ways_of

#: outcomes of a task
DONE, DIED, HUNG = "done", "died", "hung"
#: does a task; the function that it is given reports progress
Work = Callable[[Any, Callable[[str], None]], Any]


class Limit:
    """How long a process may work from now on. Processor time counts, so that a busy machine does not
    matter; elapsed time counts only while the process uses no processor."""

    def __init__(self, process: int):
        self.process, self.used, self.since = process, processor_time(process), time.monotonic()
        self.first = self.used

    def is_over(self, seconds: float) -> bool:
        """Whether it has used `seconds` of processor time, or none for `seconds`."""
        if (now := processor_time(self.process)) > self.used:
            self.used, self.since = now, time.monotonic()
        return self.used - self.first > seconds or time.monotonic() - self.since > seconds


def processor_time(process: int) -> float:
    """The seconds of processor time of a process; 0 where the system does not say."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Apart:
    """A process that does one task after the other by calling `work`, a function of a module. `told` are
    the texts that it has reported on its task so far, and `limit` measures the task's time."""

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
        with warnings.catch_warnings():  # threads hold nothing that `work` needs
            warnings.simplefilter("ignore", DeprecationWarning)
            self.process.start()
        other.close()

    def give(self, task: Any) -> None:
        if not self.process.is_alive():
            self.end()
            self._start()
        self.told, self.limit = [], Limit(self.process.pid or 0)
        self.connection.send(task)

    def answer(self, seconds: float) -> tuple[str, Any] | None:
        """The outcome of the task, once it is known or `seconds` are over, as `Limit` counts: DONE with the
        result, DIED with the signal or status, or HUNG. None before. Raises what `work` raised."""
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

    def call(self, task: Any, seconds: float, end: float = math.inf) -> tuple[str, Any]:
        """The outcome of a task as `answer` gives it, at the latest at the moment `end` of the clock."""
        self.give(task)
        while (found := self.answer(seconds if time.monotonic() < end else 0.0)) is None:
            self.connection.poll(max(min(1.0, seconds, end - time.monotonic()), 0.0))
        return found

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self._open.discard(self.connection)
        self.connection.close()


def _serve(work: Work, connection: Connection, others: Any) -> None:
    for other in others:  # a copy here would keep another process's pipe open after its end
        other.close()
    faulthandler.disable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent
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


class Comparer(Apart, AbstractContextManager):
    """Compares scripts in a process of its own, for at most `seconds` each; `is_quick` as in `quick`."""

    def __init__(self, seconds: float = 300.0, is_quick: bool = False):
        super().__init__(_compared)
        self.seconds, self.is_quick = seconds, is_quick
        self.each, self.until = math.inf, math.inf

    @contextmanager
    def within(self, seconds: float, each: float = math.inf) -> Iterator[None]:
        """Comparisons meanwhile take `each` at most, and all of them `seconds` by the clock; what is not
        done by then is an error of kind resource."""
        self.each, self.until = each, time.monotonic() + seconds
        try:
            yield
        finally:
            self.each = self.until = math.inf

    def __exit__(self, *_: object) -> None:
        self.end()

    def compare(self, text: str, ways: Sequence[Way] = ways_of(), **given: Any) -> Comparison:
        """The result of `compare`, without the values. A way that crashes differs from the others, and so
        does one that does not end although another did. Raises FinchError of kind resource if none ends."""
        if time.monotonic() >= self.until:
            raise FinchError("resource", "there is no time left")
        most, task = min(self.seconds, self.each), (text, ways, given, self.is_quick)
        outcome, said = self.call(task, most, self.until)
        if outcome == DONE:
            return said
        found, at = Comparison(labels(ways)), self.told[-1] if self.told else "the text"
        is_cut = most < self.seconds or time.monotonic() >= self.until
        if outcome == HUNG and (is_cut or len(self.told) < 2):
            hint = "give it more time, or other engines"
            raise FinchError("resource", f"{at}: {said}", hint=hint)
        found.differ(f"{at}: {said}", outcome, at, said if outcome == DIED else "")
        return found


def shows(
    compared: Callable[..., Comparison], found: Comparison, text: str, ways: Sequence[Way]
) -> bool:
    """Whether a text is `compared` with differences, all of kinds that `found` has too."""
    with suppress(FinchError):
        return compared(text, ways=ways).shows(found)
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
    """Compile without LLVM's passes and keep nothing on disk: each kernel is met once. Check residuals."""
    from finchlang.native.compiler import compile_plainly

    os.environ["FINCH_CACHE_DIR"], os.environ["FINCH_CHECK"] = "", "1"
    compile_plainly()
