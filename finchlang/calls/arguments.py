"""Values of scripts as arguments of kernels, described afresh at each call as they are then."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final
from weakref import ref

import numpy as np

from finchlang.base.errors import Bug, FinchError
from finchlang.calls.lazy_shape import TensorView
from finchlang.levels.level import Level, Swizzled, level_of
from finchlang.native.copy_coordinates import ordered_copies
from finchlang.native.link import address_finder
from finchlang.syntax.types import Float64, Int64, PairType, type_of_value
from finchlang.syntax.user_function import Ranged
from finchlang.tensors.adopt import as_tensor, is_scipy, layout_of_array, matrix_format, scipy_class
from finchlang.tensors.memory import Memory
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor, body_of, tensor_over
from finchlang.wrappers.masks import MaskValue

#: A value as a kernel is called with it: a plain tuple, as one is made at every call. VALUE is what the
#: script's name is bound to; FORMAT what a kernel is compiled for (a Level or Swizzled, the type of a
#: number, the mask itself, the template of a view); SHAPE, ARRAYS and COUNTERS of a tensor are as in
#: its Memory; OWNER is the object that has them: two arguments with the same owner are the same
#: tensor; of a number it is one of Python; START and STOP are the addresses of the first byte and of the
#: one after the last of memory that others may have too (0 and 0 if there is none); KIND says how
#: results are taken over.
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
    """How values of one kind take over the results of a kernel. Numbers, masks and views take none."""

    #: whether the value can take new arrays, so that a result need not be in the old ones
    takes_memory = False
    #: whether the arrays are empty, as of a tensor that was never declared
    is_undeclared = False

    def seen(self, argument: Argument) -> Sequence[np.ndarray]:
        """The value's arrays as its owner has them (ARRAYS may be copies)."""
        return argument[ARRAYS]

    def is_writable(self, argument: Argument) -> bool:
        return all([array.flags.writeable for array in self.seen(argument)])

    def is_handed_out(self, argument: Argument) -> bool:
        """Whether arrays were given away, whose content stays when the tensor is declared anew."""
        return False

    def back_buffer(self, argument: Argument) -> Memory | None:
        """Memory for a tensor that is declared anew; None if new memory must be taken."""
        return None

    def commit(self, argument: Argument, made: Memory | None) -> Any:
        """Take over the result `made`; None if only the content of the value's own arrays changed. Gives
        what the script's name is bound to next: the same object, unless it cannot be changed."""
        raise Bug("a number or a mask is not written")


class _OfTensor(Kind):
    """A tensor. Its owner is its Memory, whose arrays nobody else may resize unless they are borrowed."""

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
            if before.is_shared:
                made.share(before)
            tensor.memory = made
        return argument[VALUE]


def tensor_argument(value: Tensor | SwizzledTensor) -> Argument:
    tensor = value if isinstance(value, Tensor) else value.body
    if not tensor.checked:
        tensor.validate()
    memory = tensor.memory
    arrays, rooms, start, stop = memory.arrays, memory.rooms, 0, 0
    if rooms and any([a.size < n for a, n in zip(arrays, rooms, strict=True)]):
        raise FinchError("bounds", "an array that a tensor stands for was cut short in place")
    if memory.is_shared:  # arrays that were never given away cannot overlap another argument's
        starts = [(address_finder()(array), array.nbytes) for array in arrays]
        start, stop = min(starts)[0], max([begin + size for begin, size in starts])
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
    #: whether kernels are given a copy, so that also a result in its place is taken over
    is_copied = False

    def seen(self, argument: Argument) -> Sequence[np.ndarray]:
        return (argument[VALUE],)

    def is_writable(self, argument: Argument) -> bool:
        return argument[VALUE].flags.writeable

    def commit(self, argument: Argument, made: Memory | None) -> Any:
        value, format = argument[VALUE], argument[FORMAT]
        if made is None and self.is_copied:
            made = Memory(*argument[SHAPE:OWNER])
        if made is not None:
            result = made.arrays[0][: math.prod(made.shape)].reshape(made.shape, order="F")
            if isinstance(format, Swizzled):
                axes = range(1, len(made.shape) + 1)
                result = result.transpose([format.permutation.index(k) for k in axes])
            if made.shape != argument[SHAPE]:
                return result.copy(order="F")
            value[...] = result
        return value


