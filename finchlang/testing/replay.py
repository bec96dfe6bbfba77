"""A file that shows one difference: its script, with comments that say how it is run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from finchlang.base.errors import FinchError
from finchlang.testing.compare_engines import SEMANTICS, Way, ways_of

_LINE = re.compile(r"^# replay: *(.*?) *$", re.MULTILINE)
_WORDS = {"--no-workspaces": ("workspaces", False), "--checked": ("checked", True)}


def replay_text(text: str, ways: Sequence[Way], found: str = "", against: str = "") -> str:
    """A script after a line `# replay: WAY` for each way, `# against: FILE.py:NAME` if there is such a
    function, and the findings as comments."""
    lines = [f"# replay: {way}" for way in ways]
    lines += [f"# against: {against}"] if against else []
    lines += [f"# found: {line}" for line in found.splitlines()]
    return "\n".join([*lines, text.rstrip(), ""])


def ways_in(text: str) -> tuple[Way, ...]:
    """The ways in the `# replay:` lines of a text; without such lines the four semantics. Raises FinchError
    of kind syntax for a line that names no way."""
    return tuple(map(way_of, _LINE.findall(text))) or ways_of()


def against_in(text: str) -> str:
    """The function in the `# against:` line, or ""."""
    found = re.search(r"^# against: *(.*?) *$", text, re.MULTILINE)
    return found[1] if found else ""


def way_of(words: str) -> Way:
    """The way that these words write, as `str` does. Raises FinchError of kind syntax."""
    engine, *options = words.split() or [""]
    way = Way(engine)
    for option in options:
        name, _, value = option.partition("=")
        if option in _WORDS:
            field, said = _WORDS[option]
            way = replace(way, **{field: said})  # type: ignore[arg-type]
        elif name == "--rules" and value:
            way = replace(way, rules=value)
        elif name == "--threads" and value.isdecimal() and int(value) > 0:
            way = replace(way, threads=int(value))
        else:
            raise _wrong(words, f"`{option}` is no option of a way")
    if engine not in SEMANTICS:
        raise _wrong(words, f"`{engine}` is none of {', '.join(SEMANTICS)}")
    return way


def _wrong(words: str, why: str) -> FinchError:
    hint = "as in `# replay: native --rules=paper --checked`"
    return FinchError("syntax", f"`# replay: {words}` says no way to run: {why}", hint=hint)
