"""A level's arrays in NumPy, outside of kernels: how long they are, what they store, how they are made of
entries, and what is wrong with them; all of it follows from the level's layout. An item covers a *region*
of coordinates in its fiber, which has one position in the child for all of them or one for each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from finchlang.base.errors import FinchError
from finchlang.levels import layout as lay
from finchlang.levels.layout import ByName, Layout

#: for each stored coordinate: its fiber, as an index into the positions asked for; a row of coordinates
#: for each mode, from 0; its position in the child
Found = tuple[np.ndarray, np.ndarray, np.ndarray]
#: the size of each mode of a level, first mode first
Sizes = tuple[int, ...]
_ALL: Any = slice(None)


class Given(NamedTuple):
    """Entries to be packed into a level, sorted by fiber and coordinates: the position of each one's
    fiber, below `fibers`, and a row of coordinates, from 0, for each mode. For a level that merges, two
    entries have the same number in `contents` if the subfibers they belong to are equal."""

    positions: np.ndarray
    coordinates: np.ndarray
    fibers: int
    sizes: Sizes
    contents: np.ndarray | None = None


# ------------------------------------------------------------------------------ lengths and counters


def _walked(
    layout: Layout, storage: ByName, count: int, sizes: Sizes
) -> Iterator[tuple[lay.LayoutPart | None, int]]:
    """The parts of a layout, each with the number of items that it has a number for, for `count` fibers;
    at last None with the number of positions in the child."""
    for part in layout:
        if isinstance(part, lay.Aside):
            yield from (i for i in _walked(part.parts, storage, count, sizes) if i[0] is not None)
        yield part, count
        if isinstance(part, lay.Offsets):
            count = int(storage[part.name][count])
        elif isinstance(part, lay.Grid):
            count *= part.cells(sizes)
        elif isinstance(part, lay.Counted):
            count = storage[part.counter]
    yield None, count


def lengths(layout: Layout, storage: ByName, count: int, sizes: Sizes) -> dict[str, int]:
    """How many entries of each array are in use for `count` fibers."""
    found = dict[str, int]()
    for part, n in _walked(layout, storage, count, sizes):
        if isinstance(part, lay.Loose):
            found[part.name] = part.length(storage)
        elif isinstance(part, lay.StoredArray):
            found[part.name] = n + isinstance(part, lay.Offsets)
    return found


def child_count(layout: Layout, storage: ByName, count: int, sizes: Sizes) -> int:
    """The number of positions in the child of `count` fibers."""
    return [*_walked(layout, storage, count, sizes)][-1][1]


def listed(layout: Layout, storage: ByName, count: int, sizes: Sizes) -> int | None:
    """How many coordinates (or runs) `count` fibers store; None if only unpacking can tell."""
    marked = [p for p in layout if isinstance(p, lay.Each) and p.empty is not None]
    if marked and not lay.offsets(layout):
        return int(np.any([storage[p.name][:count] != p.empty for p in marked], axis=0).sum())
    for part in layout:
        if isinstance(part, lay.Aside):
            layout = part.parts
    is_known = lay.offsets(layout) or all(isinstance(part, lay.Grid) for part in layout)
    return child_count(layout, storage, count, sizes) if is_known else None


def counted(layout: Layout, storage: ByName, count: int, sizes: Sizes) -> dict[str, int]:
    """The counters of offsets for `count` frozen fibers."""
    parts = _walked(layout, storage, count, sizes)
    return {p.counter: int(storage[p.name][n]) for p, n in parts if isinstance(p, lay.Offsets)}


# ------------------------------------------------------------------------------------------- regions


class _Roles:
    """The parts of a layout by what they say: the offsets of the items of each fiber (None: there is one
    item each), their coordinates, and the offsets of their positions in the child."""

    def __init__(self, layout: Layout):
        self.arrays = [*lay.arrays(layout)]
        offsets = [part for part in self.arrays if isinstance(part, lay.Offsets)]
        self.ptr = next((part.name for part in offsets if not part.is_held), None)
        self.below = next((part.name for part in offsets if part.is_held), None)
        places = [p.name for p in self.arrays if isinstance(p, lay.ChildPositions)]
        self.position = places[0] if places else None
        self.grid = next((part for part in layout if isinstance(part, lay.Grid)), None)
        rows = [part for part in self.arrays if isinstance(part, lay.Coordinate)]
        self.rows = [part.name for part in rows]
        #: where regions begin, and what is stored as the last coordinate of an empty one
        self.begins, self.empty = (rows[0].begins, rows[0].empty) if rows else (lay.FIRST, -1)


class _Regions(NamedTuple):
    """The regions of some fibers: for each the fiber, as an index into the positions asked for; its first
    and its last coordinate, with a row for each mode; its first position in the child, and how many it
    has there (None: one)."""

    which: np.ndarray
    first: np.ndarray
    last: np.ndarray
    at: np.ndarray
    held: np.ndarray | None


def _regions(roles: _Roles, storage: ByName, positions: np.ndarray, sizes: Sizes) -> _Regions:
    which, at = np.arange(len(positions)), positions
    if roles.ptr is not None:
        starts = storage[roles.ptr][positions].astype(np.int64)
        which, nth = ranges(storage[roles.ptr][positions + 1].astype(np.int64) - starts)
        at = starts[which] + nth
    last: Any = np.array([storage[name][at] for name in roles.rows], np.int64)
    first, held = last, None
    if roles.begins in storage:
        first = storage[roles.begins][at].astype(np.int64)[None]
    elif roles.begins == lay.AFTER:
        first = _before(which, last[0])[None] + 1
    elif roles.empty is not None:
        first = np.maximum(last, 0)  # so that what is empty has no coordinate
    if roles.below is not None:
        ofs = storage[roles.below].astype(np.int64)
        at, held = ofs[at], ofs[at + 1] - ofs[at]
    elif roles.position is not None:
        at = storage[roles.position][at]
    elif roles.grid is not None:
        at = positions[which] * roles.grid.cells(sizes)
        if roles.begins == lay.POINT:  # listed beside the grid
            at = at + last[0]
        else:
            held = np.full(len(which), sizes[-1])
    if roles.begins == lay.FIRST:
        first, last = np.zeros((1, len(which)), np.int64), held[None] - 1  # type: ignore[index]
    elif roles.begins == lay.BACK:
        first = last - held + 1
    return _Regions(which, first, last, at, held)


def _before(fibers: np.ndarray, last: np.ndarray) -> np.ndarray:
    """The last coordinate of the region before each in its fiber, or -1."""
    found = np.full(len(last), -1)
    found[1:] = np.where(fibers[1:] == fibers[:-1], last[:-1], -1)
    return found


def unpacked(
    layout: Layout, storage: ByName, positions: np.ndarray, sizes: Sizes, kept: np.ndarray | None
) -> Found:
    """What the fibers at `positions` store. Of regions with one position in the child only those are
    listed whose position is in the mask `kept`, if that is given."""
    which, first, last, at, held = _regions(_Roles(layout), storage, positions, sizes)
    if first is last:
        return which, last, at
    if kept is not None:
        chosen = kept[at] if held is None else (held > 1) | kept[at]
        which, first, last, at = which[chosen], first[:, chosen], last[:, chosen], at[chosen]
        held = None if held is None else held[chosen]
    region, nth = ranges(last[0] - first[0] + 1)
    inside = 0 if held is None else np.where(held[region] == 1, 0, nth)
    return which[region], first[:, region] + nth, at[region] + inside


def _grouped(
    roles: _Roles, given: Given
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, Any]:
    """The regions that store entries: the fiber, the first and the last coordinate of each (a row for each
    mode); the region of each entry that is left, and which these are, as `packed` gives them."""
    fibers, rows, contents, kept = given.positions, given.coordinates, given.contents, _ALL
    new = are_new(fibers, *rows)
    entry = np.cumsum(new) - 1
    if not new.all():
        fibers, rows = fibers[new], rows[:, new]
    if roles.begins == lay.POINT:
        return fibers, rows[0], rows, entry, kept
    keys = [fibers]  # there is one region in each fiber, or one for neighbours, or for equal ones
    if roles.ptr is not None or contents is not None:
        keys.append(rows[0] - np.arange(len(fibers)))
    if contents is not None:
        keys.append(contents[new])
    begins = are_new(*keys)
    region: Any = (np.cumsum(begins) - 1)[entry]
    if contents is not None:
        kept = begins[entry]
        region = region[kept]
    return fibers[begins], rows[0][begins], rows[:, _ends(begins)], region, kept


def packed(layout: Layout, given: Given, name: str) -> tuple[ByName, np.ndarray, Any]:
    """The arrays (of Int64) for entries, the position of each in the child, and which entries these are:
    of equal neighbours that are merged only the first is left. Raises FinchError "access order" for a
    second one in a fiber of a level that stores one; `name` is that level's."""
    roles, contents = _Roles(layout), given.contents
    if not roles.arrays:
        assert roles.grid is not None
        at = given.positions * roles.grid.cells(given.sizes) + given.coordinates[0]
        return {}, at, _ALL
    fibers, first, last, region, kept = _grouped(roles, given)
    if roles.ptr is None and (second := fibers[1:] == fibers[:-1]).any():
        k = np.argmax(second)
        one, other = (f"{first[q] + 1}:{last[0][q] + 1}" for q in (k, k + 1))
        what = "coordinate" if contents is None else "run"
        message = f"a second {what}, {other}, for a fiber of a {name}, which stores one, here {one}"
        raise FinchError("access order", message, hint="use SparseList")
    if roles.begins == lay.FIRST:
        first = np.zeros_like(first)
    elif roles.begins == lay.AFTER:
        fibers, last, rank = _with_gaps(fibers, first, last, given)
        first, region = _before(fibers, last[0]) + 1, rank[region]
    at = region if roles.ptr is not None else fibers[region]
    counts = last[0] - first + 1 if roles.below is not None else None
    if counts is not None and contents is not None:  # neighbours of one coordinate share an item
        begins = np.ones(len(fibers), bool)
        begins[1:] = (counts[1:] > 1) | (counts[:-1] > 1) | (fibers[1:] != fibers[:-1])
        counts = np.diff(np.flatnonzero(begins), append=len(begins))
        fibers, first, last = fibers[begins], first[begins], last[:, _ends(begins)]

    def by_item(values: Any, empty: Any) -> np.ndarray:
        if roles.ptr is not None:
            return values
        found = np.full(given.fibers, empty)
        found[fibers] = values
        return found

    arrays: ByName = {}
    for part in roles.arrays:
        if part.name == roles.ptr:
            arrays[part.name] = pointers(fibers, given.fibers)
        elif part.name == roles.below:
            arrays[part.name] = np.concatenate(([0], np.cumsum(by_item(counts, 0))))
        elif isinstance(part, lay.Coordinate):
            arrays[part.name] = by_item(last[part.mode], part.empty)
        elif part.name == roles.begins:
            arrays[part.name] = by_item(first, part.empty)  # type: ignore[attr-defined]
    if roles.grid is not None:
        at = given.positions * roles.grid.cells(given.sizes) + given.coordinates[0]
    elif roles.below is not None and contents is None:
        at = arrays[roles.below][at] + given.coordinates[0] - first[region]
    return arrays, at, kept


