"""What all reading and writing of files shares: checks of paths and sizes, replacing a file as a whole."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from finchlang.base.errors import FinchError
from finchlang.base.memory_limit import check_available

#: scripts have at most so many characters
LONGEST = 1 << 26


def checked_path(path: Any, suffixes: Iterable[str]) -> Path:
    """A path of a script. Raises FinchError "type" for what is no string, "I/O" for an unknown suffix."""
    if not isinstance(path, str):
        raise FinchError("type", "the path of a file is a string")
    if "\0" in path:
        raise FinchError("I/O", f"{path!r} is no path: it has a NUL in it")
    file = Path(path)
    if not file.name.endswith(tuple(suffixes)):
        hint = f"the suffix tells the format: {', '.join(suffixes)}"
        raise FinchError("I/O", f"{path} has a suffix that is not known", hint=hint)
    return file


def read_script(path: str | Path, newline: str | None = None) -> str:
    """The text of a file, `-` for standard input; its line ends stay if `newline` is empty. Raises
    FinchError "I/O" if it is not there or not UTF-8, "type" for no path."""
    try:
        with told("read", path):
            if path == "-":  # in the locale C, bytes that are not UTF-8 are read as surrogates
                if sys.stdin is None:
                    raise failure("read", "standard input", "it is closed")
                if isinstance(sys.stdin, io.TextIOWrapper):
                    sys.stdin.reconfigure(newline=newline)
                return _whole(sys.stdin, path).encode().decode()
            named = Path(path) if path != "" else ""  # `Path("")` is the folder of the moment
            with open(named, encoding="utf-8", newline=newline) as file:
                return _whole(file, path)
    except UnicodeError:
        name = "standard input" if path == "-" else path
        raise FinchError("I/O", f"{name} is not UTF-8 text") from None
    except TypeError:
        raise FinchError("type", f"a path is a text, not a {type(path).__name__}") from None


def _whole(file: TextIO, path: Any) -> str:
    text = file.read(LONGEST + 1)
    if len(text) > LONGEST:  # as a device has no end
        raise failure("read", path, f"no script has more than {LONGEST} characters")
    return text


def failure(what: str, path: Any, why: str, hint: str | None = None) -> FinchError:
    return FinchError("I/O", f"cannot {what} {path or '``'}: {why}", hint=hint)


@contextlib.contextmanager
def told(what: str, path: Any) -> Iterator[None]:
    """Turns OSError and MemoryError into FinchErrors "I/O" and "resource" about `path`."""
    try:
        yield
    except OSError as error:
        raise failure(what, path, error.strerror or str(error)) from None
    except MemoryError:
        raise FinchError("resource", f"no memory to {what} {path}") from None


def replace_file(file: Path, path: str, write: Callable[[BinaryIO], object]) -> None:
    """Write a new file, and once it is complete put it in the place of `file`, or of the file that it links
    to, with the permissions of that. Until then it has no name, if the file system allows that, so that
    nothing is left behind however the process ends. Raises FinchError "I/O" or "resource"."""
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


def replace_text(path: str, text: str) -> None:
    """Write a text as `replace_file` does."""
    replace_file(Path(path), path, lambda out: out.write(text.encode("utf-8")))


def replace_folder(folder: Path, path: str, write: Callable[[Path], None]) -> None:
    """As `replace_file`, for a format that is a folder, which replaces only a folder of the same format.
    It has a name from the start, so SIGTERM is delayed. Raises FinchError "I/O" or "resource"."""
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
    """Delays a SIGTERM that would end the process until this is done."""
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
    """Raises OSError if anything in a folder is neither a regular file nor a folder, as links are not."""
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            check_folder(Path(entry))
        else:
            check_regular(entry.stat(follow_symlinks=False).st_mode)


def _mode_of(target: Path) -> int | None:
    """The permissions of a file, None if it does not exist. Raises OSError for what is no regular file."""
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return None
    check_regular(mode)
    return mode & 0o777


def check_regular(mode: int) -> None:
    """Raises OSError for a folder, and for a pipe or device, on which reading could block."""
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(21, "it is a directory")
    if not stat.S_ISREG(mode):
        raise OSError(22, "it is no regular file")


def _open_new(new: Path) -> int:
    """An open file without a name, or with the name `new` if the file system has no nameless files."""
    with contextlib.suppress(OSError):
        return os.open(new.parent, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o666)
    return os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o666)


def _give_name(handle: int, new: Path) -> None:
    """Names a nameless file by linking its entry in /proc, which needs no privileges."""
    if os.fstat(handle).st_nlink == 0:
        opened = os.open("/proc/self/fd", os.O_PATH | os.O_DIRECTORY)
        try:
            os.link(str(handle), new, src_dir_fd=opened, follow_symlinks=True)
        finally:
            os.close(opened)


def check_memory(what: str, bytes_needed: float) -> None:
    """Raises FinchError "resource" if there is no memory for something so large."""
    try:
        check_available(bytes_needed)
    except MemoryError:
        raise FinchError("resource", f"no memory for {what}") from None
