"""Tensors as values: a format, a shape and NumPy arrays; made from and turned into NumPy and SciPy."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from operator import index
from typing import Any, Self, overload

import numpy as np

from finchlang.base.aligned_memory import aligned_copy, full_aligned
from finchlang.base.errors import FinchError, number_of
from finchlang.base.late import late
from finchlang.levels.dense import Dense
from finchlang.levels.element import Element, differs, literal_text, typed_literal
from finchlang.levels.layout import ByName
from finchlang.levels.level import Level, Swizzled, level_of
from finchlang.levels.numpy_layout import Sizes, counted, listed
from finchlang.levels.scalars import Scalar as ScalarLevel
from finchlang.levels.sparse_list import SparseList
from finchlang.syntax.types import foreign
from finchlang.tensors import array_base
from finchlang.tensors.entries import (
    Entries,
    array_of,
    check_within,
    chosen,
    coordinates_of,
    sum_of,
    summed,
    values_of,
)
from finchlang.tensors.formats import Format, modes_of
from finchlang.tensors.memory import Memory, Parts, fibers, in_use
from finchlang.tensors.pack import differing, narrowed, pack, unpack


class Tensor(array_base.TensorBase):
    """A tensor: `format` (a Level), `shape` (a size for each mode), and `storage`, one dict of
    arrays and counters for each level, outermost first, as the levels' docstrings describe them.

    `Tensor("Dense(SparseList(Element(0.0)))", m, n)` is an m x n tensor of fill values,
    `Tensor(format, array)` a copy of a NumPy array, a sparse array of SciPy or PyData/Sparse, nested
    lists or a tensor, which stores what differs from the format's fill; without a format it has that of
    the array. Modes are column-major: the outermost level is the last mode.

    Raises FinchError, of kind syntax or "unknown name" for a text that is no format, "dimension" for
    another number of modes than sizes, "type" for what cannot be stored.
    """

    format: Level
    #: the arrays and counters it is stored in
    memory: Memory
    #: its memory before the last declaration, reused by the next kernel that declares it
    back_buffer: Memory | None = None

    @overload
    def __init__(self, format: Level | str, /, *sizes: int) -> None: ...

    @overload
    def __init__(self, format: Level | str, array: Any, /) -> None: ...

    @overload
    def __init__(self, array: Any, /) -> None: ...

    def __init__(self, *given: Any):
        format, *shape = given or (None,)
        is_format = isinstance(format, (Level, str))
        if not is_format or (len(shape) == 1 and not isinstance(shape[0], (int, np.integer))):
            made = late("tensor_in_python")(*given)
            self.format, self.memory, self.checked = made.format, made.memory, made.checked
            return
        self.format = array_base.format_of(format)
        sizes = array_base.checked_shape(self.format, tuple(shape) or (0,) * self.format.order)
        if isinstance(self.format, ScalarLevel):
            raise FinchError("type", "a scalar is made by Scalar(value), not by Tensor")
        none = np.empty((self.format.order, 0), np.int64)
        self._pack(sizes, none, np.empty(0, self.format.element_type.dtype))
        self.checked = True  # whether the arrays are known to be valid

    @classmethod
    def over(cls, format: Level, memory: Memory, checked: bool) -> Tensor:
        """A tensor over `memory`; `checked` if its arrays are known to be valid."""
        tensor = cls.__new__(cls)
        tensor.format, tensor.memory, tensor.checked = format, memory, checked
        return tensor

    @classmethod
    def from_storage(
        cls, format: Level, shape: Sequence[int], storage: Sequence[ByName], checked: bool
    ) -> Tensor:
        """A tensor with copies of the arrays of each level; `checked` if they are known to be valid."""
        sizes = array_base.checked_shape(format, tuple(shape))
        return cls.over(format, Memory.of(format, sizes, storage, True), checked)

    def __copy__(self, memo: object = None) -> Tensor:
        """A tensor that shares no memory with this one."""
        return self.copy()

    __deepcopy__ = __copy__

    def __reduce__(self) -> Any:
        """Pickled by what is in use of its arrays."""
        used = zip(self.format.levels(), self._storage, strict=True)
        arrays = [storage[name] for level, storage in used for name, _ in level.arrays]
        memory = Memory(self.shape, arrays, self.memory.counters)
        return Tensor.over, (self.format, memory, self.checked)

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each mode."""
        return self.memory.shape

    @property
    def storage(self) -> list[ByName]:
        """The arrays and counters of each level, as far as they are in use. Values can be changed in
        place; the other arrays are read-only, as kernels index by them without another check."""
        self.memory.is_shared = True
        *lists, leaf = self.memory.storage(self.format)  # also of a corrupt one, to be looked at
        return [*map(_read_only, lists), dict(leaf)]

    @storage.setter
    def storage(self, storage: Sequence[ByName]) -> None:
        self.memory = Memory.of(self.format, self.shape, storage, True)
        self.checked = False

    def _pack(self, shape: tuple[int, ...], coordinates: np.ndarray, values: np.ndarray) -> None:
        storage = pack(self.format, shape, coordinates, values)
        self.memory = Memory.of(self.format, shape, storage, False)

    @classmethod
    def from_coo(
        cls,
        format: Level | str,
        shape: Sequence[int],
        coordinates: Sequence[np.ndarray],
        values: np.ndarray,
        duplicates: str = "sum",
    ) -> Tensor:
        """A tensor with `values` at 0-based `coordinates` (an array for each mode). All given values are
        stored, even those that equal the fill. Values at the same coordinates are added up in the type of
        the format (of Bool: whether one is true), or refused where `duplicates` is "error". Raises
        FinchError "bounds" for coordinates outside of `shape`, "dimension" if there are not as many
        coordinates as values, "type" for coordinates that are no integers, for values that the format
        cannot keep (as a fraction in an integer), and for repeated coordinates that are refused or have
        pairs as values."""
        if duplicates not in ("sum", "error"):
            raise FinchError("type", f'`duplicates` is "sum" or "error", not {duplicates!r}')
        tensor = cls(format, *(shape if isinstance(shape, Iterable) else (shape,)))
        values = values_of(tensor.format.element_type, values).reshape(-1)
        rows = coordinates_of(tensor.order, coordinates, len(values))
        check_within(rows, tensor.shape)
        if max(tensor.shape, default=0) <= 4 * len(values) and is_compressed(tensor.format):
            matrix = _counted(rows, values, tensor.shape)
            ptr, idx = matrix.indptr, matrix.indices
            new = np.append(True, idx[1:] != idx[:-1])
            new[ptr[:-1][ptr[:-1] < len(idx)]] = True
            if new.all():
                return tensor.holding_matrix(matrix)
            if duplicates == "sum":
                ptr = np.append(0, np.cumsum(new))[ptr]
                parts = sum_of(new, matrix.data, tensor.dtype), idx[new], ptr
                return tensor.holding_matrix(scipy_sparse().csc_array(parts, tensor.shape))
        found = np.array(rows, np.int64).reshape(len(rows), len(values))
        return tensor.holding(found, values, duplicates)

    def holding_matrix(self, matrix: Any) -> Self:
        """This tensor, which is new and `is_compressed`, with the entries of a CSC matrix in order. Raises
        FinchError "resource" if its index type is too small for them."""
        level, count = [*self.format.levels()][1], self.shape[1]
        arrays = narrowed(level, {"ptr": matrix.indptr, "idx": matrix.indices})
        lists = level.empty() | arrays | counted(level.layout, arrays, count, self.shape[:1])
        values = aligned_copy(matrix.data.astype(self.dtype, copy=False))
        self.memory = Memory.of(self.format, self.shape, [{}, lists, {"val": values}], False)
        return self

    def holding(self, coords: np.ndarray, values: np.ndarray, duplicates: str = "sum") -> Self:
        """This tensor, which is new, with entries of its own type within its shape, as `from_coo`."""
        coords, values = summed(coords, values, self.dtype, duplicates)
        self._pack(self.shape, *chosen(self._own(coords, values), coords, values))
        return self

    @classmethod
    def from_scipy(cls, matrix: Any, format: Level | str | None = None) -> Tensor:
        """A copy of a matrix or array of SciPy in `format`, or in that which it has. Raises FinchError
        "type" for another value, and as `from_numpy`."""
        if not hasattr(matrix, "tocoo"):
            hint = "`Tensor(array)` takes other arrays"
            raise FinchError("type", f"{foreign(matrix)} is no matrix of SciPy", None, hint)
        return cls(matrix) if format is None else cls(format, matrix)

    @classmethod
    def from_numpy(
        cls, array: Any, format: Level | str | None = None, stored: np.ndarray | None = None
    ) -> Tensor:
        """A copy of an array in `format` (Dense in every mode if None); values that differ from the
        format's fill are stored, and those where the mask `stored` says, if the format can keep them. They
        are converted to the element type: integers wrap around, floats are rounded.
        Raises FinchError "dimension" for another number of modes, "type" for values that the format
        cannot keep, as a fraction in an integer."""
        if format is None:
            array = array_of(array, "the values")
            return cls.from_numpy(array, array_base.dense_format(array.dtype, array.ndim))
        level = array_base.format_of(format)
        array = values_of(level.element_type, array)
        if level.order != array.ndim:
            own = number_of(level.order, "mode")
            raise FinchError("dimension", f"{level} has {own}, the array has {array.ndim}")
        if array_base.is_whole(level):
            tensor = cls(level, *array.shape)
            tensor._dense_view()[...] = array  # type: ignore[index]
            return tensor
        if level.is_leaf:  # only a Pattern, which is always stored: an Element is whole
            if not array:
                raise FinchError("type", f"{level} is true wherever it is stored, not {array}")
            return cls(level)
        kept = differs(array, level.fill.value)
        if stored is not None and level.leaf.arrays:  # a Pattern is true wherever it is stored
            kept |= stored
        coordinates = np.nonzero(kept)
        return cls.from_coo(level, array.shape, coordinates, array[coordinates])

    def entries(self) -> Entries:
        """The stored entries: 0-based coordinates (order x number of entries) and values. A run has an
        entry for each of its coordinates, but none if it is fill."""
        coordinates, positions = unpack(self._parts(), differing(self._parts()))
        return coordinates, self._values_at(positions)

    def _values_at(self, positions: np.ndarray) -> np.ndarray:
        return self.format.leaf.unpack_values(self._storage[-1], positions)  # type: ignore

    def places(self) -> np.ndarray:
        """The 0-based coordinates of all that is stored (order x number), runs of fill among it."""
        return unpack(self._parts(), None)[0]

    @property
    def _storage(self) -> list[ByName]:
        """As `storage`, for internal use: nothing of it may be given away. Raises as `validate`."""
        self.validate()
        return self.memory.storage(self.format)

    def _parts(self) -> Parts:
        return _parts_of(self.format, self.shape, self._storage)

    @property
    def nbytes(self) -> int:
        """The bytes of the arrays that it is stored in, as far as they are in use."""
        used = [arrays for _, _, arrays in in_use(self._parts())]
        return sum([array.nbytes for arrays in used for array in arrays.values()])

    def copy(self) -> Tensor:
        """A tensor of the same format that shares no memory with this one."""
        return Tensor.from_storage(self.format, self.shape, self._storage, self.checked)

    def to_numpy(self) -> np.ndarray:
        """A dense array of the tensor's shape and element type, in Fortran order."""
        view = self._dense_view()
        if view is not None:
            return view.copy(order="F")
        coordinates, values = self.entries()
        array = full_aligned(self.shape, self.fill, self.dtype)
        array[tuple(coordinates)] = values if self.order else values[0]
        return array

    def dense_view(self) -> np.ndarray | None:
        """An array over the tensor's memory if that is dense in every mode; else None."""
        self.memory.is_shared = True
        return self._dense_view()

    def _dense_view(self) -> np.ndarray | None:
        """An array over the tensor's memory if that is dense in every mode; else None."""
        if not array_base.is_whole(self.format):
            return None
        values = self._storage[-1]["val"][: math.prod(self.shape)]
        return values.reshape(self.shape, order="F")

    def to_scipy(self) -> Any:
        """A SciPy sparse array with the stored leaves: CSC for a matrix, COO for any other order. Its
        values may share memory with the tensor until a kernel writes that. Raises FinchError "type" if the
        fill is not zero or there are no modes."""
        import scipy.sparse

        if self.fill == 0 and is_compressed(self.format):
            # the values are given away, which `storage` notes; the index arrays are copied, as int32
            # where that holds them, which many users of SciPy matrices ask for
            values, arrays = self.storage[2]["val"], self._storage[1]
            most = max(*self.shape, len(values))
            dtype = np.int32 if most <= np.iinfo(np.int32).max else np.int64
            parts = values, arrays["idx"].astype(dtype), arrays["ptr"].astype(dtype)
            return scipy.sparse.csc_array(parts, self.shape)
        return coo_array(self).tocsc() if self.order == 2 else coo_array(self)

    def countstored(self) -> int:
        """The number of stored leaves: of a run, one."""
        *levels, _ = self.format.levels()
        merges = any([level.merges for level in levels])
        # a level that selects entries lists some that have no position of their own
        if all([type(level).select is Level.select for level in levels]):
            count = self._count_listed()
            if count is not None:
                return count
        coordinates, positions = unpack(self._parts(), None)
        own = positions[self._own(coordinates, self._values_at(positions))]
        return len(np.unique(own)) if merges else len(own)

    def _count_listed(self) -> int | None:
        """How many coordinates the last level stores, if the levels can tell without unpacking."""
        count: int | None = 1
        for level, storage, sizes, positions in fibers(self._parts()[:-1]):
            if count != positions:  # it is not known, or not every position above is in use
                return None
            count = listed(level.layout, storage, positions, sizes)
        return count

    def _own(self, coordinates: np.ndarray, values: np.ndarray) -> np.ndarray:
        """A mask of the entries with a position of their own, which mirrored ones have not."""
        own, mode = np.ones(len(values), bool), self.order
        for level in self.format.levels():
            chosen = level.select(coordinates, values, mode)
            if chosen is not None:
                own &= chosen
            mode -= level.modes
        return own

    def validate(self) -> None:
        """Check the arrays, unless that was done before, so that compiled code may rely on them. Raises
        FinchError "bounds" that names the level and its fault."""
        if self.checked:
            return
        parts = _parts_of(self.format, self.shape, self.memory.storage(self.format))
        for level, storage, sizes, count in fibers(parts):
            problem = level.problem(storage, count, sizes)
            if problem is not None:
                raise FinchError("bounds", f"corrupt {type(level).__name__} storage: {problem}")
        self.checked = True


