"""Hosts for questions about looplets, whose functions are called to see what they give."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from finchlang.host.interface import Host
from finchlang.host.ir import Expr, written
from finchlang.host.recording import ResidualHost


def plain(expr: Expr) -> str:
    """An expression as text, without parentheses around it."""
    return written(expr, str)


#: the hosts that look now; the last one is asked
_looking: list[Host] = []


class Shielded:
    """A host for rules that tell a tracer of their steps. It does nothing while looplets are looked at:
    functions of looplets may have kept the host that they were made with, and then reach the one that
    looks."""

    def __init__(self, host: Host):
        self.__dict__["_host"] = host

    def __getattr__(self, name: str) -> Any:
        return getattr(_looking[-1] if _looking else self._host, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._host, name, value)


@contextmanager
def looking(host: Host) -> Iterator[Host]:
    """A host that looks; meanwhile all Shielded hosts refer to it."""
    _looking.append(host)
    try:
        yield host
    finally:
        _looking.pop()


def scratch() -> Host:
    """A new host whose code is dropped. A rule asks here which looplet a thunk leads to: the answer is the
    same for every host, and the rule's own host must not record the question."""
    return ResidualHost()
