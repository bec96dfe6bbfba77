"""What every kind of file needs: paths that are checked, files replaced whole, memory asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO

from finchlang.source import FinchError


def checked_path(path: Any, suffixes: Iterable[str]) -> Path:
    """The path a script names. Raises FinchError "type", or "I/O" for a suffix that is not known."""
    if not isinstance(path, str):
        raise FinchError("type", "the path of a file is a string")
    if "\0" in path:
        raise FinchError("I/O", f"{path!r} is no path: it has a NUL in it")
    file = Path(path)
    if not file.name.endswith(tuple(suffixes)):
        hint = f"the suffix tells the format: {', '.join(suffixes)}"
        raise FinchError("I/O", f"{path} has a suffix that is not known", hint=hint)
    return file


def failure(what: str, path: Any, why: str, hint: str | None = None) -> FinchError:
    return FinchError("I/O", f"cannot {what} {path}: {why}", hint=hint)


def replace_file(file: Path, path: str, write: Callable[[BinaryIO], None]) -> None:
    """Write a new file next to `file` and put it in its place once it is complete."""
    new = file.with_name(f".{file.name}.{os.getpid()}.new")
    try:
        if file.is_dir():
            raise IsADirectoryError(21, "it is a directory")
        try:
            with open(new, "x+b") as out:
                write(out)
            os.replace(new, file)
        finally:
            new.unlink(missing_ok=True)
    except OSError as error:
        raise failure("write", path, error.strerror or str(error)) from None
    except MemoryError:
        raise FinchError("resource", f"no memory to write {path}") from None


def check_memory(file: Path, bytes_needed: int) -> None:
    """Sizes are read before what they are the sizes of: do not ask for more than the machine has.

    Raises FinchError "resource".
    """
    if bytes_needed > os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"):
        raise FinchError("resource", f"no memory for what {file} holds")
