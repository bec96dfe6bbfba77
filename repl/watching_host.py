"""An executing host that keeps what statements of a residual program gave at first, for those who look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from finchlang.host import ir
from finchlang.host.executing import ExecutingHost

#: how many values of each are kept
FIRST = 8


class Enough(Exception):
    """As many steps were taken as are to be looked at."""


class WatchingHost(ExecutingHost):
    """`values` has the first values of what statements bind, set or store, and `times` how often each did,
    until `limit` of them were seen: then it raises Enough."""

    def __init__(self, limit: int):
        super().__init__()
        self.limit = limit
        self.values: dict[Any, list[Any]] = {}
        self.times: Counter[Any] = Counter()
        self.changed: set[ir.Buffer] = set()

    def of(self, about: Any) -> tuple[list[Any], int]:
        """The first values of a statement, or of the variable of a loop, and how many there were."""
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
            case ir.Bind() | ir.Load() | ir.Get() | ir.Search():
                self._see(statement.variable, statement.variable.held)
            case ir.Set(cell, value):
                self._see((cell, value), self.cells[cell])
            case ir.Store(buffer, index, value):
                self.changed.add(buffer)
                self._see((buffer, index, value), self.evaluate(value))
            case ir.Fill(buffer):
                self.changed.add(buffer)

    def count_by(
        self, variable: ir.Var, start: ir.Expr, stop: ir.Expr, body: Callable[[ir.Expr], None]
    ) -> None:
        def once(i: ir.Expr) -> None:
            self._see(variable, variable.held)
            body(i)

        super().count_by(variable, start, stop, once)
