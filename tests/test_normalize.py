"""Normalisation: the paper's figures as goldens, every pass keeps the meaning, and the errors."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from finchlang.denote.denotation import denote
from finchlang.normalize import PASSES, Context, Normalized, normalize, stages
from finchlang.normalize.context import is_call
from finchlang.normalize.form import check_normal_form
from finchlang.source import Bug, FinchError
from finchlang.syntax import Declare, Literal, Node
from finchlang.tensors.formats import parse_format
from finchlang.tensors.level import Swizzled
from finchlang.tensors.tensor import Scalar, Tensor
from finchlang.text.parse import parse_kernel
from finchlang.text.print import pretty
from finchlang.types import Float64, Int64
from finchlang.walk import replace, rewrite_bottom_up

SCALAR = "Scalar(0.0)"
VECTOR = "Dense(Element(0.0))"
MATRIX = "Dense(Dense(Element(0.0)))"
SPARSE = "SparseList(Element(0.0))"
CSC = "Dense(SparseList(Element(0.0)))"
WORK = "SparseHash(Element(0.0))"
INTS = "Dense(Element(0))"
BOOLS = "Dense(Element(false))"


def formats(**names: Any) -> dict[str, Any]:
    return {n: parse_format(f) if isinstance(f, str) else f for n, f in names.items()}


def normal(text: str, **names: Any) -> Normalized:
    return normalize(parse_kernel(text), formats(**names))


def shown(text: str, **names: Any) -> str:
    return pretty(normal(text, **names).program)


def error(text: str, **names: Any) -> FinchError:
    with pytest.raises(FinchError) as caught:
        normal(text, **names)
    return caught.value


# ---------------------------------------------------------------------------------- the figures

FIGURES: dict[str, tuple[str, dict[str, Any]]] = {
    "fig10": (
        "for i=_, j=_\nif i <= j\ns[] += A[i - 1, j]\nend\nend",
        {"A": MATRIX, "s": SCALAR},
    ),
    "fig11": (
        "C .= 0\nfor i=1:3\nfor j=_\nfor k=_\nC[i, j] += A[i, k] * B[k, j]\nend\nend\nend",
        {"A": MATRIX, "B": MATRIX, "C": MATRIX},
    ),
    "fig12_transpose": ("for i=_, j=_\ns[] += A[i, j]\nend", {"A": MATRIX, "s": SCALAR}),
    "fig12_scatter": ("for i=_\nA[I[i]] += 1\nend", {"A": VECTOR, "I": INTS}),
    "fig13": (
        "y .= 0\nfor i=_\ny[i] = x[i] + 1\nend\n@thaw(x)\nfor i=_\nx[i] += 1\ny[i] += 1\nend\n"
        "for i=_\nx[i] += y[i]\nend",
        {"x": VECTOR, "y": VECTOR},
    ),
    "fig17": (
        "s .= 0.0\nfor j=_\nfor i=_\nif i <= j\ns[] += A[i, j]\nend\nend\nend",
        {"A": CSC, "s": SCALAR},
    ),
    "fig19_symmetric": (
        "y .= 0\nfor j=_\nlet x_j = x[j]\ny_j .= 0\nfor i=_\nlet A_ij = A[i, j]\n"
        "y[i] += x_j * A_ij\ny_j[] += A_ij * x[i]\nend\nend\ny[j] += y_j[] + D[j] * x_j\nend\nend",
        {"y": VECTOR, "x": VECTOR, "A": CSC, "D": VECTOR, "y_j": SCALAR},
    ),
    "fig21_gustavson": (
        "C .= 0\nfor j=_\nw .= 0\nfor k=_\nfor i=_\nw[i] += A[i, k] * B[k, j]\nend\nend\n"
        "for i=_\nC[i, j] = w[i]\nend\nend\nreturn C",
        {"A": CSC, "B": CSC, "C": CSC, "w": WORK},
    ),
    "fig24_pull": (
        "_F .= false\nfor k=_\nif !V[k]\np .= 0\nfor j=_\nif F[follow(j)] && AT[j, k]\n"
        "p[] <<choose(0)>>= j\nend\nend\nif p[] != 0\n_F[k] |= true\nP[k] = p[]\nend\nend\nend\n"
        "return _F",
        {
            **{"_F": "SparseByteMap(Pattern())", "F": "SparseByteMap(Pattern())", "V": BOOLS},
            **{"AT": "Dense(SparseList(Pattern()))", "P": INTS, "p": "Scalar(0)"},
        },
    ),
    "fig26_histogram": (
        "bins .= 0\nfor x=_\nfor y=_\nif mask[y, x]\nbins[div(img[y, x], 16) + 1] += 1\nend\nend\n"
        "end",
        {"bins": INTS, "mask": "Dense(SparseList(Pattern()))", "img": "Dense(Dense(Element(0)))"},
    ),
    "fig26_erosion": (
        "output .= false\nfor y=_\ntmp .= false\nfor x=_\n"
        "tmp[x] = coalesce(input[x, ~(y-1)], true) & input[x, y] & "
        "coalesce(input[x, ~(y+1)], true)\nend\nfor x=_\n"
        "output[x, y] = coalesce(tmp[~(x-1)], true) & tmp[x] & coalesce(tmp[~(x+1)], true)\n"
        "end\nend",
        {
            **{"output": "Dense(Dense(Element(false)))", "tmp": BOOLS},
            "input": "Dense(Dense(Element(false)))",
        },
    ),
    "update_in_place": ("for j=_, i=_\nA[i, j] *= 2\nend", {"A": CSC}),
    "read_across": ("y .= 0\nfor i=_, j=_\ny[i] += A[i, j]\nend", {"y": VECTOR, "A": CSC}),
    "row_major": (
        "y .= 0\nfor i=_, j=_\ny[i] += B[i, j] * x[j]\nend",
        {"y": VECTOR, "x": VECTOR, "B": Swizzled(parse_format(CSC), (2, 1))},
    ),
}


@pytest.mark.parametrize("name", FIGURES)
def test_figures(name: str, golden: Any) -> None:
    text, names = FIGURES[name]
    program = parse_kernel(text)
    before = pretty(program)
    parts = [f"# parsed\n{before}"]
    for step, after in stages(program, Context(formats(**names))):
        shown = pretty(after)
        parts.append(f"# {step}" + (": the same" if shown == before else f"\n{shown}"))
        assert parse_kernel(shown) == after
        before = shown
    golden(f"normal/{name}.txt", "\n\n".join(parts) + "\n")


# not fig19_symmetric: a second run finds the checked size of y in its declaration, and so checks
# i and j against each other's extents too
@pytest.mark.parametrize("name", [n for n in FIGURES if n != "fig19_symmetric"])
def test_each_pass_leaves_its_own_output_alone(name: str) -> None:
    text, names = FIGURES[name]
    program, context = parse_kernel(text), Context(formats(**names))
    for _, function in PASSES:
        program = function(program, context)
        assert function(program, context) == program


# -------------------------------------------------------------------- every pass keeps the meaning


def meaning(program: Node, context: Context, bindings: dict[str, Any]) -> dict[str, Any]:
    """What `program` leaves in the script's tensors, by the denotational semantics."""
    own = dict(bindings)
    for name, script_name in context.tensors.items():
        known = context.formats[script_name]
        order = known.permutation if isinstance(known, Swizzled) else None
        own[name] = np.transpose(own[script_name], [p - 1 for p in order] if order else None)
    for name, level in context.workspaces.items():
        own[name] = Tensor(level, *(0 for _ in range(level.order)))
    results = denote(_with_sizes(program, own), own)
    for name in context.workspaces:
        results.pop(name, None)
    for name, script_name in context.tensors.items():
        known = context.formats[script_name]
        if name in results and isinstance(known, Swizzled):
            back = np.argsort([p - 1 for p in known.permutation])
            results[script_name] = np.transpose(results.pop(name), back)
    return results


