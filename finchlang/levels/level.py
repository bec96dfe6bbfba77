"""The level interface (Finch'25 section 3, Table 3): formats, their storage, and the functions that every
level has: declare, assemble, freeze, thaw, unfurl, read and write.

A `Level` is a format: immutable, compared by structure, printed as it is written
(`Dense(SparseList(Element(0.0)))`, outermost first; the outermost level is the last mode). A `Storage` is
a level bound to the memory of one tensor in one kernel. A `Fiber` is a subtensor at one position of a
store; accesses refer to fibers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import takewhile
from typing import Any, ClassVar

import numpy as np

from finchlang.base.errors import Bug, FinchError, Span
from finchlang.base.locks import cached_property
from finchlang.base.records import record
from finchlang.host.construct import FALSE, ONE, TRUE, ZERO, compare, const
from finchlang.host.interface import Host
from finchlang.host.ir import Buffer, Cell, Expr
from finchlang.levels import layout as lay, looplets as lp, numpy_layout
from finchlang.levels.layout import ByName
from finchlang.levels.numpy_layout import Found, Given, Sizes
from finchlang.syntax.nodes import Literal, Node
from finchlang.syntax.types import Int64, Type
from finchlang.text.print import pretty

READ, UPDATE = "read", "update"
#: the fields of levels that stand in braces where a format is written, in order
PARAMETERS = {
    "number": "its number of modes",
    "index": "an integer type for its indices",
    "policy": "a policy",
    "capacity": "its capacity",
}
#: the sizes of the modes of a level and of those below it, the outermost last
Dims = tuple[Expr, ...]


@dataclass(frozen=True)
class Level:
    """A format. Subclasses are dataclasses whose fields are the child and static parameters."""

    #: how its arrays lie; operations that the level does not define itself follow from this
    layout: ClassVar[lay.Layout] = ()
    #: whether fibers must be written in order and coordinates in ascending order (Table 4)
    is_sequential: ClassVar[bool] = False
    #: of a sequential level: the level, of the same parameters, that is written in any order instead
    out_of_order: ClassVar[Any] = None
    #: of a sequential level: whether its fibers may be written alternately, each in order
    takes_any_fiber: ClassVar[bool] = False
    #: whether every coordinate has a position of its own, stored or not
    is_dense: ClassVar[bool] = False
    #: whether coordinates may be without an entry and so have the fill
    has_gaps: ClassVar[bool] = True
    #: whether its first and last coordinate may be exchanged
    is_symmetric: ClassVar[bool] = False
    #: whether a fiber can hold entries at any coordinates
    holds_any: ClassVar[bool] = True
    #: whether it stores exactly the coordinates that have an entry, in order
    lists_entries: ClassVar[bool] = False
    #: whether coordinates that were not written may be stored too (then no Pattern may be below)
    stores_fill: ClassVar[bool] = False
    #: whether `declare` reads the arrays, to clear only what was set
    clears_entries: ClassVar[bool] = False
    #: whether the lengths in use of a frozen tensor's arrays follow from sizes and counters
    counts_lengths: ClassVar[bool] = True
    is_leaf: ClassVar[bool] = False
    #: of a leaf: whether all that is stored is true; the level above tells whether it was written
    is_pattern: ClassVar[bool] = False
    #: of a leaf: whether reading it gives a looplet; whether reducing into it may end the loops around
    is_structured: ClassVar[bool] = False
    is_short_circuit: ClassVar[bool] = False
    #: whether equal neighbours are stored as one
    merges: ClassVar[bool] = False
    #: whether a program's reduction operator is part of the level (see `combining`)
    combines: ClassVar[bool] = False

    def __post_init__(self) -> None:
        name = type(self).__name__
        if (self.stores_fill or not self.has_gaps) and self.child.is_pattern:
            why = f"{name} also stores coordinates that are not written"
            what = f"{name}(Pattern()) cannot be"
            message = f"{what}: {why}, and a Pattern is true wherever it is stored"
            hint = f"use {name}(Element(false)), or SparseList(Pattern())"
            raise FinchError("type", message, hint=hint)
        is_signed = any(isinstance(p, lay.Each) and p.empty == -1 for p in self.layout)
        if is_signed and self.index_type.kind != "int":
            why = "it stores -1 where nothing is stored"
            raise FinchError("type", f"the index type of {name} must be signed: {why}")

    def __getstate__(self) -> dict[str, Any]:
        """It is copied and pickled by its fields: the rest follows from them, and has functions in it."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def arrays(self) -> tuple[tuple[str, Type | None], ...]:
        """The arrays of the storage as (name, type); None is the level's own type."""
        return tuple((part.name, part.type) for part in lay.arrays(self.layout))

    @cached_property
    def counters(self) -> tuple[tuple[str, Type | None], ...]:
        """The counters of the storage, numbers that change when it is written: those of the offsets."""
        names = dict.fromkeys(part.counter for part in lay.offsets(self.layout))
        return tuple((name, Int64) for name in names)

    @property
    def has_all_positions(self) -> bool:
        """Whether the child has a position for every coordinate, so that position counts multiply."""
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
        return sum(level.modes for level in self.levels())

    @property
    def modes(self) -> int:
        """The number of dimensions of this level alone."""
        return 0 if self.is_leaf else 1

    def sizes(self, shape: tuple[int, ...]) -> list[Sizes]:
        """The sizes of the modes of this level and of those below, for a tensor of `shape`."""
        found, end = [], len(shape)
        for level in self.levels():
            found.append(shape[end - level.modes : end])
            end -= level.modes
        return found

    @cached_property
    def leaf(self) -> Level:
        return list(self.levels())[-1]

    @property
    def fill(self) -> Literal:
        """The value at coordinates that are not stored, typed."""
        return self.leaf.fill

    @cached_property
    def element_type(self) -> Type:
        return self.leaf.element_type

    @property
    def own_type(self) -> Type:
        """The type that None stands for in `arrays` and `counters`."""
        return self.element_type if self.is_leaf else self.index_type

    @property
    def index_type(self) -> Type:
        """The integer type of stored coordinates and positions."""
        return getattr(self, "index", Int64)

    @property
    def parameters(self) -> list[Any]:
        """What stands in braces where the format is written."""
        values = (getattr(self, name, None) for name in PARAMETERS)
        return [value for value in values if value and value != Int64]

    def __str__(self) -> str:
        given = ", ".join(map(str, self.parameters))
        return f"{type(self).__name__}{given and f'{{{given}}}'}({self.child})"

    def with_child(self, child: Level) -> Level:
        return replace(self, lvl=child)  # type: ignore[call-arg]

    def with_leaf(self, leaf: Level) -> Level:
        return leaf if self.is_leaf else self.with_child(self.child.with_leaf(leaf))

    @property
    def is_all_dense(self) -> bool:
        """Whether every level above the leaf is dense."""
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
        message = f"{self.index_type} has no room for the coordinates of a dimension of size {{}}"
        for size in sizes:
            self._check_fits(host, size, "dimension", message, span)

    def check_positions(self, host: Host, count: Expr | Cell) -> None:
        """Fail (kind resource) if the index type cannot hold `count` positions, before any is read."""
        name = type(self).__name__
        message = f"{self.index_type} has no room for the {{}} positions of a {name}"
        self._check_fits(host, count, "resource", message, None)

    def _check_fits(
        self, host: Host, number: Expr | Cell, kind: str, message: str, span: Span | None
    ) -> None:
        index = self.index_type
        if index.bits < 64:  # any size or position fits into 64 bits
            found = host.get(number) if isinstance(number, Cell) else number
            too_many = compare("gt", found, const(index.highest))
            host.branch(too_many, lambda: host.fail(kind, message, (found,), span))

    # ------------------------------------------------- Table 3: programs over host operations

    def declare(self, host: Host, store: Storage) -> None:
        """Empty the storage for a tensor of the sizes `store.dims`."""
        for cell in store.counters.values():
            host.set(cell, ZERO)
        for part in lay.offsets(self.layout):
            if part.while_written != lay.NOTHING:
                host.grow(store.buffers[part.name], ONE)
                host.store(store.buffers[part.name], ZERO, ZERO)
        if not self.is_leaf:
            self.child.declare(host, store.child)

    def assemble(self, host: Host, store: Storage, start: Expr, stop: Expr) -> None:
        """Make the fibers at positions start..stop (both included), with all values at the fill."""
        below = lay.assembled(host, store, start, stop)
        if below is not None and not self.is_leaf:
            self.child.assemble(host, store.child, *below)

    def freeze(self, host: Host, store: Storage, count: Expr) -> None:
        """Finish `count` fibers for reading."""
        offsets = lay.offsets(self.layout)
        # a type None is the level's index type, which may be too narrow
        if offsets and offsets[-1].type is None:
            self.check_positions(host, store.counters[offsets[-1].counter])
        count = lay.frozen(host, store, count)
        if not self.is_leaf:
            self.child.freeze(host, store.child, count)

    def thaw(self, host: Host, store: Storage, count: Expr) -> None:
        """Make `count` fibers ready for updates."""
        if self.is_sequential:
            raise Bug("normalisation updates sequential levels through a workspace")
        if not self.is_leaf:
            count = lay.positions(host, store, self.layout, count)
            self.child.thaw(host, store.child, count)

    def refill(self, host: Host, store: Storage, count: Expr, value: Expr) -> None:
        """Set every leaf of `count` fibers to `value`; for Dense levels and leaves only."""
        raise Bug(f"{type(self).__name__} lacks an operation of the level interface")

    def unfurl(self, host: Host, fiber: Fiber, stop: Expr, protocol: str | None) -> Node:
        """The looplet nest over coordinates 1..stop of `fiber` (`stop` is its dimension)."""
        raise Bug(f"{type(self).__name__} lacks an operation of the level interface")

    def read(self, host: Host, fiber: Fiber) -> Node:
        """The value of a leaf, in read mode, or in update mode for `old op= new`."""
        raise Bug(f"{type(self).__name__} lacks an operation of the level interface")

    def write(self, host: Host, fiber: Fiber, value: Expr) -> None:
        """Set the value of a leaf, and the dirty bit."""
        raise Bug(f"{type(self).__name__} lacks an operation of the level interface")

    # ------------------- for parents that merge equal subfibers when they are frozen (Table 4, buf)

    def equal(self, host: Host, store: Storage, p: Expr, q: Expr) -> Expr:
        """Whether the frozen fibers at positions p and q hold the same."""
        child = partial(self.child.equal, host, store.child)
        return lay.equal(host, store, self.layout, p, q, child)

    def move(self, host: Host, store: Storage, source: Expr, target: Expr) -> None:
        """Move the frozen fiber at `source` down to `target` <= `source`. A caller moves the fibers it
        keeps in turn, each to the position after the one before."""

        def child(a: Expr, b: Expr) -> None:
            if not self.is_leaf:
                self.child.move(host, store.child, a, b)

        lay.move(host, store, self.layout, source, target, child)

    def truncate(self, host: Host, store: Storage, count: Expr) -> None:
        """Drop the frozen fibers from position `count` on."""
        count = lay.positions(
            host, store, self.layout, count, lambda c, n: host.set(store.counters[c], n)
        )
        if not self.is_leaf:
            self.child.truncate(host, store.child, count)

    # ----------------------------------------------- storage as NumPy arrays, outside of kernels

    def pack(self, given: Given) -> tuple[ByName, np.ndarray, Any]:
        """The arrays for entries, with the counters that do not follow from them; the position of each
        entry in the child, and which entries these are, as in `numpy_layout.packed`."""
        return numpy_layout.packed(self.layout, given, type(self).__name__)

    def unpack(
        self, storage: ByName, positions: np.ndarray, sizes: Sizes, kept: np.ndarray | None = None
    ) -> Found:
        """What the fibers at `positions` store, as in `numpy_layout.unpacked`."""
        return numpy_layout.unpacked(self.layout, storage, positions, sizes, kept)

    def select(self, coordinates: np.ndarray, values: np.ndarray, mode: int) -> np.ndarray | None:
        """A mask of the entries of a tensor that have a position of their own (None: all). `coordinates`
        has a row for each mode of the tensor; this level's last mode is `mode`, from 1. Raises FinchError
        "access order" for entries that this level cannot hold."""
        return None

    def where_written(self, indices: tuple[Node, ...]) -> Node | None:
        """The condition on the indices of this level's modes under which it may be written when another
        tensor is copied into it; None if it may be written everywhere."""
        return None

    def empty(self) -> dict[str, Any]:
        """The storage before any declaration: empty arrays, counters at 0."""
        storage = {n: np.empty(0, (t or self.own_type).dtype) for n, t in self.arrays}
        return storage | {name: 0 for name, _ in self.counters}

    def problem(self, storage: ByName, count: int, sizes: Sizes) -> str | None:
        """Why compiled code must not use these arrays, or None. Takes linear time."""
        return numpy_layout.problem(self.layout, storage, count, sizes)


