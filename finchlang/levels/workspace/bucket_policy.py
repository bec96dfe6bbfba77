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
    """head[i] is the newest entry with last coordinate i; it is valid only if it is below `taken` and has
    that coordinate. So `head` never has to be cleared (Briggs and Torczon's sparse sets). next[e] is the
    entry with the same last coordinate before e, or -1."""

    name = "bucket"
    arrays = (("head", Int64), ("next", Int64))
    entries = ("next",)
    combines = True
    anything = frozenset(("head",))

    def begin(self, host: Host, batch: Batch) -> None:
        host.grow(batch.store.head, batch.sizes[-1])

    def _head(self, host: Host, batch: Batch, last: Expr) -> Expr:
        """The newest entry with this last coordinate, or -1."""
        head = host.load(batch.store.head, last, "head")
        taken = host.get(batch.store.taken)

        def known() -> Expr:
            i = host.load(batch.coordinates[-1], head, "i", Int64)
            if len(batch.coordinates) == 1:  # an entry that is not set has -1 - i
                i = op("max", i, op("not", i))
            return op("select", compare("eq", i, last), head, _NONE)

        inside = op("and", compare("ge", head, 0), compare("lt", head, taken))
        return host.only_if(inside, known, "e", _NONE)

    def insert(self, host: Host, batch: Batch, place: tuple[Expr, ...]) -> tuple[Expr, Expr]:
        store = batch.store
        first = self._head(host, batch, place[-1])
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
        last = host.load(batch.coordinates[-1], e, "i", Int64)
        if len(batch.coordinates) == 1:
            last = op("not", last)  # an entry that is not set has -1 - i
        host.store(batch.store.head, last, host.load(batch.store.next, e, "e"))
