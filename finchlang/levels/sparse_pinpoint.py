"""The SparsePinpoint level: one stored coordinate in each fiber (Finch'25 Table 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from finchlang.host.construct import ZERO, add, compare, op, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels import layout as lay
from finchlang.levels.block_levels import NONE
from finchlang.levels.level import Fiber, Indexed
from finchlang.levels.looplets import Lookup, Phase, Run, Sequence, Spike, Switch, entering
from finchlang.levels.write_refused import refused
from finchlang.syntax.nodes import Node
from finchlang.syntax.types import Int64


@dataclass(frozen=True)
class SparsePinpoint(Indexed):
    """`SparsePinpoint(lvl)`: idx[p] is the stored coordinate of the fiber at position p, which is that of
    its child, too; -1 if there is none. A second one is an access-order error at run time."""

    layout = (lay.Coordinate("idx", empty=-1),)
    holds_any = False

    def looplets(self, host: Host, fiber: Fiber, stop: Expr, protocol: str | None) -> Node:
        found = host.load(fiber.store.idx, fiber.position, "i", Int64)
        at = host.let(add(found, 1), "at", lower=ZERO, upper=stop)
        child = fiber.child(fiber.position)
        if protocol == "follow":
            return Lookup(lambda host, i: Switch(compare("eq", i, at), child, self.fill))
        return Sequence((Phase(Spike(self.fill, child), stop=at), Phase(Run(self.fill))))

    def writer(self, fiber: Fiber) -> Node:
        return entering(lambda host, i: self._mark(host, fiber, i))

    def _mark(self, host: Host, fiber: Fiber, i: Expr) -> tuple[Node, Any]:
        """Write at coordinate i, which becomes the fiber's only one if something is written. The child
        need not be told: at worst, entries of its own are written again."""
        store, p = fiber.store, fiber.position
        before = host.load(store.idx, p, "before", Int64)
        was_here = host.let(compare("eq", before, sub(i, 1)), "was_here")
        dirty = host.cell(was_here, "dirty")
        is_other = op("and", compare("ge", before, ZERO), op("not", was_here))

        def claim() -> None:
            host.store(store.idx, p, sub(i, 1))
            fiber.mark(host)

        def epilogue(host: Host) -> None:
            now = host.get(dirty)
            host.branch(op("and", now, op("not", was_here)), claim)
            if self.lvl.is_pattern:  # may have been overwritten with false
                gone = op("and", was_here, op("not", now))
                host.branch(gone, lambda: host.store(store.idx, p, NONE))

        message = "coordinate {} is the second in a fiber of SparsePinpoint, after {}"
        second = refused(fiber, message, (i, add(before, 1)))
        return Switch(is_other, second, fiber.child(p, dirty)), epilogue
