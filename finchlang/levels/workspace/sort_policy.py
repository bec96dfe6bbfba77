"""The policy `coord`: entries are appended, and sorted by one mode after the other (Workspaces'24 section
5.2); entries of one place are combined when they are merged."""

from __future__ import annotations

from finchlang.host.construct import TRUE, ZERO
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels.workspace.policy import Batch, WorkspacePolicy


class Coord(WorkspacePolicy):
    name = "coord"

    def insert(self, host: Host, batch: Batch, place: tuple[Expr, ...]) -> tuple[Expr, Expr]:
        return host.get(batch.store.taken, lower=ZERO), TRUE
