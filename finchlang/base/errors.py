"""Source texts, spans in them, notes, and the one family of errors a user meets."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import field
from os.path import commonprefix
from typing import Any
from unicodedata import east_asian_width

from finchlang.base.records import record

#: every kind that a `FinchError` may have
ERROR_KINDS = (
    *("syntax", "unknown name", "type", "dimension", "life cycle", "access order", "bounds"),
    *("I/O", "resource", "interrupted"),
)
#: so many characters of a line are shown, of a longer one so many before the place
LONGEST, NEAR = 200, 80
#: signs in place of control characters, which a terminal would obey, and of halves of characters
_PICTURES = {k: 0x2400 + k for k in range(32) if k != ord("\t")} | {127: 0x2421}
_PICTURES |= dict.fromkeys(range(0xD800, 0xE000), 0xFFFD)
#: the kind of a failure that is a Bug and not a FinchError
BUG = "bug"


def number_of(count: int, one: str, several: str = "") -> str:
    """`count` things of a name: "1 index", "2 indices"; without `several` the name gets an s."""
    return f"{count} {one if count == 1 else several or one + 's'}"


def clipped(text: str) -> str:
    """A text for a message, shortened in its middle if it is long."""
    return text if len(text) <= 40 else f"{text[:20]}…{text[-10:]}"


@record(slots=True)
class Source:
    """A text and its name in messages (a file name or `<input>`)."""

    text: str
    name: str = "<input>"

    def line(self, number: int) -> str:
        """The `number`-th line, counted from 1; empty past the end."""
        lines = self.text.split("\n")
        return lines[number - 1] if 0 < number <= len(lines) else ""

    def place(self, offset: int) -> tuple[int, int]:
        """The line and column at an offset, which counts from 0."""
        return self.text.count("\n", 0, offset) + 1, offset - self.text.rfind("\n", 0, offset)

    def span(self, start: int, stop: int) -> Span:
        """The part of the text between two offsets."""
        return Span(self, *self.place(start), *self.place(stop))


def source_of(text: str, name: str) -> Source:
    """The source of a text without byte order mark, its line ends made line feeds."""
    return Source(text.removeprefix("\ufeff").replace("\r\n", "\n"), name)


@record(slots=True)
class Span:
    """A part of a source: 1-based line and column of its start, and of the position just after its end."""

    source: Source = field(repr=False)
    line: int
    column: int
    end_line: int
    end_column: int

    @property
    def end(self) -> tuple[int, int]:
        return self.end_line, self.end_column

    @property
    def text(self) -> str:
        """The text of the span, on one line."""
        start, stop = self.offsets
        return " ".join(map(str.strip, self.source.text[start:stop].split("\n")))

    @property
    def offsets(self) -> tuple[int, int]:
        """Where it begins and ends in the text of its source, counted from 0."""
        lines = self.source.text.split("\n")
        places = (self.line, self.column), (self.end_line, self.end_column)
        start, stop = (sum(len(s) + 1 for s in lines[: n - 1]) + k - 1 for n, k in places)
        return start, stop

    def to(self, other: Span) -> Span:
        return Span(self.source, self.line, self.column, other.end_line, other.end_column)


@record(slots=True)
class Note:
    """A remark about a valid program, and its place."""

    message: str
    span: Span | None = None

    def __str__(self) -> str:
        """`name:line:column: note: message`."""
        return f"{located(self.span)}note: {self.message}"


def located(span: Span | None) -> str:
    """`name:line:column: `, which a message at a place begins with."""
    return f"{span.source.name}:{span.line}:{span.column}: " if span is not None else ""


class Hint(str):
    """A hint with code, which stands in place of the text at `span` (None: that of the error)."""

    code: str
    span: Span | None

    def __new__(cls, text: str, code: str = "", span: Span | None = None) -> Hint:
        made = super().__new__(cls, text)
        made.code, made.span = code, span
        return made


def write(code: str, span: Span | None = None) -> Hint:
    """The hint to write `code` in place of what an error marks."""
    return Hint(f"write `{code}`", code, span)


class FinchError(Exception):
    """The user's fault: a kind, a message in the user's terms, the place, and a hint.

    `kind` is one of ERROR_KINDS; `span` is None where no text is at fault (a missing file); `hint` is a
    suggestion or None. `calls` are the calls of the script's functions that led there, innermost first:
    name and place of the call. `others` are further errors found at the same time, `note` are
    values that a program has noted for who runs it.
    """

    def __init__(self, kind: str, message: str, span: Span | None = None, hint: str | None = None):
        assert kind in ERROR_KINDS, kind
        super().__init__(kind, message, span, hint)  # Exception copies and pickles by its arguments
        self.kind = kind
        self.message = message
        self.span = span
        self.hint = hint
        self.calls: list[tuple[str, Span | None]] = []
        self.others: tuple[FinchError, ...] = ()
        self.note: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return "\n".join(error.render() for error in (self, *self.others))

    def at(self, span: Span | None) -> FinchError:
        """This error, with the place `span` if it had none."""
        if self.span is None:
            self.span = span
        return self

    def mended(self) -> str | None:
        """The text with the code of the hint in its place; None if the hint has none."""
        hint = self.hint
        span = hint.span or self.span if isinstance(hint, Hint) else None
        if span is None or not isinstance(hint, Hint):
            return None
        start, stop = span.offsets
        text = span.source.text
        return text[:start] + hint.code + text[stop:]

    def _render_traceback_(self) -> list[str]:
        """Called by IPython and notebooks in place of printing a traceback."""
        return str(self).split("\n")

    def render(self) -> str:
        """`name:line:column: kind error: message`, the line with carets, the calls around it, the hint."""
        span = self.span
        lines = [f"{located(span)}{self.kind} error: {self.message}"]
        if span is not None:
            before, culprit, after = _excerpt(span)
            gutter = f"{span.line} | {before}"
            lines.append(gutter + culprit + after)
            lines.append(" " * _width(gutter) + "^" * max(1, _width(culprit)))
        if self.calls:
            lines.append(self._trail())
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)

    def _trail(self) -> str:
        """The calls, each with its place; of six or more the first three and the last."""
        shown = []
        for name, span in self.calls if len(self.calls) < 6 else [*self.calls[:3], self.calls[-1]]:
            if span is None:  # from Python
                shown.append(f"in `{name}`")
                continue
            own = self.span.source if self.span is not None else span.source
            place = f"at {span.line}:{span.column}"
            if own != span.source:  # in another file, or in an earlier input of the prompt
                is_other = own.name != span.source.name
                place = f"at {located(span)[:-2]}" if is_other else f"as `{span.text}`"
            shown.append(f"in `{name}` called {place}")
        if len(shown) < len(self.calls):
            shown.insert(3, f"in {len(self.calls) - len(shown)} more calls")
        return ", ".join(shown)


def _excerpt(span: Span) -> tuple[str, str, str]:
    """The first line of a span, with the text before and behind it; of a long line what is near. Tabs are
    expanded, so that carets stand below the same columns in any terminal."""
    text = span.source.line(span.line).translate(_PICTURES)
    start, stop = span.column - 1, span.end_column - 1 if span.end_line == span.line else len(text)
    stop = max(start, stop)
    first = start - NEAR if len(text) > LONGEST and start > NEAR else 0
    last = first + LONGEST if len(text) > first + LONGEST else len(text)
    left, right = "… " if first else "", " …" if last < len(text) else ""
    before = left + text[first:start].expandtabs(4)
    culprit = (left + text[first : min(stop, last)]).expandtabs(4)[len(before) :]
    shown = (left + text[first:last]).expandtabs(4)
    return before, culprit, shown[len(before) + len(culprit) :] + right


def _width(text: str) -> int:
    """The width of a text in a terminal: wide characters take two columns, combining ones none."""
    return sum(
        0 if unicodedata.category(c) in ("Mn", "Me", "Cf") else 1 + (east_asian_width(c) in "WF")
        for c in text
    )


def together(errors: Iterable[FinchError]) -> FinchError:
    """The first of `errors` by place, with the rest as its `others`; one error for each place."""
    found = {(e.span.line, e.span.column) if e.span else (0, 0): e for e in reversed([*errors])}
    first, *others = [found[place] for place in sorted(found)]
    first.others = tuple(others)
    return first


def did_you_mean(name: str, known: Iterable[str]) -> Hint | None:
    """A hint with the name that is meant, if `name` is one slip off it: a letter too many, missing or
    wrong, two letters exchanged, or capitals. Names of three letters and less are not guessed."""
    known = [k for k in known if k != name]
    found = next((k for k in known if k.lower() == name.lower()), None)
    found = found or next((k for k in known if len(name) > 3 and is_slip(name, k)), None)
    return Hint(f"did you mean `{found}`?", found) if found else None


def is_slip(typed: str, meant: str) -> bool:
    """Whether one slip makes `typed` of another name `meant`, capitals aside."""
    a, b = typed.lower(), meant.lower()
    start = len(commonprefix((a, b)))
    a, b = a[start:], b[start:]
    if abs(len(a) - len(b)) == 1:
        return a[1:] == b or a == b[1:]
    return len(a) == len(b) and (a[1:] == b[1:] or (a[1::-1] == b[:2] and a[2:] == b[2:]))


class Bug(Exception):
    """Our fault: a state the system promises never to reach."""


def failure(
    kind: str, message: str, span: Span | None, note: tuple[Any, ...] = ()
) -> FinchError | Bug:
    """A failure of a program, with what it notes: a Bug if `kind` is BUG, else a FinchError."""
    if kind == BUG:
        return Bug(message)
    error = FinchError(kind, message, span)
    error.note = note
    return error
