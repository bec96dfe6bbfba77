"""The data of a loop nest for the planner: indices of the result, reduced indices, reads, and where it does
nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from finchlang.algebra.absence import Absence, Where, either
from finchlang.algebra.expression_types import Names, annotate
from finchlang.algebra.laws import is_value
from finchlang.array.cost import Counts, OperandEntries, PlaceCounts
from finchlang.array.index_paths import is_path, loops_of
from finchlang.array.inferred_values import Values, stored_of
from finchlang.base.records import record
from finchlang.levels.level import Level, level_of
from finchlang.syntax.nodes import Access, Index, Literal, Node
from finchlang.syntax.types import TYPES
from finchlang.tensors.formats import Format, modes_of


def levels_at(format: Format, indices: Sequence[Any]) -> list[tuple[Any, Level]]:
    """The index of each mode of a tensor with the mode's level, the outermost first."""
    stored = level_of(format)
    parts = zip(stored.levels(), stored.sizes(modes_of(format)), strict=True)
    return [(indices[mode - 1], level) for level, own in parts for mode in own[::-1]]


@record
class Read:
    """An access of a tensor: its format, the indices of its modes, how many entries it stores, or if it
    `is_made` in another nest is expected to."""

    format: Format
    indices: tuple[Node, ...]
    stored: float
    name: str
    is_made: bool = False

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

    def is_dense_in(self, order: Sequence[Index], index: Index) -> bool:
        """As `is_dense_at`, in loops of this order, for which it may be copied, dense over lists."""
        if self.is_sparse and not self.follows(order):
            return index == next(i for i in order if i in self.own)
        return self.is_dense_at(index)

    def follows(self, order: Sequence[Index]) -> bool:
        """Whether the tensor is stored in this order of loops."""
        return [index for index in order if index in self.own] == self.own

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
        return (
            self.is_sparse
            and not self.is_reshaped
            and len(self.own) == len(self.indices)
            and all(levels)
        )

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

    @cached_property
    def operands(self) -> list[OperandEntries]:
        """How the reads are stored."""
        bits = {index: k for k, index in enumerate(self.indices)}
        found = []
        for read in self.reads:
            order = tuple(dict.fromkeys([bits[index] for index in read.own]))
            dense = sum([1 << k for k in order if read.is_dense_at(self.indices[k])])
            mask = sum([1 << k for k in order])
            found.append(OperandEntries(mask, read.stored, read.is_sparse, order, dense))
        return found

    def counts(self, followed: frozenset[int] = frozenset()) -> Counts:
        """What is expected of loops, with reads that are looked up, by number."""
        places = PlaceCounts([float(self.extents[index]) for index in self.indices])
        kept = sum([1 << k for k, index in enumerate(self.indices) if index in self.kept])
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
