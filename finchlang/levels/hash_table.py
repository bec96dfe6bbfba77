"""A hash table in host operations: open addressing with linear probing over Int64 keys.

A level that has one has these arrays:

- `key`: the key of each entry, in the order of insertion; `-1 - key` if the entry is not set, because
  nothing was written there (yet); UNUSED if it is not in the table;
- `tbl`: two numbers for each slot, a key and the number e of its entry, or `-1 - e` if that is not set;
  both are -1 in an empty slot;
- `slots`: one number, the slots in use: a power of two, at least twice the number of entries.

Keys are at least 0. The counter `stored` is the number of entries. The table begins small and grows with
its entries, so that clearing it is cheap.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from finchlang.host.construct import ONE, ZERO, add, compare, const, mul, op, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels.level import ByName, Storage

FIRST_SLOTS = 8
GROWTH = 4
UNUSED = -(2**63)
EMPTY = const(-1)
#: 2^64 divided by the golden ratio, as an Int64: Knuth's multiplicative hashing (TAOCP 6.4)
_MULTIPLIER = 0x9E3779B97F4A7C15 - 2**64
_HALF = 32


def hashed(key: Expr) -> Expr:
    """A hash of `key` whose low bits depend on all bits of it."""
    mixed = mul(op("xor", key, op("shr", key, const(_HALF))), const(_MULTIPLIER))
    # a product's low bits depend on low bits alone, so the table is indexed by its high half
    return op("shr", mixed, const(_HALF))


def resize(host: Host, store: Storage, slots: Expr) -> None:
    host.grow(store.slots, ONE)
    host.store(store.slots, ZERO, slots)
    words = host.let(mul(slots, 2), "words")
    host.grow(store.tbl, words)
    host.fill(store.tbl, ZERO, words, EMPTY)


def find(host: Host, store: Storage, key: Expr) -> Expr:
    """The index in `tbl` of `key`, or of the empty slot where it belongs."""
    mask = host.let(sub(host.load(store.slots, ZERO, "slots"), 1), "mask")
    start = op("and", hashed(key), mask)
    cell = host.cell(mul(start, 2), "at")

    def misses() -> Expr:
        held = host.load(store.tbl, host.get(cell), "held")
        return op("and", compare("ne", held, key), compare("ne", held, EMPTY))

    def advance() -> None:
        around = add(mul(mask, 2), 1)  # wraps an index into the table
        host.set(cell, op("and", add(host.get(cell), 2), around))

    host.loop(misses, advance)
    return host.get(cell, lower=ZERO)


def make_room(host: Host, store: Storage) -> None:
    """Make room for one more entry. At most half of the slots are used, so that probes end soon."""
    slots = host.load(store.slots, ZERO, "slots")
    crowded = compare("ge", mul(host.get(store.stored), 2), slots)
    host.branch(crowded, lambda: rebuild(host, store, host.let(mul(slots, GROWTH), "slots")))


def rebuild(host: Host, store: Storage, slots: Expr) -> None:
    """Rebuild the table with `slots` slots from the keys."""
    resize(host, store, slots)

    def entry(e: Expr) -> None:
        held = host.load(store.key, e, "held")

        def put() -> None:
            is_set = host.let(compare("ge", held, 0), "set")
            key = host.let(op("select", is_set, held, op("not", held)), "key")
            at = find(host, store, key)
            host.store(store.tbl, at, key)
            host.store(store.tbl, add(at, 1), op("select", is_set, e, op("not", e)))

        host.branch(compare("ne", held, const(UNUSED)), put)

    host.each_of(host.get(store.stored), entry, "e")


def enter(host: Host, store: Storage, key: Expr) -> tuple[Expr, Expr, Expr]:
    """The entry of `key`, made (not set) if there is none: its number; whether it is set, and new."""
    make_room(host, store)
    at = find(host, store, key)
    is_new = host.let(compare("ne", host.load(store.tbl, at, "held"), key), "new")

    def insert() -> None:
        e = host.get(store.stored)
        host.grow(store.key, add(e, 1))
        host.store(store.key, e, op("not", key))
        host.store(store.tbl, at, key)
        host.store(store.tbl, add(at, 1), op("not", e))
        host.set(store.stored, add(e, 1))

    host.branch(is_new, insert)
    found = host.load(store.tbl, add(at, 1), "found")
    is_set = host.let(compare("ge", found, 0), "set")
    return host.let(op("select", is_set, found, op("not", found)), "e", lower=ZERO), is_set, is_new


def mark(host: Host, store: Storage, at: Expr, key: Expr, e: Expr, is_set: bool) -> None:
    """Mark the entry `e` of `key`, at `at` in the table, as set or not set."""
    host.store(store.tbl, add(at, 1), e if is_set else op("not", e))
    host.store(store.key, e, key if is_set else op("not", key))


def forget(host: Host, store: Storage, at: Expr, e: Expr) -> None:
    """Remove the entry `e`, at `at` in the table, if it is the last and not set. Every other key was put
    there before it, so no probe for one passes over its slot."""
    unset = compare("lt", host.load(store.tbl, add(at, 1), "found"), 0)
    is_last = compare("eq", add(e, 1), host.get(store.stored))

    def remove() -> None:
        host.store(store.tbl, at, EMPTY)
        host.store(store.tbl, add(at, 1), EMPTY)
        host.set(store.stored, e)

    host.branch(op("and", unset, is_last), remove)


# ---------------------------------------------------------------------------- the same, with NumPy


def _hashed(keys: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return ((keys ^ (keys >> _HALF)) * np.int64(_MULTIPLIER)) >> _HALF


def build(keys: np.ndarray) -> dict[str, Any]:
    """The storage of a table with these keys, all entries set."""
    slots = FIRST_SLOTS
    while slots < 2 * len(keys):
        slots *= GROWTH
    table = np.full((slots, 2), -1, np.int64)
    left = np.arange(len(keys))
    at = _hashed(keys) & (slots - 1)
    while len(left):
        free = table[at, 0] < 0
        table[at[free], 1] = left[free]  # of several keys for a slot NumPy keeps the last: it won
        won = table[at, 1] == left
        won &= free
        table[at[won], 0] = keys[left[won]]
        left, at = left[~won], (at[~won] + 1) & (slots - 1)
    arrays = {"key": keys, "tbl": table.reshape(-1), "slots": np.array([slots], np.int64)}
    return {**arrays, "stored": len(keys)}


def problem(storage: ByName) -> str | None:
    """Why compiled code must not use this table, or None: if a search fails, or does not end."""
    key, stored = storage["key"], storage["stored"]
    if not 0 <= stored <= len(key):
        return f"key has {len(key)} entries, {stored} are stored"
    if len(storage["slots"]) < 1:
        return "slots is empty"
    slots = int(storage["slots"][0])
    if slots < 1 or slots & (slots - 1) or len(storage["tbl"]) < 2 * slots:
        return f"tbl has {len(storage['tbl'])} numbers; {slots} slots are no power of two it holds"
    table = storage["tbl"][: 2 * slots].reshape(-1, 2)
    entries = np.flatnonzero(key[:stored] != UNUSED)
    taken = table[:, 0] != -1
    if np.count_nonzero(taken) != len(entries) or len(entries) == slots:
        return f"tbl has {np.count_nonzero(taken)} keys in {slots} slots for {len(entries)} entries"
    if np.any(table[~taken, 1] != -1) or np.any(table[taken, 0] < 0):
        return "tbl must have keys of at least 0, and -1 twice where it is empty"
    held = key[entries]
    keys, numbers = np.where(held < 0, ~held, held), np.where(held < 0, ~entries, entries)
    at = _hashed(keys) & (slots - 1)
    for _ in range(slots):
        missed = table[at, 0] != keys
        if np.any(table[at[missed], 0] == -1):
            return "tbl has no slot for some key"
        if np.any(table[at[~missed], 1] != numbers[~missed]):
            return "tbl has another entry for some key"
        keys, numbers = keys[missed], numbers[missed]
        at = (at[missed] + 1) & (slots - 1)
        if not len(keys):
            break
    return None
