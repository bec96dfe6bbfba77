"""A hundred mistakes: what is said of each, that its carets stand on the culprit, and that hints help."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

import pytest

from finchlang.session import Session
from finchlang.source import FinchError, Source
from finchlang.text.parse import parse_kernel, parse_script
from finchlang.text.recovery import syntax_errors

#: the text of each, and what the carets stand on
PYTHON = [
    ("import numpy as np", "import"),
    ("from math import sqrt", "from"),
    ("def f(x):\n    return x", "def"),
    ("x = 3\nif x > 2:\n    println(x)", ":"),
    ("if true\n  x = 1\nelif false\n  x = 2\nend", "elif"),
    ("while true:\n  x = 1", ":"),
    ("x = True", "True"),
    ("x = None", "None"),
    ("x = 1; y = x > 0 and x < 2", "and"),
    ("x = 1; y = x > 2 or x < 2", "or"),
    ("x = true; y = not x", "not"),
    ("x = 1; y = x is 1", "is"),
    ("x = 2 ** 3", "**"),
    ("x = 7 // 2", "//"),
    ("d = {1: 2}", "{1: 2}"),
    ("s = {1, 2}", "{1, 2}"),
    ("x = 'text'", "'text'"),
    ("f = lambda x: x + 1", "lambda"),
    ("x = 3; y = 1 if x > 2 else 0", "if"),
    ("assert 1 == 1", "assert"),
    ('print "a"', "print"),
    ("x = len([1, 2])", "len"),
    ("pass", "pass"),
    ("x = 1\ndel x", "del"),
    ("A = [1, 2]; n = A.shape", ".shape"),
    ("A = [1.0 2.0]; B = A.T", ".T"),
    ("A = [1, 2]; s = A.sum()", ".sum"),
    ("x = np.zeros(3)", "np"),
    ('x = f"{y}"', "f"),
    ('x = """text"""', '"""'),
    ("A = [1 2]; B = [1 2]; C = A @ B", "@"),
    ("x = [1, 2, 3]; y = x[1:]", ":"),
    ("x = [1, 2, 3]; y = x[-1]", "x[-1]"),
    ("x = inf", "inf"),
    ("raise ValueError", "raise"),
]
JULIA = [
    ("export f", "export"),
    ("const x = 3", "const"),
    ("struct P\n  x\nend", "struct"),
    ("mutable struct P\n  x\nend", "mutable struct"),
    ("module M\nend", "module"),
    ("function f(x) where T\n  x\nend", "where T"),
    ("x = 1; y = x === 1", "==="),
    ("x = :symbol", ":symbol"),
    ("macro m(x)\n  x\nend", "macro"),
    ("@test 1 == 1", "@test"),
    ("@btime sum([1, 2])", "@btime"),
    ("@inbounds x = 1", "@inbounds"),
    ("A = [1.0 2.0; 3.0 4.0]\n@tensor C[i, j] := A[i, k] * A[k, j]", "@tensor"),
    ("A = [1.0 2.0; 3.0 4.0]\n@einsum C[i, j] := A[i, k] * A[k, j]", ":="),
    ("x = Vector{Float64}(3)", "Vector"),
    ("abstract type T end", "abstract type"),
    ("x := 3", ":="),
    ("A = [1 2]; A .= 0", ".="),
    ("f = function (x)\n  x\nend", "function"),
    ("@finch_code for i = _\nend", "@finch_code"),
]
OTHERS = [
    ("x = 1\nx++", "++"),
    ("x = 1\nx--", "--"),
    ("if (1 == 1) { x = 2 }", "{"),
    ("for (i = 0; i < 3; i++) { }", "for (i = 0; i < 3; i++) { }"),
    ("// a comment", "//"),
    ("/* a comment */", "/*"),
    ("% a comment", "%"),
    ("int x = 3", "int"),
    ("var x = 3", "var"),
    ("x <- 3", "<-"),
    ("x = null", "null"),
    ("if true\n  x = 1\nendif", "endif"),
    ("f = (x) => x", "=>"),
]
SCRIPTS = [
    ("for i = _\n  println(i)\nend", "_"),
    ("println(1)\nprinln(2)", "prinln"),
    ("x = 3 4", "4"),
    ("if 1 = 2\nend", "="),
    ("x = [1, 2, 3\ny = 3", "["),
    ('println("a"', "("),
    ('x = "abc', '"'),
    ("for i = 1:3\n  for j = 1:3\n    x = i\nend", "for"),
    ("A = [1 2; 3]", "3"),
    ('x = 1 + "a"', '1 + "a"'),
    ("x = [1, 2] + [1, 2, 3]", "[1, 2] + [1, 2, 3]"),
    ("if 3\n  x = 1\nend", "3"),
    ("x = 1 ÷ 0", "1 ÷ 0"),
    ("x = 7 % 0", "7 % 0"),
    ("x = 2^-1", "2^-1"),
    ("A = Tensor(SparseLst(Element(0.0)), 3)", "SparseLst"),
    ("f(x) = g(x) + 1\ng(x) = x + y\nf(3)", "y"),
    ("f(x) = x\nf(1, 2)", "f(1, 2)"),
    ('A = fread("nowhere.mtx")', 'fread("nowhere.mtx")'),
]
KERNELS = [
    ("A = [1.0]\n@finch for i = _; y[i] = A[i] end", "y"),
    ("A = [1.0]; s = 0.0\n@finch for i = _; s[] += A[i] end", "s"),
    ("A = [1.0]; s = 0.0\n@finch for i = _; s += A[i] end", "s"),
    ("y = zeros(2)\n@finch for i = _; y(i) = 3 end", "y(i)"),
    ("y = zeros(2)\n@finch for i = _, i = _\n  y[i] = 1\nend", "i"),
    ("y = zeros(2)\n@finch for i = _:\n  y[i] = 1\nend", ":"),
    ("y = zeros(2)\n@finch for i in range(2); y[i] = 1 end", "range"),
    ("x = (1, 2); y = zeros(2)\n@finch for i = _; y[i] = x[i] end", "x"),
    ('x = "ab"; y = zeros(2)\n@finch for i = _; y[i] = x[i] end', "x"),
    ("y = zeros(2)\n@finch for i = _; y[j] = 1 end", "j"),
    ("y = zeros(2)\n@finch for i = _; y[i] = h(i) end", "h"),
    ("y = zeros(2)\n@finch for i = _; y[i] = sum(i) end", "sum"),
    ("A = [1 2]; y = zeros(2)\n@finch for i = _; y[i] = A[i] end", "A[i]"),
    ("A = [1.0]; y = zeros(3)\n@finch for i = _; y[i] = A[i] end", "i"),
    (
        "A = [1.0 2.0]; C = Tensor(Dense(SparseList(Element(0.0))))\n@finch for j = _, i = _; C[i, j] = A[i, j] end",  # noqa: E501
        "j",
    ),
    ("y = zeros(2)\n@finch for i = _\n  while true\n  end\nend", "while"),
    ("y = Tensor(SparseList(Element(0.0)), 3)\n@finch y .= 1", "1"),
    (
        "A = [1 2; 3 4]; C = Tensor(Dense(SparseList(Element(0))))\n@finch begin\n  C .= 0\n  for i = _, j = _\n    C[i, j] = A[i, j]\n  end\nend",  # noqa: E501
        "C[i, j]",
    ),
    (
        "A = [1 2; 3 4]; c = Tensor(SparseList(Element(0)))\n@finch begin\n  c .= 0\n  for k = _, i = _\n    c[i] += A[i, k]\n  end\nend",  # noqa: E501
        "c[i]",
    ),
    ("y = [1, 2]; z = [0, 1]; w = [0, 0]\n@finch for i = _; w[i] = y[i] ÷ z[i] end", "y[i] ÷ z[i]"),
]
GROUPS = {
    "python": PYTHON,
    "julia": JULIA,
    "others": OTHERS,
    "scripts": SCRIPTS,
    "kernels": KERNELS,
}
ALL = [(text, culprit) for cases in GROUPS.values() for text, culprit in cases]


