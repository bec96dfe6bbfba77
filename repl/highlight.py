"""Syntax highlighting: a lexer made from the grammar's terminals, colours, and the depth of open blocks."""

from __future__ import annotations

import re
from collections.abc import Iterable

from prompt_toolkit.styles import Style
from pygments.lexer import RegexLexer, words
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text

from finchlang.text.terminals import BRACKETS, keywords, operators, terminals

KEYWORDS = tuple(keywords())
CONSTANTS = ("true", "false", "missing", "nothing", "Inf", "NaN", "pi", "π", "ℯ")
#: the words that `end` closes
OPENERS = ("begin", "for", "function", "if", "let", "while", "try", "do")


def _any(names: Iterable[str]) -> str:
    return "|".join(f"(?:{terminals()[name]})" for name in names)


#: `$(...)` in a string: the last of the choices that the terminal STRING repeats
_CODE = r"\$\((" + terminals()["STRING"].partition(r"|\$\((")[2].removesuffix(')*"')


#: the number of a product `2x`
_FACTOR = r"(?!0[xXbBoO])(\d+(_\d+)*(\.\d+)?|\.\d+)(?=[^\W\d_])(?![eEf][+-]?\d)"


class FinchLexer(RegexLexer):
    """The words and signs of the grammar, for colours; it accepts any text."""

    name = "Finch"
    aliases = ["finch"]
    filenames = ["*.finch"]
    flags = re.MULTILINE

    tokens = {
        "root": [
            (r"#=", Comment.Multiline, "comment"),
            (_any(["COMMENT"]), Comment.Single),
            (r'"', String, "string"),
            (_any(["MACRO"]), Keyword.Pseudo),
            (words(KEYWORDS, prefix=r"\b", suffix=r"\b(?!!)"), Keyword),
            (words(CONSTANTS, prefix=r"\b", suffix=r"\b"), Keyword.Constant),
            (_FACTOR, Number),
            (_any(["NUMBER"]), Number),
            (r"[A-Z]\w*", Name.Class),  # Dense, SparseList, Float64: formats and types
            (r"[^\W\d]\w*!*(?=\()", Name.Function),
            (_any(["NAME", "UNDERSCORE"]), Name),
            (_any(BRACKETS), Punctuation),
            (_any(operators()), Operator),
            (r"\s+", Text),
        ],
        "comment": [
            (r"#=", Comment.Multiline, "#push"),
            (r"=#", Comment.Multiline, "#pop"),
            (r"[^#=]+|[#=]", Comment.Multiline),
        ],
        "string": [
            (r'\\.|[^"\\$]+', String),
            (rf"{_CODE}|\$[^\W\d]\w*|\$", String.Interpol),
            (r'"', String, "#pop"),
        ],
    }


#: colours of the 256-colour palette that are legible on black and on white: both contrasts are above 4
COLOURS = {
    "green": "#008700",
    "violet": "#af00ff",
    "blue": "#5f5fff",
    "teal": "#0087af",
    "brown": "#af5f00",
    "red": "#d7005f",
    "grey": "#767676",
}

STYLE = Style.from_dict(
    {
        name: " ".join(COLOURS.get(word, word) for word in look.split())
        for name, look in {
            "prompt": "bold green",
            "prompt.continued": "grey",
            "pygments.comment": "grey",
            "pygments.keyword": "violet",
            "pygments.keyword.pseudo": "bold violet",
            "pygments.keyword.constant": "teal",
            "pygments.literal.number": "teal",
            "pygments.literal.string": "green",
            "pygments.literal.string.interpol": "brown",
            "pygments.name.class": "blue",
        }.items()
    }
)


def depth(text: str) -> int:
    """How many blocks and brackets are open at the end of a text. Words in brackets do not count, since
    `for`, `if` and `end` open and close nothing there."""
    blocks = brackets = 0
    for kind, value in FinchLexer().get_tokens(text):
        if kind is Punctuation:
            brackets += (value in "([{") - (value in ")]}")
        elif kind is Keyword and brackets <= 0:
            blocks += (value in OPENERS) - (value == "end")
    return max(blocks, 0) + max(brackets, 0)


def in_string(text: str) -> bool:
    """Whether a text ends in a string that is not closed: there blanks have a meaning."""
    return [*FinchLexer().get_tokens(text)].count((String, '"')) % 2 == 1
