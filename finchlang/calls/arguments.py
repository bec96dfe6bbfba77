"""What a script's values are to a kernel: described afresh at each call, as they are now."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final
from weakref import ref

import numpy as np

from finchlang.base.errors import Bug, FinchError
from finchlang.calls.lazy_shape import TensorView
from finchlang.levels.level import Level, Swizzled
from finchlang.native.copy_coordinates import ordered_copies
from finchlang.native.link import address_finder
from finchlang.syntax.types import Bool, PairType, type_of_value
from finchlang.tensors.adopt import as_tensor, is_scipy, layout_of_array, matrix_format
from finchlang.tensors.memory import Memory
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor, body_of
from finchlang.wrappers.masks import MaskValue

#: A value as a kernel is called with it, made at every call and so a mere tuple: what the script's name
#: is bound to; what normalisation asks for (the type of a number, the mask itself); of a tensor its
#: shape, arrays and counters, as in a Memory, which a kernel is given; what has these: two with the
#: same owner are the same tensor; the bytes, from the first to the one behind the last, among which
#: are all that somebody else may have, too; and how results are taken over.
Argument = tuple[
    Any, Any, tuple[int, ...], Sequence[np.ndarray], tuple[Any, ...], Any, int, int, "Kind"
]
VALUE: Final = 0
FORMAT: Final = 1
SHAPE: Final = 2
ARRAYS: Final = 3
COUNTERS: Final = 4
OWNER: Final = 5
START: Final = 6
STOP: Final = 7
KIND: Final = 8


class Kind:
    """How values of one kind take over what a kernel made of them; numbers and masks do not."""

    #: whether a result may be in other memory than the value was
    takes_memory = False
    #: whether the arrays are those before anything was declared, without entries
    is_undeclared = False

    def seen(self, argument: Argument) -> Sequence[np.ndarray]:
        """The arrays the value is kept in, as their owner sees them."""
        return argument[ARRAYS]

    def is_writable(self, argument: Argument) -> bool:
        """Whether the owner lets the arrays be written."""
        return all([array.flags.writeable for array in self.seen(argument)])

    def is_handed_out(self, argument: Argument) -> bool:
        """Whether somebody else has arrays of the tensor, which keep what they show when it is made
        anew."""
        return False

    def back_buffer(self, argument: Argument) -> Memory | None:
        """Memory that a result may be put into."""
        return None

    def commit(self, argument: Argument, made: Memory | None) -> Any:
        """Take over what a kernel made of the value, None if only the content of its arrays is new; gives
        what the script's name is bound to then: the same object, changed, unless it cannot be."""
        raise Bug("a number or a mask is not written")


class _OfTensor(Kind):
    """A tensor, whose memory, the owner, nobody else may move, unless it is borrowed."""

    takes_memory = True

    def is_writable(self, argument: Argument) -> bool:
        return argument[OWNER].rooms is None or super().is_writable(argument)

    def is_handed_out(self, argument: Argument) -> bool:
        return argument[OWNER].is_shared

    def back_buffer(self, argument: Argument) -> Memory | None:
        return body_of(argument[VALUE]).back_buffer

    def commit(self, argument: Argument, made: Memory | None) -> Any:
        if made is not None:
            tensor, before = body_of(argument[VALUE]), argument[OWNER]
            if made.arrays is not before.arrays:
                tensor.back_buffer = None if before.is_shared else before
            else:
                made.is_shared, made.rooms = before.is_shared, before.rooms
            tensor.memory = made
        return argument[VALUE]


def tensor_argument(value: Tensor | SwizzledTensor) -> Argument:
    tensor = body_of(value)
    if not tensor.checked:
        tensor.validate()
    memory = tensor.memory
    arrays, rooms = memory.arrays, memory.rooms
    if rooms and any([a.size < n for a, n in zip(arrays, rooms, strict=True)]):
        raise FinchError("bounds", "an array that a tensor stands for was cut short in place")
    start, stop = _reach(arrays) if memory.is_shared else (0, 0)
    counters = memory.counters
    return value, value.format, memory.shape, arrays, counters, memory, start, stop, TENSOR


class _OfScalar(Kind):
    """A Scalar: it has no arrays, and its value is a counter."""

    def commit(self, argument: Argument, made: Memory | None) -> Any:
        if made is not None:
            argument[VALUE].value = argument[FORMAT].value_of(made.counters)
        return argument[VALUE]


