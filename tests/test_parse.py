"""The parser: every construct of both strata, the papers' listings, and what each fault is told."""

from __future__ import annotations

import logging
import math
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import lark
import pytest

import finchlang.grammar
from finchlang.source import FinchError
from finchlang.syntax import (
    MISSING,
    NOTHING,
    Access,
    Assign,
    Block,
    Break,
    Call,
    Colon,
    Continue,
    Declare,
    Define,
    Dimensionless,
    Extent,
    For,
    Freeze,
    Function,
    Group,
    If,
    Index,
    KernelNode,
    KeywordCall,
    Let,
    Literal,
    Loop,
    Macro,
    Mode,
    Node,
    Parametric,
    Range,
    Return,
    Rows,
    Script,
    Sieve,
    Subscript,
    Text,
    Thaw,
    Typed,
    Variable,
    While,
    Yield,
)
from finchlang.text.lines import Lines
from finchlang.text.parse import parse_kernel, parse_script
from finchlang.text.print import pretty
from finchlang.text.terminals import grammar
from finchlang.walk import walk

a, b, c, f, n, s, x, y, A, B = (
    Variable(v) for v in ("a", "b", "c", "f", "n", "s", "x", "y", "A", "B")
)
i, j = Index("i"), Index("j")
one, two, three = Literal(1), Literal(2), Literal(3)


def call(op: str, *args: Node) -> Call:
    return Call(Variable(op), args)


def expression(text: str) -> Node:
    """The script expression `text`."""
    (statement,) = parse_script(text).statements
    return statement


def value(text: str) -> Node:
    """The kernel expression `text`, within a loop over i and one over j."""
    loops = parse_kernel(f"for j = _, i = _; s[] = {text}; end")
    return loops.body.body.value


def same(left: str, right: str) -> bool:
    return expression(left) == expression(right)


# -------------------------------------------------------------------------------------- literals


@pytest.mark.parametrize(
    "text, expected",
    [
        ("1", Literal(1)),
        ("1_000", Literal(1000)),
        ("-3", Literal(-3)),
        ("- 3", Literal(-3)),
        ("1.0", Literal(1.0)),
        (".5", Literal(0.5)),
        ("2.", Literal(2.0)),
        ("1e-3", Literal(0.001)),
        ("1.5E+2", Literal(150.0)),
        ("1.0f0", Literal(1.0, "Float32")),
        ("0.1f0", Literal(0.10000000149011612, "Float32")),
        ("0x00", Literal(0, "UInt8")),
        ("0x0000", Literal(0, "UInt16")),
        ("0x123", Literal(0x123, "UInt16")),
        ("0xFFFFFFFF", Literal(0xFFFFFFFF, "UInt32")),
        ("0x0123456789abcdef", Literal(0x0123456789ABCDEF, "UInt64")),
        ("0b101", Literal(5, "UInt8")),
        ("Float32(0)", Literal(0.0, "Float32")),
        ("Int8(3)", Literal(3, "Int8")),
        ("Int8(-3)", Literal(-3, "Int8")),
        ("Bool(1)", Literal(True, "Bool")),
        ("UInt8(0x1)", Literal(1, "UInt8")),
        ("Float64(Inf)", Literal(math.inf, "Float64")),
        ("Inf", Literal(math.inf)),
        ("-Inf", Literal(-math.inf)),
        ("NaN", Literal(math.nan)),
        ("true", Literal(True)),
        ("false", Literal(False)),
        ("missing", Literal(MISSING)),
        ("nothing", Literal(NOTHING)),
        ("Float32(x)", call("Float32", x)),
        ("-(3)", call("-", three)),
        ("-0x01", call("-", Literal(1, "UInt8"))),
        ("+x", x),
    ],
)
def test_literals(text, expected):
    assert expression(text) == expected
    assert value(text) == expected


# ------------------------------------------------------------------------------------- operators


