"""Syntax errors: each fault is told with its place, in its writer's terms."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from finchlang.source import FinchError
from finchlang.text.parse import is_incomplete, parse_kernel, parse_script
from finchlang.text.print import pretty

SCRIPT = "`{}` belongs to the script stratum; inside a kernel use "
FUNCTION = "`@finch` inside a function of the script"
DECLARE = "`@declare` is written `@declare(A, init, dims...)` with a tensor's name"
TRANSPOSED = "text is written in double quotes; a transposed tensor is `swizzle(A, 2, 1)`"
UNCLOSED = "@finch for i = _\n s[] += 1\nprintln(s)\nx = 1"
NO_STATEMENT = "an expression is no statement of a kernel, which assigns: `s[] += ...`"
SCRIPT_FAULTS = [
    ("for i = 1:3\n  x\n", 1, 1, "this `for` is not closed by an `end`"),
    ("for i = 1:3\n  for j = 1:3\n    x\nend\n", 2, 3, "this `for` is not closed by an `end`"),
    ("f(begin\n x)", 1, 3, "`begin` is a word of the language, not a name"),
    ("x = 3\nend", 2, 1, "this `end` closes nothing"),
    ("else", 1, 1, "this `else` belongs to no `if`"),
    ("if x\nelse\nelseif y\nend", 3, 1, "this `elseif` comes after the `else`"),
    ("if x = 3\nend", 1, 6, "`=` assigns, and has no place in the condition of `if`"),
    ("while x = 3\nend", 1, 9, "`=` assigns, and has no place in the condition of `while`"),
    ('x = "abc', 1, 5, 'this string is not closed by a `"`'),
    ("y = 1\nx = f(1, 2", 2, 6, "this `(` is not closed by a `)`"),
    ("x = [1, 2", 1, 5, "this `[` is not closed by a `]`"),
    ("f(1]", 1, 4, "`(` is closed by `)`, not `]`"),
    ("f(1))", 1, 5, "this `)` closes nothing"),
    ("#= a\n#= b =#", 1, 1, "this `#=` is not closed by a `=#`"),
    ("@tiem f()", 1, 1, "unknown macro `@tiem`"),
    ("@freeze(A)", 1, 1, "`@freeze` belongs to kernels"),
    ("f(@time x)", 1, 3, "`@time` stands at the start of a statement or right of `=`"),
    ("A .= 0", 1, 3, "`.=` belongs to kernels"),
    ("x = 3 § 4", 1, 7, "unknown character `§`"),
    ("x.y", 1, 2, "there is no member access"),
    ("x = 0xZZ", 1, 5, "`0xZZ` is not a number"),
    ("x = 1__0", 1, 5, "`1__0` is not a number"),
    ("x = 9223372036854775808", 1, 5, "`9223372036854775808` is not a number"),
    ("x = 0x11112222333344445", 1, 5, "`0x11112222333344445` is not a number"),
    ("x = Int8(300)", 1, 10, "Int8 cannot hold 300"),
    ("x = Int8(1.5)", 1, 10, "Int8 cannot hold 1.5"),
    ("for i\n x\nend", 1, 5, "a `for` needs `=` and what it runs over"),
    ("for = 3 end", 1, 1, "a name must follow `for`"),
    ("function f\nend", 1, 10, "a function's head is its name and its parameters"),
    ("f(1) = 3", 1, 3, "a parameter must be a name"),
    ("x = 3 4", 1, 7, "an operator is missing before `4`"),
    ("f (x)", 1, 3, "an operator is missing before `(`"),
    ("x = 2(1:3)", 1, 6, "a range is no factor"),
    ("3 = x", 1, 3, "this cannot be assigned to"),
    ("f(x)[1] = 2", 1, 1, "this cannot be assigned to"),
    ("f(k = 1, 2)", 1, 1, "an argument without a name follows one with"),
    ("x &&= true", 1, 3, "`&&=` is not an assignment"),
    ("x = a ? b", 1, 10, "the statement ends too early"),
    ('x = "a $ b"', 1, 8, "a name or `(` must follow `$` in a string"),
    ('x = "a $( )"', 1, 10, "an expression is expected here"),
    ('x = "a $(1 + )"', 1, 13, "the text ends after `+`, where more must follow"),
    (r'x = "\q"', 1, 6, r"unknown escape `\q` in a string"),
    ("[1 2; 3]", 1, 7, "this row has 1 elements, the first one has 2"),
    ("x = 1 +\n", 1, 8, "the text ends after `+`, where more must follow"),
    ("f(1,,2)", 1, 5, "an expression is expected after `,`"),
    ("x = for", 1, 5, "`for` is a word of the language, not a name"),
    ("x = _", 1, 5, "`_` has no value"),
    ("break 3", 1, 7, "`3` is not expected here"),
]
KERNEL_FAULTS = [
    ("x += 1", 1, 1, "a kernel assigns to accesses like `x[]`"),
    ("F = false", 1, 1, "a kernel assigns to accesses like `F[]`"),
    ("f(x) = 1", 1, 1, "a kernel assigns to accesses like `x[i]` or `x[]`"),
    ("A[i]", 1, 1, NO_STATEMENT),
    ("println(x)", 1, 1, NO_STATEMENT),
    ("A[i] + 1", 1, 1, NO_STATEMENT),
    ("A[i] ^= 2", 1, 6, "`^=` is not an assignment of kernels"),
    ("s[] <<3>>= 2", 1, 7, "`3` is not an operator"),
    ("for i = _\n  while x\n  end\nend", 2, 3, SCRIPT.format("while") + "a `for` with its extent"),
    ("break", 1, 1, SCRIPT.format("break") + "a ShortCircuitScalar, which ends a loop early"),
    ("continue", 1, 1, SCRIPT.format("continue") + "an `if` around the rest of the body"),
    (
        "function f() end",
        1,
        1,
        SCRIPT.format("function") + "`@finch` inside a function of the script",
    ),
    ("@time s[] = 1", 1, 1, "`@time` belongs to the script stratum"),
    ("@freez(A)", 1, 1, "unknown macro `@freez`"),
    ("@freeze()", 1, 9, "`@freeze` is written `@freeze(A)` with a tensor's name"),
    ("@thaw(A, B)", 1, 8, "`@thaw` is written `@thaw(A)` with a tensor's name"),
    (
        "@declare(A)",
        1,
        11,
        "`@declare` is written `@declare(A, init, dims...)` with a tensor's name",
    ),
    ("@freeze A", 1, 9, "`@freeze` is written `@freeze(A)` with a tensor's name"),
    ("@declare(A, 0, f(1 1))", 1, 20, "an operator is missing before `1`"),
    ("for i\nend", 1, 5, "a `for` needs `=` and what it runs over"),
    ("let\nend", 1, 1, "a `let` needs a binding"),
    ("let x\nend", 1, 5, "a `let` needs a binding"),
    ("A[i] = B[walk()]", 1, 10, "the index modifier `walk` takes one index"),
    ("A[(1:3)()] = 2", 1, 3, "the index modifier `(a:b)` takes one index"),
    ("A[:] = 1", 1, 3, "`:` is not an index of kernels"),
    ("A[1:3] = 1", 1, 3, "a range has no place here"),
    ("for i = 1:2:9\nend", 1, 9, "a range in a kernel has no step"),
    ('s[] += "x"', 1, 8, "a string has no place in a kernel"),
    ("s[] = [1, 2]", 1, 7, "an array literal has no place in a kernel"),
    ("s[] = (1, 2)", 1, 7, "a tuple has no place in a kernel"),
    ("s[] = f(k = 3)", 1, 7, "a keyword argument has no place in a kernel"),
    ("s[] = F{1}(3)", 1, 7, "a parametrised constructor has no place in a kernel"),
    ("return 3", 1, 8, "a kernel returns tensors by name"),
    ("return x; s[] = 1", 1, 1, "`return` is the last statement of a kernel"),
    ("for i = _\n  return x\nend", 2, 3, "`return` is the last statement of a kernel"),
    ("for i = _\n  i[1] = 2\nend", 2, 3, "`i` is a loop's index here, not a tensor"),
    ("A[i][j] = 1", 1, 1, "only tensors and wrappers can be accessed"),
    ("A[1] .= 3", 1, 1, "`.=` declares a tensor by its name"),
    ("s[] = _", 1, 7, "`_` has no value"),
    ("(s[] = 1; s[] = 2", 1, 1, "this `(` is not closed by a `)`"),
]


@pytest.mark.parametrize("text, line, column, message", SCRIPT_FAULTS)
def test_faults_in_scripts(text, line, column, message):
    _check_fault(parse_script, text, line, column, message)


@pytest.mark.parametrize("text, line, column, message", KERNEL_FAULTS)
def test_faults_in_kernels(text, line, column, message):
    _check_fault(parse_kernel, text, line, column, message)
    if "\n" not in text and ";" not in text:  # the same in its place in a script
        with pytest.raises(FinchError) as caught:
            parse_script("x = 1\n@finch " + text)
        assert caught.value.message == message
        assert (caught.value.span.line, caught.value.span.column) == (2, column + 7)


def _check_fault(parse, text, line, column, message):
    with pytest.raises(FinchError) as caught:
        parse(text, "there.finch")
    error = caught.value
    assert error.message == message
    assert error.kind == "syntax"
    assert (error.span.line, error.span.column) == (line, column)
    assert error.render().startswith(f"there.finch:{line}:{column}: syntax error: {message}\n")


@pytest.mark.parametrize(
    "parse, text, hint",
    [
        (parse_script, "@finhc begin end", "did you mean `@finch`?"),
        (parse_kernel, "@freez(A)", "did you mean `@freeze`?"),
        (parse_script, "if x = 3 end", "equality is written `==`"),
        (parse_kernel, "A[i] &&= x", "logical assignment is written `<<&&>>=`"),
        (parse_kernel, "A[i] ^= x", "write `<<^>>=`"),
        (
            parse_script,
            "@finch for i = _\n s[] += 1\nprintln(s)\nx = 1",
            "is an `end` missing for the `for` in line 1?",
        ),
    ],
)
def test_hints(parse, text, hint):
    with pytest.raises(FinchError) as caught:
        parse(text)
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    "text, incomplete",
    [
        ("", False),
        ("x = 1", False),
        ("x = 1 +", True),
        ("f(a,", True),
        ("x = [1 2", True),
        ('x = "abc', True),
        ("#= a comment", True),
        ("@finch begin", True),
        ("@finch begin\n for i = _\n end", True),
        ("@finch begin\n for i = _\n end\nend", False),
        ("if x", True),
        ("if x\nelse", True),
        ("function f(x)", True),
        ("x = = 1\nbegin", False),
        ("end", False),
        ("f(]", False),
        ("x ? y", False),
        ("@schedule reorder(k, i)", True),
        ("@workspace C policy=hash\n", True),
        ("@schedule reorder(k, i)\nx = 1", False),
        ("@schedule reorder(k, i)\n@finch s[] = 1", False),
    ],
)
def test_is_incomplete(text, incomplete):
    assert is_incomplete(text) == incomplete


# fmt: off
PIECES = [
    "for", "i", "=", "_", "in", "end", "if", "else", "elseif", "let", "begin", "function", "f(",
    "(", ")", "[", "]", "{", "}", ",", ";", "\n", ":", "?", "+", "-", "*", "^", "<", "==", "&&",
    "!", "~", "1", "2.5", "0x1", '"s$x"', '"', "@finch", "@freeze", "@declare", "@time", "@foo",
    "@assert", ".=", ":=", "+=", "<<min>>=", "<<", "return", "break", "while", "A[", "A[i] = ",
    "s[] += ", "#=", "=#", "#c\n", "'", ".", "Inf", "Float32(", "$", "\\", "÷", "α", "%=",
    "for i = _\n", "x = 1\n", "A .= 0\n",
]
# fmt: on


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(["", " "])), max_size=12))
def test_any_text_is_a_program_or_a_syntax_error_with_a_place(pieces):
    text = "".join(piece + blank for piece, blank in pieces)
    for parse in (parse_script, parse_kernel):
        try:
            program = parse(text)
        except FinchError as error:
            assert error.kind == "syntax"
            lines = text.split("\n")
            assert 1 <= error.span.line <= len(lines)
            assert 1 <= error.span.column <= len(lines[error.span.line - 1]) + 1
            assert error.render()
        else:
            assert parse(pretty(program)) == program
