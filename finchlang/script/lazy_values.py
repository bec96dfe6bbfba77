"""Values within expressions of scripts: arrays not computed yet, transposed vectors, identity matrices."""

from __future__ import annotations

from functools import reduce
from typing import Any, ClassVar

import numpy as np

from finchlang.base.records import record
from finchlang.script import values as data
from finchlang.script.show import text
from finchlang.syntax import types


class Pending:
    """An array that is not computed yet, and its `node`. `is_row` if it is the transpose of a vector, and
    `has_numpy` if a NumPy array is an operand. One that `is_kept` stays lazy until `compute`."""

    __slots__ = ("has_numpy", "is_kept", "is_row", "node")
    kind: ClassVar[str] = "a lazy array"

    def __init__(self, node: Any):
        self.node = node
        self.is_row = self.has_numpy = self.is_kept = False

    @property
    def shape(self) -> tuple[int, ...]:
        return self.node.shape

    def __str__(self) -> str:
        return f"{'x'.join(map(str, self.shape)) or '0-d'} lazy array: `compute` gives its values"


@record
class Identity:
    """`scale` times the identity matrix of any size."""

    scale: Any = 1

    kind: ClassVar[str] = "an identity matrix of any size"

    def __str__(self) -> str:
        return "I" if self.scale == 1 else f"{text(self.scale)} * I"


class RowVector(np.ndarray):
    """A vector of NumPy that is transposed, within an expression."""


def is_array(value: Any) -> bool:
    """Whether a value is an array, also one that is not computed yet."""
    return type(value) is Pending and bool(value.node.shape) or data.is_array(value)


def is_number(value: Any) -> bool:
    return type(value) is Pending and not value.node.shape or data.is_number(value)


def is_lazy(value: Any) -> bool:
    """Whether an operation on this value is put off: an array that NumPy has not, or a part of such."""
    return type(value) is Pending or data.is_array(value) and not isinstance(value, np.ndarray)


def is_row(value: Any) -> bool:
    return type(value) is RowVector or type(value) is Pending and value.is_row


def alike(name: str, *values: Any) -> list[np.ndarray]:
    """Arrays and numbers as arrays of their common type, in which arithmetic is done; of Bools that is
    Int64, except for `*`. NumPy has others: there `2 * a` has the type of `a`."""
    arrays = [np.asarray(value) for value in values]
    kinds = [types.type_of_dtype(array.dtype) for array in arrays]
    common = reduce(types.promote, filter(None, kinds))
    dtype = types.Int64.dtype if common is types.Bool and name != "*" else common.dtype
    return [array.astype(dtype, copy=False) for array in arrays]
