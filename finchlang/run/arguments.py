"""What a script's values are to a kernel: described afresh at each call, as they are now."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple
from weakref import ref

import numpy as np
import scipy.sparse

from finchlang.native.foreign import address_of, copy_check, order_check
from finchlang.normalize import Format
from finchlang.source import Bug, FinchError
from finchlang.tensors.adopted import as_tensor, is_scipy, over_parts
from finchlang.tensors.level import Swizzled
from finchlang.tensors.masks import MaskValue
from finchlang.tensors.memory import Memory
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor, dense_format
from finchlang.types import PairType, type_of_value

Regions = Sequence[tuple[int, int]]


class Argument:
    """A value that a kernel is called with: `format` is what normalisation asks for (the type of a
    number, the mask itself), `memory` what a tensor is kept in now. `owner` is the object that has
    the memory: two arguments with the same owner are the same tensor. `regions` are the bytes, each
    as the first and the one behind the last, that somebody else may have, too."""

    __slots__ = ("format", "memory", "owner", "regions", "value")
    #: whether a result may be in other memory than the value was
    takes_memory: ClassVar[bool] = False

    def __init__(self, value: Any, format: Any, memory: Any = None, regions: Regions = ()):
        self.value, self.format, self.memory, self.regions = value, format, memory, regions
        self.owner = value

    @property
    def back_buffer(self) -> Memory | None:
        """Memory that a result may be put into."""
        return None

    def commit(self, memory: Memory) -> Any:
        """Take over what a kernel made of the value; gives what the script's name is bound to then:
        the same object, changed, unless it cannot be."""
        raise Bug("a number or a mask is not written")

    def arrays(self) -> Sequence[np.ndarray]:
        """The arrays the value is kept in, as their owner sees them."""
        return self.memory.arrays if self.memory is not None else ()

    @property
    def is_current(self) -> bool:
        """Whether the value, looked at afresh, is as it was described."""
        return True

    @property
    def is_writable(self) -> bool:
        """Whether the owner lets the arrays be written."""
        return all([array.flags.writeable for array in self.arrays()])


class TensorArgument(Argument):
    """A tensor, whose memory nobody else may move, unless it is borrowed."""

    __slots__ = ()
    takes_memory = True

    def __init__(self, value: Tensor | SwizzledTensor):
        tensor = value.body if isinstance(value, SwizzledTensor) else value
        if not tensor.checked:
            tensor.validate()
        memory = tensor.memory
        if memory.is_borrowed:
            known, memory = memory, Memory.borrowed(memory.shape, memory.arrays, memory.counters)
            sizes = zip(memory.words[1::3], known.words[1::3], strict=True)
            if any([now < was for now, was in sizes]):
                what = "an array that a tensor stands for was cut short in place"
                raise FinchError("bounds", what)
        self.value, self.format, self.memory, self.owner = value, value.format, memory, tensor
        self.regions = memory.regions() if memory.is_shared else ()

    @property
    def back_buffer(self) -> Memory | None:
        return self.owner.back_buffer

    @property
    def is_current(self) -> bool:
        return self.owner.memory is self.memory and not self.memory.is_shared

    @property
    def is_writable(self) -> bool:
        return not self.memory.is_borrowed or super().is_writable

    def commit(self, memory: Memory) -> Any:
        before = self.memory
        if memory is not before:
            if memory.arrays is not before.arrays:
                self.owner.back_buffer = None if before.is_shared else before
            else:
                memory.is_shared, memory.is_borrowed = before.is_shared, before.is_borrowed
            self.owner.memory = memory
        return self.value


class ScalarArgument(Argument):
    """A Scalar: it has no arrays, and its value is a counter."""

    __slots__ = ()
    is_writable = True

    def __init__(self, value: Scalar):
        self.value, self.format, self.owner, self.regions = value, value.format, value, ()
        self.memory = Memory((), (), tuple(value.format.held(value.value)), [])

    @property
    def is_current(self) -> bool:
        return self.value.value is self.memory.counters[0]

    def commit(self, memory: Memory) -> Any:
        self.value.value = self.value.format.value_of(memory.counters)
        return self.value


class ArrayArgument(Argument):
    """A NumPy array: used in place if it is contiguous in some order of its axes, else copied and
    copied back."""

    __slots__ = ("_facts", "is_in_place")

    def __init__(self, value: np.ndarray):
        self._facts = _, *facts = address_of(value), value.dtype, value.shape, value.strides
        layout, address = _layout(*facts), self._facts[0]
        self.value = self.owner = value
        self.is_in_place = is_in_place = layout.axes is not None and not address % value.itemsize
        if is_in_place:
            flat = value if value.ndim == 1 else value.transpose(layout.backwards).reshape(-1)
            self.format = layout.format
            self.memory = Memory(layout.shape, (flat,), (), [address, layout.size, 0])
            self.regions: Regions = ((address, address + layout.bytes),) if layout.bytes else ()
        else:
            copy = np.array(value, value.dtype.newbyteorder("="), order="F")
            body = _body(as_tensor(copy))
            self.format, self.memory = body.format, body.memory
            self.regions = (np.lib.array_utils.byte_bounds(value),) if layout.bytes else ()

    @property
    def is_current(self) -> bool:
        value = self.value
        facts = address_of(value), value.dtype, value.shape, value.strides
        return self.is_in_place and facts == self._facts

    @property
    def is_writable(self) -> bool:
        return self.value.flags.writeable

    def commit(self, memory: Memory) -> Any:
        if memory is self.memory and self.is_in_place:
            return self.value
        made = self._made(memory)
        if memory.shape != self.memory.shape:
            return made.copy(order="F")
        self.value[...] = made
        return self.value

    def _made(self, memory: Memory) -> np.ndarray:
        """The content of `memory` as an array of the value's axes."""
        view = memory.arrays[0][: math.prod(memory.shape)].reshape(memory.shape, order="F")
        if not isinstance(self.format, Swizzled):
            return view
        permutation = self.format.permutation
        return view.transpose([permutation.index(k + 1) for k in range(len(permutation))])

    def arrays(self) -> Sequence[np.ndarray]:
        return (self.value,)