def _parts_of(format: Level, shape: Sizes, storage: list[ByName]) -> Parts:
    return list(zip(format.levels(), storage, format.sizes(shape), strict=True))


def _read_only(storage: ByName) -> ByName:
    views = {k: v[:] for k, v in storage.items() if isinstance(v, np.ndarray)}
    for view in views.values():
        view.flags.writeable = False
    return storage | views


class Scalar(array_base.TensorBase):
    """A tensor without dimensions: `value`, and the `fill` (and type) it was made with. `Scalar(0.0)`,
    `Scalar(0.0, 1.5)`: kernels reduce into it by `s[] += ...`. Raises FinchError "type" for a value that is
    no number, or cannot be kept in the type of the fill."""

    __slots__ = ("format", "value")

    def __init__(self, fill: Any, value: Any = None):
        self.format = fill if isinstance(fill, ScalarLevel) else ScalarLevel(typed_literal(fill))
        given = self.fill if value is None else value
        self.value = typed_literal(given, self.format.element_type).value

    shape: tuple[int, ...] = ()

    def copy(self) -> Scalar:
        return Scalar(self.format, self.value)

    def to_numpy(self) -> np.ndarray:
        return np.array(self.value, self.dtype)

    def __repr__(self) -> str:
        value = literal_text(typed_literal(self.value, self.format.element_type))
        return f"{type(self.format).__name__}({value})"

    __str__ = __repr__


