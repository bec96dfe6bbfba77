"""The prompt: reads a statement, runs it, shows its value or its error, until the input ends."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from finchlang.script.builtins import BUILTINS
from finchlang.script.show import show
from finchlang.session import Session
from finchlang.source import FinchError
from finchlang.syntax import NOTHING, Node
from finchlang.tensors.formats import LEVELS
from finchlang.text.parse import is_incomplete, parse_script
from finchlang.types import TYPES

from .report import report

PROMPT = "finch> "
CONTINUED = "     | "


def converse(session: Session, banner: str) -> int:
    """Talk to a person at a terminal; the exit status is 0, whatever went wrong on the way.

    Enter runs what is typed, or goes on to the next line while a block or bracket is open.
    Ctrl-C drops what is typed, or stops what runs; Ctrl-D on an empty line leaves.
    """
    ask = _terminal(session)
    print(banner)
    while True:
        try:
            text = ask()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return 0
        try:
            answer(session, text)
        except (Exception, KeyboardInterrupt) as error:
            report(error)


def read_all(session: Session, stream: TextIO) -> int:
    """Run what a pipe or a file on standard input holds, statement by statement, as if typed.

    Nothing runs unless all of it parses. Raises the FinchError of the first statement that fails.
    """
    try:
        text = stream.read()
    except UnicodeDecodeError:
        raise FinchError("I/O", "standard input is not UTF-8 text") from None
    for statement in parse_script(text, "<stdin>").statements:
        _print(session.execute(statement), quietly=_has_semicolon(statement))
    return 0


def answer(session: Session, text: str) -> None:
    """Run `text` and print its value, unless it has none or ends in a semicolon."""
    _print(session.run(text), quietly=text.rstrip().endswith(";"))


def _print(value: Any, quietly: bool) -> None:
    if value is not None and value is not NOTHING and not quietly:
        print(show(value), flush=True)


def _has_semicolon(statement: Node) -> bool:
    span = statement.span
    assert span is not None
    return span.source.line(span.end_line)[span.end_column - 1 :].lstrip().startswith(";")


# ---------------------------------------------------------------------------------- the terminal


def _terminal(session: Session) -> Callable[[], str]:
    """A function that asks for one complete input at the terminal (Ctrl-C: KeyboardInterrupt,
    Ctrl-D: EOFError)."""
    # prompt_toolkit takes a while to import, and `finch run` has no use for it
    from prompt_toolkit import PromptSession
    from prompt_toolkit.application import get_app
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.lexers import PygmentsLexer

    from .look import STYLE, FinchLexer, NameCompleter

    line: PromptSession[str] = PromptSession(
        message=[("class:prompt", PROMPT)],
        prompt_continuation=CONTINUED,
        multiline=Condition(lambda: is_incomplete(get_app().current_buffer.text)),
        history=_history(),
        lexer=PygmentsLexer(FinchLexer),
        style=STYLE,
        completer=NameCompleter(lambda: {*session.names(), *BUILTINS, *LEVELS, *TYPES}),
        complete_while_typing=False,
    )
    return line.prompt


def _history():
    """The history of earlier sessions, or one in memory where no file can be written."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    path = history_file()
    if path is None:
        return InMemoryHistory()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))


def history_file() -> Path | None:
    """`FINCH_HISTORY` (none if empty), else `finchlang/history` in the user's state folder."""
    chosen = os.environ.get("FINCH_HISTORY")
    if chosen is not None:
        return Path(chosen).expanduser() if chosen else None
    state = os.environ.get("XDG_STATE_HOME")
    try:
        base = Path(state) if state else Path.home() / ".local" / "state"
    except RuntimeError:  # no home folder
        return None
    return base / "finchlang" / "history"
