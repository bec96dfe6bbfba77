"""The manual (`grammar/MANUAL.md`) as data, for help, completion and documentation: an entry with
signatures, text and example for each word of the language, the prompt and the command."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from finchlang.text.terminals import text_of_grammar

#: begins a line of output in an example
SHOWS = "#>"
_ENTRY = re.compile(r"^### (.+)\n((?:.+\n)+)((?:\n|    .*\n)*)", re.MULTILINE)
_SIGNATURE = re.compile(r"`([^`]+)`")
_NAME = re.compile(
    r"(finch -?[a-z]+|[@:]?\w\w+!*|_$|\w(?=\())|^\W?[^\w\s(]+|(?<=\w)[^\w\s\d(]+|(?<= )\S+"
)


@dataclass(frozen=True)
class Entry:
    """The manual's entry of a word, or of several that belong together."""

    section: str
    signatures: tuple[str, ...]
    text: str
    #: what is typed in the example, and what the prompt shows (None if that varies)
    example: str
    output: str | None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple([name_of(signature) for signature in self.signatures])


def name_of(signature: str) -> str:
    """The word of a signature: `sqrt` for `sqrt(x)`, `+` for `x + y`, `for` for `for i = ...`."""
    found = _NAME.search(signature)
    return found[0] if found else signature


@cache
def entries() -> tuple[Entry, ...]:
    found = []
    for part in text_of_grammar("MANUAL.md").split("\n## ")[1:]:
        section = part.partition("\n")[0]
        for heading, said, example in _ENTRY.findall(part):
            lines = [line[4:] for line in example.strip("\n").split("\n")]
            shown = [line[3:] for line in lines if line.startswith(SHOWS)]
            typed = "\n".join(line for line in lines if not line.startswith(SHOWS))
            signatures = tuple(_SIGNATURE.findall(heading))
            output = "\n".join(shown) if shown else None
            found.append(Entry(section, signatures, said.strip(), typed.strip(), output))
    return tuple(found)


@cache
def words() -> dict[str, Entry]:
    return {name: entry for entry in entries() for name in entry.names}


def named() -> Iterator[tuple[str, Entry, str]]:
    """The words of at least two letters, each with its entry and signature."""
    for entry in entries():
        for name, signature in zip(entry.names, entry.signatures, strict=True):
            if re.fullmatch(r"@?\w\w+!?", name):
                yield name, entry, signature


def signature_of(name: str) -> str:
    entry = words()[name]
    return entry.signatures[entry.names.index(name)]


@cache
def other_words(section: str) -> dict[str, str]:
    """Our way for each command of other tools, at the "prompt" or on the "command" line."""
    table = text_of_grammar("foreign_names.txt").partition(f"\n[{section}]\n")[2]
    rows = (row.partition(" | : ") for row in table.partition("\n[")[0].splitlines())
    return {name: ours for names, _, ours in rows for name in names.split()}


def near(name: str) -> list[str]:
    """Up to three words with a similar spelling."""
    return difflib.get_close_matches(name, words(), 3, 0.6)
