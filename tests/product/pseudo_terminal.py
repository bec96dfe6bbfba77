"""A program at a pseudo-terminal: keys are sent to it, and what it prints is waited for."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from pathlib import Path

#: what moves the cursor, sets colours and modes: no text
ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07|\x1b[=>()][B0]?|[\x00\x07\x08]")
#: a line that is taken away, as the one that tells of progress
ERASED = re.compile(r"[^\n]*\r\x1b\[K")
PATIENCE = 60.0


class PseudoTerminal:
    """`with PseudoTerminal(["finch"]) as terminal`: so many columns and lines, some of the environment
    changed. `screen` is all that was printed since the last wait."""

    def __init__(
        self,
        command: list[str],
        folder: Path,
        columns: int = 80,
        lines: int = 24,
        **environment: str,
    ):
        self.raw = ""
        self.pid, self.handle = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            settings = {
                **{"TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1", "PAGER": "cat"},
                "FINCH_HISTORY": str(folder / "history"),
            }
            inherited = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
            os.execvpe(command[0], command, inherited | settings | environment)
        size = struct.pack("HHHH", lines, columns, 0, 0)
        fcntl.ioctl(self.handle, termios.TIOCSWINSZ, size)

    def __enter__(self) -> PseudoTerminal:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
        os.close(self.handle)

    def send(self, keys: str) -> None:
        os.write(self.handle, keys.encode())

    def read(self, seconds: float) -> bool:
        """Take in what comes; whether anything did."""
        if not select.select([self.handle], [], [], seconds)[0]:
            return False
        try:
            new = os.read(self.handle, 1 << 16)
        except OSError:  # the program has ended
            return False
        self.raw += new.decode(errors="replace")
        return bool(new)

    @property
    def screen(self) -> str:
        kept = ERASED.sub("", self.raw)
        return ESCAPES.sub("", kept).replace("\r", "")

    def wait(self, pattern: str, seconds: float = PATIENCE) -> str:
        """Wait for a text, and forget all up to its end; gives what was printed up to there."""
        text = self.until(pattern, seconds)
        self.raw = self.screen[len(text) :]
        return text

    def until(self, pattern: str, seconds: float = PATIENCE) -> str:
        """Wait for a text, and forget nothing; gives what was printed up to its end."""
        end = time.monotonic() + seconds
        while (found := re.search(pattern, self.screen)) is None:
            assert time.monotonic() < end, f"no {pattern!r} in {self.screen!r}"
            self.read(0.05)
        return self.screen[: found.end()]

    def type(self, keys: str, pattern: str, seconds: float = PATIENCE) -> str:
        self.send(keys)
        return self.wait(pattern, seconds)

    def ended(self, seconds: float = PATIENCE) -> int:
        """Wait for the end of the program; its exit status."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.read(0.02)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
        raise AssertionError(f"it goes on: {self.screen!r}")
