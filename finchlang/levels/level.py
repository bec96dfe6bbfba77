"""The level interface (Finch'25 section 3, Table 3): what a format is, how it is stored, and the
functions declare, assemble, freeze, thaw, unfurl, read and write every level has.

A `Level` is a format: immutable, compared by structure, printed as it is written
(`Dense(SparseList(Element(0.0)))`, outermost first; the outermost level is the last mode). A
`Storage` is a level bound to the memory of one tensor in one kernel. A `Fiber` is a subtensor at one
position of a store, and is what accesses refer to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import takewhile
from typing import Any, ClassVar, NamedTuple

import numpy as np

from finchlang.base.errors import Bug, Span
from finchlang.host.construct import ONE, ZERO, compare, const
from finchlang.host.interface import Host
from finchlang.host.ir import Buffer, Cell, Expr
from finchlang.levels import layout as lay
from finchlang.levels.layout import ByName
from finchlang.levels.looplets import Run
from finchlang.syntax.nodes import Literal, Node
from finchlang.syntax.types import Int64, Type
from finchlang.text.print import pretty

READ, UPDATE = "read", "update"
#: the sizes of the modes of a level and of those below it, the outermost last
Dims = tuple[Expr, ...]

#: of each stored coordinate: its fiber, as an index into those asked for; itself; its position in the child
Found = tuple[np.ndarray, np.ndarray, np.ndarray]


class Given(NamedTuple):
    """Entries to be packed, sorted by their fibers, at `positions` of `fibers`, and by their coordinates,
    from 0, in the level's dimension `size`; of a level of several modes a row of coordinates for each,
    first mode first, and a tuple of sizes. Two have the same number in `contents` if the subfibers
    they belong to are equal."""

    positions: np.ndarray
    coordinates: np.ndarray
    fibers: int
    size: Any
    contents: np.ndarray | None = None


@dataclass(frozen=True)
class Level:
    """A format. Subclasses are dataclasses whose fields are the child and static parameters."""

    #: how its arrays lie; from that follow those of its operations that it has not got itself
    layout: ClassVar[lay.Layout] = ()
    #: whether fibers must be written in order and coordinates in ascending order (Table 4)
    is_sequential: ClassVar[bool] = False
    #: what is written in any order in place of a level that is not, with its parameters
    out_of_order: ClassVar[Any] = None
    #: whether a sequential level's fibers may be written in turn, as long as each is in order
    takes_any_fiber: ClassVar[bool] = False
    #: whether every coordinate has a position of its own, stored or not
    is_dense: ClassVar[bool] = False
    #: whether there may be coordinates without an entry, which are fill
    has_gaps: ClassVar[bool] = True
    #: whether modes have one size, and whether coordinates of its first and last mean the same exchanged
    is_square: ClassVar[bool] = False
    is_symmetric: ClassVar[bool] = False
    #: whether a fiber can hold entries at any coordinates
    holds_any: ClassVar[bool] = True
    #: whether it stores those coordinates of a fiber that have an entry, in order, and no others
    lists_entries: ClassVar[bool] = False
    #: whether coordinates nobody wrote may be stored too (then there can be no Pattern below)
    stores_fill: ClassVar[bool] = False
    #: protocols a read may ask for, the default first
    protocols: ClassVar[tuple[str, ...]] = ("walk",)
    #: whether `declare` looks at what the arrays hold, so as to clear no more than that
    clears_entries: ClassVar[bool] = False
    #: whether sizes and counters tell how much of each array of a frozen tensor is in use
    counts_lengths: ClassVar[bool] = True
    #: arrays of which entries are read that were never written, whatever they hold
    anything: ClassVar[frozenset[str]] = frozenset()
    is_leaf: ClassVar[bool] = False
    #: whether reading a leaf gives structure, and reducing into it may end the loops around
    is_structured: ClassVar[bool] = False
    is_short_circuit: ClassVar[bool] = False
    #: whether equal neighbours are stored as one: then `pack_merged` takes the place of `pack`
    merges: ClassVar[bool] = False
    #: whether a program says by which operator what is written to one place is combined: `combining`
    combines: ClassVar[bool] = False

    @cached_property
    def arrays(self) -> tuple[tuple[str, Type | None], ...]:
        """Arrays of the storage: (name, type); a type None is the level's own index or element type."""
        return tuple((part.name, part.type) for part in lay.arrays(self.layout))

    @cached_property
    def counters(self) -> tuple[tuple[str, Type | None], ...]:
        """Numbers of the storage that change when it is written: those of offsets."""
        return tuple(
            {part.counter: (part.counter, Int64) for part in lay.offsets(self.layout)}.values()
        )

    @property
    def has_all_positions(self) -> bool:
        """Whether the child has a position for every coordinate, so that sizes multiply."""
        return any(isinstance(part, lay.Grid) for part in self.layout)

    @property
    def child(self) -> Level:
        """The level below (Table 4 calls the field `lvl`)."""
        return getattr(self, "lvl")  # noqa: B009

    def levels(self) -> Iterator[Level]:
        """This level and those below it, down to the leaf."""
        level = self
        while not level.is_leaf:
            yield level
            level = level.child
        yield level

    @property
    def order(self) -> int:
        """The number of dimensions."""
        return sum(level.modes for level in self.levels())

    @property
    def modes(self) -> int:
        """The number of dimensions this level itself has: one, but for coordinate and packed levels."""
        return 0 if self.is_leaf else 1

    def below(self, dims: Dims) -> Dims:
        """The sizes of the child's modes, of those of this level."""
        return dims[: len(dims) - self.modes]

    def sizes(self, shape: tuple[int, ...]) -> list[Any]:
        """The sizes of this level and those below, for a tensor of `shape`: an integer for a level
        of one mode, a tuple (first mode first) for one of several, 1 for the leaf."""
        sizes: list[Any] = []
        for level in self.levels():
            own = shape[len(shape) - level.modes :]
            sizes.append(own[0] if len(own) == 1 else own or 1)
            shape = shape[: len(shape) - level.modes]
        return sizes

    @property
    def leaf(self) -> Level:
        return list(self.levels())[-1]

    @property
    def fill(self) -> Literal:
        """The value at coordinates that are not stored, typed."""
        return self.leaf.fill

    @property
    def element_type(self) -> Type:
        return self.leaf.element_type

    @property
    def own_type(self) -> Type:
        """What None stands for in `arrays` and `counters`."""
        return self.element_type if self.is_leaf else self.index_type

    @property
    def index_type(self) -> Type:
        """The integer type of stored coordinates and positions."""
        return getattr(self, "index", Int64)

    def __str__(self) -> str:
        parameters = "" if self.index_type == Int64 else f"{{{self.index_type}}}"
        return f"{type(self).__name__}{parameters}({self.child})"

    def with_child(self, child: Level) -> Level:
        """This format over another child."""
        return replace(self, lvl=child)  # type: ignore[call-arg]

    def with_leaf(self, leaf: Level) -> Level:
        """The levels of this format over another leaf."""
        return leaf if self.is_leaf else self.with_child(self.child.with_leaf(leaf))

    @property
    def is_all_dense(self) -> bool:
        """Whether tensors of this format have a place for each element."""
        return all([level.is_dense or level.is_leaf for level in self.levels()])

    def random_access(self) -> Level:
        """The same format with each sequential level replaced by one that is written in any order."""
        if self.is_leaf:
            return self
        child, kind = self.child.random_access(), self.out_of_order
        if kind is None:
            return self.with_child(child)
        own = {f.name: getattr(self, f.name, f.default) for f in fields(kind)}
        return kind(**own | {"lvl": child})

    # ------------------------------------------------------------------------- the index type

    def check_sizes(self, host: Host, sizes: tuple[Expr, ...], span: Span | None = None) -> None:
        """Fail (kind dimension) where the index type cannot hold the coordinates of a dimension."""
        for size in sizes:
            message = (
                f"{self.index_type} has no room for the coordinates of a dimension of size {{}}"
            )
            self._check_fits(host, size, "dimension", message, span)

    def check_positions(self, host: Host, count: Expr | Cell) -> None:
        """Fail (kind resource) where the index type cannot hold `count` positions. Levels ask once
        they know how many there are, before they read what they stored of them."""
        name = type(self).__name__
        message = f"{self.index_type} has no room for the {{}} positions of a {name}"
        self._check_fits(host, count, "resource", message, None)

    def _check_fits(
        self, host: Host, number: Expr | Cell, kind: str, message: str, span: Span | None
    ) -> None:
        index = self.index_type
        if index.bits < 64:
            found = host.get(number) if isinstance(number, Cell) else number
            too_many = compare("gt", found, const(index.highest))
            host.branch(too_many, lambda: host.fail(kind, message, (found,), span))

    # ------------------------------------------------- Table 3: programs over host operations

    def declare(self, host: Host, store: Storage, dims: Dims) -> None:
        """Empty the storage for a tensor of size `dims` (this level's own is the last)."""
        offsets = [part for part in lay.offsets(self.layout) if part.while_written != lay.NOTHING]
        for part in offsets:
            host.set(store.counters[part.counter], ZERO)
        for part in offsets:
            host.grow(store.buffers[part.name], ONE)
            host.store(store.buffers[part.name], ZERO, ZERO)
        if not self.is_leaf:
            self.child.declare(host, store.child, self.below(dims))

    def assemble(self, host: Host, store: Storage, dims: Dims, start: Expr, stop: Expr) -> None:
        """Make the fibers at positions start..stop (both included), all fill."""
        below = lay.assembled(host, store, self.layout, dims, start, stop)
        if below is not None and not self.is_leaf:
            self.child.assemble(host, store.child, self.below(dims), *below)

    def freeze(self, host: Host, store: Storage, dims: Dims, count: Expr) -> None:
        """Finish `count` fibers for reading."""
        offsets = lay.offsets(self.layout)
        if offsets and offsets[-1].type is None:
            self.check_positions(host, store.counters[offsets[-1].counter])
        count = lay.frozen(host, store, self.layout, dims, count)
        if not self.is_leaf:
            self.child.freeze(host, store.child, self.below(dims), count)

    def thaw(self, host: Host, store: Storage, dims: Dims, count: Expr) -> None:
        """Make `count` fibers ready for updates."""
        if self.is_sequential:
            raise Bug("normalisation updates sequential levels through a workspace")
        if not self.is_leaf:
            count = lay.positions(host, store, self.layout, dims, count)
            self.child.thaw(host, store.child, self.below(dims), count)

    def refill(self, host: Host, store: Storage, dims: Dims, count: Expr, value: Expr) -> None:
        """Set every leaf of `count` fibers to `value`; for Dense levels and leaves only."""
        raise Bug(f"{type(self).__name__} lacks an operation of the level interface")

    def unfurl(self, host: Host, fiber: Fiber, stop: Expr, mode: str, protocol: str | None) -> Node:
        """The looplet nest over coordinates 1..stop of `fiber` (`stop` is its dimension)."""
        raise Bug(f"{type(self).__name__} lacks an operation of the level interface")

    def read(self, host: Host, fiber: Fiber) -> Node:
        """The value of a leaf, in read mode or (for `old op= new`) in update mode."""
        raise Bug(f"{type(self).__name__} lacks an operation of the level interface")

    def write(self, host: Host, fiber: Fiber, value: Expr) -> None:
        """Set the value of a leaf, and the dirty bit."""
        raise Bug(f"{type(self).__name__} lacks an operation of the level interface")

    # -------------------------------------- copies of whole tensors (whole_copies.py)

    def takes(self, other: Level) -> bool:
        """Whether `take` can be given the storage of a tensor of the format `other`."""
        is_list = self.lists_entries and other.lists_entries or self.is_dense and other.is_dense
        return is_list and lay.alike(self.layout, other.layout) and self.child.takes(other.child)

    def take(self, host: Host, store: Storage, dims: Dims, source: Storage, count: Expr) -> None:
        """Make all `count` fibers, which are empty, those of `source`, which are frozen."""
        other = source.level.layout
        count = lay.copied(host, store, self.layout, source, other, dims, count)
        if not self.is_leaf:
            self.child.take(host, store.child, self.below(dims), source.child, count)

    # ------------------- for parents that merge equal subfibers when they are frozen (Table 4, buf)

    def equal(self, host: Host, store: Storage, dims: Dims, p: Expr, q: Expr) -> Expr:
        """Whether the frozen fibers at positions p and q hold the same."""

        def child(a: Expr, b: Expr) -> Expr:
            return self.child.equal(host, store.child, self.below(dims), a, b)

        return lay.equal(host, store, self.layout, dims, p, q, child)

    def move(self, host: Host, store: Storage, dims: Dims, source: Expr, target: Expr) -> None:
        """Make the fiber at `target` the frozen fiber at `source`, which lies above. All that are
        kept are moved in turn, each to the position after the one before."""

        def child(a: Expr, b: Expr) -> None:
            if not self.is_leaf:
                self.child.move(host, store.child, self.below(dims), a, b)

        lay.move(host, store, self.layout, dims, source, target, child)

    def truncate(self, host: Host, store: Storage, dims: Dims, count: Expr) -> None:
        """Forget the frozen fibers from position `count` on."""

        def tell(counter: str, number: Expr) -> None:
            host.set(store.counters[counter], number)

        count = lay.positions(host, store, self.layout, dims, count, tell)
        if not self.is_leaf:
            self.child.truncate(host, store.child, self.below(dims), count)

    # ----------------------------------------------- storage as NumPy arrays, outside of kernels

    def pack(self, given: Given) -> tuple[ByName, np.ndarray]:
        """Arrays, of integers of 64 bits, for entries, and counters that these do not tell; the position
        of each entry in the child. This is how a level does it that lists coordinates."""
        rows = given.coordinates.reshape(self.modes, -1)
        arrays, entries, _ = lay.packed(self.layout, given.positions, rows, given.fibers)
        return arrays, entries

    def pack_merged(self, given: Given) -> tuple[ByName, np.ndarray, np.ndarray]:
        """As `pack`, storing equal neighbours as one. Gives also which entries are left to be stored in
        the child (a mask); the positions are theirs."""
        raise Bug(f"{type(self).__name__} lacks an operation of the level interface")

    def unpack(self, storage: ByName, positions: np.ndarray, size: Any) -> Found:
        """The stored coordinates in the fibers at `positions`: for each, which of `positions` it
        belongs to (an index into it), its coordinate (0-based; of several modes a row for each) and its
        position in the child. This is how a level does it that lists coordinates."""
        which, rows, entries = lay.unpacked(self.layout, storage, positions)
        return which, rows if self.modes > 1 else rows[0], entries

    def child_count(self, storage: ByName, count: int, size: Any) -> int:
        """The number of positions in the child, for `count` fibers of `size` stored in `storage`."""
        return lay.lengths(self.layout, storage, count, size)[1]

    def count_listed(self, storage: ByName, count: int, size: int) -> int | None:
        """How many coordinates (of a level that merges, runs of them) `count` fibers store, if that
        can be told at once."""
        return lay.listed(self.layout, storage, count, size)

    def select(self, coordinates: np.ndarray, values: np.ndarray, mode: int) -> np.ndarray | None:
        """Which of the entries of a tensor have a position of their own (None: all). `coordinates`
        has a row for each mode of the tensor; this level's last is mode `mode`, from 1. Raises
        FinchError "access order" for entries that no tensor of this format can hold."""
        return None

    def where_written(self, indices: tuple[Node, ...]) -> Node | None:
        """What must hold of the indices of this level's modes to copy another tensor into it: None
        if it takes what it reads back anywhere."""
        return None

    def empty(self) -> dict[str, Any]:
        """Storage before anything was declared: arrays without entries, counters at 0."""
        storage = {n: np.empty(0, (t or self.own_type).dtype) for n, t in self.arrays}
        return storage | {name: 0 for name, _ in self.counters}

    def used(self, storage: ByName, count: int, size: Any) -> dict[str, int]:
        """How many entries of each array are in use."""
        return lay.lengths(self.layout, storage, count, size)[0]

    def problem(self, storage: ByName, count: int, size: Any) -> str | None:
        """Why compiled code must not be given these arrays (a linear check), or None."""
        return lay.problem(self.layout, storage, count, size)


