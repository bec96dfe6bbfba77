"""What depends on line ends and blanks: tokens of the lexer → the tokens of the grammar."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lark import Token

from finchlang.base.errors import Source, Span
from finchlang.syntax.types import named_type
from finchlang.text.literals import is_float
from finchlang.text.terminals import keywords

# fmt: off
#: Tokens that may end an operand: a minus after one is infix, a `(` right after one is a call.
OPERAND_ENDS = {
    "NAME", "NUMBER", "STRING", "RPAR", "RBRACK", "RCURLY", "UNDERSCORE", "END", "DIR", "LAST",
    "TRANSPOSE", "OPERATOR", "LEAST", "NUMBERS",
}
OPERAND_STARTS = {
    "NAME", "NUMBER", "STRING", "LPAR", "LBRACK", "NOT", "TILDE", "DIR", "UNDERSCORE",
    "LAST", "NUMBERS",
}
CALLABLE_ENDS = {"NAME", "RPAR", "RBRACK", "RCURLY", "TRANSPOSE", "NUMBERS"}
#: tokens after which a statement goes on in the next line
CONTINUES = {
    "COMMA", "EQ", "COLON_EQ", "DOT_EQ", "TYPE_SIGN", "OPASSIGN", "DOT_OPASSIGN", "USER_ASSIGN", "COMPARE",
    "OR", "AND", "PAIR", "MINUS", "NEG", "SUM_OP", "PRODUCT_OP", "SHIFT", "POWER", "NOT", "DOT_PREFIX",
    "TILDE", "QUERY", "COLON", "ELSE_COLON", "IN", "ARROW", "PIPE", "TIMES",
}
#: the signs that stand alone as an argument of a call
OPERATORS = ("MINUS", "SUM_OP", "PRODUCT_OP", "POWER", "COMPARE", "AND", "OR")
BLOCK_STARTS = {"FOR", "WHILE", "IF", "LET", "BEGIN", "FUNCTION", "TRY", "DO"}
NO_SEPARATOR_BEFORE = {"END", "ELSE", "ELSEIF", "CATCH", "FINALLY", "RPAR", "RBRACK", "RCURLY"}
#: tokens that begin another part of a block: the block's opener, and the part's name
PARTS = {
    "ELSEIF": ("IF", "block"), "ELSE": ("IF", "else"),
    "CATCH": ("TRY", "catch"), "FINALLY": ("TRY", "finally"),
}
# fmt: on
#: a number directly before a name, which is a product
FACTORS = re.compile(r"(?!0[xXbBoO])(\d+(?:_\d+)*(?:\.\d+)?|\.\d+)([^\W\d_][\w\u0300-\u036f]*)\Z")
BRACKETS = {"(": ")", "[": "]", "{": "}"}
#: ends of messages about a token that closes or continues nothing that is open
STRAY = ("closes nothing", "belongs to no `if`", "belongs to no `try`")


class Fault(Exception):
    """A fault found at a token; `incomplete` if more input could mend it."""

    def __init__(self, message: str, token: Token, hint: str | None = None, incomplete=False):
        super().__init__(message)
        self.message, self.token, self.hint, self.incomplete = message, token, hint, incomplete


def span_of(source: Source, token: Token) -> Span:
    return Span(source, token.line, token.column, token.end_line, token.end_column)  # type: ignore[arg-type]


@dataclass(slots=True)
class Frame:
    """An open bracket or block, and how many `?` in it have no colon yet."""

    opener: Token | None
    kind: str  # "file", "block", "else", "catch", "finally", "(", "[", "array", "{"
    indent: int = 0  # the column of the first token in the opener's line
    queries: int = 0


class Lines:
    """The stage between Lark's lexer and its parser. It has no state between texts.

    Line ends separate statements, except in brackets and after an operator or a comma. In an array they
    separate rows, as `;` does, and blanks separate elements, as in `[1 -2; 3 4]`.
    """

    #: terminals that only this stage sees; Lark would drop them as unused
    always_accept = ("NEWLINE", "MACRO", "SEMI", "LPAR", "LBRACK", "MINUS", "QUOTE")

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        return Pass(stream).tokens()


def factors(stream: Iterator[Token]) -> Iterator[Token]:
    """The tokens, with TIMES in `2x` and in `2(x + 1)`."""
    before: Any = None
    kinds = ["", "", ""]  # of the last tokens: a `:=` among them declares
    for token in stream:
        is_next = before is not None and token.start_pos == before.end_pos
        if is_next and token.type == "LPAR" and "COLON_EQ" not in kinds:
            yield _part(before, len(before), len(before), "TIMES")
        kinds = [*kinds[1:], token.type]
        found = FACTORS.match(token) if token.type == "NUMBER" else None
        if found is None or is_float(token):
            yield token
            before = token if token.type == "NUMBER" else None
            continue
        at = found.end(1)
        yield _part(token, 0, at, "NUMBER")
        yield _part(token, at, at, "TIMES")
        yield _part(token, at, len(token), keywords().get(token[at:], "NAME"))
        before = None


def _part(token: Any, start: int, stop: int, kind: str) -> Token:
    line, column, at = token.line, token.column, token.start_pos
    ends = {"end_line": line, "end_column": column + stop, "end_pos": at + stop}
    return Token(kind, token[start:stop], at + start, line, column + start, **ends)


class Pass:
    """One pass over the tokens of a text; `frames` are open after the last token returned."""

    def __init__(self, stream: Iterator[Token]):
        self.stream = factors(stream)
        self.frames = [Frame(None, "file")]
        self.suspect: Token | None = None
        self.is_declaring = False  # whether a `(` after a number gives the sizes of a declaration
        self.laws: int | None = None  # the line of the last `@properties`
        self.line, self.indent = 0, 0  # the line of the last token, and the column of its first one

    def tokens(self) -> Iterator[Token]:
        frames = self.frames
        previous = Token("_SEP", "")  # nothing to separate yet
        previous.end_pos = 0
        separator: Token | None = None
        token = next(self.stream, None)
        while token is not None:
            following = next(self.stream, None)
            kind, before = token.type, previous.type
            if kind == "NEWLINE" or (kind == "SEMI" and frames[-1].kind not in BRACKETS):
                if separator is None and self._separates(token, before):
                    separator = token
                token = following
                continue
            if separator is not None:
                if kind not in NO_SEPARATOR_BEFORE:
                    row = frames[-1].kind == "array"
                    frames[-1].queries = 0
                    before = "ROW" if row else "_SEP"
                    yield separator.update(type=before)
                separator = None
            elif frames[-1].kind == "array" and self._new_element(previous, token, following):
                before = "BLANK"
                yield token.update(type="BLANK", value="")
            kind = self._kind(token, before, following, token.start_pos == previous.end_pos)
            token = token if kind == token.type else token.update(type=kind)
            is_next = following is not None and following.start_pos == token.end_pos
            if token.type == "PREFIX_PLUS" and following == "+" and is_next:
                raise Fault("`++` is no operator", token, "write `x += 1`")
            is_arrow = token.type == "NEG" and previous == "<" and not is_next
            if is_arrow and token.start_pos == previous.end_pos:  # `x <- 3` would compare `x < -3`
                raise Fault("`<-` is no assignment", previous, "it is written `=`")
            self._nest(token, previous)
            signs = ("NEG", "NUMBER") if self.is_declaring else ()
            self.is_declaring = token.type in ("COLON_EQ", *signs)
            if token.type != "PREFIX_PLUS":
                yield token
            previous, token = token, following
        if len(frames) > 1:
            self._unclosed(self.suspect or frames[-1].opener, incomplete=True)

    def _separates(self, token: Token, before: str) -> bool:
        """Whether a line end or `;` after a token of type `before` separates anything."""
        kind = self.frames[-1].kind
        goes_on = token.type != "SEMI" and (kind in BRACKETS or before in CONTINUES)
        return not goes_on and before not in ("_SEP", "LBRACK", "LSUB")

    @staticmethod
    def _new_element(previous: Token, token: Token, following: Token | None) -> bool:
        """Whether the blanks before `token` separate two elements of an array."""
        if previous.type not in OPERAND_ENDS or previous.end_pos == token.start_pos:
            return False
        if token.type in OPERAND_STARTS:
            return True
        sign = token.type == "MINUS" or token == "+"
        return sign and following is not None and following.start_pos == token.end_pos

    def _kind(self, token: Token, before: str, following: Token | None, adjacent: bool) -> str:
        """The type that the grammar has for a token in this place."""
        kind, frame = token.type, self.frames[-1]
        is_last = following is not None and following.type in ("COMMA", "RPAR")
        is_partial = kind == "COMPARE" and following is not None and following.type == "LPAR"
        if (is_last or is_partial) and before in ("LCALL", "COMMA") and kind in OPERATORS:
            return "OPERATOR"  # alone, or with its second operand
        is_sized = self.is_declaring and before == "NUMBER"
        if kind in ("FOR", "IF") and frame.kind in (*BRACKETS, "array") and before in OPERAND_ENDS:
            return "EACH" if kind == "FOR" else "WHERE"
        if token == "where" and token.line == self.laws and before in OPERAND_ENDS:
            return "WHERE"
        if kind in ("END", "BEGIN") and self.is_index:
            return "LAST" if kind == "END" else "NUMBER"
        if kind == "QUOTE" and adjacent and before in OPERAND_ENDS:
            return "TRANSPOSE"
        if kind == "LPAR" and adjacent and (before in CALLABLE_ENDS or is_sized):
            return "LCALL"
        if kind == "LBRACK" and adjacent and before in CALLABLE_ENDS:
            return "LSUB"
        if kind == "MINUS" and before not in OPERAND_ENDS:
            return "NEG"
        is_base = following is not None and following.type == "POWER"
        is_least = token.replace("_", "") == str(1 << 63)
        if kind == "NUMBER" and before == "NEG" and is_least and not is_base:
            return "LEAST"
        if kind == "SUM_OP" and token == ".-" and before not in OPERAND_ENDS:
            return "DOT_PREFIX"
        if kind == "SUM_OP" and token == "+" and before not in OPERAND_ENDS:
            return "PREFIX_PLUS"
        if kind == "COLON" and self.frames[-1].queries:
            self.frames[-1].queries -= 1
            return "ELSE_COLON"
        return kind

    @property
    def is_index(self) -> bool:
        """Whether a subscript is open, and no block in it, so that `end` is an index."""
        for frame in reversed(self.frames):
            if frame.kind == "[":
                return True
            if frame.kind not in (*BRACKETS, "array"):
                return False
        return False

    def _nest(self, token: Token, previous: Token) -> None:
        kind, frames = token.type, self.frames
        if token.line != self.line:
            self.line, self.indent = token.line or 0, token.column or 0
        is_typed = kind == "LSUB" and named_type(previous) is not None  # `Int[1 2]`
        if kind in ("LPAR", "LCALL", "LSUB", "LCURLY") and not is_typed:
            frames.append(Frame(token, str(token), self.indent))
        elif kind == "LBRACK" or is_typed:
            frames.append(Frame(token, "array", self.indent))
        elif kind in BLOCK_STARTS:
            frames.append(Frame(token, "block", self.indent))
        elif kind == "PROPERTIES":
            self.laws = token.line
        elif kind == "QUERY":
            frames[-1].queries += 1
        elif kind in ("RPAR", "RBRACK", "RCURLY"):
            opener = frames[-1].opener
            if opener is None or opener not in BRACKETS:
                if not any(f.opener is not None and f.opener in BRACKETS for f in frames):
                    raise Fault(f"this `{token}` {STRAY[0]}", token)
                self._unclosed(opener)
            elif BRACKETS[opener] != token:
                raise Fault(f"`{opener}` is closed by `{BRACKETS[opener]}`, not `{token}`", token)
            frames.pop()
        elif kind == "END":
            self._end(token)
        elif kind in PARTS:
            opener, (needed, part) = frames[-1].opener, PARTS[kind]
            if opener is None or opener.type != needed:
                if any(f.opener is not None and f.opener.type == needed for f in frames):
                    self._unclosed(opener)
                raise Fault(f"this `{token}` {STRAY[1 + (needed == 'TRY')]}", token)
            if frames[-1].kind in ("else", "finally") or frames[-1].kind == part == "catch":
                raise Fault(f"this `{token}` comes after the `{frames[-1].kind}`", token)
            frames[-1].kind = part

    def _end(self, token: Token) -> None:
        frame = self.frames[-1]
        if frame.kind == "file":
            hint = "one `end` closes all of `for j = _, i = _`"
            raise Fault(f"this `end` {STRAY[0]}", token, hint)
        if frame.kind in (*BRACKETS, "array"):
            self._unclosed(frame.opener)
        opener = frame.opener
        assert opener is not None
        outdented = token.column == self.indent < frame.indent
        if outdented and any(f.indent == token.column for f in self.frames):
            # an `end` left of its opener, below another one: the inner block's own `end` may be missing
            self.suspect = self.suspect or opener
        self.frames.pop()

    def _unclosed(self, opener: Token | None, incomplete: bool = False) -> None:
        assert opener is not None
        closer = BRACKETS.get(opener)
        how = f"a `{closer}`" if closer else "an `end`"
        raise Fault(f"this `{opener}` is not closed by {how}", opener, None, incomplete)