class _Layout(NamedTuple):
    """What arrays of a type, shape and strides have in common: their format, and their axes in the
    order of memory, the fastest first, with the sizes of these; None if entries are not next to
    each other, or not as the processor has them."""

    format: Format
    axes: tuple[int, ...] | None
    shape: tuple[int, ...]
    size: int
    bytes: int

    @property
    def backwards(self) -> tuple[int, ...]:
        """The axes, the slowest first."""
        assert self.axes is not None
        return self.axes[::-1]


@lru_cache(1024)
def _layout(dtype: np.dtype, shape: tuple[int, ...], strides: tuple[int, ...]) -> _Layout:
    level = dense_format(dtype.newbyteorder("="), len(shape))
    axes = tuple(sorted(range(len(shape)), key=lambda k: (strides[k], shape[k] != 1)))
    size, step = math.prod(shape), dtype.itemsize
    room = size, size * dtype.itemsize
    for k in axes:
        if size and shape[k] != 1 and strides[k] != step:
            return _Layout(level, None, shape, *room)
        step *= shape[k]
    if not dtype.isnative:
        return _Layout(level, None, shape, *room)
    own = tuple([shape[k] for k in axes])
    if axes == tuple(range(len(shape))):
        return _Layout(level, axes, own, *room)
    return _Layout(Swizzled(level, tuple([k + 1 for k in axes])), axes, own, *room)


class MatrixArgument(Argument):
    """A CSC or CSR matrix of SciPy: its values are used in place, what kernels index by is a copy. What
    a kernel makes of it is put into arrays of its own, which become the matrix's."""

    __slots__ = ("_known",)
    takes_memory = True

    def __init__(self, value: Any, known: _Known):
        self.value = self.owner = value
        self.format, self.memory, self.regions = known.format, known.memory, known.regions
        self._known = known

    @property
    def is_current(self) -> bool:
        return self._known.is_current(self.value)

    def arrays(self) -> Sequence[np.ndarray]:
        return [getattr(self.value, name) for name in ("indptr", "indices", "data")]

    def commit(self, memory: Memory) -> Any:
        return _with_parts(self.value, self.format, memory)


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

    __slots__ = ()
    takes_memory = True
    is_current = False

    def commit(self, memory: Memory) -> Any:
        if self.value.format in ("csc", "csr") and self.value.ndim == 2:
            return _with_parts(self.value, self.format, memory)
        made: Tensor | SwizzledTensor
        if isinstance(self.format, Swizzled):
            body = Tensor.over(self.format.level, memory, True)
            made = SwizzledTensor(body, self.format.permutation)
        else:
            made = Tensor.over(self.format, memory, True)
        return type(self.value)(made.to_scipy())


#: So many of a matrix's indices are compared with their copy at a call, the next ones at the next, and
#: so many of the last at each.
COMPARED, LAST = 8192, 64


class _Known:
    """A SciPy matrix that was found in order, as it was then."""

    def __init__(self, matrix: Any, facts: tuple[Any, ...]):
        key = id(matrix)
        self.matrix = ref(matrix, lambda _: _known.pop(key, None))
        self.facts = facts
        self.format, self.memory = over_parts(matrix, address_of)
        words = self.memory.words
        end = words[6] + self.memory.arrays[2].nbytes
        self.regions: Regions = ((words[6], end),) if end > words[6] else ()
        self._words = [facts[0], facts[6], 0, facts[1], facts[7], 0, *words[:6]]
        self._check = copy_check(matrix.indices.dtype)
        self._from = 0

    def is_current(self, matrix: Any) -> bool:
        """Whether the matrix is in the memory that it was, with the same indices as far as they are
        compared at this call."""
        if _facts(matrix) != self.facts:
            return False
        words = self._words
        ptr_size, idx_size = words[7], words[10]
        first = self._from
        stop = first + COMPARED
        bounds = [first, min(stop, ptr_size), first, min(stop, idx_size)]
        bounds += max(0, idx_size - LAST), idx_size
        is_same = self._check.call(list(words), bounds)[0]
        if is_same:  # where they differ is compared again when the matrix is described anew
            self._from = stop if stop < max(ptr_size, idx_size) else 0
        return is_same