def _scalar(value: Scalar) -> Argument:
    counters = tuple(value.format.held(value.value))
    return value, value.format, (), (), counters, value, 0, 0, SCALAR


class _OfArray(Kind):
    """A NumPy array that is used in place."""

    def seen(self, argument: Argument) -> Sequence[np.ndarray]:
        return (argument[VALUE],)

    def is_writable(self, argument: Argument) -> bool:
        return argument[VALUE].flags.writeable

    def commit(self, argument: Argument, made: Memory | None) -> Any:
        value, format = argument[VALUE], argument[FORMAT]
        if made is not None:
            result = made.arrays[0][: math.prod(made.shape)].reshape(made.shape, order="F")
            if isinstance(format, Swizzled):
                axes = range(1, len(made.shape) + 1)
                result = result.transpose([format.permutation.index(k) for k in axes])
            if made.shape != argument[SHAPE]:
                return result.copy(order="F")
            value[...] = result
        return value


class _OfCopiedArray(_OfArray):
    """A NumPy array that is copied, and copied back."""

    def commit(self, argument: Argument, made: Memory | None) -> Any:
        if made is None:
            made = Memory(argument[SHAPE], argument[ARRAYS], ())
        return super().commit(argument, made)


def _array(value: np.ndarray) -> Argument:
    """It is used in place if it is contiguous in some order of its axes."""
    format, axes, shape, alignment = layout_of_array(value.dtype, value.shape, value.strides)
    if axes is not None:
        start = address_finder()(value)
        if not start % alignment:
            flat = value if len(axes) == 1 else value.transpose(axes).reshape(-1)
            return value, format, shape, (flat,), (), value, start, start + value.nbytes, ARRAY
    return _of_copy(value, as_tensor(value), *np.lib.array_utils.byte_bounds(value), COPIED_ARRAY)


def _of_copy(value: Any, copy: Any, start: int, stop: int, kind: Kind) -> Argument:
    """A value of which kernels are given a copy."""
    memory = body_of(copy).memory
    shape, arrays, counters = memory.shape, memory.arrays, memory.counters
    return value, copy.format, shape, arrays, counters, value, start, stop, kind


class _OfMatrix(Kind):
    """A CSC or CSR matrix of SciPy: its values are used in place, what kernels index by is a copy. What
    a kernel makes of it is put into arrays of its own, which become the matrix's."""

    takes_memory = True

    def seen(self, argument: Argument) -> Sequence[np.ndarray]:
        return [getattr(argument[VALUE], name) for name in ("indptr", "indices", "data")]

    def commit(self, argument: Argument, made: Memory | None) -> Any:
        value = argument[VALUE]
        return value if made is None else _with_parts(value, argument[FORMAT], made)


def _with_parts(matrix: Any, format: Any, memory: Memory) -> Any:
    """A CSC or CSR matrix with the arrays of `memory`; another one if it takes another size."""
    is_by_rows = isinstance(format, Swizzled)
    _, lists, leaf = memory.storage(format.level if is_by_rows else format)
    made = {"indptr": lists["ptr"], "indices": lists["idx"], "data": leaf["val"]}
    shape = memory.shape[::-1] if is_by_rows else memory.shape
    if shape != matrix.shape:
        data, indices, indptr = [made[k].copy() for k in ("data", "indices", "indptr")]
        return type(matrix)((data, indices, indptr), shape)
    for name, array in made.items():
        if not _is_same_memory(getattr(matrix, name), array):
            setattr(matrix, name, array)
    return matrix


class _OfConverted(Kind):
    """A sparse array of SciPy of which a kernel has a copy: in another format than CSC and CSR, or of
    arrays that cannot be used in place."""

    takes_memory = True

    def commit(self, argument: Argument, made: Memory | None) -> Any:
        value, format = argument[VALUE], argument[FORMAT]
        if made is None:
            made = Memory(argument[SHAPE], argument[ARRAYS], argument[COUNTERS])
        if value.format in ("csc", "csr") and value.ndim == 2:
            return _with_parts(value, format, made)
        tensor: Tensor | SwizzledTensor
        if isinstance(format, Swizzled):
            body = Tensor.over(format.level, made, True)
            tensor = SwizzledTensor(body, format.permutation)
        else:
            tensor = Tensor.over(format, made, True)
        return type(value)(tensor.to_scipy())


