"""The Element leaf: an array of values, one for each position (Finch'25 Table 4)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from finchlang.base.aligned_memory import full_aligned
from finchlang.base.errors import FinchError
from finchlang.host.construct import ZERO, add, compare, const, op
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels import layout as lay
from finchlang.levels.level import ByName, Fiber, Level, Storage
from finchlang.syntax import nodes as ast, types


def typed_literal(value: Any, type: types.Type | None = None) -> ast.Literal:
    """A literal with its type, converted to `type` if that is given. Raises FinchError "type" for a value
    that is no number, or that `type` cannot hold."""
    if isinstance(value, ast.Literal):
        type, value = type or (types.TYPES[value.type] if value.type else None), value.value
    own = types.type_of_value(types.paired(value))
    if own is None:
        message = f"a fill value must be a number or a Bool, not {types.foreign(value)}"
        raise FinchError("type", message)
    found = type or own
    are_numbers = not isinstance(own, types.PairType) and not isinstance(found, types.PairType)
    is_same = are_numbers and math.isfinite(value) and found.wrap(value) == value
    if not (is_same or types.can_store(own, found)):
        raise FinchError("type", f"{value} of type {own} cannot be kept as {found}")
    return ast.Literal(found.wrap(value), found.name)


def literal_text(literal: ast.Literal) -> str:
    """A typed literal as it is written in a format."""
    type = types.TYPES[literal.type or types.Int64.name]
    if isinstance(type, types.PairType):
        parts = zip(literal.value, (type.first.name, type.second.name), strict=True)
        return " => ".join(literal_text(ast.Literal(v, t)) for v, t in parts)
    if type == types.Bool:
        return "true" if literal.value else "false"
    text = repr(literal.value).replace("inf", "Inf").replace("nan", "NaN")
    return text if type in (types.Int64, types.Float64) else f"{type}({text})"


def differs(a: np.ndarray, b: Any) -> np.ndarray:
    """A mask of the values that differ from `b`, a value or an array; NaN equals NaN. Raises FinchError
    "type" if one is of pairs and the other of numbers."""
    pair = types.type_of_value(b)
    other = np.array(b, pair.dtype) if isinstance(pair, types.PairType) else b
    if bool(a.dtype.names) != bool(np.asarray(other).dtype.names):
        raise FinchError("type", "a pair is no number")
    return (a != other) & ~((a != a) & (other != other))


def same_value(a: Expr, b: Expr) -> Expr:
    """Whether a level that merges takes two values for equal: NaN equals NaN, and both zeros are equal,
    as arithmetic does not keep their sign (`nsz`)."""
    if isinstance(a.type, types.PairType):
        return op("and", *(same_value(op(part, a), op(part, b)) for part in types.Pair._fields))
    equal = compare("eq", a, b)
    return op("or", equal, op("and", op("isnan", a), op("isnan", b))) if a.type.is_float else equal


@dataclass(frozen=True)
class Valued(Level):
    """A leaf whose values are of the fill's type."""

    is_leaf = True
    value: ast.Literal

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", typed_literal(self.value))

    def __str__(self) -> str:
        return f"{type(self).__name__}({literal_text(self.value)})"

    @property
    def fill(self) -> ast.Literal:
        return self.value

    @property
    def element_type(self) -> types.Type:
        return types.TYPES[self.value.type or ""]


@dataclass(frozen=True)
class Element(Valued):
    """`Element(fill)`: values of the fill's type, all equal to it at first."""

    layout = (lay.Each("val"),)

    def assemble(self, host: Host, store: Storage, start: Expr, stop: Expr) -> None:
        host.grow(store.val, add(stop, 1))
        # an append makes one entry: a store, and no loop
        if start is stop:
            host.store(store.val, start, const(self.value.value, self.element_type))
        else:
            host.fill(store.val, start, add(stop, 1), const(self.value.value, self.element_type))

    def refill(self, host: Host, store: Storage, count: Expr, value: Expr) -> None:
        host.fill(store.val, ZERO, count, value)

    def equal(self, host: Host, store: Storage, p: Expr, q: Expr) -> Expr:
        return same_value(host.load(store.val, p, "val"), host.load(store.val, q, "val"))

    def read(self, host: Host, fiber: Fiber) -> ast.Node:
        return ast.Value(host.load(fiber.store.val, fiber.position, "val"))

    def write(self, host: Host, fiber: Fiber, value: Expr) -> None:
        host.store(fiber.store.val, fiber.position, value)
        fiber.mark(host)

    def pack_values(self, values: np.ndarray, positions: np.ndarray, count: int) -> dict[str, Any]:
        array = full_aligned(count, self.value.value, self.element_type.dtype)
        array[positions] = values
        return {"val": array}

    def unpack_values(self, storage: ByName, positions: np.ndarray) -> np.ndarray:
        return storage["val"][positions]
