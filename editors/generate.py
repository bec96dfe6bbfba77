"""Writes what editors know of the language's words and signs, as the grammar has them: `make editors`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from pygments.lexer import words
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String

from finchlang.repl.highlight import OPENERS, FinchLexer
from finchlang.text.terminals import terminals

HERE = Path(__file__).parent

#: what TextMate calls the tokens of our lexer
SCOPES = {
    Comment.Single: "comment.line.number-sign",
    Comment.Multiline: "comment.block",
    String: "string.quoted.double",
    String.Interpol: "constant.other.placeholder",
    Keyword: "keyword.control",
    Keyword.Pseudo: "support.function.macro",
    Keyword.Constant: "constant.language",
    Number: "constant.numeric",
    Name.Class: "support.type",
    Name.Function: "entity.name.function",
    Name: "variable.other",
    Operator: "keyword.operator",
    Punctuation: "punctuation",
}


def text_mate() -> dict[str, Any]:
    """The lexer of the prompt as a grammar of TextMate, which VS Code and others read."""
    patterns = [_pattern(*rule) for rule in FinchLexer.tokens["root"] if rule[1] in SCOPES]
    return {
        "name": "Finch",
        "scopeName": "source.finch",
        "fileTypes": ["finch"],
        "firstLineMatch": r"^#!.*\bfinch\b",
        "patterns": patterns,
        "repository": {"comment": patterns[0]},
    }


def _pattern(match: Any, token: Any, state: str | None = None) -> dict[str, Any]:
    scope = f"{SCOPES[token]}.finch"
    regex = match.get() if isinstance(match, words) else match
    if state is None:
        return {"match": regex, "name": scope}
    ends = [r[0] for r in FinchLexer.tokens[state] if r[2:] == ("#pop",)]
    inner = [_pattern(*r) for r in FinchLexer.tokens[state] if len(r) == 2 and r[1] is not token]
    if any(r[2:] == ("#push",) for r in FinchLexer.tokens[state]):
        inner.append({"include": f"#{state}"})
    if token is String:
        inner.insert(0, {"match": r"\\.", "name": "constant.character.escape.finch"})
    return {"begin": regex, "end": ends[0], "name": scope, "patterns": inner}


def language_configuration() -> dict[str, Any]:
    """How VS Code comments, closes and indents."""
    brackets = [["(", ")"], ["[", "]"], ["{", "}"]]
    opening = (
        rf"^\s*(@\w+\s+)*({'|'.join((*OPENERS, 'else', 'elseif'))})\b((?!\bend\b)[^#])*(#.*)?$"
    )
    closing = r"^\s*(end|else|elseif)\b"
    return {
        "comments": {"lineComment": "#", "blockComment": ["#=", "=#"]},
        "brackets": brackets,
        "autoClosingPairs": [*brackets, ['"', '"']],
        "surroundingPairs": [*brackets, ['"', '"']],
        "wordPattern": {"pattern": r"@?[\p{L}_][\p{L}\p{N}_]*!*", "flags": "u"},
        "indentationRules": {"increaseIndentPattern": opening, "decreaseIndentPattern": closing},
    }


#: terminals that `grammar.js` writes its own way
OWN = ("NAME", "STRING", "MACRO", "COMMENT", "NEWLINE", "BLANKS")
LOOKAHEAD = re.compile(r"\(\?[!=](?:[^()]|\\.)*\)|\\b")


def tree_sitter_terminals() -> dict[str, Any]:
    """The terminals as `grammar.js` takes them, which cannot look at the text after a word."""
    found: dict[str, Any] = {}
    for name, regex in terminals().items():
        parts = re.split(r"(?<!\\)\|", LOOKAHEAD.sub("", regex))
        plain = [re.sub(r"\\(.)", r"\1", part) for part in parts]
        if list(map(re.escape, plain)) == parts:
            found[name] = {"words": plain}
        elif name not in OWN:
            found[name] = {"pattern": LOOKAHEAD.sub("", regex).replace("\\/", "/")}
    return found


FILES = {
    "vscode/finch.tmLanguage.json": text_mate,
    "vscode/language-configuration.json": language_configuration,
    "tree-sitter-finch/terminals.json": tree_sitter_terminals,
}


def text_of(name: str) -> str:
    """What a file is to hold."""
    return json.dumps(FILES[name](), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for file in FILES:
        (HERE / file).write_text(text_of(file), "utf-8")
