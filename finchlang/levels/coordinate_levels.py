"""Levels of one or several modes whose fibers list the coordinates of their entries in order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from finchlang.base.errors import Bug, FinchError
from finchlang.base.records import record
from finchlang.host.construct import add, cast, compare, const, op, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Buffer, Expr
from finchlang.levels import layout as lay, looplets as lp
from finchlang.levels.level import READ, Fiber, Indexed, Storage, Within
from finchlang.levels.sorted_coordinates import Listed, load_range
from finchlang.syntax.nodes import Node
from finchlang.syntax.types import Float64

#: the largest number that a place may have
MOST = 2**62


@record(slots=True)
class AtCoordinates(Within):
    """A fiber of a level at `known` coordinates (from 1, last mode first) in its last modes."""

    known: tuple[Expr, ...]

    def __str__(self) -> str:
        return f"{self.body}[..., {', '.join(map(str, reversed(self.known)))}]"

    def sizes(self) -> tuple[Expr | None, ...]:
        return self.body.dims[: len(self.body.dims) - len(self.known)]

    def unfurl(self, host: Host, stop: Expr | None, protocol: str | None) -> Node:
        if self.mode == READ and protocol != "follow":
            return lp.delayed(lambda host: self._entries(host).looplets(host, protocol))
        return self.level.anywhere(self.body, self.known)

    def _entries(self, host: Host) -> Entries:
        start, stop = load_range(host, self.body)
        for idx, i in zip(reversed(self.level.buffers(self.body.store)), self.known, strict=False):
            start = host.search(idx, start, stop, sub(i, 1), "start")
            stop = host.search(idx, start, stop, i, "stop")
        return Entries(self.body, self.level.number - len(self.known), start, stop)


@dataclass(frozen=True)
class Coordinates(Indexed):
    """Fiber p has the entries ptr[p] up to, not including, ptr[p + 1]; entry q has the coordinate idx[q]
    or, of several modes, idx1[q], idx2[q] and so on. Entries are sorted by their last coordinate, then by
    the one before. Raises FinchError "type" for fewer than 1 or more than 64 modes."""

    number: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.number, bool) or not 1 <= self.number <= 64:
            raise FinchError("type", f"{type(self).__name__} has 1 to 64 modes, not {self.number}")

    @property
    def modes(self) -> int:
        return self.number

    def names(self) -> tuple[str, ...]:
        """The names of the arrays of coordinates, first mode first."""
        return ("idx",) if self.number == 1 else tuple(f"idx{k + 1}" for k in range(self.number))

    @property
    def coordinates(self) -> lay.Layout:
        return tuple(lay.Coordinate(name, mode=k) for k, name in enumerate(self.names()))

    def buffers(self, store: Storage) -> tuple[Buffer, ...]:
        return tuple(store.buffers[name] for name in self.names())

    def child_position(self, host: Host, store: Storage, q: Expr) -> Expr:
        """The position of entry q in the child; by default q."""
        return q

    def check_numbers(
        self, host: Host, factors: tuple[Expr, ...], message: str, sizes: tuple[Expr, ...]
    ) -> None:
        """Fail (kind dimension) if a product is above MOST: in floats, as integers may overflow."""
        product = cast(factors[0], Float64)
        for factor in factors[1:]:
            product = op("mul", product, cast(factor, Float64))
        too_many = compare("gt", product, const(float(MOST), Float64))
        host.branch(too_many, lambda: host.fail("dimension", message, sizes))

    def looplets(self, host: Host, fiber: Fiber, stop: Expr, protocol: str | None) -> Node:
        return Entries(fiber, self.number, *load_range(host, fiber)).looplets(host, protocol)

    def anywhere(self, fiber: Fiber, known: tuple[Expr, ...] = ()) -> lp.Lookup:
        """A lookup over the next mode, given the `known` coordinates of the modes after it."""

        def at(host: Host, i: Expr) -> Node:
            coordinates = *known, i
            if len(coordinates) < self.number:
                return AtCoordinates(fiber, coordinates)
            return self.payload(host, fiber, coordinates)

        return lp.Lookup(at)

    def payload(self, host: Host, fiber: Fiber, coordinates: tuple[Expr, ...]) -> Node:
        """The payload at `coordinates` (from 1, last mode first), as a fiber to be written."""
        return lp.Thunk(lambda host: self.enter(host, fiber, coordinates))

    def enter(self, host: Host, fiber: Fiber, coordinates: tuple[Expr, ...]) -> tuple[Node, Any]:
        """The entry at `coordinates`, and the epilogue that finishes it."""
        raise Bug(f"{type(self).__name__} leaves this out")


@record(slots=True)
class Entries(Within):
    """The entries start up to, not including, stop: those alike in all modes but the first `left`."""

    left: int
    start: Expr
    stop: Expr

    def __str__(self) -> str:
        return f"{self.body}[{self.start}:{self.stop}]"

    def sizes(self) -> tuple[Expr | None, ...]:
        dims = self.body.dims
        return dims[: len(dims) - self.level.number + self.left]

    def unfurl(self, host: Host, stop: Expr | None, protocol: str | None) -> Node:
        return lp.delayed(lambda host: self.looplets(host, protocol))

    def looplets(self, host: Host, protocol: str | None) -> Node:
        """As `Listed.points`; of a mode before the last, one coordinate may have several entries."""
        idx = self.level.buffers(self.body.store)[self.left - 1]
        size = self.sizes()[-1]
        assert size is not None

        def last_of_all(host: Host, q: Expr, i: Expr) -> Node:
            return self.body.child(self.level.child_position(host, self.body.store, q))

        def after(host: Host, q: Expr, i: Expr) -> Expr:
            """The first position after q whose coordinate is not i, that of q."""
            return host.search(idx, add(q, 1), self.stop, i, "end")

        def payload(host: Host, q: Expr, i: Expr) -> Node:
            return Entries(self.body, self.left - 1, q, after(host, q, i))

        listed, child = Listed(idx, self.start, self.stop, self.level.fill), last_of_all
        if self.left > 1:
            listed, child = replace(listed, after=after), payload
        return listed.points(host, size, protocol, child)