def _with_sizes(program: Node, bindings: dict[str, Any]) -> Node:
    """`program` with the sizes that declarations ask for as numbers: those tensors had at first."""

    def known(node: Node) -> Node:
        if is_call(node, "size"):
            name, mode = node.args[0].name, node.args[1].value  # type: ignore[attr-defined]
            return Literal(bindings[name].shape[mode - 1])
        return node

    def declaration(node: Node) -> Node:
        if isinstance(node, Declare):
            dims = tuple(rewrite_bottom_up(known, d) for d in node.dims)
            return replace(node, dims=dims)
        return node

    return rewrite_bottom_up(declaration, program)


def check_meaning(text: str, names: dict[str, Any], bindings: dict[str, Any]) -> None:
    program, context = parse_kernel(text), Context(formats(**names))
    expected = meaning(program, context, bindings)
    for step, after in stages(program, context):
        found = meaning(after, context, bindings)
        for name in expected:
            np.testing.assert_array_equal(found[name], expected[name], err_msg=f"{step}: {name}")


_random = np.random.default_rng(7)


def matrix(m: int, n: int) -> np.ndarray:
    return np.asfortranarray(_random.integers(-2, 4, (m, n)) * (_random.random((m, n)) < 0.6) * 1.0)


MEANINGS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (
        FIGURES["fig13"][0],
        FIGURES["fig13"][1],
        {"x": np.array([1.0, 0.0, 3.0]), "y": np.zeros(0)},
    ),
    (FIGURES["fig17"][0], FIGURES["fig17"][1], {"A": matrix(4, 3), "s": Scalar(0.0)}),
    (
        FIGURES["fig19_symmetric"][0],
        FIGURES["fig19_symmetric"][1],
        {
            **{"A": matrix(3, 3), "D": matrix(3, 1)[:, 0], "x": matrix(3, 1)[:, 0]},
            **{"y": np.zeros(1), "y_j": Scalar(0.0)},
        },
    ),
    (
        FIGURES["fig21_gustavson"][0],
        FIGURES["fig21_gustavson"][1],
        {"A": matrix(3, 4), "B": matrix(4, 2), "C": matrix(1, 1), "w": np.zeros(0)},
    ),
    (
        FIGURES["fig26_erosion"][0],
        FIGURES["fig26_erosion"][1],
        {
            **{"input": matrix(5, 4) > 0, "tmp": np.zeros(0, bool)},
            "output": np.zeros((1, 1), bool, "F"),
        },
    ),
    (FIGURES["update_in_place"][0], FIGURES["update_in_place"][1], {"A": matrix(3, 4)}),
    (
        FIGURES["row_major"][0],
        FIGURES["row_major"][1],
        {"B": matrix(3, 4), "x": matrix(4, 1)[:, 0], "y": np.zeros(0)},
    ),
    (
        "C .= 0\nfor j=_, i=_\nif i > j - 1 && j < 3 && i != I[j] && !(i == k)\n"
        "C[i, j] = A[i, j] + x[I[j]] * A[I[I[j]], k]\nend\nend",
        {"A": CSC, "C": CSC, "x": VECTOR, "I": INTS, "k": Int64},
        {
            **{"A": matrix(4, 4), "C": matrix(1, 1), "x": matrix(4, 1)[:, 0], "k": 2},
            "I": np.array([2, 4, 1, 1]),
        },
    ),
    (
        "for i=_, j=_\nif i >= j\ns[] += A[i, j] * swizzle(A, 2, 1)[i, j]\nend\n"
        "if j != i\nt[] += A[j, j] * A[3, 2]\nend\nend",
        {"A": CSC, "s": SCALAR, "t": SCALAR},
        {"A": matrix(3, 3), "s": Scalar(0.0), "t": Scalar(0.0)},
    ),
    (
        "A .= 0\nfor j=_, i=_\nA[i, j] = B[i, j]\nend\nfor j=_\ns[] += A[2, j]\nend\n"
        "for j=_, i=_\nA[i, j] += B[i, j]\nend\nfor j=_, i=_\nA[i, j] = 2 * B[j, i]\nend",
        {"A": CSC, "B": CSC, "s": SCALAR},
        {"A": matrix(3, 3), "B": matrix(3, 3), "s": Scalar(0.0)},
    ),
    (
        "for i=1:4\nfor i=1:i\nlet d = i * 2\ns[] += d + x[3]\nend\nlet d = 1\ns[] += d\nend\nend\n"
        "end\nfor i=_\nx[~(i + 2)] += x2[i]\nend",
        {"x": VECTOR, "x2": VECTOR, "s": SCALAR},
        {"x": matrix(4, 1)[:, 0], "x2": matrix(4, 1)[:, 0], "s": Scalar(0.0)},
    ),
    (
        "C .= 0\nfor i=1:3\nC[i] = 1.0\nend\nfor i=1:3\ns[] += C[i] * size(C, 1)\nend",
        {"C": SPARSE, "s": SCALAR},
        {"C": np.zeros(7), "s": Scalar(0.0)},
    ),
    (  # nothing but the tensor's own size gives i a dimension (section 5.3)
        "C .= 0\nfor i=_\nC[i] = i\nend",
        {"C": SPARSE},
        {"C": np.ones(4)},
    ),
]


