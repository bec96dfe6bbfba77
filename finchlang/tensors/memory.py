"""The memory of a tensor: sizes, arrays with all their room, and counters; never changed once made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from finchlang.base.aligned_memory import ALIGNMENT, aligned_copy, empty_aligned
from finchlang.base.errors import FinchError
from finchlang.levels.layout import ByName
from finchlang.levels.numpy_layout import Sizes, child_count, lengths
from finchlang.syntax.types import foreign
from finchlang.tensors.entries import array_of

if TYPE_CHECKING:
    from finchlang.levels.level import Level


def address_of(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


class Memory:
    """The memory of a tensor. `shape` has a size for each mode; `arrays` are the one-dimensional arrays of
    each level, outermost first, and may be longer than what is in use; `counters` are those of each level
    in the same order. A tensor that is written gets another Memory, perhaps over the same arrays.
    `is_shared`: arrays were given away, so that nothing may be written into them except the tensor's own
    new content. `rooms`, of arrays borrowed from others, are their lengths at that time: the owner may have
    shortened them since."""

    __slots__ = ("_storage", "arrays", "counters", "is_shared", "rooms", "shape")

    def __init__(self, shape: Sizes, arrays: Sequence[np.ndarray], counters: tuple[Any, ...]):
        self.shape, self.arrays, self.counters = shape, arrays, counters
        self.is_shared = False
        self.rooms: list[int] | None = None
        self._storage: list[ByName] | None = None

    @classmethod
    def borrowed(
        cls, shape: Sizes, arrays: Sequence[np.ndarray], counters: tuple[Any, ...]
    ) -> Memory:
        """Memory over arrays that belong to others."""
        memory = cls(shape, arrays, counters)
        memory.is_shared, memory.rooms = True, [array.size for array in arrays]
        return memory

    def share(self, before: Memory) -> None:
        """Note which of these arrays are still those of `before`, which were given away or borrowed."""
        pairs = zip(self.arrays, before.arrays, strict=True)
        self.is_shared = any([np.may_share_memory(new, old) for new, old in pairs])
        if self.is_shared and before.rooms is not None:
            self.rooms = [array.size for array in self.arrays]

    @classmethod
    def of(cls, format: Level, shape: Sizes, storage: Sequence[ByName], copied: bool) -> Memory:
        """The memory for arrays and counters given level by level: all `copied`, or only those of another
        type, layout or alignment. Raises FinchError "type" for what is missing."""
        arrays: list[np.ndarray] = []
        counters: list[Any] = []
        views: list[ByName] = []
        levels = [*format.levels()]
        is_listed = isinstance(storage, Sequence) and all(isinstance(own, dict) for own in storage)
        if not is_listed or len(storage) != len(levels):
            given = len(storage) if is_listed else foreign(storage)
            message = f"{format} is stored in {len(levels)} parts, each a dictionary, not {given}"
            raise FinchError("type", message)
        for level, own in zip(levels, storage, strict=True):
            needed = [name for name, _ in (*level.arrays, *level.counters) if name not in own]
            if needed:
                raise FinchError("type", f"`{needed[0]}` of {level} is missing in its storage")
            first = len(arrays)
            for name, type in level.arrays:
                arrays.append(_owned(own[name], (type or level.own_type).dtype, copied))
            named = zip(level.arrays, arrays[first:], strict=True)
            views.append({**own, **{name: array[:] for (name, _), array in named}})
            counters += [_count(name, own[name]) for name, _ in level.counters]
        memory = cls(shape, arrays, tuple(counters))
        memory._storage = views
        return memory

    def __reduce__(self) -> Any:
        """Pickled by its arrays as they are; the unpickled one has arrays of its own."""
        return _unpickled, (self.shape, [*self.arrays], self.counters)

    def storage(self, format: Level) -> list[ByName]:
        """For each level its counters and its arrays, cut to what is in use: views that are not resized."""
        if self._storage is None:
            arrays, counters, levels = iter(self.arrays), iter(self.counters), [*format.levels()]
            storage: list[ByName] = []
            for level in levels:
                storage.append({name: next(arrays) for name, _ in level.arrays})
                storage[-1] |= {name: next(counters) for name, _ in level.counters}
            parts = [*zip(levels, storage, format.sizes(self.shape), strict=True)]
            used = [arrays for _, _, arrays in in_use(parts)]
            self._storage = [own | cut for own, cut in zip(storage, used, strict=True)]
        return self._storage


def _unpickled(shape: Sizes, arrays: Sequence[np.ndarray], counters: tuple[Any, ...]) -> Memory:
    """Memory with copies: what was pickled out of band may still be the memory of another tensor."""
    return Memory(shape, [*map(aligned_copy, arrays)], counters)


#: the levels of a format, each with its arrays and counters, and its sizes
Parts = Sequence[tuple[Any, ByName, Sizes]]


def fibers(parts: Parts) -> Iterator[tuple[Any, ByName, Sizes, int]]:
    """Each level with its storage and sizes, and how many fibers it has (of a leaf: values)."""
    count = 1
    for level, storage, sizes in parts:
        yield level, storage, sizes, count
        count = child_count(level.layout, storage, count, sizes)


def in_use(parts: Parts) -> Iterator[tuple[int, int, dict[str, np.ndarray]]]:
    """For each level its fibers (of a leaf: values), their positions below, and its arrays in use."""
    for level, storage, sizes, count in fibers(parts):
        used = lengths(level.layout, storage, count, sizes)
        stored = child_count(level.layout, storage, count, sizes)
        yield count, stored, {name: storage[name][:number] for name, number in used.items()}


def _count(name: str, given: Any) -> int:
    """A counter. Raises FinchError "type" for another value than a number of things."""
    is_number = isinstance(given, (int, np.integer)) and not isinstance(given, bool)
    if not is_number or not 0 <= given < 1 << 63:
        what = given if is_number else foreign(given)
        raise FinchError("type", f"`{name}` of a storage is a count, not {what}")
    return int(given)


def _owned(array: Any, dtype: np.dtype, copied: bool) -> np.ndarray:
    """`array` if a tensor may keep it, else a copy. Raises FinchError "type" if it is not converted."""
    array = array_of(array, "parts of a storage")
    if not np.can_cast(array.dtype, dtype, "same_kind"):
        raise FinchError("type", f"an array of {array.dtype} stands where one of {dtype} is kept")
    is_ours = array.dtype == dtype and array.ndim == 1 and array.flags.c_contiguous
    if is_ours and not copied and address_of(array) % ALIGNMENT == 0:
        return array
    own = empty_aligned(array.size, dtype)
    own[:] = array.reshape(-1)
    return own
