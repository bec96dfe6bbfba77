"""Another name for a variable, function or index of a text, refused where it would mean something else."""

from __future__ import annotations

import re

from finchlang.base.errors import FinchError
from finchlang.text.terminals import terminals

from .highlight import CONSTANTS, KEYWORDS
from .manual import words
from .outline import Outline, Word


def nameable(outline: Outline, offset: int) -> Word:
    """The name at a place that can be given another. Raises FinchError "unknown name" if there is none."""
    word = outline.name_at(offset)
    if word is None:
        raise FinchError("unknown name", "there is no name of a variable, function or index here")
    if outline.meaning(word.text, word.at) is not None:
        return word
    what = "is a word of the language" if word.text in words() else "is bound nowhere in this file"
    raise FinchError("unknown name", f"`{word.text}` {what}")


def renamed(outline: Outline, offset: int, name: str) -> list[Word]:
    """The words to be replaced where the name at a place is to be `name`. Raises FinchError if that cannot
    be a name, or is taken."""
    word = nameable(outline, offset)
    if not re.fullmatch(terminals()["NAME"], name):
        raise FinchError("syntax", f"`{name}` is no name", hint="letters, digits and `_`")
    if name in KEYWORDS or name in CONSTANTS or name in words():
        raise FinchError("unknown name", f"`{name}` is a word of the language")
    found = outline.references(word)
    if name == word.text:
        return []
    bound = outline.meaning(word.text, word.at)
    assert bound is not None
    if bound.kind == "parameter" and (use := outline.label(word.text)) is not None:
        line = outline.text.count("\n", 0, use.at) + 1
        message = f"`{word.text}` is also the name of a keyword argument in line {line}"
        raise FinchError("unknown name", message)
    new = outline.text
    for each in reversed(found):
        new = new[: each.at] + name + new[each.end :]
    by = len(name) - len(word.text)
    places = [each.at + k * by for k, each in enumerate(found)]
    after = Outline(new)
    first = after.name_at(places[0])
    is_same = first is not None and [w.at for w in after.references(first)] == places
    is_seen = any(outline.meaning(name, each.at) for each in found)
    lets = (b for b in outline.bindings if b.name == name and b.scope.word == "let")
    if not is_same or is_seen or any(bound.scope.has(b.at) for b in lets):  # a `let` hides nothing
        raise FinchError("unknown name", f"`{name}` is taken where `{word.text}` is used")
    return found
