"""The printer: what it prints parses back to the same tree, with no needless parentheses; and `finch fmt`:
the same program in the usual way of writing, whatever way it came in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from finchlang import FinchError
from finchlang.syntax import nodes as ast
from finchlang.syntax.traversal import children, map_children, replace, walk
from finchlang.syntax.types import TYPES, Float32
from finchlang.text.formatter import formatted
from finchlang.text.parse import parse_kernel, parse_script
from finchlang.text.print import pretty

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.finch"))
PROGRAMS = sorted((ROOT / "tests/programs").rglob("*.finch"))
TREES = sorted((ROOT / "tests/golden/trees").glob("*.txt"))
COMMENT = re.compile(r"#[^\n]*")
#: where another expression may stand
PLACES: dict[type[ast.Node], str] = {
    **dict.fromkeys((ast.Call, ast.KeywordCall, ast.Broadcast), "args"),
    **dict.fromkeys((ast.Assign, ast.Define, ast.Let, ast.Return), "value"),
    **{ast.Access: "indices", ast.Extent: "stop", ast.Sieve: "condition"},
    **{ast.Group: "items", ast.Rows: "rows", ast.Lambda: "body"},
}
#: what may stand there
PARTS = (ast.Call, ast.Access, ast.Literal, ast.Variable, ast.KeywordCall)
PARTS += (ast.Group, ast.Rows, ast.Extent, ast.Text, ast.Lambda, ast.Broadcast, ast.Comprehension)
PREFIX = "-!~"
INFIX = (*"+-*/%&|^<>", "<<", ">>", "==", "!=", "<=", ">=", "&&", "||")


def within(tree: ast.Node, is_kernel: bool = False) -> Iterator[tuple[ast.Node, bool]]:
    """The nodes of a tree, each with whether it stands in a kernel."""
    yield tree, is_kernel
    for child in children(tree):
        yield from within(child, is_kernel or isinstance(tree, ast.KernelNode))


@cache
def corpus() -> tuple[list[ast.Node], dict[bool, list[ast.Node]]]:
    """Scripts, and the expressions of their kernels (True) and of what is around these."""
    texts = [p.read_text("utf-8") for p in PROGRAMS[::8]]
    for path in TREES:
        texts += re.findall(r"(.*?)\n-----\n.*?\n(?:\n|\Z)", path.read_text("utf-8"), re.DOTALL)
    scripts, parts = list[ast.Node](), {True: list[ast.Node](), False: list[ast.Node]()}
    for text in texts:
        with suppress(FinchError):
            scripts.append(parse_script(text))
    for script in scripts:
        for node, is_kernel in within(script):
            is_range = isinstance(node, ast.Extent) and is_kernel  # which is no value there
            if isinstance(node, PARTS) and is_whole(node) and not is_range:
                parts[is_kernel].append(node)
    return scripts, parts


def is_whole(node: ast.Node) -> bool:
    """Whether an expression means the same elsewhere: it has no index and no kernel, and is neither an
    operator nor a type, which has a place in some calls alone."""
    name = str(node.name) if isinstance(node, ast.Variable) else "f"
    is_operator = name in TYPES or not re.match(r"\w", name)
    has_name = isinstance(getattr(node, "op", ast.Variable("f")), ast.Variable)
    return (
        has_name
        and not is_operator
        and not any(type(n) in (ast.Index, ast.KernelNode) for n in walk(node))
    )


@st.composite
def literals(draw: st.DrawFn) -> ast.Node:
    """Numbers, typed and not; truth values; `missing` and `nothing`."""
    kind, special = draw(st.sampled_from([None, *TYPES])), st.sampled_from([-inf, nan, -0.0, -2.0])
    if kind is None:
        whole = st.integers(-(2**63) + 1, 2**63 - 1)
        some = st.sampled_from([ast.MISSING, ast.NOTHING, 0, 1])
        return ast.Literal(draw(st.one_of(whole, special, st.floats(), st.booleans(), some)))
    type = TYPES[kind]
    if type.is_float:
        value = draw(st.one_of(special, st.floats(width=type.bits)))
        return ast.Literal(Float32.wrap(value) if kind == "Float32" else value, kind)
    whole = st.integers(max(type.lowest, -(2**63) + 1), type.highest)
    return ast.Literal(draw(st.booleans() if kind == "Bool" else whole), kind)


@st.composite
def expressions(draw: st.DrawFn, is_kernel: bool, depth: int = 2) -> ast.Node:
    """A part of some script, a literal, or an operator of such."""
    some = st.deferred(lambda: expressions(is_kernel, depth - 1))
    kind = draw(st.sampled_from(("part", "literal", "prefix", "infix") if depth else ("part",)))
    if kind == "part":
        return draw(st.sampled_from(corpus()[1][is_kernel]))
    if kind == "literal":
        return draw(literals())
    signs, count = (PREFIX, 1) if kind == "prefix" else (INFIX, 2)
    return ast.Call(
        ast.Variable(draw(st.sampled_from(signs))), tuple(draw(some) for _ in range(count))
    )


@st.composite
def grown(draw: st.DrawFn) -> ast.Node:
    """A script in which some expressions are those of others."""
    scripts, _ = corpus()
    tree = draw(st.sampled_from(scripts))
    for _ in range(draw(st.integers(3, 8))):
        hosts = [(n, k) for n, k in within(tree) if has_place(n)]
        if not hosts:
            break
        host, is_kernel = draw(st.sampled_from(hosts))
        part = draw(expressions(is_kernel))
        name = PLACES[type(host)]
        new = old = getattr(host, name)
        if name == "rows":
            new = ((part, *old[0][1:]), *old[1:])
        elif isinstance(old, tuple):
            k = draw(st.integers(0, len(old) - 1))
            new = (*old[:k], part, *old[k + 1 :])
        elif not isinstance(old, ast.KernelNode):
            new = part
        tree = swapped(tree, host, replace(host, **{name: new}))
    return tree


def has_place(node: ast.Node) -> bool:
    """But numbers of a type, which become literals, and `choose`: a sign `<<...>>=` has no `<<` in it."""
    is_fixed = str(getattr(getattr(node, "op", None), "name", "")) in (*TYPES, "choose")
    return type(node) in PLACES and bool(getattr(node, PLACES[type(node)])) and not is_fixed


def swapped(tree: ast.Node, old: ast.Node, new: ast.Node) -> ast.Node:
    return new if tree is old else map_children(lambda child: swapped(child, old, new), tree)


def plain(tree: ast.Node) -> ast.Node:
    """With each index as a name: in a loop over m the name m of another script is that."""
    tree = map_children(plain, tree)
    return ast.Variable(tree.name) if isinstance(tree, ast.Index) else tree


@pytest.fixture(autouse=True, scope="module")
def _corpus() -> None:
    corpus()  # once, before anything is drawn


@pytest.mark.slow
@settings(max_examples=150)
@given(grown())
def test_grown_programs_survive_printing(program: ast.Node) -> None:
    try:
        again = parse_script(pretty(program))
    except FinchError as error:  # of a constant that is none, as 2^-1, which was not read before
        assert error.kind == "type"
        return
    assert plain(again) == plain(program)


def some(number: int) -> Any:
    return pytest.param(PROGRAMS[number], marks=[pytest.mark.slow] * (number % 3 > 0))


@pytest.mark.parametrize("path", [*map(some, range(len(PROGRAMS)))], ids=lambda path: path.stem)
def test_programs_survive_printing(path: Path) -> None:
    try:
        script = parse_script(path.read_text("utf-8"))
    except FinchError:
        return  # a program of a syntax error
    assert parse_script(pretty(script)) == script


@pytest.mark.slow
@pytest.mark.parametrize("path", [*EXAMPLES, *PROGRAMS[::6]], ids=lambda path: path.stem)
def test_programs_survive_formatting(path: Path) -> None:
    text = path.read_text("utf-8")
    try:
        parse_script(text)
    except FinchError:
        return
    done = checked_format(text)
    assert path.parent.name != "examples" or done == text
    if "#=" not in text and not re.search(r'"[^"\n]*\n[^"\n]*"', text):
        assert checked_format(re.sub(r"\n[ \t]+", "\n", text)) == done


def checked_format(text: str) -> str:
    """A text formatted: the same program and comments; doing it again changes nothing."""
    done = formatted(text, "a text")
    assert parse_script(done) == parse_script(text)
    assert formatted(done, "a text") == done
    comments = [[c.rstrip() for c in COMMENT.findall(t)] for t in (text, done)]
    assert comments[0] == comments[1] or "#=" in text
    return done


@pytest.mark.slow
@settings(max_examples=15)
@given(grown())
def test_grown_programs_survive_formatting(program: ast.Node) -> None:
    text = pretty(program)
    done = checked_format(text)
    if "\n" not in "".join(re.findall(r'"[^"]*"', text)):
        assert done == text.rstrip("\n") + "\n" * bool(text)  # the printer's ways are ours


@pytest.mark.parametrize(
    ("text", "done"),
    [("", ""), ("# nothing else", "# nothing else\n"), ("x=1\r\ny = 2\r\n", "x = 1\ny = 2\n")],
)
def test_line_ends_and_nothing(text: str, done: str) -> None:
    assert checked_format(text) == done


@pytest.mark.slow
def test_what_is_too_deep_to_be_run_is_formatted() -> None:
    """A sum of 20,000 terms, which nests as deep, and one that is wrong at its end."""
    terms = [f"x[{k}]" for k in range(20_000)]
    assert formatted("y=" + "+ ".join(terms)) == "y = " + " + ".join(terms) + "\n"
    for wrong in (
        "y=" + "+ ".join(terms) + " +",
        "\ufeff\ufeffy=1",
    ):  # one byte order mark is taken out
        with pytest.raises(FinchError) as caught:
            formatted(wrong)
        assert caught.value.kind == "syntax"


def test_nested_blocks_print_so_that_they_parse():
    statement = ast.Assign(ast.Access(ast.Variable("s"), ()), ast.Variable("+"), ast.Literal(1))
    program = ast.Block((ast.Block((statement, statement)), statement))
    assert parse_kernel(pretty(program)) == ast.Block((statement, statement, statement))


def test_what_no_source_can_say_prints_as_itself():
    class Fiber:
        def __str__(self):
            return "fiber(A, 3)"

    class Expression:
        def __repr__(self):
            return "n + 1"

    access = ast.Access(Fiber(), (ast.Index("i"), ast.Value(Expression())))
    assert pretty(access) == "fiber(A, 3)[i, n + 1]"
    assert (
        pretty(ast.Loop(ast.Index("i"), ast.Value(Expression()), ast.Block(())))
        == "for i = n + 1\nend"
    )


def test_sums_and_products_of_many_operands():
    many = ast.Call(ast.Variable("+"), (ast.Variable("a"), ast.Variable("b"), ast.Variable("c")))
    assert pretty(ast.Call(ast.Variable("*"), (many, ast.Variable("d")))) == "(a + b + c) * d"
