"""The planner: for each loop nest, the order of loops, the format of the result, and how operands are
read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from finchlang.algebra import index_map
from finchlang.algebra.absence import Absence, Where, either
from finchlang.algebra.costs import is_full
from finchlang.algebra.expression_types import Names, annotate
from finchlang.algebra.laws import is_value
from finchlang.array.cost import Counts, OperandEntries, bits, full_levels, place_counts
from finchlang.array.inferred_values import Values, stored_of
from finchlang.base.locks import cached_property
from finchlang.base.records import record
from finchlang.levels.element import Element
from finchlang.levels.level import Level, level_of
from finchlang.levels.scalars import Scalar
from finchlang.syntax import traversal as trees
from finchlang.syntax.nodes import Access, Index, Literal, Node
from finchlang.syntax.types import TYPES, Int64, Type
from finchlang.tensors.formats import Format, modes_of, nest_of, permuted

#: of modes, by the indices of their loops
Sizes = Mapping[Index, int]

#: so many candidates are listed in a plan's text
SHOWN = 4
#: costs are estimates: up to so many times the least the usual order is preferred
NEAR = 1.05


# ---------------------------------------------------------------------------------------- nests


def loops_of(m: Node) -> list[Node]:
    """The indices of loops in an index map, the slowest first; a number for a map of a number."""
    if isinstance(m, index_map.Joined):
        return [*loops_of(m.second), *loops_of(m.first)]
    return loops_of(m.index) if isinstance(m, (index_map.HalfIndex, index_map.Wrapped)) else [m]


def is_path(m: Node) -> bool:
    """Whether an index is more than the index of a loop or a slice of it."""
    maps = [*trees.find_all(m, index_map.IndexMap)]
    return any([not isinstance(n, index_map.Wrapped) or n.wrapper != "window" for n in maps])


def levels_at(format: Format, indices: Sequence[Any]) -> list[tuple[Any, Level]]:
    """The index of each mode of a tensor with the mode's level, the outermost first."""
    stored = level_of(format)
    parts = zip(stored.levels(), stored.sizes(modes_of(format)), strict=True)
    return [(indices[mode - 1], level) for level, own in parts for mode in own[::-1]]


@record
class Read:
    """An access of a tensor: its format, the indices of its modes, how many entries it stores, or is
    expected to; whether it `is_bare`, with no operators around the tensor."""

    format: Format
    indices: tuple[Node, ...]
    stored: float
    name: str
    is_bare: bool = True

    def levels(self) -> list[tuple[Node, Level]]:
        """The index of each mode with its level, the outermost first. A mode whose index map has several
        loop indices is there with each of them, and an index in the maps of several modes with each."""
        places = levels_at(self.format, self.indices)
        return [(index, level) for place, level in places for index in loops_of(place)]

    @cached_property
    def is_reshaped(self) -> bool:
        """Whether a mode is read through an index map other than a slice."""
        return any(map(is_path, self.indices))

    @cached_property
    def is_sparse(self) -> bool:
        is_diagonal = len({*self.own}) < len(self.own)  # no order of loops is better for a diagonal
        some = any(not level.is_dense for _, level in self.levels())
        return self.stored < float("inf") and some and not is_diagonal

    def is_dense_at(self, index: Index) -> bool:
        """Whether the levels that are read at an index are dense."""
        return all(level.is_dense for i, level in self.levels() if i == index)

    def is_dense_in(self, order: Sequence[Index], sizes: Sizes, index: Index) -> bool:
        """As `is_dense_at`, in loops of this order, for which it may be copied."""
        if self.is_sparse and not self.follows(order):
            outermost = next(i for i in order if i in self.own)
            return index == outermost and is_full(sizes[index], self.stored)
        return self.is_dense_at(index)

    def follows(self, order: Sequence[Index]) -> bool:
        """Whether the tensor is stored in this order of loops."""
        return [index for index in order if index in self.own] == self.own

    def copied(self, order: Sequence[Index], sizes: Sizes, is_wide: bool) -> Format:
        """The format of a copy that is stored in the order of the loops: lists, the outermost mode dense
        where it is full."""
        own = [index for index in order if index in self.own]
        modes = [loops_of(index)[0] for index in self.indices]
        most = max([self.stored, *[sizes[index] for index in own]])
        kind, leaf = index_type([self], most, is_wide), Element(level_of(self.format).fill)
        level = nest_of([self.is_dense_in(order, sizes, index) for index in own], leaf, kind)
        return permuted(level, tuple([modes.index(index) + 1 for index in reversed(own)]))

    @cached_property
    def can_be_copied(self) -> bool:
        """Whether a copy in another order may be read in its place: it has a loop for each mode."""
        return self.is_bare and self.is_sparse and len(self.own) == len(self.indices)

    @property
    def weight(self) -> tuple[int, int]:
        """Less for one of more sparse modes, or of more modes."""
        return -sum([not level.is_dense for _, level in self.levels()]), -len(self.own)

    @cached_property
    def is_found(self) -> bool:
        """Whether its entries can be looked up at any coordinates."""
        levels = [
            level.is_dense or level.modes == 1 and level.lists_entries for _, level in self.levels()
        ]
        return self.can_be_copied and not self.is_reshaped and all(levels)

    @cached_property
    def own(self) -> list[Index]:
        """The indices of loops that it is read at, as it is stored, the outermost first."""
        found = [index for index, _ in self.levels() if isinstance(index, Index)]
        return list(dict.fromkeys(found)) if self.is_reshaped else found


