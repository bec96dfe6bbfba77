"""All that is wrong with a text: after a syntax error the statements that follow are looked at, too."""

from __future__ import annotations

import re
from dataclasses import replace

from finchlang.source import FinchError, Source
from finchlang.syntax import Script
from finchlang.text.lines import STRAY
from finchlang.text.parse import parse_script

#: how many errors of a text are looked for
MOST = 20
#: what begins a line of a statement that began in a line before
_GOES_ON = re.compile(r"\s|$|#|[)\]}]|(?:end|else|elseif|elif|catch|except|finally)\b")
_CLOSES = re.compile(r"[)\]}]|end\b")


def parse_whole(text: str, name: str) -> Script:
    """`parse_script`, whose error has those in statements that follow beside it."""
    try:
        return parse_script(text, name)
    except FinchError as error:
        if (at := error.span) is not None:
            found = syntax_errors(at.source)
            error.others = tuple(e for e in found if e.span and e.span.line > at.line)
        raise


def syntax_errors(source: Source) -> list[FinchError]:
    """The syntax errors of a script, one a statement of the file; none for what parses.

    A statement is taken to begin in a line that is not indented. What lacks the line that opens it, as
    that has an error already, is none.
    """
    found: list[FinchError] = []
    lines = source.text.split("\n")
    for _ in range(MOST):
        try:
            parse_script("\n".join(lines), source.name)
        except FinchError as error:
            if error.span is None:
                return [*found, error]
            if not (found and error.message.endswith(STRAY)):
                error.span = replace(error.span, source=source)
                found.append(error)
            if error.kind != "syntax":  # it is of the text as a whole
                break
            _blank_statement(lines, error.span.line - 1)
        else:
            break
    return found


def _blank_statement(lines: list[str], at: int) -> None:
    """Leave out the statement that has the line `at`, counted from 0."""
    start = stop = min(at, len(lines) - 1)
    while start > 0 and _GOES_ON.match(lines[start]):
        start -= 1
    stop += 1
    while stop < len(lines) and _GOES_ON.match(lines[stop]):
        stop += 1
        if _CLOSES.match(lines[stop - 1]):
            break
    lines[start:stop] = [""] * (stop - start)
