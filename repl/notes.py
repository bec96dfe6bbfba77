"""Observers that print notes about kernels while scripts run."""

from __future__ import annotations

from typing import Any

from finchlang.base.errors import Note
from finchlang.calls.runner import KernelEvent, Observer

from .report import tell


class Notes(Observer):
    """Prints notes to standard error (`finch run`, `finch check`, the prompt)."""

    stages = True

    def note(self, note: Note) -> None:
        tell(note)


class Watching(Notes):
    """As Notes, and keeps the last kernel for the commands of the prompt."""

    def __init__(self, conversation: Any):
        self.conversation = conversation

    def kernel(self, event: KernelEvent) -> None:
        self.conversation.kernel = event
