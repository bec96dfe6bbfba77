"""Hosts for code that may read memory only where a condition holds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from finchlang.host.construct import TRUE, const, op
from finchlang.host.interface import Body, Fact, Host
from finchlang.host.ir import Buffer, Expr
from finchlang.syntax.types import Type


class _Guarded:
    """A host for code that is run everywhere, but whose results matter only where `condition` holds: it
    reads memory there alone. Elsewhere a load gives zero, and a search finds nothing; searches are guarded,
    too, since their range may follow from such a zero and be out of bounds. Loops go on only where the
    condition holds: what they wait for may never be read."""

    def __init__(self, host: Host, condition: Expr):
        self._host, self._condition = host, condition

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    def loop(self, condition: Callable[[], Expr], body: Body, is_endless: bool = False) -> None:
        self._host.loop(lambda: op("and", self._condition, condition()), body, is_endless)

    def load(
        self, buffer: Buffer, index: Expr, name: str = "v", type: Type | None = None, **known: Fact
    ) -> Expr:
        value = partial(self._host.load, buffer, index, name, type, **known)
        otherwise = const(0, type or buffer.type)
        return self._host.only_if(self._condition, value, name, otherwise, None, **known)

    def search(self, buffer: Buffer, start: Expr, stop: Expr, key: Expr, name: str = "q") -> Expr:
        value = partial(self._host.search, buffer, start, stop, key, name)
        return self._host.only_if(self._condition, value, name, stop)


def guarded(host: Host, condition: Expr) -> Any:
    """A host for code whose results matter only where `condition` holds."""
    return host if condition is TRUE else _Guarded(host, condition)