class SwizzledTensor(array_base.TensorBase):
    """A tensor with its modes in another order: `permutation[p]` names the mode of this tensor that is
    mode p + 1 of `body`, counted from 1. `SwizzledTensor(body, (2, 1))` is a matrix stored by rows.
    Raises FinchError "dimension" if it is no permutation, "type" if `body` is not a Tensor."""

    def __init__(self, body: Tensor, permutation: Iterable[int]):
        if not isinstance(body, Tensor):
            what = f"the modes of a {type(body).__name__}"
            raise FinchError("type", f"{what} have no order to change")
        try:
            permutation = tuple(map(index, permutation))
        except TypeError:
            what = f"a permutation has numbers of modes, {foreign(permutation)} does not"
            raise FinchError("type", what) from None
        if sorted(permutation) != [*modes_of(body.format)]:
            raise FinchError("dimension", f"{permutation} does not permute {body.order} modes")
        self.body, self.permutation = body, permutation
        self._format = Swizzled(body.format, permutation)

    @property
    def format(self) -> Swizzled:
        if self._format.level is not self.body.format:  # a kernel gave `body` another fill
            self._format = Swizzled(self.body.format, self.permutation)
        return self._format

    order = ndim = property(lambda self: self.body.order)
    fill = property(lambda self: self.body.fill)
    dtype = property(lambda self: self.body.dtype)
    nbytes = property(lambda self: self.body.nbytes)

    @property
    def _axes(self) -> list[int]:
        """For each mode the one of `body`, from 0."""
        return [self.permutation.index(k + 1) for k in range(self.body.order)]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple([self.body.shape[k] for k in self._axes])

    def entries(self) -> Entries:
        coordinates, values = self.body.entries()
        return coordinates[self._axes], values

    def places(self) -> np.ndarray:
        return self.body.places()[self._axes]

    def copy(self) -> SwizzledTensor:
        return SwizzledTensor(self.body.copy(), self.permutation)

    def to_numpy(self) -> np.ndarray:
        return self.body.to_numpy().transpose(self._axes)

    def to_scipy(self) -> Any:
        """As Tensor.to_scipy; a matrix stored by rows becomes CSR."""
        array = self.body.to_scipy()
        if self.permutation == modes_of(self.body.format):
            return array
        return array.T if self.order == 2 else coo_array(self)

    def countstored(self) -> int:
        return self.body.countstored()

    def validate(self) -> None:
        self.body.validate()


