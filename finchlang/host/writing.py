"""The host that procedures of the native library, and passes, write code with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from finchlang.host import construct as code, ir
from finchlang.host.recording import ResidualHost
from finchlang.syntax.types import Int64


class WritingHost(ResidualHost):
    """A recording host whose branches and loops are `with` statements, so that code is read in the order in
    which it runs."""

    def inputs(self, *names: str) -> list[ir.Var]:
        """New variables (Int64) that are bound from outside."""
        return [self.variable(name, Int64) for name in names]

    @contextmanager
    def when(self, condition: ir.Expr) -> Iterator[None]:
        """What is recorded here runs if `condition` holds."""
        with self._recorded() as then:
            yield
        self.do(ir.Branch(condition, ir.Code(tuple(then))))

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """What is recorded here runs if the condition of the `when` just before does not hold."""
        branch = self._blocks[-1].pop()
        assert isinstance(branch, ir.Branch)
        with self._recorded() as statements:
            yield
        self.do(replace(branch, otherwise=ir.Code(tuple(statements))))

    @contextmanager
    def repeat(self, condition: Callable[[], ir.Expr]) -> Iterator[None]:
        """What is recorded here runs as long as `condition` holds."""
        with self._recorded() as test:
            holds = condition()
        with self._recorded() as body:
            yield
        self.do(ir.WhileLoop(ir.Code(tuple(test)), holds, ir.Code(tuple(body))))

    @contextmanager
    def each(self, start: ir.Expr, stop: ir.Expr, name: str = "i") -> Iterator[ir.Expr]:
        """What is recorded here runs for each integer from `start` to `stop`, both included."""
        variable = self.variable(name, Int64, lower=start, upper=stop)
        with self._recorded() as body:
            yield variable
        self.do(ir.ForLoop(variable, start, stop, ir.Code(tuple(body))))

    def update(self, cell: ir.Cell, name: str, value: ir.Expr | int) -> None:
        """`cell` = the operation `name` on its content and `value`."""
        new = value if isinstance(value, ir.Expr) else code.const(value)
        self.set(cell, code.op(name, self.get(cell), code.cast(new, cell.type)))