def _array(value: np.ndarray) -> Argument:
    """A NumPy array: in place if it is aligned and contiguous in some order of its axes, else copied."""
    format, axes, shape, alignment = layout_of_array(value.dtype, value.shape, value.strides)
    if axes is not None:
        start = address_finder()(value)
        if not start % alignment:
            flat = value if len(axes) == 1 else np.asarray(value).transpose(axes).reshape(-1)
            return value, format, shape, (flat,), (), value, start, start + value.nbytes, ARRAY
    return _of_copy(value, as_tensor(value), *np.lib.array_utils.byte_bounds(value), COPIED_ARRAY)


def shares_entries(argument: Argument) -> bool:
    """Whether two entries of a NumPy array are in the same memory, or that is too hard to tell. Two that
    differ along an axis are as far apart as one with index 0 there and another."""
    array = argument[VALUE]
    turned = [np.moveaxis(array, axis, 0) for axis in range(array.ndim)]
    most: Any = 1_000_000  # as many steps take a tenth of a second
    try:
        return any(np.shares_memory(t[:1], t[1:], max_work=most) for t in turned)
    except np.exceptions.TooHardError:
        return True


def _of_copy(value: Any, copy: Any, start: int, stop: int, kind: Kind) -> Argument:
    """The argument for a value of which kernels are given a copy."""
    memory = body_of(copy).memory
    shape, arrays, counters = memory.shape, memory.arrays, memory.counters
    return value, copy.format, shape, arrays, counters, value, start, stop, kind


class _OfMatrix(Kind):
    """A CSC or CSR matrix of SciPy. Its values are used in place; its index arrays are copied, as anybody
    may change them and kernels do not check them. Results are new arrays, which become the matrix's."""

    takes_memory = True

    def seen(self, argument: Argument) -> Sequence[np.ndarray]:
        return [getattr(argument[VALUE], name) for name in ("indptr", "indices", "data")]

    def commit(self, argument: Argument, made: Memory | None) -> Any:
        value = argument[VALUE]
        return value if made is None else _with_parts(value, argument[FORMAT], made)


def _with_parts(matrix: Any, format: Any, memory: Memory) -> Any:
    """`matrix` with the arrays of `memory`; another matrix if the size changed."""
    is_by_rows = isinstance(format, Swizzled)
    _, lists, leaf = memory.storage(format.level if is_by_rows else format)
    made = {"indptr": lists["ptr"], "indices": lists["idx"], "data": leaf["val"]}
    shape = memory.shape[::-1] if is_by_rows else memory.shape
    if shape != matrix.shape:
        data, indices, indptr = [made[k].copy() for k in ("data", "indices", "indptr")]
        return scipy_class(matrix.__class__)((data, indices, indptr), shape)
    find = address_finder()
    for name, array in made.items():
        old = getattr(matrix, name)
        if old.size != array.size or find(old) != find(array):
            setattr(matrix, name, array)
    return matrix


class _OfConverted(Kind):
    """A sparse array of SciPy that is neither CSC nor CSR, or with arrays that cannot be used in place."""

    takes_memory = True

    def commit(self, argument: Argument, made: Memory | None) -> Any:
        value, format = argument[VALUE], argument[FORMAT]
        made = made or Memory(*argument[SHAPE:OWNER])
        if value.format in ("csc", "csr") and value.ndim == 2:
            return _with_parts(value, format, made)
        return scipy_class(value.__class__)(tensor_over(format, made, True).to_scipy())


NUMBER, SCALAR, TENSOR = Kind(), _OfScalar(), _OfTensor()
ARRAY, COPIED_ARRAY, MATRIX, CONVERTED = _OfArray(), _OfArray(), _OfMatrix(), _OfConverted()
COPIED_ARRAY.is_copied = True

#: Of a large matrix, COMPARED indices are compared with their copy at a call and the next ones at the next
#: call, which takes 1 to 4 us; the last LAST indices are compared at every call.
COMPARED, LAST = 8192, 64


