"""Small random arrays that a nest of levels can hold."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np

from finchlang.levels.level import Level
from finchlang.tensors.tensor import Tensor, mirrored_modes

#: the stored halves of packed matrices
HALVES = {
    "UpperTriangular": lambda i, j: i <= j,
    "LowerTriangular": lambda i, j: i >= j,
    "Symmetric": lambda i, j: i <= j,
}
VALUES: dict[str, tuple[Any, ...]] = {
    "float": (1.0, 2.0, 3.0, 0.0, -1.0),
    "int": (1, 2, 3, 0, -1),
    "uint": (1, 2, 3, 0),
    "bool": (True, False),
}


def values_of(format: Level) -> tuple[Any, ...]:
    """What a tensor may hold here apart from its fill."""
    return tuple(v for v in VALUES[format.element_type.kind] if v != format.fill.value)


class Sampler:
    """Random contents of formats; of density 1 everything, without repetitions."""

    def __init__(self, seed: int, density: float):
        self.random, self.density = random.Random(seed), density

    def array(self, format: Level, shape: tuple[int, ...]) -> np.ndarray:
        """Of packed matrices, only the half they store is filled."""
        return self._fiber(format, format, shape)

    def _fiber(self, format: Level, level: Level, shape: tuple[int, ...]) -> np.ndarray:
        dtype = format.element_type.dtype
        if level.is_leaf:
            return np.array(self.random.choice(values_of(format)), dtype)
        array = np.full(shape, format.fill.value, dtype)
        name, last = type(level).__name__, shape[-1]
        rest = shape[: len(shape) - level.modes]

        def fiber() -> np.ndarray:
            return self._fiber(format, level.child, rest)

        if level.modes > 1:
            for place in itertools.product(*map(range, shape[len(rest) :])):
                if self._chance() and HALVES.get(name, lambda *_: True)(*place):
                    array[..., *place] = fiber()
        elif name == "SparsePinpoint":
            if last and self._chance():
                array[..., self.random.randrange(last)] = fiber()
        elif name == "SparseInterval":
            if last and self._chance():
                start = self.random.randrange(last)
                stop = self.random.randint(start + 1, last)
                array[..., start:stop] = fiber()[..., None]
        else:
            for j in range(last):
                if j and self.density < 1 and self.random.random() < 0.3:
                    array[..., j] = array[..., j - 1]
                elif self._chance():
                    array[..., j] = fiber()
        return array

    def _chance(self) -> bool:
        return self.random.random() < self.density


def mirrored(array: np.ndarray, format: Level) -> np.ndarray:
    """The array with what the levels Symmetric below and above the diagonal have in common."""
    for a, b in mirrored_modes(Tensor(format)):
        array = np.where(array == format.fill.value, array.swapaxes(a, b), array)
    return array


def tensor(array: np.ndarray, format: Level, stores_fill: bool = False) -> Tensor:
    """A tensor that stores what differs from the fill and, if asked to, every second entry."""
    if not stores_fill:
        return Tensor.from_numpy(array, format)
    stored = (array != format.fill.value) | (np.arange(array.size).reshape(array.shape) % 2 == 0)
    return Tensor.from_coo(format, array.shape, list(np.nonzero(stored)), array[stored])
