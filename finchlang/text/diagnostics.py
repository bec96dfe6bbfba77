"""Error messages for a text that does not parse, in its author's terms: Lark's errors → FinchError."""

from __future__ import annotations

import re
from typing import Any

from lark import Token, UnexpectedCharacters, UnexpectedToken

from finchlang.base.errors import FinchError, Hint, Source, Span, did_you_mean, write
from finchlang.base.records import record
from finchlang.syntax.nodes import Access, Call, Literal, Node, Variable
from finchlang.text.lines import BLOCK_STARTS, CONTINUES, OPERAND_STARTS, span_of

KERNEL_MACROS = ("@freeze", "@thaw", "@declare", "@mode")
MACROS = (
    *("@finch", "@schedule", "@workspace", "@array", "@einsum", "@time", "@assert", "@__DIR__"),
    *("@properties", "@case", "@iterate", "@staged", *KERNEL_MACROS),
)
BRACKETS = {"LPAR", "LCALL", "LSUB", "LBRACK"}
CLOSERS = {"(": ")", "[": "]"}
PRINTS = ("print", "println", "printf", "display", "show")
CLAUSES = BLOCK_STARTS | BRACKETS | {"ELSEIF", "ELSE", "_SEP"}


class Incomplete(FinchError):
    """A syntax error that more input could remove."""


def unexpected_character(error: UnexpectedCharacters, source: Source, text: str) -> FinchError:
    """The error where no token begins: an unclosed string, or a character without a use."""
    assert error.pos_in_stream is not None
    character = text[error.pos_in_stream]
    line, column = error.line, error.column
    span = Span(source, line, column, line, column + 1)
    if character == '"':
        return Incomplete("syntax", 'this string is not closed by a `"`', span)
    if character == "@":
        return FinchError("syntax", "a macro's name must follow `@`", span)
    is_seen = character.isprintable()
    shown = character if is_seen else f"U+{ord(character):04X}"
    hint = None if is_seen else "take it out: it cannot be seen"
    return FinchError("syntax", f"unknown character `{shown}`", span, hint)


@record
class _Unexpected:
    """A token that the grammar does not allow, what was parsed before it, and what is allowed."""

    token: Token
    stack: list[Any]  # tokens and finished nodes, outermost first
    expected: set[str]
    in_kernel: bool
    source: Source

    @property
    def last(self) -> Any:
        return self.stack[-1] if self.stack else None

    @property
    def tokens(self) -> list[Token]:
        return [t for t in self.stack if isinstance(t, Token)]

    def latest(self, kinds: set[str]) -> Token | None:
        return next((t for t in reversed(self.tokens) if t.type in kinds), None)

    def rest(self) -> str:
        return self.source.line(self.token.line or 1)[(self.token.column or 1) - 1 :]

    def error(self, message: str, hint: str | None = None, at: Any = None) -> FinchError:
        at = self.token if at is None else at
        span = at.span if isinstance(at, Node) else span_of(self.source, at)
        return FinchError("syntax", message, span, hint)


def unexpected_token(error: UnexpectedToken, source: Source, in_kernel: bool) -> FinchError:
    """The first explanation that fits a token that the grammar does not allow, special ones first."""
    stack = error.state.value_stack
    here = _Unexpected(error.token, stack, error.expected, in_kernel, source)
    for explain in (_macro, _head, _assignment, _end, _operand):
        found = explain(here)
        if found is not None:
            return found
    token = here.token
    shown = f"`{token}`" if token.strip() else "the end of the line"
    hint = _expectation(here)
    is_after = isinstance(here.last, Node) or getattr(here.last, "type", "") == "END"
    if hint is None and token.isalpha() and is_after:
        hint = "statements are separated by a new line or `;`"
    return _rows(here) or here.error(f"{shown} is not expected here", hint)


