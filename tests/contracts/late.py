"""A recording host that has the arms of branches and the bodies of loops derived after all that follows
them, as a host that performs may: rules and levels must not leave what these need to be changed."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

from finchlang.host import ir
from finchlang.host.recording import ResidualHost
from finchlang.host.rewrite import rewrite, substituted


class LateHost(ResidualHost):
    """Records no procedures; if `is_late` arms and bodies after all else, as it comes upon them."""

    def __init__(self, is_late: bool = True) -> None:
        super().__init__()
        self.is_late = is_late
        self._waiting: list[Callable[[], None]] = []
        self._values: list[tuple[ir.Expr, ir.Expr]] = []

    def _later(self, body: Callable[..., None]) -> Callable[..., None]:
        """Records where the statements of `body` will stand."""

        def mark(*args: Any) -> None:
            self.do(ir.Fail("later", str(len(self._waiting)), ()))
            self._waiting.append(partial(self.knowing, self.facts, partial(body, *args)))

        return mark if self.is_late else body

    def branch(
        self,
        condition: ir.Expr,
        then: Callable[[], None],
        otherwise: Callable[[], None] | None = None,
        is_rare: bool = False,
        variable: ir.Var | None = None,
    ) -> None:
        if not isinstance(condition, ir.Const):
            then, otherwise = self._later(then), otherwise and self._later(otherwise)
        super().branch(condition, then, otherwise, is_rare, variable)

    def loop(
        self, condition: Callable[[], ir.Expr], body: Callable[[], None], is_endless: bool = False
    ) -> None:
        super().loop(condition, self._later(body), is_endless)

    def count(
        self, start: ir.Expr, stop: ir.Expr, body: Callable[[ir.Expr], None], name: str = "i"
    ) -> None:
        super().count(start, stop, self._later(body), name)

    def share(
        self,
        key: Hashable,
        values: tuple[ir.Expr, ...],
        cells: tuple[ir.Cell, ...],
        body: Callable[[tuple[ir.Expr, ...], tuple[ir.Cell, ...]], None],
    ) -> None:
        own = tuple([ir.Var(self.fresh("p"), value.type) for value in values])
        self._values += zip(own, values, strict=True)
        self.knowing({}, partial(body, own, cells))

    def code(self) -> ir.Code:
        recorded: list[ir.Code] = []
        for body in self._waiting:  # which grows
            recorded.append(self._record(body))

        def place(statement: ir.Stmt) -> tuple[ir.Stmt, ...]:
            if isinstance(statement, ir.Fail) and statement.kind == "later":
                return rewrite(recorded[int(statement.message)], place).statements
            return (statement,)

        code = rewrite(super().code(), place)
        for variable, value in reversed(self._values):
            code = substituted(code, {variable: value})
        return code
