"""The contract of passes of normalisation, each program to program: it prints and parses back, means the
same before and after on data, leaves its own output alone, and the last leaves Finch Normal Form.

The goldens keep the paper's figures after each pass, and for groups of kernels (`pass_cases.toml`) the
normal form with its workspaces and notes.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from finchlang.algebra.program_context import ProgramContext, is_call
from finchlang.base.errors import Bug, FinchError
from finchlang.denote.denote import denote
from finchlang.levels.level import Swizzled
from finchlang.levels.scalars import Scalar as ScalarLevel
from finchlang.normalize.pass_list import PASSES, stages
from finchlang.normalize.passes.normal_form import check_normal_form
from finchlang.syntax.nodes import Declare, Literal, Node
from finchlang.syntax.traversal import replace, rewrite_bottom_up
from finchlang.syntax.types import TYPES, Int64
from finchlang.tensors.formats import parse_format
from finchlang.tensors.tensor import Scalar, Tensor
from finchlang.text.parse import parse_kernel
from finchlang.text.print import pretty

SCALAR = "Scalar(0.0)"
VECTOR = "Dense(Element(0.0))"
MATRIX = "Dense(Dense(Element(0.0)))"
SPARSE = "SparseList(Element(0.0))"
CSC = "Dense(SparseList(Element(0.0)))"
INTS = "Dense(Element(0))"


def formats(**names: Any) -> dict[str, Any]:
    """The formats of names, of which some are texts, or tables for what is stored by rows."""
    known = {n: TYPES.get(f, f) if isinstance(f, str) else f for n, f in names.items()}
    for name, format in known.items():
        if isinstance(format, str):
            known[name] = parse_format(format)
        elif isinstance(format, dict):
            known[name] = Swizzled(parse_format(format["format"]), tuple(format["swizzled"]))
    return known


CASES = tomllib.loads(Path(__file__).with_name("pass_cases.toml").read_text("utf-8"))
FIGURES: dict[str, tuple[str, dict[str, Any]]] = {
    name: (case["text"], case["names"]) for name, case in CASES["figures"].items()
}
GROUPS: dict[str, tuple[dict[str, str], list[str]]] = {
    name: (case["names"], case["texts"].splitlines()) for name, case in CASES["groups"].items()
}


@pytest.mark.parametrize("name", FIGURES)
def test_figures(name: str, golden: Any) -> None:
    text, names = FIGURES[name]
    program = parse_kernel(text)
    before = pretty(program)
    parts = [f"# parsed\n{before}"]
    for step, after in stages(program, ProgramContext(formats(**names))):
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
    program, context = parse_kernel(text), ProgramContext(formats(**names))
    for _, function, _ in PASSES:
        program = function(program, context)
        assert function(program, context) == program
    if name in ("fig11", "fig13", "fig17", "fig21_gustavson", "update_in_place", "row_major"):
        *_, (_, last) = stages(parse_kernel(pretty(program)), context)
        assert last == program


@pytest.mark.parametrize("group", GROUPS)
def test_normal_forms(group: str, golden: Any) -> None:
    """With what each goes through, and what is said of it."""
    names, texts = GROUPS[group]
    parts = []
    for text in texts:
        context = ProgramContext(formats(**names))
        *_, (_, last) = stages(parse_kernel(f"begin {text} end"), context)
        works = [f"# {name}: {level}" for name, level in context.workspaces.items()]
        notes = [f"# {note.message}" for note in context.notes]
        parts.append("\n".join([f"# {text}", *works, *notes, pretty(last)]))
    golden(f"normal/group_{group}.txt", "\n\n".join(parts) + "\n")


# -------------------------------------------------------------------- every pass keeps the meaning


def meaning(program: Node, context: ProgramContext, bindings: dict[str, Any]) -> dict[str, Any]:
    """What `program` leaves in the script's tensors, by the denotational semantics."""
    own = dict(bindings)
    known: Any
    swizzled = [
        (name, script_name, known)
        for name, script_name in context.originals.items()
        if isinstance(known := context.formats.get(script_name), Swizzled)
    ]
    for name, script_name, known in swizzled:
        own[name] = np.transpose(own[script_name], [p - 1 for p in known.permutation])
    for name, level in context.workspaces.items():
        own[name] = Tensor(level, *(0 for _ in range(level.order)))
    results = denote(_with_sizes(program, own), own)
    for name in context.workspaces:
        results.pop(name, None)
    for name, script_name, known in swizzled:
        if name in results:
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