@pytest.mark.parametrize("k", range(len(MEANINGS)))
def test_passes_keep_the_meaning(k: int) -> None:
    text, names, bindings = MEANINGS[k]
    check_meaning(text, names, bindings)


NAMES = ("i", "j", "k")


@st.composite
def kernels(draw: Any) -> str:
    """A kernel over 3 x 3 matrices A and B (written in any order) and vectors x, I and y, with a
    scalar s; its loops are bound, its life cycle is right."""

    def index(bound: tuple[str, ...]) -> str:
        shapes = ("{0}", "{0}", "I[{0}]", "2", "max({0} - 1, 1)", "n")
        return draw(st.sampled_from(shapes)).format(draw(st.sampled_from(bound)))

    def value(bound: tuple[str, ...], depth: int = 2) -> str:
        choice = draw(st.integers(0, 6 if depth else 3))
        if choice == 0:
            return f"A[{index(bound)}, {index(bound)}]"
        if choice == 1:
            return f"x[{index(bound)}]"
        if choice == 2:
            return f"coalesce(A[~({draw(st.sampled_from(bound))} - 1), {index(bound)}], 2)"
        if choice == 3:
            return f"swizzle(A, 2, 1)[{index(bound)}, {index(bound)}]"
        sign = draw(st.sampled_from(("+", "*", "-")))
        return f"({value(bound, depth - 1)} {sign} {value(bound, depth - 1)})"

    def condition(bound: tuple[str, ...]) -> str:
        sign = draw(st.sampled_from(("<=", "<", ">", ">=", "==", "!=")))
        other = draw(st.sampled_from(("2", "n", "I[{0}]", "{0}", "{0} - 1"))).format(
            draw(st.sampled_from(bound))
        )
        pair = (draw(st.sampled_from(bound)), other)
        left, right = pair if draw(st.booleans()) else pair[::-1]
        return f"{left} {sign} {right}"

    def assign(bound: tuple[str, ...], target: str) -> str:
        op = {"s": "+=", "B": "+=", "y": "*="}[target]
        place = {
            "s": "",
            "B": f"{index(bound)}, {index(bound)}",
            "y": index(bound),
        }[target]
        return f"{target}[{place}] {op} {value(bound)}"

    def body(bound: tuple[str, ...], fresh: list[str], depth: int) -> str:
        kind = draw(st.sampled_from(("assign", "assign", "sieve", "loop", "both", "let")))
        if depth == 0 or kind == "assign":
            return assign(bound, draw(st.sampled_from(("s", "B", "y"))))
        if kind == "sieve":
            return f"if {condition(bound)}\n{body(bound, fresh, depth - 1)}\nend"
        if kind == "let":
            inner = body(bound, fresh, depth - 1)
            return f"let d = {value(bound)}\nif d != 1\n{inner}\nend\nend"
        if kind == "both":
            return body(bound, fresh, 0) + "\n" + body(bound, fresh, depth - 1)
        return loop(bound, depth)

    def loop(bound: tuple[str, ...], depth: int) -> str:
        name = draw(st.sampled_from(NAMES))
        inside = tuple(dict.fromkeys((*bound, name)))
        return f"for {name}=1:3\n{body(inside, [], depth - 1)}\nend"

    return "B .= 0\n" + "\n".join(loop((), 4) for _ in range(draw(st.integers(1, 2))))


