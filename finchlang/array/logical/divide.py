"""The division of a product of factors into loop nests: dynamic programming over sets of factors. Divisions
that cost more than the best found so far are left out (branch and bound, from a greedy division)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, groupby, islice, permutations, product
from math import inf
from typing import Any, NamedTuple, cast

from finchlang.algebra import costs
from finchlang.algebra.absence import either
from finchlang.array.cost import Counts, OperandEntries, bits, place_counts
from finchlang.array.logical.form import SumProduct, WrittenNest

#: so many choices are made before the best division that was found is taken; weighing LOOPS takes as long
#: as one
MOST, LOOPS = 500, 8
#: equal factors are tried in so many orders to find equal parts
ORDERS = 24


class PlannedNest(NamedTuple):
    """A nest of factors by their numbers, and of other nests. Its result has the labels `made`, and is read
    at `kept`, which are others for an equal part. `cost` is with that of its parts, `entries` those of the
    result, which may be sparse."""

    kept: tuple[int, ...]
    made: tuple[int, ...]
    parts: tuple[PlannedNest | int, ...]
    cost: float
    entries: float
    is_sparse: bool


class Division:
    """The divisions of a form. Sets of labels and of factors are bits of integers."""

    def __init__(self, form: SumProduct, stored: Sequence[OperandEntries], numbers: Sequence[int]):
        self.form, self.stored, self.numbers = form, stored, numbers
        self.places = place_counts(list(map(float, form.sizes)))
        self.kept = bits(form.kept)
        self._masks = {0: 0}
        self.everything = (1 << len(stored)) - 1
        #: labels that one factor alone has
        self.alone = sum([stored[k].mask & ~self.needed(1 << k) for k in range(len(stored))])
        #: labels that no factor has, along which the result is repeated
        self.spread = self.kept & ~self.mask_of(self.everything)
        self.choices = 0  # more than MOST: the search ended before all divisions were weighed
        self.complete: list[PlannedNest] = []  # whole divisions, each better than those before
        self._found: dict[int, tuple[float, PlannedNest | None]] = {}
        #: of each nest its cost without that of its parts, with counts; without these where it is more
        self._priced: dict[Any, tuple[float, Counts | None]] = {}
        self._keys: dict[int, tuple[object, tuple[int, ...]]] = {}

    def mask_of(self, factors: int) -> int:
        found = self._masks.get(factors)
        if found is None:
            low = factors & -factors
            found = self.stored[low.bit_length() - 1].mask | self.mask_of(factors ^ low)
            self._masks[factors] = found
        return found

    def needed(self, factors: int) -> int:
        """The labels of a set of factors that others, or the result, have."""
        return self.mask_of(factors) & (self.mask_of(self.everything & ~factors) | self.kept)

    # ------------------------------------------------------------------------------- what a nest costs

    def priced_nest(
        self, parts: Sequence[PlannedNest | int], order: tuple[int, ...], spent: float, bound: float
    ) -> PlannedNest | None:
        """A nest of these parts that keeps these labels; None if it costs more than the bound, with what is
        `spent` on its parts."""
        key, limit = (order, *parts), bound - spent - costs.NEST
        least, counts = self._priced.get(key, (-inf, None))
        if counts is None and least < limit:
            operands = [self.stored_of(part) for part in parts]
            absent = either(*[k for k, operand in enumerate(operands) if operand.is_sparse])
            counts = Counts(self.places, operands, absent, bits(order))
            found = counts.orders(limit)
            self.choices += counts.weighed // LOOPS
            least, counts = (found[0][0], counts) if found else (limit, None)
            self._priced[key] = least, counts
        if counts is None or least >= limit:
            return None
        cost = spent + costs.NEST + least
        return PlannedNest(order, order, tuple(parts), cost, counts.entries, not counts.is_dense)

    def stored_of(self, part: PlannedNest | int) -> OperandEntries:
        if isinstance(part, int):
            return self.stored[part]
        return OperandEntries(bits(part.kept), part.entries, part.is_sparse)

    # ------------------------------------------------------------------------------------- divisions

    def as_written(self, block: WrittenNest) -> PlannedNest:
        parts = tuple([p if isinstance(p, int) else self.as_written(p) for p in block.parts])
        spent = sum([part.cost for part in parts if isinstance(part, PlannedNest)])
        found = self.priced_nest(parts, block.kept, spent, inf)
        assert found is not None
        return found

    def best(self) -> PlannedNest:
        """The division that costs least."""
        written = self.as_written(self.form.written)
        greedy = self.greedy(written.cost)
        start = min(written, greedy, key=lambda nest: nest.cost) if greedy else written
        self.complete += [written] if start is written else [written, start]
        self.choices = 0
        found = self.solved(self.everything, costs.GAIN * start.cost)
        if found is not None and self.spread:
            found = self.priced_nest((found,), self.form.kept, found.cost, start.cost)
        return found or start

    def greedy(self, bound: float) -> PlannedNest | None:
        """The part that costs least is made, one after the other, as long as that helps: a factor reduced
        alone, or the product of two. The search alone leaves products of eight matrices and a vector as
        written, which take 26 times the steps."""
        parts: dict[int, PlannedNest | int] = {1 << k: k for k in range(len(self.stored))}
        best, limit = None, bound
        tried: dict[tuple[int, ...], PlannedNest | None] = {}
        while True:
            spent = {k: p.cost for k, p in parts.items() if isinstance(p, PlannedNest)}
            cost = sum(spent.values())
            best = self.priced_nest(tuple(parts.values()), self.form.kept, cost, limit) or best
            limit = best.cost if best else bound
            alone = [(a,) for a in parts if a not in spent and self.mask_of(a) != self.needed(a)]
            pairs = [pair for pair in combinations(sorted(parts), 2) if len(parts) > 2]
            for group in (*alone, *pairs):
                is_met = len(group) < 2 or self.mask_of(group[0]) & self.mask_of(group[1])
                if group not in tried and is_met:
                    cost = sum([spent.get(k, 0.0) for k in group])
                    order = self.canonical(sum(group))[1]
                    tried[group] = self.priced_nest([parts[k] for k in group], order, cost, limit)
            usable = [(k, n) for k in (*alone, *pairs) if (n := tried.get(k))]
            made = [(n.cost - sum([spent.get(a, 0.0) for a in k]), k) for k, n in usable]
            if not made:
                return best
            _, group = min(made)
            for k in group:
                del parts[k]
            parts[sum(group)] = cast(PlannedNest, tried[group])

    def solved(self, factors: int, bound: float) -> PlannedNest | None:
        """The cheapest nest for a set of factors; None if it costs more than the bound."""
        known = self._found.get(factors)
        if known is not None and (known[1] is not None or known[0] >= bound):
            return known[1] if known[0] < bound else None
        self.choices += 1
        if self.choices > MOST:
            return None
        is_result = factors == self.everything and not self.spread
        kept = self.form.kept if is_result else self.canonical(factors)[1]
        best: PlannedNest | None = None
        limit = bound

        def divided(
            rest: int,
            chosen: list[PlannedNest | int],
            made: dict[object, PlannedNest],
            spent: float,
        ) -> None:
            nonlocal best, limit
            self.choices += 1
            if spent + costs.NEST >= limit or self.choices > MOST:
                return
            if not rest:
                found = self.priced_nest(chosen, kept, spent, limit)
                if found is not None:
                    best, limit = found, found.cost
                    self.complete += [found] if is_result else []
                return
            first = rest & -rest
            divided(rest ^ first, [*chosen, first.bit_length() - 1], made, spent)
            for block in self.blocks(first, rest):
                if self.choices > MOST:
                    return
                if block == factors:
                    continue
                key, order = self.canonical(block)
                equal = made.get(key)
                nest = equal._replace(kept=order) if equal else self.solved(block, limit - spent)
                if nest is not None:
                    total = spent if equal else spent + nest.cost
                    divided(rest ^ block, [*chosen, nest], {**made, key: nest}, total)

        divided(factors, [], {}, 0.0)
        if best is not None or self.choices <= MOST:
            self._found[factors] = limit, best
        return best

    def blocks(self, first: int, rest: int) -> Iterator[int]:
        """The sets of factors with the first one that may be nests of their own: it alone, if it is reduced
        alone, and sets that are connected by labels and reduce one that several of them have."""
        if self.mask_of(first) != self.needed(first):
            yield first
        for block in self.connected(first, rest, first):
            if self.mask_of(block) & ~self.needed(block) & ~self.alone:
                yield block

    def connected(self, factors: int, rest: int, done: int) -> Iterator[int]:
        """The sets that a connected set grows to (Moerkotte and Neumann, VLDB 2006, EnumerateCsg)."""
        mask = self.mask_of(factors)
        near = 0
        for k, stored in enumerate(self.stored):
            if (rest & ~done) >> k & 1 and stored.mask & mask:
                near |= 1 << k
        part = near
        while part:
            yield factors | part
            yield from self.connected(factors | part, rest, done | near)
            part = (part - 1) & near

    def canonical(self, factors: int) -> tuple[object, tuple[int, ...]]:
        """A key that is the same for sets whose products are equal but for the names of labels, and the
        labels that are needed, in the same order for all of them."""
        found = self._keys.get(factors)
        if found is None:
            own = [k for k in range(len(self.stored)) if factors >> k & 1]
            groups = groupby(sorted(own, key=self.numbers.__getitem__), self.numbers.__getitem__)
            orders = [[*islice(permutations(group), ORDERS)] for _, group in groups]
            needed, found = self.needed(factors), None
            for parts in islice(product(*orders), ORDERS):
                names: dict[int | None, int] = {None: -1}
                key: list[object] = []
                for k in [k for part in parts for k in part]:
                    labels = self.form.factors[k].labels
                    key += [self.numbers[k], *(names.setdefault(n, len(names)) for n in labels)]
                kept = tuple([n for n in names if n is not None and needed >> n & 1])
                whole = (*key, -2, *[names[n] for n in kept])
                if found is None or whole < found[0]:
                    found = whole, kept
            assert found is not None
            self._keys[factors] = found
        return found
