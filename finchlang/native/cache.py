"""Object code kept on disk between runs; a file that is not there or not right is a miss."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from functools import cache
from importlib.metadata import version
from pathlib import Path

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
        return ObjectCache(chosen) if chosen else None
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return ObjectCache(Path(base or Path.home() / ".cache") / "finchlang")
    except RuntimeError:
        return None


def key_of(listing: str, environment: str) -> str:
    """The name of the object code of a residual program, given its listing."""
    parts = (listing, environment, _sources(), version("llvmlite"))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@cache
def _sources() -> str:
    """A digest of what turns a residual program into object code: this package and the host
    language."""
    digest = hashlib.sha256()
    native = Path(__file__).parent
    for folder in (native, native.parent / "host"):
        for path in sorted(folder.glob("*.py")):
            digest.update(path.read_bytes())
    digest.update((native.parent / "types.py").read_bytes())
    return digest.hexdigest()
