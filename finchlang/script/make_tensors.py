"""Functions of scripts that make tensors: `Tensor`, `swizzle`, `fsparse`, `fsprand`, `pattern`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from finchlang.base.errors import FinchError
from finchlang.base.paths import check_memory
from finchlang.levels.element import Element, typed_literal
from finchlang.levels.level import Level
from finchlang.levels.pattern import Pattern
from finchlang.script.show import kind_of, text
from finchlang.script.values import Builtins, FinchRange, dense, is_array, is_number, shaped, whole
from finchlang.syntax.types import Bool, Float64, Type, can_store, type_of_dtype, type_of_value
from finchlang.tensors.adopt import as_tensor, list_format
from finchlang.tensors.array_base import LazyTensor, size_text
from finchlang.tensors.convert import convert, copy_of
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor

#: so many random entries are made at a time
PART = 1 << 20
FUNCTIONS = Builtins()


@FUNCTIONS.add("Tensor")
def construct_tensor(*args: Any) -> Tensor:
    """`Tensor(format)`, `Tensor(format, m, n)`, `Tensor(format, A)` and `Tensor(A)`, which copy the array,
    vector that grows, tensor or SciPy matrix A. Raises FinchError "type" or "dimension"."""
    if not args:
        raise FinchError("type", "Tensor takes a format", hint="Tensor(Dense(Element(0.0)), 3)")
    format, *rest = args
    if not isinstance(format, Level):
        if len(args) == 1 and not isinstance(format, (int, float, str)):
            return copy_of(tensor_of(format))
        message = f"the first argument of Tensor is a format, not {kind_of(format)}"
        hint = "a format is made of levels, as in `Tensor(Dense(SparseList(Element(0.0))), A)`"
        if rest and isinstance(rest[0], (Level, str)):
            hint = "the format comes first, and then what it is made of"
        raise FinchError("type", message, hint=hint)
    if len(rest) == 1 and isinstance(rest[0], list) and all(map(is_number, rest[0])):  # it grows
        rest = [np.array(rest[0] or np.empty(0, format.element_type.dtype))]
    if len(rest) == 1 and isinstance(rest[0], LazyTensor) and _is_made_of(rest[0], format):
        return rest[0].materialized(format)
    if len(rest) == 1 and as_tensor(rest[0]) is not None:
        return convert(format, tensor_of(rest[0]))
    return Tensor(format, *sizes_of(rest))


def sizes_of(given: Sequence[Any]) -> tuple[int, ...]:
    """Sizes that are given one by one or as a tuple. Raises FinchError "type" for other values."""
    given = given[0] if len(given) == 1 and isinstance(given[0], tuple) else given
    return tuple([whole(size, "a size") for size in given])


def type_and_sizes(args: tuple[Any, ...]) -> tuple[Type, tuple[int, ...]]:
    """An optional element type (Float64) and sizes, of the arguments of `zeros` and others."""
    if len(args) == 2 and isinstance(args[1], Type):
        hint = f"write `zeros({args[1].name}, {text(args[0])})`"
        raise FinchError("type", "the element type stands before the sizes", hint=hint)
    is_typed = bool(args) and isinstance(args[0], Type)
    sizes = sizes_of(args[is_typed:])
    if any(size < 0 for size in sizes):
        raise FinchError("dimension", "a size cannot be negative")
    return args[0] if is_typed else Float64, sizes


def _is_made_of(view: Any, format: Level) -> bool:
    """Whether a view can be computed directly in a format, without a tensor in between."""
    can_hold = can_store(view.format.element_type, format.element_type)
    return isinstance(format.leaf, Element) and can_hold and format.order == view.order


def tensor_of(value: Any) -> Any:
    """A value as a tensor. Raises FinchError "type" if it is none."""
    tensor = as_tensor(value)
    if tensor is None:
        raise FinchError("type", f"{kind_of(value)} is no tensor")
    return tensor


@FUNCTIONS.add("eltype")
def element_type(value: Any) -> Type:
    """The type of a number, or of the entries of an array or tensor. Raises FinchError "type"."""
    found = type_of_value(value)
    if found is None and is_array(value):
        found = type_of_dtype(value.dtype)
    if found is None and isinstance(value, Scalar):
        found = value.format.element_type
    if isinstance(value, FinchRange):
        return element_type(value.start)
    if found is None and isinstance(value, (list, tuple)) and value and all(map(is_number, value)):
        found = type_of_dtype(shaped([*value]).dtype)
    if found is None:
        hint = "it has one once it has numbers" if type(value) is list and not value else None
        raise FinchError("type", f"{kind_of(value)} has no element type", hint=hint)
    return found


@FUNCTIONS.add("pattern!")
@FUNCTIONS.add("pattern")
def pattern_of(value: Any) -> Any:
    """A tensor of the same levels with Pattern leaves; levels that store entries that were not written
    (Dense, runs, a band) get Bool elements instead. Raises FinchError "type" for a Scalar."""
    tensor = tensor_of(value)
    if isinstance(tensor, SwizzledTensor):
        return SwizzledTensor(pattern_of(tensor.body), tensor.permutation)
    if isinstance(tensor, Scalar):
        raise FinchError("type", "a Scalar has no pattern")
    try:
        format = tensor.format.with_leaf(Pattern())
    except FinchError:
        format = tensor.format.with_leaf(Element(typed_literal(False)))
    coordinates, values = tensor.entries()
    return Tensor.from_coo(format, tensor.shape, coordinates, np.ones(len(values), Bool.dtype))


@FUNCTIONS.add("swizzle")
def swizzled(tensor: Any, *permutation: Any) -> SwizzledTensor:
    """The tensor S = swizzle(A, p...) with `S[i...] = A[i[p[1]], i[p[2]], ...]` (Finch'25 Table 5). Raises
    FinchError "dimension" for what is no permutation, "type" for a Scalar."""
    body, modes = tensor_of(tensor), tuple(whole(p, "a mode") for p in permutation)
    if isinstance(body, Scalar):
        raise FinchError("type", "a Scalar has no modes to swizzle")
    if isinstance(body, SwizzledTensor):
        if sorted(modes) != list(range(1, body.order + 1)):
            raise FinchError("dimension", f"{modes} does not permute {body.order} modes")
        return SwizzledTensor(body.body, tuple(modes[p - 1] for p in body.permutation))
    return SwizzledTensor(body, modes)


@FUNCTIONS.add("fsparse")
def sparse_of(*args: Any) -> Tensor:
    """`fsparse(I, J, V, shape)`: the tensor with entries V[k] at (I[k], J[k]), counted from 1. Without a
    shape the greatest coordinates are the sizes. V may be one number for all entries. Entries at the same
    coordinates are summed (Bools by or). The format is SparseList for a vector, Dense(SparseList) for a
    matrix, SparseCOO for more dimensions. Two or more sizes may stand alone. Raises FinchError "type",
    "dimension" for vectors of different lengths, "bounds" for coordinates out of range."""
    order = len(args) // 2
    if len(args) > 3 and len(args) % 2 and not any(map(is_array, sizes := args[order + 1 :])):
        args = *args[: order + 1], sizes
    *vectors, last = args
    shape = last if isinstance(last, tuple) else None
    if shape is not None and vectors:
        *vectors, last = vectors
    if not vectors:
        raise FinchError("type", "fsparse takes coordinates and values", hint="fsparse(I, J, V)")
    rows = [_coordinates(vector) for vector in vectors]
    if len({len(row) for row in rows}) > 1:
        numbers = " and ".join(str(len(row)) for row in rows)
        raise FinchError("dimension", f"there are {numbers} coordinates")
    coordinates, count = np.array(rows) - 1, len(rows[0])
    values = np.full(count, last) if type_of_value(last) is not None else dense(_vector(last))
    if values.shape != (count,):
        message = f"there are {count} coordinates and {size_text(values.shape)} values"
        raise FinchError("dimension", message)
    values = values if len(values) else values.astype(float)
    element = type_of_dtype(values.dtype)
    if element is None:
        raise FinchError("type", f"{values.dtype} is no element type")
    if shape is None:
        if not count:
            raise FinchError("dimension", "without coordinates a shape is needed")
        shape = tuple(int(size) for size in coordinates.max(axis=1) + 1)
    if len(shape) != len(vectors):
        message = f"there are {len(vectors)} vectors of coordinates and {len(shape)} sizes"
        raise FinchError("dimension", message)
    format = list_format(element, len(shape))
    return Tensor.from_coo(format, sizes_of(shape), [*coordinates], values)


def _vector(value: Any) -> Any:
    if not isinstance(value, (str, tuple)) and not is_array(value) and hasattr(value, "__len__"):
        value = np.array(list(value) or np.empty(0, np.int64))
    if not is_array(value) or len(value.shape) != 1:
        kind = kind_of(value)
        hint = "`I(3)` is a sparse identity matrix" if kind.startswith("an identity") else None
        raise FinchError("type", f"fsparse takes vectors, not {kind}", hint=hint)
    return value


def _coordinates(value: Any) -> np.ndarray:
    array = dense(_vector(value))
    if len(array) and array.dtype.kind not in "iu":
        raise FinchError("type", f"coordinates are integers, not {array.dtype}")
    return array.astype(np.int64)


@FUNCTIONS.add("sparse")
def sparse_matrix(*args: Any) -> Any:
    if len(args) == 1:
        tensor = tensor_of(args[0])
        if tensor.order not in (1, 2):
            raise FinchError("type", f"sparse takes a vector or matrix, not {kind_of(args[0])}")
        return convert(list_format(element_type(tensor), tensor.order), tensor)
    return sparse_of(*args)


@FUNCTIONS.add("fspzeros")
@FUNCTIONS.add("spzeros")
def empty_sparse(*args: Any) -> Tensor:
    type, sizes = type_and_sizes(args)
    return Tensor(list_format(type, len(sizes)), *sizes)


@FUNCTIONS.add("sprand")
@FUNCTIONS.add("fsprand")
def random_sparse(*args: Any, seed: int | None = None) -> Tensor:
    """`fsprand(m, n, density)`: a tensor in which each entry is stored with probability `density`, with a
    value uniformly from 0 to 1. Raises FinchError "type", "dimension" for too many entries to count,
    "resource" for more than there is memory."""
    if len(args) < 2:
        raise FinchError("type", "fsprand takes sizes and a density")
    *given, density = args[isinstance(args[0], Type) and args[0] == Float64 :]
    sizes = sizes_of(given)
    if type_of_value(density) is None or not 0 <= density <= 1:
        hint = "the sizes come first, and a density last: `fsprand(3, 3, 0.5)`"
        raise FinchError("type", "a density is a number from 0 to 1", hint=hint)
    stored = math.prod(sizes) * float(density)
    check_memory(f"about {stored:.2g} entries", 8 * stored * (len(sizes) + 1))
    format = list_format(Float64, len(sizes))
    empty = Tensor(format, *sizes)  # checks the sizes
    total = math.prod(empty.shape)
    generator = np.random.default_rng(seed)
    if total >= 1 << 63:
        raise FinchError("dimension", "this many entries cannot be counted")
    parts = [*_stored_places(generator, total, float(density))] or [np.empty(0, np.int64)]
    modes = zip(*(np.unravel_index(p, empty.shape, order="F") for p in parts), strict=True)
    values = np.concatenate([generator.random(len(part)) for part in parts])
    return Tensor.from_coo(format, sizes, [*map(np.concatenate, modes)], values)


def _stored_places(
    generator: np.random.Generator, total: int, density: float
) -> Iterator[np.ndarray]:
    """The places, in order, if each of `total` is chosen with this probability: the gaps between them have
    a geometric distribution. In parts, so that Ctrl-C can interrupt."""
    start = 0
    while density > 0 and start < total:
        count = min(PART, int((total - start) * density) + 100)
        gaps = generator.geometric(density, count)
        gaps = gaps[np.cumsum(gaps, dtype=float) <= total]
        ends = np.cumsum(gaps, dtype=np.uint64) + np.uint64(start)
        places = ends[ends <= total].astype(np.int64) - 1
        if places.size:
            yield places
        if places.size < count:
            return
        start = int(places[-1]) + 1
