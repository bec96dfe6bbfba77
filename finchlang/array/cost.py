"""What a loop nest over a product costs, by how many entries its operands store: asymptotic counts of
steps, as if entries were anywhere with the same probability.

A step is a coordinate that a loop comes to. Operands that are stored in another order than that of the
loops are copied, and a result that is reached out of order goes through a workspace.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations
from math import expm1, prod

from finchlang.array.nest import Nest, Read
from finchlang.syntax import Index

#: steps that it takes to copy an entry of an operand into another order, to add to a workspace of one
#: mode, and to sort an entry into one of several
COPY, SCATTER, SORT = 4.0, 0.5, 6.0
#: what storing a place of a dense result takes
PLACE = 0.1
#: nests of more loops than these are planned as their operands are stored
MOST = 6
#: a level of a result is dense where at least this part of its places is expected to be stored; the
#: innermost, which would store zeros, this part
FULL, FULL_OF_VALUES = 0.2, 0.5
#: a result of one mode is dense up to so many places
SHORT = 1 << 20


class Counts:
    """How many tuples of coordinates of some indices loops are expected to come to in a product."""

    def __init__(self, nest: Nest, order: Sequence[Index] = ()):
        self.nest = nest
        self.sparse = [read for read in nest.reads if read.is_sparse]
        self.are_dense = [_are_dense(read, order) for read in self.sparse]

    def places(self, indices: Iterable[Index]) -> float:
        return prod(float(self.nest.extents[index]) for index in indices)

    def distinct(self, at: int, indices: Iterable[Index]) -> float:
        """At how many coordinates of these indices a sparse operand has a position, if it is stored in
        this order: at all of a dense level, at those with an entry of a sparse one."""
        read, are_dense = self.sparse[at], self.are_dense[at]
        found, known = 1.0, 1.0
        for index in indices:
            if index in read.own:
                places = self.places((index,))
                known *= places
                is_dense = are_dense[index]
                found = (
                    found * places
                    if is_dense
                    else min(found * places, _distinct(known, read.stored))
                )
        return found

    def reached(self, indices: Sequence[Index]) -> float:
        """How many coordinates of these indices no operand excludes."""
        found = self.places(indices)
        for at, read in enumerate(self.sparse):
            own = [index for index in indices if index in read.own]
            found *= self.distinct(at, own) / max(self.places(own), 1.0)
        return found

    def stored(self, kept: Sequence[Index]) -> float:
        """How many coordinates of indices of the result are written."""
        order = (*self.nest.kept, *self.nest.reduced)
        entries = self.places(order)
        for read in self.sparse:
            entries *= min(1.0, read.stored / max(self.places(read.own), 1.0))
        return _distinct(self.places(kept), entries)


def _are_dense(read: Read, order: Sequence[Index]) -> dict[Index, bool]:
    """Which modes of an operand have dense levels in loops of this order, for which it is copied if it
    has another."""
    own = [index for index in order if index in read.own]
    if own == read.own or not order:
        return {index: read.is_dense_at(index) for index in read.own}
    return {index: index == own[0] for index in own}


def _distinct(places: float, entries: float) -> float:
    """How many places are expected to have one of so many entries or more."""
    if not places:
        return 0.0
    return places * -expm1(-entries / places)


def cost(nest: Nest, order: Sequence[Index]) -> float:
    """The steps of the loops in this order, with the copies of operands and what the result takes."""
    counts, total = Counts(nest, order), 0.0
    for depth, index in enumerate(order):
        outer = order[:depth]
        before = counts.reached(outer)
        fibers = [
            counts.distinct(at, (*outer, index)) / max(counts.distinct(at, outer), 1e-9)
            for at, are_dense in enumerate(counts.are_dense)
            if not are_dense.get(index, True)
        ]
        total += before * (sum(fibers) if fibers else counts.places((index,)))
    total += sum(COPY * read.stored for read in counts.sparse if not read.follows(order))
    return total + _of_result(nest, order, counts)


def _of_result(nest: Nest, order: Sequence[Index], counts: Counts) -> float:
    updates = counts.reached(order)
    kept = [index for index in order if index in nest.kept]
    places = counts.places(kept)
    if places <= SHORT or updates >= FULL * places:
        return PLACE * places
    first = next((k for k, index in enumerate(order) if index in nest.reduced), len(order))
    after = sum(index in nest.kept for index in order[first:])
    return updates * (0.0 if not after else SCATTER if after == 1 else SORT)


def orders_by_cost(nest: Nest) -> list[tuple[float, tuple[Index, ...]]]:
    """Every order of the loops with what it costs, the cheapest first."""
    indices = (*nest.kept, *nest.reduced)
    found = [(cost(nest, order), order) for order in permutations(indices)]
    return sorted(found, key=lambda candidate: candidate[0])


def dense_levels(nest: Nest, stored: Sequence[Index]) -> list[bool]:
    """For each mode of a result, outermost first, whether its level is better dense."""
    counts, before, found = Counts(nest), 1.0, []
    if len(stored) == 1 and counts.places(stored) <= SHORT:
        return [True]
    for k, index in enumerate(stored):
        now = counts.stored(stored[: k + 1])
        full = FULL if k < len(stored) - 1 else FULL_OF_VALUES
        found.append(now >= full * before * nest.extents[index])
        before = now
    return found
