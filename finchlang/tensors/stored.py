"""What all tensors have whatever they are stored in, and what is asked of a format and a shape."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np

from finchlang.protocols import ArrayMethods, late
from finchlang.source import FinchError
from finchlang.tensors.dense import Dense
from finchlang.tensors.element import Element, typed_literal
from finchlang.tensors.formats import parse_format
from finchlang.tensors.level import Level
from finchlang.types import foreign, type_of_dtype

MAX_DIMENSION = 2**62
EXAMPLE = 'Tensor("Dense(SparseList(Element(0.0)))", 3, 4)'


class Stored(ArrayMethods):
    """What all tensors have, whatever they are stored in. Operators and methods that NumPy's arrays have
    too are those of `finchlang.array`."""

    __slots__ = ()

    shape: Any
    fill: Any

    @property
    def fill_value(self) -> Any:
        """The value of what is not stored: `fill`."""
        return self.fill

    @property
    def size(self) -> int:
        """How many elements there are, stored or not."""
        return math.prod(self.shape)

    @property
    def nnz(self) -> int:
        """How many leaves are stored, also those that equal the fill; of a run, one."""
        return self.countstored()

    @property
    def nbytes(self) -> int:
        """The bytes of the arrays that it is stored in, as far as they are in use."""
        return late("bytes_stored", "finchlang.tensors.measure")(self)

    def countstored(self) -> int:
        """The number of stored leaves: of a run, one."""
        return 1

    def copy(self) -> Self:
        """A tensor of the same format that shares no memory with this one."""
        return late("copy_of", "finchlang.script.tensors")(self)


def format_of(format: Any) -> Level:
    """A format, which may be given as text. Raises FinchError."""
    if isinstance(format, str):
        return parse_format(format)
    if isinstance(format, Level):
        return format
    message = f"a format is a text or a Level, not a {type(format).__name__}"
    raise FinchError("type", message, None, EXAMPLE)


def checked_shape(format: Level, shape: tuple[Any, ...]) -> tuple[int, ...]:
    if len(shape) != format.order:
        raise FinchError(
            "dimension", f"{format} has {format.order} modes, {len(shape)} sizes given"
        )
    for size in shape:
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)):
            raise FinchError("type", f"a size must be an integer, not {foreign(size)}")
        if not 0 <= size <= MAX_DIMENSION:
            raise FinchError("dimension", f"a size must be in 0..{MAX_DIMENSION}, not {size}")
    return tuple(int(size) for size in shape)


def is_whole(format: Level) -> bool:
    """Whether tensors of a format are arrays of all their elements."""
    *levels, leaf = format.levels()
    return isinstance(leaf, Element) and all(isinstance(level, Dense) for level in levels)


def dense_format(dtype: np.dtype, order: int) -> Level:
    """The format of a NumPy array as it is: Dense in every mode, fill 0.

    Raises FinchError "type" for what no tensor holds.
    """
    element = type_of_dtype(dtype)
    if element is None:
        raise FinchError("type", f"arrays of {dtype} have no element type here")
    level: Level = Element(typed_literal(element.wrap(np.zeros((), element.dtype)[()]), element))
    for _ in range(order):
        level = Dense(level)
    return level
