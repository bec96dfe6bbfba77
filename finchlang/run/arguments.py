"""What a script's values are to a kernel: described afresh at each call, as they are now."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar
from weakref import ref

import numpy as np

from finchlang.native.foreign import ordered_copies
from finchlang.native.jit import address_finder
from finchlang.source import Bug, FinchError
from finchlang.tensors.adopted import as_tensor, is_scipy, layout_of_array, matrix_format
from finchlang.tensors.level import Swizzled
from finchlang.tensors.masks import MaskValue
from finchlang.tensors.memory import Memory
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor
from finchlang.types import PairType, type_of_value

Regions = Sequence[tuple[int, int]]


class Argument:
    """A value that a kernel is called with: `format` is what normalisation asks for (the type of a
    number, the mask itself). Of a tensor, `shape`, `arrays` and `counters` are as in a Memory, what a
    kernel is given. `owner` is the object that has them: two arguments with the same owner are the same
    tensor. `regions` are the bytes, each as the first and the one behind the last, that somebody else
    may have, too."""

    __slots__ = ("arrays", "counters", "format", "owner", "regions", "shape", "value")
    #: whether it is no number, and no mask
    is_tensor: ClassVar[bool] = False
    #: whether a result may be in other memory than the value was
    takes_memory: ClassVar[bool] = False

    shape: tuple[int, ...]
    arrays: Sequence[np.ndarray]
    counters: tuple[Any, ...]
    regions: Regions

    def __init__(self, value: Any, format: Any):
        self.value, self.format, self.regions = value, format, ()
        self.owner = value

    @property
    def back_buffer(self) -> Memory | None:
        """Memory that a result may be put into."""
        return None

    def commit(self, made: Memory | None) -> Any:
        """Take over what a kernel made of the value, None if only the content of its arrays is new; gives
        what the script's name is bound to then: the same object, changed, unless it cannot be."""
        raise Bug("a number or a mask is not written")

    def seen(self) -> Sequence[np.ndarray]:
        """The arrays the value is kept in, as their owner sees them."""
        return self.arrays if self.is_tensor else ()

    @property
    def is_writable(self) -> bool:
        """Whether the owner lets the arrays be written."""
        return all([array.flags.writeable for array in self.seen()])


class TensorArgument(Argument):
    """A tensor, whose memory nobody else may move, unless it is borrowed."""

    __slots__ = ("memory",)
    is_tensor = takes_memory = True

    def __init__(self, value: Tensor | SwizzledTensor):
        tensor = value.body if isinstance(value, SwizzledTensor) else value
        if not tensor.checked:
            tensor.validate()
        memory = self.memory = tensor.memory
        self.shape, self.arrays, self.counters = memory.shape, memory.arrays, memory.counters
        self.value, self.format, self.owner = value, value.format, tensor
        self.regions = _regions(memory.arrays) if memory.is_shared else ()
        rooms = memory.rooms
        if rooms and any([a.size < n for a, n in zip(memory.arrays, rooms, strict=True)]):
            what = "an array that a tensor stands for was cut short in place"
            raise FinchError("bounds", what)

    @property
    def back_buffer(self) -> Memory | None:
        return self.owner.back_buffer

    @property
    def is_writable(self) -> bool:
        return self.memory.rooms is None or super().is_writable

    def commit(self, made: Memory | None) -> Any:
        before = self.memory
        if made is not None:
            if made.arrays is not before.arrays:
                self.owner.back_buffer = None if before.is_shared else before
            else:
                made.is_shared, made.rooms = before.is_shared, before.rooms
            self.owner.memory = made
        return self.value


class ScalarArgument(Argument):
    """A Scalar: it has no arrays, and its value is a counter."""

    __slots__ = ()
    is_tensor = is_writable = True

    def __init__(self, value: Scalar):
        format = self.format = value.format
        self.value, self.owner, self.regions = value, value, ()
        self.shape, self.arrays, self.counters = (), (), tuple(format.held(value.value))

    def commit(self, made: Memory | None) -> Any:
        if made is not None:
            self.value.value = self.format.value_of(made.counters)
        return self.value


