"""Parts of a written tensor that may not be written, as an error at run time; they read as fill."""

from __future__ import annotations

from dataclasses import dataclass

from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels.level import UPDATE, Fiber, Level, Storage
from finchlang.levels.looplets import Run
from finchlang.syntax.nodes import Node


def refused(fiber: Fiber, message: str, values: tuple[Expr, ...]) -> Fiber:
    """A subfiber of `fiber` where a write fails with the access-order error `message`, filled in with
    `values`: when the assignment is run, as it may turn out to do nothing."""
    level = Refusal(fiber.level.leaf, message, values)
    return Fiber(Storage(level, {}, {}, dims=fiber.store.child.dims), mode=UPDATE)


@dataclass(frozen=True)
class Refusal(Level):
    """The level of a subtensor that may not be written, of any order. Writing false to a Pattern is no
    error, since it would store nothing."""

    leaf_level: Level
    message: str
    values: tuple[Expr, ...]
    is_leaf = True

    def __str__(self) -> str:
        return "Refusal()"

    @property
    def leaf(self) -> Level:
        return self.leaf_level

    def unfurl(self, host: Host, fiber: Fiber, stop: Expr, protocol: str | None) -> Node:
        return Run(fiber.with_dims(fiber.dims[:-1]))

    def read(self, host: Host, fiber: Fiber) -> Node:
        return self.fill

    def write(self, host: Host, fiber: Fiber, value: Expr) -> None:
        def fail() -> None:
            host.fail("access order", self.message, self.values)

        if self.leaf_level.is_pattern:
            host.branch(value, fail)
        else:
            fail()
