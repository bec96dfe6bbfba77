"""A host that only looks: what the functions of looplets give is asked of it while tracers show them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

from finchlang.host.interface import Host
from finchlang.host.ir import Buffer, Cell, Expr, Var, written
from finchlang.host.recording import ResidualHost
from finchlang.syntax.types import Int64, Type


def plain(expr: Expr) -> str:
    """An expression without parentheses around it."""
    return written(expr, str)


class LookingHost(ResidualHost):
    """Runs the functions of looplets to see what they give: nothing is kept of what they do, and what
    they read stands where it is used."""

    def fresh(self, name: str) -> str:
        self._names[name] += 1
        return name + "'" * (self._names[name] - 1)

    def let(
        self, expr: Expr, name: str = "t", lower: Expr | None = None, upper: Expr | None = None
    ) -> Expr:
        return expr

    def load(
        self,
        buffer: Buffer,
        index: Expr,
        name: str = "v",
        type: Type | None = None,
        lower: Expr | None = None,
        upper: Expr | None = None,
    ) -> Expr:
        return Var(f"{buffer}[{plain(index)}]", type or buffer.type, lower, upper)

    def get(self, cell: Cell, lower: Expr | None = None, upper: Expr | None = None) -> Expr:
        return Var(cell.name, cell.type, lower, upper)

    def search(self, buffer: Buffer, start: Expr, stop: Expr, key: Expr, name: str = "q") -> Var:
        return Var(f"search({buffer}, {plain(key)})", Int64, start, stop)

    def share(
        self,
        key: Hashable,
        values: tuple[Expr, ...],
        cells: tuple[Cell, ...],
        body: Callable[[tuple[Expr, ...], tuple[Cell, ...]], None],
    ) -> None:
        body(values, cells)


#: the hosts that look now, if any
_looking: list[LookingHost] = []


class _Shielded:
    """While looplets are looked at nothing is done on the host, also by those of their functions that
    have kept it from when they were made."""

    def __init__(self, host: Host):
        self._host = host

    def __getattr__(self, name: str) -> Any:
        return getattr(_looking[-1] if _looking else self._host, name)


def shielded(host: Host) -> Any:
    """A host for rules that tell of their steps."""
    return _Shielded(host)


@contextmanager
def looking() -> Iterator[Host]:
    """A host that looks, which also stands for all that are shielded."""
    _looking.append(LookingHost())
    try:
        yield _looking[-1]
    finally:
        _looking.pop()


def scratch() -> Host:
    """A new one. A rule that asks which looplet a thunk leads to, for which every host has the same
    answer, enters it here, and the rule's own host has nothing to do for it."""
    return ResidualHost()
