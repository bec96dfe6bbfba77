"""The data of a loop nest for the planner: indices of the result, reduced indices, reads, and where it does
nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

from finchlang.algebra.absence import Absence, Where, either
from finchlang.algebra.expression_types import Names, annotate
from finchlang.algebra.laws import is_value
from finchlang.array.index_paths import is_path, loops_of
from finchlang.array.inferred_values import Values, stored_of
from finchlang.base.records import record
from finchlang.levels.level import Level, level_of
from finchlang.syntax.nodes import Access, Index, Literal, Node
from finchlang.syntax.types import TYPES
from finchlang.tensors.formats import Format, modes_of


@record
class Read:
    """An access of a tensor: its format, the indices of its modes, how many entries it (perhaps) stores."""

    format: Format
    indices: tuple[Node, ...]
    stored: float
    name: str

    def levels(self) -> list[tuple[Node, Level]]:
        """The index of each mode with its level, the outermost first. A mode whose index map has several
        loop indices is there with each of them, and an index in the maps of several modes with each."""
        format = level_of(self.format)
        parts = zip(format.levels(), format.sizes(modes_of(self.format)), strict=True)
        places = [(level, self.indices[mode - 1]) for level, own in parts for mode in own[::-1]]
        return [(index, level) for level, place in places for index in loops_of(place)]

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

    def follows(self, order: Sequence[Index]) -> bool:
        """Whether the tensor is stored in this order of loops."""
        return [index for index in order if index in self.own] == self.own

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