@settings(max_examples=60, deadline=None)
@given(kernels(), st.booleans())
def test_passes_keep_the_meaning_of_any_kernel(text: str, in_place: bool) -> None:
    """With `in_place`, B and y are updated through workspaces, and A is stored by rows."""
    names = {"A": MATRIX, "B": MATRIX, "x": VECTOR, "y": VECTOR, "I": INTS, "n": Int64, "s": SCALAR}
    if in_place:
        text = text.removeprefix("B .= 0\n")
        names |= {"A": Swizzled(parse_format(CSC), (2, 1)), "B": CSC, "y": SPARSE}
    bindings = {
        **{"A": np.asfortranarray(np.arange(9.0).reshape(3, 3)), "B": np.zeros((3, 3), order="F")},
        **{"x": np.array([1.0, 0.0, 2.0]), "y": np.array([1.0, 2.0, 3.0]), "n": 3},
        **{"I": np.array([3, 1, 1]), "s": Scalar(0.0)},
    }
    if "let d" in text and text.count("let d") > 1:
        text = "\n".join(_unique_lets(text.split("\n")))
    check_meaning(text, names, bindings)


def _unique_lets(lines: list[str]) -> list[str]:
    """Nested lets under different names (one may not rebind what is visible)."""
    count = 0
    for n, line in enumerate(lines):
        if line.startswith("let d"):
            count += 1
            lines[n] = line.replace("let d", f"let d{count}", 1)
            lines[n + 1] = lines[n + 1].replace("if d ", f"if d{count} ", 1)
    return lines


