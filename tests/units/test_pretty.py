"""The printer: what it prints parses back to the same tree, with no needless parentheses; and `finch fmt`:
the same program in the usual way of writing, whatever way it came in."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from strategies import kernel_expressions, kernels, script_expressions, scripts

from finchlang.source import FinchError
from finchlang.syntax import Access, Assign, Block, Call, Index, Literal, Loop, Value, Variable
from finchlang.text.format import formatted
from finchlang.text.parse import parse_kernel, parse_script
from finchlang.text.print import pretty

thorough = settings(
    max_examples=100 if os.environ.get("CI") else 40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


@pytest.mark.slow
@thorough
@given(kernels())
def test_kernels_survive_printing(program):
    assert parse_kernel(pretty(program)) == program


@pytest.mark.slow
@thorough
@given(scripts())
def test_scripts_survive_printing(program):
    assert parse_script(pretty(program)) == program


@pytest.mark.slow
@thorough
@given(script_expressions(16))
def test_script_expressions_survive_printing(expression):
    assert parse_script(pretty(expression)).statements == (expression,)


@pytest.mark.slow
@thorough
@given(kernel_expressions((), 16))
def test_kernel_expressions_survive_printing(expression):
    assert parse_kernel(f"s[] = {pretty(expression)}").value == expression


ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.finch"))
PROGRAMS = sorted((ROOT / "tests/programs").rglob("*.finch"))
COMMENT = re.compile(r"#[^\n]*")


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
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
@settings(max_examples=8, deadline=None)
@given(scripts())
def test_scripts_survive_formatting(program):
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
    with pytest.raises(FinchError) as caught:
        formatted("y=" + "+ ".join(terms) + " +")
    assert caught.value.kind == "syntax"


@pytest.mark.parametrize(
    "text",
    [
        "(a + b) * c",
        "a + b * c",
        "a - (b - c)",
        "a - b - c",
        "(-2)^2",
        "-2^x",
        "-(2)",
        "-(-x)",
        "-x^2",
        "2^-x",
        "(a^b)^c",
        "a^b^c",
        "!(a && b)",
        "!a && b",
        "(a < b) == c",
        "a < b && b < c",
        "(a || b) && c",
        "a & b | c",
        "~(a | b)",
        "(a + b) << 2",
        "choose(0)(a, b)",
        "A[~(i - 1), (2:3)(j), gallop(k)]",
        "window(A, 1:3)[i]",
        "Float32(0.1)",
        "0x00ff",
        "-0.0",
        "1.0e-20",
    ],
)
def test_parentheses_and_numbers_are_minimal(text):
    assert pretty(parse_kernel(f"s[] = {text}").value) == text.replace("1.0e", "1e")


@pytest.mark.parametrize(
    "text",
    [
        "begin\n    a\nend\nb",
        "function f(x, y)\n    while true\n        break\n    end\n    return\nend",
        "f(x) = x + 1",
        "a, A[1, :] = (1, 2)",
        "x += f(a, k = 1:2:9)",
        "if a\n    b\nelseif c\n    x\nelse\n    y\nend",
        'println("n = $n, $(a + b)\\n\\\\ \\$")',
        "m = [1 -2; 3 f(x)]\nv = [1, 2]",
        'p = ShortCircuitScalar{0}()\n@assert p "message"',
        "C = @finch begin\n    C .= 0\n    for j = _\n        for i = 1:n\n            "
        "if i <= j\n                C[i, j] <<choose(0)>>= A[i, j]\n            end\n        end\n"
        "    end\n    return C\nend",
        "@finch let x = A[1]\n    s[] = x\nend",
        "@finch @declare(A, 0, 1:n)",
        "@time y = 3"[6:],
        "@time @finch s[] += 1",
        "@workspace C policy=hash capacity=64\n@workspace D capacity=1\n@finch s[] += 1",
        "x = @schedule reorder(k, i)\n@schedule split(i, i0, i1, 4)\n@finch s[] += 1",
        "@schedule precompute(B[i, k] * f(x), (i, j), W)\n@finch for i = _\n    s[] += B[i]\nend",
    ],
)
def test_scripts_in_this_form_print_as_they_are(text):
    assert pretty(parse_script(text)) == text


def test_nested_blocks_print_so_that_they_parse():
    statement = Assign(Access(Variable("s"), ()), Variable("+"), Literal(1))
    program = Block((Block((statement, statement)), statement))
    assert parse_kernel(pretty(program)) == Block((statement, statement, statement))


def test_what_no_source_can_say_prints_as_itself():
    class Fiber:
        def __str__(self):
            return "fiber(A, 3)"

    class Expression:
        def __repr__(self):
            return "n + 1"

    access = Access(Fiber(), (Index("i"), Value(Expression())))
    assert pretty(access) == "fiber(A, 3)[i, n + 1]"
    assert pretty(Loop(Index("i"), Value(Expression()), Block(()))) == "for i = n + 1\nend"


def test_sums_and_products_of_many_operands():
    many = Call(Variable("+"), (Variable("a"), Variable("b"), Variable("c")))
    assert pretty(Call(Variable("*"), (many, Variable("d")))) == "(a + b + c) * d"
