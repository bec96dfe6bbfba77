"""Packed matrices, levels of two modes that store one half of a square: UpperTriangular,
LowerTriangular, Symmetric (Looplets'23 Fig 3a, c; the layouts are those of LAPACK)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from finchlang.base.errors import Bug, FinchError
from finchlang.base.records import record
from finchlang.host.construct import add, compare, mul, op, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels import layout as lay
from finchlang.levels.element import differs
from finchlang.levels.level import READ, ByName, Fiber, Found, Given, Level, Sizes, Storage, Within
from finchlang.levels.looplets import Lookup, Phase, Run, Sequence, at_point
from finchlang.levels.numpy_layout import ranges
from finchlang.levels.write_refused import refused
from finchlang.syntax.nodes import Access, Node, call


class HalfSquare(lay.Grid):
    """Each item becomes the items of one half of a square, with its diagonal."""

    def cells(self, sizes: Any) -> Any:
        n = sizes[-1]
        return _half(mul(n, add(n, 1)) if isinstance(n, Expr) else n * (n + 1))


@dataclass(frozen=True)
class Packed(Level):
    """One half of an n x n matrix, column after column: n (n + 1) / 2 positions of the child a fiber.

    An assignment to the other half is an access-order error at run time, unless a condition excludes it
    beforehand (`if i <= j`). Raises FinchError "dimension" for a matrix that is not square.
    """

    lvl: Level

    layout = (HalfSquare(),)
    stores_fill = True
    holds_any = False

    @property
    def modes(self) -> int:
        return 2

    def column_start(self, j: Any, n: Any) -> Any:
        """The position of (i, j) is i plus this, all from 0; of Exprs or of arrays."""
        raise Bug(f"{type(self).__name__} leaves this out")

    def is_stored(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Whether (i, j) is in the stored half."""
        raise Bug(f"{type(self).__name__} leaves this out")

    def column(self, host: Host, column: Column) -> Node:
        """The looplets of a column."""
        raise Bug(f"{type(self).__name__} leaves this out")

    def declare(self, host: Host, store: Storage) -> None:
        rows, columns = store.sizes
        message = f"{type(self).__name__} is square, not {{}} x {{}}"
        differ = compare("ne", rows, columns)
        host.branch(differ, lambda: host.fail("dimension", message, (rows, columns)))
        super().declare(host, store)

    def unfurl(self, host: Host, fiber: Fiber, stop: Expr, protocol: str | None) -> Node:
        return Lookup(lambda host, j: Column(fiber, j))

    def select(self, coordinates: np.ndarray, values: np.ndarray, mode: int) -> np.ndarray:
        stored = self.is_stored(coordinates[mode - 2], coordinates[mode - 1])
        self.check_rest(coordinates, values, mode, ~stored & differs(values, self.fill.value))
        return stored

    def check_rest(
        self, coordinates: np.ndarray, values: np.ndarray, mode: int, rest: np.ndarray
    ) -> None:
        """Raises FinchError "access order" for the entries `rest`, which are outside of the stored half
        and not fill, if the level cannot represent them."""
        if rest.any():
            i, j = coordinates[mode - 2 : mode, rest][:, 0] + 1
            message = f"{type(self).__name__} has no place for an entry at ({i}, {j})"
            raise FinchError("access order", message)

    def _square(self, sizes: Sizes) -> int:
        rows, columns = sizes
        if rows != columns:
            message = f"{type(self).__name__} is square, not {rows} x {columns}"
            raise FinchError("dimension", message)
        return columns

    def pack(self, given: Given) -> tuple[ByName, np.ndarray, Any]:
        n, (i, j) = self._square(given.sizes), given.coordinates
        at = given.positions * _half(n * (n + 1)) + self.column_start(j, n) + i
        return {}, at, slice(None)

    def unpack(
        self, storage: ByName, positions: np.ndarray, sizes: Sizes, kept: np.ndarray | None = None
    ) -> Found:
        n = self._square(sizes)
        cells = np.indices((n, n)).reshape(2, -1)
        i, j = cells[:, self.is_stored(*cells)]
        which, nth = ranges(np.full(len(positions), len(i)))
        children = positions[which] * _half(n * (n + 1)) + (self.column_start(j, n) + i)[nth]
        return which, np.array([i[nth], j[nth]]), children

    def problem(self, storage: ByName, count: int, sizes: Sizes) -> str | None:
        rows, columns = sizes
        return None if rows == columns else f"it must be square, not {rows} x {columns}"


def _half(product: Any) -> Any:
    """Half of an even number: of an Expr, an array or an integer."""
    return op("idiv", product, 2) if isinstance(product, Expr) else product // 2


