"""The premises of Finch'25 Fig 14: without the passes, a program that breaks one is stuck under both
hosts, and the rule that is says which."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from finchlang.host.execute import ExecutingHost
from finchlang.host.interface import Host
from finchlang.host.residual import ResidualHost
from finchlang.normalize.types import annotate, with_fills
from finchlang.rules.engine import Machine, State, Stuck
from finchlang.rules.expressions import evaluate
from finchlang.rules.table import rules
from finchlang.run.arguments import ARRAYS, COUNTERS, SHAPE, describe
from finchlang.syntax import Block, Define, Freeze, Literal, Mode, Variable
from finchlang.tensors.bind import bind
from finchlang.tensors.formats import parse_format
from finchlang.tensors.tensor import Scalar, Tensor
from finchlang.text.parse import parse_kernel

TABLES = pytest.mark.parametrize("which", ["all", "paper"])
HOSTS = pytest.mark.parametrize("host", ["execute", "record"])

FORMATS = {
    "x": "Dense(Element(0.0))",
    "y": "Dense(Element(0.0))",
    "A": "SparseList(Element(0.0))",
    "C": "SparseHash{2}(Element(0.0))",
    "D": "UpperTriangular(Element(0.0))",
    "s": "Scalar(0.0)",
    "t": "Scalar(0.0)",
}


def made(name: str) -> Tensor | Scalar:
    level = parse_format(FORMATS[name])
    if level.order == 0:
        return Scalar(level)
    return Tensor.from_numpy(
        np.triu(np.ones((4,) * level.order)) if level.order == 2 else np.ones(4), level
    )


def run(program: Any, host_kind: str = "execute", which: str = "all") -> State:
    """Run the rules alone on what is parsed, with every tensor of FORMATS bound."""
    node = parse_kernel(f"begin\n{program}\nend") if isinstance(program, str) else program
    levels = {name: parse_format(format) for name, format in FORMATS.items()}
    bounds = {name: bind(name, level, True) for name, level in levels.items()}
    arrays: dict[Any, np.ndarray] = {}
    for name, bound in bounds.items():
        given = describe(made(name))
        arrays |= dict(zip(bound.buffers, given[ARRAYS], strict=True))
        inputs = bound.given(given[SHAPE], given[COUNTERS])
        for variable, value in zip(bound.inputs, inputs, strict=True):
            variable.held = value
    host: Host = ExecutingHost(arrays) if host_kind == "execute" else ResidualHost()
    for bound in bounds.values():
        bound.enter(host)
    state = State.before(host, {name: bound.fiber for name, bound in bounds.items()})
    return Machine(rules(which)).run(with_fills(annotate(node, dict(levels)), dict(levels)), state)


LOOP = "for i = 1:4\n{}\nend"

#: a program, the rule that is stuck, and the premise
STUCK = {
    # Declare: not what is being updated
    "declared twice": ("s .= 0.0\ns .= 0.0", "Declare", "e(mode(s)) = read"),
    "declared in update mode": ("@thaw(x)\n@declare(x, 0.0, 1:4)", "Declare", "e(mode(x)) = read"),
    # Freeze: e(mode(tns)) = update, tns ∈ d
    "frozen in read mode": ("@freeze(A)", "Freeze", "e(mode(A)) = update"),
    "frozen twice": ("s .= 0.0\n@freeze(s)\n@freeze(s)", "Freeze", "e(mode(s)) = update"),
    "frozen in a loop": ("s .= 0.0\n" + LOOP.format("@freeze(s)"), "Freeze", "s ∈ d"),
    "frozen in a sieve": ("s .= 0.0\nif t[] == 0\n@freeze(s)\nend", "Freeze", "s ∈ d"),
    "frozen in a sieve that holds": ("s .= 0.0\nif true\n@freeze(s)\nend", "Freeze", "s ∈ d"),
    "frozen in a let": ("s .= 0.0\nlet v = t[]\n@freeze(s)\nend", "Freeze", "s ∈ d"),
    "frozen in a let that others follow": (
        "s .= 0.0\nlet v = t[]\n@freeze(s)\nend\nt .= 0.0",
        *("Freeze", "s ∈ d"),
    ),
    # Thaw: e(mode(tns)) = read, tns ∈ d
    "thawed in update mode": ("s .= 0.0\n@thaw(s)", "Thaw", "e(mode(s)) = read"),
    "thawed twice": ("@thaw(x)\n@thaw(x)", "Thaw", "e(mode(x)) = read"),
    "thawed in a loop": (LOOP.format("@thaw(x)"), "Thaw", "x ∈ d"),
    "thawed in a loop of one step": ("for i = 2:2\n@thaw(x)\nend", "Thaw", "x ∈ d"),
    "thawed in a loop that is dense": (
        LOOP.format("@thaw(y)\ny[i] += x[i]\n@freeze(y)"),
        *("Unfurl", "e(mode(y)) = update"),
    ),
    "thawed over stored entries": (
        "t .= 0.0\n" + LOOP.format("let v = A[i]\n@thaw(s)\ns[] += v\n@freeze(s)\nend"),
        *("Thaw", "s ∈ d"),
    ),
    "declared in a loop, frozen after it": (
        LOOP.format("s .= 0.0") + "\n@freeze(s)",
        *("Freeze", "e(mode(s)) = update"),
    ),
    # Assign: e(mode(tns)) = update
    "assigned in read mode": ("s[] += 1.0", "Assign", "e(mode(s)) = update"),
    "assigned after the freeze": (
        "s .= 0.0\n@freeze(s)\ns[] += 1.0",
        *("Assign", "e(mode(s)) = update"),
    ),
    "a vector assigned in read mode": (
        LOOP.format("y[i] += x[i]"),
        *("Unfurl", "e(mode(y)) = update"),
    ),
    "a list assigned in read mode": (LOOP.format("A[i] = x[i]"), "Unfurl", "e(mode(A)) = update"),
    "a wrapped list assigned in read mode": (
        "for i = 1:2\noffset(A, 1)[i] = 1.0\nend",
        *("Unfurl", "e(mode(offset(A, 1))) = update"),
    ),
    # Access: e(mode(tns)) = read
    "read in update mode": ("s .= 0.0\nt .= 0.0\nt[] += s[]", "Access", "e(mode(s)) = read"),
    "a condition in update mode": (
        "s .= 0.0\nt .= 0.0\nif s[] == 0\nt[] += 1.0\nend",
        *("Access", "e(mode(s)) = read"),
    ),
    "a vector read in update mode": (
        "s .= 0.0\n@thaw(x)\n" + LOOP.format("s[] += x[i]"),
        *("Unfurl", "e(mode(x)) = read"),
    ),
    "a matrix read in update mode": (
        "s .= 0.0\n@thaw(C)\nfor j = 1:4, i = 1:4\ns[] += C[i, j]\nend",
        *("Unfurl", "e(mode(C)) = read"),
    ),
    "a triangle read in update mode": (
        "s .= 0.0\n@thaw(D)\nfor j = 1:4, i = 1:j\ns[] += permissive(D, true, false)[i, j]\nend",
        *("Unfurl", "e(mode(permissive(D, true, false))) = read"),
    ),
    # names: e(tns) = tns', e(variable(name)), e(index(name)), var ∉ d
    "an unknown tensor frozen": ("@freeze(z)", "Freeze", "e(tns) = tns'"),
    "an unknown tensor thawed": ("@thaw(z)", "Thaw", "e(tns) = tns'"),
    "an unknown tensor declared": ("z .= 0.0", "Declare", "e(tns) = tns'"),
    "an unknown name": ("s .= 0.0\ns[] += z", "Variable", "e(variable(z))"),
    "an unknown name in a condition": ("if z\ns .= 0.0\nend", "Variable", "e(variable(z))"),
    "an unknown name of a call": (
        "s .= 0.0\nlet v = 2 * z\ns[] += v\nend",
        "Variable",
        "e(variable(z))",
    ),
    "an unknown name in an extent": (
        "s .= 0.0\nfor i = 1:z\ns[] += i\nend",
        "Variable",
        "e(variable(z))",
    ),
    "an unknown name for an extent": (
        "s .= 0.0\nfor i = z\ns[] += i\nend",
        "Variable",
        "e(variable(z))",
    ),
    "an unknown name in a dimension": ("@declare(x, 0.0, 1:z)", "Variable", "e(variable(z))"),
    "an unknown name for a value": ("s .= z", "Variable", "e(variable(z))"),
    "an unknown tensor read": ("s .= 0.0\ns[] += z[]", "Access", "e(tns) = tns'"),
    "an unknown tensor read in a loop": (LOOP.format("s[] += z[i]"), "Unfurl", "e(tns) = tns'"),
    "a let of a tensor's name": ("let x = t[]\ns .= x\nend", "Define", "x ∉ d"),
}


@HOSTS
@TABLES
@pytest.mark.parametrize("name", STUCK)
def test_stuck(name: str, which: str, host: str) -> None:
    program, rule, premise = STUCK[name]
    with pytest.raises(Stuck) as fault:
        run(program, host, which)
    assert (fault.value.rule, fault.value.premise) == (rule, premise)
    assert rule in str(fault.value) and premise in str(fault.value)


#: programs that no pass has looked at, with every premise kept
FINE = {
    "declare, update, freeze": "s .= 0.0\ns[] += 1.0\n@freeze(s)",
    "thaw, update, freeze": "@thaw(x)\n" + LOOP.format("x[i] += 1.0") + "\n@freeze(x)",
    "frozen and thawed again": "s .= 0.0\n@freeze(s)\n@thaw(s)\ns[] += 1.0\n@freeze(s)",
    "frozen and declared again": "s .= 0.0\n@freeze(s)\ns .= 0.0\n@freeze(s)",
    "a scope within a loop": "t .= 0.0\n"
    + LOOP.format("s .= 0.0\ns[] += x[i]\n@freeze(s)\nt[] += s[]")
    + "\n@freeze(t)",
    "a scope within a loop over what is stored": "t .= 0.0\n"
    + LOOP.format("s .= 0.0\ns[] += A[i]\n@freeze(s)\nt[] += s[]")
    + "\n@freeze(t)",
    "a scope within a sieve": "if t[] == 1\ns .= 0.0\n@freeze(s)\nend",
    "a let that is all of a scope": "let v = t[]\nbegin\n@thaw(s)\ns[] += v\n@freeze(s)\nend\nend",
    "a scope within a let": "t .= 0.0\nlet v = 1.0\nbegin\ns .= v\n@freeze(s)\nend\nend\n@freeze(t)",
}


@HOSTS
@TABLES
@pytest.mark.parametrize("name", FINE)
def test_not_stuck(name: str, which: str, host: str) -> None:
    state = run(FINE[name], host, which)
    assert all(tensor.mode == "read" for tensor in state.tensors.values())


@HOSTS
def test_mode(host: str) -> None:
    """⟨mode(tns), (e, t, d)⟩ → e(mode(tns))"""
    state = run("@thaw(x)", host)
    modes = {name: evaluate(Mode(Variable(name)), state).value for name in FORMATS}  # type: ignore[attr-defined]
    assert modes == {name: int(name == "x") for name in FORMATS}


def test_d_is_what_belongs_to_the_scope() -> None:
    """Declare adds to d, and what inner scopes declare is not in it."""
    assert run("s .= 0.0\n@freeze(s)").declared == set(FORMATS)
    inner = Define(Variable("v"), Literal(1), Block((Freeze(Variable("x")),)))
    with pytest.raises(Stuck, match="e\\(mode\\(x\\)\\) = update does not hold"):
        run(inner)


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(Stuck) as fault:
        run("@freeze(A)")
    assert str(fault.value) == (
        "Freeze is stuck at `@freeze(A)`: e(mode(A)) = update does not hold (A is in read mode)"
    )
