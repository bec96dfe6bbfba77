"""Frozen tensors by the positions of their storage: how many there are, and which coordinates each
has (Workspaces'24 section 6.2, `pos`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from finchlang.base.errors import Bug
from finchlang.host.construct import ONE, ZERO, add, mul, op, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Buffer, Expr
from finchlang.levels.fiber_ops import copy_array, move_range
from finchlang.levels.level import Dims, Fiber, Level, Storage
from finchlang.syntax.types import Int64


@dataclass(frozen=True)
class _At:
    """All fibers of one level of a tensor: `count` of them, with the sizes `dims`."""

    level: Positioned
    store: Storage
    dims: Dims
    count: Expr


class Positioned(Level):
    """A level where each position of the child belongs to one coordinate of one fiber, which can be
    told. This one has every coordinate, as Dense does."""

    def positions_below(self, host: Host, at: _At) -> Expr:
        """How many positions the child has."""
        return mul(at.count, at.dims[-1])

    def coordinate_at(self, host: Host, at: _At, mode: int, q: Expr) -> Expr:
        """The coordinate (from 1) in a mode of this level, counted from 0, of the child's position q."""
        return add(op("irem", q, at.dims[-1]), 1)

    def fiber_at(self, host: Host, at: _At, q: Expr) -> Expr:
        """The position of the fiber that the child's position q belongs to."""
        return op("idiv", q, at.dims[-1])


class Pointed(Positioned):
    """One whose fiber p has the child's positions ptr[p] up to, not including, ptr[p + 1], with the
    coordinates that its `coordinate_buffers` list."""

    def coordinate_buffers(self, store: Storage) -> tuple[Buffer, ...]:
        return (store.idx,)

    def declare(self, host: Host, store: Storage, dims: Dims) -> None:
        host.set(store.stored, ZERO)
        host.grow(store.ptr, ONE)
        host.store(store.ptr, ZERO, ZERO)
        self.child.declare(host, store.child, dims[: len(dims) - self.modes])

    def move(self, host: Host, store: Storage, dims: Dims, source: Expr, target: Expr) -> None:
        def child(a: Expr, b: Expr) -> None:
            self.child.move(host, store.child, dims[: len(dims) - self.modes], a, b)

        move_range(host, store.ptr, source, target, self.coordinate_buffers(store), child)

    def truncate(self, host: Host, store: Storage, dims: Dims, count: Expr) -> None:
        stored = host.load(store.ptr, count, "stored", Int64)
        host.set(store.stored, stored)
        self.child.truncate(host, store.child, dims[: len(dims) - self.modes], stored)

    def positions_below(self, host: Host, at: _At) -> Expr:
        return host.load(at.store.ptr, at.count, "stored", Int64, lower=ZERO)

    def coordinate_at(self, host: Host, at: _At, mode: int, q: Expr) -> Expr:
        return add(host.load(self.coordinate_buffers(at.store)[mode], q, "i", Int64, lower=ZERO), 1)

    def takes(self, other: Level) -> bool:
        is_alike = isinstance(other, Pointed) and self.modes == other.modes
        return is_alike and self.child.takes(other.child)

    def take(self, host: Host, store: Storage, dims: Dims, source: Storage, count: Expr) -> None:
        """ptr[p + 1] counts the entries of fiber p until they are frozen."""
        assert isinstance(source.level, Pointed)

        def tally(p: Expr) -> None:
            before, behind = (
                host.load(source.ptr, q, "at", Int64, lower=ZERO) for q in (sub(p, 1), p)
            )
            host.store(store.ptr, p, sub(behind, before))

        stored = host.load(source.ptr, count, "stored", Int64, lower=ZERO)
        host.grow(store.ptr, host.let(add(count, 1), "end"))
        host.count(ONE, count, tally, "p")
        arrays = self.coordinate_buffers(store), source.level.coordinate_buffers(source)
        for array, content in zip(*arrays, strict=True):
            host.grow(array, stored)
            copy_array(host, array, ZERO, content, stored)
        host.set(store.stored, stored)
        self.child.take(host, store.child, dims[: len(dims) - self.modes], source.child, stored)

    def fiber_at(self, host: Host, at: _At, q: Expr) -> Expr:
        if at.count == ONE:
            return ZERO
        return sub(host.search(at.store.ptr, ONE, at.count, add(q, 1), "p"), 1)


def is_positioned(level: Level) -> bool:
    """Whether tensors of a format can be gone through by their positions."""
    return all(part.is_leaf or isinstance(part, Positioned) for part in level.levels())


def _levels(host: Host, fiber: Fiber) -> Iterator[_At]:
    """The levels of a whole tensor, the outermost first."""
    store, dims = fiber.store, fiber.dims
    count: Expr = ONE
    while not store.level.is_leaf:
        level = store.level
        assert isinstance(level, Positioned)
        at = _At(level, store, dims, count)
        yield at
        store, dims = store.child, dims[: len(dims) - level.modes]
        count = level.positions_below(host, at)


def positions(host: Host, fiber: Fiber) -> Expr:
    """How many positions a tensor has, counting those of its leaf."""
    at = list(_levels(host, fiber))[-1]
    return at.level.positions_below(host, at)


def coordinate(host: Host, fiber: Fiber, mode: int, p: Expr) -> Expr:
    """The coordinate in a mode of the p-th position; both are counted from 1."""
    q = sub(p, 1)
    for at in reversed(list(_levels(host, fiber))):
        if mode <= at.level.modes:
            return at.level.coordinate_at(host, at, mode - 1, q)
        mode -= at.level.modes
        q = host.let(at.level.fiber_at(host, at, q), "p")
    raise Bug("this mode is not there")


def entry(fiber: Fiber, p: Expr) -> Fiber:
    """The leaf at the p-th position, counted from 1."""
    *_, leaf = fiber.store.stores()
    return Fiber(leaf, (), sub(p, 1), None, fiber.mode)