@pytest.mark.parametrize(
    "left, right",
    [
        ("a + b + c", "(a + b) + c"),
        ("a - b - c", "(a - b) - c"),
        ("a + b * c", "a + (b * c)"),
        ("a * b % c", "(a * b) % c"),
        ("a | b & c", "a | (b & c)"),
        ("a ⊻ b + c", "xor(a, b) + c"),
        ("a * b << c", "a * (b << c)"),
        ("a << b >> c", "(a << b) >> c"),
        ("-a << b", "(-a) << b"),
        ("-a^b", "-(a^b)"),
        ("-2^x", "-(2^x)"),
        ("2^-x", "2^(-x)"),
        ("a^b^c", "a^(b^c)"),
        ("!a == b", "(!a) == b"),
        ("~a + b", "(~a) + b"),
        ("a == b && c != n", "(a == b) && (c != n)"),
        ("a && b || c", "(a && b) || c"),
        ("a || b && c", "a || (b && c)"),
        ("a < b <= c", "a < b && b <= c"),
        ("a < b < c < n", "(a < b && b < c) && c < n"),
        ("a + 1 : b", "(a + 1):b"),
        ("a ≤ b", "a <= b"),
        ("a ≥ b", "a >= b"),
        ("a ≠ b", "a != b"),
        ("a ÷ b", "div(a, b)"),
        ("rem(a, b)", "a % b"),
        ("a ? b : c", "ifelse(a, b, c)"),
        ("a ? b ? 1 : 2 : c", "ifelse(a, ifelse(b, 1, 2), c)"),
        ("a ? b : c ? 1 : 2", "ifelse(a, b, ifelse(c, 1, 2))"),
        ("a || b ? x : y", "ifelse(a || b, x, y)"),
        ("a -b", "a - b"),
        ("a\n-b", "a; -b"),
    ],
)
def test_precedence(left, right):
    assert parse_script(left) == parse_script(right)


def test_operators_come_out_as_variables_named_by_their_sign():
    assert value("x - 1") == call("-", x, one)
    assert value("!x") == call("!", x)
    assert value("-x") == call("-", x)
    assert value("a && b") == call("&&", a, b)
    assert value("a > b") == call(">", a, b)
    assert value("a ÷ b") == call("div", a, b)


def test_a_range_in_the_middle_of_a_conditional_needs_parentheses():
    assert expression("a ? (1:2) : 3") == call("ifelse", a, Range(one, None, two), three)
    assert expression("a ? 1 : 2:3") == call("ifelse", a, one, Range(two, None, three))


# ---------------------------------------------------------------------------------------- kernels


@pytest.mark.parametrize("text", ["j = _, i = _", "j in _, i ∈ _"])
def test_a_comma_list_nests_from_left_to_right_and_has_one_end(text):
    body = Assign(Access(s, ()), Variable("+"), Access(A, (i, j)))
    loops = Loop(j, Dimensionless(), Loop(i, Dimensionless(), body))
    assert parse_kernel(f"for {text}\n    s[] += A[i, j]\nend") == loops


def test_extents():
    def extent(text):
        return parse_kernel(f"for i = {text}; end").extent

    assert extent("_") == Dimensionless()
    assert extent("1:n") == Extent(one, n)
    assert extent("a + 1:min(b, c)") == Extent(call("+", a, one), call("min", b, c))
    assert extent("n") == n
    assert extent("f(n, 1:3)") == call("f", n, Extent(one, three))


@pytest.mark.parametrize(
    "sign, op",
    [
        ("=", Variable("initwrite")),
        (":=", Variable("overwrite")),
        ("+=", Variable("+")),
        ("-=", Variable("-")),
        ("*=", Variable("*")),
        ("/=", Variable("/")),
        ("&=", Variable("&")),
        ("|=", Variable("|")),
        ("<<min>>=", Variable("min")),
        ("<< max >>=", Variable("max")),
        ("<<+>>=", Variable("+")),
        ("<<&&>>=", Variable("&&")),
        ("<<⊻>>=", Variable("xor")),
        ("<<<>>=", Variable("<")),
        ("<<choose(0)>>=", Call(Variable("choose"), (Literal(0),))),
    ],
)
def test_assignments(sign, op):
    assert parse_kernel(f"y[] {sign} x") == Assign(Access(y, ()), op, x)


def test_a_shift_is_not_taken_for_an_assignment_operator():
    program = parse_kernel("s[] = a << 2; s[] <<min>>= b >> 1")
    assert program.statements[0].value == call("<<", a, two)
    assert program.statements[1] == Assign(Access(s, ()), Variable("min"), call(">>", b, one))


def test_life_cycle_statements():
    text = "A .= 0.0\n@declare(B, 0, 1:n, 2)\n@freeze(A)\n@thaw(B)\nC := 0\nreturn (A, B)"
    assert parse_kernel(text).statements == (
        Declare(A, Literal(0.0)),
        Declare(B, Literal(0), (Extent(one, n), two)),
        Freeze(A),
        Thaw(B),
        Declare(Variable("C"), Literal(0)),  # as Fig 11 writes it
        Yield((A, B)),
    )


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


