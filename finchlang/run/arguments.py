"""What a script's values are to a kernel: described afresh at each call, as they are now."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple
from weakref import ref

import numpy as np

from finchlang.native.jit import address_finder
from finchlang.normalize import Format
from finchlang.source import FinchError
from finchlang.tensors.adopted import as_tensor, is_scipy
from finchlang.tensors.level import Swizzled
from finchlang.tensors.masks import MaskValue
from finchlang.tensors.memory import Memory
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor, dense_format
from finchlang.types import type_of_value


class Argument:
    """A value that a kernel is called with: `format` is what normalisation asks for (the type of a
    number, the mask itself), `memory` what a tensor is kept in now. `owner` is the object that has
    the memory; two arguments with the same owner are the same tensor."""

    __slots__ = ("format", "memory", "owner", "value")
    #: whether a result may be in other memory than the value was
    takes_memory: ClassVar[bool] = False

    def __init__(self, value: Any, format: Any, memory: Any = None, owner: Any = None):
        self.value, self.format, self.memory, self.owner = value, format, memory, owner

    @property
    def spare(self) -> Memory | None:
        """Memory that a result may be put into."""
        return None

    def commit(self, memory: Memory) -> Any:
        """Take over what a kernel made of the value; gives what the script's name is bound to then:
        the same object, changed, unless it cannot be."""
        raise NotImplementedError

    def arrays(self) -> Sequence[np.ndarray]:
        """The arrays the value is kept in, as their owner sees them."""
        return self.memory.arrays if self.memory is not None else ()

    @property
    def regions(self) -> Sequence[tuple[int, int]]:
        """The first byte and the one behind the last of each that somebody else may have, too."""
        return self.memory.regions


class TensorArgument(Argument):
    """A tensor, whose memory nobody else may move."""

    __slots__ = ()
    takes_memory = True

    def __init__(self, value: Tensor | SwizzledTensor):
        tensor = value.body if isinstance(value, SwizzledTensor) else value
        if not tensor.checked:
            tensor.validate()
        self.value, self.format, self.memory, self.owner = (
            value,
            value.format,
            tensor.memory,
            tensor,
        )

    @property
    def spare(self) -> Memory | None:
        return self.owner.spare

    def commit(self, memory: Memory) -> Any:
        before = self.memory
        if memory.arrays is not before.arrays:
            self.owner.spare = None if before.is_shared else before
        else:
            memory.is_shared = before.is_shared
        self.owner.memory = memory
        return self.value

    @property
    def regions(self) -> Sequence[tuple[int, int]]:
        return self.memory.regions if self.memory.is_shared else ()


class ScalarArgument(Argument):
    """A Scalar: it has no arrays, and its value is a counter."""

    __slots__ = ()

    def __init__(self, value: Scalar):
        memory = Memory((), (), tuple(value.format.held(value.value)), [])
        self.value, self.format, self.memory, self.owner = value, value.format, memory, value

    def commit(self, memory: Memory) -> Any:
        self.value.value = memory.counters[0]
        return self.value


class ArrayArgument(Argument):
    """A NumPy array: used in place if it is contiguous in some order of its axes, else copied and
    copied back."""

    __slots__ = ("is_in_place",)

    def __init__(self, value: np.ndarray):
        shape = value.shape
        layout = _layout(value.dtype, shape, value.strides)
        address = address_of(value)
        self.value, self.owner, self.format = value, value, layout.format
        axes = layout.axes if address % value.itemsize == 0 else None
        self.is_in_place = axes is not None
        if axes is not None:
            flat, words = value, [address, layout.size, 0]
            if len(shape) != 1:
                flat = value.transpose(axes[::-1]).reshape(-1)
            self.memory = Memory(layout.shape, (flat,), (), words)
        else:
            copy = np.array(value, value.dtype.newbyteorder("="), order="F")
            body = _body(as_tensor(copy))
            self.format, self.memory = body.format, body.memory

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

    @property
    def regions(self) -> Sequence[tuple[int, int]]:
        if self.is_in_place:
            return self.memory.regions
        return [np.lib.array_utils.byte_bounds(self.value)] if self.value.size else []


class _Layout(NamedTuple):
    """What arrays of a type, shape and strides have in common: their format, and their axes in the
    order of memory, the fastest first, with the sizes of these; None if entries are not next to
    each other, or not as the processor has them."""

    format: Format
    axes: tuple[int, ...] | None
    shape: tuple[int, ...]
    size: int


@lru_cache(1024)
def _layout(dtype: np.dtype, shape: tuple[int, ...], strides: tuple[int, ...]) -> _Layout:
    level = dense_format(dtype.newbyteorder("="), len(shape))
    axes = tuple(sorted(range(len(shape)), key=lambda k: (strides[k], shape[k] != 1)))
    size, step = math.prod(shape), dtype.itemsize
    for k in axes:
        if size and shape[k] != 1 and strides[k] != step:
            return _Layout(level, None, shape, size)
        step *= shape[k]
    if not dtype.isnative:
        return _Layout(level, None, shape, size)
    own = tuple([shape[k] for k in axes])
    if axes == tuple(range(len(shape))):
        return _Layout(level, axes, own, size)
    return _Layout(Swizzled(level, tuple([k + 1 for k in axes])), axes, own, size)


class MatrixArgument(Argument):
    """A CSC or CSR matrix of SciPy, whose arrays are used in place. What a kernel makes of it is put
    into arrays of its own, which become the matrix's."""

    __slots__ = ()
    takes_memory = True

    def commit(self, memory: Memory) -> Any:
        matrix, is_by_rows = self.value, isinstance(self.format, Swizzled)
        level = self.format.level if isinstance(self.format, Swizzled) else self.format
        _, lists, leaf = memory.storage(level)
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
    """A sparse array of SciPy in another format, of which a kernel has a copy."""

    __slots__ = ()
    takes_memory = True

    def commit(self, memory: Memory) -> Any:
        made: Tensor | SwizzledTensor
        if isinstance(self.format, Swizzled):
            body = Tensor.over(self.format.level, memory, True)
            made = SwizzledTensor(body, self.format.permutation)
        else:
            made = Tensor.over(self.format, memory, True)
        return type(self.value)(made.to_scipy())


