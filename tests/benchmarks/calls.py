"""The kinds of call that a program is raced in: on the same objects as before, on others of the same
shapes in turn, and on objects that were never seen.

Objects differ, their memory does not: the processor's caches are as warm as for the peers. What a user
would have to do besides (bind the objects) is part of the time; making them is not. Tensors of ours stay
the same; arrays of NumPy and matrices of SciPy are what comes from outside.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Any

import numpy as np
import scipy.sparse as sp

from finchlang import Session

TURNS = 5


def calls(session: Session, program: str) -> dict[str, Any]:
    """The kinds of call of a program in a session, for `Meter.race`."""
    values = {name: session[name] for name in session.names()}
    foreign = {n: v for n, v in values.items() if isinstance(v, np.ndarray) or sp.issparse(v)}

    if not foreign:
        return {"same": lambda: session.run(program)}
    return {
        "same": _Same(session, program, foreign),
        "rotating": _Bound(session, program, lambda: _others(foreign), TURNS),
        "fresh": _Bound(session, program, lambda: _others(foreign)),
    }


class _Same:
    """Calls on what was called on last."""

    def __init__(self, session: Session, program: str, values: dict[str, Any]):
        self.session, self.program, self.values = session, program, values

    def prepare(self, count: int) -> list[Callable[[], Any]]:
        for name, value in self.values.items():
            self.session[name] = value
        run, program = self.session.run, self.program
        run(program)
        return [lambda: run(program)] * count


class _Bound:
    """Calls on objects that are bound before each: on so many in `turns`, or else made for it."""

    def __init__(
        self, session: Session, program: str, make: Callable[[], dict[str, Any]], turns: int = 0
    ):
        self.session, self.program, self.make = session, program, make
        self.turns = cycle([make() for _ in range(turns)]) if turns else None

    def prepare(self, count: int) -> list[Callable[[], None]]:
        turns = self.turns
        values = [next(turns) if turns else self.make() for _ in range(count)]
        return [self._call(given) for given in values]

    def _call(self, values: dict[str, Any]) -> Callable[[], None]:
        items, session, program = tuple(values.items()), self.session, self.program

        def call() -> None:
            for name, value in items:
                session[name] = value
            session.run(program)

        return call


def _others(foreign: dict[str, Any]) -> dict[str, Any]:
    """New objects over the same memory."""
    return {name: _other(value) for name, value in foreign.items()}


def _other(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.view()
    if not hasattr(value, "indptr"):
        return value.copy()
    parts = value.data.view(), value.indices.view(), value.indptr.view()
    other = type(value)(parts, shape=value.shape, copy=False)
    other.has_canonical_format = True  # which it is, and which is not for the call to find out
    return other