# ---------------------------------------------------------------------------------- what passes do


def test_results_name_the_scripts_tensors() -> None:
    row_major = Swizzled(parse_format(CSC), (2, 1))
    result = normal(
        "for i=_, j=_\nB[i, j] *= n\nend\nreturn (B, s)", B=row_major, s=SCALAR, n=Int64
    )
    assert result.yields == ("B", "s")
    assert result.tensors == {"B_stored": "B"}
    assert result.workspaces == {"B_stored_work": parse_format("Workspace{2}(Element(0.0))")}
    assert result.formats["n"] == Int64 and "B" not in result.formats


def test_names_are_kept_where_they_are_free() -> None:
    text = "for i=1:2\nfor i=1:i\nfor i_2=1:2\ns[] += i + i_2\nend\nend\ns[] += i\nend"
    assert "for i_2 = 1:2" in shown(text, s=SCALAR)
    assert "s[] += i_3 + i_2" in shown(text, s=SCALAR)
    assert "for min_2 = 1:2" in shown("for min=1:2\ns[] += min\nend", s=SCALAR)


@pytest.mark.parametrize(
    ("condition", "mask"),
    [
        ("i <= j", "UpTriMask()[i, j]"),
        ("i < j", "UpTriMask()[i, k]"),
        ("i > j", "!UpTriMask()[i, j]"),
        ("i >= j", "!UpTriMask()[i, k]"),
        ("j >= i", "UpTriMask()[i, j]"),
        ("j == i", "DiagMask()[i, j]"),
        ("i != j", "!DiagMask()[i, j]"),
        ("i + 1 <= j", "i + 1 <= j"),
        ("i <= i", "i <= i"),
        ("i <= x[j]", "i <= x[j]"),
        ("i <= f", "i <= f"),
        ("i == j == 2", "DiagMask()[i, j] && DiagMask()[j, k]"),
    ],
)
def test_comparisons_become_masks(condition: str, mask: str) -> None:
    text = f"for j=1:3, i=1:3\nif {condition}\ns[] += 1\nend\nend"
    assert f"if {mask}\n" in shown(text, s=SCALAR, x=VECTOR, f=Float64)


def test_masks_wait_for_what_they_compare_with() -> None:
    text = (
        "for i=1:3\nw .= 0\nfor k=1:3\nw[k] += 1\nend\nfor j=1:3\nif j <= w[i]\ns[] += i\nend\n"
        "end\nend"
    )
    lines = [line.strip() for line in shown(text, s=SCALAR, w=INTS).split("\n")]
    order = ("@freeze(w)", "for k_2 = w[i]:w[i]", "for j = 1:3")
    assert [line for line in lines if line in order] == list(order)


def test_a_declared_tensor_is_as_large_as_its_indices_reach() -> None:
    assert "@declare(C, 0, 1:3)" in shown("C .= 0\nfor i=2:3\nC[i] = 1.0\nend", C=VECTOR)
    text = "C .= 0\nfor j=_, i=a:b\nC[i, j] = x[i] * A[1, j]\nend"
    out = shown(text, C=CSC, x=VECTOR, A=MATRIX, a=Int64, b=Int64)
    assert "let dim_i = meet(1:b, 1:size(x, 1))" in out
    assert "let dim_i_2 = meet(a:b, 1:size(x, 1))" in out
    assert "@declare(C, 0, dim_i, 1:size(A, 2))" in out and "for i = dim_i_2" in out


