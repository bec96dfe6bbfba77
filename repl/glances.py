"""The process that checks texts while they are typed, for `finch lsp`."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

#: how long the check of a text may take, in seconds
ENOUGH = 10.0


class Glances:
    """The process that checks texts, one at a time; it is started again after one that takes too long."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.process = self._started()

    @staticmethod
    def _started() -> subprocess.Popen[bytes]:
        command = sys.executable, "-m", "finchlang.repl.short_values"
        pipe, none = subprocess.PIPE, subprocess.DEVNULL
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=none)

    async def at(
        self, text: str, name: str, is_wanted: Callable[[], bool]
    ) -> dict[str, Any] | None:
        """The result of `short_values.look_at`; None if it takes too long, or is not wanted at its turn."""
        async with self.turn:
            if not is_wanted():
                return None
            question = json.dumps({"text": text, "name": name}).encode() + b"\n"
            asked = asyncio.to_thread(self._answer, self.process, question)
            try:
                return json.loads(await asyncio.wait_for(asked, ENOUGH))
            except (TimeoutError, OSError, ValueError):
                self.stop()
                self.process = self._started()
                return None

    @staticmethod
    def _answer(process: subprocess.Popen[bytes], question: bytes) -> bytes:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(question)
        process.stdin.flush()
        return process.stdout.readline()

    def stop(self) -> None:
        self.process.kill()
        with suppress(OSError):
            self.process.communicate()  # which closes its streams
