"""The Workspace level: several modes, written in any order and read in order (Workspaces'24 section 4).
Writes go to a batch of entries, which is sorted and merged when it is full."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from finchlang.base.errors import FinchError
from finchlang.base.locks import cached_property
from finchlang.host import construct as code
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels import layout as lay
from finchlang.levels.coordinate_levels import Coordinates
from finchlang.levels.element import Element
from finchlang.levels.level import Fiber, Storage
from finchlang.levels.workspace import DEFAULTS, POLICIES, Batch, WorkspacePolicy, check_capacity
from finchlang.operators.operator_table import Operator, named, operator, referred
from finchlang.syntax.nodes import Literal, Node
from finchlang.syntax.types import Int64, Pair, Type

#: The capacity of batches, if none is given. The first, and the smallest, has FIRST entries. As long as
#: nothing is stored and 7 in 8 entries have new places, a full batch is not merged but widened WIDER
#: times, up to MANY entries, which saves 3 to 5 ns an entry. After a merge the capacity is LARGE times
#: the number of stored entries if 7 in 8 were new and at most MANY are stored; that number if half were
#: new; else half of it. Memory is taken only as a batch fills.
FIRST, WIDER, LARGE, MANY = 4096, 16, 8, 2**20
# entries that room is made for at first
_FIRST_ROOM = 16


@dataclass(frozen=True)
class Workspace(Coordinates):
    """`Workspace{N}(lvl)`, `Workspace{N, policy, capacity}(lvl)` over an Element, outermost.

    Frozen, it is stored as in Coordinates, entry q being at position q of the child. Writes are inserted
    into a *batch* (`policy.py`) by the policy; there is memory for `room` entries. A batch of `limit`
    entries is sorted and merged into the stored entries, and so is the last one when it is frozen.
    Merging is in place. `open` counts the entries that are being written to.

    `operator` combines two values of one place: every entry of a batch begins with its identity. Without
    one, batches are never merged but grow, and the policy must find the entry of a place. The operator
    belongs to a program (`combine_operator.py`), not to the format's text; what a level stores does not
    depend on it.
    """

    policy: str = ""
    capacity: int = 0
    operator: Node | None = None

    counters = tuple((name, Int64) for name in ("stored", "taken", "room", "limit", "open"))

    combines = True
    OUTERMOST = "Workspace is the outermost level of a tensor, not below another"

    def __post_init__(self) -> None:
        if not isinstance(self.lvl, Element):
            modes = self.number + self.lvl.modes
            hint: str | None = f"one of as many modes: Workspace{{{modes}}}(...)"
            if self.lvl.is_leaf:
                is_bool = self.element_type.kind == "bool"
                hint = "Workspace{...}(Element(false))" if is_bool else None
            message = f"Workspace is over an Element, not over {self.lvl}"
            raise FinchError("type", message, hint=hint)
        if self.policy and self.policy not in POLICIES:
            hint = f"policies: {', '.join(POLICIES)}"
            raise FinchError("unknown name", f"there is no policy {self.policy}", hint=hint)
        check_capacity(self.policy, self.capacity)
        super().__post_init__()

    @cached_property
    def layout(self) -> lay.Layout:
        """The listed entries, and the arrays of a batch, which are unused once it is merged."""
        index = self.index if self.index.kind == "int" else Int64
        policies = [POLICIES[name] for name in ((self.policy,) if self.policy else DEFAULTS)]
        batch = [
            *((f"acc{k + 1}", index) for k in range(self.number)),
            *(("acc_val", self.element_type), ("number", Int64)),
            *(() if self.index == Int64 else (("scratch", Int64),)),
            *(array for policy in policies for array in policy.arrays),
        ]
        apart = (lay.Loose(name, type) for name, type in batch)
        return (lay.Offsets("ptr", Int64), *self.coordinates, *apart)

    def combining(self, operator: Node | None) -> Workspace:
        """The level for a program that combines values by `operator`."""
        merges = not self.policy or not POLICIES[self.policy].has_all_places
        return replace(self, operator=operator if merges else None)

    @property
    def chosen(self) -> WorkspacePolicy:
        """The policy named in the format, or else the default."""
        return POLICIES[self.policy or DEFAULTS[self.operator is None]]

    @property
    def described(self) -> str:
        policy, capacity = self.chosen, f"a capacity of {self.capacity}"
        if policy.has_all_places:
            capacity = "an entry for each place"
        elif self.operator is None:
            capacity = "one batch that grows, as updates cannot be merged"
        elif not self.capacity:
            capacity = f"batches of {FIRST} entries at first, then by what was new"
            if not policy.is_lean:
                capacity = f"batches of half of what is stored, at least {FIRST} entries"
        return f"policy {policy.name}, {capacity}"

    @property
    def beginning(self) -> Literal:
        """The value that entries of a batch begin with: the operator's identity, else the fill."""
        row = operator(self.operator) if self.operator is not None else None
        if row is None or not row.keeps_old:
            return self.fill
        value = identity(row, self.element_type)
        if value == self.fill.value:
            return self.fill
        return Literal(value, self.element_type.name)

    def _batch(self, store: Storage) -> Batch:
        batch = tuple(store.buffers[f"acc{k + 1}"] for k in range(self.number))
        row = operator(self.operator) if self.operator is not None else None
        return Batch(store, batch, self.buffers(store), row, self.beginning)

    # ------------------------------------------------------------------ the life cycle

    def declare(self, host: Host, store: Storage) -> None:
        host.grow(store.ptr, code.const(2))
        host.store(store.ptr, code.ZERO, code.ZERO)
        self._begin(host, store, code.ZERO)
        self.lvl.declare(host, store.child)

    def _begin(self, host: Host, store: Storage, stored: Expr) -> None:
        host.set(store.stored, stored)
        for cell in (store.taken, store.room, store.open):
            host.set(cell, code.ZERO)
        host.set(store.limit, code.const(self.capacity or FIRST))
        if self.chosen.numbers_places:
            self._check_places(host, store.sizes)
        self.chosen.begin(host, self._batch(store))

    def _check_places(self, host: Host, sizes: tuple[Expr, ...]) -> None:
        which = "the policy coord takes any"
        if self.operator is None and not self.chosen.has_all_places:
            which = "coord takes any, but cannot merge these updates"
        places = f"the places of a workspace of {' x '.join('{}' for _ in sizes)}"
        message = f"the policy {self.chosen.name} cannot number {places}; {which}"
        self.check_numbers(host, sizes, message, sizes)

    def assemble(self, host: Host, store: Storage, start: Expr, stop: Expr) -> None:
        """Nothing: its only fiber always exists."""

    def freeze(self, host: Host, store: Storage, count: Expr) -> None:
        if count is not code.ONE:
            raise FinchError("type", self.OUTERMOST)
        # so that `_merge` merges and does not widen the batch
        host.set(store.limit, code.const(MANY))
        self._merge(host, store)
        host.set(store.room, code.ZERO)
        host.store(store.ptr, code.ONE, host.get(store.stored))
        self.lvl.freeze(host, store.child, host.get(store.stored))

    def thaw(self, host: Host, store: Storage, count: Expr) -> None:
        stored = host.load(store.ptr, code.ONE, "stored", Int64, lower=code.ZERO)
        self._begin(host, store, stored)
        if self.operator is None:
            self._take_back(host, store)

    def _take_back(self, host: Host, store: Storage) -> None:
        """Move the stored entries back into a batch: without an operator updates cannot be merged."""
        batch, stored = self._batch(store), host.get(store.stored)
        self._grow(host, batch, host.let(code.maximum(stored, _FIRST_ROOM), "room"))

        def entry(q: Expr) -> None:
            place = tuple(host.load(a, q, "i", Int64) for a in self.buffers(store))
            e, is_new = self.chosen.insert(host, batch, place)
            host.branch(is_new, lambda: self._make(host, batch, e, place))
            self.chosen.keep(host, batch, e, place)
            host.store(store.acc_val, e, host.load(store.child.val, q, "val"))

        host.each_of(stored, entry, "q")
        host.set(store.stored, code.ZERO)

    # ------------------------------------------------------------------ batches

    def _merge(self, host: Host, store: Storage) -> None:
        """Merge the batch; or widen it if it may grow and its places are mostly new."""

        def merge() -> None:
            batch, chosen = self._batch(store), self.chosen
            taken, stored, limit = (host.get(c) for c in (store.taken, store.stored, store.limit))
            if not chosen.has_all_places:
                for name in ("number", "scratch"):
                    if name in store.buffers:
                        host.grow(store.buffers[name], taken)
                batch.make_way(host)
            order = chosen.sort(host, batch)

            def finish() -> None:
                chosen.merge(host, batch, order)
                chosen.clear(host, batch)
                host.set(store.taken, code.ZERO)
                if not self.capacity:
                    now = host.get(store.stored)
                    host.set(store.limit, _capacity(taken, stored, now, chosen.is_lean))

            if self.capacity or not chosen.is_lean:
                finish()
                return
            is_short = code.compare("lt", limit, MANY)
            is_first = code.conjunction(code.compare("eq", stored, 0), is_short)
            is_new = code.compare("ge", code.mul(order.places(host, batch), 8), code.mul(taken, 7))
            wider = code.minimum(code.mul(limit, WIDER), MANY)
            widen = partial(host.set, store.limit, wider)
            host.branch(code.op("and", is_first, is_new), widen, finish)

        host.branch(code.compare("gt", host.get(store.taken), 0), merge, is_rare=True)

    def _make_room(self, host: Host, store: Storage) -> None:
        """Make room for one more entry. A full batch is merged, unless several entries are being written
        to, or batches cannot be merged; then it grows. The code is recorded once for all writes."""
        numbers = host.get(store.taken), host.get(store.room)

        def full(given: tuple[Expr, ...], _: object) -> None:
            taken, room = given

            def grow() -> None:
                limit = host.get(store.limit)
                more, wider = (code.maximum(code.mul(room, by), _FIRST_ROOM) for by in (2, WIDER))
                is_below = code.compare("lt", room, limit)
                more = code.op("select", is_below, code.minimum(wider, limit), more)
                self._grow(host, self._batch(store), more)

            if self.operator is not None:
                is_last = code.compare("ge", taken, host.get(store.limit))
                is_alone = code.compare("eq", host.get(store.open), 0)
                is_full = code.op("and", is_last, is_alone)
                host.branch(is_full, lambda: self._merge(host, store))
            host.branch(code.compare("ge", host.get(store.taken), room), grow)

        rarely = partial(host.share, ("full", store), numbers, (), full)
        host.branch(code.compare("ge", *numbers), rarely, is_rare=True)

    def _grow(self, host: Host, batch: Batch, room: Expr) -> None:
        store, room = batch.store, host.let(room, "room")
        own = (store.buffers[name] for name in self.chosen.entries)
        for array in (*batch.coordinates, store.acc_val, *own):
            host.grow(array, room)
        host.set(store.room, room)

    def _make(self, host: Host, batch: Batch, e: Expr, place: tuple[Expr, ...]) -> None:
        """Make the new entry e, which is not set."""
        first, *others = batch.coordinates
        host.store(first, e, code.op("not", place[0]))
        for array, i in zip(others, place[1:], strict=True):
            host.store(array, e, i)
        host.store(batch.store.acc_val, e, code.const(self.beginning.value, self.element_type))
        host.set(batch.store.taken, code.add(e, 1))

    # ------------------------------------------------------------------ reading and writing

    def writer(self, fiber: Fiber) -> Node:
        return self.anywhere(fiber)

    def enter(self, host: Host, fiber: Fiber, coordinates: tuple[Expr, ...]) -> tuple[Node, Any]:
        """The entry is made before anything is written to it, since before it is left, another access may
        use the same place, or insert another entry. Meanwhile (`open`) nothing is merged."""
        store = fiber.store
        place = tuple(host.let(code.sub(i, 1), "i", lower=code.ZERO) for i in reversed(coordinates))
        if not self.chosen.has_all_places:
            self._make_room(host, store)
        batch = self._batch(store)
        e, is_new = self.chosen.insert(host, batch, place)
        host.branch(is_new, lambda: self._make(host, batch, e, place))
        host.set(store.open, code.add(host.get(store.open), 1))
        dirty = host.cell(code.FALSE, "dirty")

        def forget() -> None:
            self.chosen.forget(host, batch, e)
            host.set(store.taken, e)

        def drop() -> None:
            is_last = code.compare("eq", code.add(e, 1), host.get(store.taken))
            unset = code.compare("lt", host.load(batch.coordinates[0], e, "i", Int64), 0)
            host.branch(code.op("and", is_last, unset), forget)

        def epilogue(host: Host) -> None:
            host.set(store.open, code.sub(host.get(store.open), 1))

            def keep() -> None:
                self.chosen.keep(host, batch, e, place)

            host.branch(host.get(dirty), keep, lambda: host.branch(is_new, drop))

        return self.chosen.value(batch, e, dirty), epilogue


