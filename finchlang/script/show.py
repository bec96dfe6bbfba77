"""The text of values of scripts, as they print and as messages describe them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from itertools import starmap
from typing import Any

import numpy as np

from finchlang.base.errors import FinchError
from finchlang.levels.level import Level
from finchlang.operators.operator import Operator
from finchlang.syntax import nodes as ast, types
from finchlang.tensors.adopt import as_tensor, is_scipy
from finchlang.tensors.array_base import LazyTensor, size_text
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor

#: tensors of more entries print as a summary
SMALL = 1000
#: arrays of more elements print their first and last three along each dimension
WHOLE, ENDS = 1000, [0, 1, 2, 3, -3, -2, -1]
#: lazy arrays of more elements are told without them by `repr`
FEW = 100
#: tuples and vectors are printed and compared to this depth, since a vector may contain itself
NESTED = 200
#: the most characters of a string
LONGEST = 1 << 28
#: how messages call values of Python's types
_KINDS: dict[Any, str] = {str: "a string", tuple: "a tuple", list: "a vector", dict: "a dictionary"}


class Format:
    """How arrays print: `digits` are the significant digits of their floats, which `:digits` sets."""

    digits = 6


def kind_of(value: Any) -> str:
    """A value as messages describe it: "a tensor of size 3 x 4"."""
    found = types.type_of_value(value)
    if found is not None:
        return f"{found} ({text(value)})"
    if (kind := _KINDS.get(type(value))) is not None:
        return kind
    if isinstance(value, np.ndarray) or is_scipy(value):
        return f"an array of size {size_text(value.shape)}"
    if isinstance(value, (Tensor, SwizzledTensor, LazyTensor)):
        return f"a tensor of size {size_text(value.shape)}"
    if isinstance(value, Scalar):
        return "a Scalar"
    if isinstance(value, types.Type):
        return "a type"
    if isinstance(value, Level):
        return "a format"
    if value is None or type(value).__module__.startswith("finchlang."):
        return getattr(value, "kind", None) or text(value)
    return types.foreign(value)


def other_sizes(given: tuple[int, ...], wanted: tuple[int, ...], name: str = "x") -> str | None:
    """A hint: how an array `name` of the sizes `given` gets those that are wanted; None if it cannot."""
    if given == wanted[::-1] and len(given) == 2:
        return f"`{name}'` has the sizes of the other"
    if math.prod(given) == math.prod(wanted):
        return f"`reshape({name}, {', '.join(map(str, wanted))})` has the sizes of the other"
    if len(given) == len(wanted) and all(n >= m > 0 for n, m in zip(given, wanted, strict=True)):
        part = ", ".join(":" if n == m else f"1:{m}" for n, m in zip(given, wanted, strict=True))
        return f"`{name}[{part}]` is a part of it with the sizes of the other"
    return None


def check_depth(depth: int) -> None:
    """Raises FinchError "resource" if values are nested too deeply."""
    if depth > NESTED:
        raise FinchError("resource", f"values are nested more than {NESTED} deep here")


def joined(parts: Sequence[str]) -> str:
    """The concatenation of strings. Raises FinchError "resource" if it is too long."""
    if sum(map(len, parts)) > LONGEST:
        raise FinchError("resource", f"a string has at most {LONGEST} characters")
    return "".join(parts)


def repeated(string: str, count: int) -> str:
    """A string several times. Raises FinchError "resource" if that is too long, "type" for less than 0."""
    if count < 0:
        raise FinchError("type", "a string cannot be repeated less than 0 times")
    if len(string) * count > LONGEST:
        raise FinchError("resource", f"a string has at most {LONGEST} characters")
    return string * count


def show(value: Any, depth: int = 0) -> str:
    """A value as the prompt prints it: strings in quotes, small tensors with their entries."""
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    if is_scipy(value):
        value = as_tensor(value)
    if isinstance(value, (Tensor, SwizzledTensor, LazyTensor)):
        if math.prod(value.shape) <= SMALL:
            return f"{value!r}\n{_array(value.to_numpy())}"
        return f"{value!r} with {value.countstored()} stored entries"
    return text(value, depth)


def preview(array: Any) -> str:
    """What `repr` tells of a lazy array: what it is, whether it is computed, and elements if few."""
    size, is_stored = "x".join(map(str, array.shape)) or "0-d", not array.node.args
    told = f"{size} lazy array of {array.dtype}, fill {array.fill}"
    told += "" if is_stored else ", not computed yet"
    if math.prod(array.shape) > FEW:
        return told
    try:
        return f"{told}\n{_array(array.todense())}"
    except (ArithmeticError, FinchError, LookupError, TypeError, ValueError):
        return told  # its operands have been changed in shape or type


def text(value: Any, depth: int = 0) -> str:
    """A value as `println` prints it. Raises FinchError "resource" if it is nested too deeply."""
    if isinstance(value, str):
        return value
    if value is None or value is ast.NOTHING:
        return "nothing"
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (float, np.floating)):
        return str(value).replace("inf", "Inf").replace("nan", "NaN")
    if isinstance(value, types.Pair):
        check_depth(depth)
        return " => ".join([show(part, depth + 1) for part in value])
    if isinstance(value, tuple):
        inner = _entries(value, depth)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, list):
        return f"[{_entries(value, depth)}]"
    if type(value) is dict:
        return f"Dict({_entries([*starmap(types.Pair, value.items())], depth)})"
    if isinstance(value, np.ndarray):
        return _array(np.asarray(value))  # a `matrix` of NumPy has rows only
    if isinstance(value, (Tensor, SwizzledTensor, LazyTensor)) or is_scipy(value):
        return show(value)
    return value.name if isinstance(value, Operator) else str(value)


def _entries(values: Sequence[Any], depth: int) -> str:
    check_depth(depth)
    own = entry if isinstance(values, list) else show
    return ", ".join([own(value, depth + 1) for value in values])


def entry(value: Any, depth: int = 1) -> str:
    """A value as an element: a float has `Format.digits` digits, and an exponent if it is larger."""
    if not isinstance(value, (float, np.floating)):
        return show(value, depth)
    short = f"{value:.{Format.digits}g}"
    near = type(value)(short)
    if near == value or abs(near) < 10**Format.digits:
        short = text(near)
    return re.sub(r"e([+-])0*", lambda sign: "e" + sign[1].strip("+"), short)


def _array(array: np.ndarray) -> str:
    formatter: Any = {"object": str}
    many = array.size > WHOLE
    if many:
        array = array[np.ix_(*[range(n) if n <= len(ENDS) else ENDS for n in array.shape])]
    if array.dtype == np.bool_:
        array, formatter = array.astype(np.int8), {"int": lambda v: text(bool(v))}
    elif array.dtype.names:
        pairs = [" => ".join(map(entry, pair)) for pair in array.reshape(-1).tolist()]
        array = np.array(pairs, object).reshape(array.shape)
    elif array.dtype.kind == "f" and array.ndim:
        digits, one = Format.digits, array.dtype.type
        short = [one(f"{value:.{digits}g}") for value in array.reshape(-1)]
        near = np.array(short, array.dtype).reshape(array.shape)
        if np.any((near != array) & (abs(near) >= 10.0**digits)):
            formatter = {"float_kind": lambda value: f"{value:.{digits - 1}e}"}
        else:
            array = near
    choices: Any = {"precision": Format.digits + 4, "threshold": 0 if many else WHOLE}
    shown = np.array2string(array, formatter=formatter, **choices)
    return shown.replace("inf", "Inf").replace("nan", "NaN")


def table(rows: Iterable[Sequence[Any]], left: int = 1) -> str:
    """Rows in columns; the first `left` columns to the left, the others to the right."""
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    ways = [f"<{width}" if k < left else f">{width}" for k, width in enumerate(widths)]
    return "\n".join("  ".join(map(format, row, ways)).rstrip() for row in texts)
