"""What becomes of an error: a message on standard error and an exit status."""

from __future__ import annotations

import sys
import traceback

from finchlang.source import FinchError, Note

SUCCESS = 0
USER_ERROR = 1
USAGE = 2
BUG = 70  # as sysexits.h has it for "internal software error"
INTERRUPTED = 130  # as a shell reports a process that SIGINT ended
BROKEN_PIPE = 141  # likewise SIGPIPE


class NobodyReads(BaseException):
    """Standard output was closed at its other end. No script error: a script cannot handle it."""


def write(text: str) -> None:
    """Write what a script prints to standard output. Raises FinchError "I/O" if it cannot be."""
    if sys.stdout is None:  # it was closed before Python began
        raise FinchError("I/O", "standard output is closed")
    try:
        sys.stdout.write(text)
    except BrokenPipeError:
        raise NobodyReads from None
    except OSError as error:
        raise unwritten(error) from None


def flush() -> None:
    """Have all that was printed written."""
    if sys.stdout is not None:
        sys.stdout.flush()


def unwritten(error: OSError) -> FinchError:
    return FinchError("I/O", f"cannot write to standard output: {error.strerror}")


def tell(note: Note) -> None:
    """Write a note to standard error."""
    flush()  # what was printed before it comes before it
    print(note, file=sys.stderr)


def report(error: BaseException) -> int:
    """Say on standard error what went wrong; the exit status that goes with it.

    Only what is our own fault shows a traceback, and says that it is a bug.
    """
    flush()  # what was printed before the error comes before it
    if isinstance(error, FinchError):
        print(error.render(), file=sys.stderr)
        return INTERRUPTED if error.kind == "interrupted" else USER_ERROR
    if isinstance(error, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    traceback.print_exception(error)
    print(
        "This is a bug in finchlang, not in your program."
        " Please report it with the program that shows it.",
        file=sys.stderr,
    )
    return BUG