def _capacity(taken: Expr, before: Expr, stored: Expr, is_lean: bool) -> Expr:
    """The capacity after a batch of `taken` entries, which made of `before` stored ones `stored`."""
    if not is_lean:
        return code.maximum(code.op("shr", stored, code.ONE), FIRST)
    new = code.sub(stored, before)
    is_few = code.compare("le", stored, MANY)
    many = code.op("and", code.compare("ge", code.mul(new, 8), code.mul(taken, 7)), is_few)
    some = code.compare("ge", code.mul(new, 2), taken)
    large, small = code.mul(stored, LARGE), code.op("shr", stored, code.ONE)
    chosen = code.op("select", many, large, code.op("select", some, stored, small))
    return code.maximum(chosen, FIRST)


def identity(row: Operator, type: Type) -> Any:
    """The identity e of an operator, with e op x = x op e = x for all x of `type`, or None."""
    if row.identity is None or row.identity.at is not None:
        return None
    value = row.identity.value(type)
    return value if isinstance(value, Pair) == (type.kind == "pair") else None


def merging(op: Node) -> Node | None:
    """The operator that combines two values, each made from the identity by updates with `op`: `op`
    itself, or the operation of its group (+ for -); None if there is none."""
    row = operator(op)
    group = None if row is None else referred(row.group)
    if group is not None and group is not row:
        return named(group.reference) if referred(group.undone_by) is row else None
    return op if row is not None and (row.associative or not row.keeps_old) else None
