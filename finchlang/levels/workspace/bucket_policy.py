"""The policy `bucket`: a linked list of entries for each coordinate of the last mode, which is searched
for the entry of a place (Workspaces'24 section 5.2)."""

from __future__ import annotations

from finchlang.host.construct import FALSE, ZERO, compare, const, op
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels.workspace.policy import Batch, WorkspacePolicy
from finchlang.syntax.types import Int64

_NONE = const(-1)


class Bucket(WorkspacePolicy):
    """head[i] is the newest entry with last coordinate i, or -1; next[e] is the entry with the same last
    coordinate before e, or -1."""

    name = "bucket"
    arrays = (("head", Int64), ("next", Int64))
    entries = ("next",)
    combines = True

    def begin(self, host: Host, batch: Batch) -> None:
        head, size = batch.store.head, batch.store.size
        host.grow(head, size)
        host.fill(head, ZERO, size, _NONE)

    def _last(self, host: Host, batch: Batch, e: Expr) -> Expr:
        """The last coordinate of entry e."""
        i = host.load(batch.coordinates[-1], e, "i", Int64)
        # an entry that is not set has -1 - i in the first mode
        return op("max", i, op("not", i)) if len(batch.coordinates) == 1 else i

    def insert(self, host: Host, batch: Batch, place: tuple[Expr, ...]) -> tuple[Expr, Expr]:
        store = batch.store
        first = host.load(store.head, place[-1], "head")
        at = host.cell(first, "at")

        def is_other() -> Expr:
            e = host.get(at)
            return host.only_if(compare("ge", e, 0), lambda: differs(e), "other")

        def differs(e: Expr) -> Expr:
            found: Expr = FALSE
            for k, (array, i) in enumerate(zip(batch.coordinates[:-1], place, strict=False)):
                held = host.load(array, e, "i", Int64)
                if k == 0:
                    held = op("max", held, op("not", held))
                found = op("or", found, compare("ne", held, i))
            return found

        host.loop(is_other, lambda: host.set(at, host.load(store.next, host.get(at), "e")))
        is_new = host.let(compare("lt", host.get(at), 0), "new")

        def enter() -> None:
            e = host.get(store.taken)
            host.store(store.next, e, first)
            host.store(store.head, place[-1], e)
            host.set(at, e)

        host.branch(is_new, enter)
        return host.get(at, lower=ZERO), is_new

    def forget(self, host: Host, batch: Batch, e: Expr) -> None:
        before = host.load(batch.store.next, e, "e")
        host.store(batch.store.head, self._last(host, batch, e), before)

    def clear(self, host: Host, batch: Batch) -> None:
        def entry(e: Expr) -> None:
            host.store(batch.store.head, self._last(host, batch, e), _NONE)

        host.each_of(host.get(batch.store.taken), entry, "e")
