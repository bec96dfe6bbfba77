"""The policy `hash`: a hash table finds the entry of a place."""

from __future__ import annotations

from finchlang.host.construct import ZERO, add, compare, const
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels import hash_table
from finchlang.levels.level import Storage
from finchlang.levels.workspace.policy import Arrays, Batch, WorkspacePolicy
from finchlang.syntax.types import Int64


class Hash(WorkspacePolicy):
    """The number of a place is its *key* in the table (`levels/hash_table.py`); every entry is set."""

    name = "hash"
    combines = True
    numbers_places = True
    is_lean = False

    def arrays(self, modes: int) -> Arrays:
        return (("key", Int64), ("tbl", Int64), ("slots", Int64))

    def entries(self) -> tuple[str, ...]:
        return ("key",)

    def _table(self, batch: Batch) -> Storage:
        own = {name: batch.store.buffers[name] for name, _ in self.arrays(0)}
        return Storage(batch.store.level, own, {"stored": batch.store.taken})

    def begin(self, host: Host, batch: Batch) -> None:
        hash_table.resize(host, batch.store, const(hash_table.FIRST_SLOTS))

    def insert(self, host: Host, batch: Batch, place: tuple[Expr, ...]) -> tuple[Expr, Expr]:
        key = host.let(batch.number(place), "key", lower=ZERO)
        store, table = batch.store, self._table(batch)
        hash_table.make_room(host, table)
        at = hash_table.find(host, table, key)
        is_new = host.let(compare("ne", host.load(store.tbl, at, "held"), key), "new")

        def enter() -> None:
            e = host.get(store.taken)
            host.store(store.key, e, key)
            host.store(store.tbl, at, key)
            host.store(store.tbl, add(at, 1), e)

        host.branch(is_new, enter)
        return host.load(store.tbl, add(at, 1), "e", lower=ZERO), is_new

    def forget(self, host: Host, batch: Batch, e: Expr) -> None:
        """The entry is the last one in the table, so no probe for another key passes over its slot."""
        store = batch.store
        at = hash_table.find(host, self._table(batch), host.load(store.key, e, "key"))
        host.store(store.tbl, at, hash_table.EMPTY)
        host.store(store.tbl, add(at, 1), hash_table.EMPTY)

    def clear(self, host: Host, batch: Batch) -> None:
        hash_table.resize(host, batch.store, host.load(batch.store.slots, ZERO, "slots"))
