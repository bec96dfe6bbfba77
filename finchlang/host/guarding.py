"""A host that reads memory only where a condition holds."""

from __future__ import annotations

from typing import Any

from finchlang.host.construct import TRUE, const
from finchlang.host.interface import Host
from finchlang.host.ir import Buffer, Expr
from finchlang.syntax.types import Type


class _Guarded:
    """Reads memory only where `condition` holds; elsewhere a load gives zero, and a search finds nothing.
    Searches are guarded, too, since their range may follow from such a zero and be out of bounds."""

    def __init__(self, host: Host, condition: Expr):
        self._host, self._condition = host, condition

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    def load(
        self,
        buffer: Buffer,
        index: Expr,
        name: str = "v",
        type: Type | None = None,
        lower: Expr | None = None,
        upper: Expr | None = None,
    ) -> Expr:
        host = self._host
        cell = host.cell(const(0, type or buffer.type), name)

        def read() -> None:
            host.set(cell, host.load(buffer, index, name, type))

        host.branch(self._condition, read)
        return host.get(cell, lower, upper)

    def search(self, buffer: Buffer, start: Expr, stop: Expr, key: Expr, name: str = "q") -> Expr:
        host = self._host
        cell = host.cell(stop, name)
        host.branch(
            self._condition, lambda: host.set(cell, host.search(buffer, start, stop, key, name))
        )
        return host.get(cell)


def guarded(host: Host, condition: Expr) -> Any:
    """A host for code that is run everywhere, but whose results matter only where `condition` holds."""
    return host if condition is TRUE else _Guarded(host, condition)
