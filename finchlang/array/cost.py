"""What a loop nest costs, by how many entries its operands store: expected counts of steps, as if
entries were uniformly distributed.

A step is a coordinate that a loop visits. An operand that is stored in another order than that of the
loops is copied, or looked up at the coordinates that others give; a result that is written out of order
goes through a workspace. In an intersection, long fibers are searched (galloped) for the coordinates of
the shortest. The weights are in `algebra/costs.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, permutations
from math import prod

from finchlang.algebra import costs
from finchlang.algebra.absence import AbsenceFormula, Where
from finchlang.algebra.costs import distinct, searched
from finchlang.array.loop_nest import LoopNest, Read
from finchlang.base.records import record
from finchlang.syntax.nodes import Index

#: a nest of more loops gets the order in which its operands are stored: there are n! orders to compare
MOST = 6


class Counts:
    """Expected numbers of coordinate tuples that loops in this order visit. Reads that are `followed` are
    looked up, and so do not restrict the loops."""

    def __init__(self, nest: LoopNest, order: Sequence[Index] = (), followed: Sequence[Read] = ()):
        self.nest, self.followed = nest, {id(read) for read in followed}
        self.sparse = [read for read in nest.reads if read.is_sparse]
        self.are_dense = {id(read): _are_dense(read, order) for read in self.sparse}

    def places(self, indices: Iterable[Index]) -> float:
        return prod([float(self.nest.extents[index]) for index in indices])

    def distinct(self, read: Read, indices: Iterable[Index]) -> float:
        """At how many coordinates of these indices a sparse operand stored in this order has a position:
        a dense level has one for each place, a sparse one for each that has an entry."""
        are_dense, found, known = self.are_dense[id(read)], 1.0, 1.0
        own = [index for index in indices if index in read.own]
        for count, index in enumerate(own, 1):
            places = float(self.nest.extents[index])
            known, found = known * places, found * places
            if not are_dense[index]:
                is_all = count == len(read.own)
                found = min(found, read.stored if is_all else distinct(known, read.stored))
        return found

    def part(self, absent: Where, indices: Sequence[Index]) -> float:
        """The expected fraction of the coordinates of these indices that are not absent."""
        if isinstance(absent, int):
            read = self.nest.reads[absent]
            if id(read) in self.followed:
                return 1.0
            own = [index for index in indices if index in read.own]
            return self.distinct(read, own) / max(self.places(own), 1.0)
        parts = [self.part(part, indices) for part in absent.parts]
        return 1 - prod([1 - part for part in parts]) if absent.is_and else prod(parts)

    def reached(self, indices: Sequence[Index]) -> float:
        """How many coordinate tuples of these indices loops visit."""
        return self.places(indices) * self.part(self.nest.absent, indices)

    def stored(self, kept: Sequence[Index]) -> float:
        """How many coordinate tuples of these indices of the result are written."""
        full = Counts(self.nest)
        full.are_dense = {id(read): dict.fromkeys(read.own, False) for read in self.sparse}
        order = (*self.nest.kept, *self.nest.reduced)
        return distinct(self.places(kept), full.reached(order))

    def fiber(self, read: Read, outer: Sequence[Index], index: Index) -> float | None:
        """The entries of a fiber in the mode of `index`, inside loops over `outer`; None if dense."""
        if id(read) in self.followed or self.are_dense[id(read)].get(index, True):
            return None
        return self.distinct(read, (*outer, index)) / max(self.distinct(read, outer), 1e-9)

    def steps(self, absent: Where, outer: Sequence[Index], index: Index) -> float | None:
        """The steps of a loop over `index` inside loops over `outer`; None if it visits all places."""
        if isinstance(absent, int):
            return self.fiber(self.nest.reads[absent], outer, index)
        parts = [self.steps(part, outer, index) for part in absent.parts]
        known = [steps for steps in parts if steps is not None]
        if not known or absent.is_and:
            return sum(known) if known and len(known) == len(parts) else None
        least, *others = sorted(known)
        return least + sum([min(steps, searched(least, steps)) for steps in others])

    def galloped(self, order: Sequence[Index]) -> Iterator[tuple[Read, Index]]:
        """The reads, each with an index, better galloped than walked along the shortest fiber."""
        for depth, index in enumerate(order):
            for absent in intersections(self.nest.absent):
                parts = [(part, self.steps(part, order[:depth], index)) for part in absent.parts]
                known = [steps for _, steps in parts if steps is not None]
                for part, steps in parts:
                    if isinstance(part, int) and steps and searched(min(known), steps) < steps:
                        yield self.nest.reads[part], index


def intersections(absent: Where) -> Iterator[AbsenceFormula]:
    """Formulas of several operands each of which alone makes a place absent: where their entries meet."""
    if not isinstance(absent, int):
        if not absent.is_and and len(absent.parts) > 1:
            yield absent
        for part in absent.parts:
            yield from intersections(part)


def _are_dense(read: Read, order: Sequence[Index]) -> dict[Index, bool]:
    """Which modes of an operand are dense in loops of this order, for which it may be copied to lists."""
    own = [index for index in order if index in read.own]
    if own == read.own or not order:
        return {index: read.is_dense_at(index) for index in read.own}
    return {index: index == own[0] for index in own}


@record
class Candidate:
    """An order of loops, the reads that are looked up in it, and what this costs."""

    cost: float
    order: tuple[Index, ...]
    followed: tuple[Read, ...]

    def __str__(self) -> str:
        names = "".join([f", {read.name} looked up" for read in self.followed])
        return f"{' '.join([index.name for index in self.order])}{names}: {self.cost:.2g}"


def cost(nest: LoopNest, order: Sequence[Index], followed: Sequence[Read] = ()) -> float:
    """The steps of loops in this order, and the costs of copies, of lookups and of the result, in steps."""
    counts, total = Counts(nest, order, followed), 0.0
    for depth, index in enumerate(order):
        outer = order[:depth]
        steps = counts.steps(nest.absent, outer, index)
        total += counts.reached(outer) * (counts.places((index,)) if steps is None else steps)
    for read in counts.sparse:
        if id(read) in counts.followed:
            fibers = read.stored / max(counts.places(read.own[:-1]), 1.0)
            total += counts.reached(order) * searched(1.0, fibers)
        elif not read.follows(order):
            total += costs.COPY * read.stored
    return total + _of_result(nest, order, counts)


def _of_result(nest: LoopNest, order: Sequence[Index], counts: Counts) -> float:
    updates = counts.reached(order)
    kept = [index for index in order if index in nest.kept]
    places = counts.places(kept)
    if places <= costs.SHORT or updates >= costs.FULL * places:
        return costs.PLACE * places
    first = next((k for k, index in enumerate(order) if index in nest.reduced), len(order))
    after = sum(index in nest.kept for index in order[first:])
    return updates * (0.0 if not after else costs.SCATTER if after == 1 else costs.SORT)


def candidates(nest: LoopNest) -> list[Candidate]:
    """Every order of the loops, with each choice of the reads that are looked up, the cheapest first. Where
    more than two reads could be looked up, none is: choices are exponentially many."""
    found = []
    for order in permutations((*nest.kept, *nest.reduced)):
        across = [r for r in nest.reads if r.is_sparse and not r.follows(order) and _is_found(r)]
        for many in range(len(across) + 1 if len(across) <= 2 else 1):
            for reads in combinations(across, many):
                found.append(Candidate(cost(nest, order, reads), order, reads))
    return sorted(found, key=lambda candidate: candidate.cost)


def _is_found(read: Read) -> bool:
    """Whether the entries of a read can be looked up at any coordinates."""
    levels = [
        level.is_dense or level.modes == 1 and level.lists_entries for _, level in read.levels()
    ]
    return all(levels) and len(read.own) == len(read.indices) and not read.is_reshaped


def dense_levels(nest: LoopNest, stored: Sequence[Index]) -> list[bool]:
    """For each mode of a result, outermost first, whether it is full enough for a dense level."""
    counts, before, found = Counts(nest), 1.0, []
    if len(stored) == 1 and counts.places(stored) <= costs.SHORT:
        return [True]
    for k, index in enumerate(stored):
        now = counts.stored(stored[: k + 1])
        full = costs.FULL if k < len(stored) - 1 else costs.FULL_OF_VALUES
        found.append(now >= full * before * nest.extents[index])
        before = now
    return found
