"""Number and string literals: what their text means, and what is wrong with it; spellings of operators."""

from __future__ import annotations

import math
import re
from typing import Any
from unicodedata import normalize

from finchlang.base.errors import Bug, FinchError, Span, clipped, write
from finchlang.syntax.nodes import Call, Literal, Node, Variable
from finchlang.syntax.types import TYPES, Float32, Pair, PairType, Type, pair_of, type_of_value

#: other spellings of operators in the table
SPELLINGS = {"≤": "<=", "≥": ">=", "≠": "!=", "÷": "div", "⊻": "xor"}
SPELLINGS |= {f".{sign}": f".{SPELLINGS[sign]}" for sign in "≤≥≠"}
SPELLINGS |= {"≈": "isapprox", "∈": "isin", "in": "isin"}  # in scripts only
#: assignment operators of kernels besides `<<op>>=`, which is the only one in Finch'25 Fig 8a
ASSIGNMENTS = {
    "=": "initwrite",
    ":=": "overwrite",
    **{f"{sign}=": sign for sign in ("+", "-", "*", "/", "&", "|")},
}

_HEX = re.compile(r"0[xX][0-9a-fA-F]+\Z")
_BINARY = re.compile(r"0[bB][01]+\Z")
_INTEGER = re.compile(r"\d+(_\d+)*\Z")
_FLOAT = re.compile(
    r"(?P<digits>\d+(_\d+)*\.?(\d+(_\d+)*)?|\.\d+(_\d+)*)((?P<mark>[eEf])(?P<power>[+-]?\d+))?\Z"
)
_SPECIAL = re.compile(r"(Inf|NaN)(32|64)?\Z")

#: a piece of a string: an escape, `$(`, `$name`, or text
STRING_PART = re.compile(
    r"\\x[0-9a-fA-F]{1,2}|\\u[0-9a-fA-F]{1,4}|\\U[0-9a-fA-F]{1,8}|\\."
    r"|\$\(|\$[^\W\d][\w\u0300-\u036f]*|[^\\$]+|\$",
    re.DOTALL,
)
_STRING_OR_PARENTHESIS = re.compile(r'"(?:[^"\\]|\\.)*"|[()]', re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\", '"': '"', "$": "$", "\n": ""}


def name_of(text: str) -> str:
    """One name for texts that look the same: NFC, and μ for the sign of micro, as in Julia."""
    return text if text.isascii() else normalize("NFC", text.replace("\u00b5", "\u03bc"))


def is_word(name: str) -> bool:
    """Whether the name of a variable or an operator is no sign, as `+` is: NAME of the grammar."""
    return re.match(r"[^\W\d][\w\u0300-\u036f]*!*\Z", name) is not None


def number(text: str, span: Span) -> tuple[Any, str | None]:
    """The value of a number's text, and the name of its type where that is not Int64 or Float64.

    `0x` and `0b` literals are of the unsigned type with room for their digits, as in Julia: `0x00` is
    UInt8, `0x0000` UInt16. `1f0` is Float32. Raises FinchError of kind syntax for other texts.
    """
    if _INTEGER.match(text):
        digits = text.replace("_", "").lstrip("0") or "0"
        if len(digits) > 19 or int(digits) >= 1 << 63:
            raise _bad(text, span, "it does not fit Int64; UInt64 is written with `0x`")
        return int(digits), None
    for pattern, base, bits in ((_HEX, 16, 4), (_BINARY, 2, 1)):
        if pattern.match(text):
            width = max(8, 1 << ((len(text) - 2) * bits - 1).bit_length())
            if width > 64:
                raise _bad(text, span, "it has more digits than UInt64")
            return int(text[2:], base), f"UInt{width}"
    if special := _SPECIAL.match(text):
        return float(special[1]), "Float32" if special[2] == "32" else None
    if decimal := _FLOAT.match(text):
        real = float(f"{decimal['digits'].replace('_', '')}e{decimal['power'] or 0}")
        return (Float32.wrap(real), "Float32") if decimal["mark"] == "f" else (real, None)
    octal = re.fullmatch(r"0[oO]([0-7]+)", text)
    raise _bad(text, span, write(str(int(octal[1], 8))) if octal else None)


def is_float(text: str) -> bool:
    """Whether the text is a float, so that a letter in it marks the exponent."""
    return _FLOAT.match(text) is not None


def _bad(text: str, span: Span, hint: str | None) -> FinchError:
    return FinchError("syntax", f"`{clipped(text)}` is not a number", span, hint)


def typed_literal(type: Type, argument: Node, op: Variable, span: Span | None) -> Node:
    """`Float32(0)` as a literal of that type; a call, if the argument is no literal number.

    Raises FinchError of kind bounds for a number that the type cannot hold.
    """
    value = argument.value if isinstance(argument, Literal) else None
    if not isinstance(value, (bool, int, float)):
        return Call(op, (argument,), span=span)
    if not type.is_float and (not math.isfinite(value) or type.wrap(value) != value):
        is_finite = isinstance(value, float) and math.isfinite(value)
        is_fraction = is_finite and type.wrap(int(value)) == int(value)
        hint = write(f"trunc({type}, {value})") if is_fraction else None
        place = span if is_fraction else argument.span
        raise FinchError("bounds", f"{type} cannot hold {value}", place, hint)
    return Literal(type.wrap(value), type.name, span=span)


def pair(op: Variable, parts: tuple[Node, ...]) -> Node:
    """`0.0 => 1` as a literal; a call, if the parts are no literal numbers."""
    literals = [p for p in parts if isinstance(p, Literal)]
    types = [TYPES[p.type] if p.type else type_of_value(p.value) for p in literals]
    known = [type for type in types if type is not None and not isinstance(type, PairType)]
    if len(known) < 2:
        return Call(op, parts)
    return Literal(Pair(*(p.value for p in literals)), pair_of(*known).name)


def escaped(piece: str, span: Span) -> str:
    """The character of an escape such as `\\n` or `\\u00e9`. Raises FinchError of kind syntax."""
    if piece[1] in "xuU" and len(piece) > 2:
        code = int(piece[2:], 16)
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise FinchError("syntax", f"`{piece}` is not a character", span)
        return chr(code)
    if piece[1] not in _ESCAPES:
        hint = "a backslash itself is written `\\\\`"
        raise FinchError("syntax", f"unknown escape `{piece}` in a string", span, hint)
    return _ESCAPES[piece[1]]


def closing(text: str, start: int) -> int:
    """The position of the parenthesis that closes the one before `start`; strings are skipped."""
    depth = 1
    for found in _STRING_OR_PARENTHESIS.finditer(text, start):
        depth += {"(": 1, ")": -1}.get(found[0], 0)
        if depth == 0:
            return found.start()
    raise Bug(f"nothing closes the parenthesis in {text}")
