"""What every kind of file needs: paths that are checked, files replaced whole, memory asked for."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from finchlang.base.errors import FinchError


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


def read_script(path: str | Path) -> str:
    """The text of a script file. Raises FinchError "I/O"."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise FinchError("I/O", f"{path} is not UTF-8 text") from None
    except TypeError:
        raise FinchError("type", f"a path is a text, not a {type(path).__name__}") from None
    except OSError as error:
        raise FinchError("I/O", f"cannot read {path}: {error.strerror}") from None


def failure(what: str, path: Any, why: str, hint: str | None = None) -> FinchError:
    return FinchError("I/O", f"cannot {what} {path}: {why}", hint=hint)


@contextlib.contextmanager
def told(what: str, path: Any) -> Iterator[None]:
    """What the system says while a file is read or written as errors of kind "I/O" and "resource"."""
    try:
        yield
    except OSError as error:
        raise failure(what, path, error.strerror or str(error)) from None
    except MemoryError:
        raise FinchError("resource", f"no memory to {what} {path}") from None


def replace_file(file: Path, path: str, write: Callable[[BinaryIO], None]) -> None:
    """Write a new file and put it in the place of `file`, or of what that links to, once it is
    complete; it gets the mode of what was there.

    Until then it has no name where the file system allows that, so that nothing is left behind if
    the process ends before, however it ends. Raises FinchError "I/O", "resource".
    """
    target = Path(os.path.realpath(file))
    new = target.with_name(f".{target.name}.{os.getpid()}.new")
    with told("write", path):
        mode = _mode_of(target)
        try:
            handle = _open_new(new)
            with open(handle, "w+b") as out:
                write(out)
                out.flush()
                if mode is not None:
                    os.fchmod(handle, mode)
                _give_name(handle, new)
            os.replace(new, target)
        finally:
            new.unlink(missing_ok=True)


def replace_folder(folder: Path, path: str, write: Callable[[Path], None]) -> None:
    """As `replace_file`, of what is kept as a folder, which nothing but its own kind is replaced by.

    A folder has a name from the start, so SIGTERM waits until it is complete.
    Raises FinchError "I/O", "resource"."""
    target = Path(os.path.realpath(folder))
    new, old = (target.with_name(f".{target.name}.{os.getpid()}.{end}") for end in ("new", "old"))
    with told("write", path), _before_termination():
        if target.exists() and not (target / "zarr.json").is_file():
            raise FileExistsError(17, "what has this name is something else")
        try:
            new.mkdir()
            write(new)
            if target.exists():
                os.chmod(new, target.stat().st_mode & 0o777)
                os.rename(target, old)
            os.rename(new, target)
        finally:
            for rest in (new, old):
                shutil.rmtree(rest, ignore_errors=True)


@contextlib.contextmanager
def _before_termination() -> Iterator[None]:
    """SIGTERM, where it ends the process, does so after this."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    came: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if came:
            os.kill(os.getpid(), signal.SIGTERM)


def check_folder(folder: Path) -> None:
    """Raises OSError where anything in a folder is neither a file nor a folder, or is elsewhere."""
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            check_folder(Path(entry))
        else:
            check_regular(entry.stat(follow_symlinks=False).st_mode)


def _mode_of(target: Path) -> int | None:
    """The permissions of a file, None if there is none. Raises OSError for what is no file."""
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return None
    check_regular(mode)
    return mode & 0o777


def check_regular(mode: int) -> None:
    """Raises OSError for folders, and for pipes and devices, which reading could wait for."""
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(21, "it is a directory")
    if not stat.S_ISREG(mode):
        raise OSError(22, "it is no regular file")


def _open_new(new: Path) -> int:
    """A file that does not have the name `new` yet, or that has it at once where it must."""
    with contextlib.suppress(OSError):
        return os.open(new.parent, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o666)
    return os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o666)


def _give_name(handle: int, new: Path) -> None:
    if os.fstat(handle).st_nlink == 0:
        opened = os.open("/proc/self/fd", os.O_PATH | os.O_DIRECTORY)
        try:
            os.link(str(handle), new, src_dir_fd=opened, follow_symlinks=True)
        finally:
            os.close(opened)


def check_memory(file: Path, bytes_needed: int) -> None:
    """Sizes are read before what they are the sizes of: do not ask for more than the machine has.

    Raises FinchError "resource".
    """
    if bytes_needed > os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"):
        raise FinchError("resource", f"no memory for what {file} holds")
