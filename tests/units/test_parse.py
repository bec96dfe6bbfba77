"""The parser: the tree of each construct of both strata stands in golden/trees, and prints as a text that
parses to it again; each node has its place."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import lark
import pytest

from finchlang.syntax.nodes import Access, Declare, Index, Literal, Node, Script, Variable
from finchlang.syntax.traversal import walk
from finchlang.text import parse
from finchlang.text.lines import Lines
from finchlang.text.parse import parse_kernel, parse_script
from finchlang.text.print import pretty
from finchlang.text.terminals import grammar

TREES = Path(__file__).parents[1] / "golden" / "trees"
GROUPS = [path.stem for path in sorted(TREES.glob("*.txt"))]


def texts(group: str) -> list[str]:
    """What a golden file has trees of: a text, `-----`, its tree, and a blank line."""
    content = (TREES / f"{group}.txt").read_text("utf-8")
    return re.findall(r"(.*?)\n-----\n.*?\n(?:\n|\Z)", content, re.DOTALL)


def tree(node: Any) -> str:
    """A tree on one line: names as they are, indices with a prime, literals with their type."""
    match node:
        case Literal(value, kind):
            return repr(value) + (f"::{kind}" if kind else "")
        case Variable(name):
            return str(name)
        case Index(name):
            return f"{name}'"
        case tuple():
            return f"[{', '.join(map(tree, node))}]"
        case Node():
            parts = [tree(getattr(node, f.name)) for f in fields(node) if f.compare]
            return f"{type(node).__name__}({', '.join(parts)})"
    return repr(node)


@pytest.mark.parametrize("group", GROUPS)
def test_trees(golden: Callable[[str, str], None], group: str) -> None:
    rows = [f"{text}\n-----\n{tree(parse_script(text))}\n" for text in texts(group)]
    golden(f"trees/{group}.txt", "\n".join(rows))


@pytest.mark.parametrize("group", GROUPS)
def test_trees_are_printed_so_that_they_parse(group: str) -> None:
    assert texts(group)
    for text in texts(group):
        program = parse_script(text)
        assert parse_script(pretty(program)) == program, text
        assert group != "printed" or pretty(program) == text


def expression(text: str) -> Node:
    """The script expression `text`."""
    (statement,) = parse_script(text).statements
    return statement


@pytest.mark.parametrize("init", ["0", "-1.5", "Inf", "true", "v", "(v + 1)", "Float32(0)"])
@pytest.mark.parametrize("dims", ["", "1:3", "1:3, a:size(A, 1)"])
def test_a_declaration_has_one_form(init, dims):
    """`:=` with dimensions behind the value (Fig 8a), `@declare`, and `.=` without dimensions."""
    texts = [f"C := {init}({dims})" if dims else f"C := {init}"]
    texts += [f"@declare(C, {init}, {dims})" if dims else f"@declare(C, {init})"]
    texts += [] if dims else [f"C .= {init}"]
    one, *others = [parse_kernel(text) for text in texts]
    assert isinstance(one, Declare) and len(one.dims) == dims.count(":")
    assert all(other == one for other in others)
    assert parse_kernel(pretty(one)) == one


def test_what_stands_in_a_string_has_its_place():
    text = expression('"two\nlines $(a + b) $n"')
    spans = [(p.span.line, p.span.column) for p in text.parts if isinstance(p, Node)]
    assert spans == [(2, 9), (2, 17)]


def test_separators_comments_and_encodings():
    expected = parse_script("x = 1\ny = 2")
    assert parse_script("\n\n x = 1 ;; # c\n\n#= a\n #= nested =# b\n=# y = 2;\n\n") == expected
    assert parse_script("\ufeffx = 1\r\ny = 2\r\n") == expected
    assert parse_script("x = 1 #= in between =#; y = #= again =# 2") == expected
    assert parse_script("y = 1#= x =#; x=#= c =#1") == parse_script("y = 1; x = 1")
    assert parse_script("") == parse_script("# nothing\n\n") == Script(())


def test_every_node_has_its_place():
    text = (
        "for j = _, i = 1:n\n    if A[i, j] > 0\n        y[i] <<max>>= -x[j] + f(2)\n    end\nend"
    )
    lines = text.split("\n")
    for node in walk(parse_kernel(text, "kernel.finch")):
        assert node.span is not None and node.span.source.name == "kernel.finch"
        if isinstance(node, Access):
            span = node.span
            assert lines[span.line - 1][span.column - 1 :].startswith(node.tensor.name + "[")
            assert lines[span.end_line - 1][span.end_column - 2] == "]"


def test_spans_of_parenthesised_operands_include_the_parentheses():
    span = expression("(a + b) * (x - y)").span
    assert (span.column, span.end_column) == (1, 18)


def test_the_grammar_has_no_conflicts(caplog):
    lark.logger.setLevel(logging.DEBUG)
    try:
        with caplog.at_level(logging.DEBUG, logger="lark"):
            lark.Lark(
                grammar(),
                parser="lalr",
                lexer="basic",
                postlex=Lines(),
                start=["script", "program", "interpolation"],
                debug=True,
            )
    finally:
        lark.logger.setLevel(logging.CRITICAL)
    assert [r.getMessage() for r in caplog.records if "onflict" in r.getMessage()] == []


def test_the_same_text_is_parsed_once():
    assert parse_script("x = 41 + 1") is parse_script("x = 41 + 1")


@pytest.mark.slow
def test_the_cache_may_be_damaged_or_not_writable(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("FINCH_CACHE_DIR", str(folder))

    def run() -> str:
        parse._lark.cache_clear()
        parse_script.cache_clear()
        return repr(parse_script("x = 1"))

    first = run()
    assert "Let" in first
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    for damaged in (b"nonsense", whole[:1000]):
        file.write_bytes(damaged)
        assert run() == first
        assert file.read_bytes() != damaged
    file.unlink()
    folder.rmdir()
    folder.write_text("a file where a folder should be")
    assert run() == first