class _Known(NamedTuple):
    """A SciPy matrix that was found in order: what it was then. Its arrays are kept as long as it is,
    so that others do not get their identities."""

    matrix: ref
    facts: tuple[Any, ...]
    format: Format
    memory: Memory


#: by the identity of the matrices; each is looked at again at each call
_known: dict[int, _Known] = {}


def _describe_matrix(matrix: Any) -> Argument:
    known = _known.get(id(matrix))
    if known is not None and known.matrix() is matrix and _is_as_it_was(matrix, known):
        return MatrixArgument(matrix, known.format, known.memory, matrix)
    tensor = as_tensor(matrix)
    assert isinstance(tensor, (Tensor, SwizzledTensor))
    memory = _body(tensor).memory
    facts = _facts(matrix) if matrix.format in ("csc", "csr") and matrix.ndim == 2 else ()
    if list(facts[1:6:2]) != memory.words[::3]:
        return ConvertedArgument(matrix, tensor.format, memory, matrix)
    key = id(matrix)
    _known[key] = _Known(ref(matrix, lambda _: _known.pop(key, None)), facts, tensor.format, memory)
    return MatrixArgument(matrix, tensor.format, memory, matrix)


def _is_as_it_was(matrix: Any, known: _Known) -> bool:
    try:
        return _facts(matrix) == known.facts
    except (AttributeError, TypeError):  # parts that are no arrays
        return False


#: what SciPy notes of the order of a matrix
_ORDER = "_has_sorted_indices", "_has_canonical_format"


def _facts(matrix: Any) -> tuple[Any, ...]:
    """What must be as it was for a matrix to be in the memory that it was, in the order that it was:
    SciPy notes whether that is known."""
    ptr, idx, val = matrix.indptr, matrix.indices, matrix.data
    return (
        *(
            matrix.shape,
            address_of(ptr),
            id(ptr),
            address_of(idx),
            id(idx),
            address_of(val),
            id(val),
        ),
        *(ptr.shape, idx.shape, val.shape, ptr.strides, idx.strides, val.strides),
        *(ptr.dtype, idx.dtype, val.dtype, *[getattr(matrix, name, False) for name in _ORDER]),
    )


def address_of(array: np.ndarray) -> int:
    """Where an array is in memory now."""
    try:
        return address_finder()(array)
    except (BufferError, ValueError):  # of a type that has no buffers
        return array.__array_interface__["data"][0]


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
    kind = type(value)
    if kind is np.ndarray:
        return ArrayArgument(value)
    if kind is Tensor or kind is SwizzledTensor:
        return TensorArgument(value)
    if kind is Scalar:
        return ScalarArgument(value)
    type_of_number = type_of_value(value)
    if type_of_number is not None:
        return Argument(value, type_of_number)
    if kind is MaskValue:
        return Argument(value, value)
    if is_scipy(value):
        return _describe_matrix(value)
    if isinstance(value, np.ndarray) and as_tensor(value) is not None:  # of a class of its own
        return ArrayArgument(value)
    return None


def memory_of(dense: Any, argument: Argument) -> Memory:
    """A dense result as the memory of what it is a result for, in the format of that."""
    if isinstance(argument, ScalarArgument):
        return Memory((), (), (argument.value.format.element_type.wrap(dense),))
    level = argument.format
    if isinstance(level, Swizzled):
        dense, level = dense.transpose([p - 1 for p in level.permutation]), level.level
    return Tensor.from_numpy(dense, level).memory


def check_memory(arguments: dict[str, Argument], written: Sequence[str]) -> None:
    """Check that what a kernel writes may be written, and is nothing that it has by another name too.

    Raises FinchError of kind "type" for a read-only array, "life cycle" for shared memory.
    """
    for name in written:
        if not all([array.flags.writeable for array in arguments[name].arrays()]):
            hint = f"{name} = copy({name}) makes one of its own"
            raise FinchError(
                "type", f"{name} is a read-only array, and the kernel writes it", None, hint
            )
    owners = {id(a.owner) for a in arguments.values()}
    regions = [region for a in arguments.values() for region in a.regions]
    regions.sort()
    is_apart = len(owners) == len(arguments)
    end = 0
    for start, stop in regions:
        is_apart = is_apart and start >= end
        end = stop
    if is_apart:
        return
    for name in written:
        for other, argument in arguments.items():
            if other != name:
                _check_apart(name, arguments[name], other, argument)


def _check_apart(name: str, written: Argument, other: str, argument: Argument) -> None:
    is_same = written.owner is argument.owner
    if is_same or _share(written.arrays(), argument.arrays()):
        what = "the same tensor" if is_same else "views of the same memory"
        message = f"{name} and {other} are {what}, and the kernel writes it"
        raise FinchError("life cycle", message, None, "copy(...) makes a tensor of its own")


def _share(some: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> bool:
    return any(np.may_share_memory(a, b) and np.shares_memory(a, b) for a in some for b in others)
