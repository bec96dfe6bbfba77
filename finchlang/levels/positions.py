"""Iteration over frozen tensors by the positions of their storage: how many there are, and the
coordinates of each (Workspaces'24 section 6.2, `pos`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from finchlang.base.errors import Bug
from finchlang.host import construct as code, ir
from finchlang.host.interface import Host
from finchlang.levels import layout as lay
from finchlang.levels.level import Dims, Fiber, Level, Storage
from finchlang.syntax.types import Int64


@dataclass(frozen=True)
class _At:
    """All `count` fibers of one level of a tensor, with the sizes `dims`. The level is dense, or lists
    the coordinates that have an entry."""

    store: Storage
    dims: Dims
    count: ir.Expr

    @property
    def level(self) -> Level:
        return self.store.level

    def below(self, host: Host) -> ir.Expr:
        """The number of positions of the child."""
        return lay.positions(host, self.store, self.level.layout, self.dims, self.count)

    def coordinate(self, host: Host, mode: int, q: ir.Expr) -> ir.Expr:
        """The coordinate (from 1) in a mode of this level, counted from 0, of the child's position q."""
        if self.level.is_dense:
            return code.add(code.op("irem", q, self.dims[-1]), 1)
        array = lay.coordinates(self.store, self.level.layout)[mode]
        return code.add(host.load(array, q, "i", Int64, lower=code.ZERO), 1)

    def fiber(self, host: Host, q: ir.Expr) -> ir.Expr:
        """The position of the fiber that the child's position q belongs to."""
        if self.level.is_dense:
            return code.op("idiv", q, self.dims[-1])
        if self.count == code.ONE:
            return code.ZERO
        return code.sub(host.search(self.store.ptr, code.ONE, self.count, code.add(q, 1), "p"), 1)


def is_positioned(level: Level) -> bool:
    """Whether tensors of a format can be iterated by position."""
    return all(part.is_leaf or part.is_dense or part.lists_entries for part in level.levels())


def _levels(host: Host, fiber: Fiber) -> Iterator[_At]:
    """The levels of a whole tensor, the outermost first."""
    store, dims = fiber.store, fiber.dims
    count: ir.Expr = code.ONE
    while not store.level.is_leaf:
        level = store.level
        at = _At(store, dims, count)
        yield at
        store, dims = store.child, level.below(dims)
        count = at.below(host)


def positions(host: Host, fiber: Fiber) -> ir.Expr:
    """The number of positions of a tensor's leaf."""
    at = list(_levels(host, fiber))[-1]
    return at.below(host)


def coordinate(host: Host, fiber: Fiber, mode: int, p: ir.Expr) -> ir.Expr:
    """The coordinate in a mode of the p-th position; both are counted from 1."""
    q = code.sub(p, 1)
    for at in reversed(list(_levels(host, fiber))):
        if mode <= at.level.modes:
            return at.coordinate(host, mode - 1, q)
        mode -= at.level.modes
        q = host.let(at.fiber(host, q), "p")
    raise Bug("this mode is not there")


def entry(fiber: Fiber, p: ir.Expr) -> Fiber:
    """The leaf at the p-th position, counted from 1."""
    *_, leaf = fiber.store.stores()
    return Fiber(leaf, (), code.sub(p, 1), None, fiber.mode)
