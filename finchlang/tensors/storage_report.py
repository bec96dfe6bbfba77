"""The storage of a tensor, level by level: positions, entries, arrays and bytes."""

from __future__ import annotations

import numpy as np

from finchlang.base.records import record
from finchlang.levels.level import Level, level_of
from finchlang.tensors.formats import modes_of
from finchlang.tensors.memory import in_use
from finchlang.tensors.pack import unpack
from finchlang.tensors.tensor import SwizzledTensor, Tensor, body_of


@record
class LevelUse:
    """The storage of one level: the `sizes` of its modes, which are the `modes` of the tensor (from 1; of
    a swizzled tensor by their outer names); `fibers`, how many it has (of a leaf: values); `stored`, how
    many positions they have in the level below; `arrays`, cut to what is in use."""

    level: Level
    modes: tuple[int, ...]
    sizes: tuple[int, ...]
    fibers: int
    stored: int
    arrays: dict[str, np.ndarray]

    @property
    def bytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())


def stored_at(tensor: Tensor | SwizzledTensor) -> tuple[np.ndarray, np.ndarray]:
    """The 0-based coordinates of all that is stored (order x number), in the order of the body's modes, and
    the position of each in the leaf."""
    return unpack(body_of(tensor)._parts(), None)


def measure(tensor: Tensor | SwizzledTensor) -> list[LevelUse]:
    """The levels of a tensor, outermost first."""
    parts = body_of(tensor)._parts()  # `storage` would note that its arrays are given away
    modes = level_of(tensor.format).sizes(modes_of(tensor.format))
    rows = zip(parts, modes, in_use(parts), strict=True)
    return [LevelUse(level, own, sizes, *used) for (level, _, sizes), own, used in rows]
