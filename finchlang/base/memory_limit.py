"""How much memory there is, asked before much is used."""

from __future__ import annotations

import sys

#: of fewer bytes it is not asked whether they are there
LARGE = 1 << 26
#: where the system tells it, if it does (Linux)
PLACE = "/proc/meminfo"


def check_available(size: float) -> None:
    """Raises MemoryError for more bytes than the system has: it may promise them, and end the process when
    they are used."""
    if size >= LARGE and size > _available():
        raise MemoryError(f"no memory of {size} bytes")


def _available() -> int:
    """How many bytes the system can still give, if it tells."""
    try:
        with open(PLACE) as lines:
            found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    except OSError:
        found = []
    return int(found[0]) * 1024 if found else sys.maxsize
