"""Functions of rooms above, imported by name when first called, by a loader that `finchlang/__init__.py`
puts here: no other module imports by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any


def load(name: str) -> Callable[..., Any]:
    """The function of this name; `finchlang/__init__.py`, which imports this, puts its own loader here."""
    raise ImportError(name)


@cache
def late(name: str) -> Callable[..., Any]:
    return load(name)