@dataclass(frozen=True)
class Indexed(Level):
    """A level over `lvl` that stores coordinates and positions as numbers of the type `index`."""

    lvl: Level
    index: Type = Int64

    def unfurl(self, host: Host, fiber: Fiber, stop: Expr, protocol: str | None) -> Node:
        if fiber.mode != READ:
            return self.writer(fiber)
        return lp.delayed(lambda host: self.looplets(host, fiber, stop, protocol))

    def looplets(self, host: Host, fiber: Fiber, stop: Expr, protocol: str | None) -> Node:
        """The looplet nest of a frozen fiber."""
        raise Bug(f"{type(self).__name__} leaves this out")

    def writer(self, fiber: Fiber) -> Node:
        """The looplets that write a fiber."""
        return lp.Thunk(lambda host: self.append(host, fiber))

    def append(self, host: Host, fiber: Fiber) -> tuple[Node, Callable[[Host], None]]:
        """The looplet that goes on to write a fiber, and what is done when the fiber is left."""
        raise Bug(f"{type(self).__name__} leaves this out")


@record(eq=False)
class Storage:
    """A level bound to the memory of one tensor in one kernel: a Buffer for each array, a Cell for each
    counter, and the store of its child. All can be accessed as attributes by name. `dims` are the sizes
    that the tensor has where this is used: of the level's modes, which come last, and of those below."""

    level: Level
    buffers: dict[str, Buffer]
    counters: dict[str, Cell]
    child_store: Storage | None = None
    dims: Dims = ()
    size_cells: tuple[Cell, ...] = ()  # of the outermost level of a written tensor: its sizes
    #: whether the tensor is written and all fibers of this level exist from its declaration on
    is_whole: bool = False

    def __getattr__(self, name: str) -> Any:
        buffers, counters = self.__dict__["buffers"], self.__dict__["counters"]
        if name in buffers:
            return buffers[name]
        if name in counters:
            return counters[name]
        raise AttributeError(name)

    @cached_property
    def child(self) -> Storage:
        assert self.child_store is not None
        below = self.dims[: len(self.dims) - self.level.modes]
        return replace(self.child_store, dims=below)

    @property
    def sizes(self) -> Dims:
        """The sizes of the level's own modes."""
        return self.dims[len(self.dims) - self.level.modes :]

    @property
    def size(self) -> Expr:
        """The size of the level's last mode."""
        return self.dims[-1]

    @property
    def is_outermost(self) -> bool:
        """Whether this is the outermost level of a tensor that is written: it has a single fiber."""
        return bool(self.size_cells)

    def stores(self) -> Iterator[Storage]:
        """This store and those below it, down to the leaf's."""
        store: Storage | None = self
        while store is not None:
            yield store
            store = store.child if store.child_store else None