@cache
def error_of(text: str) -> FinchError:
    with pytest.raises(FinchError) as caught:
        Session(output=lambda _: None, workspaces=False).run(text, "mistake.finch")
    return caught.value


def test_there_are_a_hundred() -> None:
    assert len({text for text, _ in ALL}) >= 100


@pytest.mark.parametrize("group", GROUPS)
def test_what_is_said(golden: Callable[[str, str], None], group: str) -> None:
    said = [f"{text}\n-----\n{error_of(text)}\n" for text, _ in GROUPS[group]]
    golden(f"mistakes/{group}.txt", "\n".join(said))


@pytest.mark.parametrize(("text", "culprit"), ALL)
def test_carets_stand_on_the_culprit(text: str, culprit: str) -> None:
    span = error_of(text).span
    assert span is not None and span.text == culprit


@pytest.mark.parametrize("text", [text for text, _ in ALL])
def test_hints_are_other_texts_than_what_was_typed_and_parse(text: str) -> None:
    hint = error_of(text).hint or ""
    codes = re.findall(r"`([^`]+)`", hint)
    assert hint.strip() != text.strip() and not ({*codes} - {"end"}) & {text, *text.split("\n")}
    for code in re.findall(r"write `([^`]+)`", hint):
        assert parses(code), f"{code!r} is no program"


