"""The SparseHash level: a hash table of the stored coordinates, and a sorted list of them
(Finch'25 Table 4). Written in any order, in memory proportional to what is written."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, reduce
from math import prod
from typing import Any

import numpy as np

from finchlang.base.errors import FinchError
from finchlang.base.locks import cached_property
from finchlang.host.construct import ZERO, add, cast, compare, const, mul, op, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels import hash_table, layout as lay, looplets as lp
from finchlang.levels.coordinate_levels import MOST, Coordinates
from finchlang.levels.level import READ, ByName, Fiber, Given, Sizes, Storage
from finchlang.levels.sorted_coordinates import delimit, each_listed
from finchlang.syntax.nodes import Node
from finchlang.syntax.types import Int64


@dataclass(frozen=True)
class SparseHash(Coordinates):
    """`SparseHash(lvl)`, `SparseHash{N}(lvl)`: coordinate i of fiber p has the *key* p * size + i; of N
    modes the coordinates are combined to one number in the same way, the last mode most significant.

    The table (`hash_table.py`) maps keys to entries; the number of an entry, in the order of insertion,
    is its position in the child. Freezing lists the set entries in order: `pos[q]` is the position of the
    q-th, and the coordinates are as in Coordinates.
    """

    counters = (("stored", Int64),)
    clears_entries = True
    counts_lengths = False  # the table's length is in the array `slots`

    @cached_property
    def layout(self) -> lay.Layout:
        listing = lay.Offsets("ptr", Int64, while_written=lay.NOTHING), *self.coordinates
        return (
            *(lay.Aside((*listing, lay.ChildPositions("pos", Int64))), lay.Counted("stored")),
            lay.Loose("key", Int64, lambda storage: storage["stored"]),
            lay.Loose("tbl", Int64, lambda storage: 2 * int(storage["slots"][0])),
            lay.Loose("slots", Int64, lambda storage: 1),
        )

    @property
    def parameters(self) -> list[Any]:
        return super().parameters[self.number == 1 :]

    def child_position(self, host: Host, store: Storage, q: Expr) -> Expr:
        return host.load(store.pos, q, "position", lower=ZERO)

    def declare(self, host: Host, store: Storage) -> None:
        host.set(store.stored, ZERO)
        hash_table.resize(host, store, const(hash_table.FIRST_SLOTS))
        self.lvl.declare(host, store.child)

    def assemble(self, host: Host, store: Storage, start: Expr, stop: Expr) -> None:
        """Nothing is made."""
        sizes = store.sizes
        self.check_numbers(host, (add(stop, 1), *sizes), _too_many(len(sizes)), sizes)

    def freeze(self, host: Host, store: Storage, count: Expr) -> None:
        """Sort the keys of the set entries in `pos`, and put their positions in their place."""
        listed, span = host.cell(ZERO, "listed"), reduce(mul, store.sizes[::-1])
        host.grow(store.pos, host.get(store.stored))

        def enlist(e: Expr) -> None:
            key, q = host.load(store.key, e, "key"), host.get(listed)
            # stored without a branch; the next key overwrites it if this entry is not set
            host.store(store.pos, q, key)
            host.set(listed, add(q, cast(compare("ge", key, 0), Int64)))

        def split(q: Expr, base: Expr) -> None:
            self._split(host, store, base, q)

        host.each_of(host.get(store.stored), enlist, "e")
        stop = host.get(listed)
        host.sort(store.pos, ZERO, stop)
        host.grow(store.ptr, add(count, 1))
        delimit(host, store.ptr, store.pos, listed, span, count)
        for idx in self.buffers(store):
            host.grow(idx, stop)
        each_listed(host, store.ptr, span, count, split)
        self.lvl.freeze(host, store.child, host.get(store.stored))

    def _split(self, host: Host, store: Storage, base: Expr, q: Expr) -> None:
        """Replace the key at `pos[q]` by its position, and store its coordinates."""
        key = host.load(store.pos, q, "key")
        rest: Expr = host.let(sub(key, base), "rest")
        sizes, arrays = store.sizes, self.buffers(store)
        for k in range(self.number - 1, 0, -1):
            below = reduce(mul, sizes[k - 1 :: -1])
            i = host.let(op("idiv", rest, below), "i")
            host.store(arrays[k], q, i)
            rest = host.let(sub(rest, mul(i, below)), "rest")
        host.store(arrays[0], q, rest)
        at = hash_table.find(host, store, key)
        host.store(store.pos, q, host.load(store.tbl, add(at, 1), "e"))

    def thaw(self, host: Host, store: Storage, count: Expr) -> None:
        """Only the child is thawed: the table is unchanged by freezing."""
        self.lvl.thaw(host, store.child, host.get(store.stored))

    def truncate(self, host: Host, store: Storage, count: Expr) -> None:
        """Rebuild the table from the list of the entries that are kept."""
        host.fill(store.key, ZERO, host.get(store.stored), const(hash_table.UNUSED))
        sizes, arrays = store.sizes, self.buffers(store)

        def entry(q: Expr, base: Expr) -> None:
            key: Expr = ZERO
            for idx, size in zip(reversed(arrays), reversed(sizes), strict=True):
                key = add(mul(key, size), host.load(idx, q, "i", Int64))
            host.store(store.key, self.child_position(host, store, q), add(base, key))

        each_listed(host, store.ptr, reduce(mul, sizes[::-1]), count, entry)
        hash_table.rebuild(host, store, host.load(store.slots, ZERO, "slots"))

    def unfurl(self, host: Host, fiber: Fiber, stop: Expr, protocol: str | None) -> Node:
        if fiber.mode == READ and protocol != "follow":
            return super().unfurl(host, fiber, stop, protocol)
        return self.anywhere(fiber)

    def payload(self, host: Host, fiber: Fiber, coordinates: tuple[Expr, ...]) -> Node:
        key = fiber.position
        for i, size in zip(coordinates, reversed(fiber.store.sizes), strict=True):
            key = host.let(add(mul(key, size), sub(i, 1)), "key", lower=ZERO)
        if fiber.mode != READ:
            return lp.Thunk(lambda host: self._enter(host, fiber, key))
        at = hash_table.find(host, fiber.store, key)
        e = host.load(fiber.store.tbl, add(at, 1), "e")
        return lp.Switch(compare("ge", e, 0), fiber.child(e), self.fill)

    def _enter(self, host: Host, fiber: Fiber, key: Expr) -> tuple[Node, Any]:
        """The entry at `key` is made before anything is written to it, since before it is left, another
        access may use the same key, or insert another one."""
        store = fiber.store
        e, before, is_new = hash_table.enter(host, store, key)

        host.branch(is_new, lambda: self.lvl.assemble(host, store.child, e, e))
        dirty = host.cell(before, "dirty")

        def epilogue(host: Host) -> None:
            now = host.get(dirty)
            host.branch(op("not", op("and", before, now)), lambda: settle(now))

        def settle(now: Expr) -> None:
            at = hash_table.find(host, store, key)

            def confirm() -> None:
                hash_table.mark(host, store, at, key, e, True)
                fiber.mark(host)

            def drop() -> None:
                host.branch(is_new, lambda: hash_table.forget(host, store, at, e))
                if self.lvl.is_pattern:  # true overwritten with false
                    unset = partial(hash_table.mark, host, store, at, key, e, False)
                    host.branch(before, unset)

            host.branch(now, confirm, drop)

        return fiber.child(e, dirty), epilogue

    def _keys(self, arrays: ByName, count: int, sizes: Sizes) -> np.ndarray:
        """The keys of the coordinates listed for `count` fibers."""
        keys = np.repeat(np.arange(count), np.diff(arrays["ptr"][: count + 1]))
        for name, size in reversed(list(zip(self.names(), sizes, strict=True))):
            keys = keys * size + arrays[name][: len(keys)]
        return keys

    def pack(self, given: Given) -> tuple[ByName, np.ndarray, Any]:
        if prod((given.fibers, *given.sizes)) > MOST:
            raise FinchError("dimension", _too_many(self.number).format(*given.sizes))
        arrays, entries, kept = super().pack(given)
        keys = self._keys(arrays, given.fibers, given.sizes)
        return arrays | hash_table.build(keys) | {"pos": np.arange(len(keys))}, entries, kept

    def problem(self, storage: ByName, count: int, sizes: Sizes) -> str | None:
        found = super().problem(storage, count, sizes) or hash_table.problem(storage)
        if found is not None:
            return found
        keys, key = self._keys(storage, count, sizes), storage["key"][: storage["stored"]]
        pos = storage["pos"][: len(keys)]
        if len(keys) and (pos.min() < 0 or pos.max() >= len(key)):
            return f"positions must be in 0..{len(key) - 1}"
        if len(keys) != np.count_nonzero(key >= 0):
            held = np.count_nonzero(key >= 0)
            return f"{len(keys)} coordinates are listed, {held} are in the table"
        if np.any(key[pos] != keys):
            return "the table has other coordinates at the positions listed"
        return None


def _too_many(modes: int) -> str:
    sizes = " x ".join("{}" for _ in range(modes))
    more = "" if modes == 1 else "; one SparseHash in another has a table for each mode"
    return f"SparseHash cannot number the places of its fibers of {sizes}{more}"
