"""Object code kept on disk between runs; a file that is not there or not right is a miss."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from functools import cache
from pathlib import Path

import llvmlite
import numpy as np

from finchlang.native.target import environment

_MAGIC = b"finchlang object\n"
_DIGEST = hashlib.sha256().digest_size

#: When the files together are larger (bytes), the least recently used ones are removed.
LIMIT = 128 << 20


class ObjectCache:
    """A directory of object files, each named by its key and protected by a checksum."""

    def __init__(self, directory: str | Path, limit: int = LIMIT):
        self.directory = Path(directory)
        self.limit = limit
        self._room: int | None = None  # bytes that may be added before looking at the sizes again

    def get(self, key: str) -> bytes | None:
        """The object code stored under `key`, or None."""
        path = self.directory / key
        try:
            content = path.read_bytes()
        except OSError:
            return None
        code = content[len(_MAGIC) + _DIGEST :]
        if content != _seal(code):
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # recently used
        return code

    def put(self, key: str, code: bytes) -> None:
        """Store `code` under `key`; other processes see the whole file or none. If it cannot be
        stored, it is not."""
        with contextlib.suppress(OSError):
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.directory, suffix=".new")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_seal(code))
                os.replace(name, self.directory / key)
            except OSError:
                os.unlink(name)
                raise
            self._prune(len(code))

    def _prune(self, added: int) -> None:
        """Keep within the limit; the directory is only looked at after much was added."""
        if self._room is not None and added <= self._room:
            self._room -= added
            return
        files = []
        for entry in os.scandir(self.directory):
            with contextlib.suppress(OSError):  # removed by another process
                files.append((entry.stat().st_mtime_ns, entry.stat().st_size, entry.path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self.limit:
                break
            with contextlib.suppress(OSError):
                os.unlink(path)
            total -= size
        self._room = (self.limit - total) // 2


def _seal(code: bytes) -> bytes:
    return _MAGIC + hashlib.sha256(code).digest() + code


def default_cache() -> ObjectCache | None:
    """The user's cache: in FINCH_CACHE_DIR, or where the XDG base directories say; none if
    FINCH_CACHE_DIR is set but empty, or there is no home directory."""
    chosen = os.environ.get("FINCH_CACHE_DIR")
    if chosen is not None:
        return _cache_in(Path(chosen)) if chosen else None
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return _cache_in(Path(base or Path.home() / ".cache") / "finchlang")
    except RuntimeError:
        return None


@cache
def _cache_in(directory: Path) -> ObjectCache:
    """One cache for each directory, which need not look at the sizes again for each kernel."""
    return ObjectCache(directory)


def key_of(*parts: str) -> str:
    """The name of what is kept for `parts`, as it is made by this version of the package and of the
    libraries, for this processor."""
    return hashlib.sha256(repr((*parts, _makers())).encode()).hexdigest()


@cache
def _makers() -> tuple[str, ...]:
    return _sources(), llvmlite.__version__, np.__version__, environment()


def _sources() -> str:
    """A digest of the package: all that turns a program into object code. Reading it takes about
    2 ms, once in a process; sizes and times would not tell apart wheels that were built alike."""
    digest = hashlib.sha256()
    for folder, inner, files in os.walk(Path(__file__).parent.parent):
        inner.sort()
        for name in sorted(files):
            if name.endswith(".py"):
                with open(os.path.join(folder, name), "rb", buffering=0) as file:
                    content = file.read()
                digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()
