"""The values of expressions in the denotation, and how they are converted."""

from __future__ import annotations

from typing import Any

import numpy as np

from finchlang.base.errors import FinchError
from finchlang.base.records import record
from finchlang.syntax.nodes import Node
from finchlang.syntax.types import Type, type_of_value


@record
class Number:
    """The value of an expression; `value` is a NumPy scalar."""

    value: Any
    is_structural: bool = False

    @property
    def is_integer(self) -> bool:
        return self.value.dtype.kind in "iu"

    @property
    def is_bool(self) -> bool:
        return self.value.dtype.kind == "b"


@record
class Failed:
    """The result of an operator that cannot be computed: an error, raised only if the value is needed."""

    error: FinchError
    value: Any  # any value of the type that the result would have


def integer(value: Any, node: Node, what: str) -> Number:
    """A value that an Int64 holds, as all indices are."""
    if not isinstance(value, Number) or not value.is_integer:
        raise FinchError("type", f"{what} must be an integer", node.span)
    if value.value >= 1 << 63:
        raise FinchError("bounds", f"{value.value} is too large for an index", node.span)
    return value


def number(value: Any, type: Type | None = None, is_structural: bool = False) -> Number:
    """A Python or NumPy number as a Number of `type`, by default of its own type."""
    found = type or type_of_value(value)
    assert found is not None
    return Number(wrap(value, found.dtype), is_structural)


def wrap(value: Any, dtype: np.dtype) -> Any:
    if dtype.kind in "iu" and not isinstance(value, (float, np.floating)):
        whole = int(value) & ((1 << 8 * dtype.itemsize) - 1)
        return np.array(whole, f"u{dtype.itemsize}").view(dtype)[()]
    return np.array(value, dtype)[()] if dtype.names else dtype.type(value)


def convert(value: Any, dtype: np.dtype) -> Any:
    """A NumPy scalar as another type: floats are truncated and saturate, NaN becomes 0."""
    if dtype.names:
        return pair(*(convert(value[name], dtype[name]) for name in dtype.names))
    if dtype.kind == "b":
        return np.bool_(value != 0)
    if dtype.kind in "iu" and value.dtype.kind == "f":
        limits = np.iinfo(dtype)
        if np.isnan(value):
            return dtype.type(0)
        if float(limits.min) < value < float(limits.max):
            return dtype.type(int(value))
        return dtype.type(limits.min if value <= float(limits.min) else limits.max)
    with np.errstate(all="ignore"):
        return wrap(value, dtype)


def pair(a: Any, b: Any) -> Any:
    return np.array((a, b), pair_of(a.dtype, b.dtype))[()]


def pair_of(a: np.dtype, b: np.dtype) -> np.dtype:
    """The type of pairs: scalars of two fields."""
    if a.names or b.names:
        raise type_error("a pair is of two numbers")
    return np.dtype([("first", a), ("second", b)], align=True)


def type_error(message: str) -> FinchError:
    return FinchError("type", message)
