"""What stands in a written tensor where nothing may be written: reading is fill, writing an error."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels.level import UPDATE, Fiber, Level, Storage
from finchlang.levels.looplets import Run
from finchlang.levels.pattern import Pattern
from finchlang.syntax.nodes import Literal, Node
from finchlang.syntax.types import Type


def refused(fiber: Fiber, message: str, values: tuple[Expr, ...]) -> Fiber:
    """The subfibers of `fiber` as one where a write ends in the access-order error `message`, in
    which `values` are put: at the time an assignment is left to be done, not before."""
    level = fiber.level
    dims = fiber.dims[: len(fiber.dims) - level.modes]
    return Refused(Storage(Refusal(level.leaf, message), {}, {}), dims, mode=UPDATE, values=values)


@dataclass(frozen=True, slots=True)
class Refused(Fiber):
    """A subtensor nothing may be written to."""

    values: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class Refusal(Level):
    """The level of a Refused fiber of any order. What a false written to a Pattern would do is
    nothing at all, so that is no error."""

    leaf_level: Level
    message: str
    is_leaf: ClassVar[bool] = True

    def __str__(self) -> str:
        return "Refusal()"

    @property
    def fill(self) -> Literal:
        return self.leaf_level.fill

    @property
    def element_type(self) -> Type:
        return self.leaf_level.element_type

    def unfurl(self, host: Host, fiber: Fiber, stop: Expr, mode: str, protocol: str | None) -> Node:
        return Run(replace(fiber, dims=fiber.dims[:-1]))

    def read(self, host: Host, fiber: Fiber) -> Node:
        return self.fill

    def write(self, host: Host, fiber: Fiber, value: Expr) -> None:
        assert isinstance(fiber, Refused)
        values = fiber.values

        def fail() -> None:
            host.fail("access order", self.message, values)

        if isinstance(self.leaf_level, Pattern):
            host.branch(value, fail)
        else:
            fail()
