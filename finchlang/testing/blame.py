"""What is to blame for a difference: who differs, the rule without which all agree, what checks say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from finchlang.rules.table import OPTIONAL
from finchlang.testing.compare import Comparison, Way, compare

#: compares a text in some ways, as `compare` does
Compared = Callable[..., Comparison]


@dataclass(frozen=True)
class Blame:
    """What is known of a difference: `lines` say what differs, `rules` are the derived rules, or `paper`,
    without any one of which nothing does, `statement` is what the checked code complains of, or ""."""

    lines: tuple[str, ...]
    rules: tuple[str, ...] = ()
    statement: str = ""

    def __str__(self) -> str:
        said = list(self.lines)
        if self.rules:
            said.append(f"all agree with --rules={' or '.join(self.rules)}")
        if self.statement:
            said.append(f"checked native code: {self.statement}")
        return "\n".join(said)


def blame(text: str, ways: Sequence[Way], compared: Compared = compare) -> Blame:
    """Look for what is to blame for the difference that a text shows in some ways, by running it in others
    (`compared`), once for each derived rule: it should be short."""
    found = compared(text, ways=ways)
    if found.agrees:
        return Blame(())
    return Blame(
        tuple(found.differences), _rules(text, ways, compared), _statement(text, ways, compared)
    )


def _rules(text: str, ways: Sequence[Way], compared: Compared) -> tuple[str, ...]:
    """The sets of rules under which all agree: `all` without one of them, or `paper`."""
    sets = ["paper", *(f"all-{name}" for name in sorted(OPTIONAL))]

    def agree(rules: str) -> bool:
        others = tuple(dict.fromkeys(replace(way, rules=rules) for way in ways))
        return compared(text, ways=others).agrees

    return tuple(rules for rules in sets if agree(rules))


def _statement(text: str, ways: Sequence[Way], compared: Compared) -> str:
    """What the first of the native ways says, if each of its accesses to memory is checked."""
    for way in ways:
        if way.engine == "native":
            checked = compared(text, ways=(replace(way, checked=True, threads=1),))
            return checked.differences[0] if checked.differences else ""
    return ""