def test_meets_stand_as_far_outside_as_they_can() -> None:
    text = "for j=_\nlet n = 2 * j\nfor i=1:n\ns[] += x[i] * A[i, j]\nend\nend\nend"
    lines = [line.strip() for line in shown(text, s=SCALAR, x=VECTOR, A=MATRIX).split("\n")]
    at = lines.index("let n = 2 * j")
    assert lines[at + 1] == "let dim_i = meet(1:n, 1:size(x, 1), 1:size(A, 1))"
    text = "for j=_\nfor i=1:I[j]\ns[] += x[i] * A[i, j]\nend\nend"
    lines = [line.strip() for line in shown(text, s=SCALAR, x=VECTOR, A=MATRIX, I=INTS).split("\n")]
    at = lines.index("for i = dim_i")
    assert lines[at - 1] == "let dim_i = meet(1:I[j], 1:size(x, 1), 1:size(A, 1))"


def test_modifiers_of_one_access_are_wrapped_together() -> None:
    text = "for j=_, i=_\ns[] += A[gallop(i), walk(j)] * B[~gallop(i), ~j]\nend"
    out = shown(text, A=CSC, B=CSC, s=SCALAR)
    assert "protocolize(A, gallop, walk)[i, j]" in out
    assert "protocolize(permissive(B, true, true), gallop, nothing)[i, j]" in out


def test_equal_index_expressions_share_a_loop() -> None:
    out = shown("for i=_\ns[] += x[I[i]] * y[I[i]]\nend", x=VECTOR, y=VECTOR, I=INTS, s=SCALAR)
    assert out.count("I[i]:I[i]") == 1


def test_inserted_loops_stay_within_sieves() -> None:
    out = shown("for i=_\nif x[i] > 1\ns[] += x[I[i]]\nend\nend", x=VECTOR, I=INTS, s=SCALAR)
    lines = [line.strip() for line in out.split("\n")]
    assert lines.index("if x[i] > 1") < lines.index("for k = I[i]:I[i]")


def test_assignment_onto_fill_needs_the_fill_there() -> None:
    assert "C[i] = " in shown("C .= 0\nfor i=1:3\nC[i] = i\nend", C=VECTOR)
    assert "C[i] := " in shown("C .= 1\nfor i=1:3\nC[i] = i\nend", C=VECTOR)
    assert "C[i] := " in shown("for i=1:3\nC[i] = i\nend", C=VECTOR)
    assert "C[i] := " in shown("C .= 0\nfor j=1:2, i=1:3\nC[i] = j\nend", C=VECTOR)
    twice = shown("C .= 0\nfor i=1:3\nC[i] = i\nend\nfor i=1:3\nC[i] = 0\nend", C=VECTOR)
    assert "C[i] = i" in twice and "C[i_2] := 0" in twice
    assert "C[i] := i" in shown("C .= 0\nfor i=1:3\nC[i] = i\nC[i] = 0\nend", C=VECTOR)


def test_normalising_twice_changes_nothing() -> None:
    for name in ("fig11", "fig13", "fig17", "fig21_gustavson", "update_in_place", "row_major"):
        text, names = FIGURES[name]
        context = Context(formats(**names))
        for _, program in stages(parse_kernel(text), context):
            once = program
        assert normalize(parse_kernel(pretty(once)), context.formats).program == once


def test_speed() -> None:
    program = parse_kernel("y .= 0\nfor j=_, i=_\ny[i] += A[i, j] * x[j]\nend")
    known = formats(y=VECTOR, A=CSC, x=VECTOR)
    best = min(_timed(lambda: normalize(program, known)) for _ in range(20))
    assert best < 3e-3


def _timed(function: Any) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


# ---------------------------------------------------------------------------------- order

