"""The files of `grammar/`, and the grammar's terminals: the words and signs that editors know, too."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from pathlib import Path

_TERMINAL = re.compile(r'^([A-Z_]+)(?:\.(\d+))?: *(?:"(.*?)"|/(.*)/)(?: *//.*)?$', re.MULTILINE)


def text_of_grammar(name: str) -> str:
    try:
        return resources.files("finchlang.grammar").joinpath(name).read_text("utf-8")
    except (ModuleNotFoundError, FileNotFoundError):  # a plain checkout on the path
        return (Path(__file__).parent.parent.parent / "grammar" / name).read_text("utf-8")


@cache
def grammar() -> str:
    return text_of_grammar("finch.lark")


@cache
def terminals() -> dict[str, str]:
    """The terminals by name, as regular expressions, in the order in which they are tried. NUMBERS is left
    out: it is others in a row."""
    found = [row for row in _TERMINAL.findall(grammar()) if row[0] != "NUMBERS"]
    found.sort(key=lambda row: (-int(row[1] or 1), -len(row[2])))
    return {name: re.escape(word) if word else regex for name, _, word, regex in found}


@cache
def keywords() -> dict[str, str]:
    """The words that cannot be names, in alphabetical order, each with its terminal."""
    words = [(re.match(r"([a-z]+)(\\b|$)", regex), name) for name, regex in terminals().items()]
    return dict(sorted((word[1], name) for word, name in words if word is not None))


#: terminals that are neither words nor operators
OTHERS = ("NAME", "NUMBER", "STRING", "MACRO", "UNDERSCORE", "COMMENT", "NEWLINE", "BLANKS")
BRACKETS = ("LPAR", "RPAR", "LBRACK", "RBRACK", "LCURLY", "RCURLY", "COMMA", "SEMI")


@cache
def operators() -> dict[str, str]:
    kept = terminals().items()
    return {n: r for n, r in kept if n not in OTHERS + BRACKETS and not re.match("@|[a-z]+$", r)}
