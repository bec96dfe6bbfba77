"""Text → AST: `parse_script`, `parse_kernel`, and `is_incomplete` for the prompt."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

import lark
from lark import Token, UnexpectedCharacters, UnexpectedToken
from lark.lexer import LexerThread

from finchlang.base.errors import FinchError, Source, Span, source_of
from finchlang.base.locks import reentrant_lock
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.text.build_script import Builder
from finchlang.text.diagnostics import Incomplete, unexpected_character, unexpected_token
from finchlang.text.grammar_tables import parser_of
from finchlang.text.lines import STRAY, Fault, Frame, Lines, Pass, span_of
from finchlang.text.terminals import grammar


@lru_cache(maxsize=256)
def parse_script(text: str, name: str = "<input>") -> ast.Script:
    """A script (a file, or what was typed at the prompt) as a tree.

    `name` is what messages call the text. Raises FinchError of kind syntax, with a place.
    """
    return _parse(text, name, "script")


@lru_cache(maxsize=256)
def parse_kernel(text: str, name: str = "<kernel>") -> ast.Node:
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
    except FinchError as error:
        return isinstance(error, Incomplete)
    return False


# ----------------------------------------------------------------------------------------- parser

_builder = Builder()
_lock = reentrant_lock()  # the builder handles one text at a time


def _parse(text: str, name: str, start: str) -> Any:
    with _lock, trees.EnoughFrames():
        node = parse_apart(source_of(text, name), start, True)
        trees.check_depth(node)
        return node


def _run(
    source: Source, text: str, start: str, is_explained: bool = True, tried: tuple[str, ...] = ()
) -> Any:
    """Parse `text`, all of the source or a part at its place, by a rule; `tried` are being mended."""
    in_kernel = False
    try:
        return _lark().parse(text, start=start)
    except Fault as fault:
        kind, span = Incomplete if fault.incomplete else FinchError, span_of(source, fault.token)
        told = kind("syntax", fault.message, span, fault.hint)
    except UnexpectedToken as error:
        stack = error.state.value_stack
        is_open = any(isinstance(t, Token) and t.type == "FINCH" for t in stack)
        in_kernel = start == "program" or is_open
        told = unexpected_token(error, source, in_kernel)
    except UnexpectedCharacters as error:
        told = unexpected_character(error, source, text)
    raise mending().explained(told, in_kernel, start, tried) if is_explained else told


def mending() -> Any:
    """The module `mend` with its parser; programs without a fault do without its tables."""
    from finchlang.text import foreign_names as names, mend

    names.parse = parse_apart
    return mend


def parse_apart(source: Source, start: str, is_explained: bool, tried: tuple[str, ...] = ()) -> Any:
    """Parse a text by the rule `start`, perhaps while another text is in hand."""
    with _lock:
        before, _builder.source = _builder.source, source
        try:
            text = _without_block_comments(source)
            return _run(source, text, start, is_explained, tried)
        finally:
            _builder.source = before


def _expression_at(text: str, line: int, column: int) -> ast.Node:
    """The expression `text` at that line and column of the text being parsed."""
    source = _builder.source
    if not text.strip():
        place = Span(source, line, column, line, column)
        raise FinchError("syntax", "an expression is expected here", place)
    try:
        return _run(source, "\n" * (line - 1) + " " * (column - 1) + text, "interpolation")
    except Incomplete as error:  # more input cannot help: a quote or `>>=` follows
        raise FinchError(error.kind, error.message, error.span, error.hint) from None


_builder.expression_at = _expression_at


_COMMENT_OR_STRING = re.compile(r'"(?:[^"\\]|\\.)*"|#=|=#|#[^\n]*', re.DOTALL)


def block_comments(source: Source) -> Iterator[tuple[int, int]]:
    """Where each `#= ... =#` begins and ends; those within another one are parts of it. Raises FinchError
    of kind syntax for one without an end."""
    text, at, opened = source.text, 0, list[int]()
    while found := _COMMENT_OR_STRING.search(text, at):
        at = found.end()
        if found[0] == "#=":
            opened.append(found.start())
        elif opened:
            if found[0] == "=#":
                start = opened.pop()
                if not opened:
                    yield start, at
            else:
                at = found.start() + 1  # in a comment neither quotes nor `#` mean anything
        elif found[0] == "=#":
            at -= 1  # an `=` before a comment
    if opened:
        span = source.span(opened[0], opened[0] + 2)
        raise Incomplete("syntax", "this `#=` is not closed by a `=#`", span)


def _without_block_comments(source: Source) -> str:
    """The text with block comments replaced by blanks, so that places stay the same."""
    text = source.text
    for start, end in block_comments(source) if "#=" in text else ():
        text = text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]
    return text


@cache
def _lark() -> lark.Lark:
    return parser_of(
        grammar(),
        lexer="basic",
        postlex=Lines(),
        transformer=_builder,
        start=["script", "program", "interpolation"],
        keep_all_tokens=True,
        maybe_placeholders=False,
    )


#: how many errors of a text are reported at most
MOST = 20
#: lines that continue a statement begun in an earlier line
_GOES_ON = re.compile(r"\s|$|#|[)\]}]|(?:end|else|elseif|elif|catch|except|finally)\b")
_CLOSES = re.compile(r"[)\]}]|end\b")


def parse_whole(text: str, name: str) -> ast.Script:
    """`parse_script`; an error has the errors of later statements in `others`."""
    try:
        return parse_script(text, name)
    except FinchError as error:
        if (at := error.span) is not None:
            found = syntax_errors(at.source)
            error.others = tuple(e for e in found if e.span and e.span.line > at.line)
        raise


def syntax_errors(source: Source) -> list[FinchError]:
    """The syntax errors of a script, at most one for each statement of the file; none if it parses.

    A statement is taken to begin in a line that is not indented. Errors about something that was never
    opened are left out after another error: the line that opens it was left out with that.
    """
    found: list[FinchError] = []
    lines = source.text.split("\n")
    for _ in range(MOST):
        try:
            parse_script("\n".join(lines), source.name)
        except FinchError as error:
            if error.span is None:
                return [*found, error]
            if not (found and error.message.endswith(STRAY)):
                error.span = replace(error.span, source=source)
                found.append(error)
            if error.kind != "syntax":  # it concerns the text as a whole
                break
            _blank_statement(lines, error.span.line - 1)
        else:
            break
    return found


def _blank_statement(lines: list[str], at: int) -> None:
    start = stop = min(at, len(lines) - 1)
    while start > 0 and _GOES_ON.match(lines[start]):
        start -= 1
    stop += 1
    while stop < len(lines) and _GOES_ON.match(lines[stop]):
        stop += 1
        if _CLOSES.match(lines[stop - 1]):
            break
    lines[start:stop] = [""] * (stop - start)
