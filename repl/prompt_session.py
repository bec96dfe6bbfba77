"""What a person at the prompt talks to: a session, and statements that are run and shown in it."""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Lock
from typing import Any, TextIO

from finchlang.base.errors import FinchError

from .report import write

PROMPT = "finch> "
CONTINUED = "     | "


class Conversation:
    """What a person at the prompt talks to: a session, which is made when it is first needed, what was
    typed and is in order, and the last kernel that was compiled."""

    def __init__(self, make_session: Callable[[Conversation], Any]):
        self._make_session = make_session
        self._session: Any = None
        self._one_at_a_time = Lock()
        self.typed: list[str] = []
        self.kernel: Any = None
        self.has_vi_keys = os.environ.get("FINCH_KEYS") == "vi"

    @property
    def session(self) -> Any:
        with self._one_at_a_time:  # a thread may be making it
            if self._session is None:
                self._session = self._make_session(self)
            return self._session

    def load(self) -> None:
        """Do what the first input would else wait for."""
        assert self.session is not None
        self.run("", "<input>")

    def run(self, text: str, name: str) -> None:
        """Run statements, each when those before it have, and show the value of each, unless it has none
        or a semicolon follows. Nothing runs unless all of it parses. Raises FinchError."""
        from finchlang.syntax.nodes import NOTHING
        from finchlang.text.parse import parse_whole

        from .fit_to_screen import screen, shown

        for statement in parse_whole(text, name).statements:
            value = self.session.execute(statement)
            span = statement.span
            assert span is not None
            if value is None or value is NOTHING:
                continue
            self.session.environment.set("ans", value)
            if not is_quiet(span):
                write(shown(value, *screen()) + "\n")
        if text:
            self.typed.append(text)


def is_quiet(span: Any) -> bool:
    return span.source.line(span.end_line)[span.end_column - 1 :].lstrip().startswith(";")


def read_all(conversation: Conversation, stream: TextIO) -> int:
    """Run what a pipe or a file on standard input holds, statement by statement, as if typed.

    Raises the FinchError of the first statement that fails.
    """
    try:
        text = stream.read()
        text.encode()  # in the locale C what is none was read as surrogates
    except UnicodeError:
        raise FinchError("I/O", "standard input is not UTF-8 text") from None
    conversation.run(text, "<stdin>")
    return 0