#: by the identity of the matrices; each is looked at again at each call
_known: dict[int, _Known] = {}


def _describe_matrix(matrix: Any) -> Argument:
    known = _known.get(id(matrix))
    if known is not None and known.matrix() is matrix and known.is_current(matrix):
        return MatrixArgument(matrix, known)
    if matrix.format not in ("csc", "csr") or matrix.ndim != 2:
        return _converted(matrix)
    facts = _facts(matrix)
    if not facts or not _is_in_order(matrix, facts):
        converted = _converted(matrix)
        facts = _facts(matrix)
        if not facts or facts[2] != converted.memory.words[6]:
            return converted
    known = _known[id(matrix)] = _Known(matrix, facts)
    return MatrixArgument(matrix, known)


def _converted(matrix: Any) -> Argument:
    tensor = as_tensor(matrix)
    assert isinstance(tensor, (Tensor, SwizzledTensor))
    return ConvertedArgument(matrix, tensor.format, _body(tensor).memory)


def _is_in_order(matrix: Any, facts: tuple[Any, ...]) -> bool:
    """Whether a matrix of these facts can be used as it is; this is seen in less time than SciPy
    takes."""
    ptr, idx, val = matrix.indptr, matrix.indices, matrix.data
    if not ptr.ndim == idx.ndim == val.ndim == 1 or ptr.dtype != idx.dtype:
        return False
    if not (ptr.flags.c_contiguous and idx.flags.c_contiguous and val.flags.c_contiguous):
        return False
    size, fibers = matrix.shape if matrix.format == "csc" else matrix.shape[::-1]
    if idx.dtype not in _INDICES or not val.dtype.isnative or len(ptr) <= fibers:
        return False
    words = [facts[0], facts[6], 0, facts[1], facts[7], 0]
    room = min(facts[7], facts[8])
    return order_check(idx.dtype).call(words, [fibers, size, room])[0]


#: the types of indices that SciPy has
_INDICES = frozenset((np.dtype(np.int32), np.dtype(np.int64)))


def _facts(matrix: Any) -> tuple[Any, ...]:
    """What must be as it was for a matrix to be in the memory that it was, in the order that it was:
    SciPy notes whether that is known."""
    own = matrix.__dict__
    ptr, idx, val = own.get("indptr"), own.get("indices"), own.get("data")
    if not type(ptr) is type(idx) is type(val) is np.ndarray:
        return ()
    return (
        *(address_of(ptr), address_of(idx), address_of(val), id(ptr), id(idx), id(val)),
        *(ptr.size, idx.size, val.size, ptr.strides, idx.strides, val.strides),
        *(ptr.dtype, idx.dtype, val.dtype, own.get("_shape"), own.get("_has_sorted_indices")),
        own.get("_has_canonical_format"),
    )


def _is_same_memory(array: np.ndarray, other: np.ndarray) -> bool:
    return array.size == other.size and address_of(array) == address_of(other)


def _body(tensor: Tensor | SwizzledTensor | Scalar | None) -> Tensor:
    body = tensor.body if isinstance(tensor, SwizzledTensor) else tensor
    assert isinstance(body, Tensor)
    return body


def describe(value: Any) -> Argument | None:
    """What a value is to a kernel, as it is now; None if it is nothing that kernels take.

    Raises FinchError for a value that would be a tensor if it were in order.
    """
    make = _MAKERS.get(type(value))
    if make is not None:
        return make(value)
    type_of_number = type_of_value(value)
    if isinstance(type_of_number, PairType):
        raise FinchError("type", "a kernel takes a pair from a Scalar or a tensor, not from a name")
    if type_of_number is not None:
        return Argument(value, type_of_number)
    if is_scipy(value):
        return _describe_matrix(value)
    if isinstance(value, np.ndarray) and as_tensor(value) is not None:  # of a class of its own
        return ArrayArgument(value)
    return None


#: the classes of values that are met most
_MAKERS: dict[type, Callable[[Any], Argument]] = {
    np.ndarray: ArrayArgument,
    Tensor: TensorArgument,
    SwizzledTensor: TensorArgument,
    Scalar: ScalarArgument,
    MaskValue: lambda value: Argument(value, value),
    scipy.sparse.csc_array: _describe_matrix,
    scipy.sparse.csr_array: _describe_matrix,
    scipy.sparse.csc_matrix: _describe_matrix,
    scipy.sparse.csr_matrix: _describe_matrix,
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
