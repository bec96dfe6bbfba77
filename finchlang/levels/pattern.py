"""The Pattern leaf: every stored position is true, everything else false (Finch'25 Table 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from finchlang.host import construct as code, ir
from finchlang.host.interface import Host
from finchlang.levels.element import typed_literal
from finchlang.levels.level import READ, ByName, Fiber, Level, Storage
from finchlang.syntax import nodes as ast, types


@dataclass(frozen=True)
class Pattern(Level):
    """`Pattern()`: Bool values without any storage. While it is written, the dirty bit of the
    sparse level above is the value itself, so that a written `false` leaves nothing stored."""

    is_leaf = True
    is_pattern = True

    def __str__(self) -> str:
        return "Pattern()"

    @property
    def fill(self) -> ast.Literal:
        return typed_literal(False)

    @property
    def element_type(self) -> types.Type:
        return types.Bool

    def equal(self, host: Host, store: Storage, p: ir.Expr, q: ir.Expr) -> ir.Expr:
        return code.TRUE

    def read(self, host: Host, fiber: Fiber) -> ast.Node:
        if fiber.mode == READ:
            return typed_literal(True)
        assert fiber.dirty is not None  # a sparse level is above
        return ast.Value(host.get(fiber.dirty))

    def write(self, host: Host, fiber: Fiber, value: ir.Expr) -> None:
        assert fiber.dirty is not None  # a sparse level is above
        host.set(fiber.dirty, value)
        if fiber.written is not None:
            host.set(fiber.written, code.TRUE)

    def pack_values(self, values: np.ndarray, positions: np.ndarray, count: int) -> dict[str, Any]:
        return {}

    def unpack_values(self, storage: ByName, positions: np.ndarray) -> np.ndarray:
        return np.ones(len(positions), bool)
