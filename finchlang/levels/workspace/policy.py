"""The interface of policies, and the batch that they work on: the entries that a workspace has taken and
not merged yet (the accumulation array of Workspaces'24 section 4.2)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from itertools import pairwise
from typing import Any, ClassVar

from finchlang.base.records import record
from finchlang.host import construct as code
from finchlang.host.interface import Host, bit_length
from finchlang.host.ir import Buffer, Cell, Expr
from finchlang.levels.level import UPDATE, Fiber, Storage
from finchlang.operators.operator_table import Operator
from finchlang.syntax.nodes import Literal
from finchlang.syntax.types import Int64, Type

#: how many bits an entry's number and place may take together in a word of `number`
_WORD = 62


@record(eq=False)
class Batch:
    """The entries of a workspace that are not merged yet. Entry e, for 0 <= e < `taken`, has the
    coordinates acc1[e], acc2[e] and so on (from 0, first mode first) and the value acc_val[e]. An entry
    to which nothing was written (yet) is not *set*: then acc1[e] is -1 - the coordinate.

    `coordinates`, and `stored` (the coordinate arrays of merged entries) have an item for each mode, first
    mode first. Values of one place are combined by `operator`, if there is one, and begin as
    `beginning`.
    """

    store: Storage
    coordinates: tuple[Buffer, ...]
    stored: tuple[Buffer, ...]
    operator: Operator | None
    beginning: Literal

    def number(self, place: tuple[Expr, ...]) -> Expr:
        """The number i1 + size1 * (i2 + size2 * ...) of a place, which sorts as the place does."""
        places = zip(place[-2::-1], self.store.sizes[-2::-1], strict=True)
        return reduce(lambda number, i: code.add(code.mul(number, i[1]), i[0]), places, place[-1])

    def place(self, host: Host, e: Expr) -> list[Expr]:
        """The coordinates of entry e, which is set."""
        return [host.load(a, e, "i", Int64, lower=code.ZERO) for a in self.coordinates]

    def combined(self, host: Host, old: Expr, new: Expr, given: Expr = code.TRUE) -> Expr:
        """`old op new`, checked to have a result where `given` holds."""
        row = self.operator
        if row is None or not row.keeps_old:
            return new
        return code.cast(row.applied((old, new), host, None, given), new.type)

    @property
    def all(self) -> tuple[Buffer, ...]:
        """The arrays of merged entries: coordinates, then values."""
        return (*self.stored, self.store.child.val)

    @property
    def scratch(self) -> Buffer:
        """Scratch memory for sorting: the array that new coordinates will go to, if its type is Int64."""
        return self.store.buffers.get("scratch", self.stored[0])

    def make_way(self, host: Host) -> None:
        """Move the merged entries behind room for as many entries as the batch has."""
        stored, taken = host.get(self.store.stored), host.get(self.store.taken)
        for array in self.all:
            host.grow(array, host.let(code.add(stored, taken), "end"))

        def move(k: Expr) -> None:
            at = host.let(code.sub(code.sub(stored, 1), k), "from", lower=code.ZERO)
            to = host.let(code.add(at, taken), "to", lower=code.ZERO)
            for array in self.all:
                host.store(array, to, host.load(array, at, "v"))

        # from the last on, as the ranges may overlap
        host.each_of(stored, move, "k")

    def list_set(self, host: Host, content: Callable[[Expr], Expr] = lambda e: e) -> Expr:
        """Put the set entries, or `content` of each, into `number` in order; gives how many there are."""
        found = host.cell(code.ZERO, "found")

        def entry(e: Expr) -> None:
            n = host.get(found, lower=code.ZERO)
            # stored without a branch; the next entry overwrites it if this one is not set
            host.store(self.store.number, n, content(e))
            is_set = code.compare("ge", host.load(self.coordinates[0], e, "i", Int64), 0)
            host.set(found, code.op("select", is_set, code.add(n, 1), n))

        host.each_of(host.get(self.store.taken), entry, "e")
        return host.get(found, lower=code.ZERO)

    def bits(self, host: Host) -> list[Expr]:
        """How many bits an entry's number has, then with the coordinate of the first mode, and so on."""
        at = [bit_length(host, code.sub(host.get(self.store.taken), 1))]
        for size in self.store.sizes:
            at.append(host.let(code.add(at[-1], bit_length(host, code.sub(size, 1))), "at"))
        return at

    def sort_numbers(self, host: Host, at: list[Expr]) -> Expr:
        """Put the set entries into `number`, sorted by coordinates, the last mode being the first key;
        stable. Gives how many there are. Given the `bits`, as many of a coordinate as there is room for
        above an entry's number are sorted by at a time."""
        count, number = self.list_set(host), self.store.number
        last, bits = code.sub(count, 1), code.below_64(at[0])
        own = host.let(code.sub(code.op("shl", code.ONE, bits), 1), "own")

        def change(content: Callable[[Expr], Expr]) -> None:
            def word(q: Expr) -> None:
                e = host.load(number, q, "e", lower=code.ZERO)
                host.store(number, q, content(e))

            host.count(code.ZERO, last, word, "q")

        def by_mode(keys: Buffer, width: Expr) -> None:
            low = host.cell(code.ZERO, "low")

            def digit() -> None:
                done = host.get(low, lower=code.ZERO)
                top = host.let(code.minimum(_WORD, code.add(at[0], code.sub(width, done))), "top")
                by = code.below_64(done)
                mask = code.sub(code.op("shl", code.ONE, code.below_64(code.sub(top, at[0]))), 1)

                def packed(e: Expr) -> Expr:
                    part = code.op("and", code.op("shr", host.load(keys, e, "i", Int64), by), mask)
                    return code.op("or", e, code.op("shl", part, bits))

                change(packed)
                host.sort_bits(number, self.scratch, code.ZERO, count, at[0], top)
                change(lambda word: code.op("and", word, own))
                host.set(low, code.add(done, code.sub(top, at[0])))

            host.loop(lambda: code.compare("lt", host.get(low), width), digit)

        for keys, (first, behind) in zip(self.coordinates, pairwise(at), strict=True):
            by_mode(keys, code.sub(behind, first))
        return count


