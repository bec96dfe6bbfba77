"""The names that what is made from a program has in the cache on disk."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path

import llvmlite
import numpy as np

from finchlang.native.target import environment


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
