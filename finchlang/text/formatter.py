"""Text → the same program with blanks and indentation in order; line breaks and comments are kept."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from lark import Token

from finchlang.base.errors import Bug, FinchError, Source, source_of
from finchlang.text.lines import CONTINUES, PARTS, Frame
from finchlang.text.parse import block_comments, parse_whole, tokens
from finchlang.text.print import INDENT

_OPENERS = {"LPAR", "LCALL", "LSUB", "LBRACK", "LCURLY"}
_TIGHT_AFTER = _OPENERS | {"NEG", "NOT", "TILDE", "DOT_PREFIX", "TYPE_SIGN", "TIMES", "DOT"}
_TIGHT_BEFORE = {"LCALL", "LSUB", "LCURLY", "RPAR", "RBRACK", "RCURLY", "COMMA", "SEMI"}
_TIGHT_BEFORE |= {"TYPE_SIGN", "TIMES", "TRANSPOSE", "DOT"}
#: blanks around these are kept, on both sides or none, as the author shows precedence: `a*b + c`, `i+1:n`
_AS_WRITTEN = {"MINUS", "SUM_OP", "PRODUCT_OP", "SHIFT", "POWER", "COLON"}
_PART = re.compile(r"\n|#=|#[^\n]*|[;+]|[^\S\n]+")


def formatted(text: str, name: str = "<input>") -> str:
    """A script in its usual form: blocks and brackets indented, blanks around operators, at most one empty
    line in a row. Line breaks and comments are kept.

    Raises FinchError of kind syntax, with a place.
    """
    try:
        parse_whole(text, name)
    except FinchError as error:
        if error.kind != "resource":  # nested too deeply to run, but parsed to its end
            raise
    text = source_of(text, name).text  # not before: of two byte order marks one is a fault
    done = _Writer(text).written()
    if _meaning(done) != _meaning(text):
        raise Bug(f"{name} means something else when it is formatted")
    return done


def _meaning(text: str) -> list[tuple[str, str]]:
    """The tokens that the parser sees. (Trees are not compared: a text may be nested too deeply.)"""
    return [(t.type, "" if t.isspace() else str(t)) for t, _ in tokens(text)]


@dataclass
class OpenBracket:
    """An open bracket or block: the indentation of its opener's line, and that of the lines in it."""

    outer: int
    inner: int
    opener: str


class _Writer:
    """Writes the tokens of a text, each after the comments and blanks before it."""

    def __init__(self, text: str):
        self.text, self.comments = text, dict(block_comments(Source(text)))
        self.pieces: list[str] = []
        self.column = 0
        self.indent = 0  # of the line
        self.levels = [OpenBracket(0, 0, "")]
        self.head = ""  # the type of the statement's first token
        self.previous: Token | None = None

    def written(self) -> str:
        end, is_separated, is_element = 0, True, False
        for token, frames in tokens(self.text):
            if token.type in ("_SEP", "ROW"):
                is_separated = True
            elif token.type == "BLANK":
                is_element = True
            else:
                assert token.start_pos is not None and token.end_pos is not None
                between = list(self.parts(end, token.start_pos))
                blank = self.blank(token, "".join(between), is_element)
                # whether it ends the innermost frame or a part of it
                is_closing = len(frames) < len(self.levels) or token.type in PARTS
                sign = self.between(between, is_separated, is_closing, blank)
                self.put(sign + token)
                if self.previous is None or is_separated:
                    self.head = token.type
                self.nest(frames)
                self.previous = token
                end, is_separated, is_element = token.end_pos, False, False
        self.between(self.parts(end, len(self.text)), True, False, "")
        return "".join(self.pieces).rstrip() + "\n" if self.pieces else ""

    def put(self, text: str) -> None:
        self.pieces.append(text)
        _, newline, last = text.rpartition("\n")
        self.column = len(last) if newline else self.column + len(text)

    def nest(self, frames: Sequence[Frame]) -> None:
        """Open or close frames. Lines in a bracket are aligned with what follows it in its own line."""
        del self.levels[len(frames) :]
        for frame in frames[len(self.levels) :]:
            opener = frame.opener.type if frame.opener is not None else ""
            inner = self.column if opener in _OPENERS else self.indent + len(INDENT)
            self.levels.append(OpenBracket(self.indent, inner, opener))

    # --------------------------------------------------------------------------- between tokens

    def between(
        self, parts: Iterable[str], is_separated: bool, is_closing: bool, blank: str
    ) -> str:
        """Write the comments, line ends and `;` between two tokens; returns what is to be written right
        before the second token. `blank` separates tokens of one line."""
        newlines, sign, spaces = 0, "", ""
        for piece in parts:
            if piece == "\n":
                newlines += 1
            elif piece in "+;":
                if piece == "+":
                    sign = piece
                elif newlines == 0 and self.pieces and self.pieces[-1] != ";":
                    self.put(piece)
                    blank = " "
            elif not piece.strip():
                spaces = piece
            else:
                if newlines:
                    self.start_line(newlines, is_separated or is_closing, False)
                elif self.pieces:
                    self.put(" " * max(len(spaces), 2 if piece[:2] != "#=" else 1))
                self.put(piece.rstrip())
                newlines, spaces, blank = 0, "", " "
        if newlines:
            self.start_line(newlines, is_separated, is_closing)
        elif self.pieces:
            self.put(blank)
        return sign

    def parts(self, start: int, stop: int) -> Iterator[str]:
        while found := _PART.match(self.text, start, stop):
            end = self.comments.get(start, found.end())
            yield self.text[start:end]
            start = end

    def start_line(self, newlines: int, is_separated: bool, is_closing: bool) -> None:
        level = self.levels[-1]
        if self.previous is not None and self.previous.type in _OPENERS:
            level.inner = level.outer + len(INDENT)
        is_new = is_separated or is_closing or level.opener in _OPENERS
        is_continued = not is_new and self.head != "LET"  # whose variables stand below one another
        indent = level.outer if is_closing else level.inner
        self.indent = indent + len(INDENT) * is_continued
        if self.pieces:
            self.put("\n" * min(newlines, 2))
        self.put(" " * self.indent)

    def blank(self, token: Token, between: str, is_element: bool) -> str:
        previous = self.previous
        if is_element:  # of an array: columns stay as they are
            return between
        if previous is None or previous.type in _TIGHT_AFTER or token.type in _TIGHT_BEFORE:
            return ""
        if previous.type in ("COMMA", "SEMI"):
            return " "
        # whether an `=` is between a name and its value, as in `f(x; k=1)`, and is no assignment
        is_setting = self.levels[-1].opener == "LCALL" or self.head == "WORKSPACE"
        for sign in (previous, token):
            if sign.type in _AS_WRITTEN or (sign.type == "EQ" and is_setting):
                assert sign.start_pos is not None and sign.end_pos is not None
                around = self.text[sign.start_pos - 1], self.text[sign.end_pos]
                return " " * any(c.isspace() for c in around)
        if not between and previous.type not in CONTINUES and token.type not in CONTINUES:
            return " " * (previous.isalpha() and previous.type != "NAME")
        return " "