@record
class Order:
    """How `number` lists the `count` set entries in order. Its words are entry numbers; if `fits` holds,
    the bits above the number hold the place, with each coordinate beginning at one of the bits `at`, the
    last mode's highest. Then places need not be loaded from random positions."""

    count: Expr
    fits: Expr = code.FALSE
    at: tuple[Expr, ...] = ()

    def places(self, host: Host, batch: Batch) -> Expr:
        """A lower bound of the number of different places: 0 if words do not hold places."""
        places = host.cell(code.ZERO, "places")

        def look(k: Expr) -> None:
            both = (host.load(batch.store.number, at, "word") for at in (k, code.sub(k, 1)))
            one, other = (code.op("shr", word, code.below_64(self.at[0])) for word in both)
            is_new = code.cast(code.compare("ne", one, other), Int64)
            host.set(places, code.add(host.get(places), is_new))

        host.branch(self.fits, lambda: host.count(code.ONE, code.sub(self.count, 1), look, "k"))
        return host.get(places)

    def entry(self, word: Expr) -> Expr:
        """The entry number in a word."""
        return _below(word, self.at[0])

    def place(self, word: Expr) -> list[Expr]:
        """The coordinates in a word."""
        above = [code.op("shr", word, code.below_64(at)) for at in self.at]
        widths = map(code.sub, self.at[1:], self.at)
        return [*map(_below, above, widths), above[-1]]


def _below(word: Expr, bit: Expr) -> Expr:
    return code.op("and", word, code.sub(code.op("shl", code.ONE, code.below_64(bit)), 1))


