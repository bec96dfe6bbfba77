"""Levels whose fibers list their coordinates in ascending order in `idx`, from ptr[p] to
ptr[p + 1] - 1: how they are read, packed, unpacked and checked, in parts that other levels use, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from finchlang.host.fold import FALSE, ONE, ZERO, add, compare, sub
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
from finchlang.syntax import Node
from finchlang.tensors.level import Fiber
from finchlang.types import Int64

#: the position in the child of coordinate i (from 1) listed at position q of `idx`
ChildPosition = Callable[[Expr, Expr], Expr]


def load_range(host: Host, fiber: Fiber) -> tuple[Expr, Expr]:
    """The positions in `idx` that belong to `fiber`: from the first up to, not including, the second."""
    ptr = fiber.store.ptr
    start = host.load(ptr, fiber.position, "start", Int64, lower=ZERO)
    return start, host.load(ptr, add(fiber.position, 1), "stop", Int64, lower=start)


def load_last(host: Host, fiber: Fiber, start: Expr, stop: Expr, size: Expr) -> Expr:
    """The last coordinate (from 1) in `idx` from start to stop - 1; 0 if there is none."""
    last, idx = host.cell(ZERO, "last"), fiber.store.idx
    host.branch(
        compare("lt", start, stop),
        lambda: host.set(last, add(host.load(idx, sub(stop, 1), "i", Int64), 1)),
    )
    return host.get(last, lower=ZERO, upper=size)


def unfurl_sorted(
    host: Host, fiber: Fiber, size: Expr, protocol: str | None, child: ChildPosition
) -> Node:
    """The looplets over coordinates 1..size: a stepper (or jumper) over spikes up to the last stored
    coordinate, then a run of fill; with `follow` a binary search for each coordinate."""
    if protocol == "follow":
        return _follow(fiber, child)
    kind = Jumper if protocol == "gallop" else Stepper

    def preamble(host: Host) -> tuple[Node, None]:
        start, stop = load_range(host, fiber)
        last = load_last(host, fiber, start, stop, size)
        steps = _steps(host, kind, fiber, start, stop, last, child)
        return Sequence((Phase(steps, stop=last), Phase(Run(fiber.level.fill)))), None

    return Thunk(preamble)


def _steps(
    host: Host, kind: Any, fiber: Fiber, start: Expr, stop: Expr, last: Expr, child: ChildPosition
) -> Node:
    idx, fill = fiber.store.idx, fiber.level.fill
    cell = host.cell(start, "q")

    def coordinate(host: Host, q: Expr) -> Expr:
        return add(host.load(idx, q, "i", Int64, lower=ZERO, upper=sub(last, 1)), 1)

    def tail(host: Host, q: Expr) -> Node:
        return fiber.child(child(q, coordinate(host, q)))

    def seek(host: Host, i: Expr) -> None:
        host.set(cell, host.search(idx, host.get(cell), stop, sub(i, 1)))

    def body(host: Host) -> Node:
        return Thunk(lambda host: (Spike(fill, tail(host, host.get(cell)), is_stored=True), None))

    return kind(
        seek=seek,
        stride=lambda host: coordinate(host, host.get(cell)),
        body=body,
        next=lambda host: host.set(cell, add(host.get(cell), 1)),
        last=last,
        positions=Positions(
            start,
            stop,
            coordinate,
            lambda host, q, i: fiber.child(child(q, i)),
            fill,
            lambda host: host.get(cell),
            lambda host, q, i: host.search(idx, q, stop, sub(i, 1)),
        ),
    )


def _follow(fiber: Fiber, child: ChildPosition) -> Node:
    idx = fiber.store.idx

    def preamble(host: Host) -> tuple[Node, None]:
        start, stop = load_range(host, fiber)

        def body(host: Host, i: Expr) -> Node:
            q = host.search(idx, start, stop, sub(i, 1))
            hit = host.cell(FALSE, "hit")
            host.branch(
                compare("lt", q, stop),
                lambda: host.set(hit, compare("eq", host.load(idx, q, "i", Int64), sub(i, 1))),
            )
            return Switch(host.get(hit), fiber.child(child(q, i)), fiber.level.fill)

        return Lookup(body), None

    return Thunk(preamble)


def accumulate(host: Host, counts: Buffer, count: Expr) -> None:
    """Turn the counts in counts[1..count] into positions: each the sum of those up to it."""
    total = host.cell(ZERO, "total")

    def step(p: Expr) -> None:
        position = host.let(add(host.get(total), host.load(counts, p, "n", Int64)), "position")
        host.store(counts, p, position)
        host.set(total, position)

    host.count(ONE, count, step, "p")


def pack_sorted(
    positions: np.ndarray, coordinates: np.ndarray, count: int, dtype: np.dtype
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """`ptr` and `idx` for entries sorted by position and coordinate, and which listed coordinate
    each entry belongs to."""
    new = np.ones(len(positions), bool)
    new[1:] = (positions[1:] != positions[:-1]) | (coordinates[1:] != coordinates[:-1])
    ptr = np.zeros(count + 1, dtype)
    np.cumsum(np.bincount(positions[new], minlength=count), out=ptr[1:])
    return {"ptr": ptr, "idx": coordinates[new].astype(dtype)}, np.cumsum(new) - 1


def unpack_sorted(
    storage: dict[str, Any], positions: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each coordinate listed in the fibers at `positions`: which of them, the coordinate, and
    its place in `idx`."""
    ptr = storage["ptr"].astype(np.int64)
    starts, lengths = ptr[positions], ptr[positions + 1] - ptr[positions]
    which = np.repeat(np.arange(len(positions)), lengths)
    before = np.concatenate(([0], np.cumsum(lengths)))[:-1]
    places = starts[which] + np.arange(len(which)) - before[which]
    return which, storage["idx"][places].astype(np.int64), places


def validate_sorted(storage: dict[str, Any], count: int, size: int) -> str | None:
    """Why `ptr` and `idx` are no storage for `count` fibers of `size`, or None."""
    ptr, idx = storage["ptr"], storage["idx"]
    if len(ptr) < count + 1:
        return f"ptr has {len(ptr)} entries for {count} fibers; it needs {count + 1}"
    ptr = ptr[: count + 1]
    if ptr[0] != 0 or np.any(ptr[1:] < ptr[:-1]):
        return "ptr must start at 0 and never descend"
    if ptr[-1] > len(idx):
        return f"ptr ends at {ptr[-1]}, beyond the {len(idx)} stored coordinates"
    idx = idx[: ptr[-1]]
    if len(idx) and (idx.min() < 0 or idx.max() >= size):
        return f"stored coordinates must be in 0..{size - 1}"
    ascending = idx[1:] > idx[:-1]
    ascending[ptr[1:-1][(ptr[1:-1] > 0) & (ptr[1:-1] < len(idx))] - 1] = True
    if not ascending.all():
        return "stored coordinates must ascend within each fiber"
    return None