def parses(code: str) -> bool:
    """Whether a text parses as it stands, or with what belongs where it has dots."""
    for dots in (" ... ", "\n"), ("...", "1"):
        for more in "", "\nend":
            for parse in parse_script, parse_kernel:
                try:
                    parse(code.replace(*dots) + more)
                except FinchError:
                    continue
                return True
    return False


def test_independent_errors_come_together() -> None:
    text = "import numpy\nx = 3\ndef f(x):\n    return x ** 2\nfor i = 1:3\n    y = 'a'\nend\nz = 2 +* 3\n"
    found = syntax_errors(Source(text, "mistakes.finch"))
    assert [error.span and error.span.line for error in found] == [1, 3, 6, 8]
    with pytest.raises(FinchError) as caught:
        Session().run(text, "mistakes.finch")
    assert str(caught.value) == "\n".join(error.render() for error in found)
    assert syntax_errors(Source("x = 1\n")) == []
    assert len(syntax_errors(Source("function f(x)\n    x = = 2\nend\nend\n"))) == 1


CHECKED = """\
function f(a)
    b = a + zz
    @finch for i = _
        y[i] = a[i] + qq
    end
    b
end
A = [1.0, 2.0]
s = Scalar(0.0)
@finch for i = _
    s[] += A[i, i]
end
t = s[] + 1
@finch for i = _
    s[] += nothere[i]
end
if false
    println(neither)
end
"""


def test_all_of_a_file_is_checked() -> None:
    """Also functions and branches that do not run; what follows from an error is none."""
    with pytest.raises(FinchError) as caught:
        Session("check").run(CHECKED)
    found = [caught.value, *caught.value.others]
    said = [(e.span.line, e.kind) for e in found if e.span is not None]
    name = "unknown name"
    assert said == [(2, name), (4, name), (4, name), (11, "dimension"), (15, name), (18, name)]


def test_the_calls_that_led_to_an_error() -> None:
    error = error_of("f(x) = g(x) + 1\ng(x) = x + y\nf(3)")
    assert "in `g` called at 1:8, in `f` called at 3:1" in error.render()
    deep = error_of("f(x) = x == 0 ? 1 ÷ 0 : f(x - 1)\nf(20)").render()
    assert "in `f` called at 1:25, in 17 more calls, in `f` called at 2:1" in deep


@pytest.mark.parametrize(
    ("text", "column", "width"),
    [
        ("\tx = nope", 8, 4),
        ('x = "日本語"; y = nope', 18, 4),
        ('x = "e\u0301"; y = nope', 13, 4),
        ("if true\n  \tx = nope\nend", 8, 4),
    ],
)
def test_carets_stand_by_display_width(text: str, column: int, width: int) -> None:
    line = error_of(text).render().split("\n")[2]
    assert line == " " * (len("1 | ") + column) + "^" * width


@pytest.mark.parametrize("text", ["if x > 2:", "for i in x:", "x++", "x = 'abc'", "def f(x):"])
def test_what_is_never_right_is_not_waited_for(text: str) -> None:
    """At the prompt a line that begins as another language has it is an error at once."""
    with pytest.raises(FinchError) as caught:
        parse_script(text)
    assert type(caught.value) is FinchError