@dataclass(frozen=True, eq=False)
class Storage:
    """A level bound to the memory of one tensor in one kernel: a Buffer for each of its arrays, a
    Cell for each of its counters, and the store of its child."""

    level: Level
    buffers: dict[str, Buffer]
    counters: dict[str, Cell]
    child_store: Storage | None = None
    size_cells: tuple[Cell, ...] = ()  # of the outermost level: the tensor's sizes, if written
    #: whether the tensor is written, and all fibers are there from its declaration on
    is_whole: bool = False

    def __getattr__(self, name: str) -> Any:
        buffers, counters = self.__dict__["buffers"], self.__dict__["counters"]
        if name in buffers:
            return buffers[name]
        if name in counters:
            return counters[name]
        raise AttributeError(name)

    @property
    def child(self) -> Storage:
        assert self.child_store is not None
        return self.child_store

    @property
    def is_outermost(self) -> bool:
        """Whether this is the outermost level of a tensor that is written: it has a single fiber."""
        return bool(self.size_cells)

    def stores(self) -> Iterator[Storage]:
        """This store and those below it, down to the leaf's."""
        store: Storage | None = self
        while store is not None:
            yield store
            store = store.child_store


@dataclass(frozen=True, slots=True, eq=False)
class TensorLike(Node):
    """What may stand in an access: fibers, masks, wrapped tensors."""

    is_leaf: ClassVar[bool] = True  # generic walks do not look inside

    @property
    def mode(self) -> str:
        """READ or UPDATE: what an access of it may do (Finch'25 Fig 14, e(mode(tns)))."""
        return READ

    def sizes(self) -> tuple[Expr | None, ...]:
        """The size of each dimension; None for a dimension without bounds."""
        raise Bug(f"{type(self).__name__} lacks an operation of the level interface")

    @property
    def order(self) -> int:
        """The number of dimensions."""
        return len(self.sizes())

    def extent(self, back: int = 0) -> tuple[Expr, Expr] | None:
        """First and last coordinate of the last dimension, or of the one so many before; None if it is
        without bounds."""
        size = self.sizes()[-1 - back]
        return None if size is None else (ONE, size)

    def located(self, in_a_row: bool) -> int:
        """How many of the last dimensions are looked up, by default; or `in_a_row`, with their places at
        one position after the other."""
        return 0

    def uniform(self, value: Node) -> Node:
        """The tensor of this one's dimensions but the last that has `value` everywhere."""
        return Uniform(value, self.sizes()[:-1], self.mode)

    def unfurl(self, host: Host, stop: Expr | None, mode: str, protocol: str | None) -> Node:
        """The looplet nest over the last dimension, 1..stop (everything if None)."""
        raise Bug(f"{type(self).__name__} lacks an operation of the level interface")

    def fill_value(self) -> Literal | None:
        """The value where nothing is stored; None where that has no meaning."""
        return None