class WorkspacePolicy:
    """How a workspace takes entries: insert, sort and merge (Workspaces'24 Algorithm 1), each with the most
    common way as its default. What a policy keeps of a batch is in arrays of the level."""

    name: ClassVar[str]
    #: its arrays, besides `number` and those of Batch, as in `Level.arrays`
    arrays: ClassVar[tuple[tuple[str, Type], ...]] = ()
    #: those of its arrays that have an item for each entry, and grow with the batch
    entries: ClassVar[tuple[str, ...]] = ()
    #: whether a place has one entry only, so that its values are combined at insertion
    combines = False
    #: whether a batch takes little memory besides its entries, so that it may be large
    is_lean = True
    #: whether places are numbered, and must be fewer than 2^62
    numbers_places = False
    #: whether every place has an entry from the beginning, so that batches are never merged
    has_all_places = False

    def begin(self, host: Host, batch: Batch) -> None:
        """Prepare for the first batch after the workspace was declared or thawed."""

    def insert(self, host: Host, batch: Batch, place: tuple[Expr, ...]) -> tuple[Expr, Expr]:
        """The entry for a place, and whether it is new: then it is `taken`, and the workspace makes it."""
        return host.get(batch.store.taken, lower=code.ZERO), code.TRUE

    def value(self, batch: Batch, e: Expr, dirty: Any) -> Fiber:
        """The value of entry e as a fiber to be written."""
        values = Storage(batch.store.child.level, {"val": batch.store.acc_val}, {})
        return Fiber(values, e, dirty, UPDATE)

    def keep(self, host: Host, batch: Batch, e: Expr, place: tuple[Expr, ...]) -> None:
        """Mark entry e as set: it was written to."""
        host.store(batch.coordinates[0], e, place[0])

    def forget(self, host: Host, batch: Batch, e: Expr) -> None:
        """Remove the last entry, e: nothing was written to it."""

    def sort(self, host: Host, batch: Batch) -> Order:
        """The set entries ordered by coordinates, the last mode being the first key; stable."""
        at = batch.bits(host)
        fits = host.let(code.compare("le", at[-1], _WORD), "fits")
        count, number = host.cell(code.ZERO, "count"), batch.store.number

        def word(e: Expr) -> Expr:
            for i, bit in zip(batch.place(host, e), at, strict=False):
                e = code.op("or", e, code.op("shl", i, code.below_64(bit)))
            return e

        def by_words() -> None:
            found = batch.list_set(host, word)
            for low, high in pairwise(at):
                host.sort_bits(number, batch.scratch, code.ZERO, found, low, high)
            host.set(count, found)

        host.branch(fits, by_words, lambda: host.set(count, batch.sort_numbers(host, at)))
        return Order(host.get(count, lower=code.ZERO), fits, tuple(at[:-1]))

    def merge(self, host: Host, batch: Batch, order: Order) -> None:
        """Merge the sorted entries into the stored ones."""
        _Merging(host, batch, order).run(self.combines)

    def clear(self, host: Host, batch: Batch) -> None:
        """The batch was merged and will be empty; `taken` is still the number of its entries."""


class Coord(WorkspacePolicy):
    """Entries are appended, and sorted by one mode after the other (Workspaces'24 section 5.2); those of
    one place are combined when they are merged. All of it is the default."""

    name = "coord"


