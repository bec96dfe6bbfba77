"""Iteration over frozen tensors by the positions of their storage: how many there are, and the
coordinates of each (Workspaces'24 section 6.2, `pos`)."""

from __future__ import annotations

from collections.abc import Iterator

from finchlang.base.errors import Bug
from finchlang.host import construct as code, ir
from finchlang.host.interface import Host
from finchlang.levels import layout as lay
from finchlang.levels.level import Fiber, Level, Storage
from finchlang.syntax.types import Int64


def is_positioned(level: Level) -> bool:
    """Whether tensors of a format can be iterated by position: each level is dense, or lists entries."""
    return all(part.is_leaf or part.is_dense or part.lists_entries for part in level.levels())


def _levels(host: Host, fiber: Fiber) -> Iterator[tuple[Storage, ir.Expr]]:
    """The levels of a whole tensor, the outermost first, with how many fibers they have; at last the
    leaf."""
    count: ir.Expr = code.ONE
    for store in fiber.store.stores():
        yield store, count
        if not store.level.is_leaf:
            count = lay.positions(host, store, store.level.layout, count)


def positions(host: Host, fiber: Fiber) -> ir.Expr:
    """The number of positions of a tensor's leaf."""
    *_, (store, count), _ = _levels(host, fiber)
    return lay.positions(host, store, store.level.layout, count)


def coordinate(host: Host, fiber: Fiber, mode: int, p: ir.Expr) -> ir.Expr:
    """The coordinate in a mode of the p-th position; both are counted from 1."""
    q = code.sub(p, 1)
    *levels, _ = _levels(host, fiber)
    for store, count in reversed(levels):
        if mode <= store.level.modes:
            if store.level.is_dense:
                return code.add(code.op("irem", q, store.size), 1)
            array = lay.coordinates(store)[mode - 1]
            return code.add(host.load(array, q, "i", Int64, lower=code.ZERO), 1)
        mode -= store.level.modes
        q = host.let(_fiber(host, store, count, q), "p")
    raise Bug("this mode is not there")


def _fiber(host: Host, store: Storage, count: ir.Expr, q: ir.Expr) -> ir.Expr:
    """The position of the fiber, of `count`, that the child's position q belongs to."""
    if store.level.is_dense:
        return code.op("idiv", q, store.size)
    if count == code.ONE:
        return code.ZERO
    return code.sub(host.search(store.ptr, code.ONE, count, code.add(q, 1), "p"), 1)


def entry(fiber: Fiber, p: ir.Expr) -> Fiber:
    """The leaf at the p-th position, counted from 1."""
    *_, leaf = fiber.store.stores()
    return Fiber(leaf, code.sub(p, 1), None, fiber.mode)