#: what a kernel reads and writes
AnyTensor = Tensor | SwizzledTensor | Scalar


def swizzled(body: Tensor, format: Format) -> Tensor | SwizzledTensor:
    """A tensor over `body` with its modes in the order of `format`, without checks."""
    if not isinstance(format, Swizzled):
        return body
    made = SwizzledTensor.__new__(SwizzledTensor)
    made.body, made.permutation, made._format = body, format.permutation, format
    return made


def tensor_over(format: Format, memory: Memory, checked: bool) -> Tensor | SwizzledTensor:
    """A tensor over `memory`; `checked` if its arrays are known to be valid."""
    return swizzled(Tensor.over(level_of(format), memory, checked), format)


def body_of(tensor: Any) -> Tensor:
    """The stored tensor: itself, or the body of a swizzled one."""
    return tensor.body if isinstance(tensor, SwizzledTensor) else tensor


def coo_array(tensor: Tensor | SwizzledTensor) -> Any:
    """A SciPy COO array of the stored leaves. Raises FinchError "type" as `Tensor.to_scipy`."""
    import scipy.sparse

    if tensor.order == 0 or tensor.fill != 0:
        raise FinchError("type", "SciPy holds sparse arrays of fill 0 only")
    if is_compressed(level_of(tensor.format)):
        return tensor.to_scipy().tocoo()
    coordinates, values = tensor.entries()
    return scipy.sparse.coo_array((values, tuple(coordinates)), tensor.shape)


