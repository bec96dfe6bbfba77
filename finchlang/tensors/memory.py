"""The memory of a tensor: its sizes, its arrays with all their room, and its counters, never changed
once made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from finchlang.base.aligned_memory import ALIGNMENT, empty_aligned
from finchlang.base.errors import FinchError

if TYPE_CHECKING:
    from finchlang.levels.level import Level


def address_of(array: np.ndarray) -> int:
    """Where an array is in memory."""
    return array.__array_interface__["data"][0]


class Memory:
    """What a tensor of some format is kept in: `shape`, a size for each mode; `arrays`, those of each
    level in turn, outermost first, one-dimensional, with room behind what is in use; `counters`,
    likewise. A tensor that is written gets another Memory, perhaps over the same arrays.

    `is_shared` says that arrays were handed out, so that nothing may be written into them unless
    it is the tensor's own new content. Those that are somebody else's, who may have them cut short,
    had `rooms` for so many entries when they were borrowed.
    """

    __slots__ = ("_storage", "arrays", "counters", "is_shared", "rooms", "shape")

    def __init__(
        self, shape: tuple[int, ...], arrays: Sequence[np.ndarray], counters: tuple[Any, ...]
    ):
        self.shape, self.arrays, self.counters = shape, arrays, counters
        self.is_shared = False
        self.rooms: list[int] | None = None
        self._storage: list[dict[str, Any]] | None = None

    @classmethod
    def borrowed(
        cls, shape: tuple[int, ...], arrays: Sequence[np.ndarray], counters: tuple[Any, ...]
    ) -> Memory:
        """Memory that is somebody else's."""
        memory = cls(shape, arrays, counters)
        memory.is_shared, memory.rooms = True, [array.size for array in arrays]
        return memory

    @classmethod
    def of(
        cls, format: Level, shape: tuple[int, ...], storage: Sequence[dict[str, Any]], copied: bool
    ) -> Memory:
        """The memory for arrays and counters given by level; `copied` if the arrays may be somebody
        else's. Such as are no NumPy arrays of the level's types are converted."""
        arrays: list[np.ndarray] = []
        counters: list[Any] = []
        views: list[dict[str, Any]] = []
        for level, own in zip(format.levels(), storage, strict=True):
            first = len(arrays)
            for name, type in level.arrays:
                arrays.append(_owned(own[name], (type or level.own_type).dtype, copied))
            named = zip(level.arrays, arrays[first:], strict=True)
            views.append({**own, **{name: array[:] for (name, _), array in named}})
            counters += [own[name] for name, _ in level.counters]
        memory = cls(shape, arrays, tuple(counters))
        memory._storage = views
        return memory

    def __reduce__(self) -> Any:
        """A copy, by `copy.deepcopy` or out of a pickle, has arrays of its own, which are elsewhere."""
        return Memory, (self.shape, [array.copy() for array in self.arrays], self.counters)

    def storage(self, format: Level) -> list[dict[str, Any]]:
        """The arrays as far as they are in use, and the counters, in a dict for each level. They are
        views, so that nobody else can have the memory resized."""
        if self._storage is None:
            self._storage = self._by_level(format)
        return self._storage

    def _by_level(self, format: Level) -> list[dict[str, Any]]:
        arrays, counters, count = iter(self.arrays), iter(self.counters), 1
        storage: list[dict[str, Any]] = []
        for level, size in zip(format.levels(), format.sizes(self.shape), strict=True):
            own: dict[str, Any] = {name: next(arrays) for name, _ in level.arrays}
            own |= {name: next(counters) for name, _ in level.counters}
            for name, used in level.used(own, count, size).items():
                own[name] = own[name][:used]
            storage.append(own)
            if not level.is_leaf:
                count = level.child_count(own, count, size)
        return storage


def in_use(
    parts: Iterable[tuple[Level, dict[str, Any], int]],
) -> Iterator[tuple[int, int, dict[str, np.ndarray]]]:
    """Of levels with their storage and sizes: how many fibers each has (of a leaf: values), how many
    positions of the level below these have, and the part of its arrays that is in use."""
    count = 1
    for level, storage, size in parts:
        used = level.used(storage, count, size)
        stored = count if level.is_leaf else level.child_count(storage, count, size)
        yield count, stored, {name: storage[name][:number] for name, number in used.items()}
        count = stored


def _owned(array: Any, dtype: np.dtype, copied: bool) -> np.ndarray:
    """`array` itself if it is one that a tensor may keep, else a copy."""
    array = np.asarray(array)
    if not np.can_cast(array.dtype, dtype, "same_kind"):
        raise FinchError("type", f"an array of {array.dtype} stands where one of {dtype} is kept")
    is_ours = array.dtype == dtype and array.ndim == 1 and array.flags.c_contiguous
    if is_ours and not copied and address_of(array) % ALIGNMENT == 0:
        return array
    own = empty_aligned(array.size, dtype)
    own[:] = array.reshape(-1)
    return own
