"""A host that only looks: the functions of looplets are called with it while tracers show their results."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any

from finchlang.host.interface import Cells, Exprs, Fact, Host, Shared
from finchlang.host.ir import Buffer, Cell, Expr, Var, written
from finchlang.host.recording import ResidualHost
from finchlang.syntax.types import Int64, Type


def plain(expr: Expr) -> str:
    """An expression as text, without parentheses around it."""
    return written(expr, str)


class LookingHost(ResidualHost):
    """Runs the functions of looplets to see what they give. What they record is dropped, and what they read
    is shown in place, as `A_ptr[p]`."""

    def fresh(self, name: str) -> str:
        self._names[name] += 1
        return name + "'" * (self._names[name] - 1)

    def let(self, expr: Expr, name: str = "t", **known: Fact) -> Expr:
        return expr

    def load(
        self, buffer: Buffer, index: Expr, name: str = "v", type: Type | None = None, **known: Fact
    ) -> Expr:
        return Var(f"{buffer}[{plain(index)}]", type or buffer.type, **known)

    def get(self, cell: Cell, **known: Fact) -> Expr:
        return Var(cell.name, cell.type, **known)

    def search(self, buffer: Buffer, start: Expr, stop: Expr, key: Expr, name: str = "q") -> Var:
        return Var(f"search({buffer}, {plain(key)})", Int64, start, stop)

    def share(self, key: Hashable, values: Exprs, cells: Cells, body: Shared) -> None:
        body(values, cells)


#: the hosts that look now; the last one is asked
_looking: list[LookingHost] = []


class _Shielded:
    """A host that does nothing while looplets are looked at: functions of looplets may have kept the host
    that they were made with, and then reach the one that looks."""

    def __init__(self, host: Host):
        self.__dict__["_host"] = host

    def __getattr__(self, name: str) -> Any:
        return getattr(_looking[-1] if _looking else self._host, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._host, name, value)


def shielded(host: Host) -> Any:
    """A host for rules that tell a tracer of their steps."""
    return _Shielded(host)


@contextmanager
def looking() -> Iterator[Host]:
    """A host that looks; meanwhile all shielded hosts refer to it."""
    _looking.append(LookingHost())
    try:
        yield _looking[-1]
    finally:
        _looking.pop()


def scratch() -> Host:
    """A new host whose code is dropped. A rule asks here which looplet a thunk leads to: the answer is the
    same for every host, and the rule's own host must not record the question."""
    return ResidualHost()
