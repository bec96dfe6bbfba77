"""An executing host that keeps the first values of each statement of a residual program."""

from __future__ import annotations

from collections import Counter
from typing import Any

from finchlang.host import ir
from finchlang.host.executing import ExecutingHost

#: so many values of each statement are kept
FIRST = 8


class Enough(Exception):
    """Raised when the limit of values is reached."""


class WatchingHost(ExecutingHost):
    """An ExecutingHost that keeps the first values that each statement binds, sets or stores (`values`),
    and how often it did (`times`); `reads` has for each buffer the places that were loaded, in order. After
    `limit` values it raises Enough."""

    def __init__(self, limit: int):
        super().__init__()
        self.limit = limit
        self.values: dict[Any, list[Any]] = {}
        self.times: Counter[Any] = Counter()
        self.changed: set[ir.Buffer] = set()
        self.reads: dict[ir.Buffer, list[int]] = {}
        self.is_whole = False

    def of(self, about: Any) -> tuple[list[Any], int]:
        key: Any = getattr(about, "variable", about)
        if isinstance(about, ir.Set):
            key = about.cell, about.value
        elif isinstance(about, ir.Store):
            key = about.buffer, about.index, about.value
        return self.values.get(key, []), self.times[key]

    def _see(self, key: Any, value: Any) -> None:
        self.limit -= 1
        if self.limit < 0:
            raise Enough
        self.times[key] += 1
        seen = self.values.setdefault(key, [])
        if len(seen) < FIRST:
            seen.append(value)

    def do(self, statement: Any) -> None:
        super().do(statement)
        match statement:
            case ir.Load(variable, buffer, index):
                self.reads.setdefault(buffer, []).append(int(self.evaluate(index)))
                self._see(variable, variable.held)
            case ir.Bind() | ir.Get() | ir.Search():
                self._see(statement.variable, statement.variable.held)
            case ir.Set(cell, value):
                self._see((cell, value), self.cells[cell])
            case ir.Store(buffer, index, value):
                self.changed.add(buffer)
                self._see((buffer, index, value), self.evaluate(value))
            case ir.Fill(buffer):
                self.changed.add(buffer)

    def turn(self, variable: ir.Var, i: int) -> None:
        super().turn(variable, i)
        self._see(variable, i)