@record(slots=True)
class Column(Within):
    """Column `j` (from 1) of a packed matrix."""

    j: Expr

    def __str__(self) -> str:
        return f"{self.body}[:, {self.j}]"

    def sizes(self) -> tuple[Expr | None, ...]:
        return self.body.dims[:-1]

    def unfurl(self, host: Host, stop: Expr | None, protocol: str | None) -> Node:
        column = self.level.column(host, self)
        is_followed = protocol == "follow" and self.mode == READ
        return Lookup(lambda host, i: at_point(host, column, i)) if is_followed else column

    def start(self, j: Expr) -> Expr:
        """The position of (i, j) is i (from 1) plus this."""
        n = self.body.dims[-1]
        first = mul(self.body.position, HalfSquare().cells((n,)))
        return sub(add(first, self.level.column_start(sub(j, 1), n)), 1)

    def stored(self, host: Host) -> Lookup:
        start = host.let(self.start(self.j), "start")
        return Lookup(lambda host, i: self.body.child(add(start, i), self.body.dirty))

    def outside(self) -> Node:
        """The part of the column that is not stored: it reads as fill and cannot be written."""
        if self.body.mode == READ:
            return Run(self.body.level.fill)
        half = "i <= j" if isinstance(self.level, UpperTriangular) else "i >= j"
        name = type(self.level).__name__
        message = f"{name} has no place to write ({{}}, {{}}), but under `if {half}`"
        return Lookup(lambda host, i: refused(self.body, message, (i, self.j)))


@dataclass(frozen=True)
class UpperTriangular(Packed):
    """`UpperTriangular(lvl)`: (i, j) is stored if i <= j, at position j (j + 1) / 2 + i of the child
    (all from 0); below the diagonal there is fill."""

    def column_start(self, j: Any, n: Any) -> Any:
        return _half(j * (j + 1)) if isinstance(j, np.ndarray) else _half(mul(j, add(j, 1)))

    def is_stored(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        return i <= j

    def column(self, host: Host, column: Column) -> Node:
        return Sequence((Phase(column.stored(host), stop=column.j), Phase(column.outside())))


@dataclass(frozen=True)
class LowerTriangular(Packed):
    """`LowerTriangular(lvl)`: (i, j) is stored if i >= j, at position j (2 n - j - 1) / 2 + i of the
    child (all from 0); above the diagonal there is fill."""

    def column_start(self, j: Any, n: Any) -> Any:
        if isinstance(j, np.ndarray):
            return _half(j * (2 * n - j - 1))
        return _half(mul(j, sub(sub(mul(n, 2), j), 1)))

    def is_stored(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        return i >= j

    def column(self, host: Host, column: Column) -> Node:
        before = Phase(column.outside(), stop=sub(column.j, 1))
        return Sequence((before, Phase(column.stored(host))))


@dataclass(frozen=True)
class Symmetric(UpperTriangular):
    """`Symmetric(lvl)`: as UpperTriangular, but (i, j) with i > j reads what is stored at (j, i)."""

    is_symmetric = True
    has_gaps = False

    def column(self, host: Host, column: Column) -> Node:
        if column.body.mode != READ:
            return UpperTriangular.column(self, host, column)

        child, j = column.body.child, column.j
        mirrored = Lookup(lambda host, i: child(add(column.start(i), j)))
        return Sequence((Phase(column.stored(host), stop=j), Phase(mirrored)))

    def unpack(
        self, storage: ByName, positions: np.ndarray, sizes: Sizes, kept: np.ndarray | None = None
    ) -> Found:
        which, rows, children = UpperTriangular.unpack(self, storage, positions, sizes)
        below = np.flatnonzero(rows[0] < rows[1])
        both = np.concatenate((np.arange(len(which)), below))
        return which[both], np.hstack((rows, rows[::-1, below])), children[both]

    def where_written(self, indices: tuple[Node, ...]) -> Node | None:
        return Access(call("UpTriMask"), indices)

    def check_rest(
        self, coordinates: np.ndarray, values: np.ndarray, mode: int, rest: np.ndarray
    ) -> None:
        """The entries below the diagonal must mirror those above it."""
        i, j = coordinates[mode - 2], coordinates[mode - 1]
        above = (i < j) & differs(values, self.fill.value)
        mirrored = coordinates.copy()
        mirrored[mode - 2], mirrored[mode - 1] = j, i
        halves = []
        for coords, half in ((coordinates, above), (mirrored, rest)):
            order = np.lexsort(coords[:, half])
            halves.append((coords[:, half][:, order], values[half][order]))
        (a, x), (b, y) = halves
        if a.shape != b.shape or np.any(a != b) or np.any(differs(x, y)):
            raise FinchError("access order", "Symmetric cannot hold what is not symmetric")
