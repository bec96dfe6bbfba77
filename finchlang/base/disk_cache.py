"""A cache on disk that outlives a process, in a directory that only its owner may write; files that are
not ours or are damaged count as misses. And records of ours as data, from which only such can be made."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

from finchlang.base.errors import FinchError, Source, Span

_MAGIC = b"finchlang cache\n"
_DIGEST = hashlib.sha256().digest_size

#: When the files together are larger (bytes), the least recently used ones are removed.
LIMIT = 128 << 20


class DiskCache:
    """A directory of files, each named by its key and protected by a checksum over key and content.

    Object code is kept here and executed, so a directory or file that has another owner, or that others
    may write, is not used. The directory is opened and checked at each access, and its files are reached
    through the open descriptor, so that it cannot be exchanged in between.
    """

    def __init__(self, directory: str | Path, limit: int = LIMIT):
        self.directory = Path(directory)
        self.limit = limit
        # Bytes that may be added before sizes are summed again. Random, so that among many processes too
        # short to use up their room, some do sum.
        self._room = random.randrange(max(1, limit // 64))

    def get(self, key: str) -> bytes | None:
        with contextlib.suppress(OSError), self._opened() as folder:
            content = _read(folder, key)
            kept = content[len(_MAGIC) + _DIGEST :]
            if content == _seal(key, kept):
                os.utime(key, dir_fd=folder)  # recently used
                return kept
        return None

    def put(self, key: str, content: bytes) -> None:
        """Store `content` under `key` if possible; other processes see the whole file or none."""
        with contextlib.suppress(OSError):
            _make_directory(self.directory)
            with self._opened() as folder:
                _write(folder, key, _seal(key, content))
                self._prune(folder, len(content))

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        """The directory's descriptor. Raises OSError if it is missing or not safe."""
        folder = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _check(os.fstat(folder))
            yield folder
        finally:
            os.close(folder)

    def _prune(self, folder: int, added: int) -> None:
        """Keep the directory within the limit. It is scanned only after many bytes were added, and a full
        one is emptied by a quarter: scanning at each put took 0.4 to 1 s for 48,000 files."""
        self._room -= added
        if self._room >= 0:
            return
        files = []
        for entry in os.scandir(folder):
            with contextlib.suppress(OSError):  # removed by another process
                found = entry.stat(follow_symlinks=False)
                files.append((found.st_mtime_ns, found.st_size, entry.name))
        total = sum(size for _, size, _ in files)
        goal = self.limit if total <= self.limit else self.limit * 3 // 4
        for _, size, name in sorted(files):
            if total <= goal:
                break
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=folder)
            total -= size
        self._room = (self.limit - total) // 2


def _seal(key: str, content: bytes) -> bytes:
    """The content after its checksum, which covers the key: a renamed file is not valid."""
    return _MAGIC + hashlib.sha256(key.encode() + b"\n" + content).digest() + content


def _check(found: os.stat_result) -> None:
    """Raises OSError for a file or directory of another user, or that others may write."""
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError("it is not ours alone")


def _read(folder: int, name: str) -> bytes:
    """The content of a regular file of ours; links are not followed, pipes not opened. Raises OSError."""
    if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        raise OSError("it is no regular file")
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(name, flags, dir_fd=folder), "rb", buffering=0) as file:
        _check(os.fstat(file.fileno()))
        return file.read()