def test_types_and_modes():
    """VALUE and MODE of Fig 8a."""
    assert parse_kernel("s[] += x::Int") == Assign(
        Access(Variable("s"), ()), Variable("+"), Typed(Variable("x"), "Int64")
    )
    asked = Call(Variable("=="), (Mode(Variable("A")), Variable("read")))
    assert parse_kernel("if @mode(A) == read\nend") == Sieve(asked, Block(()))
    wrong = ("x::Float", "1::Int64", "A[1]::Int64", "@mode(A[1])", "@mode", "@mode()", "x::")
    for text in (*wrong, "2(1:3)", "for i = 1:2\ns[] += @mode(i)\nend"):
        with pytest.raises(FinchError) as error:
            parse_kernel(f"s[] += {text}" if "for" not in text else text)
        assert error.value.kind == "syntax" and error.value.span is not None


@pytest.mark.parametrize("text", ["return A", "return (A)", "return (A,)"])
def test_return(text):
    assert parse_kernel(text) == Yield((A,))


def test_let_nests():
    access = Assign(Access(s, ()), Variable("initwrite"), x)
    assert parse_kernel("let x = 1,\n    y = x\n s[] = x end") == Define(
        x, one, Define(y, x, access)
    )


def _set(number: int) -> Assign:
    return Assign(Access(s, ()), Variable("initwrite"), Literal(number))


def test_if_else_is_two_sieves():
    assert parse_kernel("if a; s[] = 1 end") == Sieve(a, _set(1))
    program = parse_kernel("if a; s[] = 1 else s[] = 2 end")
    assert program == Block((Sieve(a, _set(1)), Sieve(call("!", a), _set(2))))


def test_elseif():
    program = parse_kernel(
        "if a\ns[] = 1\nelseif b\ns[] = 2\nelseif c\ns[] = 3\nelse\ns[] = 4\nend"
    )
    last = Block((Sieve(c, _set(3)), Sieve(call("!", c), _set(4))))
    rest = Block((Sieve(b, _set(2)), Sieve(call("!", b), last)))
    assert program == Block((Sieve(a, _set(1)), Sieve(call("!", a), rest)))
    assert parse_kernel("if a\ns[] = 1\nelseif b\ns[] = 2\nend") == Block(
        (Sieve(a, _set(1)), Sieve(call("!", a), Sieve(b, _set(2))))
    )


@pytest.mark.parametrize(
    "text", ["begin s[] = 1; s[] = 2 end", "(s[] = 1; s[] = 2)", "(s[] = 1;\n s[] = 2;)"]
)
def test_blocks(text):
    assert parse_kernel(text) == Block((_set(1), _set(2)))


def test_blocks_are_flat():
    assert parse_kernel("begin\nbegin s[] = 1 end\nbegin\nend\ns[] = 2\nend") == Block(
        (_set(1), _set(2))
    )
    assert parse_kernel("begin end") == Block(())
    assert parse_kernel("begin s[] = 1 end") == _set(1)


def test_accesses():
    assert value("A[i, j]") == Access(A, (i, j))
    assert value("A[B[i] + 1, n]") == Access(A, (call("+", Access(B, (i,)), one), n))
    assert value("swizzle(A, 2, 1)[i, j]") == Access(call("swizzle", A, two, one), (i, j))
    assert value("UpTriMask()[i, j]") == Access(call("UpTriMask"), (i, j))
    assert value("window(A, 1:3)[i]") == Access(call("window", A, Extent(one, three)), (i,))


@pytest.mark.parametrize("name", ["walk", "gallop", "follow", "~"])
def test_index_modifiers(name):
    text = "~i" if name == "~" else f"{name}(i)"
    assert value(f"A[{text}]") == Access(A, (call(name, i),))
    assert value("A[~(i - 1)]") == Access(A, (call("~", call("-", i, one)),))
    assert value("A[(2:3)(i)]") == Access(A, (Call(Extent(two, three), (i,)),))


def test_names_bound_by_a_loop_are_indices_and_let_shadows_them():
    program = parse_kernel("for i = i; s[] += i + j; let i = i; s[] += i end end; s[] = i")
    loop, after = program.statements
    assert loop.extent == Variable("i")
    assert loop.body.statements[0].value == call("+", i, Variable("j"))
    assert loop.body.statements[1].value == i
    assert loop.body.statements[1].body.value == Variable("i")
    assert after.value == Variable("i")


