"""The built-in functions of strings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from finchlang.base.errors import FinchError
from finchlang.script.show import joined, kind_of, text
from finchlang.script.values import Builtins, whole
from finchlang.script.vectors_and_dicts import items
from finchlang.syntax.types import Pair


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


def _of_string(usage: str, doc: str, function: Callable[..., Any]) -> None:
    """Adds a function that raises FinchError "type" unless all arguments are strings."""
    name = usage.partition("(")[0]

    def checked(*args: Any) -> Any:
        for arg in args:
            if not isinstance(arg, str):
                raise FinchError("type", f"{name} takes strings, not {kind_of(arg)}")
        return function(*args)

    FUNCTIONS.add(usage, doc, checked)


FUNCTIONS = Builtins()
FUNCTIONS.add("join(v, s)", "the entries as one string, with s between them", _joined)
_of_string("uppercase(s)", "the string in upper case", str.upper)
_of_string("lowercase(s)", "the string in lower case", str.lower)
_of_string("strip(s)", "the string without blanks at its ends", str.strip)
FUNCTIONS.add("replace(s, a => b)", "the string with b in place of a", _replaced)
_of_string("occursin(a, s)", "whether a is in the string s", lambda a, s: a in s)
_of_string("contains(s, a)", "whether a is in the string s", lambda s, a: a in s)
_of_string("startswith(s, a)", "whether the string begins with a", str.startswith)
_of_string("endswith(s, a)", "whether the string ends with a", str.endswith)
FUNCTIONS.add("lpad(x, n, s)", "a string of at least n characters, x at its right", _padded("lpad"))
FUNCTIONS.add("rpad(x, n, s)", "a string of at least n characters, x at its left", _padded("rpad"))
