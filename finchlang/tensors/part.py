"""A part of a fiber: what levels of several modes give for one coordinate of the last."""

from __future__ import annotations

from dataclasses import dataclass

from finchlang.syntax import Literal
from finchlang.tensors.level import Fiber, TensorLike


@dataclass(frozen=True, slots=True)
class PartOfFiber(TensorLike):
    """What is left of a fiber of several modes where some of them are known."""

    fiber: Fiber

    @property
    def mode(self) -> str:
        return self.fiber.mode

    def fill_value(self) -> Literal | None:
        return self.fiber.level.fill