def test_a_kernel_in_a_script():
    expected = KernelNode(Assign(Access(s, ()), Variable("+"), one))
    assert expression("@finch s[] += 1") == expected
    assert expression("@finch begin\n s[] += 1\nend") == expected
    assert expression("@finch (s[] += 1)") == expected
    assert expression("@finch(s[] += 1)") == expected
    assert expression("x = @finch begin s[] += 1 end") == Let((x,), None, expected)


# ---------------------------------------------------------------------------------------- scripts


@pytest.mark.parametrize(
    "text, expected",
    [
        ("x = 1", Let((x,), None, one)),
        ("x += 1", Let((x,), "+", one)),
        ("s[] = 3", Let((Subscript(s, ()),), None, three)),
        ("A[1, 2] = x", Let((Subscript(A, (one, two)),), None, x)),
        ("A[1] *= x", Let((Subscript(A, (one,)),), "*", x)),
        ("a, b = f(x)", Let((a, b), None, call("f", x))),
        ("(a, b) = f(x)", Let((a, b), None, call("f", x))),
        ("a, b = b, a", Let((a, b), None, Group((b, a)))),
        ("A[:, 1]", Subscript(A, (Colon(), one))),
        ("f(a; b = 1)", KeywordCall(f, (a,), (("b", one),))),
        ("f(a, b = 1, c = 2)", KeywordCall(f, (a,), (("b", one), ("c", two)))),
        ("f(; b = 1)", KeywordCall(f, (), (("b", one),))),
        ("Name{1, 2}(x)", Call(Parametric("Name", (one, two)), (x,))),
        ("1:n", Range(one, None, n)),
        ("1:2:n", Range(one, two, n)),
        ("()", Group(())),
        ("(a,)", Group((a,))),
        ("(a, b)", Group((a, b))),
        ("f(x) = x + 1", Function("f", ("x",), call("+", x, one))),
        ("function f(x, y)\nend", Function("f", ("x", "y"), Script(()))),
        ("function f() return end", Function("f", (), Script((Return(None),)))),
        ("return a, b", Return(Group((a, b)))),
        ("while x < 3\n x += 1\nend", While(call("<", x, three), Script((Let((x,), "+", one),)))),
        ("for x = 1:n\n break\nend", For("x", Range(one, None, n), Script((Break(),)))),
        ("for x in y continue end", For("x", y, Script((Continue(),)))),
        ("for x ∈ y end", For("x", y, Script(()))),
        ("for a = x, b = y end", For("a", x, Script((For("b", y, Script(())),)))),
        ("begin\na\nb\nend", Script((a, b))),
        ("@time f(x)", Macro("time", (call("f", x),))),
        ("@assert x == 1", Macro("assert", (call("==", x, one),))),
        ('@assert x "no"', Macro("assert", (x, Text(("no",))))),
        ('@assert(x, "no")', Macro("assert", (x, Text(("no",))))),
        ("f(@__DIR__)", call("f", Macro("__DIR__", ()))),
        ("f(a,\n  b\n)", call("f", a, b)),
        ("x = a +\n  b", Let((x,), None, call("+", a, b))),
        ("x =\n  a", Let((x,), None, a)),
    ],
)  # fmt: skip
def test_script_statements(text, expected):
    assert expression(text) == expected


def test_if_in_a_script():
    tree = expression("if a\n x\nelseif b\n y\nelse\n s\nend")
    assert tree == If(((a, Script((x,))), (b, Script((y,))), (Literal(True), Script((s,)))))


@pytest.mark.parametrize(
    "text, rows, is_matrix",
    [
        ("[]", (), False),
        ("[1, 2, 3]", ((1, 2, 3),), False),
        ("[1,\n 2,\n]", ((1, 2),), False),
        ("[1]", ((1,),), False),
        ("[1; 2]", ((1, 2),), False),
        ("[1 2 3]", ((1, 2, 3),), True),
        ("[1 2; 3 4]", ((1, 2), (3, 4)), True),
        ("[1 2;\n 3 4]", ((1, 2), (3, 4)), True),
        ("[\n 1 2\n 3 4\n]", ((1, 2), (3, 4)), True),
        ("[1 -2]", ((1, -2),), True),
        ("[1 - 2]", None, False),
        ("[1.0 -2.5; -3.0 4.0]", ((1.0, -2.5), (-3.0, 4.0)), True),
    ],
)
def test_array_literals(text, rows, is_matrix):
    if rows is None:
        assert expression(text) == Rows(((call("-", one, two),),), False)
    else:
        literals = tuple(tuple(Literal(v) for v in row) for row in rows)
        assert expression(text) == Rows(literals, is_matrix)


