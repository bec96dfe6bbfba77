"""Scalars: tensors without dimensions, kept in a cell rather than in an array (Finch'25 3.3.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from finchlang.host.build import TRUE, const
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.syntax import Literal, Node, Value
from finchlang.tensors.element import literal_text, typed_literal
from finchlang.tensors.level import Fiber, Level, Store
from finchlang.types import TYPES, Type


@dataclass(frozen=True)
class Scalar(Level):
    """`Scalar(fill)`: one value of the fill's type; unlike a variable it may be reduced into."""

    value: Literal

    counters: ClassVar = (("value", None),)
    is_leaf: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", typed_literal(self.value))

    def __str__(self) -> str:
        return f"Scalar({literal_text(self.value)})"

    @property
    def fill(self) -> Literal:
        return self.value

    @property
    def element_type(self) -> Type:
        return TYPES[self.value.type or ""]

    def declare(self, host: Host, store: Store, dims: tuple[Expr, ...]) -> None:
        host.set(store.counters["value"], const(self.value.value, self.element_type))

    def assemble(
        self, host: Host, store: Store, dims: tuple[Expr, ...], start: Expr, stop: Expr
    ) -> None:
        pass

    def refill(
        self, host: Host, store: Store, dims: tuple[Expr, ...], count: Expr, value: Expr
    ) -> None:
        host.set(store.counters["value"], value)

    def freeze(self, host: Host, store: Store, dims: tuple[Expr, ...], count: Expr) -> None:
        pass

    def thaw(self, host: Host, store: Store, dims: tuple[Expr, ...], count: Expr) -> None:
        pass

    def read(self, host: Host, fiber: Fiber) -> Node:
        return Value(host.get(fiber.store.counters["value"]))

    def write(self, host: Host, fiber: Fiber, value: Expr) -> None:
        host.set(fiber.store.counters["value"], value)
        if fiber.dirty is not None:
            host.set(fiber.dirty, TRUE)

    def empty(self) -> dict[str, Any]:
        return {"value": self.value.value}

    def used(self, storage: dict[str, Any], count: int, size: int) -> dict[str, int]:
        return {}