def _counted(rows: Sequence[np.ndarray], values: np.ndarray, shape: Sizes) -> Any:
    """Entries as a CSC matrix in order, those at the same coordinates in the order given. SciPy counts them
    by columns, and before that by rows unless they are in order."""
    given = scipy_sparse().coo_array((values, tuple(rows)), shape)
    given.has_canonical_format = True  # which nobody asks: this only keeps it from summing
    is_ordered = np.all(rows[1][1:] >= rows[1][:-1])
    matrix = given.tocsc() if is_ordered else None
    if matrix is None or not matrix.has_sorted_indices:
        matrix = given.tocsr().tocsc()
    return matrix


def is_compressed(format: Level) -> bool:
    """Whether a format is that of SciPy's CSC matrices, which its functions convert in the least time. If
    nobody has imported SciPy, False: that takes longer."""
    kinds, levels = (Dense, SparseList, Element), [*format.levels()]
    is_same = len(levels) == 3 and all(map(isinstance, levels, kinds))
    is_pair = format.element_type.dtype.names is not None
    return is_same and not is_pair and scipy_sparse() is not None


def scipy_sparse() -> Any:
    """The module, if it is imported."""
    return sys.modules.get("scipy.sparse")


def mirrored_modes(tensor: AnyTensor) -> tuple[tuple[int, int], ...]:
    """The pairs of modes (from 0) whose coordinates may be exchanged, of symmetric levels."""
    level = level_of(tensor.format)
    parts = zip(level.levels(), level.sizes(modes_of(tensor.format)), strict=True)
    return tuple([(own[0] - 1, own[1] - 1) for part, own in parts if part.is_symmetric])