class _Merging:
    """Merges the `count` sorted entries of a batch with the stored ones, which are at `begin` to `end` by
    then. Entries of one place are combined in their order, unless that was done at insertion. `all` are
    the arrays of stored entries, `own` those of the batch: coordinates, then values.

    There is no second array to merge into: the stored entries were moved to the end of the room for both,
    and the result is written from the beginning, always behind what is still to be read. First the new
    entries are put in order at the beginning; if anything is stored, they are then copied back to the
    batch's arrays, so that merging reads them in sequence.
    """

    def __init__(self, host: Host, batch: Batch, order: Order):
        self.host, self.batch, self.order = host, batch, order
        self.count = order.count
        self.stored, self.begin = (
            host.get(cell, lower=code.ZERO) for cell in (batch.store.stored, batch.store.taken)
        )
        self.end = host.let(code.add(self.stored, self.begin), "end")
        leaf, self.all = batch.store.child, batch.all
        self.own = (*batch.coordinates, batch.store.acc_val)
        self.fill = leaf.level.fill

    def run(self, is_combined: bool) -> None:
        new = self.arrange(is_combined)
        some = code.compare("gt", self.stored, 0)
        self.host.branch(some, lambda: self.weave(new), lambda: self.settle(new))

    def each(self, count: Expr, body: Callable[[Expr], None]) -> None:
        self.host.each_of(count, body, "k")

    def load(self, arrays: tuple[Buffer, ...], at: Expr) -> tuple[list[Expr], Expr]:
        place = [self.host.load(array, at, "i", Int64) for array in arrays[:-1]]
        return place, self.host.load(arrays[-1], at, "val")

    def store(self, arrays: tuple[Buffer, ...], at: Expr, place: list[Expr], value: Expr) -> None:
        for array, content in zip(arrays, (*place, value), strict=True):
            self.host.store(array, at, content)

    def first(self, value: Expr) -> Expr:
        """The value stored for a new place: combined with the fill, unless entries begin as that."""
        if self.batch.beginning == self.fill:
            return value
        return self.batch.combined(self.host, code.const(self.fill.value, value.type), value)

    def arrange(self, is_combined: bool) -> Expr:
        """Put the entries in order at the beginning of `all`, each place once; gives how many there are."""
        host, number = self.host, self.batch.store.number
        to = host.cell(code.const(-1), "to")
        last = [host.cell(code.const(-1), "last") for _ in self.own[:-1]]
        content = host.cell(code.const(self.fill.value, self.own[-1].type), "value")

        def by_number(k: Expr) -> tuple[list[Expr], Expr]:
            return self.load(self.own, host.load(number, k, "e", lower=code.ZERO))

        def by_word(k: Expr) -> tuple[list[Expr], Expr]:
            place = self.order.place(host.load(number, k, "word", lower=code.ZERO))
            return [host.let(i, "i") for i in place], host.load(self.all[-1], k, "val")

        def value(k: Expr) -> None:
            e = self.order.entry(host.load(number, k, "word", lower=code.ZERO))
            host.store(self.all[-1], k, host.load(self.own[-1], e, "val"))

        def meet(place: list[Expr], value: Expr) -> None:
            same = host.let(_is_same([host.get(cell) for cell in last], place), "same")
            both = self.batch.combined(host, host.get(content), value, same)
            both = code.op("select", same, both, value)
            for cell, now in zip((*last, content), (*place, both), strict=True):
                host.set(cell, now)
            host.set(to, code.add(host.get(to), code.op("select", same, code.ZERO, code.ONE)))
            self.store(self.all, host.get(to, lower=code.ZERO), place, host.get(content))

        def bring(entry: Callable[[Expr], tuple[list[Expr], Expr]]) -> None:
            if is_combined:
                self.each(self.count, lambda k: self.store(self.all, k, *entry(k)))
            else:
                self.each(self.count, lambda k: meet(*entry(k)))

        def by_words() -> None:
            # values first, in a loop of their own, so that as many random loads as possible overlap
            self.each(self.count, value)
            bring(by_word)

        host.branch(self.order.fits, by_words, lambda: bring(by_number))
        if is_combined:
            return self.count
        return host.let(code.add(host.get(to), 1), "new", lower=code.ZERO)

    def settle(self, new: Expr) -> None:
        """Finish if nothing was stored: the ordered entries are the result."""
        self.host.set(self.batch.store.stored, new)
        if self.batch.beginning != self.fill:
            values = self.all[-1]

            def begin(k: Expr) -> None:
                self.host.store(values, k, self.first(self.host.load(values, k, "val")))

            self.each(new, begin)

    def weave(self, new: Expr) -> None:
        """Merge the stored entries, at `begin` to `end`, with the `new` ones in order before them."""
        host, end = self.host, self.end
        self.each(new, lambda k: self.store(self.own, k, *self.load(self.all, k)))
        old_at, new_at = host.cell(self.begin, "old"), host.cell(code.ZERO, "new")
        to = host.cell(code.ZERO, "to")

        def step() -> None:
            a, b = host.get(old_at, lower=code.ZERO), host.get(new_at, lower=code.ZERO)
            (there, old), (place, value) = self.load(self.all, a), self.load(self.own, b)
            before = host.let(_is_before(there, place), "before")
            same = host.let(_is_same(there, place), "same")
            which = [code.op("select", before, i, j) for i, j in zip(there, place, strict=True)]
            both = self.batch.combined(host, old, value, same)
            first = code.op("select", before, old, code.op("select", same, both, self.first(value)))
            self.store(self.all, host.get(to, lower=code.ZERO), which, first)
            host.set(old_at, code.add(a, code.cast(code.op("or", before, same), Int64)))
            host.set(new_at, code.add(b, code.cast(code.op("not", before), Int64)))
            host.set(to, code.add(host.get(to), 1))

        def are_both() -> Expr:
            some = code.compare("lt", host.get(old_at), end)
            return code.op("and", some, code.compare("lt", host.get(new_at), new))

        host.loop(are_both, step)
        self.follow(self.own, host.get(new_at, lower=code.ZERO), new, to)
        rest = host.get(old_at, lower=code.ZERO)
        is_moved = code.compare("lt", host.get(to), rest)
        follow = partial(self.follow, self.all, rest, end, to)
        host.branch(is_moved, follow, lambda: host.set(to, end))
        host.set(self.batch.store.stored, host.get(to))

    def follow(self, source: tuple[Buffer, ...], start: Expr, stop: Expr, to: Cell) -> None:
        """Append the rest of one of the two, from `start` to `stop`."""

        def entry(q: Expr) -> None:
            place, value = self.load(source, q)
            at = self.host.get(to, lower=code.ZERO)
            self.store(self.all, at, place, self.first(value) if source is self.own else value)
            self.host.set(to, code.add(at, 1))

        self.host.count(start, code.sub(stop, 1), entry, "q")


def _is_before(one: list[Expr], other: list[Expr]) -> Expr:
    """Whether one place is before the other; the last coordinate is the first key."""
    less: Expr = code.FALSE
    for a, b in zip(one, other, strict=True):
        same = code.op("and", code.compare("eq", a, b), less)
        less = code.op("or", code.compare("lt", a, b), same)
    return less


def _is_same(one: list[Expr], other: list[Expr]) -> Expr:
    return code.conjunction(*(code.compare("eq", a, b) for a, b in zip(one, other, strict=True)))
