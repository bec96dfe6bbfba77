"""A file that shows one difference: its script, with comments that say how it is run."""

from __future__ import annotations

import re
from collections.abc import Sequence

from finchlang.base.errors import FinchError
from finchlang.testing.compare_engines import SEMANTICS, Way, ways_of

_WAY = re.compile(
    r"(\w+)(?: --rules=(\S+))?( --no-workspaces)?( --checked)?(?: --threads=([1-9]\d*))?"
    r"( --no-staging)?"
)


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
    return tuple(map(way_of, _comments("replay", text))) or ways_of()


def against_in(text: str) -> str:
    """The function in the `# against:` line, or ""."""
    return "".join(_comments("against", text)[:1])


def _comments(kind: str, text: str) -> list[str]:
    return re.findall(rf"^# {kind}: *(.*?) *$", text, re.MULTILINE)


def way_of(words: str) -> Way:
    """The way that these words write, as `str` does. Raises FinchError of kind syntax."""
    found = _WAY.fullmatch(words)
    if found is None or found[1] not in SEMANTICS:
        message = f"`# replay: {words}` says no way to run: {', '.join(SEMANTICS)}, with options"
        hint = "as in `# replay: native --rules=paper --no-workspaces --checked --threads=2`"
        raise FinchError("syntax", message, hint=hint)
    engine, rules, apart, checked, threads, loose = found.groups()
    return Way(engine, rules or "all", not apart, bool(checked), int(threads or 1), not loose)
