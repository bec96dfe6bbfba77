"""Packed matrices, levels of two modes that store one half of a square: UpperTriangular,
LowerTriangular, Symmetric (Looplets'23 Fig 3a, c; the layouts are those of LAPACK)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from finchlang.host.build import ZERO, add, compare, maximum, minimum, mul, op, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Const, Expr
from finchlang.looplets import Lookup, Phase, Run, Sequence, Switch
from finchlang.source import FinchError
from finchlang.syntax import Access, Call, Literal, Node, Variable
from finchlang.tensors.level import READ, UPDATE, Fiber, Level, Store, TensorLike
from finchlang.tensors.pattern import reject_pattern
from finchlang.types import Type


@dataclass(frozen=True)
class Packed(Level):
    """The stored half of an n x n matrix, column after column: n (n + 1) / 2 positions in the child
    for each fiber. Freezing and thawing do nothing of their own.

    Written in any order, in the stored half: an assignment elsewhere is an access-order error at run
    time, unless it is known beforehand not to happen (`if i <= j`). Raises FinchError "dimension"
    for a matrix that is not square.
    """

    lvl: Level

    stores_fill: ClassVar[bool] = True
    protocols: ClassVar[tuple[str, ...]] = ("walk", "follow")

    def __post_init__(self) -> None:
        reject_pattern(self)

    @property
    def modes(self) -> int:
        return 2

    # ------------------------------------------------------------------ what subclasses say

    def column_start(self, j: Any, n: Any) -> Any:
        """What is added to i for the position of (i, j), both from 0; of Exprs or of arrays."""
        raise NotImplementedError

    def is_stored(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Whether (i, j) is in the stored half."""
        raise NotImplementedError

    def column(self, host: Host, column: Column, size: Expr) -> Node:
        """The looplets of a column."""
        raise NotImplementedError

    # ------------------------------------------------------------------ the life cycle

    def declare(self, host: Host, store: Store, dims: tuple[Expr, ...]) -> None:
        rows, columns = dims[-2:]
        square = compare("eq", rows, columns)
        message = f"{type(self).__name__} is square, not {{}} x {{}}"
        if not (isinstance(square, Const) and square.value):
            host.branch(
                square, lambda: None, lambda: host.fail("dimension", message, (rows, columns))
            )
        self.lvl.declare(host, store.child, dims[:-2])

    def assemble(
        self, host: Host, store: Store, dims: tuple[Expr, ...], start: Expr, stop: Expr
    ) -> None:
        area = _area(dims[-1])
        first = host.let(mul(start, area), "first")
        last = host.let(sub(mul(add(stop, 1), area), 1), "last")
        self.lvl.assemble(host, store.child, dims[:-2], first, last)

    def freeze(self, host: Host, store: Store, dims: tuple[Expr, ...], count: Expr) -> None:
        self.lvl.freeze(host, store.child, dims[:-2], host.let(mul(count, _area(dims[-1])), "count"))

    def thaw(self, host: Host, store: Store, dims: tuple[Expr, ...], count: Expr) -> None:
        self.lvl.thaw(host, store.child, dims[:-2], host.let(mul(count, _area(dims[-1])), "count"))

    def unfurl(self, host: Host, fiber: Fiber, stop: Expr, mode: str, protocol: str | None) -> Node:
        return Lookup(lambda host, j: Column(fiber, j))

    # ------------------------------------------------------------------ storage as arrays

    def select(self, coordinates: np.ndarray, values: np.ndarray) -> np.ndarray:
        i, j = coordinates[-2:]
        stored = self.is_stored(i, j)
        fill = self.fill.value
        rest = ~stored & (values != fill) & ~((values != values) & (fill != fill))
        self.check_rest(coordinates, values, stored, rest)
        return stored

    def check_rest(
        self, coordinates: np.ndarray, values: np.ndarray, stored: np.ndarray, rest: np.ndarray
    ) -> None:
        """Raises FinchError "access order" if the entries `rest`, which are not in the stored half
        and not fill, are not what is read there."""
        if rest.any():
            i, j = coordinates[-2:, rest][:, 0] + 1
            message = f"{type(self).__name__} has no place for an entry at ({i}, {j})"
            raise FinchError("access order", message)

    def _square(self, size: Any) -> int:
        rows, columns = size
        if rows != columns:
            message = f"{type(self).__name__} is square, not {rows} x {columns}"
            raise FinchError("dimension", message)
        return columns

    def pack(
        self, positions: np.ndarray, coordinates: np.ndarray, count: int, size: Any
    ) -> tuple[dict[str, Any], np.ndarray, int]:
        n = self._square(size)
        i, j = coordinates
        return {}, positions * (n * (n + 1) // 2) + self.column_start(j, n) + i, count * (
            n * (n + 1) // 2
        )

    def unpack(
        self, storage: dict[str, Any], positions: np.ndarray, size: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        n = self._square(size)
        j, i = np.divmod(np.arange(n * n), max(n, 1))
        inside = self.is_stored(i, j)
        i, j = i[inside], j[inside]
        which = np.repeat(np.arange(len(positions)), len(i))
        places = np.tile(self.column_start(j, n) + i, len(positions))
        rows = np.array([np.tile(i, len(positions)), np.tile(j, len(positions))])
        return which, rows, positions[which] * (n * (n + 1) // 2) + places

    def child_count(self, storage: dict[str, Any], count: int, size: Any) -> int:
        n = size[1]
        return count * (n * (n + 1) // 2)

    def used(self, storage: dict[str, Any], count: int, size: Any) -> dict[str, int]:
        return {}

    def validate(self, storage: dict[str, Any], count: int, size: Any) -> str | None:
        rows, columns = size
        return None if rows == columns else f"it must be square, not {rows} x {columns}"


def _half(product: Any) -> Any:
    """Half of an even number, an Expr or an array."""
    return op("idiv", product, 2) if isinstance(product, Expr) else product // 2


def _area(n: Expr) -> Expr:
    return _half(mul(n, add(n, 1)))


@dataclass(frozen=True, slots=True)
class Column(TensorLike):
    """Column `j` (from 1) of a packed matrix."""

    fiber: Fiber
    j: Expr

    def __str__(self) -> str:
        return f"{self.fiber}[:, {self.j}]"

    def sizes(self) -> tuple[Expr | None, ...]:
        return self.fiber.dims[:-1]

    def fill_value(self) -> Literal | None:
        return self.fiber.level.fill

    def unfurl(self, host: Host, stop: Expr | None, mode: str, protocol: str | None) -> Node:
        size = self.fiber.dims[-2] if stop is None else stop
        return self.level.column(host, self, size, protocol)

    @property
    def level(self) -> Packed:
        level = self.fiber.level
        assert isinstance(level, Packed)
        return level

    def start(self, j: Expr) -> Expr:
        """What is added to i (from 1) for the position of (i, j)."""
        n = self.fiber.dims[-1]
        first = mul(self.fiber.position, _area(n))
        return sub(add(first, self.level.column_start(sub(j, 1), n)), 1)

    def stored(self, host: Host) -> Lookup:
        """The part of the column that is stored."""
        start = host.let(self.start(self.j), "start")
        return Lookup(lambda host, i: self.fiber.child(add(start, i), self.fiber.dirty))

    def outside(self) -> Node:
        """The part that is not: fill to read, and nothing to be written."""
        fill = self.fiber.level.fill
        if self.fiber.mode == READ:
            return Run(fill)
        store = Store(Refusal(fill, type(self.level).__name__), {}, {})
        dims = self.fiber.dims[:-2]
        return Lookup(lambda host, i: Refused(store, dims, mode=UPDATE, place=(i, self.j)))


@dataclass(frozen=True)
class UpperTriangular(Packed):
    """`UpperTriangular(lvl)`: (i, j) is stored if i <= j, at position j (j + 1) / 2 + i (from 0) of
    the child; below the diagonal there is fill."""

    def column_start(self, j: Any, n: Any) -> Any:
        return _half(j * (j + 1)) if isinstance(j, np.ndarray) else _half(mul(j, add(j, 1)))

    def is_stored(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        return i <= j

    def column(self, host: Host, column: Column, size: Expr) -> Node:
        return Sequence((Phase(column.stored(host), stop=column.j), Phase(column.outside())))