NUMBER, SCALAR, TENSOR, CONVERTED = Kind(), _OfScalar(), _OfTensor(), _OfConverted()
VIEW = Kind()
ARRAY, COPIED_ARRAY, MATRIX = _OfArray(), _OfCopiedArray(), _OfMatrix()


#: So many of a matrix's indices are compared with their copy at a call, the next ones at the next, and
#: so many of the last at each.
COMPARED, LAST = 8192, 64


class _Copies:
    """What kernels index by in place of the index arrays of a CSC or CSR matrix, which its user may
    change: copies that were found in order, and facts of the matrix as they were then."""

    def __init__(
        self, matrix: Any, facts: tuple[Any, ...], format: Any, ptr: np.ndarray, idx: np.ndarray
    ):
        key = id(matrix)
        self.matrix: Any = ref(matrix, lambda _: _known.pop(key, None))
        rows, columns = facts[2]
        self.shape = (columns, rows) if isinstance(format, Swizzled) else (rows, columns)
        self.format, self._facts, self.ptr, self.idx = format, facts, ptr, idx
        self.counters = (ptr.item(self.shape[1]),)
        is_large = ptr.size > COMPARED or idx.size > COMPARED
        #: the first of those that are compared at the next call, None if all are at each
        self._first = 0 if is_large else None
        self._bytes, self._marks = _bytes(ptr, idx, self._first), _marks(matrix) if is_large else ()

    def are_current(self, matrix: Any, facts: tuple[Any, ...]) -> bool:
        """Whether the matrix is in the memory that it was, with the same indices: small ones are
        compared whole, of large ones some at a call."""
        if self.matrix() is not matrix or facts != self._facts:
            return False
        is_same = _bytes(matrix.indptr, matrix.indices, self._first) == self._bytes
        if self._first is None or not is_same:
            return is_same
        if _marks(matrix) != self._marks:
            return False
        first = self._first + COMPARED
        self._first = first if first < max(self.ptr.size, self.idx.size) else 0
        self._bytes = _bytes(self.ptr, self.idx, self._first)
        return True


def _facts(matrix: Any) -> tuple[Any, ...]:
    """What must be as it was for a matrix to be in the memory that it was, first the address of its
    values, and their size in bytes. () if its parts are no arrays."""
    try:
        shape, ptr, idx, val = matrix._shape, matrix.indptr, matrix.indices, matrix.data
    except AttributeError:
        return ()
    if not type(ptr) is type(idx) is type(val) is np.ndarray:
        return ()
    lists = ptr.dtype, ptr.ndim, idx.dtype, idx.ndim
    return address_finder()(val), val.nbytes, shape, val.dtype, val.ndim, val.strides, lists


def _marks(matrix: Any) -> list[int]:
    """By what it shows that a matrix has other index arrays, or that SciPy has put them in order."""
    find = address_finder()
    attributes = matrix.__dict__.values()
    sizes = matrix.indptr.size, matrix.indices.size
    return [*sizes, find(matrix.indptr), find(matrix.indices), *map(id, attributes)]


def _bytes(ptr: np.ndarray, idx: np.ndarray, first: int | None) -> tuple[bytes, ...]:
    """So many indices as are compared at a call, from the first on; None for all."""
    if first is None:
        return ptr.tobytes(), idx.tobytes()
    stop = first + COMPARED
    return ptr[first:stop].tobytes(), idx[first:stop].tobytes(), idx[-LAST:].tobytes()


#: by the identity of the matrices; each is looked at again at each call
_known: dict[int, _Copies] = {}


def _matrix(value: Any) -> Argument:
    facts, known = _facts(value), _known.get(id(value))
    if known is None or not known.are_current(value, facts):
        known = _copied(value, facts)
    if known is None:  # SciPy puts it in order, if it may
        tensor = as_tensor(value)
        facts = _facts(value)
        known = _copied(value, facts)
        if known is None:
            return _of_copy(value, tensor, 0, 0, CONVERTED)
    start, size, arrays = facts[0], facts[1], (known.ptr, known.idx, value.data)
    format, shape, counters = known.format, known.shape, known.counters
    return value, format, shape, arrays, counters, value, start, start + size, MATRIX


