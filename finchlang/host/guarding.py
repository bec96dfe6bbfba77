"""Hosts for code whose reads of memory are not to be made each time: where a condition holds, or once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from finchlang.host.construct import TRUE, const, op
from finchlang.host.inspecting import scratch
from finchlang.host.interface import Body, Fact, Host
from finchlang.host.ir import Buffer, Cell, Expr
from finchlang.syntax.types import Type


class _Read(NamedTuple):
    """The `number`-th read of memory that code makes: `value` makes it, `otherwise` stands for a value that
    is not read."""

    number: int
    value: Callable[[], Expr]
    otherwise: Expr
    name: str
    known: dict[str, Fact]


class _Reading:
    """A host that gives code what `value` makes of its reads. With `is_kept_only` nothing else that the
    code makes is of use. Loops go on only where `when` holds: what they wait for may never be read."""

    def __init__(
        self,
        host: Host,
        value: Callable[[_Read], Expr],
        is_kept_only: bool = False,
        when: Expr = TRUE,
    ):
        self._host, self._value, self._count = host, value, 0
        self._is_kept_only, self._when = is_kept_only, when

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    def let(self, expr: Expr, name: str = "t", **known: Fact) -> Expr:
        return expr if self._is_kept_only else self._host.let(expr, name, **known)

    def loop(self, condition: Callable[[], Expr], body: Body, is_endless: bool = False) -> None:
        self._host.loop(lambda: op("and", self._when, condition()), body, is_endless)

    def load(
        self, buffer: Buffer, index: Expr, name: str = "v", type: Type | None = None, **known: Fact
    ) -> Expr:
        value = partial(self._host.load, buffer, index, name, type, **known)
        return self._read(value, const(0, type or buffer.type), name, known)

    def search(self, buffer: Buffer, start: Expr, stop: Expr, key: Expr, name: str = "q") -> Expr:
        value = partial(self._host.search, buffer, start, stop, key, name)
        return self._read(value, stop, name, {})

    def _read(
        self, value: Callable[[], Expr], otherwise: Expr, name: str, known: dict[str, Fact]
    ) -> Expr:
        self._count += 1
        return self._value(_Read(self._count - 1, value, otherwise, name, known))


def guarded(host: Host, condition: Expr) -> Any:
    """A host for code that is run everywhere, but whose results matter only where `condition` holds: it
    reads memory there alone. Elsewhere a load gives zero, and a search finds nothing; searches are guarded,
    too, since their range may follow from such a zero and be out of bounds."""

    def value(read: _Read) -> Expr:
        return host.only_if(condition, read.value, read.name, read.otherwise, **read.known)

    return host if condition is TRUE else _Reading(host, value, when=condition)


class Kept:
    """What `code` reads from memory, in a cell for each read, so that it can be run again without reading.
    It must read the same number of times in each run."""

    def __init__(self, host: Host, code: Callable[[Any], object]):
        self.cells: list[Cell] = []

        def note(read: _Read) -> Expr:
            value = read.value()
            self.cells.append(host.cell(const(0, value.type), read.name))
            return value

        code(_Reading(scratch(), note))

    def reading(self, host: Host) -> Any:
        """A host that reads, and keeps what it has read."""

        def keep(read: _Read) -> Expr:
            value = read.value()
            host.set(self.cells[read.number], value)
            return value

        return _Reading(host, keep, is_kept_only=True)

    def again(self, host: Host) -> Any:
        """A host on which code finds what was read last."""
        return _Reading(host, lambda read: host.get(self.cells[read.number], **read.known))