class ArrayArgument(Argument):
    """A NumPy array: used in place if it is contiguous in some order of its axes, else copied and
    copied back."""

    __slots__ = ("is_in_place",)
    is_tensor = True
    counters = ()

    def __init__(self, value: np.ndarray):
        self.value = self.owner = value
        format, axes, shape = layout_of_array(value.dtype, value.shape, value.strides)
        self.is_in_place = axes is not None and value.flags.aligned
        if axes is not None and self.is_in_place:
            flat = value if len(axes) == 1 else value.transpose(axes).reshape(-1)
            self.format, self.shape, self.arrays = format, shape, (flat,)
            start = address_finder()(value)
            self.regions = ((start, start + value.nbytes),)
        else:
            body = _body(as_tensor(value))
            self.format, self.shape, self.arrays = body.format, body.shape, body.memory.arrays
            self.regions = (np.lib.array_utils.byte_bounds(value),)

    @property
    def is_writable(self) -> bool:
        return self.value.flags.writeable

    def commit(self, made: Memory | None) -> Any:
        if made is None:
            if not self.is_in_place:
                self.value[...] = self._made(self.arrays, self.shape)
            return self.value
        result = self._made(made.arrays, made.shape)
        if made.shape != self.shape:
            return result.copy(order="F")
        self.value[...] = result
        return self.value

    def _made(self, arrays: Sequence[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
        """The content of memory as an array of the value's axes."""
        view = arrays[0][: math.prod(shape)].reshape(shape, order="F")
        if not isinstance(self.format, Swizzled):
            return view
        permutation = self.format.permutation
        return view.transpose([permutation.index(k + 1) for k in range(len(permutation))])

    def seen(self) -> Sequence[np.ndarray]:
        return (self.value,)


class MatrixArgument(Argument):
    """A CSC or CSR matrix of SciPy: its values are used in place, what kernels index by is a copy. What
    a kernel makes of it is put into arrays of its own, which become the matrix's."""

    __slots__ = ()
    is_tensor = takes_memory = True

    def __init__(self, value: Any, copies: _Copies):
        self.value = self.owner = value
        self.format, self.regions = copies.format, copies.regions
        self.shape, self.counters = copies.shape, copies.counters
        self.arrays = copies.ptr, copies.idx, value.data

    def seen(self) -> Sequence[np.ndarray]:
        return [getattr(self.value, name) for name in ("indptr", "indices", "data")]

    def commit(self, made: Memory | None) -> Any:
        return self.value if made is None else _with_parts(self.value, self.format, made)


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


class ConvertedArgument(Argument):
    """A sparse array of SciPy of which a kernel has a copy: in another format than CSC and CSR, or of
    arrays that cannot be used in place."""

    __slots__ = ("memory",)
    is_tensor = takes_memory = True

    def __init__(self, value: Any, format: Any, memory: Memory):
        super().__init__(value, format)
        self.memory = memory
        self.shape, self.arrays, self.counters = memory.shape, memory.arrays, memory.counters

    def commit(self, made: Memory | None) -> Any:
        memory = made or self.memory
        if self.value.format in ("csc", "csr") and self.value.ndim == 2:
            return _with_parts(self.value, self.format, memory)
        tensor: Tensor | SwizzledTensor
        if isinstance(self.format, Swizzled):
            body = Tensor.over(self.format.level, memory, True)
            tensor = SwizzledTensor(body, self.format.permutation)
        else:
            tensor = Tensor.over(self.format, memory, True)
        return type(self.value)(tensor.to_scipy())


#: So many of a matrix's indices are compared with their copy at a call, the next ones at the next, and
#: so many of the last at each.
COMPARED, LAST = 8192, 64


class _Copies:
    """What kernels index by in place of the index arrays of a CSC or CSR matrix, which its user may
    change: copies that were found in order, and facts of the matrix as they were then."""

    __slots__ = (
        *("_bytes", "_facts", "_first", "_marks", "counters", "format", "idx", "matrix", "ptr"),
        *("regions", "shape"),
    )

    def __init__(
        self,
        matrix: Any,
        facts: tuple[Any, ...],
        shape: tuple[int, ...],
        ptr: np.ndarray,
        idx: np.ndarray,
    ):
        key, start = id(matrix), facts[0]
        self.matrix = ref(matrix, lambda _: _known.pop(key, None))
        self.shape, self.ptr, self.idx = shape, ptr, idx
        self.counters = (ptr.item(shape[1]),)
        self.format = matrix_format(matrix.data.dtype, idx.dtype, matrix.format == "csr")
        self.regions: Regions = ((start, start + matrix.data.nbytes),)
        self._facts, self._first, self._bytes = facts, 0, _bytes(ptr, idx, 0)
        is_large = max(ptr.size, idx.size) > COMPARED
        self._marks = _marks(matrix) if is_large else ()

    def are_current(self, matrix: Any) -> bool:
        """Whether the matrix is in the memory that it was, with the same indices: small ones are
        compared whole, of large ones some at a call."""
        if _facts(matrix) != self._facts:
            return False
        first = self._first
        if _bytes(matrix.indptr, matrix.indices, first) != self._bytes:
            return False
        if self._marks:
            if _marks(matrix) != self._marks:
                return False
            stop = first + COMPARED
            self._first = stop if stop < max(self.ptr.size, self.idx.size) else 0
            self._bytes = _bytes(self.ptr, self.idx, self._first)
        return True


def _facts(matrix: Any) -> tuple[Any, ...]:
    """What must be as it was for a matrix to be in the memory that it was, first the address of its
    values. () if its parts are no arrays."""
    own = matrix.__dict__
    ptr, idx, val = own.get("indptr"), own.get("indices"), own.get("data")
    if not type(ptr) is type(idx) is type(val) is np.ndarray:
        return ()
    start, shape = address_finder()(val), own.get("_shape")
    kinds = ptr.shape, ptr.dtype, idx.shape, idx.dtype, val.shape, val.dtype
    return start, shape, kinds, val.strides


def _marks(matrix: Any) -> list[int]:
    """By what it shows that a matrix has other index arrays, or that SciPy has put them in order."""
    find = address_finder()
    attributes = matrix.__dict__.values()
    return [find(matrix.indptr), find(matrix.indices), *map(id, attributes)]


def _bytes(ptr: np.ndarray, idx: np.ndarray, first: int) -> tuple[bytes, ...]:
    """So many indices as are compared at a call, from the first on."""
    if max(ptr.size, idx.size) <= COMPARED:
        return ptr.tobytes(), idx.tobytes()
    stop = first + COMPARED
    return ptr[first:stop].tobytes(), idx[first:stop].tobytes(), idx[-LAST:].tobytes()


#: by the identity of the matrices; each is looked at again at each call
_known: dict[int, _Copies] = {}


def _describe_matrix(matrix: Any) -> Argument:
    known = _known.get(id(matrix))
    if known is None or known.matrix() is not matrix or not known.are_current(matrix):
        known = _copied(matrix)
    if known is None:  # SciPy puts it in order, if it may
        tensor = as_tensor(matrix)
        assert isinstance(tensor, (Tensor, SwizzledTensor))
        known = _copied(matrix)
        if known is None:
            return ConvertedArgument(matrix, tensor.format, _body(tensor).memory)
    return MatrixArgument(matrix, known)


def _copied(matrix: Any) -> _Copies | None:
    """The copies of a matrix that can be used as it is; this is seen in less time than SciPy takes."""
    facts, format, shape = _facts(matrix), matrix.format, matrix.shape
    if not facts or format not in ("csc", "csr") or len(shape) != 2:
        return None
    ptr, idx, val = matrix.indptr, matrix.indices, matrix.data
    if not ptr.ndim == idx.ndim == val.ndim == 1 or ptr.dtype != idx.dtype:
        return None
    flags = val.flags
    if not (flags.c_contiguous and flags.aligned and val.dtype.isnative):
        return None
    size, fibers = shape = shape if format == "csc" else shape[::-1]
    if idx.dtype not in _INDICES or ptr.size <= fibers:
        return None
    own = ordered_copies(ptr, idx, fibers, size, min(idx.size, val.size))
    if own is None:
        return None
    known = _known[id(matrix)] = _Copies(matrix, facts, shape, *own)
    return known


#: the types of indices that SciPy has
_INDICES = frozenset((np.dtype(np.int32), np.dtype(np.int64)))


def _is_same_memory(array: np.ndarray, other: np.ndarray) -> bool:
    find = address_finder()
    return array.size == other.size and find(array) == find(other)


def _regions(arrays: Sequence[np.ndarray]) -> Regions:
    """The first byte of each array, and the byte behind its last."""
    return [
        (start, start + array.nbytes) for array in arrays for start in [address_finder()(array)]
    ]


def _body(tensor: Tensor | SwizzledTensor | Scalar | None) -> Tensor:
    body = tensor.body if isinstance(tensor, SwizzledTensor) else tensor
    assert isinstance(body, Tensor)
    return body


def describe(value: Any) -> Argument | None:
    """What a value is to a kernel, as it is now; None if it is nothing that kernels take.

    Raises FinchError for a value that would be a tensor if it were in order.
    """
    return MAKERS.get(type(value), describe_other)(value)


def describe_other(value: Any) -> Argument | None:
    type_of_number = type_of_value(value)
    if isinstance(type_of_number, PairType):
        raise FinchError("type", "a kernel takes a pair from a Scalar or a tensor, not from a name")
    if type_of_number is not None:
        return Argument(value, type_of_number)
    if is_scipy(value):
        MAKERS[type(value)] = _describe_matrix
        return _describe_matrix(value)
    if isinstance(value, np.ndarray) and as_tensor(value) is not None:  # of a class of its own
        return ArrayArgument(value)
    return None


#: the classes of values that are met most, with SciPy's as they are met: not everybody has imported it
MAKERS: dict[type, Callable[[Any], Argument]] = {
    np.ndarray: ArrayArgument,
    Tensor: TensorArgument,
    SwizzledTensor: TensorArgument,
    Scalar: ScalarArgument,
    MaskValue: lambda value: Argument(value, value),
}


def memory_of(dense: Any, argument: Argument) -> Memory:
    """A dense result as the memory of what it is a result for, in the format of that."""
    if isinstance(argument, ScalarArgument):
        level = argument.value.format
        return Memory((), (), tuple(level.held(level.element_type.wrap(dense))))
    level = argument.format
    if isinstance(level, Swizzled):
        dense, level = dense.transpose([p - 1 for p in level.permutation]), level.level
    return Tensor.from_numpy(dense, level).memory