ORDERED = [
    ("C .= 0\nfor j=_, i=_\nC[i, j] = A[i, j]\nend", CSC),
    ("C .= 0\nfor j=_, i=_, k=_\nC[i, j] += A[i, k] * A[k, j]\nend", CSC),
    (
        "C .= 0\nfor j=_\nif j > 2\nfor i=_\nlet d = A[i, j]\nC[i, j] = d\n"
        "C[i, j] += d\nend\nend\nend\nend",
        CSC,
    ),
    ("C .= 0\nfor j=1:3\nC[I[j], j] = 1.0\nend", CSC),
    ("C .= 0\nfor j=1:3, i=1:3\nC[i + 1, j + 1] = 1.0\nend", CSC),
    ("C .= 0\nfor j=1:3\nC[j, j] = 1.0\nend", CSC),
    ("C .= 0\nfor i=1:3, j=1:3\nC[i, j] = 1.0\nend", MATRIX),
    ("C .= 0\nfor j=1:3, k=1:3, i=1:3\nC[i, j] += 1.0\nend", "SparseList(Dense(Element(0.0)))"),
    ("C .= 0\nfor i=1:3, j=1:3\nC[i, j] = 1.0\nend\nfor j=_, i=_\nC[i, j] = A[i, j]\nend", MATRIX),
]
UNORDERED = [
    ("C .= 0\nfor i=1:3, j=1:3\nC[i, j] = 1.0\nend", CSC, "across the order"),
    ("C .= 0\nfor j=1:3, k=1:3, i=1:3\nC[i, j] += 1.0\nend", CSC, "once for each `k`"),
    ("C .= 0\nfor j=1:3\nC[2, I[j]] = 1.0\nend", CSC, "once for each `j`"),
    ("C .= 0\nfor j=1:3, i=1:3\nC[4 - i, j] = 1.0\nend", CSC, "once for each `i`"),
    (
        "C .= 0\nfor j=1:3\nfor i=1:3\nC[i, j] = 1.0\nend\nfor i=1:3\nC[i, j] += 1.0\nend\nend",
        CSC,
        "second pass",
    ),
    (
        "C .= 0\nfor k=1:3, j=1:3, i=1:3\nC[i, j] += 1.0\nend",
        "SparseList(Dense(Element(0.0)))",
        "`k`",
    ),
]


@pytest.mark.parametrize(("text", "level"), ORDERED)
def test_writing_in_order(text: str, level: str) -> None:
    assert normal(text, C=level, A=CSC, I=INTS).program


@pytest.mark.parametrize(("text", "level", "part"), UNORDERED)
def test_writing_out_of_order(text: str, level: str, part: str) -> None:
    names = formats(C=level, A=CSC, I=INTS)
    with pytest.raises(FinchError) as caught:
        normalize(parse_kernel(text), names, insert_workspaces=False)
    found = caught.value
    assert found.kind == "access order" and part in found.message and found.span is not None
    assert str(parse_format(level).random_access()) in (found.hint or "")
    normal(text, C=str(parse_format(level).random_access()), A=CSC, I=INTS)
    (note,) = normal(text, C=level, A=CSC, I=INTS).notes
    assert part in note.message and note.span == found.span


# ---------------------------------------------------------------------------------- errors

