"""Element types of arrays, their promotion (NumPy's), broadcasting of shapes, and axes."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from itertools import zip_longest
from operator import index
from string import ascii_letters
from typing import Any

import numpy as np

from finchlang.syntax.types import Float64, PairType, Type, type_of_dtype


def type_of(dtype: Any) -> Type:
    """The element type of a dtype of NumPy, in any byte order. Raises TypeError if there is none."""
    return _type_of(np.dtype(dtype))


@lru_cache(256)
def _type_of(given: np.dtype) -> Type:
    found = type_of_dtype(given)
    if found is None or isinstance(found, PairType):
        raise TypeError(f"there are no arrays of {given} here: Bool, integers, float32 and float64")
    return found


@lru_cache(1024)
def _promoted(kinds: tuple[Any, ...]) -> Type:
    """As `promoted`; a Python number has a kind, and its value does not count (NEP 50)."""
    given = [kind.dtype if isinstance(kind, Type) else kind(0) for kind in kinds]
    return type_of(np.result_type(*given))


def promoted(*kinds: Any) -> Type:
    """The common type of types, and of Python numbers by their classes `bool`, `int` and `float`."""
    first = kinds[0] if kinds else None
    if isinstance(first, Type) and all([kind is first for kind in kinds]):
        return first
    return _promoted(kinds)


def floating(type: Type) -> Type:
    """The type in which functions of floats compute for an argument of this type."""
    return type if type.is_float else Float64


@lru_cache(1024)
def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that all of these broadcast to. Raises ValueError if there is none."""
    found: tuple[int, ...] = ()
    for shape in shapes:
        pairs = [*zip_longest(found[::-1], shape[::-1], fillvalue=1)][::-1]
        for m, n in pairs:
            if m != n and 1 not in (m, n):
                what = f"{m} is not {n}, and none is 1"
                raise ValueError(f"shapes {found} and {shape} do not broadcast: {what}")
        found = tuple([n if m == 1 else m for m, n in pairs])
    return found


def with_letters(subscripts: str, orders: list[int]) -> str:
    """Subscripts of `einsum` with letters in place of `...`, for arrays of these orders."""
    if "..." not in subscripts:
        return subscripts
    given, arrow, result = subscripts.replace("...", ".").partition("->")
    parts = given.split(",")
    free = "".join([letter for letter in ascii_letters if letter not in subscripts])
    pairs = zip(parts, orders, strict=False)
    counts = [n - len(part) + 1 if "." in part else 0 for part, n in pairs]
    most = max(counts, default=0)
    found = [p.replace(".", free[most - n : most]) for p, n in zip(parts, counts, strict=False)]
    once = [letter for letter in sorted(given) if letter.isalpha() and given.count(letter) == 1]
    kept = result if arrow else "." + "".join(once)
    return f"{','.join([*found, *parts[len(found) :]])}->{kept.replace('.', free[:most])}"


def listed(value: Any) -> list[Any]:
    """Several values as a list, or a list of the only one."""
    return [*value] if isinstance(value, (tuple, list)) else [value]


def normalized_axes(axes: Any, order: int) -> tuple[int, ...]:
    """Axes of an array of `order` dimensions as numbers from 0, in ascending order; None for all. Raises
    ValueError (NumPy's AxisError) for one out of range, ValueError for one that is given twice, TypeError
    for one that is no integer."""
    if axes is None:
        return tuple(range(order))
    found = [normalized_axis(axis, order) for axis in listed(axes)]
    if len(set(found)) < len(found):
        raise ValueError(f"axis {next(a for a in found if found.count(a) > 1)} is there twice")
    return tuple(sorted(found))


def integer(value: Any, what: str) -> int:
    """An integer of Python or NumPy. Raises TypeError for another value, also for a Bool."""
    if type(value) is int:
        return value
    if not isinstance(value, bool):
        with suppress(TypeError):
            return index(value)
    raise TypeError(f"{what} is an integer, not {value!r}")


def normalized_axis(axis: Any, order: int) -> int:
    """An axis from 0. Raises NumPy's AxisError, a ValueError, or TypeError for what is no integer."""
    number = integer(axis, "an axis")
    if not -order <= number < order:
        raise np.exceptions.AxisError(number, order)
    return number % order
