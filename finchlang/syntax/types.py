"""The element types of tensors and of the host language, how they promote, and what fits into what."""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from finchlang.base.errors import FinchError
from finchlang.base.records import record

#: the least number that Float32 rounds to infinity
_TOO_LARGE = 2.0**128 - 2.0**103


@cache
def _dtype(name: str) -> np.dtype:
    return np.dtype(name.lower())


@record(eq=False, slots=True)
class Type:
    """A machine type: Bool, a signed or unsigned integer, or a float. There is one object of each."""

    name: str
    kind: str  # "bool", "int", "uint" or "float"
    bits: int

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> Any:
        # types are compared by identity, so a copy or an unpickled one must be the same object
        return _the_type, (self.name,)

    @property
    def dtype(self) -> np.dtype:
        return _dtype(self.name)

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def cut(self) -> str:
        """The operator that converts to it and wraps what does not fit; `name` refuses that."""
        return f"cut_{self.name}" if self.is_integer else self.name

    @property
    def lowest(self) -> Any:
        """The least value: the identity of `max`."""
        if self.is_float:
            return float("-inf")
        return -(1 << (self.bits - 1)) if self.kind == "int" else self.wrap(0)

    @property
    def highest(self) -> Any:
        """The greatest value: the identity of `min`."""
        if self.is_float:
            return float("inf")
        if self.kind == "bool":
            return True
        return (1 << (self.bits - 1)) - 1 if self.kind == "int" else (1 << self.bits) - 1

    def wrap(self, value: Any) -> Any:
        """`value` as a Python value of this type: integers wrap around, Float32 is rounded."""
        if self.kind == "float":
            value = float(value)
            if self.bits == 64 or abs(value) == math.inf:
                return value
            # NumPy would warn of what it rounds to an infinity
            return float(np.float32(value)) if abs(value) < _TOO_LARGE else value * math.inf
        if self.kind == "bool":
            return bool(value)
        value = int(value)
        half = 1 << (self.bits - 1)
        if self.kind == "int":
            return value if -half <= value < half else ((value + half) & (2 * half - 1)) - half
        return value & (2 * half - 1)


class Pair(NamedTuple):
    """The value `first => second`."""

    first: Any
    second: Any

    def __str__(self) -> str:
        return f"{self.first} => {self.second}"


def paired(value: Any) -> Any:
    """A tuple of two as a pair, which it is where elements are pairs; other values as they are."""
    return Pair(*value) if type(value) is tuple and len(value) == 2 else value


@record(eq=False, slots=True)
class PairType(Type):
    """The type of a pair `v => k` of numbers, in memory a C struct of the two."""

    first: Type
    second: Type

    @property
    def dtype(self) -> np.dtype:
        return _pair_dtype(self.first, self.second)

    def wrap(self, value: Any) -> Pair:
        return Pair(self.first.wrap(value[0]), self.second.wrap(value[1]))


@cache
def _pair_dtype(first: Type, second: Type) -> np.dtype:
    return np.dtype([("first", first.dtype), ("second", second.dtype)], align=True)


@cache
def pair_of(first: Type, second: Type) -> PairType:
    """The type of pairs of these numbers. Raises FinchError "type" for pairs of pairs."""
    if PairType in (type(first), type(second)):
        raise FinchError("type", "a pair is of two numbers")
    bits = 8 * _pair_dtype(first, second).itemsize
    return PairType(f"Pair{{{first}, {second}}}", "pair", bits, first, second)


class _Types(dict[str, Type]):
    """The types of numbers by name; those of pairs are made when asked for."""

    def __missing__(self, name: str) -> Type:
        if not name.startswith("Pair{"):
            raise KeyError(name)
        first, second = name[5:-1].split(", ")
        return pair_of(self[first], self[second])


Bool = Type("Bool", "bool", 8)
Int8, Int16, Int32, Int64 = (Type(f"Int{b}", "int", b) for b in (8, 16, 32, 64))
UInt8, UInt16, UInt32, UInt64 = (Type(f"UInt{b}", "uint", b) for b in (8, 16, 32, 64))
Float32, Float64 = Type("Float32", "float", 32), Type("Float64", "float", 64)

TYPES: dict[str, Type] = _Types(
    (t.name, t)
    for t in (Bool, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64, Float32, Float64)
)
#: the types whose numbers scripts keep as Python's
PLAIN = Int64, Float64, Bool
#: Julia's names for the integers of a machine word
ALIASES = {"Int": Int64, "UInt": UInt64}
_BY_DTYPE = {t.dtype: t for t in TYPES.values()}


def _the_type(name: str) -> Type:
    return TYPES[name]


def named_type(name: str) -> Type | None:
    """The type of this name, if there is one."""
    return TYPES.get(name) or ALIASES.get(name)


def type_of_dtype(dtype: Any) -> Type | None:
    """The type of a NumPy dtype in any byte order, or None where there is none."""
    found = np.dtype(dtype)
    if found.names != Pair._fields:
        return _BY_DTYPE.get(found) or _BY_DTYPE.get(found.newbyteorder("="))
    first, second = (_BY_DTYPE.get(found[name]) for name in Pair._fields)
    pair = pair_of(first, second) if first and second else None
    # other alignments and byte orders have no type
    return pair if pair and pair.dtype == found else None


def number(value: Any, type: Type) -> Any:
    """`value` as a number of `type`, as scripts keep it."""
    value = type.wrap(value)
    return value if type in PLAIN or isinstance(value, Pair) else type.dtype.type(value)


def type_of_value(value: Any) -> Type | None:
    """The type a Python or NumPy number has: bool is Bool, float is Float64, int is Int64 or else
    UInt64; None of an int that fits neither, and of what is no number."""
    if isinstance(value, (bool, np.bool_)):
        return Bool
    if isinstance(value, np.generic):
        return type_of_dtype(value.dtype)
    if isinstance(value, int):
        if -(1 << 63) <= value < 1 << 63:
            return Int64
        return UInt64 if 0 < value < 1 << 64 else None
    if isinstance(value, float):
        return Float64
    if isinstance(value, Pair):
        first, second = map(type_of_value, value)
        return pair_of(first, second) if first and second else None
    return None


def foreign(value: Any) -> str:
    """What messages call a value of Python; the value itself may be too long to print."""
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        return "an integer of more than 64 bits"
    if isinstance(value, np.generic):
        return f"a number of {value.dtype}"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def promote(a: Type, b: Type) -> Type:
    """The common type of two operands, as in Julia: floats win, then width, then unsigned.

    Raises FinchError "type" for a pair and a number.
    """
    if a == b:
        return a
    if isinstance(a, PairType) and isinstance(b, PairType):
        return pair_of(promote(a.first, b.first), promote(a.second, b.second))
    if "pair" in (a.kind, b.kind):
        raise FinchError("type", "a pair is no number")
    return max((a, b), key=lambda t: (t.is_float, t != Bool, t.bits, t.kind == "uint"))


def can_store(source: Type, target: Type) -> bool:
    """Whether a value of `source` may be written where `target` is kept (NumPy's same-kind rule).

    Integers go into any integer (wrapping) and any float, floats into floats, Bool anywhere;
    a float never goes into an integer, nor a number into a Bool. Of a pair each part must fit.
    """
    if isinstance(source, PairType) and isinstance(target, PairType):
        return can_store(source.first, target.first) and can_store(source.second, target.second)
    if "pair" in (source.kind, target.kind):
        return False
    are_integers = target.is_integer and source.is_integer
    return source in (target, Bool) or target.is_float or are_integers
