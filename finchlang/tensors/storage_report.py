"""What a tensor's storage takes, level by level: positions, entries, arrays and bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from finchlang.levels.level import Level
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor


@dataclass(frozen=True)
class LevelUse:
    """A level of one tensor: the `sizes` of its modes, which are the `modes` of the tensor (from 1;
    of a swizzled one, by the names it has outside); how many `fibers` it has (of a leaf: values),
    how many positions of the level below they have (`stored`); the part of its arrays in use."""

    level: Level
    modes: tuple[int, ...]
    sizes: tuple[int, ...]
    fibers: int
    stored: int
    arrays: dict[str, np.ndarray]

    @property
    def bytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())


def measure(tensor: Tensor | SwizzledTensor) -> list[LevelUse]:
    """The levels of a tensor, outermost first."""
    body = tensor.body if isinstance(tensor, SwizzledTensor) else tensor
    names = tensor.permutation if isinstance(tensor, SwizzledTensor) else range(1, body.order + 1)
    found, count, end = [], 1, body.order
    sizes = body.format.sizes(body.shape)
    for level, storage, size in zip(body.format.levels(), body.storage, sizes, strict=True):
        start = end - level.modes
        used = level.used(storage, count, size)
        arrays = {name: storage[name][:number] for name, number in used.items()}
        stored = count if level.is_leaf else level.child_count(storage, count, size)
        modes = tuple(names[k] for k in range(start, end))
        found.append(LevelUse(level, modes, body.shape[start:end], count, stored, arrays))
        count, end = stored, start
    return found


def bytes_stored(tensor: Any) -> int:
    """The bytes of the arrays a tensor is stored in, as far as they are in use."""
    if isinstance(tensor, Scalar):
        return tensor.format.element_type.dtype.itemsize
    return sum(use.bytes for use in measure(tensor))