def _copied(matrix: Any, facts: tuple[Any, ...]) -> _Copies | None:
    """The copies of a matrix that can be used as it is; this is seen in less time than SciPy takes."""
    kind = matrix.format
    if not facts or kind not in ("csc", "csr") or len(facts[2]) != 2:
        return None
    ptr, idx, val = matrix.indptr, matrix.indices, matrix.data
    if not ptr.ndim == idx.ndim == val.ndim == 1 or ptr.dtype != idx.dtype:
        return None
    flags = val.flags
    if not (flags.c_contiguous and flags.aligned and val.dtype.isnative):
        return None
    size, fibers = facts[2] if kind == "csc" else facts[2][::-1]
    if idx.dtype not in _INDICES or ptr.size <= fibers:
        return None
    own = ordered_copies(ptr, idx, fibers, size, min(idx.size, val.size))
    if own is None:
        return None
    format = matrix_format(val.dtype, idx.dtype, kind == "csr")
    known = _known[id(matrix)] = _Copies(matrix, facts, format, *own)
    return known


#: the types of indices that SciPy has
_INDICES = frozenset((np.dtype(np.int32), np.dtype(np.int64)))


def _is_same_memory(array: np.ndarray, other: np.ndarray) -> bool:
    find = address_finder()
    return array.size == other.size and find(array) == find(other)


def _reach(arrays: Sequence[np.ndarray]) -> tuple[int, int]:
    """The first byte of some arrays, and the one behind their last."""
    starts = [(address_finder()(array), array.nbytes) for array in arrays]
    return min(starts)[0], max([start + size for start, size in starts])


def describe(value: Any) -> Argument | None:
    """What a value is to a kernel, as it is now; None if it is nothing that kernels take.

    Raises FinchError for a value that would be a tensor if it were in order.
    """
    return MAKERS[type(value)](value)


def _other(value: Any) -> Argument | None:
    type_of_number = type_of_value(value)
    if isinstance(type_of_number, PairType):
        raise FinchError("type", "a kernel takes a pair from a Scalar or a tensor, not from a name")
    if type_of_number is not None:
        value = (
            bool(value) if type_of_number is Bool else value
        )  # NumPy's is no integer to native code
        return value, type_of_number, (), (), (), value, 0, 0, NUMBER
    if is_scipy(value):
        MAKERS[type(value)] = _matrix
        return _matrix(value)
    if isinstance(value, np.ndarray) and as_tensor(value) is not None:  # of a class of its own
        return _array(value)
    return None


class _Makers(dict[type, Callable[[Any], Argument | None]]):
    """By the class of a value what describes it; `get` with a default takes longer."""

    def __missing__(self, _: type) -> Callable[[Any], Argument | None]:
        return _other


#: the classes of values that are met most, with SciPy's as they are met: not everybody has imported it
MAKERS = _Makers(
    {
        np.ndarray: _array,
        Tensor: tensor_argument,
        SwizzledTensor: tensor_argument,
        Scalar: _scalar,
        MaskValue: lambda value: (value, value, (), (), (), value, 0, 0, NUMBER),
        TensorView: lambda value: (value, value.template, (), (), (), value, 0, 0, VIEW),
    }
)


def in_use(argument: Argument, level: Level, is_renewed: bool = False) -> list[np.ndarray]:
    """The arrays of a value of this format, as far as they are in use: not at all if it is renewed."""
    if argument[KIND].is_undeclared:
        return [*argument[ARRAYS]]
    memory = Memory(argument[SHAPE], argument[ARRAYS], argument[COUNTERS])
    storage = zip(level.levels(), memory.storage(level), strict=True)
    used = [own[name] for part, own in storage for name, _ in part.arrays]
    return [array[:0] for array in used] if is_renewed else used


def memory_of(dense: Any, argument: Argument) -> Memory:
    """A dense result as the memory of what it is a result for, in the format of that."""
    level = argument[FORMAT]
    if argument[KIND] is SCALAR:
        return Memory((), (), tuple(level.held(level.element_type.wrap(dense))))
    if isinstance(level, Swizzled):
        dense, level = dense.transpose([p - 1 for p in level.permutation]), level.level
    return Tensor.from_numpy(dense, level).memory