def outcome(program: Node, context: ProgramContext, bindings: dict[str, Any]) -> dict[str, Any]:
    try:
        return meaning(program, context, bindings)
    except FinchError as error:
        return {"error": np.array(error.kind)}


def check_meaning(text: str, names: dict[str, Any], bindings: dict[str, Any]) -> None:
    program, context = parse_kernel(text), ProgramContext(formats(**names))
    expected = outcome(program, context, bindings)
    try:
        for step, after in stages(program, context):
            shown = pretty(after)
            assert pretty(parse_kernel(shown)) == shown
            found = outcome(after, context, bindings)
            assert ("error" in found) == ("error" in expected), (step, found, expected)
            for name in expected:
                said = f"{step}: {name}"
                np.testing.assert_array_equal(found[name], expected[name], err_msg=said)
    except FinchError as error:
        assert expected.get("error") == error.kind, (error, expected)


def data(names: dict[str, Any], seed: int, size: int) -> dict[str, Any]:
    """Something for each name, so large in each mode."""
    rng, found = np.random.default_rng(seed), {}
    for name, format in formats(**names).items():
        if isinstance(format, ScalarLevel) or name == "s":
            found[name] = Scalar(format.fill.value)
        elif format in TYPES.values():
            found[name] = 2
        else:
            level = format.level if isinstance(format, Swizzled) else format
            kind, shape = level.element_type.dtype, (size,) * level.order
            array = rng.integers(0, 4, shape) * (rng.random(shape) < 0.6)
            if kind == np.int64:  # places
                array = rng.integers(1, size + 1, shape)
            found[name] = np.asfortranarray(array.astype(kind))
    return found


#: which of them are written, or asked for their sizes, as the denotation of a form between takes them not
APART = (
    *("C[i + 1, j + 1] = 1.0", "for i=2:3; C[i] = 1.0", "size(hcat("),
    *("y[i + 2] = i", "y[i - 1] = v[i]", "C[i + 1, j] = A[i, j + 1]"),
)
KERNELS = [
    (text, names, 4 if group == "shapes" else 3)
    for group, (names, texts) in GROUPS.items()
    for text in texts
    if not any(part in text for part in APART)
]


@pytest.mark.parametrize(
    ("text", "names", "size"), [*[(*case, 4) for case in FIGURES.values()], *KERNELS]
)
def test_passes_keep_the_meaning(text: str, names: dict[str, Any], size: int) -> None:
    for seed in (0, 1):
        check_meaning(f"begin\n{text}\nend", names, data(names, seed, size))


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
        place = {"s": "", "B": f"{index(bound)}, {index(bound)}", "y": index(bound)}[target]
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


@settings(max_examples=60)
@given(kernels(), st.booleans())
def test_passes_keep_the_meaning_of_any_kernel(text: str, in_place: bool) -> None:
    """With `in_place`, B and y are updated through workspaces, and A is stored by rows."""
    names: dict[str, Any] = {"A": MATRIX, "B": MATRIX, "x": VECTOR, "y": VECTOR, "I": INTS}
    names |= {"n": Int64, "s": SCALAR}
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
    context = ProgramContext(formats(s=SCALAR, x=VECTOR, A=MATRIX, y=SCALAR))
    with pytest.raises(Bug, match="not in Finch Normal Form"):
        check_normal_form(parse_kernel(text), context)