def _ends(begins: np.ndarray) -> np.ndarray:
    """A mask of the last item of each group, given one of the first."""
    return np.append(begins[1:], True)[: len(begins)]


def _with_gaps(
    fibers: np.ndarray, first: np.ndarray, last: np.ndarray, given: Given
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Regions and the gaps between them: their fibers, a row of last coordinates, each region's number."""
    end, size = np.full(given.fibers, -1), given.sizes[-1]
    end[fibers] = last[0]
    gap, open_ends = first > _before(fibers, last[0]) + 1, np.flatnonzero(end < size - 1)
    fibers = np.concatenate((fibers, fibers[gap], open_ends))
    ends = np.concatenate((last[0], first[gap] - 1, np.full(len(open_ends), size - 1)))
    order = np.lexsort((ends, fibers))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return fibers[order], ends[None, order], rank


# --------------------------------------------------------------------------------------- what is wrong


def problem(layout: Layout, storage: ByName, count: int, sizes: Sizes) -> str | None:
    """Why compiled code must not use these arrays for `count` fibers, or None. Compiled code reads what
    is in use of each without a check, and uses the contents as positions and coordinates."""
    found = _wrong_array(layout, storage, count, sizes)
    roles = _Roles(layout)
    if found is not None or roles.begins == lay.POINT or not (roles.rows or roles.below):
        return found
    which, first, last, _, held = _regions(roles, storage, np.arange(count), sizes)
    length = last[0] - first[0] + 1
    is_empty = (length == 0) & (last[0] == roles.empty) & (roles.ptr is None)
    if np.any((length < 1) & ~is_empty):
        return "a region must have a coordinate at least"
    if np.any(first[0] <= _before(which, last[0])):
        return "a region begins before the one before it ends, or before the first coordinate"
    if np.any((last[0] >= sizes[-1]) & ~is_empty):
        return f"a region ends after the last coordinate, {sizes[-1] - 1}"
    if held is not None and np.any((held != 1) & (held != length)):
        return "a region must hold one subfiber, or one for each of its coordinates"
    ends = last[0][_ends(are_new(which))]
    if roles.begins == lay.AFTER and sizes[-1] and (len(ends) < count or any(ends < sizes[-1] - 1)):
        return f"the regions of each fiber must end at {sizes[-1] - 1}"
    return None


def _wrong_array(layout: Layout, storage: ByName, count: int, sizes: Sizes) -> str | None:
    """What is wrong with lengths, offsets, and coordinates that are out of range or out of order."""
    offsets: np.ndarray | None = None
    ascends: Any = None
    ends = dict[str, int]()
    for part, n in _walked(layout, storage, count, sizes):
        if isinstance(part, lay.Counted):  # by a counter of more than what is listed
            ends.pop(part.counter, None)
        if not isinstance(part, lay.Each | lay.Offsets | lay.ChildPositions):
            continue
        needed, array = n + isinstance(part, lay.Offsets), storage[part.name]
        if len(array) < needed:
            return f"{part.name} has {len(array)} entries; it needs {needed}"
        array = array[:needed]
        if isinstance(part, lay.Offsets):
            if array[0] != 0 or np.any(array[1:] < array[:-1]):
                return f"{part.name} must start at 0 and never descend"
            offsets = array if offsets is None else offsets
            ends[part.counter] = int(array[-1])
        if isinstance(part, lay.Coordinate):
            used = array if part.empty is None else array[array != part.empty]
            if len(used) and (used.min() < 0 or used.max() >= sizes[part.mode]):
                return f"{part.name} must be in 0..{sizes[part.mode] - 1}"
            if offsets is not None:
                rises = array[1:] > array[:-1]
                if part.mode:
                    rises |= (array[1:] == array[:-1]) & ascends
                ascends = rises
    if ascends is not None and not _in_each(offsets, ascends):
        return "what is stored must ascend within each fiber"
    for name, end in ends.items():
        if storage[name] != end:
            return f"{name} is {storage[name]}, but the offsets end at {end}"
    return None


def _in_each(offsets: Any, ascends: np.ndarray) -> bool:
    """Whether each item ascends from the one before it in its fiber; `ascends` begins with the second."""
    inner, ascends = offsets[1:-1], ascends.copy()
    ascends[inner[(inner > 0) & (inner <= len(ascends))] - 1] = True
    return bool(ascends.all())


# ------------------------------------------------------------------------------------ pointer arrays


def ranges(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The numbers 0..n - 1 for each n in `lengths`: for each the index of its length, and the number."""
    which = np.repeat(np.arange(len(lengths)), lengths)
    before = np.cumsum(lengths) - lengths
    return which, np.arange(len(which)) - before[which]


def pointers(fibers: np.ndarray, count: int) -> np.ndarray:
    """The pointer array for entries in the given fibers, of 0..count - 1."""
    ptr = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(fibers, minlength=count), out=ptr[1:])
    return ptr


def are_new(*rows: np.ndarray) -> np.ndarray:
    """A mask of the entries that differ from the one before in any of `rows`."""
    new = np.ones(len(rows[0]), bool)
    new[1:] = rows[0][1:] != rows[0][:-1]
    for row in rows[1:]:
        new[1:] |= row[1:] != row[:-1]
    return new
