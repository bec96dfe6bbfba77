"""Hosts for code whose reads of memory are not to be made each time: where a condition holds, or once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from finchlang.host.construct import TRUE, const
from finchlang.host.inspecting import scratch
from finchlang.host.interface import Host
from finchlang.host.ir import Buffer, Cell, Expr
from finchlang.syntax.types import Type


class _Reading:
    """A host on which `value(n, read, otherwise, name, lower, upper)` gives the n-th value that code reads:
    `read` is the read itself, `otherwise` what stands for a value that is not read. With `is_kept_only`,
    nothing else that the code makes is of use."""

    def __init__(self, host: Host, value: Callable[..., Expr], is_kept_only: bool = False):
        self._host, self._value, self._count = host, value, -1
        self._is_kept_only = is_kept_only

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    def let(
        self, expr: Expr, name: str = "t", lower: Expr | None = None, upper: Expr | None = None
    ) -> Expr:
        return expr if self._is_kept_only else self._host.let(expr, name, lower, upper)

    def load(
        self,
        buffer: Buffer,
        index: Expr,
        name: str = "v",
        type: Type | None = None,
        lower: Expr | None = None,
        upper: Expr | None = None,
    ) -> Expr:
        self._count += 1
        read = partial(self._host.load, buffer, index, name, type, lower, upper)
        nothing = const(0, type or buffer.type)
        return self._value(self._count, read, nothing, name, lower, upper)

    def search(self, buffer: Buffer, start: Expr, stop: Expr, key: Expr, name: str = "q") -> Expr:
        self._count += 1
        read = partial(self._host.search, buffer, start, stop, key, name)
        return self._value(self._count, read, stop, name, None, None)


def guarded(host: Host, condition: Expr) -> Any:
    """A host for code that is run everywhere, but whose results matter only where `condition` holds: it
    reads memory there alone. Elsewhere a load gives zero, and a search finds nothing; searches are guarded,
    too, since their range may follow from such a zero and be out of bounds."""

    def value(
        _: int, read: Callable[[], Expr], otherwise: Expr, name: str, *facts: Expr | None
    ) -> Expr:
        cell = host.cell(otherwise, name)
        host.branch(condition, lambda: host.set(cell, read()))
        return host.get(cell, *facts)

    return host if condition is TRUE else _Reading(host, value)


class Kept:
    """What `code` reads from memory, in a cell for each read, so that it can be run again without reading.
    It must read the same number of times in each run."""

    def __init__(self, host: Host, code: Callable[[Host], object]):
        self.cells: list[Cell] = []

        def note(
            _: int, read: Callable[[], Expr], otherwise: Expr, name: str, *facts: Expr | None
        ) -> Expr:
            value = read()
            self.cells.append(host.cell(const(0, value.type), name))
            return value

        look: Any = _Reading(scratch(), note)
        code(look)

    def reading(self, host: Host) -> Any:
        """A host that reads, and keeps what it has read."""

        def keep(number: int, read: Callable[[], Expr], *facts: object) -> Expr:
            value = read()
            host.set(self.cells[number], value)
            return value

        return _Reading(host, keep, is_kept_only=True)

    def again(self, host: Host) -> Any:
        """A host on which code finds what was read last."""

        def kept(
            number: int, read: object, otherwise: Expr, name: str, *facts: Expr | None
        ) -> Expr:
            return host.get(self.cells[number], *facts)

        return _Reading(host, kept)