@record(eq=False, slots=True)
class TensorLike(Node):
    """A tensor in an access: a fiber, mask or wrapper."""

    is_leaf: ClassVar[bool] = True  # generic walks do not look inside

    @property
    def mode(self) -> str:
        """READ or UPDATE, the mode of accesses (Finch'25 Fig 14, e(mode(tns)))."""
        return READ

    def sizes(self) -> tuple[Expr | None, ...]:
        """The size of each dimension; None for a dimension without bounds."""
        raise Bug(f"{type(self).__name__} lacks an operation of the level interface")

    @property
    def order(self) -> int:
        return len(self.sizes())

    def extent(self, back: int = 0) -> tuple[Expr, Expr] | None:
        """The first and last coordinate of the dimension `back` before the last; None without bounds."""
        size = self.sizes()[-1 - back]
        return None if size is None else (ONE, size)

    def located(self, in_a_row: bool) -> int:
        """How many of the last dimensions are read by lookups without a protocol. With `in_a_row` only
        dimensions whose coordinates have consecutive positions are counted."""
        return 0

    @property
    def is_split(self) -> bool:
        """Whether a mode of it is a part of a mode that is split, so that the nest of any block has each
        part of the whole: one place is looked up, and parts are not divided again."""
        return False

    def uniform(self, value: Node) -> Node:
        """A tensor of this one's dimensions except the last, with `value` everywhere."""
        return Uniform(value, self.sizes()[:-1], self.mode)

    def unfurl(self, host: Host, stop: Expr | None, protocol: str | None) -> Node:
        """The looplet nest over the last dimension, 1..stop (all of it if None)."""
        raise Bug(f"{type(self).__name__} lacks an operation of the level interface")

    def fill_value(self) -> Literal | None:
        """The value of what is not stored; None if there is no such value."""
        return None


