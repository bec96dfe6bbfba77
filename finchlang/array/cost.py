"""What loop nests cost, by how many entries their operands store: expected counts of steps, as if
entries were uniformly distributed.

A step is a coordinate that a loop visits. An operand that is stored in another order than that of the
loops is copied, or looked up at the coordinates that others give; a result that is written out of order
goes through a workspace. In an intersection, long fibers are searched for the coordinates of the
shortest. The weights are in `algebra/costs.py`. Indices of loops are bits of integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from heapq import nsmallest
from math import inf, prod

from finchlang.algebra import costs
from finchlang.algebra.absence import Where
from finchlang.algebra.costs import distinct, searched

#: for each number of outer loops so many ways to go on are weighed: all of six loops
WEIGHED = 120


@dataclass(slots=True, eq=False)
class OperandEntries:
    """How an operand is stored: the set of its indices, the expected number of its entries, whether all
    else does nothing (`is_sparse`), its indices as they are stored, the outermost first, empty for one that
    can be made in any order, and which of them have all places (`dense`). One that `is_fixed` cannot be
    copied: in another order it is searched at all places. Over indices of `cases` it splits loops."""

    mask: int
    entries: float
    is_sparse: bool
    order: tuple[int, ...] = ()
    dense: int = 0
    is_fixed: bool = False
    cases: int = 0
    #: the indices stored outside each of them
    outside: dict[int, int] = field(default_factory=dict)
    known: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        before = 0
        for index in self.order:
            self.outside[index] = before
            before |= 1 << index

    def is_left(self, outer: int, index: int) -> bool:
        """Whether a loop over an index is the first that is not in the order in which it is stored."""
        before = self.outside.get(index)
        if before is None or self.is_fixed:
            return False
        own = outer & self.mask
        return before != own and own in self.outside.values()


def bits(indices: Iterable[int]) -> int:
    """A set of indices as bits."""
    return sum({1 << index for index in indices})


def place_counts(sizes: Sequence[float]) -> Callable[[int], float]:
    """How many places sets of indices of these sizes have."""

    @cache
    def places(indices: int) -> float:
        return prod([size for k, size in enumerate(sizes) if indices >> k & 1])

    return places


class Counts:
    """Expected numbers of coordinate tuples that loops visit, which do nothing where they are `absent`, a
    formula over numbers of operands. Those `followed` are looked up, and so do not restrict the loops.
    Loops are over indices of operands, and those `kept` and `reduced`, which operands need not have."""

    def __init__(
        self,
        places: Callable[[int], float],
        operands: Sequence[OperandEntries],
        absent: Where,
        kept: int,
        followed: frozenset[int] = frozenset(),
        reduced: int = 0,
    ):
        self.places, self.operands, self.absent, self.kept = places, operands, absent, kept
        self.followed, self.every = followed, kept | reduced
        for operand in operands:
            self.every |= operand.mask
        self.sparse = [o for k, o in enumerate(operands) if o.is_sparse and k not in followed]
        self.ordered = [o for o in self.sparse if len(o.order) > 1]
        self.split = [o.cases for o in operands if o.cases]
        self.weighed = 0  # loops
        self._reached: dict[int, float] = {}
        self.updates = self.reached(self.every)
        self.entries = self.stored(kept)
        is_vector = not kept & (kept - 1) and places(kept) <= costs.SHORT
        self.is_dense = is_vector or self.entries >= costs.FULL * places(kept)

    def distinct(self, operand: OperandEntries, indices: int) -> float:
        """At how many coordinates of these indices an operand has a position: a dense level has one for
        each place, a sparse one for each that has an entry, in a store that may have room for more."""
        own = indices & operand.mask
        found = operand.known.get(own)
        if found is None:
            found = operand.entries
            if own != operand.mask:
                found = self.places(own)
                found = found if not own & ~operand.dense else distinct(found, operand.entries)
            found = operand.known[own] = max(min(found, self.places(own)), 1e-9)
        return found

    @property
    def positions(self) -> float:
        """How many positions the operands have, in the level that has most."""
        return sum([max(o.entries, self.distinct(o, o.dense)) for o in self.operands])

    def part(self, absent: Where, indices: int) -> float:
        """The expected fraction of the coordinates of these indices that are not absent."""
        if isinstance(absent, int):
            operand = self.operands[absent]
            own = indices & operand.mask
            if operand.is_fixed and own != operand.mask:
                own = max([part for part in operand.outside.values() if not part & ~own], default=0)
            if not own or absent in self.followed:
                return 1.0
            return self.distinct(operand, own) / (self.places(own) or 1.0)
        found = 1.0
        for part in absent.parts:
            one = self.part(part, indices)
            found *= 1 - one if absent.is_and else one
        return 1 - found if absent.is_and else found

    def reached(self, indices: int) -> float:
        """How many coordinate tuples of these indices loops visit."""
        found = self._reached.get(indices)
        if found is None:
            found = self.places(indices) * self.part(self.absent, indices)
            self._reached[indices] = found
        return found

    def stored(self, kept: int) -> float:
        """How many coordinate tuples of these indices of the result are written."""
        if kept == self.every:
            return self.updates
        places = self.places(kept)
        if self.updates >= self.places(self.every):
            return places
        return min(distinct(places, self.updates), self.reached(kept))

    def fiber(self, operand: OperandEntries, outer: int, index: int) -> float | None:
        """The entries of a fiber in the mode of an index, inside loops over `outer`; None if dense. An
        operand that is stored in another order is copied."""
        bit, own = 1 << index, outer & operand.mask
        is_dense = bool(operand.dense & bit)
        if operand.outside.get(index, own) != own:
            is_dense = not own and costs.is_full(self.places(bit), operand.entries)
            is_dense = is_dense or operand.is_fixed
        if is_dense or not operand.mask & bit:
            return None
        return self.distinct(operand, own | bit) / (self.distinct(operand, own) if own else 1.0)

    def steps(self, absent: Where, outer: int, index: int) -> float | None:
        """The steps of a loop over `index` inside loops over `outer`; None if it visits all places."""
        if isinstance(absent, int):
            operand = self.operands[absent]
            return None if absent in self.followed else self.fiber(operand, outer, index)
        known = []
        for part in absent.parts:
            if isinstance(part, int) and not self.operands[part].mask >> index & 1:
                continue
            steps = self.steps(part, outer, index)
            if steps is not None:
                known.append(steps)
        if not known or absent.is_and:
            return sum(known) if known and len(known) == len(absent.parts) else None
        if len(known) == 1:
            return known[0]
        least, *others = sorted(known)
        return least + sum([min(steps, searched(least, steps)) for steps in others])

    def loop(self, outer: int, index: int) -> float:
        """The steps of a loop inside those of a set, with copies of operands that are stored in another
        order, and with what it costs to write the result out of order."""
        steps, bit = self.steps(self.absent, outer, index), 1 << index
        if steps is None:
            is_last = outer | bit == self.every
            rate = costs.STEP_INSIDE if is_last and self.is_along(index) else 1.0
            total = rate * self.places(bit)
        else:
            total = steps
        total *= self.reached(outer) * costs.CASES ** sum([k >> index & 1 for k in self.split])
        for operand in self.ordered:
            if operand.is_left(outer, index):
                total += costs.COPY * operand.entries
        if self.kept & bit and outer & ~self.kept:
            total += self.updates * self.rate_of_updates(outer | bit, steps is not None)
        return total

    def is_along(self, index: int) -> bool:
        """Whether operands are read in the order of their memory in an innermost loop over an index."""
        return all([index not in o.outside or o.order[-1] == index for o in self.operands])

    def rate_of_updates(self, outer: int, is_walked: bool) -> float:
        """What an update costs more since a mode of the result is inside of a reduced one."""
        if self.is_dense:
            return costs.UPDATE_OUT_OF_ORDER if is_walked else 0.0
        return costs.SORT if self.kept & ~outer else costs.UPDATE_OF_SPARSE

    def fixed(self) -> float:
        """What is the same for all orders: updates, storing the result in order, and finding what is looked
        up."""
        written = costs.PLACE * self.places(self.kept) if self.is_dense else self.entries
        total = costs.STEP_INSIDE * self.updates + written
        for number in self.followed:
            read = self.operands[number]
            outer = read.mask & ~(1 << read.order[-1])
            total += self.updates * searched(1.0, read.entries / max(self.places(outer), 1.0))
        return total

    def orders(self, bound: float = inf) -> list[tuple[float, tuple[int, ...]]]:
        """The cheapest order for each innermost loop, with its cost, the cheapest first, by dynamic
        programming over sets of outer loops; none that costs more than a bound."""
        found: list[tuple[float, tuple[int, ...]]] = []
        least = self.fixed()
        if least + costs.STEP_INSIDE * self.updates >= bound:
            return found
        indices = [k for k in range(self.every.bit_length()) if self.every >> k & 1]
        states: dict[int, tuple[float, tuple[int, ...]]] = {0: (least, ())}
        for count in range(len(indices)):
            best: dict[int, tuple[float, tuple[int, ...]]] = {}
            for outer, (cost, order) in states.items():
                for index in indices:
                    if outer >> index & 1:
                        continue
                    self.weighed += 1
                    now, total = outer | 1 << index, cost + self.loop(outer, index)
                    if total >= bound:
                        continue
                    if count == len(indices) - 1:
                        found.append((total, (*order, index)))
                    else:
                        best[now] = min(best.get(now, (inf, ())), (total, (*order, index)))
            many = max(WEIGHED // len(indices), 1)
            states = dict(nsmallest(many, best.items(), key=lambda item: item[1][0]))
        return sorted(found) if indices else [states[0]]


def full_levels(counts: Counts, stored: Sequence[int]) -> list[bool]:
    """For each mode of a result, outermost first, whether it is full enough for a dense level; an only one
    may also be short, and not much longer than what is read."""
    if len(stored) == 1:
        places = counts.places(1 << stored[0])
        if places <= min(costs.SHORT, max(costs.FEW_PLACES, costs.TIMES * counts.positions)):
            return [True]
    before, outer, found = 1.0, 0, []
    for k, index in enumerate(stored):
        outer |= 1 << index
        now = counts.stored(outer)
        full = costs.FULL if k < len(stored) - 1 else costs.FULL_OF_VALUES
        found.append(now >= full * before * counts.places(1 << index))
        before = now
    return found
