"""Shape operators in normal form: what the passes make of them, and what they refuse."""

from __future__ import annotations

import pytest

from finchlang.normalize import Context, stages
from finchlang.source import FinchError
from finchlang.tensors.formats import parse_format
from finchlang.text.parse import parse_kernel
from finchlang.text.print import pretty
from finchlang.types import Int64

pytestmark = pytest.mark.checked

MATRIX, VECTOR = "Dense(SparseList(Element(0.0)))", "SparseList(Element(0.0))"
FORMATS = {
    **dict.fromkeys("ABC", MATRIX),
    **dict.fromkeys("vwc", VECTOR),
    "D": "Dense(Dense(Element(0.0)))",
    "F": "Dense(SparseList(Element(Float32(0))))",
    "T": "Dense(SparseList(SparseList(Element(0.0))))",
    "E": "Dense(Dense(SparseList(Element(0.0))))",
    "s": "Element(0.0)",
}


def context() -> Context:
    formats = {name: parse_format(format) for name, format in FORMATS.items()}
    return Context({**formats, "m": Int64, "n": Int64})


def passed(text: str, name: str = "shapes") -> str:
    """The program after a pass; what each pass gives must parse to the same program."""
    found = ""
    for stage, program in stages(parse_kernel(text), context()):
        shown = pretty(program)
        assert pretty(parse_kernel(shown)) == shown
        found = shown if stage == name else found
    return " ".join(found.split())


def value(expression: str, indices: str = "i") -> str:
    """The right-hand side that a read in loops over `indices`, the first innermost, becomes."""
    loops = ", ".join(f"{i} = _" for i in indices[::-1])
    shown = passed(f"for {loops}\n s[] += {expression}\n end")
    return shown.split("s[] += ")[1].split(" end")[0]


@pytest.mark.parametrize(
    ("expression", "indices", "expected"),
    [
        ("collapse(A, 1, 2)[i]", "i", "collapse(A, 1, 2)[i]"),
        ("broadcast(v, 1, 3)[i, j]", "ij", "v[j]"),
        ("expand_dims(v, 2)[i, j]", "ij", "v[i]"),
        ("squeeze(A, 2)[i]", "i", "A[i, 1]"),
        (
            "diagonal(A, 2, 1)[i]",
            "i",
            "window(window(A, 1:min(size(A, 2), size(A, 1)), nothing), nothing, "
            "1:min(size(A, 2), size(A, 1)))[i, i]",
        ),
        ("permute_dims(T, 2, 3, 1)[i, j, k]", "ijk", "swizzle(T, 3, 1, 2)[i, j, k]"),
        ("flip(v, 1)[i]", "i", "window(v, size(v, 1):-1:1)[i]"),
        ("repeat(v, 1, 2)[i]", "i", "collapse(broadcast(v, 1, 2), 1, 2)[i]"),
        ("tril(A)[i, j]", "ij", "ifelse(j <= i, A[i, j], Float64(0.0))"),
        ("triu(F, 1)[i, j]", "ij", "ifelse(j >= i + 1, F[i, j], Float32(0.0))"),
        ("reshape(A, size(A, 1), -1)[i, j]", "ij", "A[i, j]"),
        ("split(collapse(A, 1, 2), 1, m)[i, j]", "ij", "split(collapse(A, 1, 2), 1, m)[i, j]"),
        ("collapse(collapse(T, 1, 2), 1, 2)[i]", "i", "collapse(collapse(T, 1, 2), 1, 2)[i]"),
    ],
)
def test_what_reads_become(expression: str, indices: str, expected: str) -> None:
    assert value(expression, indices) == expected


def test_a_concatenation_is_a_choice_by_the_index() -> None:
    first = "window(permissive(v, true), 1:size(v, 1) + size(w, 1))[i]"
    second = "window(permissive(w, true), 1 - size(v, 1):size(w, 1))[i]"
    assert value("vcat(v, w)[i]") == (f"ifelse(i <= size(v, 1), {first}, {second})")


def test_elements_take_the_common_type() -> None:
    assert "Float64(window(permissive(F, true, false)" in value("vcat(A, F)[i, j]", "ij")


def test_where_no_index_can_be_compared_the_others_are_missing() -> None:
    assert value("flip(vcat(v, w), 1)[i]").startswith("coalesce(")


def test_an_operator_on_an_expression_goes_to_its_tensors() -> None:
    text = "let U[i, j] = A[i, j] * v[i]\n for k = _\n s[] += collapse(U, 1, 2)[k]\n end\n end"
    assert "collapse(A, 1, 2)[k] * collapse(broadcast(v, 2, size(A, 2)), 1, 2)[k]" in passed(text)


def test_what_a_slice_drops_is_not_read() -> None:
    text = "let U[i] = v[i] * w[i]\n for i = _\n s[] += slice(U, 1, 2:3)[i]\n end\n end"
    assert "window(v, 2:3)[i_2] * window(w, 2:3)[i_2]" in passed(text)