def test_elements_of_a_matrix_are_expressions():
    row = (x, call("-", x), call("f", x), Subscript(A, (one,)), call("+", x, y), Group((x, y)))
    assert expression("[x -x f(x) A[1] x + y (x, y)]") == Rows((row,), True)


@pytest.mark.parametrize(
    "text, parts",
    [
        ('""', ()),
        ('"plain"', ("plain",)),
        ('"n = $n, $(a + b)!"', ("n = ", n, ", ", call("+", a, b), "!")),
        ('"$n$a"', (n, a)),
        (r'"a\n\t\"\\\$n"', ('a\n\t"\\$n',)),
        (r'"\u00e9\x41"', ("éA",)),
        ('"$(f("x)"))"', (call("f", Text(("x)",))),)),
        ('"two\nlines"', ("two\nlines",)),
        ('"# no comment"', ("# no comment",)),
    ],
)
def test_strings(text, parts):
    assert expression(text) == Text(parts)


def test_what_stands_in_a_string_has_its_place():
    text = expression('"two\nlines $(a + b) $n"')
    spans = [(p.span.line, p.span.column) for p in text.parts if isinstance(p, Node)]
    assert spans == [(2, 9), (2, 17)]


# ----------------------------------------------------------------------------------------- layout


def test_separators_comments_and_encodings():
    expected = parse_script("x = 1\ny = 2")
    assert parse_script("\n\n x = 1 ;; # c\n\n#= a\n #= nested =# b\n=# y = 2;\n\n") == expected
    assert parse_script("\ufeffx = 1\r\ny = 2\r\n") == expected
    assert parse_script("x = 1 #= in between =#; y = #= again =# 2") == expected
    assert parse_script('z = "#= text =#"').statements[0].value == Text(("#= text =#",))
    assert parse_script("y = 1#= x =#; x=#= c =#1") == parse_script("y = 1; x = 1")
    assert parse_script("") == parse_script("# nothing\n\n") == Script(())


def test_statements_may_stand_in_the_line_of_their_head():
    text = "for j = _; for i = _; s[] += A[i, j] end end"  # Finch'25 section 5.1
    assert parse_kernel(text) == parse_kernel("for j = _, i = _ s[] += A[i, j] end")
    assert parse_kernel("if x s[] = 1 else s[] = 2 end") == parse_kernel(
        "if x\ns[] = 1\nelse\ns[] = 2\nend"
    )


def test_names():
    names = ("α", "_F", "push!", "Δx₁", "x_1", "input", "ending", "Info")
    for name in names:
        assert expression(name) == Variable(name)
    assert expression("a!=b") == call("!=", a, b)


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


# ------------------------------------------------------------------------------------ the parser


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


def test_deep_nesting_is_an_error_of_the_user():
    with pytest.raises(FinchError) as caught:
        parse_kernel("s[] = " + "-(" * 5000 + "x" + ")" * 5000)
    assert caught.value.kind == "resource"


def test_the_cache_may_be_damaged_or_not_writable(tmp_path):
    folder = tmp_path / "cache"
    script = "from finchlang.text.parse import parse_script; print(parse_script('x = 1'))"
    environment = {**os.environ, "FINCH_CACHE_DIR": str(folder)}
    root = str(Path(__file__).parent.parent)

    def run() -> str:
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True)
        assert done.returncode == 0 and done.stderr == ""
        return done.stdout

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


def _examples() -> list[str]:
    reference = Path(finchlang.grammar.__path__[0]) / "REFERENCE.md"
    text = re.sub(r"(?ms)^```python$.*?^```$", "", reference.read_text("utf-8"))
    blocks = re.findall(r"(?m)(?:^    .*\n|^\n)+", text)
    examples = [b for b in map(textwrap.dedent, blocks) if b.strip()]
    return [
        b for b in examples if not re.search(r" (error|note): |(?m:^(import |@finchlang\.))", b)
    ]


@pytest.mark.parametrize("example", _examples())
def test_examples_of_the_reference_parse(example):
    assert parse_script(example).statements