class _Copies:
    """Checked copies of the index arrays of a CSC or CSR matrix, by which kernels index: the user may
    change the arrays themselves at any time. `facts` are those of the matrix when the copies were made."""

    def __init__(
        self, matrix: Any, facts: Any, format: Any, shape: Any, ptr: np.ndarray, idx: np.ndarray
    ):
        key = id(matrix)
        # another object may get the identity of a matrix that is freed
        self.matrix: Any = ref(matrix, lambda _: _known.pop(key, None))
        self.format, self.shape, self.counters = format, shape, (ptr.item(shape[1]),)
        self._facts, self.ptr, self.idx = facts, ptr, idx
        is_large = ptr.size > COMPARED or idx.size > COMPARED
        #: the first index to be compared at the next call; None if all are compared at each
        self._first = 0 if is_large else None
        self._bytes, self._marks = _bytes(ptr, idx, self._first), _marks(matrix) if is_large else ()

    def are_current(self, matrix: Any, facts: tuple[Any, ...]) -> bool:
        """Whether the matrix is still in the same memory with the same indices: all are compared of a
        small matrix, COMPARED of them at each call of a large one."""
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
    """What must not change while copies are used: first the address of the values and their size in
    bytes, then shape, types and strides. () if the parts of the matrix are not arrays."""
    try:
        shape, ptr, idx, val = matrix._shape, matrix.indptr, matrix.indices, matrix.data
    except AttributeError:
        return ()
    if not type(ptr) is type(idx) is type(val) is np.ndarray:
        return ()
    lists = ptr.dtype, ptr.ndim, idx.dtype, idx.ndim
    return address_finder()(val), val.nbytes, shape, val.dtype, val.ndim, val.strides, lists


def _marks(matrix: Any) -> list[int]:
    """What changes if a large matrix gets other index arrays or SciPy sorts them, which sets attributes."""
    find = address_finder()
    attributes = matrix.__dict__.values()
    sizes = matrix.indptr.size, matrix.indices.size
    return [*sizes, find(matrix.indptr), find(matrix.indices), *map(id, attributes)]


def _bytes(ptr: np.ndarray, idx: np.ndarray, first: int | None) -> tuple[bytes, ...]:
    """The indices that are compared at a call: COMPARED from `first` on and the last, or all."""
    if first is None:
        return ptr.tobytes(), idx.tobytes()
    stop = first + COMPARED
    return ptr[first:stop].tobytes(), idx[first:stop].tobytes(), idx[-LAST:].tobytes()


#: copies by the identity of their matrix; each is compared with that again at each call
_known: dict[int, _Copies] = {}


def _matrix(value: Any) -> Argument:
    facts, known = _facts(value), _known.get(id(value))
    if known is None or not known.are_current(value, facts):
        known = _copied(value, facts)
    if known is None:  # as_tensor has SciPy sort it in place, if it is writable
        tensor = as_tensor(value)
        facts = _facts(value)
        known = _copied(value, facts)
        if known is None:
            return _of_copy(value, tensor, 0, 0, CONVERTED)
    start, size, arrays = facts[0], facts[1], (known.ptr, known.idx, value.data)
    format, shape, counters = known.format, known.shape, known.counters
    return value, format, shape, arrays, counters, value, start, start + size, MATRIX


def _copied(matrix: Any, facts: tuple[Any, ...]) -> _Copies | None:
    """The copies of a matrix if its indices are in order, else None: quicker than SciPy's own check."""
    kind = matrix.format
    if not facts or kind not in ("csc", "csr") or len(facts[2]) != 2:
        return None
    ptr, idx, val = matrix.indptr, matrix.indices, matrix.data
    size, fibers = facts[2] if kind == "csc" else facts[2][::-1]
    are_lists = ptr.ndim == idx.ndim == val.ndim == 1 and ptr.dtype == idx.dtype
    is_in_place = val.flags.c_contiguous and val.flags.aligned and val.dtype.isnative
    if not are_lists or not is_in_place or idx.dtype not in _INDICES or ptr.size <= fibers:
        return None
    own = ordered_copies(ptr, idx, fibers, size, min(idx.size, val.size))
    if own is None:
        return None
    format = matrix_format(val.dtype, idx.dtype, kind == "csr")
    known = _known[id(matrix)] = _Copies(matrix, facts, format, (size, fibers), *own)
    return known