ReadOf = Callable[[Access], Read | None]


@record
class LoopNest:
    """A loop nest to be planned: indices `kept` in the result and `reduced`, the Values stored, reads,
    extents of loops, and where the body does nothing (`absent`), a formula over numbers of reads."""

    kept: tuple[Index, ...]
    reduced: tuple[Index, ...]
    values: Values
    reads: tuple[Read, ...]
    extents: Mapping[Index, int]
    absent: Where

    @cached_property
    def indices(self) -> tuple[Index, ...]:
        """The indices by the numbers that they have in Counts, in their usual order: as operands are
        stored, those of most sparse modes first, and column-major where these leave it open."""
        found = list[Index]()
        reads = sorted(self.reads, key=lambda read: read.weight)
        for chain in (*[read.own for read in reads], [*self.reduced, *self.kept[::-1]]):
            at = 0
            for index in chain:
                if index in self.extents and index not in found:
                    found.insert(at, index)
                at = max(at, found.index(index) + 1) if index in found else at
        return tuple(found)

    def in_order(self, numbers: Sequence[int]) -> tuple[Index, ...]:
        return tuple([self.indices[k] for k in numbers])

    @cached_property
    def operands(self) -> list[OperandEntries]:
        """How the reads are stored."""
        found = []
        for read in self.reads:
            order = tuple(dict.fromkeys(map(self.indices.index, read.own)))
            dense = bits(k for k in order if read.is_dense_at(self.indices[k]))
            parts = bits(order), read.stored, read.is_sparse, order, dense, not read.can_be_copied
            found.append(OperandEntries(*parts))
        return found

    def counts(self, followed: frozenset[int] = frozenset()) -> Counts:
        """What is expected of loops, with reads that are looked up, by number."""
        places = place_counts([float(self.extents[index]) for index in self.indices])
        kept = bits(map(self.indices.index, self.kept))
        every = (1 << len(self.indices)) - 1
        return Counts(places, self.operands, self.absent, kept, followed, every)


def absence_of(
    value: Node, fill: Literal, reads: Sequence[Read], read_of: ReadOf, names: Names
) -> Where:
    """Where an expression is `fill`, since sparse operands are at their fills. `read_of` gives the Read of
    an access, one of `reads`, `names` the formats and types of names."""

    def fills(access: Access) -> Iterator[tuple[int, Node]]:
        read = read_of(access)
        if read is not None and read.is_sparse:
            yield reads.index(read), stored_of(read.format).values.fill

    known = Absence(fills).value(annotate(value, names)).values()
    type = TYPES[fill.type or ""]
    return either(*(at for case, at in known if is_value(case.literal, fill.value, type)))


# ---------------------------------------------------------------------------------------- plans


@record
class Plan:
    """The loops of a nest, outermost first; the result's format; reads that are looked up (`followed`);
    candidates as text; whether entries of operands count (`is_counted`); how many `entries` the result is
    expected to have."""

    order: tuple[Index, ...]
    format: Format
    followed: tuple[Read, ...]
    told: str
    is_counted: bool
    entries: float


@record
class Candidate:
    """An order of loops, the numbers of reads that are looked up in it, and what this costs."""

    cost: float
    order: tuple[int, ...]
    followed: frozenset[int] = frozenset()

    def text(self, nest: LoopNest) -> str:
        names = "".join([f", {nest.reads[k].name} looked up" for k in sorted(self.followed)])
        order = " ".join([index.name for index in nest.in_order(self.order)])
        return f"{order}{names}: {self.cost:.2g}"