def test_an_expression_that_stands_for_a_tensor_is_read_at_values() -> None:
    text = "let U[i] = v[i] * i\n for i = 1:2\n s[] += U[2 * i]\n end\n end"
    assert "v[2 * i_2] * (2 * i_2)" in passed(text)


def test_a_written_collapse_has_loops_over_both_dimensions() -> None:
    text = "@declare(C, 0, 1:2, 1:3)\n for k = _\n collapse(C, 1, 2)[k] = v[k]\n end"
    loops = "for k_j = 1:3 for k_i = 1:2 C[k_i, k_j] = split(v, 1, 2, 3)[k_i, k_j] end end"
    assert loops in passed(text)


def test_a_collapse_of_a_collapse_that_is_written_is_no_operator() -> None:
    text = "@declare(C, 0, 1:size(A, 1), 1:size(A, 2))\n for k = _\n"
    text += "collapse(C, 1, 2)[k] = collapse(A, 1, 2)[k]\n end"
    assert "C[k_i, k_j] = A[k_i, k_j]" in passed(text)


def test_a_split_that_is_written_sizes_the_tensor() -> None:
    text = "c .= 0\n for j = _, i = _\n split(c, 1, m)[i, j] = A[i, j]\n end"
    assert "@declare(c, 0, 1:m * size(A, 2))" in passed(text, "dimensionalize")


def test_the_fast_index_outside_takes_a_workspace() -> None:
    text = "c .= 0\n for i = _, j = _\n split(c, 1, m)[i, j] = A[i, j]\n end"
    assert "c_work" in passed(text, "workspaces")


def test_a_tensor_written_at_two_windows_is_out_of_order() -> None:
    text = "@declare(c, 0, 1:4)\n for i = _\n roll(c, 1, 1)[i] = v[i]\n end"
    assert "c_work" in passed(text, "workspaces")


def test_programs_without_operators_do_not_pass() -> None:
    program = parse_kernel("for i = _\n s[] += v[i]\n end")
    assert "shapes" not in [name for name, _ in stages(program, context())]


def test_sizes_of_operators() -> None:
    shown = passed("s[] += size(hcat(A, kron(A, B)), 2)", "scopes")
    assert "s[] += size(A, 2) + size(B, 2) * size(A, 2)" in shown


@pytest.mark.parametrize(
    ("expression", "kind", "said"),
    [
        ("collapse(A, 1, m)[i]", "type", "integer literal"),
        ("collapse(A, 1)[i]", "type", "takes a dimension"),
        ("collapse(A, 1, 1)[i]", "dimension", "twice"),
        ("split(v, 2, m)[i, i]", "dimension", "from 1 to 1"),
        ("split(v, 1, -2)[i, i]", "dimension", "1 or more"),
        ("concat(2, v, w)[i]", "dimension", "from 1 to 1"),
        ("stack(3, v, w)[i, i]", "dimension", "from 1 to 2"),
        ("block(2, A, B, C)[i, i]", "dimension", "rows of 2"),
        ("kron(A, v)[i]", "dimension", "same order"),
        ("permute_dims(A, 1, 1)[i, i]", "dimension", "twice"),
        ("reshape(A, -1, -1)[i, i]", "dimension", "no more"),
        ("tril(v)[i]", "dimension", "2 dimensions"),
        ("flip(~v, 1)[i]", "unknown name", "no wrapper"),
        ("collapse(permissive(A, true, false), 1, 2)[i]", "dimension", "does not count from 1"),
        ("flatten(A)[i, i]", "dimension", "1 dimension"),
        ("vcat()[i]", "type", "takes a tensor"),
        ("flipp(v, 1)[i]", "unknown name", "no wrapper"),
        ("reshape(broadcast(s, 1, 6), 4, 2)[i, i]", "dimension", "1:6"),
    ],
)
def test_what_is_refused(expression: str, kind: str, said: str) -> None:
    with pytest.raises(FinchError) as error:
        passed(f"for i = 1:2\n s[] += {expression}\n end")
    assert error.value.kind == kind and error.value.span is not None
    assert said in str(error.value)


def test_an_expression_is_not_written() -> None:
    with pytest.raises(FinchError) as error:
        passed("let U[i] = v[i]\n for i = _\n U[i] = 1\n end\n end")
    assert error.value.kind == "type"


def test_three_dimensions_that_are_written_as_one_have_three_loops() -> None:
    text = "@declare(E, 0, 1:2, 1:3, 1:4)\n for k = _\n flatten(E)[k] = v[k]\n end"
    shown = passed(text)
    assert "for k_j = 1:4 for k_i_j = 1:3 for k_i_i = 1:2 E[k_i_i, k_i_j, k_j] =" in shown


def test_a_concatenation_of_which_a_part_is_stored_is_stored_once() -> None:
    parts = "collapse(vcat(T, T, T), 3, 2), roll(vcat(A, A), 1, 1), B"
    shown = passed(f"for i = _\n s[] += hcat({parts})[i, i]\n end")
    assert shown.count("@declare(") == 2
