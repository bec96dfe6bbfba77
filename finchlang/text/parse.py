"""Text → AST: `parse_script`, `parse_kernel`, and `is_incomplete` for the prompt."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import Any

import lark
from lark import Token, UnexpectedCharacters, UnexpectedToken
from lark.lexer import LexerThread

from finchlang.locks import reentrant_lock
from finchlang.source import FinchError, Source, Span, source_of
from finchlang.syntax import Node, Script
from finchlang.text.ast_builder import Builder
from finchlang.text.diagnostics import Incomplete, unexpected_character, unexpected_token
from finchlang.text.foreign import explained
from finchlang.text.lines import Fault, Frame, Lines, Pass, span_of
from finchlang.text.tables import parser_of
from finchlang.text.terminals import grammar
from finchlang.walk import EnoughFrames, check_depth


@lru_cache(maxsize=256)
def parse_script(text: str, name: str = "<input>") -> Script:
    """A script (a file, or what was typed at the prompt) as a tree.

    `name` is what messages call the text. Raises FinchError of kind syntax, with a place.
    """
    return _parse(text, name, "script")


@lru_cache(maxsize=256)
def parse_kernel(text: str, name: str = "<kernel>") -> Node:
    """A kernel without its `@finch` as a tree (Finch'25 Fig 8a); several statements are a Block.

    Raises FinchError of kind syntax, with a place.
    """
    return _parse(text, name, "program")


def tokens(text: str) -> Iterator[tuple[Token, Sequence[Frame]]]:
    """The tokens of a script that parses, with the brackets and blocks that are open after each."""
    lexer = _lark().parser.lexer.lexer
    lines = Pass(LexerThread.from_text(lexer, _without_block_comments(Source(text))).lex(None))
    return ((token, lines.frames) for token in lines.tokens())


def is_incomplete(text: str) -> bool:
    """Whether more input could complete `text`: a block, bracket or string is open, or it ends
    where an operand must follow. False for what is right, or wrong whatever follows."""
    try:
        parse_script(text)
    except Incomplete:
        return True
    except FinchError:
        return False
    return False


# ----------------------------------------------------------------------------------------- parser

_builder = Builder()
_lock = reentrant_lock()  # the builder knows one text at a time


def _parse(text: str, name: str, start: str) -> Any:
    source = source_of(text, name)
    with _lock, EnoughFrames():
        before, _builder.source = _builder.source, source
        try:
            node = _run(source, _without_block_comments(source), start)
            check_depth(node)
            return node
        finally:
            _builder.source = before


def _run(source: Source, text: str, start: str) -> Any:
    """`text` (all of the source, or a part of it where it stands) parsed from `start`."""
    try:
        return _lark().parse(text, start=start)
    except Fault as fault:
        raise explained(_placed(fault, source)) from None
    except UnexpectedToken as error:
        raise explained(unexpected_token(error, source, start)) from None
    except UnexpectedCharacters as error:
        raise explained(unexpected_character(error, source, text)) from None


def _expression_at(text: str, line: int, column: int) -> Node:
    """The expression `text`, which stands at that line and column of what is being parsed."""
    source = _builder.source
    if not text.strip():
        place = Span(source, line, column, line, column)
        raise FinchError("syntax", "an expression is expected here", place)
    try:
        return _run(source, "\n" * (line - 1) + " " * (column - 1) + text, "interpolation")
    except Incomplete as error:  # what is missing cannot follow: a quote or `>>=` does
        raise FinchError(error.kind, error.message, error.span, error.hint) from None


_builder.expression_at = _expression_at


def _placed(fault: Fault, source: Source) -> FinchError:
    kind = Incomplete if fault.incomplete else FinchError
    return kind("syntax", fault.message, span_of(source, fault.token), fault.hint)


_COMMENT_OR_STRING = re.compile(r'"(?:[^"\\]|\\.)*"|#=|=#|#[^\n]*', re.DOTALL)


def _without_block_comments(source: Source) -> str:
    """The text with `#= ... =#`, which may be nested, turned into blanks; places stay the same."""
    text = source.text
    if "#=" not in text:
        return text
    pieces: list[str] = []
    opened: list[int] = []
    done = at = 0
    while found := _COMMENT_OR_STRING.search(text, at):
        at = found.end()
        if found[0] == "#=":
            opened.append(found.start())
        elif opened:
            if found[0] == "=#":
                start = opened.pop()
                if not opened:
                    pieces += text[done:start], re.sub(r"[^\n]", " ", text[start:at])
                    done = at
            else:
                at = found.start() + 1  # in a comment neither quotes nor `#` mean anything
        elif found[0] == "=#":
            at -= 1  # an `=` before a comment
    if opened:
        line, column = (
            text.count("\n", 0, opened[0]) + 1,
            opened[0] - text.rfind("\n", 0, opened[0]),
        )
        span = Span(source, line, column, line, column + 2)
        raise Incomplete("syntax", "this `#=` is not closed by a `=#`", span)
    return "".join(pieces) + text[done:]


@cache
def _lark() -> lark.Lark:
    """The parser, built on first use."""
    return parser_of(
        grammar(),
        lexer="basic",
        postlex=Lines(),
        transformer=_builder,
        start=["script", "program", "interpolation"],
        keep_all_tokens=True,
        maybe_placeholders=False,
    )
