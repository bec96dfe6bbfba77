"""What editors know of the language is what the grammar says."""

from __future__ import annotations

import importlib.util
import json
import re
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

from pygments.token import Error, Keyword, Name, Number, Operator, Punctuation, String

from finchlang import FinchError
from finchlang.repl.highlight import CONSTANTS, KEYWORDS, OPENERS, FinchLexer
from finchlang.text.build_script import CONSTANTS as VALUES
from finchlang.text.lines import BLOCK_STARTS
from finchlang.text.parse import parse_script, tokens
from finchlang.text.terminals import BRACKETS, OTHERS, operators, terminals

ROOT = Path(__file__).parents[2]
EDITORS = ROOT / "editors"
PROGRAMS = [*(ROOT / "examples").glob("*.finch"), *(ROOT / "tests/programs").rglob("*.finch")]
#: what the parser calls terminals in some places
REFINED = {"NEG": "MINUS", "LCALL": "LPAR", "LSUB": "LBRACK", "ELSE_COLON": "COLON"}


def test_generated_files_are_those_of_the_grammar() -> None:
    """`make editors` writes them."""
    spec = importlib.util.spec_from_file_location("generate", EDITORS / "generate.py")
    assert spec is not None and spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    for name in generate.FILES:
        assert (EDITORS / name).read_text("utf-8") == generate.text_of(name), name


def test_words_are_those_of_the_grammar() -> None:
    named = {word for word in KEYWORDS if word.upper() in terminals()}
    assert named == {*KEYWORDS} and {"for", "in", "end"} <= named
    assert {word.upper() for word in OPENERS} == BLOCK_STARTS
    assert {*CONSTANTS} == {*VALUES, "Inf", "NaN"}
    unknown = terminals().keys() - operators().keys() - {*OTHERS, *BRACKETS}
    assert all(re.match("@|[a-z]", terminals()[name]) for name in unknown)


def test_every_terminal_of_a_program_has_its_colour() -> None:
    kinds = {
        **dict.fromkeys(operators(), (Operator, Keyword)),
        **dict.fromkeys(BRACKETS, (Punctuation,)),
        **{"NAME": (Name, Keyword.Constant), "NUMBER": (Number, Keyword.Constant)},
        **{"STRING": (String,), "UNDERSCORE": (Name,)},
    }
    for path in sorted(PROGRAMS)[::8]:
        text = path.read_text("utf-8")
        coloured = {at: (k, v) for at, k, v in FinchLexer().get_tokens_unprocessed(text)}
        assert not [v for k, v in coloured.values() if k is Error], path.name
        try:
            parse_script(text)
        except FinchError:
            continue
        number = range(0)  # `3k` has the colour of its number
        for token, _ in tokens(text):
            if token.start_pos in number:
                continue
            kind, value = coloured.get(token.start_pos, (Error, ""))
            name = REFINED.get(token.type, token.type)
            if name in terminals() and token.strip():
                assert any(kind in k for k in kinds.get(name, (Keyword,))), (path.name, token)
                if name == "NUMBER" and value.startswith(token):
                    number = range(token.start_pos, token.start_pos + len(value))
                else:
                    assert name == "STRING" or value == token, (path.name, token)


def test_pygments_finds_the_lexer() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    ((alias, place),) = project["entry-points"]["pygments.lexers"].items()
    assert EntryPoint(alias, place, "pygments.lexers").load() is FinchLexer
    assert alias in FinchLexer.aliases and "*.finch" in FinchLexer.filenames


def test_tree_sitter_has_the_words_and_signs_of_the_grammar() -> None:
    """That it parses the programs is tried by hand, where there is a tree-sitter."""
    folder = EDITORS / "tree-sitter-finch"
    used = set(re.findall(r'T\("(\w+)"\)', (folder / "grammar.js").read_text("utf-8")))
    layout = {*BRACKETS, "NEWLINE", "BLANKS"}  # and what is written there in its own way
    assert used | layout | {"NAME", "STRING", "MACRO", "COMMENT"} == terminals().keys()
    colours = (folder / "queries/highlights.scm").read_text("utf-8")
    words = {*KEYWORDS, *(r for r in terminals().values() if re.match(r"@\w+$", r))}
    assert words == {
        w for w in words if f'"{w}"' in colours or f"({w})" in colours or f" {w}" in colours
    }
    assert {*re.findall(r'"(@?[a-z]+)"', colours)} <= words


def test_the_extension_has_what_it_names() -> None:
    folder = EDITORS / "vscode"
    package = json.loads((folder / "package.json").read_text("utf-8"))
    grammar = package["contributes"]["grammars"][0]
    files = [package["main"], grammar["path"]]
    files += [package["contributes"]["languages"][0]["configuration"]]
    assert all((folder / file).is_file() for file in files)
    scope = json.loads((folder / grammar["path"]).read_text("utf-8"))["scopeName"]
    assert scope == grammar["scopeName"]
