"""The SparseCOO level: entries listed with their coordinates in one or several modes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from finchlang.base.locks import cached_property
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels import layout as lay
from finchlang.levels.coordinate_levels import Coordinates
from finchlang.levels.level import Fiber
from finchlang.levels.sorted_coordinates import append_entry, counting
from finchlang.levels.sparse_hash import SparseHash
from finchlang.syntax.nodes import Node
from finchlang.syntax.types import Int64


@dataclass(frozen=True)
class SparseCOO(Coordinates):
    """`SparseCOO{N}(lvl)`: the entries of a fiber over N modes; entry q is at position q of the child."""

    is_sequential = True
    out_of_order = SparseHash
    lists_entries = True

    @cached_property
    def layout(self) -> lay.Layout:
        return (lay.Offsets("ptr", Int64), *self.coordinates)

    def append(self, host: Host, fiber: Fiber) -> tuple[Node, Any]:
        return self.anywhere(fiber), counting(host, fiber)

    def enter(self, host: Host, fiber: Fiber, coordinates: tuple[Expr, ...]) -> tuple[Node, Any]:
        return append_entry(host, fiber, self.buffers(fiber.store), coordinates[::-1])