def planned(nest: LoopNest, is_dense: bool, is_wide: bool) -> Plan:
    """The plan of a nest: loops in the usual order, if operands are stored in it and nothing is reduced
    over several reads; else in the cheapest order."""
    usual = tuple(range(len(nest.indices)))
    is_alike = all([read.follows(nest.indices) for read in nest.reads if read.is_sparse])
    is_choice = not is_alike or bool(nest.reduced) and len(nest.reads) > 1
    found = candidates(nest) if is_choice else [Candidate(0.0, usual)]
    near = [one for one in found if one.cost <= NEAR * found[0].cost]
    best = next((one for one in near if one.order == usual), near[0])
    order = nest.in_order(best.order)
    told = f"{' '.join(i.name for i in order)}, as operands are stored"
    if is_choice:
        told = "by steps: " + ", ".join([one.text(nest) for one in found[:SHOWN]])
    followed = tuple([nest.reads[k] for k in sorted(best.followed)])
    format = result_format(nest, followed, order, is_dense, is_wide)
    is_narrow = index_type(nest.reads, 0.0, is_wide).bits < 64
    is_counted = is_choice or is_narrow or bool(nest.reduced and nest.kept)
    return Plan(order, format, followed, told, is_counted, nest.counts().entries)


def candidates(nest: LoopNest) -> list[Candidate]:
    """The best order of loops for each innermost loop, the cheapest first; also with reads looked up, those
    that store most first, as long as each saves something."""
    every = [Candidate(*one) for one in nest.counts().orders()]
    best = every[0]
    able = [k for k, read in enumerate(nest.reads) if read.is_found]
    for k in sorted(able, key=lambda k: -nest.reads[k].stored):
        followed = best.followed | {k}
        tried = [
            Candidate(cost, order, followed)
            for cost, order in nest.counts(followed).orders(NEAR * best.cost)
            if not any([nest.reads[n].follows(nest.in_order(order)) for n in followed])
        ]
        every += tried
        best = min([best, *tried], key=lambda one: one.cost)
    return sorted(every, key=lambda one: one.cost)


def result_format(
    nest: LoopNest, followed: Sequence[Read], order: Sequence[Index], is_dense: bool, is_wide: bool
) -> Format:
    """The format of the result, whose modes are stored in the order of the loops, swizzled if that is
    another than its own. It is dense if values are not known to have a fill. For a reduction a level is
    dense if it is expected to be full enough. Otherwise the result has the operands' format if that is one
    for all, or else a mode is dense where all operands have it dense, and a list where not."""
    leaf = Element(nest.values.fill)
    stored = [index for index in order if index in nest.kept]
    if not stored:
        return Scalar(nest.values.fill)
    most = max([2 * nest.counts().entries, *[nest.extents[index] for index in stored]])
    index = index_type(nest.reads, most, is_wide)
    level: Level
    if is_dense or not nest.values.is_fill:
        level = nest_of([True] * len(stored), leaf)
    elif nest.reduced:
        full = full_levels(nest.counts(), list(map(nest.indices.index, stored)))
        level = nest_of(full, leaf, index)
    else:
        same = None if is_wide else _same_format(nest, stored)
        are_dense = [_is_dense(nest, followed, order, k) for k in stored]
        level = nest_of(are_dense, leaf, index) if same is None else same.with_leaf(leaf)
    permutation = tuple([nest.kept.index(index) + 1 for index in reversed(stored)])
    return permuted(level, permutation)


def index_type(reads: Sequence[Read], most: float, is_wide: bool) -> Type:
    """The index type of the lists of a copy or a result: the widest of its operands, if that holds `most`,
    the extents and the expected entries, and no kernel has found too many."""
    levels = [level for read in reads if read.is_sparse for _, level in read.levels()]
    types = [level.index_type for level in levels if not level.is_dense]
    found = max(types, key=lambda type: type.highest, default=Int64)
    return found if most <= found.highest and not is_wide else Int64


def _is_dense(
    nest: LoopNest, followed: Sequence[Read], order: Sequence[Index], index: Index
) -> bool:
    """Whether every read with this mode, but those that are looked up, has it dense, or its copy has."""
    reads = [read for read in nest.reads if index in read.own and read not in followed]
    return bool(reads) and all([read.is_dense_in(order, nest.extents, index) for read in reads])


def _same_format(nest: LoopNest, stored: list[Index]) -> Level | None:
    """The format, but for the fill, that all operands with sparse modes have; None if they differ, are not
    read in the order of the loops, or if the index type does not hold the extents."""
    formats: set[Level] = set()
    for read in nest.reads:
        levels = read.levels()
        if any(not level.is_dense for _, level in levels):
            if [index for index, _ in levels] != stored or len(levels) != len(read.indices):
                return None
            formats.add(level_of(read.format).with_leaf(Element(Literal(0.0))))
    if len(formats) != 1:
        return None
    (found,) = formats
    *parts, _ = found.levels()
    most = min(part.index_type.highest for part in parts)
    # beside what is dense there are hardly any runs
    has_runs = all(any(not level.is_dense for _, level in read.levels()) for read in nest.reads)
    for part in parts:
        is_run = part.merges and part.holds_any and has_runs
        if not (part.is_dense or part.lists_entries or is_run):
            return None
    return found if all(nest.extents[index] <= most for index in stored) else None
