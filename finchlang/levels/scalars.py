"""Scalars: tensors without dimensions, kept in a cell rather than in an array (Finch'25 3.3.3, Table 4).

The kind of a scalar tells the rules its structure: a sparse one may be equal to its fill, a short-circuit
one ends reductions early (`rules/base/early_exit.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from finchlang.host.construct import FALSE, TRUE, compare, const, op
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels.element import Valued
from finchlang.levels.level import READ, Fiber, Storage
from finchlang.levels.looplets import Choice, Switch
from finchlang.syntax.nodes import Access, Node, Value
from finchlang.syntax.types import Bool, Pair, PairType, Type


@dataclass(frozen=True)
class Scalar(Valued):
    """`Scalar(fill)`: one value of the fill's type; unlike a variable it may be reduced into."""

    counters: ClassVar[tuple[tuple[str, Type | None], ...]] = (("value", None),)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.element_type, PairType):  # a counter is one number, a pair takes two
            parts = tuple((n, getattr(self.element_type, n)) for n in Pair._fields)
            object.__setattr__(self, "counters", (*parts, *self.counters[1:]))

    def declare(self, host: Host, store: Storage) -> None:
        self._set(host, store, const(self.value.value, self.element_type))

    def assemble(self, host: Host, store: Storage, start: Expr, stop: Expr) -> None:
        pass

    def refill(self, host: Host, store: Storage, count: Expr, value: Expr) -> None:
        self._set(host, store, value)

    def read(self, host: Host, fiber: Fiber) -> Node:
        counters = fiber.store.counters
        if "value" in counters:
            return Value(host.get(counters["value"]))
        return Value(op("pair", *(host.get(counters[part]) for part in Pair._fields)))

    def write(self, host: Host, fiber: Fiber, value: Expr) -> None:
        self._set(host, fiber.store, value)
        fiber.mark(host)

    def _set(self, host: Host, store: Storage, value: Expr) -> None:
        if "value" in store.counters:
            host.set(store.counters["value"], value)
            return
        for part in Pair._fields:
            host.set(store.counters[part], op(part, value))

    def held(self, value: Any) -> list[Any]:
        """The counters for the value `value`."""
        return [*value] if isinstance(value, Pair) else [value]

    def value_of(self, counters: Sequence[Any]) -> Any:
        """The value that `counters` hold."""
        type = self.element_type
        return type.wrap(counters) if isinstance(type, PairType) else counters[0]

    def empty(self) -> dict[str, Any]:
        names = [name for name, _ in self.counters]
        return dict(zip(names, self.held(self.value.value), strict=True))


@dataclass(frozen=True)
class SparseScalar(Scalar):
    """`SparseScalar(fill)`: a scalar with a dirty bit; where that is not set its value is the fill."""

    counters = (("value", None), ("dirty", Bool))
    is_structured = True

    def declare(self, host: Host, store: Storage) -> None:
        Scalar.declare(self, host, store)
        host.set(store.counters["dirty"], FALSE)

    def refill(self, host: Host, store: Storage, count: Expr, value: Expr) -> None:
        Scalar.refill(self, host, store, count, value)
        fill = const(self.value.value, self.element_type)
        host.set(store.counters["dirty"], compare("ne", value, fill))

    def read(self, host: Host, fiber: Fiber) -> Node:
        value = Scalar.read(self, host, fiber)
        if fiber.mode != READ:
            return value
        read = self._one_of(host.get(fiber.store.counters["dirty"]), value)
        return Access(read, (), type=self.element_type, fills=(self.value,))

    def _one_of(self, dirty: Expr, value: Node) -> Node:
        return Switch(dirty, value, self.value)

    def write(self, host: Host, fiber: Fiber, value: Expr) -> None:
        Scalar.write(self, host, fiber, value)
        host.set(fiber.store.counters["dirty"], TRUE)

    def held(self, value: Any) -> list[Any]:
        return [*Scalar.held(self, value), bool(value != self.value.value)]


@dataclass(frozen=True)
class KeptScalar(SparseScalar):
    """A SparseScalar for a part of a statement that may have several: they are told apart together."""

    def __str__(self) -> str:
        return str(SparseScalar(self.value))

    def _one_of(self, dirty: Expr, value: Node) -> Node:
        return Choice(((dirty, value),), self.value, is_stored=True)


@dataclass(frozen=True)
class ShortCircuitScalar(Scalar):
    """`ShortCircuitScalar(fill)`: a loop that reduces into it ends at an annihilator of the operator."""

    is_short_circuit = True


@dataclass(frozen=True)
class SparseShortCircuitScalar(SparseScalar):
    """`SparseShortCircuitScalar(fill)`: a SparseScalar and a ShortCircuitScalar in one."""

    is_short_circuit = True


#: the scalars by name
_KINDS = (Scalar, SparseScalar, ShortCircuitScalar, SparseShortCircuitScalar)
SCALARS: dict[str, type[Scalar]] = {kind.__name__: kind for kind in _KINDS}
