"""The built-in functions of strings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from finchlang.base.errors import FinchError
from finchlang.script.show import joined, kind_of, text
from finchlang.script.values import whole
from finchlang.script.vectors_and_dicts import CollectionRow, items
from finchlang.syntax.types import Pair


def _of_string(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, which raises FinchError "type" unless all arguments are strings."""

    def checked(*args: Any) -> Any:
        for arg in args:
            if not isinstance(arg, str):
                raise FinchError("type", f"{name} takes strings, not {kind_of(arg)}")
        return function(*args)

    return checked


def _joined(values: Any, sign: Any = "") -> str:
    parts = [text(value) for value in items(values)]
    given = text(sign)
    return joined([p for part in parts for p in (given, part)][1:])


def _replaced(string: Any, *pairs: Any) -> str:
    for pair in pairs:
        if not (isinstance(pair, Pair) and isinstance(string, str) and isinstance(pair[0], str)):
            hint = 'replace("a-b", "-" => "+")'
            raise FinchError("type", "replace takes a string and pairs of strings", hint=hint)
        string = joined([string.replace(pair[0], text(pair[1]))])
    return string


def _padded(name: str) -> Callable[..., str]:
    def padded(value: Any, size: Any, sign: Any = " ") -> str:
        string, missing = text(value), whole(size, "a length") - len(text(value))
        if not isinstance(sign, str) or len(sign) != 1:
            raise FinchError("type", f"{name} pads with one character")
        parts = [joined([sign] * max(0, missing)), string]
        return joined(parts if name == "lpad" else parts[::-1])

    return padded


def split_string(string: str, sign: Any = None) -> list[str]:
    """The parts of a string between whitespace, or between `sign`; its characters if that is empty."""
    if sign is not None and not isinstance(sign, str):
        raise FinchError("type", f"a string is split at a string, not {kind_of(sign)}")
    return list(string) if sign == "" else string.split(sign)


def repeat_string(string: str, count: Any) -> str:
    n = whole(count, "how often")
    if n < 0:
        raise FinchError("type", "a string cannot be repeated less than 0 times")
    return joined([string] * min(n, 1 << 28))


def _row(name: str, doc: str, function: Callable[..., Any]) -> CollectionRow:
    return CollectionRow(doc, _of_string(name, function))


FUNCTIONS: dict[str, CollectionRow] = {
    "join(v, s)": CollectionRow("the entries as one string, with s between them", _joined),
    "uppercase(s)": _row("uppercase", "the string in upper case", str.upper),
    "lowercase(s)": _row("lowercase", "the string in lower case", str.lower),
    "strip(s)": _row("strip", "the string without blanks at its ends", str.strip),
    "replace(s, a => b)": CollectionRow("the string with b in place of a", _replaced),
    "occursin(a, s)": _row("occursin", "whether a is in the string s", lambda a, s: a in s),
    "contains(s, a)": _row("contains", "whether a is in the string s", lambda s, a: a in s),
    "startswith(s, a)": _row("startswith", "whether the string begins with a", str.startswith),
    "endswith(s, a)": _row("endswith", "whether the string ends with a", str.endswith),
    "lpad(x, n, s)": CollectionRow(
        "a string of at least n characters, x at its right", _padded("lpad")
    ),
    "rpad(x, n, s)": CollectionRow(
        "a string of at least n characters, x at its left", _padded("rpad")
    ),
}
