"""The policy `hash`: a hash table finds the entry of a place."""

from __future__ import annotations

from finchlang.host.construct import ZERO, const, op
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels import hash_table
from finchlang.levels.level import Storage
from finchlang.levels.workspace.policy import Batch, WorkspacePolicy
from finchlang.syntax.types import Int64


class Hash(WorkspacePolicy):
    """The number of a place is its *key* in the table (`levels/hash_table.py`), where no entry is set."""

    name = "hash"
    arrays = (("key", Int64), ("tbl", Int64), ("slots", Int64))
    combines = True
    numbers_places = True
    is_lean = False

    def _table(self, batch: Batch) -> Storage:
        own = {name: batch.store.buffers[name] for name, _ in self.arrays}
        return Storage(batch.store.level, own, {"stored": batch.store.taken})

    def begin(self, host: Host, batch: Batch) -> None:
        hash_table.resize(host, batch.store, const(hash_table.FIRST_SLOTS))

    def insert(self, host: Host, batch: Batch, place: tuple[Expr, ...]) -> tuple[Expr, Expr]:
        key = host.let(batch.number(place), "key", lower=ZERO)
        e, _, is_new = hash_table.enter(host, self._table(batch), key)
        return e, is_new

    def forget(self, host: Host, batch: Batch, e: Expr) -> None:
        table, key = self._table(batch), op("not", host.load(batch.store.key, e, "key"))
        hash_table.forget(host, table, hash_table.find(host, table, key), e)

    def clear(self, host: Host, batch: Batch) -> None:
        hash_table.resize(host, batch.store, host.load(batch.store.slots, ZERO, "slots"))
