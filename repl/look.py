"""How Finch text looks at the prompt: its colours, and the names Tab completes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.styles import Style
from pygments.lexer import RegexLexer, words
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text

KEYWORDS = (
    *("begin", "break", "continue", "else", "elseif", "end", "for", "function", "if", "in"),
    *("let", "return", "while"),
)
CONSTANTS = ("true", "false", "missing", "nothing", "Inf", "NaN")
MACROS = (
    *("@finch", "@schedule", "@workspace", "@array", "@einsum", "@time", "@assert"),
    *("@freeze", "@thaw", "@declare", "@mode", "@__DIR__"),
)


class FinchLexer(RegexLexer):
    """The words of both strata, for colours only: it accepts any text."""

    name = "Finch"
    aliases = ["finch"]
    filenames = ["*.finch"]
    flags = re.MULTILINE

    tokens = {
        "root": [
            (r"#=", Comment.Multiline, "comment"),
            (r"#[^\n]*", Comment.Single),
            (r'"', String, "string"),
            (r"@\w+", Keyword.Pseudo),
            (words(KEYWORDS, prefix=r"\b", suffix=r"\b(?!!)"), Keyword),
            (words(CONSTANTS, prefix=r"\b", suffix=r"\b"), Keyword.Constant),
            (r"0[xXbBoO]\w+|(\d[\d_]*(\.[\d_]*)?|\.\d[\d_]*)([eEf][+-]?\d+)?", Number),
            (r"[^\W\da-z_]\w*", Name.Class),  # Dense, SparseList, Float64: formats and types
            (r"[^\W\d]\w*!*(?=\()", Name.Function),
            (r"[^\W\d]\w*!*", Name),
            (r"<<[^\n;>]+>>=", Operator),
            (r"[-+*/%^÷⊻&|<>=!≤≥≠~?:.]+", Operator),
            (r"[()\[\]{},;]", Punctuation),
            (r"\s+", Text),
        ],
        "comment": [
            (r"#=", Comment.Multiline, "#push"),
            (r"=#", Comment.Multiline, "#pop"),
            (r"[^#=]+|[#=]", Comment.Multiline),
        ],
        "string": [
            (r'\\.|[^"\\$]+', String),
            (r"\$\([^()]*\)|\$\w+|\$", String.Interpol),
            (r'"', String, "#pop"),
        ],
    }


STYLE = Style.from_dict(
    {
        "prompt": "bold ansigreen",
        "pygments.comment": "ansibrightblack",
        "pygments.keyword": "ansimagenta",
        "pygments.keyword.pseudo": "bold ansimagenta",
        "pygments.keyword.constant": "ansicyan",
        "pygments.literal.number": "ansicyan",
        "pygments.literal.string": "ansigreen",
        "pygments.literal.string.interpol": "ansiyellow",
        "pygments.name.class": "ansiblue",
        "pygments.name.function": "",
        "pygments.operator": "",
    }
)


class NameCompleter(Completer):
    """Completes the word before the cursor from the language's own words and `names()`."""

    def __init__(self, names: Callable[[], Iterable[str]]):
        self.names = names

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterator[Completion]:
        found = re.search(r"@?\w+$", document.text_before_cursor)
        if found is None:
            return
        word = found[0]
        for name in sorted({*KEYWORDS, *CONSTANTS, *MACROS, *self.names()}):
            if name.startswith(word) and name != word:
                yield Completion(name, start_position=-len(word))