#: the types of indices that SciPy has
_INDICES = frozenset((np.dtype(np.int32), np.dtype(np.int64)))


def describe(value: Any) -> Argument | None:
    """A value as an argument, as it is now; None for a value that kernels do not take. Raises FinchError
    for a value that would be a tensor if it were valid."""
    return MAKERS[type(value)](value)


def _other(value: Any) -> Argument | None:
    type_of_number = type_of_value(value)
    if isinstance(type_of_number, PairType):
        raise FinchError("type", "a kernel takes a pair from a Scalar or a tensor, not from a name")
    if type_of_number is not None:
        # NumPy's numbers would warn where they wrap around
        held = type_of_number.wrap(value) if isinstance(value, np.generic) else value
        return value, type_of_number, (), (), (), held, 0, 0, NUMBER
    if is_scipy(value):
        MAKERS[type(value)] = _matrix
        return _matrix(value)
    if isinstance(value, np.ndarray) and as_tensor(value) is not None:  # of a class of its own
        return _array(value)
    return None


def _integer(value: int) -> Argument | None:
    is_usual = -(1 << 63) <= value < 1 << 63
    return (value, Int64, (), (), (), value, 0, 0, NUMBER) if is_usual else _other(value)


class _Makers(dict[type, Callable[[Any], Argument | None]]):
    """The function that describes a value, by its class. (`get` with a default would take longer.)"""

    def __missing__(self, _: type) -> Callable[[Any], Argument | None]:
        return _other


#: the most common classes; SciPy's are added when first met, so that it need not be imported
MAKERS = _Makers(
    {
        np.ndarray: _array,
        Tensor: tensor_argument,
        SwizzledTensor: tensor_argument,
        Scalar: _scalar,
        int: _integer,
        float: lambda value: (value, Float64, (), (), (), value, 0, 0, NUMBER),
        MaskValue: lambda value: (value, value, (), (), (), value, 0, 0, NUMBER),
        TensorView: lambda value: (value, value.template, (), (), (), value, 0, 0, NUMBER),
    }
)


def in_use(argument: Argument, level: Level, is_renewed: bool = False) -> list[np.ndarray]:
    """The arrays of a value of this format, cut to what is in use; nothing of them if it is renewed."""
    if argument[KIND].is_undeclared or not any(map(len, argument[ARRAYS])):  # as a workspace begins
        return [*argument[ARRAYS]]
    memory = Memory(*argument[SHAPE:OWNER])
    storage = zip(level.levels(), memory.storage(level), strict=True)
    used = [own[name] for part, own in storage for name, _ in part.arrays]
    return [array[:0] for array in used] if is_renewed else used


def memory_of(dense: Any, argument: Argument, stored: Any = None) -> Memory:
    """A dense result as memory in the format of the argument that takes it. What is `stored` (a mask)
    beside what differs from the fill may have no place there, as more than one run in a SparseInterval."""
    level = argument[FORMAT]
    if argument[KIND] is SCALAR:
        return Memory((), (), tuple(level.held(level.element_type.wrap(dense))))
    if isinstance(level, Swizzled):
        axes, level = [p - 1 for p in level.permutation], level.level
        dense, stored = dense.transpose(axes), None if stored is None else stored.transpose(axes)
    try:
        return Tensor.from_numpy(dense, level, stored).memory
    except FinchError:
        return Tensor.from_numpy(dense, level).memory


def lies_in(argument: Argument, ranged: Ranged) -> bool:
    """Whether all values of an argument, and its fill, lie in a range. (Ranges are convex.)"""
    format = argument[FORMAT]
    level = level_of(format)
    if not isinstance(level, Level) or level.order == 0:
        value = argument[VALUE]
        return isinstance(value, (bool, int, float)) and ranged.holds(value)
    memory = Memory(*argument[SHAPE:OWNER])
    values = memory.storage(level)[-1].get("val")
    if values is None or isinstance(level.element_type, PairType):
        return False
    ends = (values.min().item(), values.max().item()) if values.size else ()
    return all(map(ranged.holds, (*ends, level.fill.value)))
