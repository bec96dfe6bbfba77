"""Printing: a script's output, notes, and errors with their exit statuses."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import textwrap
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from functools import partial
from typing import TextIO

from finchlang.base.errors import FinchError, Note

from . import progress

SUCCESS = 0
USER_ERROR = 1
BUG = 70  # as sysexits.h has it for "internal software error"
INTERRUPTED = 130  # as a shell reports a process that SIGINT ended
BROKEN_PIPE = 141  # likewise SIGPIPE

RED, TEAL, BOLD, PLAIN = "\033[1;38;5;161m", "\033[38;5;31m", "\033[1m", "\033[0m"
_ABOUT_BUGS = "This is a bug in finchlang, not in your program."
_ABOUT_BUGS += " Please report it with the program that shows it."


class NobodyReads(BaseException):
    """The reader of standard output has closed it. It is no FinchError, which a script could catch."""


def write(text: str) -> None:
    """Write a script's output. Raises FinchError "I/O" if that fails, NobodyReads if its reader left."""
    if sys.stdout is None:  # closed before Python started
        raise FinchError("I/O", "standard output is closed")
    progress.clear()
    progress.printed(text)
    try:
        sys.stdout.write(text)
    except BrokenPipeError:
        raise NobodyReads from None
    except OSError as error:
        raise unwritten(error) from None
    except UnicodeEncodeError as error:  # standard output has another encoding than UTF-8
        sign, encoding = error.object[error.start], sys.stdout.encoding
        message = f"cannot write `{sign}` to standard output, whose encoding is {encoding}"
        hint = "set PYTHONIOENCODING=utf-8 in the environment"
        raise FinchError("I/O", message, hint=hint) from None


def flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def unwritten(error: OSError) -> FinchError:
    return FinchError("I/O", f"cannot write to standard output: {error.strerror}")


def page(text: str) -> None:
    """Write a text; through a pager if it does not fit on the terminal's screen."""
    if sys.stdout is not None and has_colours(sys.stdout):
        height = os.get_terminal_size(sys.stdout.fileno()).lines
        if text.count("\n") + 1 >= height:
            with paged():
                print(text)
            return
    write(text + "\n")


@contextmanager
def paged() -> Iterator[bool]:
    """Sends what is printed meanwhile through $PAGER, or `less`, if output goes to a terminal; like git,
    `less` is told to leave if it fits on a screen. Yields whether it may have colours."""
    pager, stdout = shlex.split(os.environ.get("PAGER", "less")), sys.stdout
    if stdout is None or not has_colours(stdout) or not pager or shutil.which(pager[0]) is None:
        yield stdout is not None and has_colours(stdout)
        return
    import subprocess

    flush()
    progress.stop()
    environment = {"LESS": "FRX", **os.environ}
    with subprocess.Popen(pager, stdin=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdin is not None
        try:
            with redirect_stdout(process.stdin):
                yield True
            process.stdin.close()
        except BrokenPipeError:  # the pager was left before the end
            pass
        finally:
            with suppress(BrokenPipeError):
                process.stdin.close()


def has_colours(stream: TextIO) -> bool:
    """Whether a stream is a terminal with colours that the user allows (https://no-color.org)."""
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") in (None, "", "dumb", "unknown")
    return stream.isatty() and not is_plain


def wrapped(text: str, columns: int) -> str:
    """A message with its sentences wrapped to so many columns, and lines of source as they are."""
    first, *rest = text.split("\n")
    fill = partial(textwrap.fill, width=columns, break_long_words=False, break_on_hyphens=False)
    lines = [fill(first), *(fill(r) if r.startswith(("hint: ", "in `")) else r for r in rest)]
    return "\n".join(lines)


def duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def coloured(text: str) -> str:
    """A message with colours for the kind of error, the carets and the word `hint`."""
    first, *rest = text.split("\n")
    place, kind, said = first.partition(" error: ")
    name, _, word = place.rpartition(": ")
    lead = f"{name}: " if name else ""
    lines = [f"{lead}{RED}{word}{kind}{PLAIN}{BOLD}{said}{PLAIN}" if kind else first]
    for line in rest:
        if line.strip() and not line.strip().strip("^"):
            line = f"{RED}{line}{PLAIN}"
        elif line.startswith("hint: "):
            line = f"{TEAL}hint:{PLAIN}{line[5:]}"
        lines.append(line)
    return "\n".join(lines)


def tell(note: Note) -> None:
    progress.clear()
    flush()  # output that was printed before the note comes before it
    place, word, said = str(note).partition("note: ")
    lead = f"{TEAL}{word}{PLAIN}" if has_colours(sys.stderr) else word
    print(f"{place}{lead}{said}", file=sys.stderr)


def report(error: BaseException) -> int:
    """Print an error to standard error and return its exit status. An exception that is neither a
    FinchError nor an interruption is printed as a bug, with its traceback."""
    progress.clear()
    flush()  # output that was printed before the error comes before it
    if isinstance(error, FinchError):
        for one in (error, *error.others):
            text = one.render()
            if sys.stderr.isatty():
                text = wrapped(text, max(shutil.get_terminal_size().columns, 20))
            print(coloured(text) if has_colours(sys.stderr) else text, file=sys.stderr)
        return INTERRUPTED if error.kind == "interrupted" else USER_ERROR
    if isinstance(error, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    traceback.print_exception(error)
    print(_ABOUT_BUGS, file=sys.stderr)
    return BUG
