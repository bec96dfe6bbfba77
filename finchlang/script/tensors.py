"""Making tensors in scripts: `Tensor(...)` and its relatives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from finchlang.script.show import kind_of
from finchlang.script.values import dense, is_array, plain, whole
from finchlang.source import FinchError
from finchlang.tensors.element import Element, typed_literal
from finchlang.tensors.formats import parse_format
from finchlang.tensors.level import Level
from finchlang.tensors.pattern import Pattern
from finchlang.tensors.scalars import Scalar as ScalarLevel
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor, as_tensor
from finchlang.types import Bool, Type, can_store, type_of_dtype, type_of_value


def construct_tensor(*args: Any) -> Tensor:
    """`Tensor(format)`, `Tensor(format, m, n)`, `Tensor(format, A)` and `Tensor(A)`.

    `A` is an array, a tensor or a SciPy matrix; it is copied. Raises FinchError "type" or
    "dimension".
    """
    if not args:
        raise FinchError("type", "Tensor takes a format", hint="Tensor(Dense(Element(0.0)), 3)")
    format, *rest = args
    if not isinstance(format, Level):
        if len(args) == 1 and not isinstance(format, (int, float, str)):
            return copy_of(tensor_of(format))
        message = f"the first argument of Tensor is a format, not {kind_of(format)}"
        raise FinchError("type", message, hint="Tensor(Dense(Element(0.0)), 3)")
    if len(rest) == 1 and as_tensor(rest[0]) is not None:
        return convert(format, tensor_of(rest[0]))
    return Tensor(format, *(whole(size, "a size") for size in rest))


def tensor_of(value: Any) -> Any:
    """The tensor a value is; FinchError "type" if it is none."""
    tensor = as_tensor(value)
    if tensor is None:
        raise FinchError("type", f"{kind_of(value)} is no tensor")
    return tensor


def element_type(value: Any) -> Type:
    """The type of a number, or of the entries of a tensor."""
    found = type_of_value(value)
    if found is None and is_array(value):
        found = type_of_dtype(value.dtype)
    if found is None and isinstance(value, Scalar):
        found = value.format.element_type
    if found is None:
        raise FinchError("type", f"{kind_of(value)} has no element type")
    return found


def convert(target: Any, source: Any) -> Any:
    """A copy of the tensor `source` in a format (or in that of the tensor `target`), which stores
    what differs from the format's fill."""
    if isinstance(target, SwizzledTensor):
        return SwizzledTensor(convert(target.body, source.body), target.permutation)
    if isinstance(target, Scalar):
        return copy_of(source)
    format = target.format if isinstance(target, Tensor) else target
    if isinstance(format, ScalarLevel):
        raise FinchError("type", "a scalar is made by Scalar(value), not by Tensor")
    if source.order != format.order:
        message = f"{format} has {format.order} dimensions, {kind_of(source)} has {source.order}"
        raise FinchError("dimension", message)
    to_pattern = isinstance(format.leaf, Pattern)
    if not to_pattern and not can_store(element_type(source), format.element_type):
        message = f"{format} cannot store {element_type(source)}"
        raise FinchError("type", message)
    if not _same(source.fill, format.fill.value):
        return Tensor.from_numpy(dense(source).astype(format.element_type.dtype), format)
    coordinates, values = source.entries()
    stored = ~((values == source.fill) | ((values != values) & (source.fill != source.fill)))
    values = values[stored].astype(format.element_type.dtype)
    return Tensor.from_coo(format, source.shape, coordinates[:, stored], values)


def _same(a: Any, b: Any) -> bool:
    return bool(a == b or (a != a and b != b))


def copy_of(value: Any) -> Any:
    """A copy of an array, tensor or Scalar; other values are themselves."""
    if isinstance(value, np.ndarray):
        return value.copy(order="K")
    if isinstance(value, SwizzledTensor):
        return SwizzledTensor(copy_of(value.body), value.permutation)
    if isinstance(value, Scalar):
        return Scalar(value.format, value.value)
    if isinstance(value, Tensor):
        storage = [
            {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in level.items()}
            for level in value.storage
        ]
        return Tensor.from_storage(value.format, value.shape, storage, value.checked)
    return list(value) if isinstance(value, list) else value


def pattern_of(value: Any) -> Any:
    """A tensor with Pattern leaves, true where `value` stores an entry. A level that stores what is
    not written (Dense, a band) has no place for a Pattern and gets Bool elements."""
    tensor = tensor_of(value)
    if isinstance(tensor, SwizzledTensor):
        return SwizzledTensor(pattern_of(tensor.body), tensor.permutation)
    if isinstance(tensor, Scalar):
        raise FinchError("type", "a Scalar has no pattern")
    levels = list(tensor.format.levels())
    leaf: Level = Element(typed_literal(False))
    if len(levels) > 1 and not levels[-2].stores_fill:
        leaf = Pattern()
    for level in reversed(levels[:-1]):
        leaf = level.with_child(leaf)
    coordinates, values = tensor.entries()
    return Tensor.from_coo(leaf, tensor.shape, coordinates, np.ones(len(values), Bool.dtype))


def swizzled(tensor: Any, *permutation: Any) -> SwizzledTensor:
    """`swizzle(A, p...)[i...]` is `A[i[p[1]], i[p[2]], ...]` (Finch'25 Table 5)."""
    body, modes = tensor_of(tensor), tuple(whole(p, "a mode") for p in permutation)
    if isinstance(body, Scalar):
        raise FinchError("type", "a Scalar has no modes to swizzle")
    if isinstance(body, SwizzledTensor):
        if sorted(modes) != list(range(1, body.order + 1)):
            raise FinchError("dimension", f"{modes} does not permute {body.order} modes")
        return SwizzledTensor(body.body, tuple(modes[p - 1] for p in body.permutation))
    return SwizzledTensor(body, modes)


def random_sparse(*args: Any, seed: int | None = None) -> Tensor:
    """`fsprand(m, n, density)`: each entry is stored with probability `density`, from 0 to 1; its
    value is uniform in 0 to 1."""
    if len(args) not in (2, 3):
        raise FinchError("type", "fsprand takes sizes and a density")
    *given, density = args
    sizes = tuple(whole(size, "a size") for size in given)
    if type_of_value(density) is None or not 0 <= density <= 1:
        raise FinchError("type", "a density is a number from 0 to 1")
    format = parse_format(
        "SparseList(Element(0.0))" if len(sizes) == 1 else "Dense(SparseList(Element(0.0)))"
    )
    empty = Tensor(format, *sizes)  # checks the sizes
    total = math.prod(empty.shape)
    generator = np.random.default_rng(seed)
    if total >= 1 << 63:
        raise FinchError("dimension", "this many entries cannot be counted")
    count = int(generator.binomial(total, float(plain(density))))
    places = np.empty(0, np.int64)
    if count:
        places = np.sort(generator.choice(total, count, replace=False))
    coordinates = np.unravel_index(places, empty.shape, order="F") if count else [[]] * len(sizes)
    values = generator.random(count)
    return Tensor.from_coo(format, sizes, [np.asarray(c) for c in coordinates], values)
