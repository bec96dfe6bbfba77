"""The Ragged level: each fiber stores its coordinates from the first up to a length of its own
(Looplets'23 Fig 3e)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from finchlang.host.construct import ZERO, add, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels.block_levels import Entry, OneBlock
from finchlang.levels.level import ByName, Fiber, Given
from finchlang.syntax.types import Int64


@dataclass(frozen=True)
class Ragged(OneBlock):
    """`Ragged(lvl)`: the fiber at position p stores its first ofs[p + 1] - ofs[p] coordinates, at the
    positions from ofs[p] in the child."""

    def region(self, host: Host, fiber: Fiber, size: Expr) -> tuple[Expr, Expr, Expr]:
        ofs = fiber.store.ofs
        start = host.load(ofs, fiber.position, "start", Int64, lower=ZERO)
        stop = host.load(ofs, add(fiber.position, 1), "stop", Int64, lower=start)
        return ZERO, host.let(sub(stop, start), "length", lower=ZERO, upper=size), start

    def enter(self, host: Host, fiber: Fiber, before: Expr, first: Expr) -> Entry:
        start = sub(first, before)
        return lambda host, i: add(start, sub(i, 1)), lambda: None

    def blocks(self, storage: dict[str, Any], count: int) -> tuple[np.ndarray, np.ndarray]:
        return storage["ofs"][:count].astype(np.int64), np.zeros(count, np.int64)

    def pack(self, given: Given) -> tuple[ByName, np.ndarray]:
        positions, coordinates, count, *_ = given
        lengths = np.zeros(count, np.int64)
        np.maximum.at(lengths, positions, coordinates + 1)
        ofs = np.concatenate(([0], np.cumsum(lengths)))
        return {"ofs": ofs}, ofs[positions] + coordinates

    def problem(self, storage: ByName, count: int, size: int) -> str | None:
        problem = super().problem(storage, count, size)
        if problem is None and np.any(np.diff(storage["ofs"][: count + 1].astype(np.int64)) > size):
            return f"a fiber is longer than the dimension, {size}"
        return problem