def _rows(here: _Unexpected) -> FinchError | None:
    """An array with commas and blanks between its elements, or a `[` without its `]`."""
    opener = here.latest(BRACKETS | {"RPAR"})
    if opener is None or opener.type != "LBRACK":
        return None
    if here.token.type == "BLANK":
        return here.error("elements have either commas or blanks between them, not both")
    if here.token.type not in ("ROW", "_SEP", "COMMA"):
        return None
    start, depth = span_of(here.source, opener).offsets[0], 0
    text, inner, is_quoted = here.source.text[start:], "", False
    for at, sign in enumerate(text):
        is_quoted ^= sign == '"'
        depth += 0 if is_quoted else (sign in "[(") - (sign in "])")
        inner += " " if sign == "," and depth == 1 and not is_quoted else sign
        if depth == 0:
            whole = here.source.span(start, start + at + 1)
            message = "the elements of a row have blanks between them"
            code = re.sub(r"\n\s*", "; ", re.sub(r"[ \t]+", " ", inner))
            return FinchError("syntax", message, whole, write(code))
        if sign == "=":
            break
    return here.error("this `[` is not closed by a `]`", None, opener)


def _macro(here: _Unexpected) -> FinchError | None:
    token = here.token
    if token.type != "MACRO":
        return None
    hint = did_you_mean(str(token), MACROS) or f"known are {', '.join(MACROS)}"
    return here.error(f"unknown macro `{token}`", hint)


def _head(here: _Unexpected) -> FinchError | None:
    """Mistakes in the heads of `for`, `let` and `function`, and in `@freeze(...)`."""
    stack, last = here.stack, here.last
    recent = [t for t in stack[-2:] if isinstance(t, Token)]
    brackets = [k for k, t in enumerate(stack) if isinstance(t, Token) and t.type in BRACKETS]
    before = stack[brackets[-1] - 1] if brackets and brackets[-1] else last
    if isinstance(before, Token) and before in KERNEL_MACROS:
        form = "(A, init, dims...)" if before == "@declare" else "(A)"
        return here.error(f"`{before}` is written `{before}{form}` with a tensor's name")
    head = next((t for t in reversed(recent) if t.type in ("FOR", "LET", "FUNCTION")), None)
    if head is None:
        return None
    if head.type == "FOR":
        hint = "write `for i = _`, or a range" if here.in_kernel else "write `for i = 1:n`"
        named = "a name must follow `for`"
        message = named if head is last else "a `for` needs `=` and a range after it"
    elif head.type == "LET":
        message, hint = "a `let` needs a binding", "write `let x = A[i] ... end`"
    else:
        message, hint = "a function's head is its name and its parameters", "write `function f(x)`"
    return here.error(message, hint, last)


def _assignment(here: _Unexpected) -> FinchError | None:
    """Mistakes around `=`, and expressions where a kernel needs a statement."""
    token, last = here.token, here.last
    sign: Any = here.stack[-2] if len(here.stack) > 1 else None
    is_sign = isinstance(sign, Token) and sign.type in CONTINUES - {"COMMA"}
    if token.type == "EQ" and isinstance(last, Node):
        if is_sign and (sign.line or 0) < (token.line or 0):
            message = "the statement goes on in this line: the line before ends with an operator"
            return here.error(message)
        clause, equal = here.latest(CLAUSES), Hint("equality is written `==`", "==")
        if clause is None or clause.type in ("BEGIN", "ELSE", "_SEP"):
            is_asserted = "ASSERT" in {t.type for t in here.tokens}
            assigns = "`=` assigns to the name on its left; equality is written `==`"
            return here.error("this cannot be assigned to", equal if is_asserted else assigns)
        where = f"the condition of `{clause}`" if clause.isalpha() else "an expression"
        ended = "a `;` or a line end may be missing before"
        hint = ended if clause.type == "FOR" else equal
        return here.error(f"`=` assigns, and has no place in {where}", hint)
    # after the access that begins a statement an assignment operator was expected
    if here.in_kernel and isinstance(last, Node) and here.expected >= {"EQ", "DOT_EQ"}:
        return _statement(here)
    return None


#: how other languages write an assignment with an operator, at the token after the access
_UPDATES = re.compile(
    r"(?:<<?\s*(\w+|[-+*/&|^]+)\s*>>?\s*=?|([a-z]\w*|\*\*|&&|\|\||\^|%|<<|>>)\s*=)(?!=)"
)