@record(slots=True)
class Within(TensorLike):
    """A tensor that is made of another one, `body`, and has its mode and fill."""

    body: Any

    @property
    def mode(self) -> str:
        return self.body.mode

    @property
    def is_split(self) -> bool:
        return self.body.is_split

    @property
    def level(self) -> Any:
        """The level of the fiber within."""
        return self.body.level

    def fill_value(self) -> Literal | None:
        return self.body.fill_value()


@record(slots=True)
class Uniform(TensorLike):
    """A tensor of these sizes that has `value` everywhere."""

    value: Node
    dims: tuple[Expr | None, ...]
    mode: str = READ

    def __str__(self) -> str:
        return pretty(self.value)

    def sizes(self) -> tuple[Expr | None, ...]:
        return self.dims

    def unfurl(self, host: Host, stop: Expr | None, protocol: str | None) -> Node:
        return lp.Run(self.uniform(self.value) if len(self.dims) > 1 else self.value)


@record(slots=True)
class Fiber(TensorLike):
    """The subtensor at `position` of `store`. In update mode, `dirty` is a cell to set once something was
    written, if a parent asks for that; of a Pattern that is the value, and `written` such a cell."""

    store: Storage
    position: Expr = field(default_factory=lambda: const(0))
    dirty: Cell | None = None
    mode: str = READ
    written: Cell | None = None

    def __str__(self) -> str:
        return f"{self.store.level}@{self.position}"

    @property
    def level(self) -> Level:
        return self.store.level

    @property
    def dims(self) -> Dims:
        return self.store.dims

    def with_dims(self, dims: Dims) -> Fiber:
        # stores are compared by identity
        return self if dims == self.dims else replace(self, store=replace(self.store, dims=dims))

    def sizes(self) -> tuple[Expr | None, ...]:
        return self.dims

    def fill_value(self) -> Literal | None:
        return self.level.fill

    def located(self, in_a_row: bool) -> int:
        return len(list(takewhile(lambda level: level.is_dense, self.level.levels())))

    def child(
        self, position: Expr, dirty: Cell | None = None, written: Cell | None = None
    ) -> Fiber:
        return Fiber(self.store.child, position, dirty, self.mode, written)

    def mark(self, host: Host, condition: Expr = TRUE) -> None:
        """Set the dirty bit where the condition holds, if there is one."""
        dirty = self.dirty
        if dirty is not None:
            host.branch(condition, lambda: host.set(dirty, TRUE))

    def entry(
        self, host: Host, position: Expr, keep: Callable[[], None]
    ) -> tuple[Node, Callable[[Host], None]]:
        """The subfiber at `position`, to be written, and an epilogue that runs `keep` if it was."""
        dirty = host.cell(FALSE, "dirty")
        return self.child(position, dirty), lambda host: host.branch(host.get(dirty), keep)

    def unfurl(self, host: Host, stop: Expr | None, protocol: str | None) -> Node:
        return self.level.unfurl(host, self, self.dims[-1] if stop is None else stop, protocol)


@record
class Swizzled:
    """The format of a tensor whose modes are named in another order than they are stored:
    `swizzle(A, perm...)[i...]` is `A[i[perm[1]], i[perm[2]], ...]` (Finch'25 Table 5). A row-major matrix
    (SciPy's CSR, NumPy's C order) is Swizzled(level, (2, 1))."""

    level: Level
    permutation: tuple[int, ...]

    def __str__(self) -> str:
        return f"swizzle({self.level}, {', '.join(map(str, self.permutation))})"


def level_of(format: Any) -> Level:
    """The stored format: itself, or the level of a swizzled one."""
    return format.level if isinstance(format, Swizzled) else format