ERRORS = [
    ("s[] += q[1]", "unknown name", "1:8", "`q` is not known"),
    ("s[] += x[i]", "unknown name", "1:10", "unbound index `i`"),
    ("s[] += mni(1, 2)", "unknown name", "1:8", "no operator `mni`"),
    ("s[] += scramble(A, 1, 2)[1, 2]", "unknown name", "1:8", "no wrapper `scramble`"),
    ("foo[1] += 1", "unknown name", "1:1", "`foo` is not known"),
    ("for i=_\ns[] += x[i]\nend\nreturn t", "unknown name", "4:8", "`t` is not known"),
    ("let n = 3\ns[] += n\nend", "unknown name", "1:5", "already bound"),
    ("for i=1:3\nlet i = 3\ns[] += i\nend\nend", "unknown name", "2:5", "already bound"),
    ("s[] += x", "type", "1:8", "is a tensor"),
    ("s[] += n[1]", "type", "1:8", "is a number"),
    ("s[] += min(1)", "type", "1:8", "takes 2 arguments"),
    ("for i=n\ns[] += 1\nend", "type", "1:7", "not an extent"),
    ("UpTriMask()[1, 2] += 1", "type", "1:1", "mask"),
    ("for i=_\nx[gallop(i)] += 1\nend", "type", "2:3", "`gallop`"),
    ("s .= x[3]", "type", "1:6", "cannot read an element"),
    ("s[] += swizzle(A, 1, 1)[1, 2]", "type", "1:8", "each once"),
    ("s[] += x[1, 2]", "dimension", "1:8", "1 dimension, but 2 indices"),
    ("s[] += permissive(x)[1]", "dimension", "1:8", "1 dimension, but 0 settings"),
    ("s[] += size(x, 2)", "dimension", "1:16", "no dimension 2"),
    ("for i=_\ns[] += 1\nend", "dimension", "1:5", "could not resolve"),
    ("for i=1:3\ns[] += 1\nend\nC .= 0\nfor i=1:3\nC[i] = 1\nend\nfor i=1:4\ns[] += C[i]\nend",
     "dimension", "5:7", "index `i` is 1:4 (8:7) and also 1:3 (5:7)"),
    ("C .= 0\nfor j=1:3, i=1:j\nC[i] = 1.0\nend", "dimension", "1:1", "would be 1:j (2:14)"),
    ("for i=_\nx[i] = x[i] + 1\nend", "life cycle", "2:8", "is read (2:8) and updated (2:1)"),
    ("for i=_\nx[i] += 1\nx[i] *= 2\nend", "life cycle", "3:1", "`+` (2:1) and `*` (3:1)"),
    ("for i=1:3\nw .= 0\nw[i] += 1\nend\ns[] += w[1]", "life cycle", "5:8", "outside of the scope"),
    ("for i=1:3\ns[] += w[i]\nw .= 0\nend", "life cycle", "2:8", "before its declaration"),
    ("w .= 0\nfor i=1:3\nw .= 0\nend", "life cycle", "3:1", "changes its mode outside"),
    ("@freeze(s)", "life cycle", "1:1", "not being updated"),
    ("@thaw(s)\n@thaw(s)", "life cycle", "2:1", "updated already"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind", "place", "part"), ERRORS)
def test_errors(text: str, kind: str, place: str, part: str) -> None:
    found = error(text, x=VECTOR, C=VECTOR, w=VECTOR, A=MATRIX, s=SCALAR, n=Int64)
    assert (found.kind, part in found.message) == (kind, True), found
    assert found.span is not None and f"{found.span.line}:{found.span.column}" == place, found


def test_hints_name_what_was_meant() -> None:
    assert error("s[] += sacle[1]", scale=VECTOR, s=SCALAR).hint == "did you mean `scale`?"
    assert error("s[] += t", s=SCALAR, t=SCALAR).hint == "write `t[]`"
    assert error("for i=_\ns[] += 1\nend", s=SCALAR).hint == "write `for i = 1:n`"


@pytest.mark.parametrize(
    "text",
    [
        "for i=1:3\ns[] += A[i, i]\nend",
        "for i=1:3\ns[] += x[i + 1]\nend",
        "for i=1:3, j=1:3\ns[] += A[i, j]\nend",
        "for i=_\ny[] = x[i]\nend",
        "s .= 0",
        "x .= 0\n@freeze(x)",
        "for i=1:3\ns[] += q\nend",
    ],
)
def test_the_checker_refuses_what_is_not_normal(text: str) -> None:
    context = Context(formats(s=SCALAR, x=VECTOR, A=MATRIX, y=SCALAR))
    with pytest.raises(Bug, match="not in Finch Normal Form"):
        check_normal_form(parse_kernel(text), context)


def test_a_size_is_taken_before_the_tensor_is_declared_anew() -> None:
    text = (
        "y .= 0\nfor i=_\ny[i] = A[i]\nend\nA .= 0\nfor j=1:5\nA[j] = 1.0\nend\n"
        "for k=_\ns[] += y[k]\nend"
    )
    out = shown(text, y=VECTOR, A=VECTOR, s=SCALAR)
    assert out.startswith("let dim_i = meet(1:size(A, 1))") and "for k = dim_i" in out
    names = {"y": VECTOR, "A": VECTOR, "s": SCALAR}
    check_meaning(text, names, {"y": np.zeros(0), "A": np.ones(3), "s": Scalar(0.0)})


def test_sizes_may_be_computed_by_the_kernel() -> None:
    text = "n .= 0\nfor i=_\nn[] += I[i]\nend\n@freeze(n)\nC .= 0\nfor i=1:n[]\nC[i] = 1.0\nend"
    assert "@declare(C, 0, 1:n[])" in shown(text, n="Scalar(0)", C=VECTOR, I=INTS)
    text = "D .= 0\nfor i=1:3\nD[i] = i\nend\n@freeze(D)\n@declare(C, 0, 1:size(D, 1) + 1)"
    assert "@declare(C, 0, 1:size(D, 1) + 1)" in shown(text, C=VECTOR, D=VECTOR)
    early = "n .= 0\nC .= 0\nfor i=_\nn[] += I[i]\nend\nfor i=1:n[]\nC[i] = 1.0\nend"
    assert error(early, n="Scalar(0)", C=VECTOR, I=INTS).kind == "dimension"