def _statement(here: _Unexpected) -> FinchError:
    """An expression where a kernel has a statement: an update, a call, or a lost `end`."""
    last, opener = here.last, here.latest(BLOCK_STARTS)
    if (found := _UPDATES.match(here.rest())) is not None and isinstance(last, Access):
        op = (found[1] or found[2]).replace("**", "^")
        start = span_of(here.source, here.token).offsets[0]
        place = here.source.span(start, start + found.end())
        message = f"an update by `{op}` is written otherwise"
        return FinchError("syntax", message, place, write(f"<<{op}>>="))
    line = here.source.line(opener.line or 1) if opener is not None else ""
    is_out = last.span is not None and last.span.column <= len(line) - len(line.lstrip()) + 1
    message = "a statement of a kernel assigns: `s[] += x[i]`"
    if opener is not None and (is_out or not isinstance(last, Call)):
        hint = f"is an `end` missing for the `{opener}` in line {opener.line}?"
        return here.error(message, hint if is_out else None, last)
    if isinstance(last, Call) and getattr(last.op, "name", "") in PRINTS:
        return here.error("a kernel cannot print", "print the tensor after the kernel", last)
    hint = "call it in the script, before or after the kernel, or use its value: `y[i] = f(x[i])`"
    message += "; a call alone is none" * isinstance(last, Call)
    return here.error(message, hint, last)


def _end(here: _Unexpected) -> FinchError | None:
    """The text ends too early; it is incomplete only after an operator or a comma."""
    token, last = here.token, here.last
    if token.type == "_SEP" and isinstance(last, Token) and last.type == "FINCH":
        hint = "write `@finch begin` or `@finch for i = _`"
        return here.error("a kernel begins in the line of its `@finch`", hint, last)
    if token.type != "$END":
        return None
    line, column = token.end_line or 1, token.end_column or 1
    span = Span(here.source, line, column, line, column + 1)
    if {t.type for t in here.tokens} & {"SCHEDULE", "WORKSPACE"}:
        message = "an annotation stands before `@finch`, in a line of its own"
        return Incomplete("syntax", message, span)
    if not isinstance(last, Token):
        wanted = _expectation(here)
        return FinchError("syntax", "the statement ends too early", span, wanted)
    message = f"the text ends after `{last}`, where more must follow"
    return (Incomplete if last.type in CONTINUES else FinchError)("syntax", message, span)


def _operand(here: _Unexpected) -> FinchError | None:
    token, last = here.token, here.last
    if token.type == "UNDERSCORE":
        head, name, _ = here.stack[-3:] if len(here.stack) > 2 else (None, None, None)
        is_loop = isinstance(head, Token) and head.type in ("FOR", "COMMA")
        if is_loop and isinstance(name, Variable) and not here.in_kernel:
            hint = f"write `@finch for {name.name} = _`, or a range: `for {name.name} = 1:n`"
            message = "only in a kernel `_` stands for the extent that tensors give a loop"
            return here.error(message, hint)
        return here.error("`_` has no value", "`_` is the extent of a loop: `for i = _`")
    if isinstance(last, Node) and token.type in OPERAND_STARTS and "NAME" not in here.expected:
        separated = "statements are separated by a new line or `;`"
        hint = f"a comma or an operator may be missing; {separated}"
        opener = here.latest(BRACKETS)
        if opener is not None and last.span is not None and (token.line or 0) > last.span.end_line:
            message = f"this `{opener}` is not closed by a `{CLOSERS[opener]}`"
            return here.error(message, None, opener)
        if isinstance(last, Literal):
            hint = "a product is written with `*`"
        elif token.type == "LBRACK":
            hint = "give it a name first, and write `s[1]`"
        elif token.type == "LPAR":
            hint = "nothing may stand between a function and its `(`"
        return here.error(f"an operator is missing before `{token}`", hint)
    if isinstance(last, Token) and here.expected >= {"NAME", "NUMBER"}:
        if token.isalpha() and token.type != "END":
            return here.error(f"`{token}` is a word of the language, not a name")
        if last.strip():
            return here.error(f"an expression is expected after `{last}`")
    return None


def _expectation(here: _Unexpected) -> str | None:
    expected = here.expected
    if expected >= {"NAME", "NUMBER"}:
        return "an expression is expected"
    if "FINCH" in expected:
        return "the kernel of the annotation is expected: `@finch`"
    opener = here.latest(BRACKETS)
    for terminal, sign in (("RPAR", ")"), ("RBRACK", "]"), ("ELSE_COLON", ":")):
        if terminal in expected and sign in (":", CLOSERS.get(opener or "")):
            return f"`{sign}` is expected"
    return None
