"""The state of a prompt: a session in which statements are run and their values shown."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from threading import Lock
from typing import Any

from .report import write

PROMPT = "finch> "
CONTINUED = "     | "
#: the prompt before lines that were copied from Julia
JULIA = "julia> "


def import_language() -> None:
    """Import modules with very many objects that stay: the garbage collector is off meanwhile, and then
    told to ignore these objects, which it would search in vain."""
    if "finchlang.python.session" not in sys.modules and gc.isenabled():
        gc.disable()
        from finchlang.python import session  # noqa: F401

        gc.freeze()
        gc.enable()


class Conversation:
    """The state of a prompt: a session, made when it is first needed; the inputs that ran without error
    (`typed`); and the last kernel that was compiled."""

    def __init__(self, make_session: Callable[[Conversation], Any]):
        self._make_session = make_session
        self._session: Any = None
        self._one_at_a_time = Lock()
        self.typed: list[str] = []
        self.kernel: Any = None
        self.has_vi_keys = os.environ.get("FINCH_KEYS") == "vi"

    @property
    def session(self) -> Any:
        with self._one_at_a_time:  # the thread that loads the language may be making it
            if self._session is None:
                import_language()
                self._session = self._make_session(self)
            return self._session

    def load(self) -> None:
        """Make the session and import what running an input needs, before the first input."""
        assert self.session is not None
        self.run("", "<input>")

    def run(self, text: str, name: str) -> None:
        """Run statements one by one and show the value of each, unless it has none or a semicolon follows.
        Nothing runs unless the whole text parses. Raises FinchError."""
        from finchlang.syntax.nodes import NOTHING
        from finchlang.text.parse import parse_whole

        from .fit_to_screen import screen, shown

        for statement in parse_whole(text, name).statements:
            value = self.session.execute(statement)
            span = statement.span
            assert span is not None
            if value is None or value is NOTHING:
                continue
            self.session.environment.bind({"ans": value})
            if not is_quiet(span):
                write(shown(value, *screen()) + "\n")
        if text:
            self.typed.append(text)


def is_quiet(span: Any) -> bool:
    return span.source.line(span.end_line)[span.end_column - 1 :].lstrip().startswith(";")
