"""Packing entries into the storage of a format, level by level, and unpacking them."""

from __future__ import annotations

from itertools import repeat

import numpy as np

from finchlang.base.errors import FinchError
from finchlang.base.memory_limit import check_available
from finchlang.levels.element import differs
from finchlang.levels.layout import ByName
from finchlang.levels.level import Level
from finchlang.levels.numpy_layout import Given, Sizes, child_count, counted
from finchlang.tensors.entries import content_numbers
from finchlang.tensors.memory import Parts, fibers


def pack(format: Level, shape: Sizes, coordinates: np.ndarray, values: np.ndarray) -> list[ByName]:
    """The storage for entries sorted by their coordinates (last mode first). Raises
    FinchError "dimension" or "resource" if an index type or the memory is too small, "access order" for
    entries that a level cannot hold."""
    storage: list[ByName] = []
    positions, count = np.zeros(len(values), np.int64), 1
    levels = list(format.levels())
    try:
        end = len(shape)
        for level, sizes in zip(levels[:-1], format.sizes(shape), strict=False):
            own = coordinates[end - level.modes : end]
            end -= level.modes
            _check_sizes(level, sizes)
            contents = content_numbers(coordinates, values, end) if level.merges else None
            given = Given(positions, own, count, sizes, contents)
            check_available(8 * count if level.arrays else 0)  # that many pointers, or more
            arrays, positions, kept = level.pack(given)
            coordinates, values = coordinates[:, kept], values[kept]
            counters = counted(level.layout, arrays, count, sizes)
            storage.append(level.empty() | narrowed(level, arrays) | counters)
            count = child_count(level.layout, storage[-1], count, sizes)
        storage.append(levels[-1].pack_values(values, positions, count))  # type: ignore
    # NumPy reports sizes beyond the address space by ValueError
    except (MemoryError, OverflowError, ValueError):
        size = " x ".join(map(str, shape))
        raise FinchError("resource", f"no memory for a {size} tensor {format}") from None
    return storage


def _check_sizes(level: Level, sizes: Sizes) -> None:
    """Raises FinchError "dimension" where the index type cannot hold a dimension's coordinates."""
    index = level.index_type
    for size in sizes:
        if size > index.highest:
            message = f"{index} has no room for the coordinates of a dimension of size {size}"
            raise FinchError("dimension", message)


def narrowed(level: Level, arrays: ByName) -> ByName:
    """The arrays in the types of `level`. Raises FinchError "resource" if its index type is too small."""
    narrow = dict(arrays)
    for name, element in level.arrays:
        type = element or level.index_type
        if name in arrays and arrays[name].dtype != type.dtype:
            most = arrays[name].max(initial=0)
            if most > type.highest:
                what = f"the {most} positions of a {level.__class__.__name__}"
                raise FinchError("resource", f"{type} has no room for {what}")
            narrow[name] = arrays[name].astype(type.dtype)
    return narrow


def unpack(parts: Parts, kept: list[np.ndarray] | None) -> tuple[np.ndarray, np.ndarray]:
    """The stored coordinates (order x entries) and their positions in the leaf. Of runs only those are
    listed whose child is in `kept` (a mask for each level), if that is given."""
    positions, coordinates = np.zeros(1, np.int64), np.empty((0, 1), np.int64)
    for (level, storage, sizes), mask in zip(parts[:-1], kept or repeat(None), strict=False):
        which, here, positions = level.unpack(storage, positions, sizes, _of_runs(level, mask))
        coordinates = np.vstack((here, coordinates[:, which]))
    return coordinates, positions


def differing(parts: Parts) -> list[np.ndarray] | None:
    """For each level, a mask of the children that hold a value other than the fill; None if no level has
    runs (only these can cover many coordinates with fill)."""
    *above, (leaf, values, _) = parts
    if not any(level.merges for level, *_ in above):
        return None
    counts = [count for *_, count in fibers(parts)]
    kept = [differs(leaf.unpack_values(values, np.arange(counts[-1])), leaf.fill.value)]
    for (level, storage, sizes), count in zip(above[::-1], counts[-2::-1], strict=True):
        which, _, at = level.unpack(storage, np.arange(count), sizes, _of_runs(level, kept[0]))
        kept.insert(0, np.bincount(which[kept[0][at]], minlength=count) > 0)
    return kept[1:]


def _of_runs(level: Level, kept: np.ndarray | None) -> np.ndarray | None:
    """The mask `kept` for a level that has runs; what others store of fill is listed."""
    return kept if level.merges else None