@dataclass(frozen=True, slots=True)
class Uniform(TensorLike):
    """The same `value` in every place of a tensor of these sizes."""

    value: Node
    dims: tuple[Expr | None, ...]
    mode: str = READ

    def __str__(self) -> str:
        return pretty(self.value)

    def sizes(self) -> tuple[Expr | None, ...]:
        return self.dims

    def unfurl(self, host: Host, stop: Expr | None, mode: str, protocol: str | None) -> Node:
        return Run(self.uniform(self.value) if len(self.dims) > 1 else self.value)


@dataclass(frozen=True, slots=True)
class Fiber(TensorLike):
    """The subtensor at `position` of `store`, with the sizes `dims` of its dimensions. In update
    mode `dirty` is the cell to set once something has been written, if a parent wants to know."""

    store: Storage
    dims: Dims
    position: Expr = field(default_factory=lambda: const(0))
    dirty: Cell | None = None
    mode: str = READ

    def __str__(self) -> str:
        return f"{self.store.level}@{self.position}"

    @property
    def level(self) -> Level:
        return self.store.level

    def sizes(self) -> tuple[Expr | None, ...]:
        return self.dims

    def fill_value(self) -> Literal | None:
        return self.level.fill

    def located(self, in_a_row: bool) -> int:
        return len(list(takewhile(lambda level: level.is_dense, self.level.levels())))

    def child(self, position: Expr, dirty: Cell | None = None) -> Fiber:
        """The subfiber at `position` of the child level."""
        dims = self.dims[: len(self.dims) - self.level.modes]
        return Fiber(self.store.child, dims, position, dirty, self.mode)

    def unfurl(self, host: Host, stop: Expr | None, mode: str, protocol: str | None) -> Node:
        return self.level.unfurl(
            host, self, self.dims[-1] if stop is None else stop, mode, protocol
        )


@dataclass(frozen=True)
class Swizzled:
    """The format of a tensor whose modes are named in another order than they are stored:
    `swizzle(A, perm...)[i...]` is `A[i[perm[1]], i[perm[2]], ...]` (Finch'25 Table 5).

    `permutation` is 1-based: a row-major matrix (SciPy's CSR, NumPy's C order) is
    Swizzled(level, (2, 1)).
    """

    level: Level
    permutation: tuple[int, ...]

    def __str__(self) -> str:
        return f"swizzle({self.level}, {', '.join(map(str, self.permutation))})"


def level_of(format: Any) -> Level:
    """The format of what is stored: itself, or that which a swizzled one is of."""
    return format.level if isinstance(format, Swizzled) else format
