"""Formats of every registered level, and matrices each of them can hold: for tests of moving data."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from finchlang import FinchError
from finchlang.levels.element import Element
from finchlang.levels.level import Level
from finchlang.levels.pattern import Pattern
from finchlang.levels.scalars import Scalar
from finchlang.tensors.formats import LEVELS, construct, parse_format
from finchlang.tensors.tensor import Tensor

#: a leaf for each element type, with a fill and a value that differs from it
LEAVES = {
    "Element(0.0)": (np.float64, 0.0, 2.5),
    "Element(Inf)": (np.float64, np.inf, -1.0),
    "Element(Float32(1.5))": (np.float32, 1.5, 0.0),
    "Element(0)": (np.int64, 0, -(2**63)),
    "Element(Int8(-3))": (np.int8, -3, 127),
    "Element(Int16(0))": (np.int16, 0, 300),
    "Element(Int32(7))": (np.int32, 7, 2**31 - 1),
    "Element(UInt8(0))": (np.uint8, 0, 255),
    "Element(UInt16(0))": (np.uint16, 0, 65535),
    "Element(UInt32(0))": (np.uint32, 0, 2**32 - 1),
    "Element(UInt64(0))": (np.uint64, 0, 2**64 - 1),
    "Element(false)": (np.bool_, False, True),
    "Element(true)": (np.bool_, True, False),
    "Pattern()": (np.bool_, False, True),
}


@cache
def is_format(text: str) -> bool:
    """Whether levels can stand above each other so."""
    return _made(text) is not None


@cache
def _made(text: str) -> Level | None:
    """The format, made of the one below its outermost level; to parse a text takes 4 ms, this 20 µs."""
    head, _, rest = text.partition("(")
    name, _, number = head.rstrip("}").partition("{")
    try:
        if issubclass(LEVELS[name], (Element, Pattern, Scalar)):
            return parse_format(text)
        child = _made(rest.removesuffix(")"))
        parameters = (int(number),) if number else ()
        return None if child is None else construct(name, parameters, (child,))
    except FinchError:
        return None


def level_texts() -> Iterator[str]:
    """Each registered level by its own name, with `{}` for what is below; those of coordinates with
    one mode and with two."""
    for name, kind in LEVELS.items():
        if kind.__name__ != name or issubclass(kind, Scalar):
            continue
        for parameter in ("", "{{1}}", "{{2}}", "{{3}}"):
            text = f"{name}{parameter}({{}})"
            if is_format(text.format("Element(0.0)")):
                yield text


TEXTS = tuple(level_texts())


def nests(leaf: str, order: int) -> list[str]:
    """Every format of `order` dimensions made of the levels, but those that cannot be."""
    found = {0: [leaf]}
    for k in range(1, order + 1):
        found[k] = []
        for text in TEXTS:
            modes = parse_format(text.format("Element(0.0)")).modes
            formats = map(text.format, found.get(k - modes, ()))
            found[k] += filter(is_format, formats)
    return found[order]


def fits(format: Level | str, array: np.ndarray) -> Tensor | None:
    """The array in a format; None if the format says that it cannot hold it, in words of its own."""
    try:
        return Tensor.from_numpy(array, format)
    except FinchError as error:
        assert error.kind in ("access order", "dimension"), error
        level = parse_format(format) if isinstance(format, str) else format
        names = [type(part).__name__ for part in level.levels()]
        assert any(name in error.message for name in names), error
        return None
