"""The Interleaved level: fibers may be written alternately, each in order; freezing stores them one after
the other by a counting sort (Gustavson's transpose)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from finchlang.base.errors import FinchError
from finchlang.base.locks import cached_property
from finchlang.host import construct as code
from finchlang.host.interface import Host, bit_length
from finchlang.host.ir import Buffer, Expr
from finchlang.levels import layout as lay, looplets as lp
from finchlang.levels.element import Element
from finchlang.levels.level import UPDATE, Fiber, Storage
from finchlang.levels.sparse_coo import SparseCOO
from finchlang.syntax.nodes import Node
from finchlang.syntax.types import Int32, Int64

#: At most 2^_BITS buckets, so that the ends being written stay in the processor's caches; each grows by
#: _CHUNK entries at a time. That is no power of two, or the ends of buckets that are about equally full
#: would fall into the same cache sets.
_BITS, _CHUNK = 8, 1032


@dataclass(frozen=True)
class Interleaved(SparseCOO):
    """`Interleaved{N}(lvl)`, over an Element: stored as SparseCOO, but its fibers may be written in any
    order, each of them in order.

    While it is written, the entries of fiber p are in the bucket p >> shift, with those of its
    neighbours, in the order of writing. A bucket b is a list of chunks: the first begins at first[b], the
    one after chunk c at next[c]; the last is filled up to, not including, at[b], and ends at end[b].
    Entry e has the coordinates new1[e] and so on, the fiber new_fiber[e] (counted within the bucket) and
    the value new_val[e]. Freezing counts the entries of each fiber and moves them to their places, bucket
    by bucket, through the stage arrays.
    """

    counters = tuple((name, Int64) for name in ("stored", "taken", "buckets", "shift"))
    takes_any_fiber = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.lvl, Element):
            raise FinchError("type", f"Interleaved is over an Element, not over {self.lvl}")

    @cached_property
    def layout(self) -> lay.Layout:
        """The layout of SparseCOO. The arrays of buckets are unused once it is frozen."""
        modes, value = range(1, self.number + 1), self.element_type
        buckets = [
            *((f"new{k}", None) for k in modes),
            *(("new_val", value), ("new_fiber", Int32)),
            *((f"stage{k}", None) for k in modes),
            ("stage_val", value),
            *((name, Int64) for name in ("first", "at", "end", "next")),
        ]
        return (*super().layout, *(lay.Loose(name, type) for name, type in buckets))

    def _arrays(self, store: Storage, name: str) -> tuple[Buffer, ...]:
        return tuple(store.buffers[f"{name}{k + 1}"] for k in range(self.number))

    def assemble(self, host: Host, store: Storage, start: Expr, stop: Expr) -> None:
        super().assemble(host, store, start, stop)
        buckets = host.get(store.buckets, lower=code.ZERO)

        def first() -> None:
            bits = bit_length(host, code.maximum(stop, 0))
            host.set(store.shift, code.maximum(code.sub(bits, _BITS), 0))

        # only the first time: entries that are in buckets were put there by this shift
        host.branch(code.compare("eq", buckets, 0), first)
        last = code.op("shr", stop, code.below_64(host.get(store.shift)))
        count = host.let(code.add(last, 1), "buckets")

        def more() -> None:
            host.grow(store.first, count)
            for array in (store.at, store.end):
                host.grow(array, count)
                host.fill(array, buckets, count, code.ZERO)
            host.set(store.buckets, count)

        host.branch(code.compare("lt", buckets, count), more)

    def freeze(self, host: Host, store: Storage, count: Expr) -> None:
        ptr, shift = store.ptr, code.below_64(host.get(store.shift))
        new = (*self._arrays(store, "new"), store.new_val)
        stage = (*self._arrays(store, "stage"), store.stage_val)
        stored = (*self.buffers(store), store.child.val)
        for array in stored:
            host.grow(array, host.get(store.taken))
        total = host.cell(code.ZERO, "total")

        def bucket(b: Expr) -> None:
            first = host.let(code.add(code.op("shl", b, shift), 1), "first", lower=code.ONE)
            behind = code.op("min", code.op("shl", code.add(b, 1), shift), count)
            behind = host.let(behind, "behind")
            start = host.get(total, lower=code.ZERO)

            def pointer(e: Expr) -> Expr:
                fiber = host.load(store.new_fiber, e, "fiber", Int64)
                return host.let(code.add(fiber, first), "p", lower=code.ONE)

            def tally(e: Expr) -> None:
                p = pointer(e)
                host.store(ptr, p, code.add(host.load(ptr, p, "count"), 1))

            def begin(p: Expr) -> None:
                q = host.get(total)
                host.set(total, code.add(q, host.load(ptr, p, "count")))
                host.store(ptr, p, q)

            def put(e: Expr) -> None:
                p = pointer(e)
                q = host.load(ptr, p, "q", lower=start)
                host.store(ptr, p, code.add(q, 1))
                at = host.let(code.sub(q, start), "at", lower=code.ZERO)
                for one, other in zip(stage, new, strict=True):
                    host.store(one, at, host.load(other, e, "v"))

            self._each(host, store, b, tally)
            host.count(first, behind, begin, "p")
            entries = host.let(code.sub(host.get(total), start), "entries", lower=code.ZERO)
            for array in stage:
                host.grow(array, entries)
            self._each(host, store, b, put)

            def move(array: Buffer, source: Buffer, k: Expr) -> None:
                to = host.let(code.add(start, k), "to")
                host.store(array, to, host.load(source, k, "v"))

            for array, source in zip(stored, stage, strict=True):
                host.each_of(entries, partial(move, array, source), "k")

        host.each_of(host.get(store.buckets), bucket, "b")
        host.set(store.stored, host.get(total))
        self.lvl.freeze(host, store.child, host.get(store.stored))

    def _each(self, host: Host, store: Storage, b: Expr, body: Callable[[Expr], None]) -> None:
        """Run `body` for each entry of bucket b, in the order of writing."""
        at, end = (host.load(array, b, "end", lower=code.ZERO) for array in (store.at, store.end))

        def chunks() -> None:
            start = host.cell(host.load(store.first, b, "first"), "start")

            def one() -> None:
                e = host.get(start, lower=code.ZERO)
                host.count(e, code.add(e, _CHUNK - 1), body, "e")
                chunk = code.op("idiv", e, code.const(_CHUNK))
                host.set(start, host.load(store.next, chunk, "next"))

            host.loop(lambda: code.compare("lt", code.add(host.get(start), _CHUNK), end), one)
            host.count(host.get(start, lower=code.ZERO), code.sub(at, 1), body, "e")

        host.branch(code.compare("gt", end, 0), chunks)

    def writer(self, fiber: Fiber) -> Node:
        return lp.delayed(lambda host: self.anywhere(fiber))

    def enter(self, host: Host, fiber: Fiber, coordinates: tuple[Expr, ...]) -> tuple[Node, Any]:
        store, p = fiber.store, fiber.position
        shift = code.below_64(host.get(store.shift))
        b = host.let(code.op("shr", p, shift), "b", lower=code.ZERO)
        at, end = (host.load(array, b, "end", lower=code.ZERO) for array in (store.at, store.end))
        new, taken = host.cell(at, "at"), host.get(store.taken)
        is_full = host.let(code.compare("eq", at, end), "full")

        def room() -> None:
            host.set(new, taken)
            more = host.let(code.add(taken, _CHUNK), "more")
            for array in (*self._arrays(store, "new"), store.new_fiber, store.new_val):
                host.grow(array, more)

        host.branch(is_full, room)
        e = host.get(new, lower=code.ZERO)
        # an update reads it first
        host.store(store.new_val, e, code.const(self.fill.value, self.element_type))
        dirty = host.cell(code.FALSE, "dirty")

        def begin() -> None:
            """The new room becomes the bucket's next chunk."""
            chunk = host.let(code.op("idiv", end, code.const(_CHUNK)), "chunk", lower=code.ZERO)
            host.branch(
                code.compare("eq", end, 0),
                lambda: host.store(store.first, b, e),
                lambda: host.store(store.next, code.sub(chunk, 1), e),
            )
            host.set(store.taken, code.add(taken, _CHUNK))
            host.grow(store.next, code.op("idiv", code.add(taken, _CHUNK), code.const(_CHUNK)))
            host.store(store.end, b, code.add(e, _CHUNK))

        def keep() -> None:
            host.branch(is_full, begin)
            for array, i in zip(self._arrays(store, "new"), reversed(coordinates), strict=True):
                host.store(array, e, code.sub(i, 1))
            host.store(store.new_fiber, e, code.sub(p, code.op("shl", b, shift)))
            host.store(store.at, b, code.add(e, 1))
            fiber.mark(host)

        values = Storage(self.lvl, {"val": store.new_val}, {})
        return Fiber(values, e, dirty, UPDATE), lambda host: host.branch(host.get(dirty), keep)
