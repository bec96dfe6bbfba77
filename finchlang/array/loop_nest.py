"""What a loop nest is planned by: the indices of the result, what is reduced, and what is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from finchlang.array.index_paths import is_path, loops_of
from finchlang.array.inferred_values import Values
from finchlang.levels.level import Level, Swizzled
from finchlang.syntax.nodes import Index, Node


@dataclass(frozen=True)
class Read:
    """An access of a tensor in a statement: its format, the indices of its modes, and how many entries
    it stores, or is expected to."""

    format: Level | Swizzled
    indices: tuple[Node, ...]
    stored: float = float("inf")
    name: str = ""

    def levels(self) -> list[tuple[Node, Level]]:
        """The index of each mode with the level that has it, the outermost first; of a mode that is
        several here those, of modes that are one here that with each."""
        format = self.format
        modes = list(range(len(self.indices)))
        if isinstance(format, Swizzled):
            modes, format = [p - 1 for p in format.permutation], format.level
        found: list[tuple[Node, Level]] = []
        for level in format.levels():
            for _ in range(level.modes):
                found += [(index, level) for index in loops_of(self.indices[modes.pop()])]
        return found

    @cached_property
    def is_reshaped(self) -> bool:
        """Whether its modes are others than those of the loops."""
        return any(map(is_path, self.indices))

    @cached_property
    def is_sparse(self) -> bool:
        is_diagonal = len({*self.own}) < len(self.own)  # which no order suits better
        some = any(not level.is_dense for _, level in self.levels())
        return self.stored < float("inf") and some and not is_diagonal

    def is_dense_at(self, index: Index) -> bool:
        """Whether the level of a mode is dense."""
        return all(level.is_dense for i, level in self.levels() if i == index)

    def follows(self, order: Sequence[Index]) -> bool:
        """Whether it is stored in the order of the loops."""
        return [index for index in order if index in self.own] == self.own

    @cached_property
    def own(self) -> list[Index]:
        """The loops' indices among those of its modes, the outermost first."""
        found = [index for index, _ in self.levels() if isinstance(index, Index)]
        return list(dict.fromkeys(found)) if self.is_reshaped else found


@dataclass(frozen=True)
class ValueSpace:
    """Where a value may differ from its fill (SparseArray'21 section 5.2): where all of the parts do,
    or, in a union, any; a read where it stores something."""

    parts: tuple[ValueSpace | Read, ...] = ()
    is_union: bool = False


EVERYWHERE = ValueSpace()


@dataclass(frozen=True)
class LoopNest:
    """A loop nest to be planned: the indices of the result's modes, those that are reduced, what is
    known of the values that are stored, and what is read; the extents of the loops, and where there
    is something to do."""

    kept: tuple[Index, ...]
    reduced: tuple[Index, ...]
    values: Values
    reads: tuple[Read, ...]
    extents: Mapping[Index, int] = field(default_factory=dict)
    space: ValueSpace | Read = EVERYWHERE