def _write(folder: int, name: str, content: bytes) -> None:
    new = f"{name}.{os.getpid()}.{os.urandom(4).hex()}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        with open(os.open(new, flags, 0o600, dir_fd=folder), "wb") as file:
            file.write(content)
        os.replace(new, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(new, dir_fd=folder)
        raise


def _make_directory(directory: Path) -> None:
    """Make a directory and its parents with mode 700, whatever the umask."""
    if not directory.is_dir():
        _make_directory(directory.parent)
        with contextlib.suppress(FileExistsError):
            os.mkdir(directory, 0o700)


def kept(cache: DiskCache | None, key: str, make: Callable[[], bytes]) -> bytes:
    """The content of `cache` under `key`, made and stored if it is missing; without a cache it is made."""
    if cache is None:
        return make()
    content = cache.get(key)
    if content is None:
        content = make()
        cache.put(key, content)
    return content


@cache
def package_digest() -> str:
    """A digest of the package's sources, which determine the object code of a text. Reading them takes
    about 2 ms, once in a process; sizes and times do not distinguish wheels that were built alike."""
    digest = hashlib.sha256()
    package = sys.modules[__name__.partition(".")[0]]
    for folder, inner, files in os.walk(package.__path__[0]):
        inner.sort()
        for name in sorted(files):
            if name.endswith(".py"):
                with open(os.path.join(folder, name), "rb", buffering=0) as file:
                    content = file.read()
                digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def default_cache() -> DiskCache | None:
    """The user's cache: in FINCH_CACHE_DIR, else in the XDG cache directory. None if FINCH_CACHE_DIR is
    set but empty, or there is no home directory."""
    chosen = os.environ.get("FINCH_CACHE_DIR")
    if chosen is not None:
        return _cache_in(Path(chosen)) if chosen else None
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:  # the XDG specification says to ignore relative paths
        folder = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    except RuntimeError:
        return None
    return _cache_in(folder / "finchlang")


#: one object for each directory, so that it need not be scanned again for each kernel
_cache_in = cache(DiskCache)


# ---------------------------------------------------------------------------------- records as data

#: values that are written otherwise than records, by a name: their class, how they are written, and read
Others = Mapping[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]]
_ATOMS = frozenset((bool, int, float, str, type(None)))
#: errors that mean a miss
_DAMAGED = ValueError, TypeError, LookupError, AttributeError, RecursionError, FinchError


@cache
def _fields(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


class Coding:
    """Records of `kinds` as data for JSON and back: each is a dictionary from its name to its parts. A span
    has the number of its text among `sources`, so that one read from disk is in the text of this run."""

    def __init__(self, kinds: Mapping[str, Any], others: Others, sources: list[Source]):
        self.kinds, self.others, self.sources = kinds, others, sources

    def takes(self, kind: Any) -> bool:
        """Whether records of a class are written."""
        return self.kinds.get(kind.__name__) is kind

    def plain(self, thing: Any) -> Any:
        """The data for a record. Raises TypeError for another class in it, ValueError for another span."""
        kind: Any = type(thing)
        if kind in _ATOMS:
            return thing
        if kind is tuple or kind is list:
            return [self.plain(part) for part in thing]
        if kind is dict:
            return {"dict": {name: self.plain(part) for name, part in thing.items()}}
        if kind is frozenset:
            return {"set": sorted(thing)}
        if kind is Span:
            ends = thing.line, thing.column, thing.end_line, thing.end_column
            return {"Span": [self.sources.index(thing.source), *ends]}
        if isinstance(thing, str):  # a token of Lark's
            return str(thing)
        for name, (other, written, _) in self.others.items():
            if isinstance(thing, other):
                return {name: written(thing)}
        if not self.takes(kind):
            raise TypeError(f"a {kind.__name__} is not kept")
        return {kind.__name__: [self.plain(getattr(thing, name)) for name in _fields(kind)]}

    def whole(self, data: Any) -> Any:
        """The inverse of `plain`. Raises one of many errors for other data."""
        if type(data) is list:
            return tuple([self.whole(part) for part in data])
        if type(data) is not dict:
            return data
        [(name, parts)] = data.items()
        match name:
            case "dict":
                return {key: self.whole(part) for key, part in parts.items()}
            case "set":
                return frozenset(parts)
            case "Span":
                return Span(self.sources[parts[0]], *parts[1:])
        if name in self.others:
            return self.others[name][2](parts)
        kind = self.kinds[name]
        return kind(**dict(zip(_fields(kind), map(self.whole, parts), strict=True)))

    def recall(self, cache: DiskCache, key: str) -> Any:
        """The record that is kept under a key; None if there is none."""
        content = cache.get(key)
        with contextlib.suppress(*_DAMAGED):
            return None if content is None else self.whole(json.loads(content))
        return None

    def keep(self, cache: DiskCache, key: str, thing: Any) -> None:
        """Store a record, unless it would not be read as the same one."""
        with contextlib.suppress(*_DAMAGED):
            content = json.dumps(self.plain(thing))
            found = self.whole(json.loads(content))
            if found == thing and json.dumps(self.plain(found)) == content:
                cache.put(key, content.encode())
