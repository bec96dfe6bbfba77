"""How much memory there is, asked before much is used."""

from __future__ import annotations

import mmap
import sys

from finchlang.base.errors import FinchError

#: of fewer bytes it is not asked whether they are there
LARGE = 1 << 26
#: where the system tells how much it can give, and how many pages this process has and was promised, if it
#: does (Linux)
PLACE, OWN = "/proc/meminfo", "/proc/self/statm"


class NoMemory(FinchError, MemoryError):
    """There is no memory for something: of kind resource."""


def check_available(size: float) -> None:
    """Raises NoMemory for more bytes than there are: the system may promise them, and end the process."""
    if size >= LARGE and size > _available():
        raise NoMemory("resource", f"no memory of {size} bytes")


def _available() -> int:
    """How many bytes the system can still give, if it tells, besides those that it has promised."""
    try:
        with open(PLACE) as lines, open(OWN) as numbers:
            found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
            _, resident, shared, _, _, promised, *_ = map(int, numbers.read().split())
    except OSError:
        return sys.maxsize
    untouched = (promised - resident + shared) * mmap.PAGESIZE
    return int(found[0]) * 1024 - untouched if found else sys.maxsize
