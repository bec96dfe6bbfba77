"""What stands in rooms above and is found by its name when it is first called: the face, the only module
that imports by name, says where."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any


def load(name: str) -> Callable[..., Any]:
    """The function of a name; the face, which imports this, puts its own here."""
    raise ImportError(name)


@cache
def late(name: str) -> Callable[..., Any]:
    """A function of a room above."""
    return load(name)
