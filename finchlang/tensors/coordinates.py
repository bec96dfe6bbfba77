"""Levels of one or several modes whose fibers list the coordinates of what is stored, in order: shared
by SparseCOO and SparseHash."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from finchlang.host.fold import FALSE, ZERO, add, compare, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Buffer, Expr
from finchlang.looplets import (
    Jumper,
    Lookup,
    Phase,
    Positions,
    Run,
    Sequence,
    Spike,
    Stepper,
    Switch,
    Thunk,
)
from finchlang.source import Bug, FinchError
from finchlang.syntax import Node
from finchlang.tensors.compare import ranges_equal
from finchlang.tensors.level import Fiber, Level, PartOfFiber, Store
from finchlang.tensors.sorted_positions import load_range
from finchlang.types import Int64, Type


@dataclass(frozen=True)
class Coordinates(Level):
    """Fiber p has the entries ptr[p] up to, not including, ptr[p + 1]; entry q has the coordinate
    idx[q] or, of several modes, idx1[q], idx2[q] and so on. Entries are sorted by their last
    coordinate, then by the one before, and so on.

    Raises FinchError "type" for less than one mode.
    """

    lvl: Level
    index: Type = Int64
    number: int = 1

    is_comparable: ClassVar[bool] = True
    protocols: ClassVar[tuple[str, ...]] = ("walk", "gallop", "follow")

    def __post_init__(self) -> None:
        if isinstance(self.number, bool) or not 1 <= self.number <= 64:
            message = f"{type(self).__name__} has 1 to 64 modes, not {self.number}"
            raise FinchError("type", message)

    @property
    def modes(self) -> int:
        return self.number

    def names(self) -> tuple[str, ...]:
        """The arrays of coordinates, that of the first mode first."""
        if self.number == 1:
            return ("idx",)
        return tuple(f"idx{k + 1}" for k in range(self.number))

    def buffers(self, store: Store) -> tuple[Buffer, ...]:
        """The arrays of coordinates."""
        return tuple(store.buffers[name] for name in self.names())

    def own(self, dims: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The sizes of this level's modes, of those of a tensor or fiber."""
        return dims[len(dims) - self.number :]

    def below(self, dims: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The sizes of the child's dimensions."""
        return dims[: len(dims) - self.number]

    def child_position(self, host: Host, store: Store, q: Expr) -> Expr:
        """The position in the child of entry q."""
        raise Bug(f"{type(self).__name__} leaves this out")

    def child_positions(self, storage: dict[str, Any], entries: np.ndarray) -> np.ndarray:
        """The positions in the child of `entries`."""
        raise Bug(f"{type(self).__name__} leaves this out")

    def read_entries(self, host: Host, fiber: Fiber, protocol: str | None) -> Node:
        """The looplets over the last mode of `fiber`."""

        def preamble(host: Host) -> tuple[Node, None]:
            start, stop = load_range(host, fiber)
            return Entries(fiber, self.number, start, stop).looplets(host, protocol), None

        return Thunk(preamble)

    def equal(self, host: Host, store: Store, dims: tuple[Expr, ...], p: Expr, q: Expr) -> Expr:
        def children(a: Expr, b: Expr) -> Expr:
            one, other = (self.child_position(host, store, k) for k in (a, b))
            return self.lvl.equal(host, store.child, self.below(dims), one, other)

        return ranges_equal(host, store.ptr, p, q, self.buffers(store), children)

    # ------------------------------------------------------------------ storage as arrays

    def pack_entries(
        self, positions: np.ndarray, rows: np.ndarray, count: int
    ) -> tuple[dict[str, Any], np.ndarray, np.ndarray]:
        """`ptr` and the coordinates of what is given sorted; which entry each belongs to, and the
        first of each entry."""
        new = np.ones(len(positions), bool)
        new[1:] = (positions[1:] != positions[:-1]) | np.any(rows[:, 1:] != rows[:, :-1], axis=0)
        ptr = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(positions[new], minlength=count), out=ptr[1:])
        arrays: dict[str, Any] = {"ptr": ptr}
        for name, row in zip(self.names(), rows, strict=True):
            arrays[name] = row[new].astype(self.index.dtype)
        return arrays, np.cumsum(new) - 1, np.flatnonzero(new)

    def unpack(
        self, storage: dict[str, Any], positions: np.ndarray, size: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        starts = storage["ptr"][positions]
        lengths = storage["ptr"][positions + 1] - starts
        which = np.repeat(np.arange(len(positions)), lengths)
        entries = np.arange(len(which)) + (starts - (np.cumsum(lengths) - lengths))[which]
        rows = np.array([storage[name][entries] for name in self.names()], np.int64)
        return which, rows.reshape(self.number, -1), self.child_positions(storage, entries)

    def validate(self, storage: dict[str, Any], count: int, size: Any) -> str | None:
        ptr = storage["ptr"]
        if len(ptr) < count + 1:
            return f"ptr has {len(ptr)} entries for {count} fibers; it needs {count + 1}"
        ptr = ptr[: count + 1]
        if ptr[0] != 0 or np.any(ptr[1:] < ptr[:-1]):
            return "ptr must start at 0 and never descend"
        sizes = size if isinstance(size, tuple) else (size,)
        ascends = alike = np.ones(max(ptr[-1] - 1, 0), bool)
        ascends = ~ascends
        for name, limit in reversed(list(zip(self.names(), sizes, strict=True))):
            row = storage[name]
            if len(row) < ptr[-1]:
                return f"ptr ends at {ptr[-1]}, beyond the {len(row)} coordinates of {name}"
            row = row[: ptr[-1]]
            if len(row) and (row.min() < 0 or row.max() >= limit):
                return f"stored coordinates must be in 0..{limit - 1}"
            ascends = ascends | (alike & (row[1:] > row[:-1]))
            alike = alike & (row[1:] == row[:-1])
        ascends[ptr[1:-1][(ptr[1:-1] > 0) & (ptr[1:-1] < ptr[-1])] - 1] = True
        return None if ascends.all() else "stored coordinates must ascend within each fiber"


@dataclass(frozen=True, slots=True)
class Entries(PartOfFiber):
    """The entries start up to, not including, stop of a fiber, which have the same coordinates in all
    modes of the level but the first `left`."""

    left: int
    start: Expr
    stop: Expr

    def __str__(self) -> str:
        return f"{self.fiber}[{self.start}:{self.stop}]"

    @property
    def level(self) -> Coordinates:
        level = self.fiber.level
        assert isinstance(level, Coordinates)
        return level

    def sizes(self) -> tuple[Expr | None, ...]:
        dims = self.fiber.dims
        return dims[: len(dims) - self.level.number + self.left]

    def unfurl(self, host: Host, stop: Expr | None, mode: str, protocol: str | None) -> Node:
        return Thunk(lambda host: (self.looplets(host, protocol), None))

    def looplets(self, host: Host, protocol: str | None) -> Node:
        """A stepper (or jumper) over spikes up to the last stored coordinate, then a run of fill;
        with `follow` a binary search for each coordinate."""
        if protocol == "follow":
            return self._follow()
        size = self.sizes()[-1]
        last_cell = host.cell(ZERO, "last")
        host.branch(
            compare("lt", self.start, self.stop),
            lambda: host.set(last_cell, add(host.load(self.idx, sub(self.stop, 1), "i", Int64), 1)),
        )
        last = host.get(last_cell, lower=ZERO, upper=size)
        steps = self._steps(host, Jumper if protocol == "gallop" else Stepper, last)
        return Sequence((Phase(steps, stop=last), Phase(Run(self.level.fill))))

    @property
    def idx(self) -> Buffer:
        """The coordinates of the last mode that is left."""
        return self.level.buffers(self.fiber.store)[self.left - 1]

    def _payload(self, host: Host, q: Expr, after: Expr) -> Node:
        """What is at entry q; `after` is its coordinate plus one, from 0."""
        if self.left == 1:
            return self.fiber.child(self.level.child_position(host, self.fiber.store, q))
        end = host.search(self.idx, add(q, 1), self.stop, after, "end")
        return Entries(self.fiber, self.left - 1, q, end)

    def _steps(self, host: Host, kind: Any, last: Expr) -> Node:
        idx, stop, fill = self.idx, self.stop, self.level.fill
        cell = host.cell(self.start, "q")

        def coordinate(host: Host, q: Expr) -> Expr:
            return add(host.load(idx, q, "i", Int64, lower=ZERO, upper=sub(last, 1)), 1)

        def tail(host: Host) -> tuple[Node, None]:
            q = host.get(cell)
            return self._payload(host, q, ZERO if self.left == 1 else coordinate(host, q)), None

        def following(host: Host) -> None:
            q = host.get(cell)
            end = add(q, 1)
            if self.left > 1:
                end = host.search(idx, end, stop, coordinate(host, q), "end")
            host.set(cell, end)

        positions = Positions(
            self.start,
            stop,
            coordinate,
            self._payload,
            fill,
            lambda host: host.get(cell),
            lambda host, q, i: host.search(idx, q, stop, sub(i, 1)),
        )
        return kind(
            seek=lambda host, i: host.set(cell, host.search(idx, host.get(cell), stop, sub(i, 1))),
            stride=lambda host: coordinate(host, host.get(cell)),
            body=lambda host: Spike(fill, Thunk(tail)),
            next=following,
            last=last,
            # entries of one coordinate are several where a mode is left below
            positions=positions if self.left == 1 else None,
        )

    def _follow(self) -> Node:
        idx, stop, fill = self.idx, self.stop, self.level.fill

        def at(host: Host, i: Expr) -> Node:
            q = host.search(idx, self.start, stop, sub(i, 1))
            hit = host.cell(FALSE, "hit")
            host.branch(
                compare("lt", q, stop),
                lambda: host.set(hit, compare("eq", host.load(idx, q, "i", Int64), sub(i, 1))),
            )
            there = Thunk(lambda host: (self._payload(host, q, i), None))
            return Switch(host.get(hit), there, fill)

        return Lookup(at)
